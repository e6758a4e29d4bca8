//! The JSON Schemas of the tools, as text. Ids are strings that are not empty; what they look like is the provider's matter.

macro_rules! person {
    () => {
        r#"{"type": ["object", "null"], "additionalProperties": false, "required": ["id", "name", "email"],
            "properties": {"id": {"type": "string", "minLength": 1}, "name": {"type": ["string", "null"]},
                           "email": {"type": ["string", "null"]}}}"#
    };
}

macro_rules! original {
    () => {
        r#"{"type": "string", "description": "As the helpdesk says it"}"#
    };
}

macro_rules! ticket {
    () => {
        concat!(
            r#"{"type": "object", "additionalProperties": false,
                "required": ["id", "url", "subject", "description", "status", "priority", "channel", "requester",
                             "assignee", "tags", "created_at", "updated_at"],
                "properties": {
                  "id": {"type": "string", "minLength": 1},
                  "url": {"type": ["string", "null"], "description": "Where people open it"},
                  "subject": {"type": ["string", "null"]},
                  "description": {"type": ["string", "null"], "description": "The first message, as text"},
                  "status": {"type": "object", "additionalProperties": false, "required": ["value", "original"],
                    "properties": {
                      "value": {"enum": ["new", "open", "pending", "on_hold", "solved", "closed"]},
                      "original": "#,
            original!(),
            r#"}},
                  "priority": {"type": ["object", "null"], "additionalProperties": false,
                    "required": ["value", "original"],
                    "properties": {
                      "value": {"enum": ["low", "normal", "high", "urgent"]},
                      "original": "#,
            original!(),
            r#"}},
                  "channel": {"type": ["object", "null"], "additionalProperties": false,
                    "required": ["value", "original"], "description": "How it came in",
                    "properties": {
                      "value": {"enum": ["email", "web", "chat", "messaging", "social", "phone", "sms", "api", "other"]},
                      "original": "#,
            original!(),
            r#"}},
                  "requester": "#,
            person!(),
            r#", "assignee": "#,
            person!(),
            r#", "tags": {"type": "array", "items": {"type": "string"}},
                  "created_at": {"type": "string", "format": "date-time"},
                  "updated_at": {"type": "string", "format": "date-time",
                    "description": "When it last changed: what if_updated_at of update_ticket takes"}}}"#
        )
    };
}

/// The end of every answer with a list.
macro_rules! more {
    () => {
        r#""total": {"type": ["integer", "null"], "description": "How many match, on all pages; null: the helpdesk does not tell"},
           "next_cursor": {"type": ["string", "null"], "description": "Gets the next page; null: there is none"},
           "note": {"type": ["string", "null"], "description": "Says so when more match than the helpdesk shows"}"#
    };
}

macro_rules! ticket_id {
    () => {
        r#""ticket_id": {"type": "string", "minLength": 1, "examples": ["35436"], "description": "The ticket's id"}"#
    };
}

macro_rules! cursor {
    () => {
        r#""cursor": {"type": "string", "minLength": 1, "examples": ["2-25"],
             "description": "next_cursor of the page before, with otherwise the same arguments"}"#
    };
}

pub(super) const SEARCH_TICKETS_INPUT: &str = concat!(
    r#"{
  "type": "object", "additionalProperties": false,
  "properties": {
    "query": {"type": "string", "maxLength": 1000, "examples": ["refund"],
      "description": "Words to look for, and the terms of the helpdesk's own search language"},
    "status": {"type": "array", "items": {"enum": ["new", "open", "pending", "on_hold", "solved", "closed"]},
      "examples": [["new", "open"]], "description": "One of these; absent or empty: any"},
    "priority": {"type": "array", "items": {"enum": ["low", "normal", "high", "urgent"]},
      "examples": [["high", "urgent"]], "description": "One of these; absent or empty: any, also none"},
    "tags": {"type": "array", "items": {"type": "string", "minLength": 1}, "examples": [["billing"]],
      "description": "A ticket with any of these is found"},
    "requester": {"type": "string", "minLength": 1, "examples": ["mira@example.com"],
      "description": "Who asks: e-mail address, id or name"},
    "limit": {"type": "integer", "minimum": 1, "maximum": 100, "default": 25, "examples": [25],
      "description": "Tickets on a page; a cursor keeps the limit that it was made with"},
    "#,
    cursor!(),
    "}}"
);

pub(super) const SEARCH_TICKETS_OUTPUT: &str = concat!(
    r#"{"type": "object", "additionalProperties": false, "required": ["tickets", "total", "next_cursor", "note"],
  "properties": {"tickets": {"type": "array", "items": "#,
    ticket!(),
    "}, ",
    more!(),
    "}}"
);

pub(super) const GET_TICKET_INPUT: &str = concat!(
    r#"{"type": "object", "additionalProperties": false, "required": ["ticket_id"], "properties": {"#,
    ticket_id!(),
    r#", "cursor": {"type": "string", "minLength": 1, "examples": ["bzE"],
         "description": "next_cursor of the answer before: gets the later messages of a very long conversation"}}}"#
);

pub(super) const GET_TICKET_OUTPUT: &str = concat!(
    r#"{"type": "object", "additionalProperties": false, "required": ["ticket", "messages", "next_cursor", "note"],
  "properties": {
    "ticket": "#,
    ticket!(),
    r#",
    "messages": {"type": "array", "description": "Oldest first",
      "items": {"type": "object", "additionalProperties": false,
        "required": ["id", "body", "public", "author", "attachments", "created_at"],
        "properties": {
          "id": {"type": "string", "minLength": 1},
          "body": {"type": "string", "description": "As text"},
          "public": {"type": "boolean", "description": "false: an internal note"},
          "author": "#,
    person!(),
    r#",
          "attachments": {"type": "array", "description": "Files that came with it; they are not fetched",
            "items": {"type": "object", "additionalProperties": false,
              "required": ["name", "size_bytes", "content_type", "url"],
              "properties": {
                "name": {"type": ["string", "null"]},
                "size_bytes": {"type": ["integer", "null"], "minimum": 0},
                "content_type": {"type": ["string", "null"]},
                "url": {"type": ["string", "null"],
                  "description": "Where it lies, maybe for a short time; on another host than the helpdesk's, send no credential there"}}}},
          "created_at": {"type": "string", "format": "date-time"}}}},
    "next_cursor": {"type": ["string", "null"],
      "description": "Gets the later messages; null: there are none"},
    "note": {"type": ["string", "null"], "description": "Says so when there are messages that are not shown"}
  }
}"#
);

pub(super) const REPLY_TO_TICKET_INPUT: &str = concat!(
    r#"{"type": "object", "additionalProperties": false, "required": ["ticket_id", "body", "public"], "properties": {"#,
    ticket_id!(),
    r#",
    "body": {"type": "string", "minLength": 1, "examples": ["Your refund is on its way."],
      "description": "The message, as text"},
    "public": {"type": "boolean", "examples": [true],
      "description": "true: the customer receives it; false: an internal note for agents"}}}"#
);

pub(super) const REPLY_TO_TICKET_OUTPUT: &str = r#"{
  "type": "object", "additionalProperties": false,
  "required": ["ticket_id", "message_id", "public", "updated_at"],
  "properties": {
    "ticket_id": {"type": "string", "minLength": 1},
    "message_id": {"type": ["string", "null"], "description": "The new message's id; null: the helpdesk did not tell"},
    "public": {"type": "boolean",
      "description": "What the helpdesk made of it: some turn a reply into a note for agents who may not write publicly"},
    "updated_at": {"type": ["string", "null"], "format": "date-time",
      "description": "The ticket's, after the message; null: the helpdesk did not tell"}
  }
}"#;

