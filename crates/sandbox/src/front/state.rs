//! Companies, grants and tokens. Every moment is passed in; nothing here waits or answers.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use serde::{Deserialize, Serialize};

use super::data::{Company, Teammate};
use crate::clock::random_bytes;

/// A code is good for so long; Front does not say.
const CODE_LIFE_MS: i64 = 600_000;
pub(super) const ACCESS_SECS: i64 = 3600;
const DAY_MS: i64 = 86_400_000;
/// Six months.
const REFRESH_LIFE_MS: i64 = 182 * DAY_MS;
/// In its last 24 hours a refresh token is replaced by a refresh.
const LAST_MS: i64 = DAY_MS;

/// How a token answer says when its access token ends.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum EndForm {
    /// `expires_at`, in Unix seconds: what clients assume.
    #[default]
    At,
    /// `expires_at`, in Unix milliseconds.
    AtMs,
    /// `expires_at`, but a life in seconds.
    AtLife,
    /// `expires`, a life in seconds: seen in a fixture.
    Expires,
    /// `expires_in`: the standard.
    In,
    /// Nothing.
    Nowhere,
}

/// When a refresh brings another refresh token.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum Replaces {
    /// In the last 24 hours of its life.
    #[default]
    InLastDay,
    /// Always, as one report has it.
    Always,
    /// Never, so that a grant ends after six months.
    Never,
}

/// How strict this Front is, and which reading of its documentation it follows.
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq, Eq)]
#[serde(default, deny_unknown_fields)]
pub struct FrontOptions {
    /// How token answers say an end.
    pub end: EndForm,
    /// When a refresh brings another refresh token.
    pub replaces: Replaces,
    /// A refresh token that was replaced goes on working until its end.
    pub replaced_work: bool,
    /// Messages that were accepted stay unprocessed until [`super::FrontRig::process`].
    pub processes_later: bool,
    /// Most entries on a page of a list, whatever is asked for.
    pub page_limit: usize,
    /// Conversations say `updated_at`; those of before 2026 do not.
    pub tells_updated_at: bool,
    /// Permissions that were not given to the app, like `messages:send`.
    pub lacks: BTreeSet<String>,
}

