//! Signals: the port [`Signals`].

use holdfast_core::ports::{Signal, Signals};
use tokio::sync::broadcast;

use crate::store::Store;

impl Signals for Store {
    fn subscribe(&self) -> broadcast::Receiver<Signal> {
        todo!()
    }
    fn alive(&self) -> bool {
        todo!()
    }
}