pub(super) const UPDATE_TICKET_INPUT: &str = concat!(
    r#"{"type": "object", "additionalProperties": false, "required": ["ticket_id"], "properties": {"#,
    ticket_id!(),
    r#",
    "status": {"enum": ["open", "pending", "on_hold", "solved", "closed"], "examples": ["pending"],
      "description": "Where it stands from now on; closed is final"},
    "priority": {"enum": ["low", "normal", "high", "urgent"], "examples": ["high"],
      "description": "How urgent it is from now on"},
    "assignee": {"type": ["string", "null"], "minLength": 1, "examples": ["gus@example.com"],
      "description": "Who answers: id or e-mail address of an agent; null: nobody"},
    "tags": {"type": "array", "items": {"type": "string", "minLength": 1}, "examples": [["billing", "vip"]],
      "description": "Replaces all tags; not together with add_tags or remove_tags"},
    "add_tags": {"type": "array", "items": {"type": "string", "minLength": 1}, "examples": [["vip"]],
      "description": "Tags to add"},
    "remove_tags": {"type": "array", "items": {"type": "string", "minLength": 1}, "examples": [["triage"]],
      "description": "Tags to remove"},
    "if_updated_at": {"type": "string", "format": "date-time", "examples": ["2026-11-29T10:00:00Z"],
      "description": "updated_at of the ticket as you read it: the change is refused when somebody changed it since. Absent: what is changed is what the ticket holds now."}}}"#
);

pub(super) const UPDATE_TICKET_OUTPUT: &str = concat!(
    r#"{"type": "object", "additionalProperties": false, "required": ["ticket"], "properties": {"ticket": "#,
    ticket!(),
    "}}"
);

