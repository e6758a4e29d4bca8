//! Whose access it is.

use holdfast_core::{ApiClient, error::Result, provider::Identity};
use serde::Deserialize;

use crate::error::IDENTITY;

/// REPLACE: what the cheapest call answers that proves the credential.
#[derive(Deserialize)]
struct Me {
    id: u64,
    name: String,
    email: String,
    role: String,
    workspace: Workspace,
}

#[derive(Deserialize)]
struct Workspace {
    slug: String,
    name: String,
}

/// One call, open to everybody. `account_id` has to be the id that `account::read` makes of the same account: from then on
/// a consent of another one is refused (`Provider::is_account`).
pub(crate) async fn identity(api: &ApiClient) -> Result<Identity> {
    let me: Me = api.get("v1/me").operation(IDENTITY).fetch().await?;
    Ok(Identity {
        account_id: me.workspace.slug,
        account_name: me.workspace.name,
        user_id: me.id.to_string(),
        name: Some(me.name),
        email: Some(me.email),
        role: Some(me.role),
        // REPLACE where the answer tells what was granted.
        scopes: None,
    })
}
