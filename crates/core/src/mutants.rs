//! Faults of [`decide`](crate::refresh::decide) that can be switched on, so that the model can show that its properties
//! find them. Only with the feature `mutants`, which no build without debug assertions takes.

use std::sync::atomic::{AtomicU8, Ordering};

#[cfg(not(debug_assertions))]
compile_error!("the feature `mutants` puts faults into the refresh engine: it is for the model's debug builds alone");

/// One fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Mutant {
    /// [`may_send`](crate::refresh::decide::may_send) does not look at the lease.
    SendsWithoutLease = 1,
    /// [`orphan`](crate::refresh::decide::orphan) relieves whoever is in the way.
    RelievesAnybody,
    /// [`after`](crate::refresh::decide::after) takes a missing answer for a refusal.
    TimeoutIsRefusal,
    /// [`after`](crate::refresh::decide::after) leaves no mark of a missing answer.
    ForgetsLostAnswer,
}

static ARMED: AtomicU8 = AtomicU8::new(0);

/// Switches one fault on, for the whole process, and any other one off.
pub fn arm(mutant: Option<Mutant>) {
    ARMED.store(mutant.map_or(0, |mutant| mutant as u8), Ordering::SeqCst);
}

pub(crate) fn armed(mutant: Mutant) -> bool {
    ARMED.load(Ordering::Relaxed) == mutant as u8
}
