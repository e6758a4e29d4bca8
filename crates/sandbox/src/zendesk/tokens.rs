//! Grants, codes and tokens of one helpdesk: what lives, what is spent, what dies with what.
//!
//! Every moment is passed in; nothing here waits or answers.

use std::collections::{BTreeMap, HashMap};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use serde::{Deserialize, Serialize};

use crate::clock::random_bytes;
use crate::ledger::{IssuedSet, Ledger, Presentation, PresentationOutcome, fingerprint};
use crate::options::CLIENT_ID;

/// A code is good for so long. Zendesk's docs: 120 s.
const CODE_LIFE_MS: i64 = 120_000;

/// What a token set is issued with. `None` lives are the old clients' behaviour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Lives {
    pub(crate) access_secs: Option<i64>,
    pub(crate) refresh_secs: Option<i64>,
}

/// A pair as the caller gets it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Pair {
    pub(crate) index: usize,
    pub(crate) grant: u64,
    pub(crate) scope: String,
    pub(crate) access_token: String,
    pub(crate) refresh_token: Option<String>,
}

/// What an authorisation code stands for.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct CodeFacts {
    pub(crate) user_id: i64,
    pub(crate) scope: String,
    pub(crate) redirect_uri: String,
    pub(crate) challenge: Option<String>,
    /// Who asked; `None`: the client that is registered at the start.
    #[serde(default)]
    pub(crate) client_id: Option<String>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Code {
    facts: CodeFacts,
    expires_at_ms: i64,
    spent: bool,
    grant: Option<u64>,
}

/// Why a code or a refresh token bought nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refused {
    /// It had been spent before.
    Reused,
    /// Unknown, expired, revoked, or not what it was issued for.
    Invalid,
}

/// What a refresh token bought.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Bought {
    New(Pair),
    SameAgain(Pair),
}

/// Whose an access token is.
#[derive(Debug, Clone)]
pub(crate) struct Bearer {
    pub(crate) index: usize,
    pub(crate) user_id: i64,
    pub(crate) scope: String,
}

/// So many dead sets, and so many presentations, are kept when the sandbox ends: enough to look back, and to know a spent
/// token that comes back late.
const KEPT: usize = 500;

/// What is kept of [`Tokens`] when the sandbox ends.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct KeptTokens {
    sets: Vec<IssuedSet>,
    codes: HashMap<String, Code>,
    presentations: Vec<Presentation>,
    last_grant: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Tokens {
    sets: Vec<IssuedSet>,
    /// For each set, the set that its refresh token bought.
    children: Vec<Option<usize>>,
    by_access: HashMap<String, usize>,
    by_refresh: HashMap<String, usize>,
    by_grant: HashMap<u64, Vec<usize>>,
    codes: HashMap<String, Code>,
    presentations: Vec<Presentation>,
    last_grant: u64,
    /// Of the grants of other clients than the one that is registered at the start.
    clients: HashMap<u64, String>,
}

impl Tokens {
    pub(crate) fn new_code(&mut self, facts: CodeFacts, now_ms: i64) -> String {
        let code = BASE64.encode(random_bytes::<32>());
        self.codes
            .insert(code.clone(), Code { facts, expires_at_ms: now_ms + CODE_LIFE_MS, spent: false, grant: None });
        code
    }

    /// Spends a code, whether `fits` likes it or not: a code that was shown with a wrong verifier has leaked.
    pub(crate) fn spend_code(
        &mut self,
        code: &str,
        now_ms: i64,
        family_revocation: bool,
        fits: impl FnOnce(&CodeFacts) -> bool,
    ) -> Result<CodeFacts, Refused> {
        let known = self.codes.get_mut(code).ok_or(Refused::Invalid)?;
        if known.spent {
            let grant = known.grant;
            if let (true, Some(grant)) = (family_revocation, grant) {
                self.revoke(Some(grant), now_ms);
            }
            return Err(Refused::Reused);
        }
        known.spent = true;
        if now_ms >= known.expires_at_ms || !fits(&known.facts) {
            return Err(Refused::Invalid);
        }
        Ok(known.facts.clone())
    }

    /// Starts a grant. `code` is remembered as its origin.
    pub(crate) fn new_grant(
        &mut self,
        helpdesk: &str,
        user_id: i64,
        scope: String,
        lives: Lives,
        code: Option<&str>,
        now_ms: i64,
    ) -> Pair {
        self.last_grant += 1;
        let grant = self.last_grant;
        if let Some(known) = code.and_then(|code| self.codes.get_mut(code)) {
            known.grant = Some(grant);
            if let Some(client) = known.facts.client_id.clone() {
                self.clients.insert(grant, client);
            }
        }
        let set = blank(helpdesk, grant, user_id, scope, None, now_ms);
        self.issue(set, lives, lives.access_secs.is_some())
    }

