//! `find_customer`.

use holdfast_core::{
    ApiClient,
    error::{ErrorKind, Result},
    helpdesk::{Bounds, FindCustomer, FoundCustomers, Lookup, Page},
    tool::invalid,
};

use crate::api;

pub(super) const NAME: &str = "find_customer";

/// One address is one contact's.
const BOUNDS: Bounds = Bounds { pages: 1, ..Bounds::ending_at(u32::MAX) };

pub(super) async fn run(api: &ApiClient, asked: FindCustomer) -> Result<FoundCustomers> {
    let refused = |message: String| invalid(api, NAME, message);
    let lookup = asked.lookup().map_err(refused)?;
    Page::of(asked.limit, asked.cursor.as_deref(), BOUNDS).map_err(refused)?;
    let email = match lookup {
        Lookup::Email(email) => email,
        Lookup::Name(_) => {
            return Err(refused("name: Front cannot look for names; give the e-mail address in email".to_owned()));
        }
        Lookup::ExternalId(_) => {
            let message = "external_id: Front keeps no ids of other systems that it can look for; give email";
            return Err(refused(message.to_owned()));
        }
    };
    let found = match api::contact_by_email(api, NAME, email).await {
        Ok(contact) => Some(contact),
        Err(error) if error.kind == ErrorKind::NotFound => None,
        Err(error) => return Err(error),
    };
    let customers: Vec<_> = found.into_iter().map(crate::model::Contact::into_model).collect();
    Ok(FoundCustomers { total: Some(customers.len() as u64), customers, next_cursor: None, note: None })
}
