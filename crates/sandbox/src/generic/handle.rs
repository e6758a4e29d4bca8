//! The alike services from the side that no caller of them sees.

use std::sync::Arc;

use crate::desk::{World, locked};
use crate::faults::Faults;

/// The alike services of a sandbox.
#[derive(Debug, Clone)]
pub struct GenericRig {
    world: Arc<World>,
}

impl GenericRig {
    pub(crate) fn new(world: Arc<World>) -> Self {
        Self { world }
    }

    /// Changes the trouble of all of them.
    pub fn trouble(&self, change: impl FnOnce(&mut Faults)) {
        let generic = &self.world.generic;
        let mut faults = locked(&generic.faults);
        change(&mut faults);
        *faults = faults.clone().set_at(self.world.clock.now_ms());
        generic.gate.set(&faults);
    }

    /// Everything that was issued for this service ends.
    pub fn revoke(&self, service: &str) {
        locked(&self.world.generic.state).revoke(service);
    }

    /// Refresh tokens work once from now on, without grace, whatever the service does usually: an administrator may switch
    /// that on.
    pub fn rotate_all(&self) {
        locked(&self.world.generic.state).rotates_all = true;
    }

    /// Whether a refresh token works.
    pub fn is_alive(&self, refresh_token: &str) -> bool {
        locked(&self.world.generic.state).is_alive(refresh_token)
    }

    /// Refreshes that brought something.
    pub fn refreshes(&self) -> u64 {
        locked(&self.world.generic.state).refreshes
    }
}
