//! People, grants and tokens. Every moment is passed in; nothing here waits or answers.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::push::{CalendarChannel, GmailWatch};

use crate::clock::random_bytes;

pub(super) const AUTH: &str = "https://www.googleapis.com/auth/";
/// A code is good for so long.
const CODE_LIFE_MS: i64 = 600_000;
pub(super) const ACCESS_SECS: i64 = 3599;
/// Life of every grant of an app in Testing.
pub(super) const TESTING_SECS: i64 = 604_799;

/// What the one OAuth client may ask for. Unknown scopes are refused on the consent page.
pub(super) const SCOPES: [(&str, &str); 16] = [
    ("openid", "Associate you with your personal info on Google"),
    ("https://www.googleapis.com/auth/userinfo.email", "See your primary Google Account email address"),
    (
        "https://www.googleapis.com/auth/userinfo.profile",
        "See your personal info, including any personal info you've made publicly available",
    ),
    ("https://mail.google.com/", "Read, compose, send, and permanently delete all your email from Gmail"),
    ("https://www.googleapis.com/auth/gmail.readonly", "View your email messages and settings"),
    (
        "https://www.googleapis.com/auth/gmail.metadata",
        "View your email message metadata such as labels and headers, but not the email body",
    ),
    ("https://www.googleapis.com/auth/gmail.modify", "Read, compose, and send emails from your Gmail account"),
    ("https://www.googleapis.com/auth/gmail.compose", "Manage drafts and send emails"),
    ("https://www.googleapis.com/auth/gmail.send", "Send email on your behalf"),
    (
        "https://www.googleapis.com/auth/calendar",
        "See, edit, share, and permanently delete all the calendars you can access using Google Calendar",
    ),
    (
        "https://www.googleapis.com/auth/calendar.readonly",
        "See and download any calendar you can access using your Google Calendar",
    ),
    ("https://www.googleapis.com/auth/calendar.events", "View and edit events on all your calendars"),
    ("https://www.googleapis.com/auth/calendar.events.readonly", "View events on all your calendars"),
    (
        "https://www.googleapis.com/auth/drive.file",
        "See, edit, create, and delete only the specific Google Drive files you use with this app",
    ),
    (
        "https://www.googleapis.com/auth/spreadsheets",
        "See, edit, create, and delete all your Google Sheets spreadsheets",
    ),
    ("https://www.googleapis.com/auth/spreadsheets.readonly", "See all your Google Sheets spreadsheets"),
];

/// Scopes that everybody grants with the consent as a whole; the others have a box each.
pub(super) fn has_no_box(scope: &str) -> bool {
    scope == "openid" || scope.ends_with("/userinfo.email") || scope.ends_with("/userinfo.profile")
}

/// How strict this Google is, and what its project is like.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, PartialEq, Eq)]
#[serde(default, deny_unknown_fields)]
pub struct GoogleOptions {
    /// The project is in Testing: every grant ends 7 days after its consent.
    pub testing: bool,
    /// A token answer says `refresh_token_expires_in` where a grant ends.
    pub tells_end: bool,
    /// Living refresh tokens of one person for this client; one more kills the oldest. Google: 100.
    pub token_limit: usize,
    /// Most entries on a page of a list, whatever is asked for.
    pub page_limit: usize,
    /// Text of a mail's part that is longer comes as an attachment id.
    pub inline_bytes: usize,
}

impl Default for GoogleOptions {
    fn default() -> Self {
        Self { testing: false, tells_end: true, token_limit: 100, page_limit: 50, inline_bytes: 20_000 }
    }
}

/// A person with an account.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Person {
    /// Never changes.
    pub(super) sub: String,
    pub(super) email: String,
    pub(super) name: String,
    pub(super) verified: bool,
    pub(super) mails: Vec<Mail>,
    pub(super) history_id: u64,
    /// History before this is forgotten.
    pub(super) oldest_history: u64,
    pub(super) events: Vec<Event>,
    pub(super) calendar_seq: u64,
    /// Sync tokens of before this are refused.
    pub(super) oldest_sync: u64,
    #[serde(default)]
    pub(super) watch: Option<GmailWatch>,
    #[serde(default)]
    pub(super) channels: Vec<CalendarChannel>,
}

/// A mail in a mailbox.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Mail {
    pub(super) id: String,
    pub(super) thread_id: String,
    pub(super) labels: Vec<String>,
    pub(super) internal_ms: i64,
    pub(super) history_id: u64,
    /// The MIME tree as the API shows it, with all data in it.
    pub(super) payload: Value,
}

