//! What the buttons of the control page do, and what Holdfast makes of it.

use crate::faults::{Canned, Faults};
use crate::handle::Helpdesk;
use crate::http::{Answer, Request, find, pairs};

use super::page::Pressed;

/// For how long the one button's trouble lasts.
const DOWN_SECS: u64 = 60;
const SLOW_MS: u64 = 5_000;

/// A button.
pub(super) struct Action {
    /// As the form names it.
    pub(super) name: &'static str,
    /// On the button.
    pub(super) label: &'static str,
    /// What Holdfast will do about it, beside the button.
    pub(super) then: &'static str,
    /// What has happened, once it was pressed.
    pub(super) done: &'static str,
    /// Whether people are cut off by it.
    pub(super) harms: bool,
}

pub(super) const ACTIONS: &[Action] = &[
    Action {
        name: "write",
        label: "Let a customer write",
        then: "An urgent ticket comes in, and the webhooks of this helpdesk hear of it. An agent that waits for new tickets takes it up at \
               once where Holdfast has a webhook here, else after the next sync; one that looks for urgent ones at its next run.",
        done: "A customer has written.",
        harms: false,
    },
    Action {
        name: "expire",
        label: "Expire tokens now",
        then: "The next call is refused. Holdfast gets a new token once, for all who ask at that moment, and repeats the \
               call: nobody notices.",
        done: "No access token of before works any more. The refresh tokens are still good.",
        harms: false,
    },
    Action {
        name: "revoke",
        label: "Revoke access",
        then: "Holdfast asks once more to be sure, then says so at once: the agents that need this helpdesk stop, no other \
               one does, and the admins get a mail with a Reconnect button.",
        done: "All tokens of this helpdesk are dead. Holdfast hears of it at its next call or refresh, or when you press \
               Test there.",
        harms: true,
    },
    Action {
        name: "lose",
        label: "Lose the next answer",
        then: "The next refresh spends the old tokens, and the new ones get lost on the way. Zendesk does not repeat them: \
               Holdfast says that an answer was lost, and a person has to reconnect.",
        done: "The answer to the next refresh will get lost.",
        harms: true,
    },
    Action {
        name: "drop",
        label: "Hang up once",
        then: "The next refresh is cut off before anything is read, so nothing is spent. Holdfast waits a little, tries the \
               same token again, and goes on.",
        done: "The next refresh will be cut off.",
        harms: false,
    },
    Action {
        name: "slow",
        label: "Slow down",
        then: "Every answer takes 5 seconds. Callers wait for one refresh together, and none longer than its limit.",
        done: "Every answer takes 5 seconds from now on.",
        harms: false,
    },
    Action {
        name: "fail",
        label: "Fail for a minute",
        then: "Every answer is 503. Holdfast marks the connector as degraded and tries again with growing pauses. It fails \
               nothing, stops no agent, and asks nobody to reconnect.",
        done: "Every answer is 503 for the next minute.",
        harms: false,
    },
    Action {
        name: "calm",
        label: "Back to normal",
        then: "Ends slowness, outage and what was to be lost. It gives no access back: that takes Reconnect in Holdfast.",
        done: "It answers as usual again.",
        harms: false,
    },
];

/// The one of this name.
pub(super) fn find_action(name: &str) -> Option<&'static Action> {
    ACTIONS.iter().find(|action| action.name == name)
}

/// Does what a button says and goes back to the page.
pub(super) fn act(desks: &[Helpdesk], request: &Request) -> Answer {
    let fields = pairs(&request.body);
    let Some(action) = find(&fields, "action").and_then(find_action) else {
        return Answer::text(400, "There is no such action");
    };
    let grant = match find(&fields, "grant").map(str::parse) {
        None => None,
        Some(Ok(grant)) => Some(grant),
        Some(Err(_)) => return Answer::text(400, "A grant has a number"),
    };
    for desk in desks {
        run(action.name, desk, grant);
    }
    let desk = desks.first().map(Helpdesk::name).unwrap_or_default();
    // A single grant has its button elsewhere.
    let at = if grant.is_some() { format!("{desk}.access") } else { desk.to_owned() };
    Pressed { action: action.name, at: &at }.back()
}

/// Every answer is an outage's, for a while.
pub(super) fn take_down(faults: &mut Faults) {
    let down = Canned::new(503, "<h1>Down for maintenance</h1>").content_type("text/html").for_secs(DOWN_SECS);
    faults.token_answer = Some(down.clone());
    faults.api_answer = Some(down);
}

fn run(action: &str, desk: &Helpdesk, grant: Option<u64>) {
    match action {
        "write" => {
            let (desk, ticket) = (desk.clone(), desk.write_ticket());
            tokio::spawn(async move { desk.tell("ticket.created", ticket).await });
        }
        "expire" => {
            desk.expire_access_tokens();
        }
        "revoke" => {
            desk.revoke(grant);
        }
        "lose" => desk.trouble(|faults| faults.lose_next_answer += 1),
        "drop" => desk.trouble(|faults| faults.drop_before += 1),
        "slow" => desk.trouble(|faults| {
            faults.delay_ms = SLOW_MS;
            faults.api_delay_ms = SLOW_MS;
        }),
        "fail" => desk.trouble(take_down),
        "calm" => desk.calm(),
        other => unreachable!("{other} stands in the list of actions"),
    }
}
