//! A dry run: what would become of each connection, those before it in the same file counted in.
//!
//! The service says what a connection meets there; what the file itself brings is known here alone, since the service is
//! asked in batches and keeps nothing of them.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

/// What a connection that is right would meet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Meeting {
    /// Provider and account, the same for each spelling.
    pub(crate) account: String,
    /// The account, for people.
    pub(crate) shown: String,
    /// The organisation has a connector on it, with this alias.
    pub(crate) there: Option<There>,
    /// Aliases that it may have, the best first, each with whether a connector has it.
    pub(crate) aliases: Vec<(String, bool)>,
    /// Why it cannot be beside a connector of somebody else.
    pub(crate) held: Option<String>,
}

/// A connector that is there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct There {
    pub(crate) alias: Option<String>,
}

impl Meeting {
    /// An account that was there without its alias.
    pub(crate) const ALIASED: &str =
        "This organisation has the account already; it had no alias, and goes by this one now.";

    /// An account that goes by another alias than the one that is brought.
    pub(crate) fn other_alias(account: &str, alias: &str) -> String {
        format!(
            "This organisation has {account} already, by the alias {alias}, and a connector has one: it does not go by \
             this one. Nothing was changed. Go on with {alias}, or with its id."
        )
    }

    fn wants(&self, alias: &str) -> bool {
        self.aliases.iter().any(|(wanted, _)| wanted == alias)
    }
}

/// What the connections so far would have made.
#[derive(Default)]
pub(crate) struct Plan {
    /// Accounts with the number of whose they would be, and their alias by then.
    accounts: HashMap<String, (u64, Option<String>)>,
    /// Aliases that are given by then.
    aliases: HashMap<String, u64>,
}

impl Plan {
    /// Status and words for the connection of this number; `one` is what is counted.
    pub(crate) fn next(&mut self, one: &str, number: u64, meets: Meeting) -> (&'static str, String) {
        let before = self.accounts.get(&meets.account).cloned();
        let free = meets.aliases.iter().find(|(alias, taken)| !taken && !self.aliases.contains_key(alias));
        let free = free.map(|(alias, _)| alias.clone());
        let there = before.as_ref().map(|(_, alias)| alias).or(meets.there.as_ref().map(|there| &there.alias));
        let shown = &meets.shown;
        match there {
            Some(_) if meets.aliases.is_empty() => ("unchanged", there_already(shown, one, before.as_ref())),
            Some(Some(alias)) if meets.wants(alias) => ("unchanged", there_already(shown, one, before.as_ref())),
            Some(Some(alias)) => {
                let words = match &before {
                    Some((by, _)) => format!(
                        "{} {by} has {shown} too, by the alias {alias}, and a connector has one. Nothing would be changed.",
                        capital(one)
                    ),
                    None => Meeting::other_alias(shown, alias),
                };
                ("failed", words)
            }
            Some(None) if free.is_some() => {
                let by = before.map_or(number, |(by, _)| by);
                self.take(meets.account, by, free, number);
                ("right", format!("{shown} is here without an alias by then, and would be given this one."))
            }
            None if free.is_some() || meets.aliases.is_empty() => {
                if let Some(why) = meets.held {
                    return ("failed", why);
                }
                self.take(meets.account, number, free, number);
                ("right", "It would be imported.".to_owned())
            }
            _ => {
                let given = meets.aliases.iter().find_map(|(alias, _)| self.aliases.get(alias));
                let whose = given.map_or("Another connector has this alias".to_owned(), |by| {
                    format!("{one} {by} has this alias too")
                });
                ("failed", format!("{}. Nothing would be changed. Give it another one.", capital(&whose)))
            }
        }
    }

    fn take(&mut self, account: String, by: u64, alias: Option<String>, number: u64) {
        if let Some(alias) = &alias {
            self.aliases.insert(alias.clone(), number);
        }
        self.accounts.insert(account, (by, alias));
    }
}

fn there_already(shown: &str, one: &str, before: Option<&(u64, Option<String>)>) -> String {
    match before {
        Some((by, _)) => format!("{} {by} has {shown} too; nothing would be changed.", capital(one)),
        None => format!("This organisation has {shown} already; nothing would be changed."),
    }
}

fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map(|first| first.to_uppercase().chain(chars).collect()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meets(account: &str, aliases: &[&str]) -> Meeting {
        Meeting {
            account: account.to_owned(),
            shown: account.to_owned(),
            there: None,
            aliases: aliases.iter().map(|alias| ((*alias).to_owned(), false)).collect(),
            held: None,
        }
    }

    #[test]
    fn each_line_meets_what_those_before_it_would_have_made() {
        let mut plan = Plan::default();
        let there = |alias: Option<&str>| Some(There { alias: alias.map(str::to_owned) });
        let taken = |mut meeting: Meeting| {
            meeting.aliases[0].1 = true;
            meeting
        };
        for (number, meeting, status, words) in [
            (1, meets("a", &["x"]), "right", "It would be imported."),
            (2, meets("a", &["x"]), "unchanged", "Line 1 has a too"),
            (3, meets("a", &[]), "unchanged", "Line 1 has a too"),
            (4, meets("a", &["y"]), "failed", "by the alias x"),
            (5, meets("b", &["x"]), "failed", "Line 1 has this alias too"),
            (6, meets("b", &["x", "k:x"]), "right", "It would be imported."),
            (7, meets("b", &["x", "k:x"]), "unchanged", "Line 6 has b too"),
            (8, meets("c", &[]), "right", "It would be imported."),
            (9, meets("c", &["z"]), "right", "would be given this one"),
            (10, meets("c", &["z"]), "unchanged", "Line 8 has c too"),
            (11, meets("d", &["z"]), "failed", "Line 9 has this alias too"),
            (12, Meeting { there: there(None), ..meets("e", &["e1"]) }, "right", "would be given this one"),
            (13, Meeting { there: there(None), ..meets("e", &["e2"]) }, "failed", "by the alias e1"),
            (
                14,
                Meeting { there: there(Some("f1")), ..meets("f", &["f1"]) },
                "unchanged",
                "This organisation has f already",
            ),
            (15, Meeting { there: there(Some("f1")), ..meets("f", &["f2"]) }, "failed", "by the alias f1"),
            (16, taken(meets("g", &["g1"])), "failed", "Another connector has this alias"),
            (17, taken(meets("g", &["g1", "k:g1"])), "right", "It would be imported."),
            (
                18,
                Meeting { there: there(None), ..taken(meets("h", &["h1"])) },
                "failed",
                "Another connector has this alias",
            ),
            (19, Meeting { held: Some("Held.".to_owned()), ..meets("i", &[]) }, "failed", "Held."),
        ] {
            let (said, detail) = plan.next("line", number, meeting);
            assert!(said == status && detail.contains(words), "line {number}: {said}: {detail}");
        }
    }
}
