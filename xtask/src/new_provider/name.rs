//! What the new provider is called, in all the forms that are needed.

use std::{fs, path::Path};

use anyhow::{Context, bail};

/// Lines with longer names do not fit.
const LONGEST: usize = 30;

const KEYWORDS: &[&str] = &[
    "abstract", "as", "async", "await", "become", "box", "break", "const", "continue", "crate", "do", "dyn", "else",
    "enum", "extern", "false", "final", "fn", "for", "gen", "if", "impl", "in", "let", "loop", "macro", "match", "mod",
    "move", "mut", "override", "priv", "pub", "ref", "return", "self", "static", "struct", "super", "trait", "true",
    "try", "type", "typeof", "union", "unsafe", "unsized", "use", "virtual", "where", "while", "yield",
];

/// Names of fields and methods of the sandbox that a provider's own would hide.
const SANDBOXS: &[&str] = &[
    "addr",
    "advance",
    "builder",
    "client",
    "consent",
    "counters",
    "deny",
    "find",
    "helpdesk",
    "helpdesks",
    "home",
    "keep",
    "keeper",
    "new",
    "now",
    "options",
    "reset",
    "restore",
    "seq",
    "serve",
    "shop",
    "shops",
    "start",
    "stop",
    "url",
];

#[derive(Debug)]
pub(super) struct Name {
    /// `help-scout`
    pub(super) id: String,
    /// `help_scout`
    pub(super) module: String,
    /// `HelpScout`
    kind: String,
    /// `Help Scout`
    shown: String,
}

impl Name {
    pub(super) fn read(id: &str) -> anyhow::Result<Self> {
        let plain = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'-';
        let fits = id.len() <= LONGEST && id.bytes().all(plain) && id.starts_with(|c: char| c.is_ascii_lowercase());
        if !fits || id.ends_with('-') || id.contains("--") {
            bail!(
                "\"{id}\" is no provider's name: expected up to {LONGEST} lower-case letters, digits and single hyphens, \
                 beginning with a letter, like help-scout"
            );
        }
        if KEYWORDS.contains(&id) || SANDBOXS.contains(&id) {
            bail!("\"{id}\" means something else in the code already; take a longer name, like {id}-api");
        }
        let words: Vec<String> = id.split('-').map(|word| word[..1].to_uppercase() + &word[1..]).collect();
        Ok(Self { id: id.to_owned(), module: id.replace('-', "_"), kind: words.concat(), shown: words.join(" ") })
    }

    /// Refuses a name that something has.
    pub(super) fn is_free(&self, root: &Path) -> anyhow::Result<()> {
        let id = &self.id;
        let sandbox = format!("crates/sandbox/src/{}", self.module);
        for place in [format!("crates/{id}"), format!("{sandbox}.rs"), sandbox] {
            if root.join(&place).exists() {
                bail!("{place} exists: take another name, or remove it first");
            }
        }
        let lock = fs::read_to_string(root.join("Cargo.lock")).context("Cargo.lock could not be read")?;
        if lock.contains(&format!("name = \"holdfast-{id}\"\n")) {
            bail!("there is a crate holdfast-{id} already: take another name");
        }
        if let Some(file) = declared(root, &format!("{id}.toml"))? {
            bail!("{file} declares a provider \"{id}\": a crate is not needed, or remove that file first");
        }
        Ok(())
    }

    pub(super) fn fill(&self, text: &str) -> String {
        let text = text.replace("@id@", &self.id).replace("@mod@", &self.module);
        text.replace("@Type@", &self.kind).replace("@Name@", &self.shown)
    }
}

/// A file of this name in a folder `providers`, wherever one is: there providers are declared.
fn declared(folder: &Path, file: &str) -> anyhow::Result<Option<String>> {
    let entries = fs::read_dir(folder).with_context(|| format!("{} could not be read", folder.display()))?;
    for entry in entries {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if !path.is_dir() || path.is_symlink() || name == "target" || name.starts_with('.') {
            continue;
        }
        let here = path.join(file);
        if name == "providers" && here.exists() {
            return Ok(Some(here.display().to_string()));
        }
        if let Some(found) = declared(&path, file)? {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_takes_the_form_of_each_place() {
        let name = Name::read("help-scout2").unwrap();
        assert_eq!(name.fill("@id@ @mod@ @Type@ @Name@"), "help-scout2 help_scout2 HelpScout2 Help Scout2");
    }

    #[test]
    fn what_is_no_name_is_refused_with_what_is() {
        let long = "a".repeat(31);
        for id in ["", "-a", "a-", "a--b", "1a", "A", "a_b", "a b", "ä", "../a", &long] {
            assert!(Name::read(id).unwrap_err().to_string().contains("help-scout"), "{id}");
        }
        for id in ["type", "reset"] {
            assert!(Name::read(id).unwrap_err().to_string().contains("something else"), "{id}");
        }
    }

    #[test]
    fn a_name_that_a_crate_a_sandbox_or_a_declared_provider_has_is_refused() {
        let ours = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        for id in ["front", "core", "clock", "control", "tests", "migrations"] {
            assert!(Name::read(id).unwrap().is_free(ours).is_err(), "{id}");
        }
        let folder = tempfile::TempDir::new().unwrap();
        fs::write(folder.path().join("Cargo.lock"), "").unwrap();
        fs::create_dir_all(folder.path().join("config/providers")).unwrap();
        let name = Name::read("notion").unwrap();
        name.is_free(folder.path()).unwrap();
        fs::write(folder.path().join("config/providers/notion.toml"), "").unwrap();
        assert!(name.is_free(folder.path()).unwrap_err().to_string().contains("notion.toml declares"));
    }
}
