//! Agents, contacts, tickets and articles of one account, and how Freshdesk spells them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::clock::iso;

/// What an account pays for; decides its limits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FreshdeskPlan {
    /// Without API.
    Free,
    /// 50 credits a minute.
    Trial,
    /// 200.
    Growth,
    /// 400.
    Pro,
    /// 700.
    #[default]
    Enterprise,
}

/// Which tickets an agent sees.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TicketScope {
    /// All of them.
    #[default]
    All,
    /// Those of the agent's groups.
    Group,
    /// Those assigned to the agent.
    Own,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts about one agent")]
pub(crate) struct Agent {
    pub(crate) id: i64,
    pub(crate) name: String,
    pub(crate) email: String,
    pub(crate) api_key: String,
    pub(crate) admin: bool,
    /// Without a day pass: may sign in, may not call.
    pub(crate) without_pass: bool,
    pub(crate) active: bool,
    /// May write to customers.
    pub(crate) may_reply: bool,
    pub(crate) scope: TicketScope,
    pub(crate) group_ids: Vec<i64>,
    pub(crate) created_ms: i64,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Contact {
    pub(crate) id: i64,
    pub(crate) name: String,
    pub(crate) email: Option<String>,
    pub(crate) phone: Option<String>,
    /// What another system calls them.
    pub(crate) external_id: Option<String>,
    /// Whether the address was verified; those that are not are listed on demand alone.
    pub(crate) active: bool,
    pub(crate) created_ms: i64,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Conversation {
    pub(crate) id: i64,
    pub(crate) user_id: i64,
    pub(crate) body: String,
    pub(crate) body_text: String,
    pub(crate) incoming: bool,
    pub(crate) private: bool,
    /// 0 reply, 2 note.
    pub(crate) source: i64,
    pub(crate) from_email: Option<String>,
    pub(crate) to_emails: Vec<String>,
    pub(crate) cc_emails: Vec<String>,
    pub(crate) bcc_emails: Vec<String>,
    pub(crate) created_ms: i64,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Ticket {
    pub(crate) id: i64,
    pub(crate) subject: Option<String>,
    pub(crate) description: String,
    pub(crate) description_text: String,
    pub(crate) status: i64,
    pub(crate) priority: i64,
    pub(crate) source: i64,
    pub(crate) kind: Option<String>,
    pub(crate) requester_id: i64,
    pub(crate) responder_id: Option<i64>,
    pub(crate) group_id: Option<i64>,
    pub(crate) tags: Vec<String>,
    pub(crate) cc_emails: Vec<String>,
    pub(crate) custom_fields: Map<String, Value>,
    pub(crate) spam: bool,
    #[serde(default)]
    pub(crate) deleted: bool,
    pub(crate) created_ms: i64,
    pub(crate) updated_ms: i64,
    pub(crate) conversations: Vec<Conversation>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Article {
    pub(crate) id: i64,
    pub(crate) title: String,
    pub(crate) text: String,
    /// 1 draft, 2 published.
    pub(crate) status: i64,
    /// 1 everybody, 2 who is signed in, 3 agents, 4 some companies.
    pub(crate) visibility: i64,
    pub(crate) created_ms: i64,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Data {
    pub(crate) plan: FreshdeskPlan,
    pub(crate) suspended: bool,
    pub(crate) agents: Vec<Agent>,
    pub(crate) contacts: Vec<Contact>,
    pub(crate) tickets: BTreeMap<i64, Ticket>,
    pub(crate) articles: Vec<Article>,
    /// The numbers that a ticket's status may have, with their labels.
    pub(crate) statuses: BTreeMap<i64, String>,
    pub(crate) types: Vec<String>,
    pub(crate) custom_fields: Vec<String>,
    /// A custom field that has to be filled before a ticket is resolved or closed.
    pub(crate) required_to_close: Option<String>,
    pub(crate) group_ids: Vec<i64>,
    pub(crate) last_ticket: i64,
    pub(crate) last_id: i64,
}

impl Data {
    /// Ids of contacts and conversations: above 2^53, so that a reader through floating point is found out.
    pub(crate) fn next_id(&mut self) -> i64 {
        self.last_id += 1;
        self.last_id
    }

    pub(crate) fn contact(&self, id: i64) -> Option<&Contact> {
        self.contacts.iter().find(|contact| contact.id == id)
    }

    pub(crate) fn agent(&self, id: i64) -> Option<&Agent> {
        self.agents.iter().find(|agent| agent.id == id)
    }

    /// By id, by address, or by the start of a name in any case.
    pub(crate) fn agent_named(&mut self, text: &str) -> Option<&mut Agent> {
        let wanted = text.to_lowercase();
        self.agents.iter_mut().find(|agent| {
            !wanted.is_empty()
                && (agent.id.to_string() == wanted
                    || agent.email == wanted
                    || agent.name.to_lowercase().starts_with(&wanted))
        })
    }
}

impl Agent {
    pub(crate) fn sees(&self, ticket: &Ticket) -> bool {
        match self.scope {
            TicketScope::All => true,
            TicketScope::Group => {
                ticket.responder_id == Some(self.id) || ticket.group_id.is_some_and(|id| self.group_ids.contains(&id))
            }
            TicketScope::Own => ticket.responder_id == Some(self.id),
        }
    }

    /// <https://developers.freshdesk.com/api/#me>
    pub(crate) fn to_json(&self) -> Value {
        json!({
            "available": true,
            "occasional": self.without_pass,
            "id": self.id,
            "ticket_scope": match self.scope { TicketScope::All => 1, TicketScope::Group => 2, TicketScope::Own => 3 },
            "type": "support_agent",
            "signature": null,
            "group_ids": self.group_ids,
            "role_ids": [if self.admin { 1 } else { 2 }],
            "skill_ids": [],
            "available_since": null,
            "contact": {
                "active": self.active,
                "email": self.email,
                "job_title": null,
                "language": "en",
                "last_login_at": null,
                "mobile": null,
                "name": self.name,
                "phone": null,
                "time_zone": "London",
                "created_at": iso(self.created_ms),
                "updated_at": iso(self.created_ms),
            },
            "created_at": iso(self.created_ms),
            "updated_at": iso(self.created_ms),
        })
    }
}

impl Contact {
    /// <https://developers.freshdesk.com/api/#contact_attributes>
    pub(crate) fn to_json(&self) -> Value {
        json!({
            "active": self.active,
            "address": null,
            "company_id": null,
            "view_all_tickets": false,
            "description": null,
            "email": self.email,
            "id": self.id,
            "job_title": null,
            "language": "en",
            "mobile": null,
            "name": self.name,
            "phone": self.phone,
            "time_zone": "London",
            "twitter_id": null,
            "unique_external_id": self.external_id,
            "other_emails": [],
            "other_companies": [],
            "tags": [],
            "custom_fields": {},
            "created_at": iso(self.created_ms),
            "updated_at": iso(self.created_ms),
        })
    }

    /// As `include=requester` shows it.
    pub(crate) fn to_requester(&self) -> Value {
        json!({"id": self.id, "name": self.name, "email": self.email, "mobile": null, "phone": self.phone})
    }
}

impl Conversation {
    /// <https://developers.freshdesk.com/api/#conversations>
    pub(crate) fn to_json(&self, ticket_id: i64) -> Value {
        json!({
            "body": self.body,
            "body_text": self.body_text,
            "id": self.id,
            "incoming": self.incoming,
            "private": self.private,
            "user_id": self.user_id,
            "support_email": null,
            "source": self.source,
            "category": if self.private { 2 } else { 1 },
            "ticket_id": ticket_id,
            "to_emails": self.to_emails,
            "from_email": self.from_email,
            "cc_emails": self.cc_emails,
            "bcc_emails": self.bcc_emails,
            "email_failure_count": null,
            "outgoing_failures": null,
            "thread_id": null,
            "automation_id": null,
            "auto_response": false,
            "last_edited_at": null,
            "created_at": iso(self.created_ms),
            "updated_at": iso(self.created_ms),
            "attachments": [],
        })
    }
}

impl Ticket {
    /// Neither spam nor deleted.
    pub(crate) fn is_usual(&self) -> bool {
        !self.spam && !self.deleted
    }

    /// As lists have it: without its description.
    /// <https://developers.freshdesk.com/api/#ticket_attributes>
    pub(crate) fn to_json(&self) -> Value {
        json!({
            "cc_emails": self.cc_emails,
            "fwd_emails": [],
            "reply_cc_emails": self.cc_emails,
            "ticket_cc_emails": self.cc_emails,
            "fr_escalated": false,
            "spam": self.spam,
            "email_config_id": null,
            "group_id": self.group_id,
            "priority": self.priority,
            "requester_id": self.requester_id,
            "responder_id": self.responder_id,
            "source": self.source,
            "company_id": null,
            "status": self.status,
            "subject": self.subject,
            "association_type": null,
            "support_email": null,
            "to_emails": null,
            "product_id": null,
            "id": self.id,
            "type": self.kind,
            "due_by": null,
            "fr_due_by": null,
            "nr_due_by": null,
            "is_escalated": false,
            "custom_fields": self.custom_fields,
            "created_at": iso(self.created_ms),
            "updated_at": iso(self.updated_ms),
            "associated_tickets_count": null,
            "structured_description": null,
            "tags": self.tags,
        })
    }

    /// With its description.
    pub(crate) fn to_whole_json(&self) -> Value {
        let mut whole = self.to_json();
        whole["description"] = json!(self.description);
        whole["description_text"] = json!(self.description_text);
        whole["attachments"] = json!([]);
        whole
    }

    /// Whole seconds count in `updated_at`, so each change moves it by one at least.
    pub(crate) fn touch(&mut self, now_ms: i64) {
        self.updated_ms = now_ms.max(self.updated_ms + 1000);
    }
}

impl Article {
    /// <https://developers.freshdesk.com/api/#solution_article_attributes>
    pub(crate) fn to_json(&self) -> Value {
        json!({
            "id": self.id,
            "type": 1,
            "category_id": 1,
            "folder_id": 10,
            "folder_visibility": self.visibility,
            "hierarchy": [],
            "agent_id": 1,
            "path": format!("{}-{}", self.id, self.title.to_lowercase().replace(' ', "-")),
            "title": self.title,
            "description": format!("<p>{}</p>", crate::http::escape(&self.text)),
            "description_text": self.text,
            "status": self.status,
            "tags": [],
            "seo_data": {},
            "language_id": 6,
            "hits": 0,
            "thumbs_up": 0,
            "thumbs_down": 0,
            "modified_at": iso(self.created_ms),
            "created_at": iso(self.created_ms),
            "updated_at": iso(self.created_ms),
        })
    }
}
