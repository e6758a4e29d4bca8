//! Whose credential it is.

use holdfast_core::{
    ApiClient,
    error::{ErrorKind, Result},
    provider::Identity,
};

use crate::{api, model::Userinfo};

/// Asks who consented. The id that never changes is `sub`; the address may.
/// <https://developers.google.com/identity/openid-connect/openid-connect#obtainuserinfo>
pub(crate) async fn identity(api: &ApiClient) -> Result<Identity> {
    let user = api::userinfo(api).await?;
    let (sub, email) = check(&user).map_err(|(kind, message)| api.error("identity", kind, message))?;
    Ok(Identity {
        account_id: email.clone(),
        account_name: email.clone(),
        user_id: sub,
        name: user.name.filter(|name| !name.trim().is_empty()),
        email: Some(email),
        role: None,
        // The token answers say it.
        scopes: None,
    })
}

fn check(user: &Userinfo) -> Result<(String, String), (ErrorKind, &'static str)> {
    let Some(sub) = user.sub.as_deref().filter(|sub| !sub.is_empty()) else {
        return Err((ErrorKind::Unreadable, "Google did not say whose access this is"));
    };
    let Some(email) = user.email.as_deref().map(str::trim).filter(|email| email.contains('@')) else {
        let message = "Google did not tell the e-mail address of the account; allow it to be seen when you connect";
        return Err((ErrorKind::Forbidden, message));
    };
    if user.email_verified == Some(false) {
        let message = "Google has not verified the e-mail address of this account; verify it there, then connect again";
        return Err((ErrorKind::Forbidden, message));
    }
    Ok((sub.to_owned(), email.to_lowercase()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_a_verified_address_and_an_immutable_id_are_an_identity() {
        for (user, expected) in [
            (json!({"sub": "117", "email": "Ada@Example.com", "email_verified": true}), Ok("ada@example.com")),
            (json!({"sub": "117", "email": "ada@example.com", "email_verified": "true"}), Ok("ada@example.com")),
            (json!({"sub": "117", "email": "ada@example.com"}), Ok("ada@example.com")),
            (json!({"sub": "117", "email": "ada@example.com", "email_verified": false}), Err(ErrorKind::Forbidden)),
            (json!({"sub": "117", "email": "ada@example.com", "email_verified": "false"}), Err(ErrorKind::Forbidden)),
            (json!({"sub": "117"}), Err(ErrorKind::Forbidden)),
            (json!({"sub": "", "email": "ada@example.com"}), Err(ErrorKind::Unreadable)),
            (json!({"email": "ada@example.com"}), Err(ErrorKind::Unreadable)),
            (json!({}), Err(ErrorKind::Unreadable)),
        ] {
            let read: Userinfo = serde_json::from_value(user.clone()).unwrap();
            let found = check(&read).map(|(_, email)| email).map_err(|(kind, _)| kind);
            assert_eq!(found, expected.map(str::to_owned), "{user}");
        }
    }
}
