//! Codes and tokens of the one app in one shop: what lives, what is spent, what a newer one retires.
//!
//! Every moment is passed in; nothing here waits or answers.
//! <https://shopify.dev/docs/apps/build/authentication-authorization/access-tokens/offline-access-tokens>

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use crate::clock::random_bytes;
use crate::ledger::{IssuedSet, Ledger, Presentation, PresentationOutcome, fingerprint};

const SECOND_MS: i64 = 1000;
const DAY_MS: i64 = 86_400 * SECOND_MS;
/// Not documented; nobody takes longer.
const CODE_LIFE_MS: i64 = 60 * SECOND_MS;
/// 3600 s, unless a handle says otherwise.
pub(crate) const ACCESS_SECS: i64 = 3_600;
/// 90 days, from each refresh anew.
pub(crate) const REFRESH_SECS: i64 = 7_776_000;
/// A used refresh token is good for no longer than this after its first use.
const REUSE_CEILING_MS: i64 = 30 * DAY_MS;
/// So long a migration can be asked for again.
const MIGRATION_AGAIN_MS: i64 = 7 * DAY_MS;

/// A pair, or an endless token, as the caller gets it.
#[derive(Debug, Clone)]
pub(crate) struct Issued {
    pub(crate) index: usize,
    pub(crate) grant: u64,
    pub(crate) scope: String,
    pub(crate) access_token: String,
    pub(crate) refresh_token: Option<String>,
    /// Seconds from now on; none: endless.
    pub(crate) access_secs: Option<i64>,
    pub(crate) refresh_secs: Option<i64>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Code {
    scope: String,
    expires_at_ms: i64,
    spent: bool,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Set {
    grant: u64,
    scope: String,
    parent: Option<usize>,
    access_token: String,
    refresh_token: Option<String>,
    issued_at_ms: i64,
    access_expires_at_ms: Option<i64>,
    refresh_expires_at_ms: Option<i64>,
    /// When its refresh token was used first, and what it bought last.
    first_used_at_ms: Option<i64>,
    replacement: Option<usize>,
    /// One of its tokens was used, which retires the refresh token that bought it.
    used: bool,
    /// Its refresh token is dead; its access token lives on to its own end.
    retired_at_ms: Option<i64>,
    /// Both are dead.
    revoked_at_ms: Option<i64>,
    answer_lost: bool,
}

/// What a refresh token bought.
#[derive(Debug)]
pub(crate) enum Bought {
    New(Issued),
    Again(Issued),
}

/// Why it bought nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refused {
    /// It was used, and its replacement is in use or it is too long ago.
    Reused,
    /// Unknown, over, retired by a newer grant, or the app was taken off.
    Dead,
}

#[derive(Debug, Default, Clone, Serialize, Deserialize)]
pub(crate) struct Tokens {
    sets: Vec<Set>,
    codes: HashMap<String, Code>,
    presentations: Vec<Presentation>,
    last_grant: u64,
}

/// Whose an access token is.
#[derive(Debug, Clone)]
pub(crate) struct Bearer {
    pub(crate) scope: String,
    pub(crate) endless: bool,
}

fn token(prefix: &str) -> String {
    random_bytes::<16>().iter().fold(prefix.to_owned(), |text, byte| format!("{text}{byte:02x}"))
}

impl Tokens {
    pub(crate) fn new_code(&mut self, scope: String, now_ms: i64) -> String {
        let code = token("");
        self.codes.insert(code.clone(), Code { scope, expires_at_ms: now_ms + CODE_LIFE_MS, spent: false });
        code
    }

    /// What the code was given for.
    pub(crate) fn spend_code(&mut self, code: &str, now_ms: i64) -> Option<String> {
        let code = self.codes.get_mut(code).filter(|code| !code.spent && now_ms < code.expires_at_ms)?;
        code.spent = true;
        Some(code.scope.clone())
    }

