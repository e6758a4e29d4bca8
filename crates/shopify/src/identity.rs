//! Whose credential it is: a shop's.

use holdfast_core::{
    error::{ErrorKind, Result},
    provider::Identity,
};
use serde::Deserialize;
use serde_json::json;

use crate::{account, graph::Graph};

const NAME: &str = "identity";

/// Wants no scope.
const SHOP: &str = "query Shop { shop { id name myshopifyDomain email } }";

/// What was granted: the merchant may have changed the request, and the app's settings may know less.
const SCOPES: &str = "query Scopes { currentAppInstallation { accessScopes { handle } } }";

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Shop {
    id: String,
    name: String,
    myshopify_domain: String,
    email: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Installation {
    access_scopes: Vec<AccessScope>,
}

#[derive(Deserialize)]
struct AccessScope {
    handle: String,
}

/// An offline token speaks for the app in a shop, and for nobody who works there: the shop stands for the user too, by
/// its gid, which outlives a change of its domain.
pub(crate) async fn identity(graph: &Graph<'_>) -> Result<Identity> {
    let shop: Shop = graph.ask(NAME, SHOP, "shop", json!({})).await?.data;
    let domain = shop.myshopify_domain.to_ascii_lowercase();
    let Some(label) = account::of_domain(&domain) else {
        return Err(graph.error(NAME, ErrorKind::Unreadable, "Shopify names a shop that has no address of a shop"));
    };
    // Only tells more: whether it answers or not, the credential has proved itself.
    let installation = graph.ask::<Installation>(NAME, SCOPES, "currentAppInstallation", json!({})).await.ok();
    let scopes =
        installation.map(|answer| implied(answer.data.access_scopes.into_iter().map(|scope| scope.handle).collect()));
    Ok(Identity {
        account_id: label.to_owned(),
        account_name: domain.clone(),
        user_id: shop.id,
        name: Some(shop.name),
        email: shop.email,
        role: None,
        scopes,
    })
}

/// With every `read_x` that a `write_x` implies: Shopify names the wider one alone.
fn implied(mut scopes: Vec<String>) -> Vec<String> {
    let reads: Vec<String> =
        scopes.iter().filter_map(|scope| Some(format!("read_{}", scope.strip_prefix("write_")?))).collect();
    for read in reads {
        if !scopes.contains(&read) {
            scopes.push(read);
        }
    }
    scopes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_may_write_may_read() {
        let scopes = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(
            implied(scopes("write_orders read_products write_customers read_customers")),
            scopes("write_orders read_products write_customers read_customers read_orders")
        );
    }
}
