//! `find_customer`.

use holdfast_core::{
    ApiClient,
    error::Result,
    helpdesk::{Bounds, FIND_CUSTOMER, FindCustomer, FoundCustomers, Lookup, Page, Words},
};

use super::invalid;
use crate::api::{self, UserSearch};

pub(super) const NAME: &str = FIND_CUSTOMER.name;

/// Pages by number end here, whatever is on them.
/// <https://developer.zendesk.com/api-reference/introduction/pagination/#using-offset-pagination>
const BOUNDS: Bounds = Bounds { pages: 100, ..Bounds::ending_at(10_000) };

pub(super) async fn run(api: &ApiClient, arguments: FindCustomer) -> Result<FoundCustomers> {
    let search = search(&arguments).map_err(invalid(api, NAME))?;
    let page = Page::of(arguments.limit, arguments.cursor.as_deref(), BOUNDS).map_err(invalid(api, NAME))?;

    let found = api::users(api, NAME, &search, page).await?;

    let words = Words { whose: "Zendesk", what: "customer", total: found.count, narrow: "" };
    let (next_cursor, note) = page.after(found.next_page.is_some(), BOUNDS, &words);
    let base = &api.account().base_url;
    Ok(FoundCustomers {
        customers: found.users.into_iter().filter_map(|user| user.into_model(base)).collect(),
        total: found.count,
        next_cursor,
        note,
    })
}

fn search(arguments: &FindCustomer) -> Result<UserSearch, String> {
    // In quotes it is one value, and a star stands for anything.
    let quoted = |field: &str, text: &str, bad: &[char]| {
        if text.contains(bad) {
            return Err(format!("{field}: expected it without quotes and stars"));
        }
        Ok(format!("{field}:\"{text}\""))
    };
    Ok(match arguments.lookup()? {
        Lookup::Email(email) => UserSearch::Query(quoted("email", email, &['"', '*'])?),
        Lookup::Name(name) => UserSearch::Query(quoted("name", name, &['"', '*'])?),
        Lookup::ExternalId(id) => UserSearch::ExternalId(id.to_owned()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_looked_for_is_one_value_of_one_field() {
        let of = |email: Option<&str>, name: Option<&str>, external_id: Option<&str>| {
            let text = |text: Option<&str>| text.map(str::to_owned);
            let (email, name, external_id) = (text(email), text(name), text(external_id));
            search(&FindCustomer { email, name, external_id, ..FindCustomer::default() })
        };
        let query = |text: &str| Ok(UserSearch::Query(text.to_owned()));
        assert_eq!(of(Some("mira@example.com"), None, None), query("email:\"mira@example.com\""));
        assert_eq!(of(None, Some("José role:admin"), None), query("name:\"José role:admin\""));
        assert_eq!(of(None, None, Some("a \"b\" *")), Ok(UserSearch::ExternalId("a \"b\" *".to_owned())));
        for (email, name, said) in [
            (Some("*@example.com"), None, "email: expected it without"),
            (None, Some("x\" role:\"admin"), "name: expected it without"),
            (None, Some("*"), "name: expected it without"),
        ] {
            assert!(of(email, name, None).unwrap_err().starts_with(said), "{email:?} {name:?}");
        }
    }
}
