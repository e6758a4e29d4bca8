//! Trouble on demand: what a provider may do to its callers on a bad day.

use std::collections::BTreeMap;

use axum::body::{Body, Bytes};
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::Response;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

/// An answer given instead of the true one.
///
/// With neither `times` nor `for_secs` it stays until it is cleared; with both it ends with the first to run out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Canned {
    /// HTTP status.
    pub status: u16,
    /// Body, sent as it is. After a rotation `{access_token}`, `{refresh_token}` and `{expires_in}` in it are filled in.
    #[serde(default)]
    pub body: String,
    /// Content type; `application/json` when absent.
    #[serde(default)]
    pub content_type: Option<String>,
    /// Further headers, `Retry-After` for instance.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    /// Process the request first, so that tokens are spent and issued, or a ticket is written, then answer this. A request
    /// that would have been refused gets its refusal.
    #[serde(default)]
    pub after_processing: bool,
    /// How often.
    #[serde(default)]
    pub times: Option<u64>,
    /// For how long by the sandbox's clock, from the moment it is set.
    #[serde(default)]
    pub for_secs: Option<u64>,
    #[serde(skip)]
    until_ms: Option<i64>,
}

impl Canned {
    /// `status` with `body`, until it is cleared.
    pub fn new(status: u16, body: impl Into<String>) -> Self {
        Self {
            status,
            body: body.into(),
            content_type: None,
            headers: BTreeMap::new(),
            after_processing: false,
            times: None,
            for_secs: None,
            until_ms: None,
        }
    }

    /// Only the next `times` requests.
    #[must_use]
    pub fn times(mut self, times: u64) -> Self {
        self.times = Some(times);
        self
    }

    /// Only for so many seconds of the sandbox's clock.
    #[must_use]
    pub fn for_secs(mut self, secs: u64) -> Self {
        self.for_secs = Some(secs);
        self
    }

    /// Another content type than JSON.
    #[must_use]
    pub fn content_type(mut self, content_type: impl Into<String>) -> Self {
        self.content_type = Some(content_type.into());
        self
    }

    /// One more header.
    #[must_use]
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.insert(name.into(), value.into());
        self
    }

    /// Let the work be done before this is answered.
    #[must_use]
    pub fn after_processing(mut self) -> Self {
        self.after_processing = true;
        self
    }

    /// Starts the time of one that lasts for a while.
    pub(crate) fn begin(&mut self, now_ms: i64) {
        if self.until_ms.is_none() {
            self.until_ms = self.for_secs.map(|secs| now_ms + i64::try_from(secs).unwrap_or(i64::MAX / 4000) * 1000);
        }
    }

    /// One use of what stands there, if it is not over.
    pub(crate) fn take(slot: &mut Option<Self>, now_ms: i64) -> Option<Self> {
        take_canned(slot, now_ms)
    }

    pub(crate) fn is_over(&self, now_ms: i64) -> bool {
        self.times == Some(0) || self.until_ms.is_some_and(|until| now_ms >= until)
    }

    pub(crate) fn respond(&self, fill: &[(&str, &str)]) -> Response {
        let mut body = self.body.clone();
        for (name, value) in fill {
            body = body.replace(&format!("{{{name}}}"), value);
        }
        let mut response = Response::new(Body::from(body));
        *response.status_mut() = StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let content_type = self.content_type.as_deref().unwrap_or("application/json");
        let named = self.headers.iter().map(|(k, v)| (k.as_str(), v.as_str()));
        for (name, value) in std::iter::once((header::CONTENT_TYPE.as_str(), content_type)).chain(named) {
            if let (Ok(name), Ok(value)) = (HeaderName::from_bytes(name.as_bytes()), HeaderValue::from_str(value)) {
                response.headers_mut().insert(name, value);
            }
        }
        response
    }
}

/// Where the token endpoint keeps requests; of each [`Faults`], the two switches that can be waited for.
#[derive(Debug)]
pub(crate) struct Gate(watch::Sender<(bool, bool)>);

impl Default for Gate {
    fn default() -> Self {
        Self(watch::Sender::new((false, false)))
    }
}

impl Gate {
    pub(crate) fn set(&self, faults: &Faults) {
        self.0.send_replace((faults.hold, faults.hold_answers));
    }

    pub(crate) async fn may_process(&self) {
        // The sender is ours and alive: this cannot fail.
        self.0.subscribe().wait_for(|(hold, _)| !hold).await.ok();
    }

    pub(crate) async fn may_answer(&self) {
        self.0.subscribe().wait_for(|(_, hold)| !hold).await.ok();
    }
}

