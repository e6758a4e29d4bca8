//! The rate limit: so many calls per helpdesk and minute.

/// One minute at a time, as Zendesk counts.
#[derive(Debug, Default)]
pub(crate) struct Limiter {
    window_started_ms: i64,
    used: u32,
}

/// What a call was counted as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Room {
    pub(crate) limit: u32,
    pub(crate) remaining: u32,
    /// Seconds until the next minute begins.
    pub(crate) resets_secs: i64,
    pub(crate) exceeded: bool,
}

const WINDOW_MS: i64 = 60_000;

impl Limiter {
    /// Counts one call; `None` where there is no limit.
    pub(crate) fn count(&mut self, limit: u32, now_ms: i64) -> Option<Room> {
        if limit == 0 {
            return None;
        }
        if now_ms >= self.window_started_ms + WINDOW_MS {
            self.window_started_ms = now_ms;
            self.used = 0;
        }
        let exceeded = self.used >= limit;
        if !exceeded {
            self.used += 1;
        }
        let left_ms = self.window_started_ms + WINDOW_MS - now_ms;
        Some(Room { limit, remaining: limit.saturating_sub(self.used), resets_secs: (left_ms + 999) / 1000, exceeded })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_minute_starts_with_full_room() {
        let mut limiter = Limiter::default();
        let start = 1_000_000;
        assert!(!limiter.count(2, start).unwrap().exceeded);
        assert!(!limiter.count(2, start + 1).unwrap().exceeded);
        let over = limiter.count(2, start + 30_000).unwrap();
        assert!(over.exceeded);
        assert_eq!(over.resets_secs, 30);
        assert_eq!(limiter.count(2, start + 60_000).unwrap().remaining, 1);
    }
}
