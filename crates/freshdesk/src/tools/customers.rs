//! `find_customer`.

use holdfast_core::{
    ApiClient,
    error::{ErrorKind, Result},
    helpdesk::{Bounds, FindCustomer, FoundCustomers, Lookup, Page},
    tool::invalid,
};

use crate::{api, model::Contact};

pub(super) const NAME: &str = "find_customer";

const BOUNDS: Bounds = Bounds::ending_at(u32::MAX);
/// Each contact that is found by name costs a call of its own.
const MOST_BY_NAME: u32 = 10;

pub(super) async fn run(api: &ApiClient, asked: FindCustomer) -> Result<FoundCustomers> {
    let refused = |message| invalid(api, NAME, message);
    let lookup = asked.lookup().map_err(refused)?;
    let page = Page::of(asked.limit, asked.cursor.as_deref(), BOUNDS).map_err(refused)?;

    let (contacts, page, more, total) = match lookup {
        Lookup::Email(email) => {
            let all = exactly(api, "email", email).await?;
            let total = all.len();
            let (part, more) = part(all, page);
            (part, page, more, Some(total as u64))
        }
        Lookup::ExternalId(id) => {
            // Not every version is known to filter by it: nobody else may come back.
            let mut all = exactly(api, "unique_external_id", id).await?;
            all.retain(|contact| contact.unique_external_id.as_deref() == Some(id));
            let total = all.len();
            let (part, more) = part(all, page);
            (part, page, more, Some(total as u64))
        }
        Lookup::Name(name) => {
            let page = Page { size: page.size.min(MOST_BY_NAME), ..page };
            let (part, more) = part(api::autocomplete(api, NAME, name).await?, page);
            let mut contacts = Vec::with_capacity(part.len());
            for suggestion in part {
                match api::contact(api, NAME, suggestion.id).await {
                    Ok(contact) => contacts.push(contact),
                    // Deleted in the moment between.
                    Err(error) if error.kind == ErrorKind::NotFound => {}
                    Err(error) => return Err(error),
                }
            }
            (contacts, page, more, None)
        }
    };

    let base = &api.account().base_url;
    let next = Page { number: page.number.saturating_add(1), ..page };
    Ok(FoundCustomers {
        customers: contacts.into_iter().map(|contact| contact.into_model(base)).collect(),
        total,
        next_cursor: more.then(|| next.cursor()),
        note: None,
    })
}

/// Contacts with this very value: the verified ones, then those whose address nobody has confirmed, which a plain list
/// leaves out.
async fn exactly(api: &ApiClient, field: &str, value: &str) -> Result<Vec<Contact>> {
    let mut all = api::contacts(api, NAME, field, value, false).await?.items;
    for contact in api::contacts(api, NAME, field, value, true).await?.items {
        if all.iter().all(|known| known.id != contact.id) {
            all.push(contact);
        }
    }
    Ok(all)
}

/// One page of what Freshdesk answers all at once, and whether there is more.
pub(super) fn part<T>(all: Vec<T>, page: Page) -> (Vec<T>, bool) {
    let size = page.size as usize;
    let start = (page.number as usize - 1).saturating_mul(size);
    let more = all.len() > start.saturating_add(size);
    (all.into_iter().skip(start).take(size).collect(), more)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_are_the_whole() {
        let all: Vec<u32> = (0..7).collect();
        let page = |number| Page { number, size: 3 };
        assert_eq!(part(all.clone(), page(1)), (vec![0, 1, 2], true));
        assert_eq!(part(all.clone(), page(3)), (vec![6], false));
        assert_eq!(part(all.clone(), page(4)), (vec![], false));
        assert_eq!(part(all, page(u32::MAX)), (vec![], false));
        assert_eq!(part(vec![1, 2, 3], page(1)), (vec![1, 2, 3], false));
    }
}
