//! The other services on the control page: what there is to connect, and a button for the days that matter to Holdfast.

use std::sync::Arc;

use super::actions::take_down;
use super::page::{Pressed, notice};
use crate::desk::{World, locked};
use crate::faults::Faults;
use crate::http::{Answer, Request, each, escape, find, pairs};
use crate::{Freshdesk, FrontRig, GoogleRig, Gorgias, PipedriveRig, Shop};

const ACME: &str = "acme";
const ADA: &str = "ada";

/// A service, and what can be done to the account that the demo connects.
struct Other {
    /// In the address.
    id: &'static str,
    name: &'static str,
    account: &'static str,
    /// How it is connected.
    note: &'static str,
    /// What it is to take the access away there; `None`: there is no button for it.
    cut: Option<&'static str>,
    /// Whether there are tokens that end, and an outage can be had.
    tokens: bool,
}

const OTHERS: &[Other] = &[
    Other {
        id: "freshdesk",
        name: "Freshdesk",
        account: "acme.freshdesk.com",
        note: "By key: what each agent's profile shows.",
        cut: Some("Reset Ada's key"),
        tokens: false,
    },
    Other {
        id: "front",
        name: "Front",
        account: "Acme",
        note: "Its page asks as which teammate; only an admin may let an app in.",
        cut: Some("Remove the app"),
        tokens: true,
    },
    Other {
        id: "google",
        name: "Google",
        account: "ada@example.com",
        note: "Its consent page asks what to allow.",
        cut: Some("Remove Ada's access"),
        tokens: true,
    },
    Other {
        id: "gorgias",
        name: "Gorgias",
        account: "acme.gorgias.com",
        note: "Its page asks who is signed in. Or by a key, as its settings show it.",
        cut: Some("Revoke access and Ada's key"),
        tokens: true,
    },
    Other {
        id: "pipedrive",
        name: "Pipedrive",
        account: ACME,
        note: "Its page asks who is signed in: Ada is at Acme.",
        cut: Some("Revoke Ada's access"),
        tokens: false,
    },
    Other {
        id: "shopify",
        name: "Shopify",
        account: "acme.myshopify.com",
        note: "Its page asks whether to install.",
        cut: Some("Uninstall the app"),
        tokens: true,
    },
];

/// What a button does: its name in the form, its words, and what has happened once it was pressed.
const ACTS: [(&str, &str, &str); 3] = [
    (
        "expire",
        "Expire tokens now",
        "no access token of before works any more; Holdfast gets new ones, and nobody notices.",
    ),
    ("fail", "Fail for a minute", "every answer is 503 for a minute; Holdfast waits, and asks nobody to reconnect."),
    ("calm", "Back to normal", "it answers as usual again."),
];