impl Default for FrontOptions {
    fn default() -> Self {
        Self {
            end: EndForm::default(),
            replaces: Replaces::default(),
            replaced_work: false,
            processes_later: false,
            page_limit: 100,
            tells_updated_at: true,
            lacks: BTreeSet::new(),
        }
    }
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Code {
    company: String,
    redirect_uri: String,
    expires_at_ms: i64,
    spent: bool,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Refresh {
    token: String,
    company: String,
    given_at_ms: i64,
    dead: bool,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Access {
    company: String,
    expires_at_ms: i64,
}

/// What an exchange or a refresh brings.
#[derive(Debug, Clone)]
pub(super) struct Brought {
    pub(super) access_token: String,
    pub(super) refresh_token: String,
    pub(super) expires_at_ms: i64,
    /// It is another one than was presented.
    pub(super) replaced: bool,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct State {
    pub(super) options: FrontOptions,
    /// By label.
    pub(super) companies: BTreeMap<String, Company>,
    pub(super) next_id: u64,
    codes: HashMap<String, Code>,
    refresh: Vec<Refresh>,
    access: HashMap<String, Access>,
}

impl State {
    /// An id, the same in every run.
    pub(super) fn id(&mut self, prefix: &str) -> String {
        self.next_id += 1;
        id(prefix, self.next_id)
    }

    /// By id, address or the start of a name; with the company's label.
    pub(super) fn find_teammate(&self, who: &str) -> Option<(&str, &Teammate)> {
        let lower = who.to_lowercase();
        let fits =
            |one: &Teammate| one.id == who || one.email == lower || one.name().to_lowercase().starts_with(&lower);
        let all = self
            .companies
            .values()
            .flat_map(|company| company.teammates.iter().map(|teammate| (company.label.as_str(), teammate)));
        all.into_iter().find(|(_, teammate)| fits(teammate))
    }

    pub(super) fn new_code(&mut self, company: &str, redirect_uri: &str, now_ms: i64) -> String {
        let code = BASE64.encode(random_bytes::<24>());
        let code_is = Code {
            company: company.to_owned(),
            redirect_uri: redirect_uri.to_owned(),
            expires_at_ms: now_ms + CODE_LIFE_MS,
            spent: false,
        };
        self.codes.insert(code.clone(), code_is);
        code
    }

    /// The company that a code stands for, where it was sent to this address; it is spent by being shown.
    pub(super) fn spend_code(&mut self, code: &str, redirect_uri: &str, now_ms: i64) -> Option<String> {
        let known = self.codes.get_mut(code).filter(|code| !code.spent)?;
        known.spent = true;
        (now_ms < known.expires_at_ms && known.redirect_uri == redirect_uri).then(|| known.company.clone())
    }

    pub(super) fn grant(&mut self, company: &str, now_ms: i64) -> Brought {
        let token = format!("frt.{}", BASE64.encode(random_bytes::<40>()));
        self.refresh.push(Refresh {
            token: token.clone(),
            company: company.to_owned(),
            given_at_ms: now_ms,
            dead: false,
        });
        self.mint(company, token, true, now_ms)
    }

    /// Access tokens of before stay good.
    fn mint(&mut self, company: &str, refresh_token: String, replaced: bool, now_ms: i64) -> Brought {
        let access_token = format!("eyJ{}", BASE64.encode(random_bytes::<48>()));
        let expires_at_ms = now_ms + ACCESS_SECS * 1000;
        self.access.retain(|_, access| access.expires_at_ms > now_ms);
        self.access.insert(access_token.clone(), Access { company: company.to_owned(), expires_at_ms });
        Brought { access_token, refresh_token, expires_at_ms, replaced }
    }

    pub(super) fn refresh(&mut self, token: &str, now_ms: i64) -> Option<Brought> {
        let found = self.refresh.iter_mut().find(|refresh| refresh.token == token)?;
        let age = now_ms - found.given_at_ms;
        if found.dead || age >= REFRESH_LIFE_MS {
            return None;
        }
        let company = found.company.clone();
        let replaces = match self.options.replaces {
            Replaces::InLastDay => age >= REFRESH_LIFE_MS - LAST_MS,
            Replaces::Always => true,
            Replaces::Never => false,
        };
        if replaces {
            found.dead = !self.options.replaced_work;
            return Some(self.grant(&company, now_ms));
        }
        Some(self.mint(&company, token.to_owned(), false, now_ms))
    }

    /// The label of the company whose access token it is.
    pub(super) fn bearer(&self, token: &str, now_ms: i64) -> Option<String> {
        let access = self.access.get(token).filter(|access| now_ms < access.expires_at_ms)?;
        Some(access.company.clone())
    }

    /// The company removes the app. Answers how many refresh tokens died.
    pub(super) fn remove_app(&mut self, company: &str, now_ms: i64) -> usize {
        let living = self.living(company, now_ms);
        self.access.retain(|_, access| access.company != company);
        for refresh in self.refresh.iter_mut().filter(|refresh| refresh.company == company) {
            refresh.dead = true;
        }
        living
    }

    pub(super) fn end_access(&mut self) {
        self.access.clear();
    }

    pub(super) fn living(&self, company: &str, now_ms: i64) -> usize {
        self.refresh.iter().filter(|refresh| refresh.company == company && lives(refresh, now_ms)).count()
    }

    pub(super) fn is_alive(&self, refresh_token: &str, now_ms: i64) -> bool {
        self.refresh.iter().any(|refresh| refresh.token == refresh_token && lives(refresh, now_ms))
    }
}

fn lives(refresh: &Refresh, now_ms: i64) -> bool {
    !refresh.dead && now_ms < refresh.given_at_ms + REFRESH_LIFE_MS
}

/// `cnv_55c8c149`: opaque, and never only digits.
pub(super) fn id(prefix: &str, number: u64) -> String {
    format!("{prefix}_{:x}", 0x55c8_c148 + number * 0x1_0001)
}
