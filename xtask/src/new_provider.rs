//! `cargo xtask new-provider NAME`: an adapter with its sandbox and tests, wired in. What is written is a made-up provider
//! that compiles and passes at once; what to replace is marked REPLACE.

mod edit;
mod name;
mod template;
pub(crate) mod trial;

use std::{fs, path::Path, time::Duration};

use anyhow::{Context, bail};

use crate::{
    run,
    workspace::{Workspace, cargo},
};
use edit::{Edit, Place};
use name::Name;
use template::TEMPLATES;

/// How the made-up provider authenticates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    OAuth,
    Key,
}

pub(crate) fn run(name: &str, way: Way) -> anyhow::Result<bool> {
    let workspace = Workspace::read()?;
    let name = Name::read(name)?;
    write(&workspace.root, &name, way)?;
    let Name { id, module, .. } = &name;
    println!(
        "Written: crates/{id}, crates/sandbox/src/{module}, and what names them. Next:

  cargo test -p holdfast-{id}            it passes, as a made-up provider
  grep -rn REPLACE crates/{id} crates/sandbox/src/{module}

docs/providers.md, \"Add a provider in an hour\", has the steps."
    );
    Ok(true)
}

fn write(root: &Path, name: &Name, way: Way) -> anyhow::Result<()> {
    generate(root, name, way)?;
    // Names of other lengths than those of the templates break lines elsewhere.
    let package = format!("holdfast-{}", name.id);
    let formatted = ["holdfast-app", "holdfast-sandbox", package.as_str()];
    let packages = formatted.into_iter().flat_map(|package| ["-p", package]);
    run::must(cargo().arg("fmt").args(packages).current_dir(root), Duration::from_mins(2))
}

/// Writes everything, or nothing where something of it cannot be written.
fn generate(root: &Path, name: &Name, way: Way) -> anyhow::Result<()> {
    name.is_free(root)?;
    let mut changed = Vec::new();
    for Edit { file, place, text } in edits(name, way) {
        let path = root.join(file);
        let before = match changed.iter().find(|(known, _)| *known == path) {
            Some((_, text)) => String::clone(text),
            None => fs::read_to_string(&path).with_context(|| format!("{file} could not be read"))?,
        };
        let Some(after) = place.insert(&before, &text) else {
            bail!("{file} has changed: {place} is not there any more. Correct xtask/src/new_provider.rs.");
        };
        changed.retain(|(known, _)| *known != path);
        changed.push((path, after));
    }
    for template in TEMPLATES.iter().filter(|template| template.only.is_none_or(|only| only == way)) {
        changed.push((root.join(name.fill(template.path)), template.text(name, way)));
    }
    for (path, text) in changed {
        let folder = path.parent().context("every file lies in a folder")?;
        fs::create_dir_all(folder).with_context(|| format!("{} could not be made", folder.display()))?;
        fs::write(&path, text).with_context(|| format!("{} could not be written", path.display()))?;
    }
    Ok(())
}

