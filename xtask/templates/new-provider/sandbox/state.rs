@if oauth@
//! People, contacts, codes and grants. Every moment is passed in; nothing here waits or answers.

use std::collections::HashMap;

@end@
@if key@
//! People with their keys, and contacts. Nothing here waits or answers.

@end@
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use serde::{Deserialize, Serialize};

use crate::clock::random_bytes;
@if oauth@
use crate::ledger::pkce_challenge;
@end@

@if oauth@
/// REPLACE: how long a code is good.
const CODE_LIFE_MS: i64 = 300_000;
/// REPLACE: how long an access token lives.
pub(super) const ACCESS_SECS: i64 = 3600;
@end@

/// What everybody finds: id, name, address.
const CONTACTS: [(u64, &str, &str); 4] = [
    (11, "Mira Castellan", "mira@example.com"),
    (12, "Mira C.", "mira@example.com"),
    (13, "Omar Idris", "omar@example.com"),
    (14, "M. Castellan", "Mira@example.com"),
];

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct User {
    pub(crate) id: u64,
    pub(crate) name: String,
    pub(crate) email: String,
    /// The first label of its address.
    pub(crate) workspace: String,
@if key@
    pub(crate) key: String,
@end@
}

impl User {
    pub(super) fn workspace_name(&self) -> String {
        self.workspace[..1].to_uppercase() + &self.workspace[1..]
    }

    /// Only Acme has any.
    pub(super) fn contacts(&self) -> &'static [(u64, &'static str, &'static str)] {
        if self.workspace == "acme" { &CONTACTS } else { &[] }
    }
}
@if oauth@

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Code {
    user: u64,
    redirect_uri: String,
    challenge: String,
    ends_ms: i64,
}

/// What one consent brought.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Grant {
    user: u64,
    access_token: String,
    access_ends_ms: i64,
    refresh_token: String,
    /// Refresh tokens of before. One that comes again ends the grant.
    spent: Vec<String>,
    dead: bool,
}

impl Grant {
    fn brought(&self) -> Brought {
        Brought { access_token: self.access_token.clone(), refresh_token: self.refresh_token.clone() }
    }
}

/// What an exchange or a refresh brings.
#[derive(Debug, Clone)]
pub(super) struct Brought {
    pub(super) access_token: String,
    pub(super) refresh_token: String,
}
@end@

/// All of it. `Default` is the first moment.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct State {
    users: Vec<User>,
@if oauth@
    codes: HashMap<String, Code>,
    grants: Vec<Grant>,
@end@
}

impl Default for State {
    fn default() -> Self {
        let user = |id, name: &str, email: &str, workspace: &str| User {
            id,
            name: name.to_owned(),
            email: email.to_owned(),
            workspace: workspace.to_owned(),
@if key@
            key: secret(),
@end@
        };
        Self {
            users: vec![
                user(1, "Ada Admin", "ada@acme.example", "acme"),
                user(2, "Gita Globex", "gita@globex.example", "globex"),
            ],
@if oauth@
            codes: HashMap::new(),
            grants: Vec::new(),
@end@
        }
    }
}

impl State {
    pub(crate) fn users(&self) -> &[User] {
        &self.users
    }

    /// By id, address or the start of a name.
    pub(super) fn find(&self, who: &str) -> Option<&User> {
        let lower = who.to_lowercase();
        let fits = |user: &&User| {
            user.id.to_string() == who || user.email == lower || user.name.to_lowercase().starts_with(&lower)
        };
        self.users.iter().find(fits)
    }

@if oauth@
    pub(super) fn new_code(&mut self, user: u64, redirect_uri: &str, challenge: &str, now_ms: i64) -> String {
        let code = secret();
        let (redirect_uri, challenge) = (redirect_uri.to_owned(), challenge.to_owned());
        let known = Code { user, redirect_uri, challenge, ends_ms: now_ms + CODE_LIFE_MS };
        self.codes.insert(code.clone(), known);
        code
    }

    /// A grant for a code, which is spent by being shown.
    pub(super) fn redeem(&mut self, code: &str, redirect_uri: &str, verifier: &str, now_ms: i64) -> Option<Brought> {
        let code = self.codes.remove(code)?;
        let proven = pkce_challenge(verifier) == code.challenge;
        if now_ms >= code.ends_ms || code.redirect_uri != redirect_uri || !proven {
            return None;
        }
        let grant = Grant {
            user: code.user,
            access_token: secret(),
            access_ends_ms: now_ms + ACCESS_SECS * 1000,
            refresh_token: secret(),
            spent: Vec::new(),
            dead: false,
        };
        let brought = grant.brought();
        self.grants.push(grant);
        Some(brought)
    }

    /// Replaces both tokens of a grant.
    pub(super) fn refresh(&mut self, token: &str, now_ms: i64) -> Option<Brought> {
        if let Some(reused) = self.grants.iter_mut().find(|grant| grant.spent.iter().any(|spent| spent == token)) {
            reused.dead = true;
            return None;
        }
        let grant = self.grants.iter_mut().find(|grant| !grant.dead && grant.refresh_token == token)?;
        grant.spent.push(std::mem::replace(&mut grant.refresh_token, secret()));
        grant.access_token = secret();
        grant.access_ends_ms = now_ms + ACCESS_SECS * 1000;
        Some(grant.brought())
    }

    /// Whose access token it is.
    pub(super) fn bearer(&self, token: &str, now_ms: i64) -> Option<&User> {
        let fits = |grant: &&Grant| !grant.dead && grant.access_token == token && now_ms < grant.access_ends_ms;
        let grant = self.grants.iter().find(fits)?;
        self.users.iter().find(|user| user.id == grant.user)
    }

    pub(super) fn is_alive(&self, refresh_token: &str) -> bool {
        self.grants.iter().any(|grant| !grant.dead && grant.refresh_token == refresh_token)
    }

    /// Ends all grants of one person.
    pub(super) fn revoke(&mut self, user: u64) {
        for grant in self.grants.iter_mut().filter(|grant| grant.user == user) {
            grant.dead = true;
        }
    }
@end@
@if key@
    /// Whose key it is.
    pub(super) fn bearer(&self, key: &str) -> Option<&User> {
        self.users.iter().find(|user| user.key == key)
    }

    /// Another key for the same person; the one of before is dead.
    pub(super) fn reset_key(&mut self, user: u64) {
        for user in self.users.iter_mut().filter(|one| one.id == user) {
            user.key = secret();
        }
    }
@end@
}

fn secret() -> String {
    BASE64.encode(random_bytes::<32>())
}
