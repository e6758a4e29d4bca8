//! After a crash, of ours or of another replica: what was left in the lifeboat, and how it is with the lifeboat itself.

use std::{sync::Arc, time::Duration};

use tracing::{error, info, warn};

use crate::{app::App, connect};

/// Between two looks for what somebody left behind.
const EVERY: Duration = Duration::from_secs(2);
/// Between two attempts to write something into the lifeboat.
const CHECK_EVERY: Duration = Duration::from_secs(30);

/// Until the service is asked to stop.
pub(crate) async fn work(app: Arc<App>) {
    let mut checked = None;
    let mut trouble = None;
    while !app.draining.is_cancelled() {
        let now = app.seams.clock.uptime();
        if checked.is_none_or(|at| now.saturating_sub(at) >= CHECK_EVERY) {
            checked = Some(now);
            trouble = check(&app, trouble).await;
        }
        round(&app).await;
        tokio::select! {
            () = app.seams.clock.sleep(EVERY) => {}
            () = app.draining.cancelled() => {}
        }
    }
}

/// One look.
pub async fn round(app: &Arc<App>) {
    match app.engine.empty_lifeboat().await {
        Ok(0) => {}
        Ok(left) => warn!("the token sets of {left} credentials wait in the lifeboat for the database"),
        Err(error) => warn!(error = format!("{:#}", anyhow::Error::new(error)), "cannot empty the lifeboat"),
    }
    if let Err(error) = connect::resume(app).await {
        warn!(error = format!("{:#}", anyhow::Error::new(error)), "cannot look for consents that were cut off");
    }
    match app.engine.settle_lost().await {
        Ok(0) => {}
        Ok(settled) => info!("settled {settled} exchanges of replicas that are gone"),
        Err(error) => warn!(error = format!("{:#}", anyhow::Error::new(error)), "cannot look for lost exchanges"),
    }
}

/// Tells of trouble when it begins, changes and ends.
async fn check(app: &App, before: Option<String>) -> Option<String> {
    let now = app.lifeboat.check().await.trouble;
    let path = app.lifeboat.path().display();
    match (&before, &now) {
        (Some(_), None) => info!("the lifeboat {path} can take token sets again"),
        (before, Some(trouble)) if before.as_ref() != Some(trouble) => error!(
            "the lifeboat {path} cannot take a token set ({trouble}): one that the database does not take would not \
             survive a crash"
        ),
        _ => {}
    }
    now
}