    /// Spends a refresh token for a new pair; both tokens of the old one die in the same moment.
    pub(crate) fn rotate(
        &mut self,
        refresh_token: &str,
        scope: Option<&str>,
        lives: Lives,
        grace_secs: u32,
        family_revocation: bool,
        now_ms: i64,
    ) -> Result<Bought, Refused> {
        let index = *self.by_refresh.get(refresh_token).ok_or(Refused::Invalid)?;
        let old = &self.sets[index];
        if let Some(spent_at_ms) = old.spent_at_ms {
            let in_grace = now_ms < spent_at_ms + i64::from(grace_secs) * 1000;
            let child = self.children[index].filter(|child| self.sets[*child].is_live());
            if let (true, Some(child)) = (in_grace, child) {
                return Ok(Bought::SameAgain(self.pair(child)));
            }
            if family_revocation {
                let grant = old.grant;
                self.revoke(Some(grant), now_ms);
            }
            return Err(Refused::Reused);
        }
        let expired = old.refresh_expires_at_ms.is_some_and(|at| now_ms >= at);
        if old.revoked_at_ms.is_some() || expired {
            return Err(Refused::Invalid);
        }
        let new = blank(
            &old.helpdesk,
            old.grant,
            old.user_id,
            scope.unwrap_or(&old.scope).to_owned(),
            old.refresh_fingerprint.clone(),
            now_ms,
        );
        self.sets[index].spent_at_ms = Some(now_ms);
        let pair = self.issue(new, lives, true);
        self.children[index] = Some(pair.index);
        Ok(Bought::New(pair))
    }

    /// Whether the grant of this token is this client's (RFC 6749 section 6); also where nobody knows the token.
    pub(crate) fn is_of(&self, refresh_token: &str, client_id: &str) -> bool {
        let Some(index) = self.by_refresh.get(refresh_token) else { return true };
        let client = self.clients.get(&self.sets[*index].grant);
        client.map_or(CLIENT_ID, String::as_str) == client_id
    }

    pub(crate) fn scope_of(&self, refresh_token: &str) -> Option<&str> {
        let index = *self.by_refresh.get(refresh_token)?;
        Some(&self.sets[index].scope)
    }

    pub(crate) fn bearer(&self, access_token: &str, now_ms: i64) -> Option<Bearer> {
        let index = *self.by_access.get(access_token)?;
        let set = &self.sets[index];
        let expired = set.access_expires_at_ms.is_some_and(|at| now_ms >= at);
        (set.is_live() && !expired).then(|| Bearer { index, user_id: set.user_id, scope: set.scope.clone() })
    }

    pub(crate) fn set(&self, index: usize) -> &IssuedSet {
        &self.sets[index]
    }

    /// Both tokens of one set.
    pub(crate) fn revoke_set(&mut self, index: usize, now_ms: i64) {
        let set = &mut self.sets[index];
        if set.is_live() {
            set.revoked_at_ms = Some(now_ms);
        }
    }

    /// The live tokens of a grant, or of all; answers how many sets died.
    pub(crate) fn revoke(&mut self, grant: Option<u64>, now_ms: i64) -> u64 {
        let indices = match grant {
            Some(grant) => self.by_grant.get(&grant).cloned().unwrap_or_default(),
            None => (0..self.sets.len()).collect(),
        };
        let mut died = 0;
        for index in indices {
            if self.sets[index].is_live() {
                self.sets[index].revoked_at_ms = Some(now_ms);
                died += 1;
            }
        }
        died
    }

    /// Access tokens end now, refresh tokens live on; answers how many.
    pub(crate) fn expire_access(&mut self, now_ms: i64) -> u64 {
        let mut ended = 0;
        for set in &mut self.sets {
            if set.is_live() && set.access_expires_at_ms.is_none_or(|at| at > now_ms) {
                set.access_expires_at_ms = Some(now_ms);
                ended += 1;
            }
        }
        ended
    }

    pub(crate) fn mark_lost(&mut self, index: usize) {
        self.sets[index].answer_lost = true;
    }

    /// The live set of each grant that has one, oldest grant first.
    pub(crate) fn live(&self) -> Vec<&IssuedSet> {
        let grants: BTreeMap<u64, &IssuedSet> =
            self.sets.iter().filter(|set| set.is_live()).map(|set| (set.grant, set)).collect();
        grants.into_values().collect()
    }

    pub(crate) fn live_grants(&self) -> usize {
        self.live().len()
    }

    /// The newest sets, newest first.
    pub(crate) fn newest(&self, count: usize) -> impl Iterator<Item = &IssuedSet> {
        self.sets.iter().rev().take(count)
    }

    /// When the first set of this grant was issued.
    pub(crate) fn granted_at_ms(&self, grant: u64) -> Option<i64> {
        let first = self.by_grant.get(&grant)?.first()?;
        Some(self.sets[*first].issued_at_ms)
    }

    /// Opens a presentation and answers its number.
    pub(crate) fn present(&mut self, refresh_token: &str, now_ms: i64, seq: u64) -> usize {
        let grant = self.by_refresh.get(refresh_token).map(|index| self.sets[*index].grant);
        self.presentations.push(Presentation {
            fingerprint: fingerprint(refresh_token),
            grant,
            started_at_ms: now_ms,
            answered_at_ms: None,
            started_seq: seq,
            answered_seq: None,
            outcome: PresentationOutcome::Open,
        });
        self.presentations.len() - 1
    }

