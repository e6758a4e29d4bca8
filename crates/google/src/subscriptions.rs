//! What makes Google send, kept by its APIs: Gmail's watch and a channel of the calendar. Neither can be listed, so that what
//! was made is remembered, and each ends by itself.

use std::{collections::BTreeMap, time::Duration};

use async_trait::async_trait;
use chrono::DateTime;
use holdfast_core::{
    ApiClient,
    error::{ErrorKind, Result},
    webhook::{Subscription, Subscriptions, Wanted},
    wire,
};
use secrecy::ExposeSecret;
use serde::Deserialize;
use serde_json::json;
use sha2::{Digest as _, Sha256};

use crate::api::GMAIL;

const OPERATION: &str = "webhook";
const DAY: Duration = Duration::from_hours(24);
/// So many minutes, or attempts, back the answer of an attempt may have been lost.
const RETRIED_WITHIN: u64 = 5;
/// Of [`Subscription::more`]: the mailbox's history as of when it was last known to send.
const HISTORY: &str = "history";
/// Of [`Subscription::more`]: from where on nothing was sent, and the history is still there.
const MISSED_FROM: &str = "missed_from";
const TOPIC: &str = "topic";
/// Of [`Subscription::more`]: which of our secrets the channel repeats, without telling it.
const TOKEN: &str = "token";
const RESOURCE: &str = "resource";
const NUMBER: &str = "number";

/// A moment in milliseconds since 1970, as digits.
fn moment(api: &ApiClient, digits: &str) -> Result<DateTime<chrono::Utc>> {
    let millis = digits.parse().ok().and_then(DateTime::from_timestamp_millis);
    millis.ok_or_else(|| wire::unreadable(api, OPERATION, "expiration"))
}

/// Of those that are remembered: the ones that have not ended.
fn living<'a>(wanted: &'a Wanted<'_>) -> impl Iterator<Item = Subscription> + 'a {
    let lives = |one: &&Subscription| one.lapses_at.is_none_or(|end| end > wanted.now);
    wanted.remembered.iter().filter(lives).map(|one| Subscription { behind: false, ..one.clone() })
}

/// Gmail's watch of an inbox: one a mailbox and project, which ends after 7 days; asked for again, it lasts longer.
/// <https://developers.google.com/workspace/gmail/api/guides/push>
#[derive(Clone, Debug)]
pub(crate) struct Watch {
    /// The Pub/Sub topic of the operator's project.
    pub(crate) topic: String,
}

#[derive(Deserialize)]
struct Watched {
    #[serde(rename = "historyId", deserialize_with = "wire::text")]
    history_id: String,
    #[serde(deserialize_with = "wire::text")]
    expiration: String,
}

impl Watch {
    const PART: &str = "inbox";

    async fn watch(&self, api: &ApiClient, wanted: &Wanted<'_>) -> Result<Subscription> {
        let before = wanted.remembered.iter().find(|one| one.part == Self::PART);
        let cursor = before.and_then(|one| one.more.get(MISSED_FROM).or_else(|| one.more.get(HISTORY)));
        let behind = match cursor {
            Some(cursor) => !remembers(api, cursor).await?,
            None => false,
        };
        let body = json!({
            "topicName": self.topic, "labelIds": ["INBOX"], "labelFilterBehavior": "include",
        });
        let request = api.post("v1/users/me/watch").at(GMAIL).operation(OPERATION).json(&body);
        let watched: Watched = request.fetch().await?;
        let lapses_at = moment(api, &watched.expiration)?;
        let mut more = BTreeMap::from([(TOPIC, self.topic.clone()), (HISTORY, watched.history_id)]);
        // Nothing was sent since it ended: whoever reads the history begins there.
        let ended = before.is_some_and(|one| one.lapses_at.is_some_and(|end| end <= wanted.now));
        if let Some(cursor) = cursor.filter(|_| ended && !behind) {
            more.insert(MISSED_FROM, cursor.clone());
        }
        Ok(Subscription {
            id: self.topic.clone(),
            part: Self::PART.to_owned(),
            // Pub/Sub sends to the address of the whole OAuth app.
            url: wanted.url.to_owned(),
            enabled: true,
            current: true,
            lapses_at: Some(lapses_at),
            behind,
            more: more.into_iter().map(|(name, value)| (name.to_owned(), value)).collect(),
        })
    }
}

