//! What is done with an event once it is stored: the work of a job of kind `event`.

use std::sync::Arc;

use async_trait::async_trait;
use holdfast_core::{
    DeliveryId,
    error::Retry,
    job::{Fault, Outcome},
    ports::StoreError,
};
use holdfast_store::{ClaimedJob, WorkedOff};
use tracing::info;

use super::subscriptions::BY_ITSELF;
use crate::{app::App, care, jobs::Handler};

/// Works events off, each by the delivery that its job names: endpoints are told, and agents that wait for it get their runs. Doing
/// it again changes nothing.
pub(crate) struct Events;

#[async_trait]
impl Handler for Events {
    async fn run(&self, app: &Arc<App>, claimed: &ClaimedJob) -> Outcome {
        let delivery = DeliveryId::from(claimed.job.subject.as_str());
        match work_off(app, &delivery).await {
            Ok(()) => Outcome::Done,
            Err(error) => Outcome::Failed(Fault::new("ours", error.to_string()), Retry::Backoff),
        }
    }
}

async fn work_off(app: &Arc<App>, delivery: &DeliveryId) -> Result<(), StoreError> {
    let most = app.config.agents.runs_per_ticket;
    let now = || app.seams.clock.now();
    if let WorkedOff::WhoIs(connector) = app.store.work_off_event(delivery, most, false, now()).await? {
        // Nobody has tested it yet: an import, perhaps. The brake holds where the provider cannot be asked.
        if let Ok(Some(known)) = app.engine.snapshot(&connector).await
            && let Err(problem) = care::test(app, &known, BY_ITSELF).await
        {
            info!(connector.id = %connector, "it is not known who connector {connector} is: {}", problem.detail());
        }
        app.store.work_off_event(delivery, most, true, now()).await?;
    }
    Ok(())
}
