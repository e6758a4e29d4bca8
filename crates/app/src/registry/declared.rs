//! Described providers: those that come with Holdfast, and those of the operator's folder.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use anyhow::Context;
use holdfast_core::{Provider as _, visible::told_apart_by};
use holdfast_declared::{Declared, shipped};

use super::Source;

/// All of them, each id and each name once; `built_in`: ids and names of adapters in code.
pub(super) fn all(dir: Option<&Path>, built_in: &[(&str, &str)]) -> anyhow::Result<Vec<(Declared, Source)>> {
    let shipped = shipped().iter().map(|provider| (provider.about().id, (provider.clone(), Source::Shipped)));
    let mut all: BTreeMap<&str, (Declared, Source)> = shipped.collect();
    let mut texts = Vec::new();
    for file in dir.map(files).transpose()?.unwrap_or_default() {
        let (provider, text) = parse(&file, built_in)?;
        let id = provider.about().id;
        if let Some((_, Source::File(other))) = all.get(id) {
            let reason = format!("\"{id}\" is the id of {} too", other.display());
            let name = file.display().to_string();
            return Err(Declared::fault(&name, &text, "id", &reason, "remove one of the two files").into());
        }
        texts.push((id, text));
        all.insert(id, (provider, Source::File(file)));
    }
    // Not before all are read: one that takes the place of a shipped one frees that one's name.
    for (at, (id, text)) in texts.iter().enumerate() {
        let (provider, Source::File(file)) = &all[id] else { continue };
        let later = |other: &str| texts[at..].iter().any(|(id, _)| *id == other);
        let others = all.values().filter(|(other, _)| !later(other.about().id));
        let others = others.map(|(other, source)| (other.about().id, other.about().name, source.clone()));
        let others: Vec<_> = others.chain(of_code(built_in)).collect();
        called_its_own(file, text, provider, &others)?;
    }
    Ok(all.into_values().collect())
}

/// One file by itself, beside what comes along: adapters in code, and described ones.
pub fn read(file: &Path, built_in: &[(&str, &str)]) -> anyhow::Result<Declared> {
    let (provider, text) = parse(file, built_in)?;
    let about = shipped().iter().map(Declared::about).filter(|about| about.id != provider.about().id);
    let others: Vec<_> = about.map(|about| (about.id, about.name, Source::Shipped)).chain(of_code(built_in)).collect();
    called_its_own(file, &text, &provider, &others)?;
    Ok(provider)
}

/// Id, name, and where it comes from.
type Other<'a> = (&'a str, &'a str, Source);

fn of_code<'a>(built_in: &'a [(&str, &str)]) -> impl Iterator<Item = Other<'a>> {
    built_in.iter().map(|(id, name)| (*id, *name, Source::BuiltIn))
}

fn parse(file: &Path, built_in: &[(&str, &str)]) -> anyhow::Result<(Declared, String)> {
    let name = file.display().to_string();
    let text = fs::read_to_string(file).with_context(|| format!("{name} cannot be read"))?;
    let provider = Declared::read(&name, &text)?;
    let id = provider.about().id;
    if built_in.iter().any(|(taken, _)| *taken == id) {
        let reason = format!("\"{id}\" is an adapter of Holdfast's own, which no file replaces");
        return Err(Declared::fault(&name, &text, "id", &reason, "choose another id").into());
    }
    Ok((provider, text))
}

/// Refuses a name that people take for another's: in a list they see nothing else.
fn called_its_own(file: &Path, text: &str, provider: &Declared, others: &[Other]) -> anyhow::Result<()> {
    let called = provider.about().name;
    let alike = |name: &str| told_apart_by(name) == told_apart_by(called);
    let Some((id, _, source)) = others.iter().find(|(_, name, _)| alike(name)) else { return Ok(()) };
    let (whose, remedy) = match source {
        Source::BuiltIn => (format!("the adapter {id} of Holdfast's own"), CALL_IT.to_owned()),
        Source::Shipped => {
            (format!("the {id} that comes with Holdfast"), format!("{CALL_IT}, or take its id, and with it its place"))
        }
        Source::File(other) => (format!("{id} of {}", other.display()), CALL_IT.to_owned()),
    };
    let reason = format!("\"{called}\" looks like the name of {whose}");
    Err(Declared::fault(&file.display().to_string(), text, "name", &reason, &remedy).into())
}

