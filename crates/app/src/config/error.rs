//! What is wrong with the configuration, as one line: where, which key, what is allowed.

use figment::{Figment, error::Kind};

use super::source::{DEFAULT_NAME, ENVIRONMENT_NAME, variable};

/// The configuration cannot be used. One line for the operator; never holds a secret's value.
#[derive(Debug, PartialEq, Eq)]
pub struct ConfigError(pub(super) String);

impl std::fmt::Display for ConfigError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // A file name or a value may hold a line break; the promise of one line holds all the same.
        f.write_str(&self.0.replace(['\n', '\r'], " "))
    }
}

impl std::error::Error for ConfigError {}

impl ConfigError {
    pub(super) fn at(figment: &Figment, key: &str, problem: &str) -> Self {
        Self(format!("{}: {key}: {problem}", origin(figment, key)))
    }

    pub(super) fn from_figment(figment: &Figment, error: figment::Error) -> Self {
        let mut path = error.path;
        let problem = match error.kind {
            Kind::UnknownField(field, known) => {
                // figment has put the key that it was reading into the path; it is this very one.
                if path.last() != Some(&field) {
                    path.push(field);
                }
                format!("there is no such key; the keys here are {}", known.join(", "))
            }
            Kind::MissingField(field) => {
                path.push(field.into_owned());
                "is missing".to_owned()
            }
            Kind::UnknownVariant(value, known) => format!("\"{value}\" is not known; allowed is {}", known.join(", ")),
            Kind::InvalidType(_, allowed) | Kind::InvalidValue(_, allowed) if is_secret(&path) => {
                format!("not usable; allowed is {allowed}")
            }
            Kind::InvalidType(actual, allowed) | Kind::InvalidValue(actual, allowed) => {
                format!("{actual} is not usable; allowed is {allowed}")
            }
            other => other.to_string(),
        };
        let key = path.join(".");
        let found = figment.find_metadata(&key).is_some();
        match error.metadata {
            Some(metadata) if !found => Self(format!("{}: {key}: {problem}", named(&metadata.name, &key))),
            _ => Self::at(figment, &key, &problem),
        }
    }
}

/// Where a key was set, as the operator knows the place.
pub(super) fn origin(figment: &Figment, key: &str) -> String {
    figment.find_metadata(key).map_or_else(|| "configuration".to_owned(), |metadata| named(&metadata.name, key))
}

fn named(name: &str, key: &str) -> String {
    match name {
        ENVIRONMENT_NAME => variable(key),
        DEFAULT_NAME => "default".to_owned(),
        name => name.to_owned(),
    }
}

fn is_secret(path: &[String]) -> bool {
    path.last().is_some_and(|key| key.contains("secret") || key.contains("key") || key.ends_with("url"))
}