/// Whether the history is still there from this place on (WD-07).
/// <https://developers.google.com/workspace/gmail/api/reference/rest/v1/users.history/list>
async fn remembers(api: &ApiClient, cursor: &str) -> Result<bool> {
    let request = api.get("v1/users/me/history").at(GMAIL).operation(OPERATION);
    match request.query("startHistoryId", cursor).query("maxResults", 1).send().await {
        Err(error) if error.kind == ErrorKind::NotFound => Ok(false),
        other => other.map(|_| true),
    }
}

#[async_trait]
impl Subscriptions for Watch {
    fn parts(&self) -> &'static [&'static str] {
        &[Self::PART]
    }

    fn remedy(&self) -> &'static str {
        "Reconnect it and allow reading mail; if it was allowed, the operator has to let \
         gmail-api-push@system.gserviceaccount.com publish to the topic of providers.google.push_topic."
    }

    /// Daily, as Google advises.
    fn renew_ahead(&self) -> Duration {
        6 * DAY
    }

    async fn look(&self, _api: &ApiClient, wanted: &Wanted<'_>) -> Result<Vec<Subscription>> {
        let seen = |one: Subscription| Subscription {
            url: wanted.url.to_owned(),
            current: one.more.get(TOPIC) == Some(&self.topic),
            ..one
        };
        Ok(living(wanted).filter(|one| one.part == Self::PART).map(seen).collect())
    }

    async fn make(&self, api: &ApiClient, wanted: &Wanted<'_>, _part: &str) -> Result<Subscription> {
        self.watch(api, wanted).await
    }

    async fn mend(&self, api: &ApiClient, wanted: &Wanted<'_>, _seen: &Subscription) -> Result<Subscription> {
        self.watch(api, wanted).await
    }

    async fn remove(&self, api: &ApiClient, _seen: &Subscription) -> Result<()> {
        api.post("v1/users/me/stop").at(GMAIL).operation(OPERATION).send().await.map(|_| ())
    }
}

/// A channel of the primary calendar, which ends after some days and cannot be changed: a new one takes its place.
/// <https://developers.google.com/workspace/calendar/api/guides/push>
pub(crate) static CHANNEL: Channel = Channel;

pub(crate) struct Channel;

#[derive(Deserialize)]
struct Opened {
    #[serde(rename = "resourceId")]
    resource_id: String,
    #[serde(deserialize_with = "wire::text")]
    expiration: String,
}

impl Channel {
    const PART: &str = "calendar";

    /// Its id counts on from the last one that is known, or from the minute where none is. One that is taken is of an attempt
    /// whose answer was lost; it is closed once the next one tells the resource's id, which they share, and so are those of
    /// the minutes before.
    async fn open(&self, api: &ApiClient, wanted: &Wanted<'_>) -> Result<Subscription> {
        let known = wanted.remembered.iter().filter_map(|one| one.more.get(NUMBER)?.parse::<u64>().ok()).max();
        let minute = u64::try_from(wanted.now.timestamp() / 60).unwrap_or_default();
        let first = known.map_or(minute, |known| known + 1);
        let earlier = if known.is_none() { first.saturating_sub(RETRIED_WITHIN)..first } else { first..first };
        let mut lost: Vec<String> = earlier.map(|number| format!("{}-{number}", wanted.endpoint)).collect();
        for number in first..first + RETRIED_WITHIN {
            let id = format!("{}-{number}", wanted.endpoint);
            match self.try_open(api, wanted, &id).await? {
                Some(opened) => {
                    for id in lost {
                        close(api, id, &opened.resource_id).await?;
                    }
                    let more =
                        [(NUMBER, number.to_string()), (RESOURCE, opened.resource_id), (TOKEN, token_name(wanted))];
                    return Ok(Subscription {
                        id,
                        part: Self::PART.to_owned(),
                        url: wanted.url.to_owned(),
                        enabled: true,
                        current: true,
                        lapses_at: Some(moment(api, &opened.expiration)?),
                        behind: false,
                        more: more.into_iter().map(|(name, value)| (name.to_owned(), value)).collect(),
                    });
                }
                None => lost.push(id),
            }
        }
        Err(api.error(OPERATION, ErrorKind::Unavailable, "Google has channels of all the ids that were tried"))
    }

