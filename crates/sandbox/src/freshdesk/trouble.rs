//! Bad days of one account.

use serde::{Deserialize, Serialize};

use crate::faults::Canned;

/// The trouble of one account. Counts go down as they are used up; what lasts for a while ends by the sandbox's clock.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct FreshdeskTrouble {
    /// What the API answers instead; with `after_processing` a change is made first.
    pub answer: Option<Canned>,
    /// `answer` meets only paths that end so: `/conversations`.
    pub only_at: Option<String>,
    /// So many requests that `answer` would meet get through before it.
    pub let_through: u64,
    /// For so many requests: the connection is closed before anything is processed.
    pub drop_before: u64,
    /// For so many requests: the request is processed, then the connection is closed without an answer.
    pub lose_next_answer: u64,
    /// The API waits so long before it processes a request.
    pub delay_ms: u64,
}

/// What is in store for one request.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    pub(crate) delay_ms: u64,
    pub(crate) dropped: bool,
    pub(crate) loses: bool,
    pub(crate) canned: Option<Canned>,
}

impl FreshdeskTrouble {
    pub(crate) fn plan(&mut self, path: &str, now_ms: i64) -> Plan {
        let dropped = take_one(&mut self.drop_before);
        let mut plan = Plan { delay_ms: self.delay_ms, dropped, ..Plan::default() };
        if dropped {
            return plan;
        }
        let meets = self.answer.is_some() && self.only_at.as_deref().is_none_or(|end| path.ends_with(end));
        if meets && !take_one(&mut self.let_through) {
            plan.canned = Canned::take(&mut self.answer, now_ms);
        }
        plan.loses = take_one(&mut self.lose_next_answer);
        plan
    }
}

fn take_one(count: &mut u64) -> bool {
    let some = *count > 0;
    *count = count.saturating_sub(1);
    some
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_meets_its_own_path_after_those_that_it_lets_through() {
        let mut trouble = FreshdeskTrouble {
            answer: Some(Canned::new(503, "").times(1)),
            only_at: Some("/conversations".to_owned()),
            let_through: 1,
            ..FreshdeskTrouble::default()
        };

        let met: Vec<bool> =
            ["tickets/1", "tickets/1/conversations", "tickets/1/conversations", "tickets/1/conversations"]
                .iter()
                .map(|path| trouble.plan(path, 0).canned.is_some())
                .collect();

        assert_eq!(met, [false, false, true, false]);
    }
}
