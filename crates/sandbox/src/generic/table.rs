//! What each service is like. A row says what its documentation says, or what is generally known of it.

use serde_json::{Value, json};

/// One service.
#[derive(Debug)]
pub(super) struct Service {
    pub(super) id: &'static str,
    pub(super) authorize: Place,
    pub(super) token: Place,
    pub(super) api: Host,
    pub(super) secret: Secret,
    pub(super) written: Written,
    /// `None`: permissions are chosen in the app's settings, and a `scope` is no parameter.
    pub(super) scope_separator: Option<char>,
    /// Whether it knows RFC 7636.
    pub(super) pkce: bool,
    /// Further parameters of an authorisation request, and the values that each may have; none: any.
    pub(super) params: &'static [(&'static str, &'static [&'static str])],
    pub(super) lasting: Lasting,
    /// Life of an access token; `None`: it does not end.
    pub(super) life_secs: Option<i64>,
    /// Whether an answer tells that life.
    pub(super) tells_life: bool,
    pub(super) refresh: Refresh,
    /// A field that tells the refresh token's life, and its value.
    pub(super) tells_refresh_life: Option<(&'static str, i64)>,
    /// Whether an answer names what was granted, and whether `offline_access` is among it.
    pub(super) tells_scope: Option<bool>,
    pub(super) dead: Refusal,
    pub(super) wrong_code: Refusal,
    pub(super) wrong_client: Refusal,
}

#[derive(Debug)]
pub(super) struct Place {
    pub(super) host: Host,
    pub(super) path: &'static str,
}

#[derive(Debug)]
pub(super) enum Host {
    Is(&'static str),
    /// A label and this.
    Below(&'static [&'static str]),
    /// One of these.
    Among(&'static [&'static str]),
    None,
}

impl Host {
    fn covers(&self, host: &str) -> bool {
        match self {
            Self::Is(name) => *name == host,
            Self::Below(ends) => ends.iter().any(|end| host.len() > end.len() && host.ends_with(end)),
            Self::Among(names) => names.contains(&host),
            Self::None => false,
        }
    }
}

/// Where the client's secret goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Secret {
    Body,
    Basic,
}

/// How token requests are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Written {
    Form,
    Json,
    Either,
}

/// What brings a refresh token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lasting {
    Never,
    Always,
    Scope(&'static str),
    Param(&'static str, &'static str),
}

/// What becomes of a refresh token that is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refresh {
    /// It stays, and no new one comes.
    Kept,
    /// A new one comes, and the old one stays good.
    Another,
    /// It is spent, and may be sent again for so many seconds.
    Spent { grace_secs: i64 },
}

/// A refusal of the token endpoint.
#[derive(Clone, Copy, Debug)]
pub(super) struct Refusal {
    pub(super) status: u16,
    pub(super) code: &'static str,
    pub(super) words: &'static str,
    pub(super) shape: Shape,
}

/// How a refusal is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    /// RFC 6749, 5.2.
    Standard,
    /// `ok: false`.
    Slack,
    /// Both styles at once.
    HubSpot,
    /// With numbers.
    Microsoft,
}

impl Refusal {
    pub(super) fn body(self) -> Value {
        let Self { code, words, .. } = self;
        match self.shape {
            Shape::Standard => json!({"error": code, "error_description": words}),
            Shape::Slack => json!({"ok": false, "error": code}),
            Shape::HubSpot => json!({"error": code, "error_description": words, "status": "BAD_REFRESH_TOKEN",
                "message": words, "correlationId": "0f4a"}),
            Shape::Microsoft => json!({"error": code, "error_description": format!("AADSTS700082: {words}"),
                "error_codes": [700_082], "trace_id": "1", "correlation_id": "2"}),
        }
    }
}

const fn refusal(status: u16, code: &'static str, words: &'static str, shape: Shape) -> Refusal {
    Refusal { status, code, words, shape }
}

