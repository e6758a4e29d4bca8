//! What the test call's answer says: whose account it is, and what later requests need.

use std::collections::BTreeMap;

use holdfast_core::provider::{Account, Identity};
use http::Method;
use serde_json::Value;

use crate::{
    account::Accounts,
    template::{Template, UrlTemplate, Values, is_name},
};

/// The cheapest call that proves a credential.
#[derive(Clone, Debug)]
pub(crate) struct Test {
    pub(crate) method: Method,
    pub(crate) target: Target,
    /// A field that has to be true in an answer that is a success.
    pub(crate) ok: Option<Place>,
    /// A list, one item of which is about the account.
    pub(crate) list: Option<Place>,
    /// What names the account: any of these.
    pub(crate) account: Vec<Place>,
    /// What it names it by.
    pub(crate) account_is: Template,
    pub(crate) account_name: Option<Place>,
    pub(crate) user_id: Option<Place>,
    pub(crate) name: Option<Place>,
    pub(crate) email: Option<Place>,
    pub(crate) role: Option<Place>,
    /// What later requests need, by placeholder.
    pub(crate) find: BTreeMap<String, Place>,
}

/// Where the test call goes.
#[derive(Clone, Debug)]
pub(crate) enum Target {
    /// Below the API's base.
    Path(Template),
    /// Elsewhere at the provider: the base is known only after it.
    Url(UrlTemplate),
}

/// A value's place in an answer: `user.id`, `org.0.name`; `.` is the answer itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place(Vec<String>);

impl Place {
    /// `None`: it is none.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        if text == "." {
            return Some(Self(Vec::new()));
        }
        let fits = |step: &str| !step.is_empty() && !step.chars().any(|c| c.is_whitespace() || c.is_control());
        text.split('.').all(fits).then(|| Self(text.split('.').map(str::to_owned).collect()))
    }

    pub(crate) fn of<'a>(&self, answer: &'a Value) -> Option<&'a Value> {
        self.0.iter().try_fold(answer, |value, step| match value {
            Value::Array(list) => list.get(step.parse::<usize>().ok()?),
            other => other.get(step),
        })
    }

    /// A text or a number, as a text; nothing for an empty one.
    pub(crate) fn text(&self, answer: &Value) -> Option<String> {
        let text = match self.of(answer)? {
            Value::String(text) => text.trim().to_owned(),
            Value::Number(number) => number.to_string(),
            _ => return None,
        };
        (!text.is_empty()).then_some(text)
    }
}

/// Why an answer names nobody.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Nobody {
    /// The list is empty: the credential reaches no account.
    Nowhere,
    /// What has to be there is not.
    Unreadable,
}

impl Test {
    /// Whether one of its fields names the account, in any of the ways that people write it.
    fn is_about(&self, accounts: &Accounts, account: &Account, item: &Value) -> bool {
        let values = accounts.read(&account.id).unwrap_or_default();
        let expected = self.account_is.fill(&values).unwrap_or_default();
        let names = |value: String| {
            let same = accounts.read(&value).is_ok_and(|read| read[crate::account::ID] == account.id);
            same || value.to_lowercase() == expected
        };
        self.account.iter().filter_map(|place| place.text(item)).any(names)
    }

    /// The part of the answer that is about the account; of a list without it, the first.
    pub(crate) fn item<'a>(
        &self,
        accounts: &Accounts,
        account: &Account,
        answer: &'a Value,
    ) -> Result<&'a Value, Nobody> {
        let Some(place) = &self.list else { return Ok(answer) };
        let list = place.of(answer).and_then(Value::as_array).ok_or(Nobody::Unreadable)?;
        let own = list.iter().find(|item| self.is_about(accounts, account, item));
        own.or(list.first()).ok_or(Nobody::Nowhere)
    }

    /// The same, and never of another account: what is found in it is sent with each request.
    pub(crate) fn own_item<'a>(
        &self,
        accounts: &Accounts,
        account: &Account,
        answer: &'a Value,
    ) -> Result<&'a Value, Nobody> {
        let item = self.item(accounts, account, answer)?;
        let own = self.account.is_empty() || self.is_about(accounts, account, item);
        if own { Ok(item) } else { Err(Nobody::Nowhere) }
    }

    /// Who the credential speaks for.
    pub(crate) fn identity(&self, accounts: &Accounts, account: &Account, item: &Value) -> Result<Identity, Nobody> {
        let text = |place: &Option<Place>| place.as_ref().and_then(|place| place.text(item));
        let account_id = if self.account.is_empty() || self.is_about(accounts, account, item) {
            account.id.clone()
        } else {
            self.account.iter().find_map(|place| place.text(item)).ok_or(Nobody::Unreadable)?
        };
        let user_id = match &self.user_id {
            Some(place) => place.text(item).ok_or(Nobody::Unreadable)?,
            None => account_id.clone(),
        };
        let own = account_id == account.id;
        let account_name = text(&self.account_name);
        // Where nothing else is named, the name is what tells an answer from any other.
        if self.account.is_empty() && self.user_id.is_none() && self.account_name.is_some() && account_name.is_none() {
            return Err(Nobody::Unreadable);
        }
        Ok(Identity {
            account_name: account_name
                .unwrap_or_else(|| if own { account.display.clone() } else { account_id.clone() }),
            account_id,
            user_id,
            name: text(&self.name),
            email: text(&self.email),
            role: text(&self.role),
            scopes: None,
        })
    }

    /// What later requests need; `None`: the answer lacks some of it.
    pub(crate) fn found(&self, item: &Value) -> Option<Values> {
        let one = |(name, place): (&String, &Place)| {
            let value = place.text(item)?;
            let fits = value.len() <= 200 && value.bytes().all(|byte| byte.is_ascii_graphic());
            (fits && is_name(name)).then_some((name.clone(), value))
        };
        self.find.iter().map(one).collect()
    }
}
