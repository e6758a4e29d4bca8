//! What is done with an event once it is stored: the work of a job of kind `event`.

use std::sync::Arc;

use async_trait::async_trait;
use holdfast_core::{
    DeliveryId,
    error::Retry,
    job::{Fault, Outcome},
};
use holdfast_store::ClaimedJob;

use crate::{app::App, jobs::Handler};

/// Works events off, each by the delivery that its job names: agents that wait for it get their runs. Doing it again changes
/// nothing.
pub(crate) struct Events;

#[async_trait]
impl Handler for Events {
    async fn run(&self, app: &Arc<App>, claimed: &ClaimedJob) -> Outcome {
        let delivery = DeliveryId::from(claimed.job.subject.as_str());
        let most = app.config.agents.runs_per_ticket;
        match app.store.work_off_event(&delivery, most, app.seams.clock.now()).await {
            Ok(_) => Outcome::Done,
            Err(error) => Outcome::Failed(Fault::new("ours", error.to_string()), Retry::Backoff),
        }
    }
}
