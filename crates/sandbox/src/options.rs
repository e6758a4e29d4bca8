//! How strict the sandbox is, and what its OAuth client looks like.

use serde::{Deserialize, Serialize};

/// The identifier of the one OAuth client that is registered at start.
pub const CLIENT_ID: &str = "zdg-holdfast";
/// That client's secret until the control API changes it.
pub const CLIENT_SECRET: &str = "sandbox-secret";
/// The API token that every helpdesk accepts in Basic authentication.
pub const API_TOKEN: &str = "sandbox-api-token";

/// What new helpdesks hold.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Scene {
    /// A lot, and the same in every run: more than three pages of search.
    #[default]
    Tests,
    /// A morning at two companies that share no people: a few tickets, as of the moment when the sandbox starts, some of
    /// them urgent.
    Demo,
}

/// What can be switched, at start and later through the control API.
///
/// The defaults are the strictest reading of Zendesk's documentation.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, PartialEq, Eq)]
#[serde(default, deny_unknown_fields)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "independent switches, each with a name; there is no state machine in them"
)]
pub struct Options {
    /// Refuse an authorisation request without an S256 challenge.
    pub pkce_required: bool,
    /// Refuse unknown scopes with `invalid_scope`; off: issue a token whose calls all answer 403.
    pub strict_scopes: bool,
    /// A spent refresh token, or a spent code, that comes back kills the grant's newest tokens too.
    pub family_revocation: bool,
    /// Search wants plain `read`, a resource scope is not enough for it.
    pub search_needs_read: bool,
    /// For so long a spent refresh token buys the same new pair again; 0 is none, as with Zendesk.
    pub reuse_grace_secs: u32,
    /// Shortest life of an access token that may be asked for. Zendesk: 300.
    pub min_expires_in: u32,
    /// Longest life that an access token gets, whatever is asked for; 0: what is asked for. No provider's rule, but it
    /// makes tokens end often (RFC 6749 section 3.3 lets a server give less than is asked for).
    pub max_expires_in: u32,
    /// Shortest life of a refresh token that may be asked for. Zendesk: 604,800.
    pub min_refresh_expires_in: u32,
    /// Status of a successful token answer: 200, or 201 as the OpenAPI file says.
    pub success_status: u16,
    /// API calls per helpdesk and minute; 0 switches the limit off.
    pub rate_limit: u32,
    /// Of them, requests for incremental exports; 0 switches the limit off. With the high volume add-on, 30.
    pub export_limit: u32,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            pkce_required: true,
            strict_scopes: true,
            family_revocation: true,
            search_needs_read: true,
            reuse_grace_secs: 0,
            min_expires_in: 300,
            max_expires_in: 0,
            min_refresh_expires_in: 604_800,
            success_status: 200,
            rate_limit: 700,
            export_limit: 10,
        }
    }
}