/// All of them, on the page.
pub(super) fn section(world: &World, now_ms: i64, pressed: Option<&Pressed<'_>>) -> String {
    let services = each(OTHERS, |other| {
        let Other { id, name, account, note, .. } = other;
        let keys = keys(world, id, now_ms);
        let button = |value: &str, label: &str, class: &str| {
            format!(r#"<button{class} name="action" value="{value}" aria-label="{label}: {name}">{label}</button> "#)
        };
        let acts = each(ACTS.iter().filter(|_| other.tokens), |(value, label, _)| button(value, label, ""));
        let cut = other.cut.map_or_else(String::new, |label| button("cut", label, r#" class="danger""#));
        format!(
            r#"<h3 id="other-{id}">{name} <small>{account}</small></h3>
<p class="soft">{note}</p>
{keys}<form class="row" method="post" action="/control/others/{id}/do">{cut}{acts}</form>{done}"#,
            done = done(world, id, name, pressed),
        )
    });
    format!(
        r#"<section class="card" id="others" aria-labelledby="others-title">
<div class="head"><h2 id="others-title">More to connect</h2></div>
{services}
</section>"#
    )
}

/// Keys that a person would copy from there.
fn keys(world: &World, id: &str, now_ms: i64) -> String {
    let row = |words: String, key: &str| {
        format!(r#"<li><span class="grow">{}</span><code>{}</code></li>"#, escape(&words), escape(key))
    };
    let rows = match id {
        "freshdesk" => world.freshdesk.find(ACME, &world.start.url, now_ms).map(|account| {
            let data = locked(&account.data);
            let active = data.agents.iter().filter(|agent| agent.active).take(2);
            each(active, |agent| row(format!("API key of {}", agent.name), &agent.api_key))
        }),
        "gorgias" => world.gorgias.find(ACME, now_ms).map(|account| {
            let data = locked(&account.data);
            let active = data.users.iter().filter(|user| user.active).take(2);
            each(active, |user| row(format!("User name {}, with the API key", user.email), &user.api_key))
        }),
        _ => None,
    };
    rows.map_or_else(String::new, |rows| format!("<ul class=\"rows\">{rows}</ul>\n"))
}

/// Does what a button says and goes back to the page. `None`: there is no such service.
pub(super) fn act(world: &Arc<World>, id: &str, request: &Request) -> Option<Answer> {
    let other = OTHERS.iter().find(|other| other.id == id)?;
    let fields = pairs(&request.body);
    let action = find(&fields, "action").unwrap_or_default();
    let known = action == "cut" && other.cut.is_some() || other.tokens && ACTS.iter().any(|(name, ..)| *name == action);
    if !known {
        return Some(Answer::text(400, "There is no such action"));
    }
    run(world, id, action);
    Some(Pressed { action, at: &format!("other.{id}") }.back())
}

fn run(world: &Arc<World>, id: &str, action: &str) {
    let now_ms = world.clock.now_ms();
    let trouble = |faults: &mut Faults| {
        *faults = Faults::default();
        if action == "fail" {
            take_down(faults);
        }
    };
    match id {
        "freshdesk" => {
            let account = world.freshdesk.find(ACME, &world.start.url, now_ms);
            account.map(|account| Freshdesk::new(Arc::clone(world), account).reset_key(ADA));
        }
        "front" => {
            let front = FrontRig::new(Arc::clone(world));
            match action {
                "cut" => drop(front.remove_app(ACME)),
                "expire" => front.expire_access_tokens(),
                _ => front.trouble(trouble),
            }
        }
        "google" => {
            let google = GoogleRig::new(Arc::clone(world));
            match action {
                "cut" => drop(google.revoke(ADA)),
                "expire" => google.expire_access_tokens(),
                _ => google.trouble(trouble),
            }
        }
        "gorgias" => {
            let Some(place) = world.gorgias.find(ACME, now_ms) else { return };
            let gorgias = Gorgias::new(Arc::clone(world), place);
            match action {
                "cut" => {
                    gorgias.revoke(None);
                    gorgias.reset_key(ADA);
                }
                "expire" => gorgias.expire_access_tokens(),
                _ => gorgias.trouble(trouble),
            }
        }
        "pipedrive" => drop(PipedriveRig::new(Arc::clone(world)).revoke(ADA)),
        "shopify" => {
            let Some(place) = world.shops.find(ACME) else { return };
            let shop = Shop::new(Arc::clone(world), place);
            match action {
                "cut" => drop(shop.uninstall()),
                "expire" => shop.expire_access_tokens(),
                _ => shop.trouble(trouble),
            }
        }
        other => unreachable!("{other} stands in the list of services"),
    }
}

/// What was done there, if it is here that a button was pressed.
fn done(world: &World, id: &str, name: &str, pressed: Option<&Pressed<'_>>) -> String {
    let Some(pressed) = pressed.filter(|pressed| pressed.at == format!("other.{id}")) else { return String::new() };
    let said = ACTS.iter().find(|(action, ..)| *action == pressed.action).map(|(.., done)| *done);
    let cut = "the access is gone there; Holdfast hears of it at its next call or refresh, or when you press Test.";
    match said.or((pressed.action == "cut").then_some(cut)) {
        Some(said) => notice(world, &format!("{name}: {said}")),
        None => String::new(),
    }
}