const INVALID_GRANT: Refusal = refusal(400, "invalid_grant", "The token is expired or revoked.", Shape::Standard);
const INVALID_CLIENT: Refusal = refusal(401, "invalid_client", "The client is not known.", Shape::Standard);

/// A service of the most usual kind, to be changed.
const USUAL: Service = Service {
    id: "",
    authorize: Place { host: Host::None, path: "" },
    token: Place { host: Host::None, path: "" },
    api: Host::None,
    secret: Secret::Body,
    written: Written::Form,
    scope_separator: Some(' '),
    pkce: true,
    params: &[],
    lasting: Lasting::Always,
    life_secs: Some(3600),
    tells_life: true,
    refresh: Refresh::Kept,
    tells_refresh_life: None,
    tells_scope: Some(true),
    dead: INVALID_GRANT,
    wrong_code: INVALID_GRANT,
    wrong_client: INVALID_CLIENT,
};

const ZOHO_ACCOUNTS: &[&str] = &[
    "accounts.zoho.com",
    "accounts.zoho.eu",
    "accounts.zoho.in",
    "accounts.zoho.com.au",
    "accounts.zoho.com.cn",
    "accounts.zoho.jp",
];
const ZOHO_APIS: &[&str] = &[
    "www.zohoapis.com",
    "www.zohoapis.eu",
    "www.zohoapis.in",
    "www.zohoapis.com.au",
    "www.zohoapis.com.cn",
    "www.zohoapis.jp",
];
const OKTA: &[&str] = &[".okta.com", ".oktapreview.com", ".okta-emea.com"];
const SALESFORCE: &[&str] = &[".my.salesforce.com"];
const AUTH0: &[&str] = &[".auth0.com"];

