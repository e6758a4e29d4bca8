//! The webhook of a connector: where its provider sends to, made and looked at.

use std::sync::Arc;

use axum::{
    Json,
    extract::State,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use chrono::{DateTime, Utc};
use holdfast_store::{Endpoint, Rejection, Subscribed};
use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use super::{List, OptionalBody, Path, caller::Caller};
use crate::{
    app::App,
    hooks::{
        manage::{self, Made, NotMade, Standing, Wish},
        subscriptions,
    },
    problem::Problem,
    words,
};

/// A webhook, without its secret.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(super) struct WebhookBody {
    /// Which of the provider's ways: `events`.
    kind: String,
    /// Where the provider sends to. It never changes.
    url: String,
    /// `subscribing` (it is being made at the provider), `not_subscribed` (that is not possible, see `subscription`),
    /// `waiting` (nothing has come yet), `active`, `off` (it was taken away, as somebody wished), `needs_secret`, `failing` or
    /// `gone` (it answers 410).
    status: &'static str,
    /// Whether events are wanted, and the provider's side is made and kept here.
    receive: bool,
    /// Whether that is possible with this provider; if not, `steps` say what a person does there.
    can_receive: bool,
    /// The provider's side, as it was seen last; null: nobody has looked.
    subscription: Option<SubscriptionBody>,
    /// When the provider stops by itself; null: it does not, or nothing is known of it.
    lapses_at: Option<DateTime<Utc>>,
    /// When the first delivery was accepted.
    first_at: Option<DateTime<Utc>>,
    /// When the last one was, within some seconds.
    accepted_at: Option<DateTime<Utc>>,
    /// Genuine deliveries that were turned away since then.
    refused: u64,
    /// Since when.
    refused_since: Option<DateTime<Utc>>,
    /// At so many it answers that it is gone, if they span `gone_after_secs`.
    gone_after: u32,
    /// See `gone_after`.
    gone_after_secs: u64,
    /// Since when it answers 410.
    gone_at: Option<DateTime<Utc>>,
    /// All that were turned away since one was accepted, genuine or not.
    failures: u64,
    /// At so many failures the admins are warned.
    warn_after: u64,
    /// The provider has met so many failures that it may have switched off by itself: look there.
    maybe_off_at_provider: bool,
    /// Until when the secret before counts too.
    previous_secret_until: Option<DateTime<Utc>>,
}

impl WebhookBody {
    pub(super) fn of(app: &App, endpoint: &Endpoint) -> Option<Self> {
        let way = manage::adapter(app, endpoint)?;
        let facts = way.facts();
        let settings = &app.config.webhooks;
        Some(Self {
            kind: endpoint.kind.clone(),
            url: manage::address(app, endpoint),
            status: Standing::of(app, endpoint, facts).as_str(),
            receive: endpoint.subscribed.receive,
            can_receive: subscriptions::is_kept(app, &endpoint.provider, way),
            subscription: SubscriptionBody::of(&endpoint.subscribed),
            lapses_at: endpoint.subscribed.lapses_at,
            first_at: endpoint.first_at,
            accepted_at: endpoint.accepted_at,
            refused: endpoint.refused,
            refused_since: endpoint.refused_since,
            gone_after: settings.gone_after,
            gone_after_secs: settings.gone_after_time.as_secs(),
            gone_at: endpoint.gone_at,
            failures: endpoint.failures,
            warn_after: manage::warn_at(app, facts),
            maybe_off_at_provider: manage::maybe_off(endpoint, facts),
            previous_secret_until: endpoint.previous_until,
        })
    }
}

/// What makes the provider send.
#[derive(Clone, Debug, Serialize, ToSchema)]
struct SubscriptionBody {
    /// `made`, `forbidden` (the provider does not allow it), `failing` (it could not be asked) or `removed`.
    state: &'static str,
    /// Since when.
    since: Option<DateTime<Utc>>,
    /// Why, and what to do about it.
    words: Option<String>,
    /// The ids at the provider.
    ids: Vec<String>,
    /// When the provider was asked last, and answered.
    looked_at: Option<DateTime<Utc>>,
}

impl SubscriptionBody {
    fn of(subscribed: &Subscribed) -> Option<Self> {
        Some(Self {
            state: subscribed.standing?.as_str(),
            since: subscribed.since,
            words: subscribed.words.clone(),
            ids: subscribed.known.iter().map(|one| one.id.clone()).collect(),
            looked_at: subscribed.looked_at,
        })
    }
}

/// A webhook with what was turned away there.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct WebhookDetailBody {
    #[serde(flatten)]
    webhook: WebhookBody,
    /// By reason, last first.
    rejections: Vec<RejectionBody>,
    /// What a person does at the provider, with the address filled in.
    steps: Vec<String>,
    /// What they paste there as the body; null: the provider has its own.
    body: Option<&'static str>,
}

