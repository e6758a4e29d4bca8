//! Lines of the audit log as sentences.

use holdfast_store::AuditLine;
use serde::Serialize;
use serde_json::Value;

/// What the list can be narrowed to, by how an action begins.
pub(super) const GROUPS: &[(&str, &str)] = &[
    ("", "Everything"),
    ("connector.", "Connectors"),
    ("connect_link.", "Connect links"),
    ("webhook.", "Webhooks"),
    ("agent.", "Agents"),
    ("event_endpoint.", "Event endpoints"),
    ("oauth_app.", "OAuth apps"),
    ("key.", "API keys"),
    ("member.", "Team"),
    ("invitation.", "Invitations"),
    ("organisation.", "Organisation"),
    ("notifications.", "Notifications"),
    ("channel.", "Channel"),
    ("person.", "Sign-in and names"),
    ("password.", "Passwords"),
    ("second_factor.", "Two-factor sign-in"),
    ("session.", "Sessions"),
    ("job.", "Jobs"),
    ("migration.", "Migrations"),
];

/// A sentence in its parts: `Ada` `changed the role of` `Bob` `from viewer to member`.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(super) struct Said {
    who: String,
    did: String,
    /// Empty: the sentence is whole without it.
    target: String,
    rest: String,
}

/// A field that changed.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(super) struct Field {
    name: String,
    before: String,
    after: String,
}

/// What was done, and whether its target belongs to the sentence.
fn did(action: &str) -> Option<(&'static str, bool)> {
    Some(match action {
        "connector.created" => ("added the connector", true),
        "connector.imported" => ("imported the connector", true),
        "connector.imported_many" => ("imported connectors", false),
        "connector.connected" => ("connected", true),
        "connector.reconnected" => ("reconnected", true),
        "connector.account_changed" => ("changed the account of", true),
        "connector.renamed" => ("renamed the connector", true),
        "connector.disconnected" => ("disconnected", true),
        "connector.deleted" => ("deleted the connector", true),
        "connector.extra_changed" => ("changed an extra of", true),
        "connect_link.made" => ("made a connect link for", true),
        "webhook.made" => ("set up the webhook of", true),
        "webhook.secret_rotated" => ("changed the webhook's secret of", true),
        "webhook.enabled" => ("brought back the webhook of", true),
        "webhook.receive_changed" => ("switched events on or off for", true),
        "agent.created" => ("made the agent", true),
        "agent.changed" => ("changed the agent", true),
        "agent.paused" => ("paused the agent", true),
        "agent.resumed" => ("resumed the agent", true),
        "agent.deleted" => ("deleted the agent", true),
        "agent.run_by_hand" => ("had a run made of the agent", true),
        "event_endpoint.created" => ("made the event endpoint", true),
        "event_endpoint.changed" => ("changed the event endpoint", true),
        "event_endpoint.secret_rotated" => ("changed the secret of the event endpoint", true),
        "event_endpoint.deleted" => ("deleted the event endpoint", true),
        "event_endpoint.replayed" => ("sent events again to the event endpoint", true),
        "oauth_app.created" => ("set up the OAuth app for", true),
        "oauth_app.changed" => ("changed the OAuth app for", true),
        "oauth_app.removed" => ("removed the OAuth app for", true),
        "key.created" => ("made the API key", true),
        "key.revoked" => ("revoked the API key", true),
        "member.added" => ("added", true),
        "member.joined" => ("joined", false),
        "member.role_changed" => ("changed the role of", true),
        "member.removed" => ("removed", true),
        "member.left" => ("left", false),
        "invitation.sent" => ("invited", true),
        "invitation.sent_again" => ("sent the invitation again to", true),
        "invitation.withdrawn" => ("withdrew the invitation of", true),
        "organisation.created" => ("made the organisation", true),
        "organisation.changed" => ("changed the organisation", true),
        "instance.set_up" => ("set up this installation", false),
        "notifications.changed" => ("changed what is told to", true),
        "notifications.person_changed" => ("changed whether notifications go to", true),
        "notifications.address_tried_again" => ("had mail tried again to", true),
        "channel.set" => ("entered the channel", true),
        "channel.removed" => ("removed the channel", true),
        "person.renamed" => ("changed the name of", true),
        "person.signed_in" => ("signed in", false),
        "person.sign_in_failed" => ("gave a wrong password for", true),
        "person.came_over" => ("came over to this organisation", false),
        "password.changed" => ("changed the password of", true),
        "password.reset" => ("set a new password by the link of a mail", false),
        "password.reset_link_made" => ("made a link to set a password for", true),
        "person.linked" => ("linked their account to the identity provider's", false),
        "person.unlinked" => ("unlinked the sign-in by the identity provider of", true),
        "second_factor.turned_on" => ("turned two-factor sign-in on", false),
        "second_factor.turned_off" => ("turned two-factor sign-in off", false),
        "second_factor.codes_renewed" => ("made new recovery codes", false),
        "second_factor.recovery_used" => ("used a recovery code", false),
        "second_factor.failed" => ("gave a wrong code for", true),
        "second_factor.reset" => ("turned two-factor sign-in off for", true),
        "session.ended" => ("signed out a browser of", true),
        "session.others_ended" => ("signed out all other browsers of", true),
        "job.retried" => ("tried again work of the kind", true),
        "job.discarded" => ("discarded work of the kind", true),
        "migration.started" => ("started a migration of", true),
        "migration.ended" => ("ended the migration of", true),
        _ => return None,
    })
}

