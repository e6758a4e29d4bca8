//! Described providers: those that come with Holdfast, and those of the operator's folder.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use anyhow::Context;
use holdfast_core::Provider;
use holdfast_declared::{Declared, shipped};

use super::Source;

/// All of them, each id once; `taken`: ids and names of adapters in code.
pub(super) fn all(dir: Option<&Path>, taken: &[(&str, &str)]) -> anyhow::Result<Vec<(Declared, Source)>> {
    let shipped = shipped().iter().map(|provider| (provider.about().id, (provider.clone(), Source::Shipped)));
    let mut all: BTreeMap<&str, (Declared, Source)> = shipped.collect();
    for file in dir.map(files).transpose()?.unwrap_or_default() {
        let (provider, text) = read_with_text(&file, taken)?;
        let id = provider.about().id;
        if let Some((_, Source::File(other))) = all.get(id) {
            let reason = format!("\"{id}\" is the id of {} too", other.display());
            let name = file.display().to_string();
            return Err(Declared::fault(&name, &text, "id", &reason, "remove one of the two files").into());
        }
        all.insert(id, (provider, Source::File(file)));
    }
    Ok(all.into_values().collect())
}

/// One file, which has none of these ids and names.
pub fn read(file: &Path, taken: &[(&str, &str)]) -> anyhow::Result<Declared> {
    read_with_text(file, taken).map(|(provider, _)| provider)
}

fn read_with_text(file: &Path, taken: &[(&str, &str)]) -> anyhow::Result<(Declared, String)> {
    let name = file.display().to_string();
    let text = fs::read_to_string(file).with_context(|| format!("{name} cannot be read"))?;
    let provider = Declared::read(&name, &text)?;
    let (id, called) = (provider.about().id, provider.about().name);
    if taken.iter().any(|(taken, _)| *taken == id) {
        let reason = format!("\"{id}\" is an adapter of Holdfast's own, which no file replaces");
        return Err(Declared::fault(&name, &text, "id", &reason, "choose another id").into());
    }
    if let Some((taken, _)) = taken.iter().find(|(_, taken)| taken.eq_ignore_ascii_case(called)) {
        let reason = format!("\"{called}\" is what the adapter {taken} of Holdfast's own is called");
        let remedy = "choose a name that people can tell from it";
        return Err(Declared::fault(&name, &text, "name", &reason, remedy).into());
    }
    Ok((provider, text))
}

/// The `*.toml` of the folder, by name. What begins with a dot is an editor's.
fn files(dir: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let folder = fs::read_dir(dir).with_context(|| format!("providers.dir: {} cannot be read", dir.display()))?;
    let mut files = Vec::new();
    for entry in folder {
        let path = entry.with_context(|| format!("providers.dir: {} cannot be read", dir.display()))?.path();
        let hidden = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'));
        if path.extension().is_some_and(|extension| extension == "toml") && !hidden {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINE: &str = r#"
id = "mine"
name = "Mine"
line = "Made up"
auth = "api_key"
key_help = "Ask."
base_url = "https://{account}.mine.test"
test = { path = "me" }
account = { label = "Name", example = "acme", rule = "a name", pattern = '^[a-z]+$' }
"#;

    fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        for (name, text) in files {
            fs::write(dir.path().join(name), text).unwrap();
        }
        dir
    }

    fn refused(files: &[(&str, &str)]) -> String {
        let dir = folder(files);
        let error = format!("{:#}", all(Some(dir.path()), &[("zendesk", "Zendesk")]).unwrap_err());
        assert!(!error.contains('\n'), "{error}");
        error
    }

    #[test]
    fn a_folder_adds_providers_and_takes_the_place_of_shipped_ones() {
        let hubspot = MINE.replace("\"mine\"", "\"hubspot\"");
        let dir = folder(&[("mine.toml", MINE), ("own.toml", &hubspot), ("notes.txt", "x"), (".mine.toml", "x")]);

        let all = all(Some(dir.path()), &[("zendesk", "Zendesk")]).unwrap();

        assert_eq!(all.len(), shipped().len() + 1);
        let of = |id: &str| &all.iter().find(|(provider, _)| provider.about().id == id).unwrap().1;
        assert_eq!(of("mine"), &Source::File(dir.path().join("mine.toml")));
        assert_eq!(of("hubspot"), &Source::File(dir.path().join("own.toml")));
        assert_eq!(of("github"), &Source::Shipped);
    }

    #[test]
    fn what_is_wrong_in_a_folder_is_one_line_with_the_file() {
        let twice = refused(&[("a.toml", MINE), ("b.toml", MINE)]);
        assert!(twice.contains("b.toml: line 2: id: \"mine\" is the id of") && twice.contains("a.toml too"), "{twice}");
        let built_in = refused(&[("z.toml", &MINE.replace("\"mine\"", "\"zendesk\""))]);
        assert!(built_in.contains("z.toml: line 2: id: \"zendesk\" is an adapter of Holdfast's own"), "{built_in}");
        let called = refused(&[("y.toml", &MINE.replace("\"Mine\"", "\"ZenDesk\""))]);
        assert!(called.contains("y.toml: line 3: name: \"ZenDesk\" is what the adapter zendesk"), "{called}");
        let key = refused(&[("a.toml", &MINE.replace("line =", "lime ="))]);
        assert!(key.contains("a.toml: line 4: lime: unknown field"), "{key}");
        let secret = refused(&[("a.toml", &MINE.replace("Ask.", "ghp_0123456789abcdef"))]);
        assert!(secret.contains("key_help: the value looks like a secret") && !secret.contains("ghp_"), "{secret}");
        let missing = format!("{:#}", all(Some(Path::new("/no/such/folder")), &[]).unwrap_err());
        assert!(missing.contains("providers.dir: /no/such/folder cannot be read"), "{missing}");
    }
}
