//! A file's keys, as they are written. What each means stands in `docs/providers.md`.

use std::collections::BTreeMap;

use serde::Deserialize;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct File {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) line: String,
    pub(crate) auth: AuthWord,
    pub(crate) account: AccountFile,
    pub(crate) base_url: String,
    #[serde(default)]
    pub(crate) base_url_field: Option<String>,
    #[serde(default)]
    pub(crate) host_suffixes: Vec<String>,
    #[serde(default)]
    pub(crate) closed_paths: Vec<String>,
    #[serde(default)]
    pub(crate) headers: BTreeMap<String, String>,
    #[serde(default)]
    pub(crate) key_help: Option<String>,
    #[serde(default)]
    pub(crate) app_steps: Vec<String>,
    #[serde(default)]
    pub(crate) key_header: Option<String>,
    #[serde(default)]
    pub(crate) user_label: Option<String>,
    #[serde(default)]
    pub(crate) user_example: Option<String>,
    #[serde(default)]
    pub(crate) authorize_url: Option<String>,
    #[serde(default)]
    pub(crate) token_url: Option<String>,
    #[serde(default)]
    pub(crate) revoke_url: Option<String>,
    #[serde(default)]
    pub(crate) revoke_by: Option<RevokeWord>,
    #[serde(default)]
    pub(crate) scopes: BTreeMap<String, String>,
    #[serde(default)]
    pub(crate) silent_scopes: Vec<String>,
    #[serde(default)]
    pub(crate) scope_separator: Option<String>,
    #[serde(default)]
    pub(crate) client_auth: Option<ClientAuthWord>,
    #[serde(default)]
    pub(crate) token_body: Option<TokenBodyWord>,
    #[serde(default)]
    pub(crate) pkce: Option<bool>,
    #[serde(default)]
    pub(crate) authorize_params: BTreeMap<String, String>,
    #[serde(default)]
    pub(crate) token_params: BTreeMap<String, String>,
    #[serde(default)]
    pub(crate) refresh_params: BTreeMap<String, String>,
    #[serde(default)]
    pub(crate) callback: BTreeMap<String, String>,
    #[serde(default)]
    pub(crate) rotation: Option<RotationWord>,
    #[serde(default)]
    pub(crate) reuse_grace_seconds: Option<u32>,
    #[serde(default)]
    pub(crate) expires_in_default: Option<u32>,
    #[serde(default)]
    pub(crate) refresh_expires_in_field: Option<String>,
    #[serde(default)]
    pub(crate) refresh_idle_days: Option<u32>,
    #[serde(default)]
    pub(crate) refresh_age_days: Option<u32>,
    #[serde(default)]
    pub(crate) rejected_codes: Vec<String>,
    #[serde(default)]
    pub(crate) app_codes: Vec<String>,
    pub(crate) test: TestFile,
    #[serde(default)]
    pub(crate) webhook: Option<WebhookFile>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum AuthWord {
    #[serde(rename = "oauth2")]
    OAuth2,
    ApiKey,
    Basic,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct AccountFile {
    pub(crate) label: String,
    pub(crate) example: String,
    pub(crate) rule: String,
    pub(crate) pattern: String,
    #[serde(default)]
    pub(crate) own_name: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum RevokeWord {
    Rfc7009,
    Form,
    Bearer,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ClientAuthWord {
    Body,
    Basic,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum TokenBodyWord {
    Form,
    Json,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum RotationWord {
    SingleUse,
    Reusable,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TestFile {
    #[serde(default)]
    pub(crate) method: Option<MethodWord>,
    #[serde(default)]
    pub(crate) path: Option<String>,
    #[serde(default)]
    pub(crate) url: Option<String>,
    #[serde(default)]
    pub(crate) ok: Option<String>,
    #[serde(default)]
    pub(crate) list: Option<String>,
    #[serde(default)]
    pub(crate) account: Vec<String>,
    #[serde(default)]
    pub(crate) account_is: Option<String>,
    #[serde(default)]
    pub(crate) account_name: Option<String>,
    #[serde(default)]
    pub(crate) user_id: Option<String>,
    #[serde(default)]
    pub(crate) name: Option<String>,
    #[serde(default)]
    pub(crate) email: Option<String>,
    #[serde(default)]
    pub(crate) role: Option<String>,
    #[serde(default)]
    pub(crate) find: BTreeMap<String, String>,
}

impl TestFile {
    /// For people: `GET users/me`.
    pub(crate) fn shown(&self) -> String {
        let method = if self.method == Some(MethodWord::Post) { "POST" } else { "GET" };
        let place = self.url.as_deref().or(self.path.as_deref()).unwrap_or_default();
        format!("{method} {place}")
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub(crate) enum MethodWord {
    #[serde(rename = "GET")]
    Get,
    #[serde(rename = "POST")]
    Post,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct WebhookFile {
    pub(crate) signature_header: String,
    pub(crate) encoding: EncodingWord,
    #[serde(default)]
    pub(crate) prefix: String,
    #[serde(default)]
    pub(crate) signed: Option<String>,
    #[serde(default)]
    pub(crate) timestamp_header: Option<String>,
    #[serde(default)]
    pub(crate) tolerance_seconds: Option<u32>,
    #[serde(default)]
    pub(crate) delivery_id_header: Option<String>,
    #[serde(default)]
    pub(crate) event_id: Option<String>,
    #[serde(default)]
    pub(crate) event_type: Option<String>,
    #[serde(default)]
    pub(crate) event_type_header: Option<String>,
    #[serde(default)]
    pub(crate) subject: Option<String>,
    #[serde(default)]
    pub(crate) repeats_after_seconds: Option<u32>,
    #[serde(default)]
    pub(crate) challenge_query: Option<String>,
    #[serde(default)]
    pub(crate) challenge_field: Option<String>,
    #[serde(default)]
    pub(crate) steps: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum EncodingWord {
    Hex,
    Base64,
}
