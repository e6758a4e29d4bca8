//! The JSON Schemas of the tools, as text.

macro_rules! person {
    () => {
        r#"{"type": ["object", "null"], "additionalProperties": false, "required": ["id", "name", "email"],
            "properties": {"id": {"type": "string"}, "name": {"type": ["string", "null"]},
                           "email": {"type": ["string", "null"]}}}"#
    };
}

macro_rules! ticket {
    () => {
        concat!(
            r#"{"type": "object", "additionalProperties": false,
                "required": ["id", "url", "subject", "description", "status", "priority", "channel", "requester",
                             "assignee", "tags", "created_at", "updated_at"],
                "properties": {
                  "id": {"type": "string"},
                  "url": {"type": ["string", "null"], "description": "Where people open it"},
                  "subject": {"type": ["string", "null"]},
                  "description": {"type": ["string", "null"], "description": "The first message, as text"},
                  "status": {"type": "object", "additionalProperties": false, "required": ["value", "original"],
                    "properties": {
                      "value": {"enum": ["new", "open", "pending", "on_hold", "solved", "closed"]},
                      "original": {"type": "string", "description": "As Zendesk says it"}}},
                  "priority": {"type": ["object", "null"], "additionalProperties": false,
                    "required": ["value", "original"],
                    "properties": {
                      "value": {"enum": ["low", "normal", "high", "urgent"]},
                      "original": {"type": "string", "description": "As Zendesk says it"}}},
                  "channel": {"type": ["string", "null"], "description": "How it came in"},
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

pub(super) const SEARCH_INPUT: &str = r#"{
  "type": "object", "additionalProperties": false,
  "properties": {
    "query": {"type": "string", "maxLength": 1000, "examples": ["refund created>2026-01-01"],
      "description": "Words to look for in subject, messages and tags. Zendesk's search terms work too, like created>2026-01-01 or \"an exact phrase\"; type: does not."},
    "status": {"type": "array", "items": {"enum": ["new", "open", "pending", "on_hold", "solved", "closed"]},
      "examples": [["new", "open"]], "description": "One of these; absent or empty: any"},
    "priority": {"type": "array", "items": {"enum": ["low", "normal", "high", "urgent"]},
      "examples": [["high", "urgent"]], "description": "One of these; absent or empty: any, also none"},
    "tags": {"type": "array", "items": {"type": "string", "minLength": 1}, "examples": [["billing"]],
      "description": "Tags, without spaces; a ticket with any of them is found"},
    "requester": {"type": "string", "minLength": 1, "examples": ["mira@example.com"],
      "description": "Who asks: e-mail address, id or name"},
    "limit": {"type": "integer", "minimum": 1, "maximum": 100, "default": 25, "examples": [25],
      "description": "Tickets on a page; a cursor keeps the limit that it was made with"},
    "cursor": {"type": "string", "examples": ["2-25"],
      "description": "next_cursor of the page before, with otherwise the same arguments"}
  }
}"#;

pub(super) const SEARCH_OUTPUT: &str = concat!(
    r#"{"type": "object", "additionalProperties": false, "required": ["tickets", "total", "next_cursor", "note"],
  "properties": {
    "tickets": {"type": "array", "items": "#,
    ticket!(),
    r#"},
    "total": {"type": "integer", "description": "How many tickets match, on all pages"},
    "next_cursor": {"type": ["string", "null"], "description": "Gets the next page; null: there is none"},
    "note": {"type": ["string", "null"], "description": "Says so when more match than Zendesk shows"}
  }
}"#
);

pub(super) const GET_INPUT: &str = r#"{
  "type": "object", "additionalProperties": false, "required": ["ticket_id"],
  "properties": {
    "ticket_id": {"type": "string", "pattern": "^[0-9]+$", "examples": ["35436"], "description": "The ticket's id"}
  }
}"#;

pub(super) const GET_OUTPUT: &str = concat!(
    r#"{"type": "object", "additionalProperties": false,
  "required": ["ticket", "messages", "messages_complete", "note"],
  "properties": {
    "ticket": "#,
    ticket!(),
    r#",
    "messages": {"type": "array", "description": "Oldest first",
      "items": {"type": "object", "additionalProperties": false,
        "required": ["id", "body", "public", "author", "created_at"],
        "properties": {
          "id": {"type": "string"},
          "body": {"type": "string", "description": "As text"},
          "public": {"type": "boolean", "description": "false: an internal note"},
          "author": "#,
    person!(),
    r#",
          "created_at": {"type": "string", "format": "date-time"}}}},
    "messages_complete": {"type": "boolean", "description": "false: there are later messages that are not shown"},
    "note": {"type": ["string", "null"], "description": "Says so when messages are not shown"}
  }
}"#
);

pub(super) const REPLY_INPUT: &str = r#"{
  "type": "object", "additionalProperties": false, "required": ["ticket_id", "body", "public"],
  "properties": {
    "ticket_id": {"type": "string", "pattern": "^[0-9]+$", "examples": ["35436"], "description": "The ticket's id"},
    "body": {"type": "string", "minLength": 1, "examples": ["Your refund is on its way."],
      "description": "The message, as text"},
    "public": {"type": "boolean", "examples": [true],
      "description": "true: the customer receives it; false: an internal note for agents"}
  }
}"#;

pub(super) const REPLY_OUTPUT: &str = r#"{
  "type": "object", "additionalProperties": false,
  "required": ["ticket_id", "comment_id", "public", "updated_at"],
  "properties": {
    "ticket_id": {"type": "string"},
    "comment_id": {"type": ["string", "null"], "description": "The new message's id; null: Zendesk did not tell"},
    "public": {"type": "boolean",
      "description": "What Zendesk made of it: it may turn a reply into a note for agents who may not write publicly"},
    "updated_at": {"type": "string", "format": "date-time", "description": "The ticket's, after the message"}
  }
}"#;

pub(super) const UPDATE_INPUT: &str = r#"{
  "type": "object", "additionalProperties": false, "required": ["ticket_id"],
  "properties": {
    "ticket_id": {"type": "string", "pattern": "^[0-9]+$", "examples": ["35436"], "description": "The ticket's id"},
    "status": {"enum": ["open", "pending", "on_hold", "solved", "closed"], "examples": ["pending"],
      "description": "Where it stands from now on; closed is final"},
    "priority": {"enum": ["low", "normal", "high", "urgent"], "examples": ["high"],
      "description": "How urgent it is from now on"},
    "assignee": {"type": ["string", "null"], "minLength": 1, "examples": ["gus@example.com"],
      "description": "Who answers: id or e-mail address of an agent; null: nobody"},
    "tags": {"type": "array", "items": {"type": "string", "minLength": 1}, "examples": [["billing", "vip"]],
      "description": "Replaces all tags; not together with add_tags or remove_tags"},
    "add_tags": {"type": "array", "items": {"type": "string", "minLength": 1}, "examples": [["vip"]],
      "description": "Tags to add, without spaces"},
    "remove_tags": {"type": "array", "items": {"type": "string", "minLength": 1}, "examples": [["triage"]],
      "description": "Tags to remove"},
    "if_updated_at": {"type": "string", "format": "date-time", "examples": ["2026-11-29T10:00:00Z"],
      "description": "updated_at of the ticket as you read it: the change is refused when somebody changed it since. Absent: what is changed is what the ticket holds now."}
  }
}"#;

pub(super) const UPDATE_OUTPUT: &str = concat!(
    r#"{"type": "object", "additionalProperties": false, "required": ["ticket"], "properties": {"ticket": "#,
    ticket!(),
    "}}"
);
