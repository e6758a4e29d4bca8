//! Whose key it is, and what it lets us see.

use holdfast_core::{
    ApiClient,
    error::{ErrorKind, Result},
    provider::Identity,
};

use crate::{api, model::Me};

/// Asks who calls: one call, open to every agent's key.
pub(crate) async fn identity(api: &ApiClient) -> Result<Identity> {
    let me = api::me(api).await?;
    if me.contact.as_ref().and_then(|contact| contact.active) == Some(false) {
        let message = "the agent whose API key this is was deactivated in Freshdesk; take the key of another agent";
        return Err(api.error(crate::error::IDENTITY, ErrorKind::Forbidden, message));
    }
    let account = api.account();
    let role = role(&me);
    let contact = me.contact.unwrap_or_default();
    Ok(Identity {
        // v2 answers name no number of the account: its address stands for it.
        account_id: account.id.clone(),
        account_name: account.display.clone(),
        user_id: me.id.to_string(),
        name: contact.name,
        email: contact.email,
        role,
        scopes: None,
    })
}

/// Freshdesk's word, and what explains tickets that seem to be missing.
fn role(me: &Me) -> Option<String> {
    let kind = me.kind.as_deref().unwrap_or("agent");
    let sees = match me.ticket_scope {
        Some(2) => Some("sees the tickets of their groups only"),
        Some(3) => Some("sees their own tickets only"),
        _ => None,
    };
    let occasional = (me.occasional == Some(true)).then_some("occasional, works on days with a pass only");
    let notes: Vec<&str> = occasional.into_iter().chain(sees).collect();
    if notes.is_empty() { me.kind.clone() } else { Some(format!("{kind} ({})", notes.join("; "))) }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_role_says_what_the_agent_does_not_see() {
        for (me, expected) in [
            (json!({"id": 7, "type": "support_agent", "ticket_scope": 1}), Some("support_agent")),
            (
                json!({"id": 7, "type": "support_agent", "ticket_scope": 2}),
                Some("support_agent (sees the tickets of their groups only)"),
            ),
            (
                json!({"id": 7, "ticket_scope": 3, "occasional": true}),
                Some("agent (occasional, works on days with a pass only; sees their own tickets only)"),
            ),
            (json!({"id": 7, "ticket_scope": 9}), None),
            (json!({"id": 7}), None),
        ] {
            let read: Me = serde_json::from_value(me.clone()).unwrap();
            assert_eq!(role(&read).as_deref(), expected, "{me}");
        }
    }
}
