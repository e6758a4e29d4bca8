//! One serving process per SQLite file: an OS lock beside it, and what its holder may clear away.

use holdfast_core::ports::StoreError;

use crate::store::Store;

/// The right to serve; ends when dropped, and with the process.
#[derive(Debug)]
#[must_use = "dropping it gives the right away"]
pub struct ServingLock(#[expect(dead_code, reason = "held for its lock")] Option<std::fs::File>);

impl Store {
    /// Takes the OS lock beside the SQLite file; an error when another process has it. On PostgreSQL there is none to take.
    pub fn lock_for_serving(&self) -> Result<ServingLock, StoreError> {
        todo!()
    }

    /// Voids the leases of the process before and closes its open exchanges as lost, with `answer_lost` marked; answers
    /// how many those were. Only for the holder of the [`ServingLock`]; does nothing on PostgreSQL, where others live.
    pub async fn void_previous(&self, lock: &ServingLock) -> Result<u64, StoreError> {
        let _ = lock;
        todo!()
    }
}