/// What was turned away for one reason.
#[derive(Debug, Serialize, ToSchema)]
struct RejectionBody {
    /// `no_signature`, `wrong_signature`, `stale`, `wrong_sender`, `parked_too_long`, `parked_too_much` or `disconnected`.
    reason: String,
    /// The same in words, with what to do.
    words: String,
    count: u64,
    first_at: DateTime<Utc>,
    last_at: DateTime<Utc>,
    /// The last of them: when, size and headers, masked. With the scope `jobs` alone.
    samples: Vec<Value>,
}

/// What to do with the webhook; nothing said: it is made, or takes deliveries again.
#[derive(Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct WishBody {
    /// Which of the provider's ways; the first, unless said.
    kind: Option<String>,
    /// The secret that the provider shows, where it makes one; the sender's address where a sender signs.
    #[schema(value_type = Option<String>)]
    secret: Option<SecretString>,
    /// Whether a new secret is made here. The one before counts for a while longer.
    #[serde(default)]
    rotate_secret: bool,
    /// True: events are wanted; the webhook is made at the provider and kept there. False: it is taken away there. Not
    /// said: as before.
    receive: Option<bool>,
}

/// The webhook, with the secret if one was made just now: it is shown this once.
#[derive(Serialize, ToSchema)]
pub(super) struct MadeBody {
    #[serde(flatten)]
    webhook: WebhookBody,
    /// To be copied to the provider; null: none was made.
    secret: Option<String>,
}

/// The webhooks of a connector, with what was turned away.
#[utoipa::path(
    get, path = "/connectors/{id}/webhook", tag = "webhooks", params(("id" = String, Path)),
    responses((status = 200, body = List<WebhookDetailBody>), (status = 404, body = Problem))
)]
pub(super) async fn show(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Json<List<WebhookDetailBody>>, Problem> {
    caller.needs("connectors:read")?;
    let snapshot = caller.connector(&app, &id).await?.snapshot;
    let mut data = Vec::new();
    for endpoint in app.store.endpoints_of(caller.org(), &snapshot.connector, app.seams.clock.now()).await? {
        let Some(webhook) = WebhookBody::of(&app, &endpoint) else { continue };
        let facts = manage::adapter(&app, &endpoint).expect("it has a body").facts();
        let rejections = app.store.rejections(&endpoint).await?;
        let steps = facts.steps.iter().map(|step| step.replace("{url}", &webhook.url)).collect();
        let rejections = rejections.into_iter().map(|one| rejection(one, caller.has("jobs"))).collect();
        data.push(WebhookDetailBody { rejections, steps, body: facts.body, webhook });
    }
    Ok(Json(List { data, next_cursor: None }))
}

fn rejection(rejection: Rejection, with_samples: bool) -> RejectionBody {
    let words = words::turned_away(&rejection.reason);
    RejectionBody {
        words: format!("{} {}", words.what, words.todo),
        reason: rejection.reason,
        count: rejection.count,
        first_at: rejection.first_at,
        last_at: rejection.last_at,
        samples: if with_samples { rejection.samples } else { Vec::new() },
    }
}

/// Makes the webhook of a connector, gives it a secret, or lets it take deliveries again.
#[utoipa::path(
    post, path = "/connectors/{id}/webhook", tag = "webhooks", params(("id" = String, Path)), request_body = WishBody,
    responses(
        (status = 201, body = MadeBody, description = "It is new"), (status = 200, body = MadeBody),
        (status = 404, body = Problem), (status = 422, body = Problem)
    )
)]
pub(super) async fn make(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path(id): Path<String>,
    OptionalBody(body): OptionalBody<WishBody>,
) -> Result<Response, Problem> {
    caller.needs("connectors:write")?;
    let snapshot = caller.connector(&app, &id).await?.snapshot;
    let wish = Wish { kind: body.kind, secret: body.secret, rotate: body.rotate_secret, receive: body.receive };
    let (provider, actor) = (&snapshot.provider, caller.actor());
    let made = manage::wish(&app, caller.org(), &snapshot.connector, provider, &wish, &actor).await;
    let Made { endpoint, secret, new } = made.map_err(|error| match error {
        NotMade::NoSuchWay => {
            let name = app.provider_name(provider);
            Problem::invalid("kind", format!("{name} tells of nothing in this way, or this adapter does not hear it."))
        }
        NotMade::BadSecret(why) => Problem::invalid("secret", why),
        NotMade::NotKept(why) => Problem::invalid("receive", why),
        NotMade::Store(error) => error.into(),
    })?;
    let webhook = WebhookBody::of(&app, &endpoint).ok_or_else(|| Problem::not_found("webhook"))?;
    let status = if new { StatusCode::CREATED } else { StatusCode::OK };
    let secret = secret.map(|secret| secret.expose_secret().to_owned());
    Ok((status, Json(MadeBody { webhook, secret })).into_response())
}