/// What names the new crate and the new sandbox elsewhere.
fn edits(name: &Name, way: Way) -> Vec<Edit> {
    use Place::{Before, Row, Sorted};

    let (row, page) = match way {
        Way::OAuth => (
            "| @Name@ (`@id@`) | `acme` | OAuth 2.0 | works once | `find_contact` | `GET /v1/me` | `contacts:read` |",
            "    Other {\n        id: \"@id@\",\n        name: \"@Name@\",\n        account: ACME,\n        \
             note: \"Its page asks who is signed in: Ada is at Acme.\",\n        cut: None,\n        tokens: false,\n    },\n",
        ),
        Way::Key => (
            "| @Name@ (`@id@`) | `acme` | API key | none | `find_contact` | `GET /v1/me` | none |",
            "    Other {\n        id: \"@id@\",\n        name: \"@Name@\",\n        account: ACME,\n        \
             note: \"By key, as its settings show it.\",\n        cut: None,\n        tokens: false,\n    },\n",
        ),
    };
    let mut all = vec![
        ("Cargo.toml", Sorted("    \"crates/"), "    \"crates/@id@\",\n"),
        ("Cargo.toml", Sorted("holdfast-"), "holdfast-@id@ = { path = \"crates/@id@\" }\n"),
        ("crates/app/Cargo.toml", Sorted("holdfast-"), "holdfast-@id@.workspace = true\n"),
        ("crates/app/src/registry.rs", Sorted("use holdfast_"), "use holdfast_@mod@::@Type@;\n"),
        (
            "crates/app/src/registry.rs",
            Sorted("        Arc::new(at(config, "),
            "        Arc::new(at(config, \"@id@\", @Type@::new, @Type@::with_base)?),\n",
        ),
        (
            "crates/app/src/cli/demo.rs",
            Before("        (\"shopify\", "),
            "        (\"@id@\", sandbox.@mod@_override()),\n",
        ),
        (
            "tests/src/service.rs",
            Before("            (\"shopify\", "),
            "            (\"@id@\", sandbox.@mod@_override()),\n",
        ),
        ("docs/providers.md", Row, row),
        ("crates/sandbox/src/lib.rs", Sorted("mod "), "mod @mod@;\n"),
        ("crates/sandbox/src/lib.rs", Sorted("pub use "), "pub use @mod@::@Type@Rig;\n"),
        (
            "crates/sandbox/src/desk.rs",
            Before("    pub(crate) shops: Shops,"),
            "    pub(crate) @mod@: Mutex<crate::@mod@::State>,\n",
        ),
        (
            "crates/sandbox/src/desk.rs",
            Before("            shops: Shops::first(),"),
            "            @mod@: Mutex::default(),\n",
        ),
        (
            "crates/sandbox/src/desk.rs",
            Before("        self.shops.restore("),
            "        *locked(&self.@mod@) = state.@mod@;\n",
        ),
        (
            "crates/sandbox/src/desk.rs",
            Before("        self.shops.reset();"),
            "        *locked(&self.@mod@) = crate::@mod@::State::default();\n",
        ),
        (
            "crates/sandbox/src/keep.rs",
            Before("    /// Absent in files of before there were any.\n    #[serde(default)]\n    pub(crate) shops:"),
            "    /// Not in files of before.\n    #[serde(default)]\n    pub(crate) @mod@: crate::@mod@::State,\n",
        ),
        (
            "crates/sandbox/src/keep.rs",
            Before("            shops: world.shops.states(),"),
            "            @mod@: locked(&world.@mod@).clone(),\n",
        ),
        (
            "crates/sandbox/src/server.rs",
            Before("    /// A helpdesk that exists: "),
            "    /// What the operator setting `providers.@id@.base_url_override` has to be.
    pub fn @mod@_override(&self) -> String {
        format!(\"{}/@id@\", self.world.start.url)
    }

    /// Its @Name@.
    pub fn @mod@(&self) -> crate::@Type@Rig {
        crate::@Type@Rig::new(Arc::clone(&self.world))
    }

",
        ),
        (
            "crates/sandbox/src/server.rs",
            Before("        \"control\" => {"),
            "        \"@id@\" => crate::@mod@::serve(world, request).await,\n",
        ),
        ("crates/sandbox/src/server.rs", Before("/shopify/{shop} and /control"), "/@id@/{host}, "),
        ("crates/sandbox/src/control/others.rs", Before("    Other {\n        id: \"shopify\","), page),
    ];
    if way == Way::OAuth {
        all.push((
            "crates/sandbox/src/server.rs",
            Before("        _ => consent(world, authorize_url, user),"),
            "        Ok(url) if url.path().starts_with(\"/@id@/\") => crate::@mod@::consent::consent(world, &url, user),\n",
        ));
        all.push((
            "crates/sandbox/src/control/clients.rs",
            Before("    (\"zendesk\", \"Zendesk\"),"),
            "    (\"@id@\", \"@Name@\"),\n",
        ));
    } else {
        all.push((
            "crates/sandbox/src/control/others.rs",
            Before("        _ => None,\n    };\n    rows.map_or_else"),
            "        \"@id@\" => Some(each(locked(&world.@mod@).users(), |user| {
            row(format!(\"API key of {}\", user.name), &user.key)
        })),
",
        ));
    }
    all.into_iter().map(|(file, place, text)| Edit { file, place, text: name.fill(text) }).collect()
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::*;

    fn name() -> Name {
        Name::read("acme-crm").unwrap()
    }

    /// The files of this workspace that are changed, in a folder of their own.
    fn copied() -> TempDir {
        let ours = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let folder = TempDir::new().unwrap();
        for edit in edits(&name(), Way::OAuth).into_iter().chain(edits(&name(), Way::Key)) {
            let to = folder.path().join(edit.file);
            fs::create_dir_all(to.parent().unwrap()).unwrap();
            fs::copy(ours.join(edit.file), to).unwrap();
        }
        fs::copy(ours.join("Cargo.lock"), folder.path().join("Cargo.lock")).unwrap();
        folder
    }

    fn read(folder: &TempDir, file: &str) -> String {
        fs::read_to_string(folder.path().join(file)).unwrap()
    }

    #[test]
    fn all_names_are_put_in_and_no_mark_of_a_template_is_left() {
        for way in [Way::OAuth, Way::Key] {
            let folder = copied();
            generate(folder.path(), &name(), way).unwrap();
            for template in TEMPLATES {
                let file = name().fill(template.path);
                if template.only.is_some_and(|only| only != way) {
                    assert!(!folder.path().join(&file).exists(), "{file}");
                    continue;
                }
                let text = read(&folder, &file);
                let marks = ["@id@", "@mod@", "@Type@", "@Name@", "@if", "@end@", "todo!"];
                assert!(marks.iter().all(|mark| !text.contains(mark)), "{file}");
                assert!(!text.contains("\n\n\n") && text.ends_with('\n'), "{file}");
            }
            let lib = read(&folder, "crates/acme-crm/src/lib.rs");
            assert!(lib.contains("pub struct AcmeCrm {") && lib.contains("name: \"Acme Crm\""));
            assert_eq!(lib.contains("AuthKind::OAuth2"), way == Way::OAuth);
        }
    }

    #[test]
    fn the_new_provider_is_named_wherever_it_has_to_be_once() {
        let folder = copied();
        generate(folder.path(), &name(), Way::OAuth).unwrap();
        for (file, line) in [
            ("Cargo.toml", "members = [\n    \"crates/acme-crm\",\n"),
            ("Cargo.toml", "holdfast-acme-crm = { path = \"crates/acme-crm\" }\n"),
            ("crates/app/src/registry.rs", "\"acme-crm\", AcmeCrm::new, AcmeCrm::with_base"),
            ("crates/sandbox/src/server.rs", "\"acme-crm\" => crate::acme_crm::serve("),
            ("docs/providers.md", "| --- |\n| Acme Crm (`acme-crm`) |"),
        ] {
            assert_eq!(read(&folder, file).matches(line).count(), 1, "{file}: {line}");
        }
    }

    #[test]
    fn nothing_is_written_where_a_place_is_gone_or_the_name_is_taken() {
        let folder = copied();
        fs::write(folder.path().join("crates/sandbox/src/keep.rs"), "").unwrap();
        let refused = generate(folder.path(), &name(), Way::OAuth).unwrap_err().to_string();
        assert!(refused.contains("crates/sandbox/src/keep.rs has changed"), "{refused}");
        assert!(!folder.path().join("crates/acme-crm").exists());
        assert!(!read(&folder, "Cargo.toml").contains("acme-crm"));

        let folder = copied();
        generate(folder.path(), &name(), Way::Key).unwrap();
        let again = generate(folder.path(), &name(), Way::Key).unwrap_err().to_string();
        assert!(again.contains("crates/acme-crm exists"), "{again}");
    }
}
