//! What was issued, and what became of it.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use super::table::{Refresh, Service};
use crate::clock::random_bytes;

/// A code is good for so long.
const CODE_MS: i64 = 600_000;

#[derive(Debug, Default)]
pub(super) struct State {
    codes: BTreeMap<String, Code>,
    access: BTreeMap<String, Access>,
    refresh: BTreeMap<String, Old>,
    grants: u64,
    /// Refreshes that brought something.
    pub(super) refreshes: u64,
    /// Salesforce organisations whose administrators switched rotation on, and the like.
    pub(super) rotates_all: bool,
}

/// What a person allowed.
#[derive(Clone, Debug)]
pub(super) struct Granted {
    pub(super) service: &'static str,
    /// The host of the authorisation request.
    pub(super) host: String,
    /// Whose account it is: `ada` for the one that files have as their example.
    pub(super) who: String,
    pub(super) scopes: Vec<String>,
    pub(super) lasting: bool,
    number: u64,
}

#[derive(Clone, Debug)]
pub(super) struct Code {
    pub(super) granted: Granted,
    pub(super) redirect_uri: String,
    pub(super) challenge: Option<String>,
    born_ms: i64,
}

#[derive(Debug)]
struct Access {
    granted: Granted,
    ends_ms: Option<i64>,
}

#[derive(Debug)]
struct Old {
    granted: Granted,
    /// When it was spent, and for which set.
    spent: Option<(i64, Brought)>,
}

/// A token set.
#[derive(Clone, Debug)]
pub(super) struct Brought {
    pub(super) granted: Granted,
    pub(super) access_token: String,
    pub(super) refresh_token: Option<String>,
}

impl State {
    pub(super) fn new_code(
        &mut self,
        granted: Granted,
        redirect_uri: &str,
        challenge: Option<&str>,
        now_ms: i64,
    ) -> String {
        let code = token("code");
        self.grants += 1;
        let granted = Granted { number: self.grants, ..granted };
        let code_facts = Code {
            granted,
            redirect_uri: redirect_uri.to_owned(),
            challenge: challenge.map(str::to_owned),
            born_ms: now_ms,
        };
        self.codes.insert(code.clone(), code_facts);
        code
    }

    /// It works once, for ten minutes.
    pub(super) fn spend_code(&mut self, service: &Service, code: &str, now_ms: i64) -> Option<Code> {
        let code = self.codes.remove(code)?;
        (code.granted.service == service.id && now_ms - code.born_ms < CODE_MS).then_some(code)
    }

    pub(super) fn issue(&mut self, service: &Service, granted: &Granted, now_ms: i64) -> Brought {
        let refresh_token = granted.lasting.then(|| token("refresh"));
        self.keep(service, granted, refresh_token, now_ms)
    }

    fn keep(&mut self, service: &Service, granted: &Granted, refresh_token: Option<String>, now_ms: i64) -> Brought {
        let access_token = token("access");
        let ends_ms = service.life_secs.map(|secs| now_ms + secs * 1000);
        self.access.insert(access_token.clone(), Access { granted: granted.clone(), ends_ms });
        if let Some(token) = &refresh_token {
            self.refresh.entry(token.clone()).or_insert_with(|| Old { granted: granted.clone(), spent: None });
        }
        Brought { granted: granted.clone(), access_token, refresh_token }
    }

    /// `None`: it is dead. A reuse after the grace ends the whole grant.
    pub(super) fn refresh(&mut self, service: &Service, presented: &str, now_ms: i64) -> Option<Brought> {
        let old = self.refresh.get(presented).filter(|old| old.granted.service == service.id)?;
        let granted = old.granted.clone();
        let mode = if self.rotates_all { Refresh::Spent { grace_secs: 0 } } else { service.refresh };
        if let Some((spent_ms, again)) = &old.spent {
            let Refresh::Spent { grace_secs } = mode else { return None };
            if now_ms - spent_ms <= grace_secs * 1000 && grace_secs > 0 {
                return Some(again.clone());
            }
            self.end(granted.number);
            return None;
        }
        self.refreshes += 1;
        Some(match mode {
            Refresh::Kept => {
                let brought = self.keep(service, &granted, None, now_ms);
                Brought { refresh_token: None, ..brought }
            }
            Refresh::Another => self.issue(service, &granted, now_ms),
            Refresh::Spent { .. } => {
                let brought = self.issue(service, &granted, now_ms);
                if let Some(old) = self.refresh.get_mut(presented) {
                    old.spent = Some((now_ms, brought.clone()));
                }
                brought
            }
        })
    }

    /// Who an access token speaks for.
    pub(super) fn bearer(&self, service: &Service, token: &str, now_ms: i64) -> Option<&Granted> {
        let access = self.access.get(token).filter(|access| access.granted.service == service.id)?;
        access.ends_ms.is_none_or(|end| now_ms < end).then_some(&access.granted)
    }

    pub(super) fn is_alive(&self, refresh_token: &str) -> bool {
        self.refresh.get(refresh_token).is_some_and(|old| old.spent.is_none())
    }

    /// Everything that was issued for this service ends.
    pub(super) fn revoke(&mut self, service: &str) {
        self.access.retain(|_, access| access.granted.service != service);
        self.refresh.retain(|_, old| old.granted.service != service);
    }

    /// A token is given back, and its grant with it. False: nobody knows it.
    pub(super) fn give_back(&mut self, token: &str) -> bool {
        let of_access = self.access.get(token).map(|access| access.granted.number);
        let number = of_access.or_else(|| self.refresh.get(token).map(|old| old.granted.number));
        number.inspect(|number| self.end(*number)).is_some()
    }

    fn end(&mut self, number: u64) {
        self.access.retain(|_, access| access.granted.number != number);
        self.refresh.retain(|_, old| old.granted.number != number);
    }
}

impl Granted {
    pub(super) fn new(service: &Service, host: &str, who: &str, scopes: Vec<String>, lasting: bool) -> Self {
        Self { service: service.id, host: host.to_owned(), who: who.to_owned(), scopes, lasting, number: 0 }
    }
}

fn token(kind: &str) -> String {
    format!("{kind}-{}", URL_SAFE_NO_PAD.encode(random_bytes::<24>()))
}