const CALL_IT: &str = "choose a name that people can tell from it";

/// The `*.toml` of the folder, by name, in capitals as well. What begins with a dot is an editor's.
fn files(dir: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let folder = fs::read_dir(dir).with_context(|| format!("providers.dir: {} cannot be read", dir.display()))?;
    let mut files = Vec::new();
    for entry in folder {
        let path = entry.with_context(|| format!("providers.dir: {} cannot be read", dir.display()))?.path();
        let hidden = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'));
        if path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("toml")) && !hidden {
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
        let hubspot = MINE.replace("\"mine\"", "\"hubspot\"").replace("\"Mine\"", "\"My HubSpot\"");
        // The shipped one's name is free where its place is taken.
        let freed = MINE.replace("\"mine\"", "\"crm\"").replace("\"Mine\"", "\"HubSpot\"");
        let files =
            [("mine.toml", MINE), ("own.TOML", &hubspot), ("crm.Toml", &freed), ("notes.txt", "x"), (".m.toml", "x")];
        let dir = folder(&files);

        let all = all(Some(dir.path()), &[("zendesk", "Zendesk")]).unwrap();

        assert_eq!(all.len(), shipped().len() + 2);
        let of = |id: &str| &all.iter().find(|(provider, _)| provider.about().id == id).unwrap().1;
        assert_eq!(of("mine"), &Source::File(dir.path().join("mine.toml")));
        assert_eq!(of("hubspot"), &Source::File(dir.path().join("own.TOML")));
        assert_eq!(of("github"), &Source::Shipped);
    }

    #[test]
    fn what_is_wrong_in_a_folder_is_one_line_with_the_file() {
        let twice = refused(&[("a.toml", MINE), ("b.toml", MINE)]);
        assert!(twice.contains("b.toml: line 2: id: \"mine\" is the id of") && twice.contains("a.toml too"), "{twice}");
        let built_in = refused(&[("z.toml", &MINE.replace("\"mine\"", "\"zendesk\""))]);
        assert!(built_in.contains("z.toml: line 2: id: \"zendesk\" is an adapter of Holdfast's own"), "{built_in}");
        let key = refused(&[("a.toml", &MINE.replace("line =", "lime ="))]);
        assert!(key.contains("a.toml: line 4: lime: unknown field"), "{key}");
        let secret = refused(&[("a.toml", &MINE.replace("Ask.", "ghp_0123456789abcdef"))]);
        assert!(secret.contains("key_help: the value looks like a secret") && !secret.contains("ghp_"), "{secret}");
        let missing = format!("{:#}", all(Some(Path::new("/no/such/folder")), &[]).unwrap_err());
        assert!(missing.contains("providers.dir: /no/such/folder cannot be read"), "{missing}");
    }

    #[test]
    fn a_name_that_looks_like_anothers_is_refused_with_file_and_line() {
        let other = MINE.replace("\"mine\"", "\"other\"");
        for (name, whose) in [
            ("ZenDesk", "the adapter zendesk of Holdfast's own"),
            ("Zen desk", "the adapter zendesk of Holdfast's own"),
            ("slack", "the slack that comes with Holdfast; choose a name that people can tell from it, or take its id"),
            ("Git Hub", "the github that comes with Holdfast"),
            ("MINE", "mine of "),
            ("M ine", "mine of "),
        ] {
            let said = refused(&[("a.toml", MINE), ("b.toml", &other.replace("\"Mine\"", &format!("\"{name}\"")))]);
            let told = format!("b.toml: line 3: name: \"{name}\" looks like the name of {whose}");
            assert!(said.contains(&told), "{told} is not in {said}");
        }
        // The file alone, as `provider check` reads it.
        let dir = folder(&[
            ("slack.toml", &MINE.replace("\"Mine\"", "\"Slack \"")),
            ("s.TOML", &MINE.replace("Mine", "Slack")),
        ]);
        for (file, said) in [("slack.toml", "begins or ends with a space"), ("s.TOML", "the slack that comes with")] {
            let error = format!("{:#}", read(&dir.path().join(file), &[]).unwrap_err());
            assert!(error.contains(said) && error.contains("line 3: name"), "{error}");
        }
    }
}
