//! What is done with an event once it is stored: the work of a job of kind `event`.

use holdfast_core::{
    DeliveryId,
    ports::{Changed, StoreError},
};
use holdfast_store::DeliveryState;

use crate::app::App;

/// Works one off, by the delivery that the job names. Agents that wait for it are to be started here; until then it is
/// processed when its turn has come. Running it again changes nothing.
pub async fn work_off(app: &App, delivery: &DeliveryId) -> Result<Changed, StoreError> {
    app.store.settle_delivery(delivery, DeliveryState::Processed, None, app.seams.clock.now()).await
}

/// Its job was given up, or discarded by a person.
pub async fn give_up(app: &App, delivery: &DeliveryId, why: &str) -> Result<Changed, StoreError> {
    app.store.settle_delivery(delivery, DeliveryState::Failed, Some(why), app.seams.clock.now()).await
}