    /// `None`: there is a channel of this id.
    async fn try_open(&self, api: &ApiClient, wanted: &Wanted<'_>, id: &str) -> Result<Option<Opened>> {
        let token = wanted.secret.map(ExposeSecret::expose_secret).unwrap_or_default();
        let body = json!({ "id": id, "type": "web_hook", "address": wanted.url, "token": token });
        let request = api.post("calendar/v3/calendars/primary/events/watch").operation(OPERATION).json(&body);
        let answered = request.read().await?;
        let answer = answered.to_api_answer();
        let reason = answer.body.as_ref().and_then(|body| body.pointer("/error/errors/0/reason"));
        if answer.status == 400 && reason.is_some_and(|reason| reason == "channelIdNotUnique") {
            return Ok(None);
        }
        if !answered.status.is_success() {
            return Err(crate::error::api_error(OPERATION, &answer));
        }
        wire::read(api, OPERATION, &answered.body).map(Some)
    }
}

async fn close(api: &ApiClient, id: String, resource: &str) -> Result<()> {
    let body = json!({ "id": id, "resourceId": resource });
    match api.post("calendar/v3/channels/stop").operation(OPERATION).json(&body).send().await {
        Err(error) if error.kind == ErrorKind::NotFound => Ok(()),
        other => other.map(|_| ()),
    }
}

/// The beginning of the secret's digest: enough to tell one of ours from another.
fn token_name(wanted: &Wanted<'_>) -> String {
    let secret = wanted.secret.map(ExposeSecret::expose_secret).unwrap_or_default();
    Sha256::digest(secret.as_bytes())[..4].iter().fold(String::new(), |text, byte| format!("{text}{byte:02x}"))
}

#[async_trait]
impl Subscriptions for Channel {
    fn parts(&self) -> &'static [&'static str] {
        &[Self::PART]
    }

    fn remedy(&self) -> &'static str {
        "Reconnect it and allow the calendar."
    }

    fn renew_ahead(&self) -> Duration {
        2 * DAY
    }

    async fn look(&self, _api: &ApiClient, wanted: &Wanted<'_>) -> Result<Vec<Subscription>> {
        let token = token_name(wanted);
        let seen = |one: Subscription| Subscription { current: one.more.get(TOKEN) == Some(&token), ..one };
        Ok(living(wanted).filter(|one| one.part == Self::PART).map(seen).collect())
    }

    async fn make(&self, api: &ApiClient, wanted: &Wanted<'_>, _part: &str) -> Result<Subscription> {
        self.open(api, wanted).await
    }

    /// Both send for a moment, and what they send twice is one event each.
    async fn mend(&self, api: &ApiClient, wanted: &Wanted<'_>, seen: &Subscription) -> Result<Subscription> {
        let opened = self.open(api, wanted).await?;
        self.remove(api, seen).await?;
        Ok(opened)
    }

    async fn remove(&self, api: &ApiClient, seen: &Subscription) -> Result<()> {
        let resource = seen.more.get(RESOURCE).map(String::as_str).unwrap_or_default();
        close(api, seen.id.clone(), resource).await
    }
}
