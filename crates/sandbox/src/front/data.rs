//! What a company has, and how the API shows it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// A company that uses Front.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Company {
    pub(super) id: String,
    /// Of its API host.
    pub(super) label: String,
    pub(super) name: String,
    /// Whether ticket statuses are switched on.
    pub(super) ticketing: bool,
    /// Requests a minute, by plan.
    pub(super) per_minute: u32,
    pub(super) teammates: Vec<Teammate>,
    pub(super) contacts: Vec<Contact>,
    pub(super) inboxes: Vec<Inbox>,
    pub(super) tags: Vec<Tag>,
    pub(super) statuses: Vec<TicketStatus>,
    pub(super) conversations: Vec<Conversation>,
    /// What was imported: an external id, and the uid that it was given.
    pub(super) imported: BTreeMap<String, String>,
    /// The minute of the rate limit.
    #[serde(skip)]
    pub(super) window: Window,
}

#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Window {
    pub(super) started_ms: i64,
    pub(super) used: u32,
    pub(super) searches: u32,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Teammate {
    pub(super) id: String,
    pub(super) email: String,
    pub(super) first_name: String,
    pub(super) last_name: String,
    pub(super) is_admin: bool,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Contact {
    pub(super) id: String,
    pub(super) name: Option<String>,
    /// Source (`email`, `phone`) and handle.
    pub(super) handles: Vec<(String, String)>,
}

/// A shared inbox, and the channel behind it.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Inbox {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) channel_id: String,
    /// `smtp`, or something that is no mail.
    pub(super) channel_type: String,
    pub(super) address: String,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Tag {
    pub(super) id: String,
    pub(super) name: String,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct TicketStatus {
    pub(super) id: String,
    pub(super) name: String,
    /// `open`, `waiting` or `resolved`.
    pub(super) category: String,
}

/// What Front calls a conversation's status, apart from whether somebody is assigned.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Place {
    #[default]
    Open,
    Archived,
    Deleted,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Conversation {
    pub(super) id: String,
    pub(super) subject: String,
    pub(super) place: Place,
    pub(super) status_id: Option<String>,
    pub(super) assignee: Option<String>,
    /// Name and handle.
    pub(super) recipient: Option<(Option<String>, String)>,
    pub(super) tags: Vec<String>,
    pub(super) inbox: String,
    pub(super) created_ms: i64,
    pub(super) updated_ms: i64,
    pub(super) merged_into: Option<String>,
    pub(super) messages: Vec<Message>,
    pub(super) comments: Vec<Comment>,
}

impl Conversation {
    /// When the oldest message came that nobody has answered.
    fn waiting_since_ms(&self) -> Option<i64> {
        let sent = self.messages.iter().filter(|message| !message.is_draft && !message.is_waiting);
        let unanswered = sent.rev().take_while(|message| message.is_inbound);
        unanswered.last().map(|message| message.at_ms)
    }
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Message {
    pub(super) id: String,
    pub(super) uid: String,
    pub(super) kind: String,
    pub(super) is_inbound: bool,
    pub(super) at_ms: i64,
    pub(super) body: String,
    pub(super) text: String,
    pub(super) subject: Option<String>,
    pub(super) author: Option<String>,
    /// Name, handle, role.
    pub(super) recipients: Vec<(Option<String>, String, String)>,
    pub(super) is_draft: bool,
    /// Accepted, and not processed yet: nobody sees it.
    pub(super) is_waiting: bool,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Comment {
    pub(super) id: String,
    pub(super) author: Option<String>,
    pub(super) body: String,
    pub(super) at_ms: i64,
}

/// Unix seconds with a fraction.
pub(super) fn seconds(ms: i64) -> Value {
    let text = format!("{}.{:03}", ms.div_euclid(1000), ms.rem_euclid(1000));
    text.parse::<f64>().map_or(Value::Null, Value::from)
}

impl Company {
    /// Where links lead.
    pub(super) fn host(&self) -> String {
        format!("https://{}.api.frontapp.com", self.label)
    }

    pub(super) fn conversation(&self, id: &str) -> Option<&Conversation> {
        self.conversations.iter().find(|one| one.id == id)
    }

    fn teammate(&self, id: Option<&String>) -> Value {
        let found = id.and_then(|id| self.teammates.iter().find(|one| one.id == *id));
        found.map_or(Value::Null, |one| one.to_json(self))
    }

    /// A conversation, as the API shows it.
    pub(super) fn show(&self, one: &Conversation, tells_updated_at: bool) -> Value {
        let status = match (one.place, &one.assignee) {
            (Place::Archived, _) => "archived",
            (Place::Deleted, _) => "deleted",
            (Place::Open, Some(_)) => "assigned",
            (Place::Open, None) => "unassigned",
        };
        let ticket = one.status_id.as_ref().filter(|_| self.ticketing);
        let category = ticket.and_then(|id| self.statuses.iter().find(|status| status.id == *id));
        let tags = one.tags.iter().filter_map(|id| self.tags.iter().find(|tag| tag.id == *id));
        let tags: Vec<Value> = tags.map(|tag| tag.to_json(self)).collect();
        let recipient =
            one.recipient.as_ref().map(|(name, handle)| json!({"name": name, "handle": handle, "role": "from"}));
        let own = format!("{}/conversations/{}", self.host(), one.id);
        let mut shown = json!({
            "_links": {"self": own, "related": {"messages": format!("{own}/messages"), "comments": format!("{own}/comments")}},
            "id": one.id, "type": "conversation", "subject": one.subject, "status": status, "status_id": ticket,
            "status_category": category.map(|status| status.category.as_str()), "ticket_ids": [],
            "assignee": self.teammate(one.assignee.as_ref()), "recipient": recipient, "tags": tags, "links": [],
            "custom_fields": {}, "created_at": seconds(one.created_ms), "waiting_since": one.waiting_since_ms().map(seconds),
            "is_private": false, "scheduled_reminders": [], "metadata": {},
        });
        if tells_updated_at {
            shown["updated_at"] = seconds(one.updated_ms);
        }
        shown
    }

    /// A message of a conversation, as the API shows it.
    pub(super) fn show_message(&self, conversation: &str, one: &Message) -> Value {
        let host = self.host();
        let recipients = one.recipients.iter().map(|(name, handle, role)| {
            json!({"_links": {"related": {"contact": null}}, "name": name, "handle": handle, "role": role})
        });
        json!({
            "_links": {"self": format!("{host}/messages/{}", one.id),
                       "related": {"conversation": format!("{host}/conversations/{conversation}")}},
            "id": one.id, "message_uid": one.uid, "type": one.kind, "is_inbound": one.is_inbound,
            "created_at": seconds(one.at_ms), "blurb": one.text.chars().take(60).collect::<String>(), "body": one.body,
            "text": one.text, "subject": one.subject, "author": self.teammate(one.author.as_ref()),
            "recipients": recipients.collect::<Vec<_>>(), "attachments": [], "signature": null, "metadata": {},
            "error_type": null, "version": null, "draft_mode": one.is_draft.then_some("shared"),
        })
    }

    pub(super) fn show_comment(&self, one: &Comment) -> Value {
        json!({"_links": {"self": format!("{}/comments/{}", self.host(), one.id)}, "id": one.id,
            "author": self.teammate(one.author.as_ref()), "body": one.body, "posted_at": seconds(one.at_ms),
            "attachments": [], "is_pinned": false})
    }
}

impl Teammate {
    pub(super) fn name(&self) -> String {
        format!("{} {}", self.first_name, self.last_name)
    }

    pub(super) fn to_json(&self, company: &Company) -> Value {
        json!({"_links": {"self": format!("{}/teammates/{}", company.host(), self.id)}, "id": self.id, "email": self.email,
            "username": self.first_name.to_lowercase(), "first_name": self.first_name, "last_name": self.last_name,
            "is_admin": self.is_admin, "is_available": true, "is_blocked": false, "type": "user", "custom_fields": {}})
    }
}

impl Tag {
    pub(super) fn to_json(&self, company: &Company) -> Value {
        json!({"_links": {"self": format!("{}/tags/{}", company.host(), self.id)}, "id": self.id, "name": self.name,
            "highlight": null, "is_private": false})
    }
}

impl Contact {
    pub(super) fn to_json(&self, company: &Company) -> Value {
        let handles = self.handles.iter().map(|(source, handle)| json!({"handle": handle, "source": source}));
        json!({"_links": {"self": format!("{}/contacts/{}", company.host(), self.id)}, "id": self.id, "name": self.name,
            "description": null, "avatar_url": null, "is_private": false, "groups": [], "lists": [], "custom_fields": {},
            "handles": handles.collect::<Vec<_>>()})
    }
}

impl Inbox {
    pub(super) fn to_json(&self, company: &Company) -> Value {
        json!({"_links": {"self": format!("{}/inboxes/{}", company.host(), self.id)}, "id": self.id, "name": self.name,
            "is_private": false, "is_public": true, "custom_fields": {}})
    }

    pub(super) fn channel_json(&self, company: &Company) -> Value {
        let host = company.host();
        json!({"_links": {"self": format!("{host}/channels/{}", self.channel_id),
                          "related": {"inbox": format!("{host}/inboxes/{}", self.id)}},
            "id": self.channel_id, "name": self.name, "address": self.address, "send_as": self.address,
            "type": self.channel_type, "is_private": false, "is_valid": true})
    }
}
