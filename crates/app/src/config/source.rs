//! Where settings come from, and in which order.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
};

use figment::{
    Figment, Metadata, Profile, Provider,
    providers::{Format, Toml},
    value::{Dict, Map, Value},
};

use super::{
    DEFAULTS,
    error::{ConfigError, origin},
};

pub(super) const DEFAULT_NAME: &str = "config/default.toml";
pub(super) const ENVIRONMENT_NAME: &str = "environment";
const PREFIX: &str = "HOLDFAST_";
/// Names the file; no setting itself.
const CONFIG_VARIABLE: &str = "HOLDFAST_CONFIG";
/// Read from the working directory when no other file is named.
const DEFAULT_FILE: &str = "holdfast.toml";

/// Everything beside the compiled defaults. [`Default`]: nothing.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    file: Option<PathBuf>,
    environment: Vec<(String, String)>,
    flags: Vec<(&'static str, &'static str, String)>,
}

impl Sources {
    /// This process: the file that the flag names, else `HOLDFAST_CONFIG`, else `./holdfast.toml` if there is one; and
    /// the environment.
    pub fn of_process(config_flag: Option<&Path>) -> Self {
        let environment = environment(std::env::vars_os());
        let named = || environment.iter().find(|(name, value)| name == CONFIG_VARIABLE && !value.is_empty());
        let file = config_flag
            .map(Path::to_owned)
            .or_else(|| named().map(|(_, path)| path.into()))
            .or_else(|| Path::new(DEFAULT_FILE).exists().then(|| DEFAULT_FILE.into()));
        Self { file, environment, flags: Vec::new() }
    }

    /// Reads this file, which must exist.
    #[must_use]
    pub fn with_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.file = Some(path.into());
        self
    }

    /// As if the environment held it.
    #[must_use]
    pub fn with_variable(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.environment.push((name.into(), value.into()));
        self
    }

    /// A setting from the command line: `("--listen", "listen", "127.0.0.1:0")`. Wins over all others.
    #[must_use]
    pub fn with_flag(mut self, flag: &'static str, key: &'static str, value: impl Into<String>) -> Self {
        self.flags.push((flag, key, value.into()));
        self
    }

    /// The file that will be read.
    pub fn file(&self) -> Option<&Path> {
        self.file.as_deref()
    }
}

/// Only what is ours: the rest of the environment may be anything, in any encoding.
fn environment(all: impl Iterator<Item = (OsString, OsString)>) -> Vec<(String, String)> {
    let text = |(name, value): (OsString, OsString)| {
        let name = name.into_string().ok().filter(|name| name.starts_with(PREFIX))?;
        Some((name, value.to_string_lossy().into_owned()))
    };
    all.filter_map(text).collect()
}

/// The variable of a key.
pub(crate) fn variable(key: &str) -> String {
    format!("{PREFIX}{}", key.replace('.', "__").to_uppercase())
}

/// Kubernetes puts `HOLDFAST_SERVICE_HOST`, `HOLDFAST_PORT_8080_TCP` and their like into every pod that runs beside a
/// service called `holdfast`. They are none of ours, and must not stop the start as unknown keys.
fn is_service_link(name: &str) -> bool {
    name.starts_with("HOLDFAST_SERVICE_") || name == "HOLDFAST_PORT" || name.starts_with("HOLDFAST_PORT_")
}

/// One source, with a name for error messages.
struct Layer {
    name: String,
    values: Dict,
}

impl Provider for Layer {
    fn metadata(&self) -> Metadata {
        Metadata::named(self.name.clone())
    }

    fn data(&self) -> figment::Result<Map<Profile, Dict>> {
        Ok(Map::from([(Profile::Default, self.values.clone())]))
    }
}

impl Layer {
    fn toml(name: impl Into<String>, text: &str) -> Result<Self, ConfigError> {
        let name = name.into();
        let values = Toml::from_str(text).map_err(|error| {
            let line = error.span().map_or(1, |span| 1 + text[..span.start].matches('\n').count());
            ConfigError(format!("{name}: line {line}: {}", error.message()))
        })?;
        Ok(Self { name, values })
    }

    fn single<'a>(name: impl Into<String>, path: impl Iterator<Item = &'a str>, value: String) -> Self {
        let mut values = Dict::new();
        put(&mut values, path, value);
        Self { name: name.into(), values }
    }
}

