//! `[sign_in]`: what signs people in beside their passwords.

use std::path::PathBuf;

use holdfast_core::Role;
use secrecy::SecretString;
use serde::Deserialize;

use super::values::{self, optional, parsed};

/// `[sign_in]`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SignInConfig {
    /// `[sign_in.oidc]`; [`super::Config::oidc`] is what to use.
    pub oidc: OidcConfig,
}

/// `[sign_in.oidc]`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OidcConfig {
    /// To the letter, as the provider calls itself. Empty: there is none.
    #[serde(default, deserialize_with = "parsed::text")]
    pub issuer: String,
    /// Public.
    #[serde(default, deserialize_with = "parsed::text")]
    pub client_id: String,
    /// `None`: a public client.
    #[serde(default, deserialize_with = "optional::secret")]
    pub client_secret: Option<SecretString>,
    /// Where `client_secret` was read from.
    #[serde(default)]
    pub client_secret_file: Option<PathBuf>,
    /// On the button.
    #[serde(deserialize_with = "parsed::text")]
    pub name: String,
    /// With `openid`.
    #[serde(deserialize_with = "values::list")]
    pub scopes: Vec<String>,
    /// Passwords are for operators alone.
    #[serde(deserialize_with = "parsed::switch")]
    pub only: bool,
    /// Of the addresses that are taken; none: all.
    #[serde(deserialize_with = "values::list")]
    pub domains: Vec<String>,
    /// Whose business the second factor is.
    pub second_factor: SecondFactorBy,
    /// Where somebody new becomes a member ...
    #[serde(default, deserialize_with = "optional::text")]
    pub first_time_org: Option<String>,
    /// ... and what they may do. Neither: they have to be invited.
    #[serde(default)]
    pub first_time_role: Option<Role>,
}

/// Whose business the second factor is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SecondFactorBy {
    /// The provider's: none is asked for here, and its sign-in is enough where an org requires one.
    Provider,
    /// Ours, as after a password.
    Holdfast,
}

impl OidcConfig {
    /// Whether addresses of this one's domain are taken.
    pub fn takes(&self, email: &str) -> bool {
        let domain = email.rsplit_once('@').map_or("", |(_, domain)| domain);
        self.domains.is_empty() || self.domains.iter().any(|own| own.eq_ignore_ascii_case(domain))
    }

    /// Whether whoever comes from there shows their second factor here too.
    pub fn asks_for_second_factor(&self) -> bool {
        self.second_factor == SecondFactorBy::Holdfast
    }
}
