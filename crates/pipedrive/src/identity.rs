//! Whose access it is.

use holdfast_core::{ApiClient, error::Result, provider::Identity};
use serde::Deserialize;
use serde_json::Value;

use crate::error::IDENTITY;

/// <https://pipedrive.readme.io/docs/marketplace-getting-user-data>
#[derive(Deserialize)]
struct Answer {
    data: Me,
}

#[derive(Deserialize)]
struct Me {
    id: u64,
    name: String,
    email: String,
    /// A number, and a truth value in newer answers.
    is_admin: Value,
    company_domain: String,
    company_name: String,
}

/// One call, open to everybody. `account_id` has to be the id that `account::read` makes of the same account: from then on
/// a consent of another one is refused (`Provider::is_account`).
pub(crate) async fn identity(api: &ApiClient) -> Result<Identity> {
    let Answer { data: me } = api.get("v1/users/me").operation(IDENTITY).fetch().await?;
    let admin = me.is_admin == true || me.is_admin == 1;
    Ok(Identity {
        account_id: me.company_domain,
        account_name: me.company_name,
        user_id: me.id.to_string(),
        name: Some(me.name),
        email: Some(me.email),
        role: Some(if admin { "admin" } else { "regular user" }.to_owned()),
        // They are set on the app.
        scopes: None,
    })
}
