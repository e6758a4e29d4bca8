//! Wire types, spelled as Zendesk spells them. Ids may exceed 2^53; what is not used is not read.

use std::collections::HashMap;

use chrono::{DateTime, Utc};
use holdfast_core::{
    helpdesk::text_of_html,
    ticket::{Article, Attachment, Channel, Customer, Mapped, Message, Person, Priority, Status, Ticket},
    wire,
};
use serde::Deserialize;
use url::Url;

#[derive(Debug, Deserialize)]
pub(crate) struct UserAnswer {
    pub(crate) user: User,
}

/// An anonymous visitor is a user without id.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct User {
    #[serde(default, deserialize_with = "wire::maybe_number")]
    pub(crate) id: Option<i64>,
    pub(crate) name: Option<String>,
    pub(crate) email: Option<String>,
    pub(crate) role: Option<String>,
    pub(crate) active: Option<bool>,
    pub(crate) suspended: Option<bool>,
}

/// A user, with more of it than a ticket needs.
#[derive(Debug, Deserialize)]
pub(crate) struct Profile {
    #[serde(default, deserialize_with = "wire::maybe_number")]
    pub(crate) id: Option<i64>,
    pub(crate) name: Option<String>,
    pub(crate) email: Option<String>,
    pub(crate) phone: Option<String>,
    pub(crate) external_id: Option<String>,
    pub(crate) locale: Option<String>,
    pub(crate) time_zone: Option<String>,
    /// Absent where tags of users are not switched on.
    pub(crate) tags: Option<Vec<String>>,
    #[serde(default, deserialize_with = "wire::maybe_moment")]
    pub(crate) created_at: Option<DateTime<Utc>>,
    #[serde(default, deserialize_with = "wire::maybe_moment")]
    pub(crate) updated_at: Option<DateTime<Utc>>,
}

/// A page of users: by offset.
#[derive(Debug, Deserialize)]
pub(crate) struct UserPage {
    pub(crate) users: Vec<Profile>,
    pub(crate) count: Option<u64>,
    pub(crate) next_page: Option<String>,
}

