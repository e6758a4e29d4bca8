//! Mails about events: a webhook that does not come any more, an endpoint that takes none.

use chrono::TimeDelta;
use holdfast_core::{Health, OrgId, notify::Topic};
use holdfast_store::{ClaimedMail, Stopped, told_of};

use super::{NAME, Reader, WORDS, account_name, connector_name, frame, line, moment, page, provider_name};
use crate::{
    app::App,
    endpoints, hooks,
    mail::templates::{Button, EndpointStopped, Rendered, WebhookNotSent, WebhookStopped, render},
    ui::moment::span,
    words::{self, counted},
};

/// EM-07: the reason, the last error in short, where the rest of them stands, and the steps back.
pub(super) async fn webhook_stopped(
    app: &App,
    mail: &ClaimedMail,
    reader: &Reader,
) -> anyhow::Result<Option<Rendered>> {
    let Some(org) = &mail.org else { return Ok(None) };
    let endpoint = mail.about["endpoint"].as_str().unwrap_or_default();
    let not_sent = mail.about["not_sent"].as_bool().unwrap_or_default();
    let Some(trouble) = app.store.find_webhook_trouble(org, endpoint, not_sent).await? else { return Ok(None) };
    let Some(view) = app.store.find_connector(org, trouble.connector.as_str()).await? else { return Ok(None) };
    // EM-01: the mail about the failure names both.
    if view.snapshot.health == Health::AuthFailed && !not_sent && wants_failures(app, org, mail).await? {
        let connector = &view.snapshot.connector;
        if app.store.failure_is_about_to_be_told(org, connector, &mail.recipient).await? {
            return Ok(None);
        }
    }
    let provider = provider_name(app, &view.snapshot.provider);
    if not_sent {
        let button =
            Button { url: format!("{}/webhook", page(app, &view.snapshot)), label: "Look at the webhook".to_owned() };
        let context = WebhookNotSent {
            frame: frame(app, Some(org), reader, Some(button)).await?,
            name: connector_name(app, &view),
            account: account_name(app, &view),
            since: moment(trouble.since),
            why: line(trouble.not_sent.as_deref().unwrap_or_default(), 2 * WORDS),
            provider,
        };
        return Ok(Some(render(&app.views, &context)?));
    }
    let facts = hooks::manage::way(app, &view.snapshot.provider, Some(&trouble.kind))
        .map(holdfast_core::webhook::Webhook::facts);
    let reason = words::turned_away(trouble.reason.as_deref().unwrap_or_default());
    let limit = facts.and_then(|facts| facts.own_limit);
    let button =
        Button { url: format!("{}/webhook", page(app, &view.snapshot)), label: "See what was turned away".to_owned() };
    let context = WebhookStopped {
        frame: frame(app, Some(org), reader, Some(button)).await?,
        name: connector_name(app, &view),
        account: account_name(app, &view),
        gone: trouble.gone_at.map(moment),
        since: moment(trouble.since),
        count: counted(trouble.failures, "event"),
        reason: line(reason.what, 2 * WORDS),
        todo: line(reason.todo, 2 * WORDS),
        limit: limit.map(|limit| line(&format!("After {} in a row, {}.", limit.failures, limit.then), WORDS)),
        provider,
    };
    Ok(Some(render(&app.views, &context)?))
}

async fn wants_failures(app: &App, org: &OrgId, mail: &ClaimedMail) -> anyhow::Result<bool> {
    let all = app.store.addressees(org).await?;
    // The channel is told of all failures.
    Ok(mail.user.is_none() || told_of(&all, Topic::Failures).iter().any(|one| one.id == mail.recipient))
}

pub(super) async fn endpoint_stopped(
    app: &App,
    mail: &ClaimedMail,
    reader: &Reader,
) -> anyhow::Result<Option<Rendered>> {
    let Some(org) = &mail.org else { return Ok(None) };
    let (id, now) = (mail.about["endpoint"].as_str().unwrap_or_default(), app.seams.clock.now());
    let found = app.store.find_event_endpoint(org, id, now).await?;
    let Some(endpoint) = found.filter(|endpoint| endpoint.stopped.is_some()) else { return Ok(None) };
    let last = app.store.event_attempts(org, &endpoint.id, None, 1).await?.data.pop();
    let button = Button {
        url: app.url(&format!("settings/event-endpoints/{}", endpoint.id)),
        label: "Open the endpoint".to_owned(),
    };
    let settings = &app.config.events;
    let long = TimeDelta::from_std(settings.disable_after).ok().and_then(span).unwrap_or_default();
    let context = EndpointStopped {
        frame: frame(app, Some(org), reader, Some(button)).await?,
        name: line(&endpoints::manage::name(&endpoint), NAME),
        url: line(&endpoint.url, 2 * WORDS),
        reason: match endpoint.stopped {
            Some(Stopped::Gone) => "It answered that it is gone (410).".to_owned(),
            _ => format!("Every attempt to bring an event there has failed for {long}."),
        },
        stopped: moment(endpoint.disabled_at.unwrap_or(now)),
        failing: endpoint.failing_since.filter(|_| endpoint.failures > 1).map(moment),
        count: counted(endpoint.failures, "attempt"),
        last: last.and_then(|attempt| attempt.fault).map(|fault| line(&fault, WORDS)),
        kept: counted(settings.keep_days.into(), "day"),
    };
    Ok(Some(render(&app.views, &context)?))
}
