//! People and tickets of one helpdesk, and how Zendesk spells them.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::clock::iso;
use crate::options::Scene;
use crate::zendesk::webhooks::ZendeskWebhook;
use crate::zendesk::{scene, seed};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Role {
    Admin,
    Agent,
    /// An agent who may read and write notes, but not speak to customers.
    LightAgent,
    EndUser,
}

impl Role {
    pub(crate) fn is_staff(self) -> bool {
        self != Self::EndUser
    }

    fn as_str(self) -> &'static str {
        match self {
            Self::Admin => "admin",
            Self::Agent | Self::LightAgent => "agent",
            Self::EndUser => "end-user",
        }
    }

    fn in_words(self) -> &'static str {
        match self {
            Self::Admin => "administrator",
            Self::Agent => "agent",
            Self::LightAgent => "light agent",
            Self::EndUser => "end user",
        }
    }
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct User {
    pub(crate) id: i64,
    pub(crate) name: String,
    pub(crate) email: String,
    pub(crate) role: Role,
    pub(crate) external_id: Option<String>,
    pub(crate) phone: Option<String>,
    pub(crate) created_ms: i64,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Comment {
    pub(crate) id: i64,
    pub(crate) audit_id: i64,
    pub(crate) author_id: i64,
    pub(crate) body: String,
    pub(crate) html_body: String,
    pub(crate) public: bool,
    pub(crate) channel: Cow<'static, str>,
    pub(crate) created_ms: i64,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Ticket {
    pub(crate) id: i64,
    pub(crate) external_id: Option<String>,
    pub(crate) subject: Option<String>,
    pub(crate) status: String,
    pub(crate) priority: Option<String>,
    pub(crate) kind: Option<String>,
    pub(crate) requester_id: i64,
    pub(crate) submitter_id: i64,
    pub(crate) assignee_id: Option<i64>,
    pub(crate) group_id: Option<i64>,
    pub(crate) tags: Vec<String>,
    pub(crate) custom_fields: Vec<Value>,
    pub(crate) channel: Cow<'static, str>,
    pub(crate) created_ms: i64,
    pub(crate) updated_ms: i64,
    pub(crate) comments: Vec<Comment>,
}

/// Stands for the first administrator, where somebody has to be named.
pub(crate) const ADMIN: &str = "admin";

/// An answer that is kept for its idempotency key: a ticket was created.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Kept {
    /// What was asked.
    pub(crate) body: String,
    pub(crate) at_ms: i64,
    pub(crate) answer: Value,
    pub(crate) location: String,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Data {
    pub(crate) users: Vec<User>,
    pub(crate) tickets: BTreeMap<i64, Ticket>,
    pub(crate) kept: HashMap<String, Kept>,
    pub(crate) group_id: i64,
    pub(crate) last_ticket: i64,
    pub(crate) last_event: i64,
    #[serde(default)]
    pub(crate) webhooks: Vec<ZendeskWebhook>,
    /// Deleted for 30 days: gone to all but the export.
    #[serde(default)]
    pub(crate) deleted: BTreeMap<i64, Ticket>,
}

impl Data {
    pub(crate) fn seeded(scene: Scene, name: &str, account_id: i64, now_ms: i64) -> Self {
        match scene {
            Scene::Tests => seed::fill(account_id),
            Scene::Demo => scene::fill(name, account_id, now_ms),
        }
    }

    /// Ids of comments, audits and events: above 2^53, so that a reader through floating point is found out.
    pub(crate) fn next_event(&mut self) -> i64 {
        self.last_event += 1;
        self.last_event
    }

    pub(crate) fn user(&self, id: i64) -> Option<&User> {
        self.users.iter().find(|user| user.id == id)
    }

    /// By id, by address, or by the start of a name in any case. [`ADMIN`] is the first administrator, whatever the name.
    pub(crate) fn find_user(&self, text: &str) -> Option<i64> {
        let wanted = text.to_lowercase();
        if wanted.is_empty() {
            return None;
        }
        self.users
            .iter()
            .find(|user| {
                (wanted == ADMIN && user.role == Role::Admin)
                    || wanted == user.id.to_string()
                    || wanted == user.email
                    || user.name.to_lowercase().starts_with(&wanted)
            })
            .map(|user| user.id)
    }

    /// Who may sign in on the consent page: id, name, role in words.
    pub(crate) fn staff(&self) -> Vec<(i64, String, &'static str)> {
        self.users.iter().take(seed::SIGN_INS).map(|user| (user.id, user.name.clone(), user.role.in_words())).collect()
    }
}

impl User {
    pub(crate) fn to_json(&self, base: &str) -> Value {
        json!({
            "id": self.id,
            "url": format!("{base}/api/v2/users/{}.json", self.id),
            "name": self.name,
            "email": self.email,
            "phone": self.phone,
            "role": self.role.as_str(),
            "role_type": (self.role == Role::LightAgent).then_some(1),
            "restricted_agent": self.role == Role::LightAgent,
            "organization_id": null,
            "external_id": self.external_id,
            "tags": [],
            "time_zone": "Europe/London",
            "locale": "en-GB",
            "active": true,
            "suspended": false,
            "verified": true,
            "created_at": iso(self.created_ms),
            "updated_at": iso(self.created_ms),
        })
    }
}

/// Who `users/me` says a caller without credentials is.
pub(crate) fn anonymous_user() -> Value {
    json!({
        "id": null, "url": null, "name": "Anonymous user", "email": "invalid@example.com", "phone": null,
        "role": "end-user", "organization_id": null, "external_id": null, "tags": [], "time_zone": "UTC",
        "locale": "en-GB", "active": false, "suspended": false, "verified": false, "created_at": null,
        "updated_at": null,
    })
}

impl Ticket {
    pub(crate) fn to_json(&self, base: &str) -> Value {
        json!({
            "id": self.id,
            "url": format!("{base}/api/v2/tickets/{}.json", self.id),
            "external_id": self.external_id,
            "created_at": iso(self.created_ms),
            "updated_at": iso(self.updated_ms),
            "generated_timestamp": self.updated_ms / 1000,
            "type": self.kind,
            "subject": self.subject,
            "raw_subject": self.subject,
            "description": self.comments.first().map(|comment| &comment.body),
            "priority": self.priority,
            "status": self.status,
            "custom_status_id": null,
            "recipient": null,
            "requester_id": self.requester_id,
            "submitter_id": self.submitter_id,
            "assignee_id": self.assignee_id,
            "group_id": self.group_id,
            "organization_id": null,
            "collaborator_ids": [],
            "follower_ids": [],
            "email_cc_ids": [],
            "is_public": self.comments.iter().any(|comment| comment.public),
            "tags": self.tags,
            "custom_fields": self.custom_fields,
            "via": via(&self.channel),
            "brand_id": null,
            "ticket_form_id": null,
            "satisfaction_rating": {"score": "unoffered"},
            "due_at": null,
        })
    }

    pub(crate) fn people(&self) -> impl Iterator<Item = i64> {
        [self.requester_id, self.submitter_id].into_iter().chain(self.assignee_id)
    }

    /// Whole seconds count in `updated_at`, so each change moves it by one at least.
    pub(crate) fn touch(&mut self, now_ms: i64) {
        self.updated_ms = now_ms.max(self.updated_ms + 1000);
    }
}

impl Comment {
    pub(crate) fn to_json(&self) -> Value {
        json!({
            "id": self.id,
            "type": "Comment",
            "author_id": self.author_id,
            "body": self.body,
            "html_body": self.html_body,
            "plain_body": self.body,
            "public": self.public,
            "attachments": [],
            "audit_id": self.audit_id,
            "via": via(&self.channel),
            "metadata": {"system": {}, "custom": {}},
            "created_at": iso(self.created_ms),
        })
    }
}

fn via(channel: &str) -> Value {
    json!({"channel": channel, "source": {"from": {}, "to": {}, "rel": null}})
}