    /// A new acquisition. A refreshable one retires every older refresh token at once; access tokens live on.
    pub(crate) fn acquire(&mut self, scope: String, expiring: bool, access_secs: i64, now_ms: i64) -> Issued {
        if expiring {
            for set in self.sets.iter_mut().filter(|set| set.refresh_token.is_some()) {
                set.retired_at_ms.get_or_insert(now_ms);
            }
        }
        self.last_grant += 1;
        self.issue(self.last_grant, scope, None, expiring.then_some(access_secs), now_ms)
    }

    fn issue(
        &mut self,
        grant: u64,
        scope: String,
        parent: Option<usize>,
        access_secs: Option<i64>,
        now_ms: i64,
    ) -> Issued {
        let expiring = access_secs.is_some();
        self.sets.push(Set {
            grant,
            scope,
            parent,
            access_token: token("shpat_"),
            refresh_token: expiring.then(|| token("shprt_")),
            issued_at_ms: now_ms,
            access_expires_at_ms: access_secs.map(|secs| now_ms + secs * SECOND_MS),
            refresh_expires_at_ms: expiring.then_some(now_ms + REFRESH_SECS * SECOND_MS),
            first_used_at_ms: None,
            replacement: None,
            used: false,
            retired_at_ms: None,
            revoked_at_ms: None,
            answer_lost: false,
        });
        self.issued(self.sets.len() - 1, now_ms)
    }

    fn issued(&self, index: usize, now_ms: i64) -> Issued {
        let set = &self.sets[index];
        let left = |at_ms: i64| ((at_ms - now_ms) / SECOND_MS).max(0);
        Issued {
            index,
            grant: set.grant,
            scope: set.scope.clone(),
            access_token: set.access_token.clone(),
            refresh_token: set.refresh_token.clone(),
            access_secs: set.access_expires_at_ms.map(left),
            refresh_secs: set.refresh_expires_at_ms.map(left),
        }
    }

    fn by_refresh(&self, token: &str) -> Option<usize> {
        self.sets.iter().position(|set| set.refresh_token.as_deref() == Some(token))
    }

    /// Uses a refresh token. One that was used before is good again until its replacement is used; then it buys a new
    /// pair in place of the one that nobody used, or the same (`same_again`): Shopify does not say which.
    pub(crate) fn refresh(
        &mut self,
        token: &str,
        access_secs: i64,
        same_again: bool,
        now_ms: i64,
    ) -> Result<Bought, Refused> {
        let index = self.by_refresh(token).ok_or(Refused::Dead)?;
        let set = &self.sets[index];
        if set.revoked_at_ms.is_some() || set.refresh_expires_at_ms.is_none_or(|end| now_ms >= end) {
            return Err(Refused::Dead);
        }
        if set.retired_at_ms.is_some() {
            return Err(if set.first_used_at_ms.is_some() { Refused::Reused } else { Refused::Dead });
        }
        if set.first_used_at_ms.is_some_and(|first| now_ms > first + REUSE_CEILING_MS) {
            return Err(Refused::Reused);
        }
        let (grant, scope, before) = (set.grant, set.scope.clone(), set.replacement);
        self.mark_used(index, now_ms);
        if let Some(before) = before {
            if same_again {
                return Ok(Bought::Again(self.issued(before, now_ms)));
            }
            // One refreshable token per app and shop.
            self.sets[before].retired_at_ms.get_or_insert(now_ms);
        }
        let issued = self.issue(grant, scope, Some(index), Some(access_secs), now_ms);
        let set = &mut self.sets[index];
        set.first_used_at_ms.get_or_insert(now_ms);
        set.replacement = Some(issued.index);
        Ok(if before.is_some() { Bought::Again(issued) } else { Bought::New(issued) })
    }

    /// One of its tokens is used: what bought it is retired now.
    fn mark_used(&mut self, index: usize, now_ms: i64) {
        self.sets[index].used = true;
        if let Some(parent) = self.sets[index].parent {
            self.sets[parent].retired_at_ms.get_or_insert(now_ms);
        }
    }