pub(super) static SERVICES: &[Service] = &[
    Service {
        id: "intercom",
        authorize: Place {
            host: Host::Among(&["app.intercom.com", "app.eu.intercom.com", "app.au.intercom.com"]),
            path: "oauth",
        },
        token: Place {
            host: Host::Among(&["api.intercom.io", "api.eu.intercom.io", "api.au.intercom.io"]),
            path: "auth/eagle/token",
        },
        api: Host::Among(&["api.intercom.io", "api.eu.intercom.io", "api.au.intercom.io"]),
        scope_separator: None,
        pkce: false,
        lasting: Lasting::Never,
        life_secs: None,
        tells_scope: None,
        ..USUAL
    },
    Service {
        id: "hubspot",
        authorize: Place { host: Host::Is("app.hubspot.com"), path: "oauth/authorize" },
        token: Place { host: Host::Is("api.hubapi.com"), path: "oauth/2026-03/token" },
        api: Host::Is("api.hubapi.com"),
        params: &[("optional_scope", &[])],
        life_secs: Some(1800),
        tells_scope: None,
        dead: refusal(400, "invalid_grant", "missing or invalid refresh token", Shape::HubSpot),
        ..USUAL
    },
    // With token rotation on.
    Service {
        id: "slack",
        authorize: Place { host: Host::Is("slack.com"), path: "oauth/v2/authorize" },
        token: Place { host: Host::Is("slack.com"), path: "api/oauth.v2.access" },
        api: Host::Is("slack.com"),
        scope_separator: Some(','),
        pkce: false,
        params: &[("user_scope", &[]), ("team", &[])],
        life_secs: Some(43_200),
        refresh: Refresh::Spent { grace_secs: 0 },
        dead: refusal(200, "token_revoked", "", Shape::Slack),
        wrong_code: refusal(200, "invalid_code", "", Shape::Slack),
        wrong_client: refusal(200, "bad_client_secret", "", Shape::Slack),
        ..USUAL
    },
    Service {
        id: "salesforce",
        authorize: Place { host: Host::Below(SALESFORCE), path: "services/oauth2/authorize" },
        token: Place { host: Host::Below(SALESFORCE), path: "services/oauth2/token" },
        api: Host::Below(SALESFORCE),
        params: &[("prompt", &["consent", "login"])],
        lasting: Lasting::Scope("refresh_token"),
        life_secs: Some(7200),
        tells_life: false,
        dead: refusal(400, "invalid_grant", "expired access/refresh token", Shape::Standard),
        wrong_client: refusal(400, "invalid_client", "invalid client credentials", Shape::Standard),
        ..USUAL
    },
    Service {
        id: "helpscout",
        authorize: Place { host: Host::Is("secure.helpscout.net"), path: "authentication/authorizeClientApplication" },
        token: Place { host: Host::Is("api.helpscout.net"), path: "v2/oauth2/token" },
        api: Host::Is("api.helpscout.net"),
        written: Written::Either,
        scope_separator: None,
        pkce: false,
        life_secs: Some(172_800),
        refresh: Refresh::Spent { grace_secs: 0 },
        tells_scope: None,
        ..USUAL
    },
    Service {
        id: "jira-service-management",
        authorize: Place { host: Host::Is("auth.atlassian.com"), path: "authorize" },
        token: Place { host: Host::Is("auth.atlassian.com"), path: "oauth/token" },
        api: Host::Is("api.atlassian.com"),
        written: Written::Json,
        params: &[("audience", &["api.atlassian.com"]), ("prompt", &["consent"])],
        lasting: Lasting::Scope("offline_access"),
        refresh: Refresh::Spent { grace_secs: 600 },
        tells_scope: Some(false),
        dead: refusal(403, "invalid_grant", "Unknown or invalid refresh token.", Shape::Standard),
        ..USUAL
    },
    Service {
        id: "microsoft-graph",
        authorize: Place { host: Host::Is("login.microsoftonline.com"), path: "organizations/oauth2/v2.0/authorize" },
        token: Place { host: Host::Is("login.microsoftonline.com"), path: "organizations/oauth2/v2.0/token" },
        api: Host::Is("graph.microsoft.com"),
        params: &[("response_mode", &["query"]), ("prompt", &["select_account", "consent"]), ("login_hint", &[])],
        lasting: Lasting::Scope("offline_access"),
        life_secs: Some(4210),
        refresh: Refresh::Another,
        tells_scope: Some(false),
        dead: refusal(400, "invalid_grant", "The refresh token has expired due to inactivity.", Shape::Microsoft),
        wrong_client: refusal(401, "invalid_client", "Invalid client secret provided.", Shape::Microsoft),
        ..USUAL
    },
    Service {
        id: "xero",
        authorize: Place { host: Host::Is("login.xero.com"), path: "identity/connect/authorize" },
        token: Place { host: Host::Is("identity.xero.com"), path: "connect/token" },
        api: Host::Is("api.xero.com"),
        secret: Secret::Basic,
        lasting: Lasting::Scope("offline_access"),
        life_secs: Some(1800),
        refresh: Refresh::Spent { grace_secs: 1800 },
        ..USUAL
    },
    Service {
        id: "quickbooks",
        authorize: Place { host: Host::Is("appcenter.intuit.com"), path: "connect/oauth2" },
        token: Place { host: Host::Is("oauth.platform.intuit.com"), path: "oauth2/v1/tokens/bearer" },
        api: Host::Is("quickbooks.api.intuit.com"),
        secret: Secret::Basic,
        pkce: false,
        refresh: Refresh::Spent { grace_secs: 0 },
        tells_refresh_life: Some(("x_refresh_token_expires_in", 8_726_400)),
        tells_scope: None,
        ..USUAL
    },
    Service {
        id: "okta",
        authorize: Place { host: Host::Below(OKTA), path: "oauth2/v1/authorize" },
        token: Place { host: Host::Below(OKTA), path: "oauth2/v1/token" },
        api: Host::Below(OKTA),
        secret: Secret::Basic,
        lasting: Lasting::Scope("offline_access"),
        refresh: Refresh::Spent { grace_secs: 30 },
        ..USUAL
    },
    Service {
        id: "auth0",
        authorize: Place { host: Host::Below(AUTH0), path: "authorize" },
        token: Place { host: Host::Below(AUTH0), path: "oauth/token" },
        api: Host::Below(AUTH0),
        params: &[("audience", &[])],
        lasting: Lasting::Scope("offline_access"),
        life_secs: Some(86_400),
        refresh: Refresh::Spent { grace_secs: 0 },
        dead: refusal(403, "invalid_grant", "Unknown or invalid refresh token.", Shape::Standard),
        ..USUAL
    },
    Service {
        id: "github",
        authorize: Place { host: Host::Is("github.com"), path: "login/oauth/authorize" },
        token: Place { host: Host::Is("github.com"), path: "login/oauth/access_token" },
        api: Host::Is("api.github.com"),
        scope_separator: None,
        params: &[("login", &[]), ("allow_signup", &[])],
        life_secs: Some(28_800),
        refresh: Refresh::Spent { grace_secs: 0 },
        tells_refresh_life: Some(("refresh_token_expires_in", 15_897_600)),
        tells_scope: None,
        dead: refusal(200, "bad_refresh_token", "The refresh token passed is incorrect or expired.", Shape::Standard),
        wrong_code: refusal(200, "bad_verification_code", "The code passed is incorrect or expired.", Shape::Standard),
        wrong_client: refusal(
            200,
            "incorrect_client_credentials",
            "The client_id and/or client_secret passed are incorrect.",
            Shape::Standard,
        ),
        ..USUAL
    },
    Service {
        id: "notion",
        authorize: Place { host: Host::Is("api.notion.com"), path: "v1/oauth/authorize" },
        token: Place { host: Host::Is("api.notion.com"), path: "v1/oauth/token" },
        api: Host::Is("api.notion.com"),
        secret: Secret::Basic,
        written: Written::Json,
        scope_separator: None,
        pkce: false,
        params: &[("owner", &["user"])],
        lasting: Lasting::Never,
        life_secs: None,
        tells_scope: None,
        ..USUAL
    },
    Service {
        id: "dropbox",
        authorize: Place { host: Host::Is("www.dropbox.com"), path: "oauth2/authorize" },
        token: Place { host: Host::Is("api.dropboxapi.com"), path: "oauth2/token" },
        api: Host::Is("api.dropboxapi.com"),
        params: &[("token_access_type", &["online", "offline"])],
        lasting: Lasting::Param("token_access_type", "offline"),
        life_secs: Some(14_400),
        dead: refusal(400, "invalid_grant", "refresh token is invalid or revoked", Shape::Standard),
        ..USUAL
    },
    Service {
        id: "zoho",
        authorize: Place { host: Host::Among(ZOHO_ACCOUNTS), path: "oauth/v2/auth" },
        token: Place { host: Host::Among(ZOHO_ACCOUNTS), path: "oauth/v2/token" },
        api: Host::Among(ZOHO_APIS),
        scope_separator: Some(','),
        pkce: false,
        params: &[("access_type", &["offline", "online"]), ("prompt", &["consent"])],
        lasting: Lasting::Param("access_type", "offline"),
        tells_scope: None,
        dead: refusal(200, "invalid_code", "", Shape::Standard),
        wrong_code: refusal(200, "invalid_code", "", Shape::Standard),
        wrong_client: refusal(200, "invalid_client_secret", "", Shape::Standard),
        ..USUAL
    },
    Service { id: "stripe", api: Host::Is("api.stripe.com"), ..USUAL },
    Service { id: "openai", api: Host::Is("api.openai.com"), ..USUAL },
];

/// What a request is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    Authorize,
    Token,
    Api,
}

/// Whose this address is.
pub(super) fn find(host: &str, path: &str) -> Option<(&'static Service, Role)> {
    let at = |place: &Place| place.host.covers(host) && place.path == path;
    let role = |service: &Service| {
        if at(&service.authorize) {
            Some(Role::Authorize)
        } else if at(&service.token) {
            Some(Role::Token)
        } else {
            service.api.covers(host).then_some(Role::Api)
        }
    };
    SERVICES.iter().find_map(|service| Some((service, role(service)?)))
}