impl Said {
    pub(super) fn of(line: &AuditLine) -> Self {
        let (kind, id, who) = &line.actor;
        let who = if kind == "holdfast" { "Holdfast".to_owned() } else { who.clone() };
        let (target_kind, target_id, target) = &line.target;
        let (did, with_target) = match did(&line.action) {
            Some((did, with_target)) => (did.to_owned(), with_target),
            None => (format!("did {} to", line.action), true),
        };
        let target = if !with_target {
            String::new()
        } else if id.as_ref() == Some(target_id) {
            "their own account".to_owned()
        } else if target_kind == "jobs" {
            "that a filter chose".to_owned()
        } else if target.is_empty() {
            target_id.clone()
        } else {
            target.clone()
        };
        Self { who: if kind == "key" { format!("The API key {who}") } else { who }, did, target, rest: rest(line) }
    }
}

/// Of the one field that a sentence has room for.
fn rest(line: &AuditLine) -> String {
    let both = |name: &str| Some((line.before.as_ref()?.get(name)?, line.after.as_ref()?.get(name)?));
    let one = ["role", "name"].into_iter().find_map(both);
    match one {
        Some((before, after)) if line.action != "agent.changed" && line.action != "organisation.changed" => {
            format!("from {} to {}", text(before), text(after))
        }
        _ => String::new(),
    }
}

/// Which way they came.
pub(super) fn from(line: &AuditLine) -> String {
    let (surface, address) = &line.from;
    let way = match surface.as_str() {
        "web" => "Web",
        "api" => "API",
        "cli" => "Command line",
        "link" => "Link",
        _ => "By itself",
    };
    match address {
        Some(address) => format!("{way}, {address}"),
        None => way.to_owned(),
    }
}

/// The fields of before and after, by name.
pub(super) fn fields(line: &AuditLine) -> Vec<Field> {
    let of = |side: &Option<Value>| side.as_ref().and_then(Value::as_object).cloned().unwrap_or_default();
    let (before, after) = (of(&line.before), of(&line.after));
    let mut names: Vec<&String> = before.keys().chain(after.keys()).collect();
    names.sort();
    names.dedup();
    let side = |side: &serde_json::Map<String, Value>, name: &str| side.get(name).map(text).unwrap_or_default();
    let field =
        |name: &String| Field { name: name.replace('_', " "), before: side(&before, name), after: side(&after, name) };
    names.into_iter().map(field).collect()
}

fn text(value: &Value) -> String {
    match value {
        Value::Null => "none".to_owned(),
        Value::String(text) if text.is_empty() => "nothing".to_owned(),
        Value::String(text) => text.clone(),
        Value::Bool(true) => "yes".to_owned(),
        Value::Bool(false) => "no".to_owned(),
        Value::Array(all) if all.iter().all(Value::is_string) => all.iter().map(text).collect::<Vec<_>>().join(", "),
        other => other.to_string(),
    }
}