    /// An endless token for a pair. Asked for again within a week, it is the same pair, until that is used to refresh.
    pub(crate) fn migrate(&mut self, token: &str, access_secs: i64, now_ms: i64) -> Option<Bought> {
        let index = self.sets.iter().position(|set| set.access_token == token && set.refresh_token.is_none())?;
        let set = &self.sets[index];
        if let (Some(pair), Some(first)) = (set.replacement, set.first_used_at_ms) {
            let pair_set = &mut self.sets[pair];
            let fresh = pair_set.first_used_at_ms.is_none()
                && pair_set.retired_at_ms.is_none()
                && pair_set.revoked_at_ms.is_none();
            if !fresh || now_ms > first + MIGRATION_AGAIN_MS {
                return None;
            }
            pair_set.access_expires_at_ms = pair_set.access_expires_at_ms.max(Some(now_ms + access_secs * SECOND_MS));
            return Some(Bought::Again(self.issued(pair, now_ms)));
        }
        if set.revoked_at_ms.is_some() {
            return None;
        }
        let scope = set.scope.clone();
        let issued = self.acquire(scope, true, access_secs, now_ms);
        let set = &mut self.sets[index];
        set.first_used_at_ms = Some(now_ms);
        set.replacement = Some(issued.index);
        set.revoked_at_ms = Some(now_ms);
        Some(Bought::New(issued))
    }

    /// Whose a token is that works now. Its use counts.
    pub(crate) fn bearer(&mut self, token: &str, now_ms: i64) -> Option<Bearer> {
        let index = self.working(token, now_ms)?;
        self.mark_used(index, now_ms);
        let set = &self.sets[index];
        Some(Bearer { scope: set.scope.clone(), endless: set.refresh_token.is_none() })
    }

    /// The set of an access token that works now.
    pub(crate) fn working(&self, token: &str, now_ms: i64) -> Option<usize> {
        let found = self.sets.iter().position(|set| set.access_token == token)?;
        let set = &self.sets[found];
        let lives = set.revoked_at_ms.is_none() && set.access_expires_at_ms.is_none_or(|end| now_ms < end);
        lives.then_some(found)
    }

    /// The app is taken off the shop: everything dies. Answers how many sets did.
    pub(crate) fn uninstall(&mut self, now_ms: i64) -> u64 {
        let mut died = 0;
        for set in self.sets.iter_mut().filter(|set| set.revoked_at_ms.is_none()) {
            set.revoked_at_ms = Some(now_ms);
            died += 1;
        }
        self.codes.clear();
        died
    }

    /// Ends all access tokens that end at all.
    pub(crate) fn expire_access(&mut self, now_ms: i64) {
        for set in self.sets.iter_mut().filter(|set| set.access_expires_at_ms.is_some_and(|end| end > now_ms)) {
            set.access_expires_at_ms = Some(now_ms);
        }
    }

    pub(crate) fn mark_lost(&mut self, index: usize) {
        self.sets[index].answer_lost = true;
    }

    pub(crate) fn present(&mut self, token: &str, now_ms: i64, seq: u64) -> usize {
        self.presentations.push(Presentation {
            fingerprint: fingerprint(token),
            grant: self.by_refresh(token).map(|index| self.sets[index].grant),
            started_at_ms: now_ms,
            answered_at_ms: None,
            started_seq: seq,
            answered_seq: None,
            outcome: PresentationOutcome::Open,
        });
        self.presentations.len() - 1
    }

    pub(crate) fn close(&mut self, presentation: usize, outcome: PresentationOutcome, now_ms: i64, seq: u64) {
        let presentation = &mut self.presentations[presentation];
        presentation.answered_at_ms = Some(now_ms);
        presentation.answered_seq = Some(seq);
        presentation.outcome = outcome;
    }