/// An event of somebody's primary calendar.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Event {
    pub(super) seq: u64,
    pub(super) start_ms: i64,
    pub(super) end_ms: i64,
    pub(super) body: Value,
}

/// A spreadsheet.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Spreadsheet {
    /// Who may see and change it, by `sub`.
    pub(super) editors: Vec<String>,
    /// Cells of its tabs, by name; a formula is `{"formula": "=…"}`.
    pub(super) tabs: Vec<(String, Vec<Vec<Value>>)>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct CodeFacts {
    pub(super) sub: String,
    pub(super) scopes: Vec<String>,
    pub(super) redirect_uri: String,
    pub(super) challenge: Option<String>,
    /// Whether the exchange brings a refresh token.
    pub(super) offline: bool,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Code {
    facts: CodeFacts,
    expires_at_ms: i64,
    spent: bool,
    /// The refresh token that it bought.
    bought: Option<String>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Refresh {
    token: String,
    sub: String,
    scopes: Vec<String>,
    given_at_ms: i64,
    dead: bool,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Access {
    sub: String,
    scopes: Vec<String>,
    expires_at_ms: i64,
}

/// Whose an access token is.
#[derive(Debug, Clone)]
pub(super) struct Bearer {
    pub(super) sub: String,
    pub(super) scopes: Vec<String>,
    pub(super) expires_at_ms: i64,
}

impl Bearer {
    pub(super) fn may(&self, any: &[&str]) -> bool {
        let has = |name: &&str| self.scopes.iter().any(|scope| scope == name || *scope == format!("{AUTH}{name}"));
        any.iter().any(has)
    }
}

/// What an exchange or a refresh brings.
#[derive(Debug, Clone)]
pub(super) struct Brought {
    pub(super) sub: String,
    pub(super) scopes: Vec<String>,
    pub(super) access_token: String,
    /// Only a first exchange brings one.
    pub(super) refresh_token: Option<String>,
    /// What is left of its life, where it ends.
    pub(super) refresh_secs: Option<i64>,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct State {
    pub(super) options: GoogleOptions,
    pub(super) people: BTreeMap<String, Person>,
    pub(super) spreadsheets: BTreeMap<String, Spreadsheet>,
    pub(super) next_id: u64,
    /// Who has ever consented, and not taken it back: a later consent brings a refresh token only with `prompt=consent`.
    consented: BTreeSet<String>,
    codes: HashMap<String, Code>,
    refresh: Vec<Refresh>,
    access: HashMap<String, Access>,
}

impl State {
    /// An id, the same in every run.
    pub(super) fn next_id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id
    }

    /// By `sub`, address or the start of a name.
    pub(super) fn find(&self, who: &str) -> Option<&Person> {
        let lower = who.to_lowercase();
        let fits = |person: &&Person| {
            person.sub == who || person.email == lower || person.name.to_lowercase().starts_with(&lower)
        };
        self.people.values().find(fits)
    }

    pub(super) fn new_code(&mut self, facts: CodeFacts, now_ms: i64) -> String {
        self.consented.insert(facts.sub.clone());
        let code = format!("4/0A{}", BASE64.encode(random_bytes::<32>()));
        let expires_at_ms = now_ms + CODE_LIFE_MS;
        self.codes.insert(code.clone(), Code { facts, expires_at_ms, spent: false, bought: None });
        code
    }

    /// Whether this person's next consent is the first one.
    pub(super) fn is_first(&self, sub: &str) -> bool {
        !self.consented.contains(sub)
    }

    /// What a code stands for; it is spent by being shown. A second use takes back what the first one bought.
    pub(super) fn spend_code(&mut self, code: &str, now_ms: i64) -> Option<CodeFacts> {
        let known = self.codes.get_mut(code)?;
        if known.spent {
            let bought = known.bought.clone();
            for refresh in self.refresh.iter_mut().filter(|refresh| Some(&refresh.token) == bought.as_ref()) {
                refresh.dead = true;
            }
            return None;
        }
        known.spent = true;
        (now_ms < known.expires_at_ms).then(|| known.facts.clone())
    }

    /// The tokens of a new grant; beyond the limit the oldest refresh token dies without a word.
    pub(super) fn grant(&mut self, facts: &CodeFacts, code: Option<&str>, now_ms: i64) -> Brought {
        self.consented.insert(facts.sub.clone());
        let refresh_token = facts.offline.then(|| format!("1//0{}", BASE64.encode(random_bytes::<48>())));
        if let Some(token) = &refresh_token {
            self.refresh.push(Refresh {
                token: token.clone(),
                sub: facts.sub.clone(),
                scopes: facts.scopes.clone(),
                given_at_ms: now_ms,
                dead: false,
            });
            let limit = self.options.token_limit;
            let living = self.living(&facts.sub, now_ms);
            let mut surplus = living.saturating_sub(limit);
            for refresh in self.refresh.iter_mut().filter(|refresh| !refresh.dead && refresh.sub == facts.sub) {
                if surplus == 0 {
                    break;
                }
                refresh.dead = true;
                surplus -= 1;
            }
            if let Some(code) = code.and_then(|code| self.codes.get_mut(code)) {
                code.bought = Some(token.clone());
            }
        }
        let refresh_secs = (self.options.testing && refresh_token.is_some()).then_some(TESTING_SECS);
        let access_token = self.mint(&facts.sub, &facts.scopes, now_ms);
        Brought { sub: facts.sub.clone(), scopes: facts.scopes.clone(), access_token, refresh_token, refresh_secs }
    }

    fn mint(&mut self, sub: &str, scopes: &[String], now_ms: i64) -> String {
        let token = format!("ya29.{}", BASE64.encode(random_bytes::<64>()));
        let access =
            Access { sub: sub.to_owned(), scopes: scopes.to_vec(), expires_at_ms: now_ms + ACCESS_SECS * 1000 };
        self.access.retain(|_, access| access.expires_at_ms > now_ms);
        self.access.insert(token.clone(), access);
        token
    }

    fn lives(&self, refresh: &Refresh, now_ms: i64) -> bool {
        let over = self.options.testing && now_ms >= refresh.given_at_ms + TESTING_SECS * 1000;
        !refresh.dead && !over && self.people.contains_key(&refresh.sub)
    }

    /// A new access token; earlier ones stay good, and the refresh token stays.
    pub(super) fn refresh(&mut self, token: &str, now_ms: i64) -> Option<Brought> {
        let found = self.refresh.iter().find(|refresh| refresh.token == token)?.clone();
        if !self.lives(&found, now_ms) {
            return None;
        }
        let access_token = self.mint(&found.sub, &found.scopes, now_ms);
        Some(Brought { sub: found.sub, scopes: found.scopes, access_token, refresh_token: None, refresh_secs: None })
    }

    pub(super) fn bearer(&self, token: &str, now_ms: i64) -> Option<Bearer> {
        let access = self.access.get(token).filter(|access| now_ms < access.expires_at_ms)?;
        let person = self.people.get(&access.sub)?;
        Some(Bearer { sub: person.sub.clone(), scopes: access.scopes.clone(), expires_at_ms: access.expires_at_ms })
    }

    /// Ends everything of the person whose token it is, in this project. `None`: nobody's.
    pub(super) fn revoke(&mut self, token: &str, now_ms: i64) -> Option<usize> {
        let of_refresh = self.refresh.iter().find(|refresh| refresh.token == token && self.lives(refresh, now_ms));
        let sub = match of_refresh {
            Some(refresh) => refresh.sub.clone(),
            None => self.bearer(token, now_ms)?.sub,
        };
        Some(self.revoke_all(&sub, now_ms))
    }

    /// Answers how many refresh tokens died.
    pub(super) fn revoke_all(&mut self, sub: &str, now_ms: i64) -> usize {
        let living = self.living(sub, now_ms);
        self.consented.remove(sub);
        self.access.retain(|_, access| access.sub != sub);
        self.kill(sub, |_| true);
        living
    }

    /// Kills refresh tokens, and leaves access tokens as they are.
    pub(super) fn kill(&mut self, sub: &str, which: impl Fn(&[String]) -> bool) {
        for refresh in self.refresh.iter_mut().filter(|refresh| refresh.sub == sub && which(&refresh.scopes)) {
            refresh.dead = true;
        }
    }

    pub(super) fn end_access(&mut self) {
        self.access.clear();
    }

    pub(super) fn living(&self, sub: &str, now_ms: i64) -> usize {
        self.refresh.iter().filter(|refresh| refresh.sub == sub && self.lives(refresh, now_ms)).count()
    }

    pub(super) fn is_alive(&self, refresh_token: &str, now_ms: i64) -> bool {
        self.refresh.iter().any(|refresh| refresh.token == refresh_token && self.lives(refresh, now_ms))
    }
}
