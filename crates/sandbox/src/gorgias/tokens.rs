//! Codes and tokens of one account: what lives, what is spent, what dies with what.
//!
//! Every moment is passed in; nothing here waits or answers.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use super::account::{Rotation, Rules};
use crate::clock::random_bytes;
use crate::ledger::{IssuedSet, Ledger, Presentation, PresentationOutcome, fingerprint};

/// Not documented; nobody takes longer.
const CODE_LIFE_MS: i64 = 60_000;

/// What an authorisation code stands for.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct CodeFacts {
    pub(crate) user_id: i64,
    pub(crate) scope: String,
    pub(crate) redirect_uri: String,
    pub(crate) nonce: Option<String>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Code {
    facts: CodeFacts,
    expires_at_ms: i64,
    spent: bool,
    grant: Option<u64>,
}

/// A set as the caller gets it.
#[derive(Debug, Clone)]
pub(crate) struct Issued {
    pub(crate) index: usize,
    pub(crate) grant: u64,
    pub(crate) user_id: i64,
    pub(crate) scope: String,
    pub(crate) access_token: String,
    /// What the answer says of one.
    pub(crate) refresh_token: Option<String>,
    pub(crate) nonce: Option<String>,
}

/// Why a refresh token bought nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refused {
    /// It had been spent before.
    Reused,
    /// Unknown, or revoked.
    Invalid,
}

/// Whose an access token is.
#[derive(Debug, Clone)]
pub(crate) struct Bearer {
    pub(crate) user_id: i64,
    pub(crate) scope: String,
}

#[derive(Debug, Default, Clone, Serialize, Deserialize)]
pub(crate) struct Tokens {
    sets: Vec<IssuedSet>,
    codes: HashMap<String, Code>,
    presentations: Vec<Presentation>,
    last_grant: u64,
}

fn token(prefix: &str) -> String {
    random_bytes::<32>().iter().fold(prefix.to_owned(), |text, byte| format!("{text}{byte:02x}"))
}

impl Tokens {
    pub(crate) fn new_code(&mut self, facts: CodeFacts, now_ms: i64) -> String {
        let code = token("");
        let expires_at_ms = now_ms + CODE_LIFE_MS;
        self.codes.insert(code.clone(), Code { facts, expires_at_ms, spent: false, grant: None });
        code
    }

    /// A code is good once; shown again, it ends what it bought.
    pub(crate) fn spend_code(&mut self, code: &str, redirect_uri: &str, now_ms: i64) -> Option<CodeFacts> {
        let known = self.codes.get_mut(code)?;
        if known.spent {
            if let Some(grant) = known.grant {
                self.revoke(Some(grant), now_ms);
            }
            return None;
        }
        known.spent = true;
        (now_ms < known.expires_at_ms && known.facts.redirect_uri == redirect_uri).then(|| known.facts.clone())
    }

    /// Starts a grant. There is a refresh token only where `offline` was granted.
    pub(crate) fn new_grant(
        &mut self,
        account: &str,
        facts: &CodeFacts,
        code: Option<&str>,
        access_secs: i64,
        now_ms: i64,
    ) -> Issued {
        self.last_grant += 1;
        let grant = self.last_grant;
        if let Some(known) = code.and_then(|code| self.codes.get_mut(code)) {
            known.grant = Some(grant);
        }
        let refresh_token = facts.scope.split(' ').any(|scope| scope == "offline").then(|| token("rt_"));
        let index = self.issue(account, grant, facts.user_id, &facts.scope, refresh_token.clone(), access_secs, now_ms);
        Issued { nonce: facts.nonce.clone(), ..self.issued(index, refresh_token) }
    }

    /// What a refresh token buys, by the account's rules.
    pub(crate) fn refresh(&mut self, refresh_token: &str, rules: &Rules, now_ms: i64) -> Result<Issued, Refused> {
        // The newest set of it: where it stays, each refresh makes one more.
        let known = self.sets.iter().rposition(|set| set.refresh_token.as_deref() == Some(refresh_token));
        let index = known.ok_or(Refused::Invalid)?;
        let old = &self.sets[index];
        if old.revoked_at_ms.is_some() {
            return Err(Refused::Invalid);
        }
        if old.spent_at_ms.is_some() {
            let grant = old.grant;
            self.revoke(Some(grant), now_ms);
            return Err(Refused::Reused);
        }
        let (account, grant, user_id, scope) = (old.helpdesk.clone(), old.grant, old.user_id, old.scope.clone());
        let same = refresh_token.to_owned();
        let (kept, told) = match rules.rotation {
            Rotation::SingleUse => {
                self.sets[index].spent_at_ms = Some(now_ms);
                let new = token("rt_");
                (new.clone(), Some(new))
            }
            Rotation::Stays => (same, None),
            Rotation::SameAgain => (same.clone(), Some(same)),
        };
        let parent = self.sets[index].refresh_fingerprint.clone();
        let new = self.issue(&account, grant, user_id, &scope, Some(kept), rules.access_secs, now_ms);
        self.sets[new].parent = parent;
        Ok(self.issued(new, told))
    }