    pub(crate) fn ledger(&self, shop: &str) -> Ledger {
        let fingerprint_of = |index: usize| self.sets[index].refresh_token.as_deref().map(fingerprint);
        let sets = self.sets.iter().map(|set| IssuedSet {
            grant: set.grant,
            helpdesk: shop.to_owned(),
            user_id: 0,
            scope: set.scope.clone(),
            parent: set.parent.and_then(fingerprint_of),
            access_fingerprint: fingerprint(&set.access_token),
            refresh_fingerprint: set.refresh_token.as_deref().map(fingerprint),
            access_token: Some(set.access_token.clone()),
            refresh_token: set.refresh_token.clone(),
            issued_at_ms: set.issued_at_ms,
            access_expires_at_ms: set.access_expires_at_ms,
            refresh_expires_at_ms: set.refresh_expires_at_ms,
            spent_at_ms: set.retired_at_ms,
            revoked_at_ms: set.revoked_at_ms,
            answer_lost: set.answer_lost,
        });
        Ledger { sets: sets.collect(), presentations: self.presentations.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: i64 = 3_600 * SECOND_MS;

    fn pair(bought: Bought) -> (String, String) {
        let (Bought::New(issued) | Bought::Again(issued)) = bought;
        (issued.access_token, issued.refresh_token.unwrap())
    }

    fn granted(tokens: &mut Tokens) -> (String, String) {
        let issued = tokens.acquire("read_orders".to_owned(), true, ACCESS_SECS, 0);
        (issued.access_token, issued.refresh_token.unwrap())
    }

    #[test]
    fn a_used_refresh_token_is_good_until_its_replacement_is_used() {
        let mut tokens = Tokens::default();
        let (old_access, first) = granted(&mut tokens);
        let (_, lost) = pair(tokens.refresh(&first, ACCESS_SECS, false, HOUR / 2).unwrap());
        assert!(tokens.working(&old_access, HOUR / 2).is_some(), "the old access token lives to its own end");

        let (access, second) = pair(tokens.refresh(&first, ACCESS_SECS, false, HOUR).unwrap());
        assert_eq!(tokens.refresh(&lost, ACCESS_SECS, false, HOUR).unwrap_err(), Refused::Dead);
        assert!(tokens.bearer(&access, HOUR).is_some());
        assert_eq!(tokens.refresh(&first, ACCESS_SECS, false, HOUR).unwrap_err(), Refused::Reused);
        assert!(tokens.refresh(&second, ACCESS_SECS, false, HOUR).is_ok());
    }

    #[test]
    fn a_used_refresh_token_ends_thirty_days_after_its_first_use_and_any_after_ninety() {
        let mut tokens = Tokens::default();
        let (_, first) = granted(&mut tokens);
        tokens.refresh(&first, ACCESS_SECS, true, 0).unwrap();
        assert!(tokens.refresh(&first, ACCESS_SECS, true, 30 * DAY_MS).is_ok());
        assert_eq!(tokens.refresh(&first, ACCESS_SECS, true, 30 * DAY_MS + 1).unwrap_err(), Refused::Reused);

        let mut tokens = Tokens::default();
        let (_, first) = granted(&mut tokens);
        assert_eq!(tokens.refresh(&first, ACCESS_SECS, true, 90 * DAY_MS).unwrap_err(), Refused::Dead);
    }

    #[test]
    fn a_newer_grant_retires_the_refresh_token_and_not_the_access_token() {
        let mut tokens = Tokens::default();
        let (access, first) = granted(&mut tokens);
        granted(&mut tokens);
        assert_eq!(tokens.refresh(&first, ACCESS_SECS, false, 1).unwrap_err(), Refused::Dead);
        assert!(tokens.bearer(&access, 1).is_some());
        tokens.uninstall(2);
        assert!(tokens.bearer(&access, 2).is_none());
    }

    #[test]
    fn an_endless_token_is_migrated_once_and_again_only_for_the_same_pair() {
        let mut tokens = Tokens::default();
        let endless = tokens.acquire("read_orders".to_owned(), false, 0, 0).access_token;
        assert!(tokens.bearer(&endless, 900 * DAY_MS).is_some_and(|bearer| bearer.endless));

        let first = pair(tokens.migrate(&endless, ACCESS_SECS, 0).unwrap());
        assert!(tokens.bearer(&endless, 1).is_none());
        assert_eq!(pair(tokens.migrate(&endless, ACCESS_SECS, 7 * DAY_MS).unwrap()), first);
        assert!(tokens.migrate(&endless, ACCESS_SECS, 7 * DAY_MS + 1).is_none());
        tokens.refresh(&first.1, ACCESS_SECS, false, HOUR).unwrap();
        assert!(tokens.migrate(&endless, ACCESS_SECS, HOUR).is_none());
    }
}