    /// Closes it. A ledger that was reset meanwhile no longer knows it.
    pub(crate) fn close(&mut self, presentation: usize, outcome: PresentationOutcome, now_ms: i64, seq: u64) {
        if let Some(open) = self.presentations.get_mut(presentation)
            && open.answered_seq.is_none()
        {
            open.outcome = outcome;
            open.answered_at_ms = Some(now_ms);
            open.answered_seq = Some(seq);
        }
    }

    pub(crate) fn to_keep(&self) -> KeptTokens {
        let dead = self.sets.iter().filter(|set| !set.is_live()).count();
        let mut too_old = dead.saturating_sub(KEPT);
        let keep = |set: &&IssuedSet| {
            let drop = !set.is_live() && too_old > 0;
            too_old -= usize::from(drop);
            !drop
        };
        KeptTokens {
            sets: self.sets.iter().filter(keep).cloned().collect(),
            codes: self.codes.clone(),
            presentations: self.presentations[self.presentations.len().saturating_sub(KEPT)..].to_vec(),
            last_grant: self.last_grant,
        }
    }

    pub(crate) fn ledger(&self) -> Ledger {
        Ledger { sets: self.sets.clone(), presentations: self.presentations.clone() }
    }

    fn issue(&mut self, mut set: IssuedSet, lives: Lives, with_refresh: bool) -> Pair {
        let index = self.sets.len();
        let access_token = new_access_token();
        let after = |secs: i64| set.issued_at_ms + secs * 1000;
        set.access_expires_at_ms = lives.access_secs.map(after);
        set.access_fingerprint = fingerprint(&access_token);
        self.by_access.insert(access_token.clone(), index);
        if with_refresh {
            let refresh_token = format!("zd_rt_{}", BASE64.encode(random_bytes::<32>()));
            set.refresh_expires_at_ms = lives.refresh_secs.map(after);
            set.refresh_fingerprint = Some(fingerprint(&refresh_token));
            self.by_refresh.insert(refresh_token.clone(), index);
            set.refresh_token = Some(refresh_token);
        }
        set.access_token = Some(access_token);
        self.by_grant.entry(set.grant).or_default().push(index);
        self.sets.push(set);
        self.children.push(None);
        self.pair(index)
    }

    fn pair(&self, index: usize) -> Pair {
        let set = &self.sets[index];
        Pair {
            index,
            grant: set.grant,
            scope: set.scope.clone(),
            access_token: set.access_token.clone().unwrap_or_default(),
            refresh_token: set.refresh_token.clone(),
        }
    }
}

impl From<KeptTokens> for Tokens {
    fn from(kept: KeptTokens) -> Self {
        let mut tokens = Self {
            children: vec![None; kept.sets.len()],
            codes: kept.codes,
            presentations: kept.presentations,
            last_grant: kept.last_grant,
            ..Self::default()
        };
        let mut bought_by = HashMap::new();
        for (index, set) in kept.sets.iter().enumerate() {
            if let Some(token) = &set.access_token {
                tokens.by_access.insert(token.clone(), index);
            }
            if let Some(token) = &set.refresh_token {
                tokens.by_refresh.insert(token.clone(), index);
            }
            tokens.by_grant.entry(set.grant).or_default().push(index);
            if let Some(fingerprint) = &set.refresh_fingerprint {
                bought_by.insert(fingerprint.clone(), index);
            }
            if let Some(parent) = set.parent.as_ref().and_then(|parent| bought_by.get(parent)) {
                tokens.children[*parent] = Some(index);
            }
        }
        tokens.sets = kept.sets;
        tokens
    }
}

fn blank(helpdesk: &str, grant: u64, user_id: i64, scope: String, parent: Option<String>, now_ms: i64) -> IssuedSet {
    IssuedSet {
        grant,
        helpdesk: helpdesk.to_owned(),
        user_id,
        scope,
        parent,
        access_fingerprint: String::new(),
        refresh_fingerprint: None,
        access_token: None,
        refresh_token: None,
        issued_at_ms: now_ms,
        access_expires_at_ms: None,
        refresh_expires_at_ms: None,
        spent_at_ms: None,
        revoked_at_ms: None,
        answer_lost: false,
    }
}

/// Zendesk's newer access tokens look like JWTs and are some hundred bytes long; this one says nothing inside.
fn new_access_token() -> String {
    format!(
        "eyJ0eXAiOiJhdCtqd3QiLCJhbGciOiJSUzI1NiJ9.{}.{}{}",
        BASE64.encode(format!(r#"{{"jti":"{}"}}"#, BASE64.encode(random_bytes::<16>()))),
        BASE64.encode(random_bytes::<64>()),
        BASE64.encode(random_bytes::<64>()),
    )
}