pub(super) const CREATE_TICKET_INPUT: &str = r#"{
  "type": "object", "additionalProperties": false, "required": ["subject", "body", "requester"],
  "properties": {
    "subject": {"type": "string", "minLength": 1, "examples": ["Parcel arrived damaged"],
      "description": "The heading, on one line"},
    "body": {"type": "string", "minLength": 1, "examples": ["The box was torn open."],
      "description": "The first message, as text"},
    "requester": {"type": "string", "minLength": 1, "examples": ["mira@example.com"],
      "description": "Who asks: e-mail address, or the id of a customer"},
    "requester_name": {"type": "string", "minLength": 1, "examples": ["Mira Castellan"],
      "description": "Their name, for an e-mail address that the helpdesk does not know yet"},
    "priority": {"enum": ["low", "normal", "high", "urgent"], "examples": ["high"],
      "description": "How urgent it is; absent: the helpdesk's default"},
    "assignee": {"type": "string", "minLength": 1, "examples": ["gus@example.com"],
      "description": "Who answers: id or e-mail address of an agent; absent: the helpdesk decides"},
    "tags": {"type": "array", "items": {"type": "string", "minLength": 1}, "examples": [["billing"]],
      "description": "Tags of the new ticket"}
  }
}"#;

pub(super) const CREATE_TICKET_OUTPUT: &str = UPDATE_TICKET_OUTPUT;

pub(super) const FIND_CUSTOMER_INPUT: &str = concat!(
    r#"{
  "type": "object", "additionalProperties": false,
  "properties": {
    "email": {"type": "string", "minLength": 1, "examples": ["mira@example.com"],
      "description": "The whole e-mail address; not together with name or external_id"},
    "name": {"type": "string", "minLength": 1, "examples": ["Mira Castellan"],
      "description": "The name, or words of it; not together with email or external_id"},
    "external_id": {"type": "string", "minLength": 1, "examples": ["crm-4711"],
      "description": "The id that another system gave them; not together with email or name"},
    "limit": {"type": "integer", "minimum": 1, "maximum": 100, "default": 25, "examples": [25],
      "description": "Customers on a page; a cursor keeps the limit that it was made with"},
    "#,
    cursor!(),
    "}}"
);

pub(super) const FIND_CUSTOMER_OUTPUT: &str = concat!(
    r#"{"type": "object", "additionalProperties": false, "required": ["customers", "total", "next_cursor", "note"],
  "properties": {
    "customers": {"type": "array", "items": {"type": "object", "additionalProperties": false,
      "required": ["id", "url", "name", "email", "other_emails", "phone", "external_id", "language", "time_zone", "tags",
                   "created_at", "updated_at"],
      "properties": {
        "id": {"type": "string", "minLength": 1},
        "url": {"type": ["string", "null"], "description": "Where people open it"},
        "name": {"type": ["string", "null"]},
        "email": {"type": ["string", "null"]},
        "other_emails": {"type": "array", "items": {"type": "string"},
          "description": "Further addresses, where the helpdesk tells them here"},
        "phone": {"type": ["string", "null"]},
        "external_id": {"type": ["string", "null"], "description": "The id that another system gave them"},
        "language": {"type": ["string", "null"], "description": "As the helpdesk writes it, like en-US"},
        "time_zone": {"type": ["string", "null"], "description": "As the helpdesk writes it"},
        "tags": {"type": "array", "items": {"type": "string"}},
        "created_at": {"type": ["string", "null"], "format": "date-time"},
        "updated_at": {"type": ["string", "null"], "format": "date-time"}}}},
    "#,
    more!(),
    "}}"
);

pub(super) const SEARCH_ARTICLES_INPUT: &str = concat!(
    r#"{
  "type": "object", "additionalProperties": false, "required": ["query"],
  "properties": {
    "query": {"type": "string", "minLength": 1, "maxLength": 1000, "examples": ["return a damaged parcel"],
      "description": "Words to look for"},
    "locale": {"type": "string", "minLength": 1, "examples": ["en-us"],
      "description": "The language, as the helpdesk writes it; absent: the helpdesk's default"},
    "limit": {"type": "integer", "minimum": 1, "maximum": 25, "default": 5, "examples": [5],
      "description": "Articles on a page; a cursor keeps the limit that it was made with"},
    "#,
    cursor!(),
    "}}"
);

pub(super) const SEARCH_ARTICLES_OUTPUT: &str = concat!(
    r#"{"type": "object", "additionalProperties": false, "required": ["articles", "total", "next_cursor", "note"],
  "properties": {
    "articles": {"type": "array", "items": {"type": "object", "additionalProperties": false,
      "required": ["id", "url", "title", "body", "locale", "published", "labels", "created_at", "updated_at"],
      "properties": {
        "id": {"type": "string", "minLength": 1},
        "url": {"type": ["string", "null"], "description": "Where people read it"},
        "title": {"type": "string"},
        "body": {"type": ["string", "null"], "description": "The whole of it, as text"},
        "locale": {"type": ["string", "null"], "description": "The language of this text"},
        "published": {"type": ["boolean", "null"],
          "description": "false: a draft, which customers do not see; null: the helpdesk does not tell"},
        "labels": {"type": "array", "items": {"type": "string"}},
        "created_at": {"type": ["string", "null"], "format": "date-time"},
        "updated_at": {"type": ["string", "null"], "format": "date-time"}}}},
    "#,
    more!(),
    "}}"
);
