//! What agents see.

use holdfast_core::{
    ApiClient,
    error::Result,
    tool::{Access, Repeat, Tool, ToolCall, ToolOutput, invalid, unknown},
};
use serde::{Deserialize, Serialize};

const FIND_PERSON: &str = "find_person";

/// No cursor of the provider's is longer.
const LONGEST_CURSOR_CHARS: usize = 200;

pub(crate) const ALL: &[Tool] = &[Tool {
    name: FIND_PERSON,
    description: "Finds persons (the contacts of Pipedrive) by their e-mail address, a page at a time.",
    access: Access::Read,
    repeat: Repeat::Safe,
    input_schema: r#"{
  "type": "object", "additionalProperties": false, "required": ["email"],
  "properties": {
    "email": {"type": "string", "minLength": 1, "examples": ["mira@example.com"], "description": "The whole e-mail address"},
    "cursor": {"type": "string", "minLength": 1, "examples": ["eyJpZCI6Mn0"], "description": "next_cursor of the page before"}}}"#,
    output_schema: r#"{
  "type": "object", "additionalProperties": false, "required": ["persons", "next_cursor"],
  "properties": {
    "persons": {"type": "array", "items": {
      "type": "object", "additionalProperties": false, "required": ["id", "name", "emails", "phones", "organization"],
      "properties": {"id": {"type": "string", "minLength": 1}, "name": {"type": "string"},
        "emails": {"type": "array", "items": {"type": "string"}}, "phones": {"type": "array", "items": {"type": "string"}},
        "organization": {"type": ["string", "null"]}}}},
    "next_cursor": {"type": ["string", "null"], "description": "Where there are more"}}}"#,
}];

pub(crate) async fn call(api: &ApiClient, call: &ToolCall) -> Result<ToolOutput> {
    match call.tool.as_str() {
        FIND_PERSON => Ok(ToolOutput::of(&find_person(api, call.read(api, FIND_PERSON)?).await?)),
        _ => Err(unknown(api, ALL)),
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FindPerson {
    email: String,
    cursor: Option<String>,
}

#[derive(Serialize)]
struct FoundPersons {
    persons: Vec<Person>,
    next_cursor: Option<String>,
}

#[derive(Serialize)]
struct Person {
    id: String,
    name: String,
    emails: Vec<String>,
    phones: Vec<String>,
    organization: Option<String>,
}

/// What Pipedrive answers.
/// <https://github.com/pipedrive/client-php/blob/master/docs/versions/v2/Api/PersonsApi.md>
#[derive(Deserialize)]
struct WirePage {
    data: WireItems,
    additional_data: Option<WireMore>,
}

#[derive(Deserialize)]
struct WireItems {
    items: Vec<WireItem>,
}

#[derive(Deserialize)]
struct WireItem {
    item: WirePerson,
}

#[derive(Deserialize)]
struct WireMore {
    next_cursor: Option<String>,
}

#[derive(Deserialize)]
struct WirePerson {
    id: u64,
    name: String,
    #[serde(default)]
    emails: Vec<String>,
    #[serde(default)]
    phones: Vec<String>,
    organization: Option<WireOrganization>,
}

#[derive(Deserialize)]
struct WireOrganization {
    name: String,
}

async fn find_person(api: &ApiClient, asked: FindPerson) -> Result<FoundPersons> {
    let email = email(&asked.email).map_err(|message| invalid(api, FIND_PERSON, message))?;
    let mut request = api.get("api/v2/persons/search").query("term", email);
    request = request.query("fields", "email").query("exact_match", true);
    if let Some(cursor) = &asked.cursor {
        if cursor.is_empty() || cursor.chars().count() > LONGEST_CURSOR_CHARS {
            return Err(invalid(api, FIND_PERSON, "cursor: expected next_cursor of the page before".to_owned()));
        }
        request = request.query("cursor", cursor);
    }
    let page: WirePage = request.operation(FIND_PERSON).fetch().await?;
    let persons = page.data.items.into_iter().map(|WireItem { item }| Person {
        id: item.id.to_string(),
        name: item.name,
        emails: item.emails,
        phones: item.phones,
        organization: item.organization.map(|organization| organization.name),
    });
    Ok(FoundPersons { persons: persons.collect(), next_cursor: page.additional_data.and_then(|more| more.next_cursor) })
}

/// An address, as far as it can be told without asking.
fn email(text: &str) -> Result<&str, String> {
    let text = text.trim();
    let whole = text.split_once('@').is_some_and(|(who, at)| !who.is_empty() && !at.is_empty());
    if whole && !text.contains(char::is_whitespace) && !text.contains(char::is_control) {
        Ok(text)
    } else {
        Err("email: expected a whole e-mail address, like \"mira@example.com\"".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_address_is_refused_with_an_example() {
        assert_eq!(email(" mira@example.com "), Ok("mira@example.com"));
        for text in ["", "mira", "@", "mira@", "@example.com", "a b@example.com"] {
            assert!(email(text).unwrap_err().contains("mira@example.com"), "{text}");
        }
    }
}
