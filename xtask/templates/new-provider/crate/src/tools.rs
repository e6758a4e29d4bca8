//! What agents see. REPLACE: a helpdesk takes the shared tools of `holdfast_core::helpdesk` instead, as the adapter for
//! Front does.

use holdfast_core::{
    ApiClient,
    error::Result,
    tool::{Access, Repeat, Tool, ToolCall, ToolOutput, invalid, unknown},
};
use serde::{Deserialize, Serialize};

const FIND_CONTACT: &str = "find_contact";

/// No cursor of the provider's is longer.
const LONGEST_CURSOR_CHARS: usize = 200;

pub(crate) const ALL: &[Tool] = &[Tool {
    name: FIND_CONTACT,
    description: "Finds contacts by their e-mail address, a page at a time.",
    access: Access::Read,
    repeat: Repeat::Safe,
    input_schema: r#"{
  "type": "object", "additionalProperties": false, "required": ["email"],
  "properties": {
    "email": {"type": "string", "minLength": 1, "examples": ["mira@example.com"], "description": "The whole e-mail address"},
    "cursor": {"type": "string", "minLength": 1, "examples": ["eyJpZCI6Mn0"], "description": "next_cursor of the page before"}}}"#,
    output_schema: r#"{
  "type": "object", "additionalProperties": false, "required": ["contacts", "next_cursor"],
  "properties": {
    "contacts": {"type": "array", "items": {
      "type": "object", "additionalProperties": false, "required": ["id", "name", "email"],
      "properties": {"id": {"type": "string", "minLength": 1}, "name": {"type": "string"}, "email": {"type": "string"}}}},
    "next_cursor": {"type": ["string", "null"], "description": "Where there are more"}}}"#,
}];

pub(crate) async fn call(api: &ApiClient, call: &ToolCall) -> Result<ToolOutput> {
    match call.tool.as_str() {
        FIND_CONTACT => Ok(ToolOutput::of(&find_contact(api, call.read(api, FIND_CONTACT)?).await?)),
        _ => Err(unknown(api, ALL)),
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FindContact {
    email: String,
    cursor: Option<String>,
}

#[derive(Serialize)]
struct FoundContacts {
    contacts: Vec<Contact>,
    next_cursor: Option<String>,
}

#[derive(Serialize)]
struct Contact {
    id: String,
    name: String,
    email: String,
}

/// What the provider answers.
#[derive(Deserialize)]
struct WirePage {
    contacts: Vec<WireContact>,
    next_cursor: Option<String>,
}

#[derive(Deserialize)]
struct WireContact {
    id: u64,
    name: String,
    email: String,
}

async fn find_contact(api: &ApiClient, asked: FindContact) -> Result<FoundContacts> {
    let email = email(&asked.email).map_err(|message| invalid(api, FIND_CONTACT, message))?;
    let mut request = api.get("v1/contacts").query("email", email);
    if let Some(cursor) = &asked.cursor {
        if cursor.is_empty() || cursor.chars().count() > LONGEST_CURSOR_CHARS {
            return Err(invalid(api, FIND_CONTACT, "cursor: expected next_cursor of the page before".to_owned()));
        }
        request = request.query("cursor", cursor);
    }
    let page: WirePage = request.operation(FIND_CONTACT).fetch().await?;
    let contacts = page.contacts.into_iter();
    let contacts = contacts.map(|one| Contact { id: one.id.to_string(), name: one.name, email: one.email });
    Ok(FoundContacts { contacts: contacts.collect(), next_cursor: page.next_cursor })
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
