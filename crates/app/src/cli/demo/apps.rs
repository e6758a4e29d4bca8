//! The demo's OAuth apps: set up as an operator would, so that they can be changed on their pages, and their secrets rotated.

use std::sync::Arc;

use anyhow::Context;
use holdfast_sandbox::{CLIENT_ID, CLIENT_SECRET, OAUTH_PROVIDERS};
use holdfast_store::{AppSecret, StoredApp};

use super::people;
use crate::{app::App, oauth_apps};

/// Enters those that are not there yet.
pub(super) async fn set_up(app: &Arc<App>) -> anyhow::Result<()> {
    for (id, _) in OAUTH_PROVIDERS {
        let provider = app.providers().find(id).with_context(|| format!("there is no adapter for {id}"))?;
        let now = app.seams.clock.now();
        let secret = AppSecret { secret: Some(CLIENT_SECRET.to_owned().into()), set_at: now, checked_at: None };
        let mut new = StoredApp {
            org: None,
            provider: (*id).to_owned(),
            client_id: CLIENT_ID.to_owned(),
            secret: Some(secret),
            next_secret: None,
            secret_expires_at: None,
            revision: 0,
            changed_by: Some(people::OWNER.name.to_owned()),
            changed_at: now,
        };
        oauth_apps::look_at(app, None, provider.as_ref(), CLIENT_ID, &mut new.secret).await?;
        // Not over one that is there: the start before may have been cut off.
        let _saved_or_there = oauth_apps::save(app, &new).await?;
    }
    Ok(())
}