/// A page of articles: by offset.
#[derive(Debug, Deserialize)]
pub(crate) struct ArticlePage {
    pub(crate) results: Vec<WireArticle>,
    pub(crate) count: Option<u64>,
    pub(crate) next_page: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct WireArticle {
    #[serde(deserialize_with = "wire::number")]
    pub(crate) id: i64,
    pub(crate) title: Option<String>,
    /// HTML.
    pub(crate) body: Option<String>,
    pub(crate) html_url: Option<String>,
    pub(crate) locale: Option<String>,
    pub(crate) draft: Option<bool>,
    pub(crate) label_names: Option<Vec<String>>,
    #[serde(default, deserialize_with = "wire::maybe_moment")]
    pub(crate) created_at: Option<DateTime<Utc>>,
    #[serde(default, deserialize_with = "wire::maybe_moment")]
    pub(crate) updated_at: Option<DateTime<Utc>>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct TokenAnswer {
    pub(crate) token: TokenFacts,
}

#[derive(Debug, Deserialize)]
pub(crate) struct TokenFacts {
    pub(crate) scopes: Option<Vec<String>>,
}

/// A page of a search: by offset.
#[derive(Debug, Deserialize)]
pub(crate) struct SearchPage {
    pub(crate) results: Vec<WireTicket>,
    pub(crate) count: u64,
    pub(crate) next_page: Option<String>,
    #[serde(default, deserialize_with = "wire::or_default")]
    pub(crate) users: Vec<User>,
}

/// A page of an incremental export: by cursor.
#[derive(Debug, Deserialize)]
pub(crate) struct ExportPage {
    pub(crate) tickets: Vec<WireTicket>,
    pub(crate) after_cursor: Option<String>,
    pub(crate) end_of_stream: bool,
    #[serde(default, deserialize_with = "wire::or_default")]
    pub(crate) users: Vec<User>,
    #[serde(default, deserialize_with = "wire::or_default")]
    pub(crate) metric_sets: Vec<MetricSet>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct MetricSet {
    #[serde(default, deserialize_with = "wire::maybe_number")]
    pub(crate) ticket_id: Option<i64>,
    #[serde(default, deserialize_with = "wire::maybe_moment")]
    pub(crate) latest_comment_added_at: Option<DateTime<Utc>>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct TicketAnswer {
    pub(crate) ticket: WireTicket,
    #[serde(default, deserialize_with = "wire::or_default")]
    pub(crate) users: Vec<User>,
    /// With the answer to a change.
    pub(crate) audit: Option<Audit>,
}

#[derive(Clone, Debug, Deserialize)]
pub(crate) struct WireTicket {
    #[serde(deserialize_with = "wire::number")]
    pub(crate) id: i64,
    pub(crate) subject: Option<String>,
    pub(crate) description: Option<String>,
    /// Null counts as an unknown word.
    #[serde(default, deserialize_with = "wire::or_default")]
    pub(crate) status: String,
    pub(crate) priority: Option<String>,
    #[serde(default, deserialize_with = "wire::maybe_number")]
    pub(crate) requester_id: Option<i64>,
    #[serde(default, deserialize_with = "wire::maybe_number")]
    pub(crate) assignee_id: Option<i64>,
    #[serde(default, deserialize_with = "wire::or_default")]
    pub(crate) tags: Vec<String>,
    pub(crate) via: Option<Via>,
    #[serde(deserialize_with = "wire::moment")]
    pub(crate) created_at: DateTime<Utc>,
    #[serde(deserialize_with = "wire::moment")]
    pub(crate) updated_at: DateTime<Utc>,
}

#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Via {
    pub(crate) channel: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Audit {
    #[serde(default, deserialize_with = "wire::or_default")]
    pub(crate) events: Vec<AuditEvent>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct AuditEvent {
    #[serde(deserialize_with = "wire::number")]
    pub(crate) id: i64,
    #[serde(rename = "type")]
    pub(crate) kind: String,
    pub(crate) public: Option<bool>,
}

/// A page of comments: by cursor.
#[derive(Debug, Deserialize)]
pub(crate) struct CommentPage {
    pub(crate) comments: Vec<Comment>,
    pub(crate) meta: Meta,
    #[serde(default, deserialize_with = "wire::or_default")]
    pub(crate) users: Vec<User>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Meta {
    pub(crate) has_more: bool,
    pub(crate) after_cursor: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Comment {
    #[serde(deserialize_with = "wire::number")]
    pub(crate) id: i64,
    pub(crate) body: Option<String>,
    pub(crate) plain_body: Option<String>,
    pub(crate) public: bool,
    #[serde(default, deserialize_with = "wire::maybe_number")]
    pub(crate) author_id: Option<i64>,
    #[serde(default, deserialize_with = "wire::attachments")]
    pub(crate) attachments: Vec<Attachment>,
    #[serde(deserialize_with = "wire::moment")]
    pub(crate) created_at: DateTime<Utc>,
}

/// People who came along with an answer, by id.
#[derive(Debug, Default)]
pub(crate) struct People(HashMap<i64, User>);

impl People {
    pub(crate) fn add(&mut self, users: Vec<User>) {
        self.0.extend(users.into_iter().filter_map(|user| Some((user.id?, user))));
    }

    fn person(&self, id: i64) -> Person {
        let known = self.0.get(&id);
        Person {
            id: id.to_string(),
            name: known.and_then(|user| user.name.clone()),
            email: known.and_then(|user| user.email.clone()),
        }
    }
}

impl WireTicket {
    /// As the shared model has it. `base` is where the helpdesk lives.
    pub(crate) fn to_model(&self, base: &Url, people: &People) -> Ticket {
        Ticket {
            id: self.id.to_string(),
            url: Some(holdfast_core::provider::below(base, &format!("agent/tickets/{}", self.id)).into()),
            subject: self.subject.clone(),
            description: self.description.clone(),
            status: Mapped { value: status(&self.status), original: self.status.clone() },
            priority: self.priority.as_ref().map(|word| Mapped { value: priority(word), original: word.clone() }),
            channel: self.via.as_ref().and_then(|via| via.channel.clone()).map(channel),
            requester: self.requester_id.map(|id| people.person(id)),
            assignee: self.assignee_id.map(|id| people.person(id)),
            tags: self.tags.clone(),
            created_at: self.created_at,
            updated_at: self.updated_at,
        }
    }
}

impl Profile {
    /// As the shared model has it; `None`: an anonymous visitor. `base` is where the helpdesk lives.
    pub(crate) fn into_model(self, base: &Url) -> Option<Customer> {
        let id = self.id?;
        Some(Customer {
            id: id.to_string(),
            url: Some(holdfast_core::provider::below(base, &format!("agent/users/{id}")).into()),
            name: self.name,
            email: self.email,
            // They come from another endpoint, one call for each user.
            other_emails: Vec::new(),
            phone: self.phone,
            external_id: self.external_id,
            language: self.locale,
            time_zone: self.time_zone,
            tags: self.tags.unwrap_or_default(),
            created_at: self.created_at,
            updated_at: self.updated_at,
        })
    }
}

impl WireArticle {
    /// As the shared model has it.
    pub(crate) fn into_model(self) -> Article {
        Article {
            id: self.id.to_string(),
            // It is on the help center's own host, and shown to people: nothing but a web address.
            url: self.html_url.filter(|url| {
                Url::parse(url).is_ok_and(|url| matches!(url.scheme(), "https" | "http") && url.has_host())
            }),
            title: self.title.unwrap_or_default(),
            body: self.body.as_deref().map(text_of_html),
            locale: self.locale,
            published: self.draft.map(|draft| !draft),
            labels: self.label_names.unwrap_or_default(),
            created_at: self.created_at,
            updated_at: self.updated_at,
        }
    }
}

impl Comment {
    pub(crate) fn into_model(self, people: &People) -> Message {
        Message {
            id: self.id.to_string(),
            body: self.plain_body.or(self.body).unwrap_or_default(),
            public: self.public,
            author: self.author_id.map(|id| people.person(id)),
            attachments: self.attachments,
            created_at: self.created_at,
        }
    }
}

/// A word that is not known yet counts as open: somebody should look. Its original stands beside it.
fn status(word: &str) -> Status {
    match word {
        "new" => Status::New,
        "pending" => Status::Pending,
        "hold" => Status::OnHold,
        "solved" => Status::Solved,
        "closed" | "deleted" => Status::Closed,
        _ => Status::Open,
    }
}

/// A word that is not known yet counts as normal. Its original stands beside it.
fn priority(word: &str) -> Priority {
    match word {
        "low" => Priority::Low,
        "high" => Priority::High,
        "urgent" => Priority::Urgent,
        _ => Priority::Normal,
    }
}

/// A word that is not known yet, or says how the ticket was made and not by which way it came, counts as other. The
/// original stands beside it. Webhooks say `mail` where the API says `email`.
/// <https://developer.zendesk.com/documentation/ticketing/reference-guides/via-types/>
fn channel(word: String) -> Mapped<Channel> {
    let value = match word.as_str() {
        "email" | "mail" => Channel::Email,
        "web" | "web_form" | "web_widget" | "help_center" | "mobile" | "mobile_sdk" => Channel::Web,
        "chat" => Channel::Chat,
        "native_messaging"
        | "messaging"
        | "whatsapp"
        | "line"
        | "wechat"
        | "telegram"
        | "viber"
        | "apple_business_chat"
        | "instagram_dm"
        | "facebook_messenger"
        | "twitter_dm" => Channel::Messaging,
        "twitter" | "facebook" | "forum" => Channel::Social,
        "voice" | "phone" => Channel::Phone,
        "sms" => Channel::Sms,
        "api" | "web_service" | "any_channel" => Channel::Api,
        _ => Channel::Other,
    };
    Mapped { value, original: word }
}

/// Zendesk's word.
pub(crate) fn status_word(status: Status) -> &'static str {
    match status {
        Status::New => "new",
        Status::Open => "open",
        Status::Pending => "pending",
        Status::OnHold => "hold",
        Status::Solved => "solved",
        Status::Closed => "closed",
    }
}

/// Zendesk's word.
pub(crate) fn priority_word(priority: Priority) -> &'static str {
    match priority {
        Priority::Low => "low",
        Priority::Normal => "normal",
        Priority::High => "high",
        Priority::Urgent => "urgent",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_survive_the_way_there_and_back() {
        for word in ["new", "open", "pending", "hold", "solved", "closed"] {
            assert_eq!(status_word(status(word)), word);
        }
        for word in ["low", "normal", "high", "urgent"] {
            assert_eq!(priority_word(priority(word)), word);
        }
    }

    #[test]
    fn an_article_comes_as_text_with_a_web_address_or_none() {
        let of = |url: &str| -> Article {
            let body = "<p>30&nbsp;days</p><script>x()</script>";
            let article = serde_json::json!({"id": 9_007_199_254_740_993_i64, "title": null, "body": body,
                "html_url": url, "draft": true});
            serde_json::from_value::<WireArticle>(article).unwrap().into_model()
        };

        let article = of("https://help.example.com/hc/en-us/articles/1");

        assert_eq!((article.id.as_str(), article.body.as_deref()), ("9007199254740993", Some("30 days")));
        assert_eq!((article.title.as_str(), article.published), ("", Some(false)));
        assert!(article.url.is_some());
        for url in ["javascript:alert(1)", "/hc/articles/1", "data:text/html,x", "https://"] {
            assert_eq!(of(url).url, None, "{url}");
        }
    }

    #[test]
    fn a_channel_keeps_zendesks_word_whatever_it_is() {
        for (word, value) in [
            ("email", Channel::Email),
            ("mail", Channel::Email),
            ("web", Channel::Web),
            ("native_messaging", Channel::Messaging),
            ("voice", Channel::Phone),
            ("closed_ticket", Channel::Other),
            ("ポスト", Channel::Other),
        ] {
            assert_eq!(channel(word.to_owned()), Mapped { value, original: word.to_owned() });
        }
    }

    #[test]
    fn a_ticket_keeps_large_ids_and_words_that_nobody_knows() {
        let wire: WireTicket = serde_json::from_str(
            r#"{"id": 9007199254740993, "status": "snoozed", "priority": null, "subject": null, "description": null,
                "requester_id": 9007199254740995, "assignee_id": null, "created_at": "2026-11-01T10:00:00Z",
                "updated_at": "2026-11-01T10:00:00Z"}"#,
        )
        .unwrap();

        let ticket = wire.to_model(&"http://127.0.0.1:9000/zendesk/acme".parse().unwrap(), &People::default());

        assert_eq!(ticket.id, "9007199254740993");
        assert_eq!(ticket.url.as_deref(), Some("http://127.0.0.1:9000/zendesk/acme/agent/tickets/9007199254740993"));
        assert_eq!(ticket.requester.unwrap().id, "9007199254740995");
        assert_eq!(ticket.status, Mapped { value: Status::Open, original: "snoozed".to_owned() });
        assert_eq!(ticket.priority, None);
    }
}
