//! Users, persons, codes and grants. Every moment is passed in; nothing here waits or answers.

use std::collections::HashMap;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use serde::{Deserialize, Serialize};

use crate::clock::random_bytes;

/// How long a code is good.
const CODE_LIFE_MS: i64 = 300_000;
/// How long an access token lives.
pub(super) const ACCESS_SECS: i64 = 3600;
/// A refresh token that is unused for so long has ended.
const IDLE_MS: i64 = 60 * 86_400_000;

/// What Acme has: id, name, address.
const PERSONS: [(u64, &str, &str); 4] = [
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
    pub(crate) company: String,
}

impl User {
    pub(super) fn company_name(&self) -> String {
        self.company[..1].to_uppercase() + &self.company[1..]
    }

    /// Only Acme has any.
    pub(super) fn persons(&self) -> &'static [(u64, &'static str, &'static str)] {
        if self.company == "acme" { &PERSONS } else { &[] }
    }
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Code {
    user: u64,
    redirect_uri: String,
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
    used_at_ms: i64,
    dead: bool,
}

/// What an exchange or a refresh brings.
#[derive(Debug, Clone)]
pub(super) struct Brought {
    pub(super) access_token: String,
    pub(super) refresh_token: String,
    /// Its domain.
    pub(super) company: String,
}

/// All of it. `Default` is the first moment.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct State {
    users: Vec<User>,
    codes: HashMap<String, Code>,
    grants: Vec<Grant>,
}

impl Default for State {
    fn default() -> Self {
        let user = |id, name: &str, email: &str, company: &str| User {
            id,
            name: name.to_owned(),
            email: email.to_owned(),
            company: company.to_owned(),
        };
        Self {
            users: vec![
                user(1, "Ada Admin", "ada@acme.example", "acme"),
                user(2, "Gita Globex", "gita@globex.example", "globex"),
            ],
            codes: HashMap::new(),
            grants: Vec::new(),
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

    pub(super) fn new_code(&mut self, user: u64, redirect_uri: &str, now_ms: i64) -> String {
        let code = secret();
        let known = Code { user, redirect_uri: redirect_uri.to_owned(), ends_ms: now_ms + CODE_LIFE_MS };
        self.codes.insert(code.clone(), known);
        code
    }

    /// A grant for a code, which is spent by being shown.
    pub(super) fn redeem(&mut self, code: &str, redirect_uri: &str, now_ms: i64) -> Option<Brought> {
        let code = self.codes.remove(code)?;
        if now_ms >= code.ends_ms || code.redirect_uri != redirect_uri {
            return None;
        }
        let grant = Grant {
            user: code.user,
            access_token: secret(),
            access_ends_ms: now_ms + ACCESS_SECS * 1000,
            refresh_token: secret(),
            spent: Vec::new(),
            used_at_ms: now_ms,
            dead: false,
        };
        self.grants.push(grant);
        self.brought(self.grants.last()?)
    }

    /// Replaces both tokens of a grant.
    pub(super) fn refresh(&mut self, token: &str, now_ms: i64) -> Option<Brought> {
        if let Some(reused) = self.grants.iter_mut().find(|grant| grant.spent.iter().any(|spent| spent == token)) {
            reused.dead = true;
            return None;
        }
        let at = self.grants.iter().position(|grant| !grant.dead && grant.refresh_token == token)?;
        let grant = &mut self.grants[at];
        if now_ms >= grant.used_at_ms + IDLE_MS {
            grant.dead = true;
            return None;
        }
        grant.used_at_ms = now_ms;
        grant.spent.push(std::mem::replace(&mut grant.refresh_token, secret()));
        grant.access_token = secret();
        grant.access_ends_ms = now_ms + ACCESS_SECS * 1000;
        self.brought(&self.grants[at])
    }

    fn brought(&self, grant: &Grant) -> Option<Brought> {
        let user = self.users.iter().find(|user| user.id == grant.user)?;
        Some(Brought {
            access_token: grant.access_token.clone(),
            refresh_token: grant.refresh_token.clone(),
            company: user.company.clone(),
        })
    }

    /// Ends the grant that a token of either kind belongs to.
    pub(super) fn revoke_token(&mut self, token: &str) {
        let fits = |grant: &&mut Grant| grant.refresh_token == token || grant.access_token == token;
        for grant in self.grants.iter_mut().filter(fits) {
            grant.dead = true;
        }
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
}

fn secret() -> String {
    BASE64.encode(random_bytes::<32>())
}
