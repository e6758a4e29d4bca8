//! `find_customer`.

use holdfast_core::{
    ApiClient,
    error::{ErrorKind, Result},
    helpdesk::{FindCustomer, FoundCustomers, Lookup, MOST_PER_PAGE, USUAL_PER_PAGE, page_size},
    tool::invalid,
};

use super::place::Place;
use crate::{api, model::WireCustomer};

pub(super) const NAME: &str = "find_customer";

/// Each customer that Gorgias's own search finds costs a call.
const MOST_SEARCHED: usize = 10;

/// A page of them.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) customers: Vec<WireCustomer>,
    next: Option<String>,
    note: Option<String>,
}

pub(super) async fn run(api: &ApiClient, asked: FindCustomer) -> Result<FoundCustomers> {
    let refused = |message| invalid(api, NAME, message);
    let lookup = asked.lookup().map_err(refused)?;
    let size = page_size(asked.limit, USUAL_PER_PAGE, MOST_PER_PAGE).map_err(refused)?;
    let place = match &asked.cursor {
        Some(cursor) => Place::read(cursor, false, MOST_PER_PAGE).map_err(refused)?,
        None => Place::first(false, size),
    };

    let found = find(api, NAME, lookup, &place).await?;

    let base = &api.account().base_url;
    Ok(FoundCustomers {
        customers: found.customers.into_iter().map(|customer| customer.into_model(base)).collect(),
        total: None,
        next_cursor: found.next.map(|cursor| Place { cursor: Some(cursor), ..place }.written()),
        note: found.note,
    })
}

/// By an address also those who have it as a further one; by a name also those of whom it is a part.
pub(super) async fn find(api: &ApiClient, operation: &'static str, lookup: Lookup<'_>, place: &Place) -> Result<Found> {
    let first = place.cursor.is_none();
    match lookup {
        Lookup::Email(email) => {
            let found = filtered(api, operation, &[("email", email)], lookup, place).await?;
            if !(first && found.customers.is_empty()) {
                return Ok(found);
            }
            let further = [("channel_type", "email"), ("channel_address", email)];
            filtered(api, operation, &further, lookup, place).await
        }
        Lookup::ExternalId(id) => filtered(api, operation, &[("external_id", id)], lookup, place).await,
        Lookup::Name(name) => {
            let found = filtered(api, operation, &[("name", name)], lookup, place).await?;
            if first && found.customers.is_empty() { searched(api, operation, name, place).await } else { Ok(found) }
        }
    }
}

/// What a filter of Gorgias's lets through, held to it once more: were it ignored, everybody would come back.
async fn filtered(
    api: &ApiClient,
    operation: &'static str,
    filter: &[(&str, &str)],
    lookup: Lookup<'_>,
    place: &Place,
) -> Result<Found> {
    let page = api::customers(api, operation, filter, place.size, place.cursor.as_deref()).await?;
    let next = page.next();
    let all = page.data.len();
    let customers: Vec<WireCustomer> = page.data.into_iter().filter(|customer| is(customer, lookup)).collect();
    if customers.len() == all {
        return Ok(Found { customers, next, note: None });
    }
    let note = "Gorgias answered with customers of whom this is not true; they are left out, and more may be missing.";
    Ok(Found { customers, next: None, note: Some(note.to_owned()) })
}

/// What Gorgias's own search finds, where its filter wants whole names. Its form is known from clients alone, so that it may
/// refuse us.
async fn searched(api: &ApiClient, operation: &'static str, name: &str, place: &Place) -> Result<Found> {
    let size = MOST_SEARCHED.min(place.size as usize);
    let ids = match api::search(api, operation, name, size).await {
        Ok(ids) => ids,
        Err(error) if matches!(error.kind, ErrorKind::Forbidden | ErrorKind::Invalid | ErrorKind::NotFound) => {
            let note = format!("Only whole names were looked for: {}", error.message);
            return Ok(Found { note: Some(note), ..Found::default() });
        }
        Err(error) => return Err(error),
    };
    let note =
        (ids.len() == size).then(|| format!("These are the first {size} that Gorgias finds; give more of the name."));
    let mut customers = Vec::with_capacity(ids.len());
    for id in ids {
        match api::customer(api, operation, id).await {
            Ok(customer) if is(&customer, Lookup::Name(name)) => customers.push(customer),
            // Found by something else than the name.
            Ok(_) => {}
            // Deleted in the moment between.
            Err(error) if error.kind == ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok(Found { customers, next: None, note })
}

fn is(customer: &WireCustomer, lookup: Lookup<'_>) -> bool {
    match lookup {
        Lookup::Email(email) => customer.emails().iter().any(|own| own.eq_ignore_ascii_case(email)),
        Lookup::ExternalId(id) => customer.external_id.as_deref() == Some(id),
        Lookup::Name(name) => {
            let own = customer.name.as_deref().unwrap_or_default().to_lowercase();
            name.to_lowercase().split_whitespace().all(|word| own.contains(word))
        }
    }
}
