//! Holdfast's OAuth client as each provider shows it to whoever registered it: its secrets, and how they are replaced.

use crate::client::Secrets;
use crate::desk::{World, locked};
use crate::http::{Answer, Request, each, escape, find, pairs};
use crate::options::CLIENT_ID;

use super::page::{Pressed, notice};

/// Those that are connected by OAuth: prefix and name.
pub const OAUTH_PROVIDERS: &[(&str, &str)] = &[
    ("front", "Front"),
    ("google", "Google"),
    ("gorgias", "Gorgias"),
    ("pipedrive", "Pipedrive"),
    ("shopify", "Shopify"),
    ("zendesk", "Zendesk"),
];

/// All of them, on the page.
pub(super) fn section(world: &World, pressed: Option<&Pressed<'_>>) -> String {
    let rows = each(OAUTH_PROVIDERS, |(id, name)| {
        let secrets = locked(&world.client).secrets(id).clone();
        row(id, name, &secrets, &done(world, id, name, pressed))
    });
    format!(
        r#"<section class="card" id="clients" aria-labelledby="clients-title">
<div class="head"><h2 id="clients-title">Holdfast’s OAuth client</h2></div>
<p class="soft">As whoever registered it sees it at each provider. A client may have two secrets for a while, so that the old one
is replaced without a break.</p>
<ul class="rows">{rows}</ul>
</section>"#
    )
}

fn row(id: &str, name: &str, secrets: &Secrets, done: &str) -> String {
    let button = |action: &str, class: &str, label: &str| {
        format!(
            r#"<form method="post" action="/control/clients/{id}/do"><button{class} name="action" value="{action}" aria-label="{label}: {name}">{label}</button></form>"#
        )
    };
    let (state, shown, button) = match &secrets.next {
        None => ("One secret", String::new(), button("make", "", "Make a new client secret")),
        Some(next) => (
            "Two secrets: the new one, and the old one until you retire it",
            format!(
                r#"<label class="secret">New client secret of {name}, to copy<input readonly value="{}" spellcheck="false"></label>"#,
                escape(next)
            ),
            button("retire", r#" class="danger""#, "Retire the old secret"),
        ),
    };
    format!(
        r#"<li id="client-{id}"><span class="grow"><strong>{name}</strong> <code>{CLIENT_ID}</code><br><small>{state}</small></span>{button}{shown}{done}</li>
"#
    )
}

fn done(world: &World, id: &str, name: &str, pressed: Option<&Pressed<'_>>) -> String {
    let Some(pressed) = pressed.filter(|pressed| pressed.at == format!("client.{id}")) else { return String::new() };
    match pressed.action {
        "make" => notice(
            world,
            &format!(
                "{name} has made a new client secret, and accepts the old one beside it. Copy it, and enter it in \
                 Holdfast as the next client secret, under Settings, OAuth apps."
            ),
        ),
        "retire" => notice(
            world,
            &format!("{name} refuses the old client secret from now on. If Holdfast has the new one, nothing stops."),
        ),
        _ => String::new(),
    }
}

/// Does what a button says and goes back to the page. `None`: there is no such provider.
pub(super) fn act(world: &World, id: &str, request: &Request) -> Option<Answer> {
    OAUTH_PROVIDERS.iter().find(|(own, _)| *own == id)?;
    let mut client = locked(&world.client);
    let fields = pairs(&request.body);
    // Pressed twice, nothing more happens.
    let action = match find(&fields, "action") {
        Some("make") => {
            client.make_secret(id);
            "make"
        }
        Some("retire") => {
            client.retire_secret(id);
            "retire"
        }
        _ => return Some(Answer::text(400, "There is no such action")),
    };
    Some(Pressed { action, at: &format!("client.{id}") }.back())
}