/// Values stay text: a client secret of digits must not turn into a number.
fn put<'a>(dict: &mut Dict, mut path: impl Iterator<Item = &'a str>, value: String) {
    let mut dict = dict;
    let Some(mut key) = path.next() else { return };
    for next in path {
        let inner = dict.entry(key.to_owned()).or_insert_with(|| Dict::new().into());
        if inner.as_dict().is_none() {
            *inner = Dict::new().into();
        }
        let Value::Dict(_, inner) = inner else { return };
        dict = inner;
        key = next;
    }
    dict.insert(key.to_owned(), value.into());
}

/// All sources in order, secrets that stand in files included.
pub(super) fn merge(sources: &Sources) -> Result<Figment, ConfigError> {
    let mut figment = Figment::from(Layer::toml(DEFAULT_NAME, DEFAULTS)?);
    if let Some(path) = &sources.file {
        let text = std::fs::read_to_string(path)
            .map_err(|error| ConfigError(format!("{}: cannot be read: {error}", path.display())))?;
        figment = figment.merge(Layer::toml(path.display().to_string(), &text)?);
    }
    let mut values = Dict::new();
    for (name, value) in &sources.environment {
        if let Some(key) = name.strip_prefix(PREFIX)
            && name != CONFIG_VARIABLE
            && !value.is_empty()
            && !is_service_link(name)
        {
            put(&mut values, key.to_lowercase().split("__"), value.clone());
        }
    }
    figment = figment.merge(Layer { name: ENVIRONMENT_NAME.to_owned(), values });
    for (flag, key, value) in &sources.flags {
        figment = figment.merge(Layer::single(*flag, key.split('.'), value.clone()));
    }
    read_secret_files(figment)
}

/// Any secret may stand in a file: `KEY_file` names it, and takes the place of `KEY`.
fn read_secret_files(mut figment: Figment) -> Result<Figment, ConfigError> {
    let mut keys = [
        "master_key",
        "database.url",
        "database.listen_url",
        "lock.redis_url",
        "smtp.url",
        "sign_in.oidc.client_secret",
    ]
    .map(str::to_owned)
    .to_vec();
    if let Ok(Value::Dict(_, apps)) = figment.find_value("oauth_apps") {
        keys.extend(apps.keys().flat_map(|app| {
            ["client_secret", "next_client_secret"].map(|secret| format!("oauth_apps.{app}.{secret}"))
        }));
    }
    for key in keys {
        let file_key = format!("{key}_file");
        let Some(path) = figment.find_value(&file_key).ok().and_then(Value::into_string) else { continue };
        if figment.find_metadata(&key).is_some_and(|metadata| metadata.name != DEFAULT_NAME) {
            let other = origin(&figment, &key);
            return Err(ConfigError::at(
                &figment,
                &file_key,
                &format!("{key} is set too ({other}); set one of the two"),
            ));
        }
        let text = std::fs::read_to_string(&path)
            .map_err(|error| ConfigError::at(&figment, &file_key, &format!("{path} cannot be read: {error}")))?;
        if text.trim().is_empty() {
            return Err(ConfigError::at(&figment, &file_key, &format!("{path} is empty")));
        }
        figment = figment.merge(Layer::single(path, key.split('.'), text.trim().to_owned()));
    }
    Ok(figment)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_our_variables_are_read() {
        let all =
            [("PATH", "/bin"), ("HOLDFAST_LISTEN", "127.0.0.1:1")].map(|(name, value)| (name.into(), value.into()));

        assert_eq!(environment(all.into_iter()), [("HOLDFAST_LISTEN".to_owned(), "127.0.0.1:1".to_owned())]);
    }

    #[test]
    fn a_deeper_key_replaces_a_plain_value() {
        let mut dict = Dict::new();
        put(&mut dict, "a".split('.'), "1".to_owned());
        put(&mut dict, "a.b".split('.'), "2".to_owned());
        put(&mut dict, "a.c".split('.'), "3".to_owned());

        assert_eq!(Value::from(dict.clone()).find("a.b").and_then(Value::into_string).as_deref(), Some("2"));
        assert_eq!(Value::from(dict).find("a.c").and_then(Value::into_string).as_deref(), Some("3"));
    }
}