/// The trouble of one helpdesk. Counts go down as they are used up.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[expect(clippy::struct_excessive_bools, reason = "independent switches, each with a name")]
pub struct Faults {
    /// For so many successful token requests: the tokens are issued, then the connection is closed without an answer.
    pub lose_next_answer: u64,
    /// Lost answers break off in the middle of the body instead of before the first byte.
    pub lose_part_way: bool,
    /// For so many token requests: the connection is closed before anything is processed.
    pub drop_before: u64,
    /// The token endpoint waits so long before it processes a request.
    pub delay_ms: u64,
    /// The token endpoint waits so long between processing a request and answering it.
    pub delay_after_ms: u64,
    /// The token endpoint keeps requests that arrive until this is taken back, then processes them.
    pub hold: bool,
    /// The token endpoint processes requests, and keeps their answers until this is taken back.
    pub hold_answers: bool,
    /// The API waits so long before it processes a request.
    pub api_delay_ms: u64,
    /// So many refreshes are told `invalid_grant` although nothing is wrong, and nothing is spent.
    pub refuse_next: u64,
    /// What the token endpoint answers instead.
    pub token_answer: Option<Canned>,
    /// What the API answers instead.
    pub api_answer: Option<Canned>,
    /// For so many API requests: the connection is closed before anything is processed.
    pub api_drop_before: u64,
    /// The API looks at credentials only after so many bytes of a body, and does not read on when it refuses them.
    pub api_refuses_after: Option<u64>,
    /// The API answers to good credentials what it was asked, byte for byte: method, target, headers, and the body's length
    /// and SHA-256.
    pub api_echo: bool,
    /// The API answers to good credentials with so many bytes.
    pub api_download: Option<Download>,
}

/// A long answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Download {
    /// Its length, as `Content-Length` says it.
    pub bytes: u64,
    /// Closes the connection after so many.
    #[serde(default)]
    pub break_off_after: Option<u64>,
    /// Sends nothing more after so many, and keeps the connection.
    #[serde(default)]
    pub stand_still_after: Option<u64>,
}

/// What is in store for one request to the token endpoint.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) dropped: bool,
    pub(crate) delay_ms: u64,
    pub(crate) delay_after_ms: u64,
    pub(crate) canned: Option<Canned>,
}

impl Faults {
    /// Starts the time of those that last for a while.
    pub(crate) fn set_at(mut self, now_ms: i64) -> Self {
        for canned in [&mut self.token_answer, &mut self.api_answer].into_iter().flatten() {
            canned.begin(now_ms);
        }
        self
    }

    /// When those end that last for a while: of the token endpoint, of the API.
    pub(crate) fn ends(&self) -> [Option<i64>; 2] {
        [&self.token_answer, &self.api_answer].map(|canned| canned.as_ref()?.until_ms)
    }

    /// The same trouble, ending when [`Self::ends`] said.
    pub(crate) fn ending(mut self, ends: [Option<i64>; 2]) -> Self {
        for (canned, end) in [&mut self.token_answer, &mut self.api_answer].into_iter().zip(ends) {
            if let Some(canned) = canned {
                canned.until_ms = end;
            }
        }
        self
    }

    pub(crate) fn plan(&mut self, now_ms: i64) -> Plan {
        let dropped = take_one(&mut self.drop_before);
        Plan {
            dropped,
            delay_ms: self.delay_ms,
            delay_after_ms: self.delay_after_ms,
            canned: if dropped { None } else { take_canned(&mut self.token_answer, now_ms) },
        }
    }

    pub(crate) fn drops_api(&mut self) -> bool {
        take_one(&mut self.api_drop_before)
    }

    pub(crate) fn plan_api(&mut self, now_ms: i64) -> (u64, Option<Canned>) {
        (self.api_delay_ms, take_canned(&mut self.api_answer, now_ms))
    }

    pub(crate) fn refuses(&mut self) -> bool {
        take_one(&mut self.refuse_next)
    }

    /// Whether this answer is lost, and if so whether part-way.
    pub(crate) fn loses(&mut self) -> Option<bool> {
        take_one(&mut self.lose_next_answer).then_some(self.lose_part_way)
    }
}

fn take_one(count: &mut u64) -> bool {
    let some = *count > 0;
    *count = count.saturating_sub(1);
    some
}

fn take_canned(slot: &mut Option<Canned>, now_ms: i64) -> Option<Canned> {
    let canned = slot.as_mut()?;
    if canned.is_over(now_ms) {
        *slot = None;
        return None;
    }
    canned.times = canned.times.map(|left| left - 1);
    Some(canned.clone())
}

/// Closes the connection without a byte: hyper drops it, unflushed, when the first frame of the body fails.
pub(crate) fn hang_up() -> Response {
    let nothing = futures::stream::once(std::future::ready(Err::<Bytes, _>(broken())));
    Response::new(Body::from_stream(nothing))
}

/// Sends the head and half of `body`, then closes the connection.
pub(crate) fn break_off(status: StatusCode, body: &Bytes) -> Response {
    let half = body.slice(..body.len() / 2);
    // Only what is written when the body has nothing ready is flushed, hence the pause between the two.
    let frames = futures::stream::unfold(Some(half), |left| async move {
        match left {
            Some(half) if !half.is_empty() => Some((Ok(half), Some(Bytes::new()))),
            Some(_) => {
                crate::clock::pause(20).await;
                Some((Err(broken()), None))
            }
            None => None,
        }
    });
    let mut response = Response::new(Body::from_stream(frames));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json; charset=utf-8"));
    response.headers_mut().insert(header::CONTENT_LENGTH, HeaderValue::from(body.len()));
    response
}

pub(crate) fn broken() -> std::io::Error {
    std::io::Error::other("the sandbox hangs up")
}