    #[expect(clippy::too_many_arguments, reason = "the facts of one set, each with a name")]
    fn issue(
        &mut self,
        account: &str,
        grant: u64,
        user_id: i64,
        scope: &str,
        refresh_token: Option<String>,
        access_secs: i64,
        now_ms: i64,
    ) -> usize {
        let access_token = token("");
        self.sets.push(IssuedSet {
            grant,
            helpdesk: account.to_owned(),
            user_id,
            scope: scope.to_owned(),
            parent: None,
            access_fingerprint: fingerprint(&access_token),
            refresh_fingerprint: refresh_token.as_deref().map(fingerprint),
            access_token: Some(access_token),
            refresh_token,
            issued_at_ms: now_ms,
            access_expires_at_ms: Some(now_ms + access_secs * 1000),
            refresh_expires_at_ms: None,
            spent_at_ms: None,
            revoked_at_ms: None,
            answer_lost: false,
        });
        self.sets.len() - 1
    }

    fn issued(&self, index: usize, refresh_token: Option<String>) -> Issued {
        let set = &self.sets[index];
        Issued {
            index,
            grant: set.grant,
            user_id: set.user_id,
            scope: set.scope.clone(),
            access_token: set.access_token.clone().unwrap_or_default(),
            refresh_token,
            nonce: None,
        }
    }

    pub(crate) fn bearer(&self, access_token: &str, now_ms: i64) -> Option<Bearer> {
        let set = self.sets.iter().find(|set| set.access_token.as_deref() == Some(access_token))?;
        let lives = set.is_live() && set.access_expires_at_ms.is_none_or(|end| now_ms < end);
        lives.then(|| Bearer { user_id: set.user_id, scope: set.scope.clone() })
    }

    /// The live sets of a grant, or of all; answers how many died.
    pub(crate) fn revoke(&mut self, grant: Option<u64>, now_ms: i64) -> u64 {
        let mut died = 0;
        for set in self.sets.iter_mut().filter(|set| set.is_live() && grant.is_none_or(|grant| set.grant == grant)) {
            set.revoked_at_ms = Some(now_ms);
            died += 1;
        }
        died
    }

    /// Access tokens end now, refresh tokens live on.
    pub(crate) fn expire_access(&mut self, now_ms: i64) {
        for set in self.sets.iter_mut().filter(|set| set.access_expires_at_ms.is_some_and(|end| end > now_ms)) {
            set.access_expires_at_ms = Some(now_ms);
        }
    }

    pub(crate) fn mark_lost(&mut self, index: usize) {
        self.sets[index].answer_lost = true;
    }

    /// Opens a presentation and answers its number.
    pub(crate) fn present(&mut self, refresh_token: &str, now_ms: i64, seq: u64) -> usize {
        let known = self.sets.iter().find(|set| set.refresh_token.as_deref() == Some(refresh_token));
        self.presentations.push(Presentation {
            fingerprint: fingerprint(refresh_token),
            grant: known.map(|set| set.grant),
            started_at_ms: now_ms,
            answered_at_ms: None,
            started_seq: seq,
            answered_seq: None,
            outcome: PresentationOutcome::Open,
        });
        self.presentations.len() - 1
    }

    pub(crate) fn close(&mut self, presentation: usize, outcome: PresentationOutcome, now_ms: i64, seq: u64) {
        if let Some(open) = self.presentations.get_mut(presentation) {
            open.outcome = outcome;
            open.answered_at_ms = Some(now_ms);
            open.answered_seq = Some(seq);
        }
    }

    pub(crate) fn ledger(&self) -> Ledger {
        Ledger { sets: self.sets.clone(), presentations: self.presentations.clone() }
    }
}
