//! Mails to whoever runs the instance: an OAuth app that is refused, an org of which nobody can be told.

use holdfast_store::ClaimedMail;

use super::{
    NAME, Reader, WORDS, connector_name,
    connectors::{listed_views, standing, still_failed},
    frame, line, moment, names, provider_name,
};
use crate::{
    app::App,
    mail::templates::{AppRefused, Button, NobodyTold, Rendered, render},
    words::counted,
};

pub(super) async fn app_refused(app: &App, mail: &ClaimedMail, reader: &Reader) -> anyhow::Result<Option<Rendered>> {
    let id = mail.about["trouble"].as_str().unwrap_or_default();
    let Some(trouble) = app.store.find_app_trouble(id, mail.org.as_ref()).await? else { return Ok(None) };
    let operator = mail.org.is_none();
    let mut waiting = counted(trouble.connectors, "connector");
    if operator && trouble.orgs > 1 {
        waiting = format!("{waiting} of {}", counted(trouble.orgs, "organisation"));
    }
    let provider = trouble.app.provider();
    let own = trouble.app.org().is_some();
    let button = if own {
        let url = app.url(&format!("settings/own-apps/{provider}"));
        Button { url, label: "Open your OAuth app".to_owned() }
    } else if operator {
        let url = app.url(&format!("settings/oauth-apps/{provider}"));
        Button { url, label: "Open the OAuth app".to_owned() }
    } else {
        Button { url: app.url(""), label: "Open Holdfast".to_owned() }
    };
    let frame = frame(app, mail.org.as_ref(), reader, Some(button)).await?;
    let context = AppRefused {
        frame,
        operator,
        own,
        provider: provider_name(app, provider),
        provider_id: line(provider, NAME),
        configured: app.config.oauth_apps.contains_key(provider),
        since: moment(trouble.since),
        waiting,
        verb: if trouble.connectors == 1 { "waits" } else { "wait" },
        words: trouble.detail.map(|words| line(&words, WORDS)).filter(|words| !words.is_empty()),
    };
    Ok(Some(render(&app.views, &context)?))
}

pub(super) async fn nobody_told(app: &App, mail: &ClaimedMail, reader: &Reader) -> anyhow::Result<Option<Rendered>> {
    let items = standing(app, mail, still_failed).await?;
    let views = listed_views(app, items.iter().copied()).await?;
    let Some((first, _)) = views.first() else { return Ok(None) };
    let count = items.len();
    let org_name = app.store.org_name(&first.org).await?.unwrap_or_default();
    let called: Vec<String> = views.iter().map(|(_, view)| connector_name(app, view)).collect();
    let context = NobodyTold {
        frame: frame(app, None, reader, None).await?,
        org_name: line(&org_name, NAME),
        waiting: counted(count as u64, "connector"),
        verb: if count == 1 { "needs" } else { "need" },
        names: names(called.iter().map(String::as_str), count),
        since: moment(first.since),
    };
    Ok(Some(render(&app.views, &context)?))
}
