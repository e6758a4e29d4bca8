//! Whose access it is: a company's, never a person's.

use holdfast_core::{
    ApiClient,
    error::{ErrorKind, Result},
    provider::Identity,
};

use crate::{api, error::IDENTITY};

/// One call, open to every token.
pub(crate) async fn identity(api: &ApiClient) -> Result<Identity> {
    let me = api::me(api).await?;
    let name = me.name.filter(|name| !name.trim().is_empty()).unwrap_or_else(|| me.id.clone());
    if me.id.is_empty() {
        return Err(api.error(IDENTITY, ErrorKind::Unreadable, "Front did not say whose access this is"));
    }
    Ok(Identity {
        account_id: me.id.clone(),
        account_name: name,
        // Nobody in person: the access is the company's, and this is what never changes about it.
        user_id: me.id,
        name: None,
        email: None,
        role: None,
        // They are set on the app, and told nowhere.
        scopes: None,
    })
}
