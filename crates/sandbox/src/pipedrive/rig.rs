//! Pipedrive from the side that no caller of it sees.

use std::sync::Arc;

use crate::desk::{World, locked};

/// The Pipedrive of a sandbox: Ada is at Acme, Gita at Globex.
#[derive(Debug, Clone)]
pub struct PipedriveRig {
    world: Arc<World>,
}

impl PipedriveRig {
    pub(crate) fn new(world: Arc<World>) -> Self {
        Self { world }
    }

    /// Whether an access token works at this moment.
    pub fn accepts(&self, access_token: &str) -> bool {
        locked(&self.world.pipedrive).bearer(access_token, self.world.clock.now_ms()).is_some()
    }

    /// Whether a refresh token works.
    pub fn is_alive(&self, refresh_token: &str) -> bool {
        locked(&self.world.pipedrive).is_alive(refresh_token)
    }

    /// Ends all grants of this person; false where there is none of that name.
    pub fn revoke(&self, who: &str) -> bool {
        let mut state = locked(&self.world.pipedrive);
        let found = state.find(who).map(|user| user.id);
        if let Some(user) = found {
            state.revoke(user);
        }
        found.is_some()
    }
}
