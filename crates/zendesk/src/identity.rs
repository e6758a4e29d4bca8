//! Whose credential it is, and whether it is good for anything.

use holdfast_core::{
    ApiClient,
    error::{ErrorKind, Result},
    provider::Identity,
};

use crate::{api, model::User};

/// Asks who calls. `users/me` answers anonymous visitors too, so the answer itself has to prove the credential.
pub(crate) async fn identity(api: &ApiClient) -> Result<Identity> {
    let user = api::me(api).await?;
    let id = check(&user).map_err(|(kind, message)| api.error("identity", kind, message))?;
    // Only tells more: whether it is there or not, the credential has proved itself.
    let scopes = api::current_token(api).await.ok().and_then(|token| token.scopes);
    let account = api.account();
    Ok(Identity {
        account_id: account.id.clone(),
        account_name: account.display.clone(),
        user_id: id.to_string(),
        name: user.name,
        email: user.email,
        role: user.role,
        scopes,
    })
}

fn check(user: &User) -> Result<i64, (ErrorKind, String)> {
    let Some(id) = user.id else {
        return Err((ErrorKind::AuthFailed, "Zendesk treats the credential as an anonymous visitor's".to_owned()));
    };
    if user.suspended == Some(true) || user.active == Some(false) {
        return Err((
            ErrorKind::Forbidden,
            "the user who connected Zendesk is suspended or deleted there; another agent or an administrator should \
             connect it"
                .to_owned(),
        ));
    }
    match user.role.as_deref() {
        Some("agent" | "admin") => Ok(id),
        _ => Err((
            ErrorKind::Forbidden,
            "the user who connected Zendesk is a customer there; an agent or an administrator should connect it"
                .to_owned(),
        )),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_living_staff_passes() {
        for (user, expected) in [
            (json!({"id": 7, "role": "admin", "active": true, "suspended": false}), Ok(7)),
            (json!({"id": 7, "role": "agent"}), Ok(7)),
            (json!({"id": 7, "role": "end-user", "active": true}), Err(ErrorKind::Forbidden)),
            (json!({"id": 7}), Err(ErrorKind::Forbidden)),
            (json!({"id": 7, "role": "agent", "suspended": true}), Err(ErrorKind::Forbidden)),
            (json!({"id": 7, "role": "agent", "active": false}), Err(ErrorKind::Forbidden)),
            (json!({"id": null, "role": "end-user", "active": false}), Err(ErrorKind::AuthFailed)),
            (json!({}), Err(ErrorKind::AuthFailed)),
        ] {
            let read: User = serde_json::from_value(user.clone()).unwrap();
            assert_eq!(check(&read).map_err(|(kind, _)| kind), expected, "{user}");
        }
    }
}
