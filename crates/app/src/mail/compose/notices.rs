//! Mails about being told: an address that takes none, a channel that is gone, a test.

use holdfast_core::OrgId;
use holdfast_store::ClaimedMail;

use super::{NAME, Reader, WORDS, frame, line, moment};
use crate::{
    app::App,
    mail::templates::{AddressSuppressed, Button, ChannelStopped, Rendered, Test, render},
    words,
};

fn button(app: &App) -> Button {
    Button { url: app.url("settings/notifications"), label: "Open the notifications".to_owned() }
}

pub(super) async fn address_suppressed(
    app: &App,
    mail: &ClaimedMail,
    reader: &Reader,
) -> anyhow::Result<Option<Rendered>> {
    let Some(org) = &mail.org else { return Ok(None) };
    let id = mail.about["user"].as_str().unwrap_or_default();
    let all = app.store.addressees(org).await?;
    let Some(one) = all.iter().find(|one| one.id == id) else { return Ok(None) };
    let Some(why) = &one.suppressed else { return Ok(None) };
    let context = AddressSuppressed {
        frame: frame(app, Some(org), reader, Some(button(app))).await?,
        name: line(&one.shown, NAME),
        address: line(&one.email, NAME),
        as_role: words::a_role(one.role),
        since: moment(why.at),
        said: line(&why.error, WORDS),
    };
    Ok(Some(render(&app.views, &context)?))
}

pub(super) async fn channel_stopped(
    app: &App,
    mail: &ClaimedMail,
    reader: &Reader,
) -> anyhow::Result<Option<Rendered>> {
    let Some(org) = &mail.org else { return Ok(None) };
    let Some(channel) = app.store.find_channel(org).await? else { return Ok(None) };
    let Some(stopped) = channel.stopped_at else { return Ok(None) };
    let context = ChannelStopped {
        frame: frame(app, Some(org), reader, Some(button(app))).await?,
        hint: line(&channel.hint, NAME),
        since: moment(stopped),
        said: line(channel.error.as_deref().unwrap_or_default(), WORDS),
    };
    Ok(Some(render(&app.views, &context)?))
}

pub(super) async fn test(app: &App, org: &OrgId, reader: &Reader) -> anyhow::Result<Rendered> {
    let context = Test {
        frame: frame(app, Some(org), reader, Some(button(app))).await?,
        address: line(&reader.address, NAME),
        at: moment(app.seams.clock.now()),
    };
    render(&app.views, &context)
}
