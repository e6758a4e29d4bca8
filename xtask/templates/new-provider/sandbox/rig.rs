//! @Name@ from the side that no caller of it sees.

use std::sync::Arc;

use crate::desk::{World, locked};

/// The @Name@ of a sandbox: Ada is at Acme, Gita at Globex.
#[derive(Debug, Clone)]
pub struct @Type@Rig {
    world: Arc<World>,
}

impl @Type@Rig {
    pub(crate) fn new(world: Arc<World>) -> Self {
        Self { world }
    }

@if oauth@
    /// Whether an access token works at this moment.
    pub fn accepts(&self, access_token: &str) -> bool {
        locked(&self.world.@mod@).bearer(access_token, self.world.clock.now_ms()).is_some()
    }

    /// Whether a refresh token works.
    pub fn is_alive(&self, refresh_token: &str) -> bool {
        locked(&self.world.@mod@).is_alive(refresh_token)
    }

    /// Ends all grants of this person; false where there is none of that name.
    pub fn revoke(&self, who: &str) -> bool {
        let mut state = locked(&self.world.@mod@);
        let found = state.find(who).map(|user| user.id);
        if let Some(user) = found {
            state.revoke(user);
        }
        found.is_some()
    }
@end@
@if key@
    /// The key of this person.
    pub fn key(&self, who: &str) -> Option<String> {
        locked(&self.world.@mod@).find(who).map(|user| user.key.clone())
    }

    /// Gives this person another key; false where there is none of that name.
    pub fn reset_key(&self, who: &str) -> bool {
        let mut state = locked(&self.world.@mod@);
        let found = state.find(who).map(|user| user.id);
        if let Some(user) = found {
            state.reset_key(user);
        }
        found.is_some()
    }
@end@
}
