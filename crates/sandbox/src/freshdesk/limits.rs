//! The rate limit of an account: so many credits a minute, and less for some endpoints.
//! <https://support.freshdesk.com/support/solutions/articles/225439>

use crate::freshdesk::data::FreshdeskPlan;

const WINDOW_MS: i64 = 60_000;

/// Endpoints that have a limit of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Class {
    TicketCreate,
    TicketUpdate,
    TicketList,
    ContactList,
    Other,
}

/// One minute at a time.
#[derive(Debug, Default)]
pub(crate) struct Limiter {
    window_started_ms: i64,
    used: u32,
    used_by_class: [u32; 4],
}

/// What a call was counted as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Room {
    pub(crate) total: u32,
    pub(crate) remaining: u32,
    pub(crate) used: u32,
    pub(crate) resets_secs: i64,
    pub(crate) exceeded: bool,
}

impl FreshdeskPlan {
    /// Credits a minute; none where there is no API.
    fn total(self) -> u32 {
        match self {
            Self::Free => 0,
            Self::Trial => 50,
            Self::Growth => 200,
            Self::Pro => 400,
            Self::Enterprise => 700,
        }
    }

    fn own(self, class: Class) -> Option<u32> {
        let (create, update, list, contacts) = match self {
            Self::Free | Self::Trial => return None,
            Self::Growth => (80, 80, 20, 20),
            Self::Pro => (160, 160, 100, 100),
            Self::Enterprise => (280, 280, 200, 200),
        };
        match class {
            Class::TicketCreate => Some(create),
            Class::TicketUpdate => Some(update),
            Class::TicketList => Some(list),
            Class::ContactList => Some(contacts),
            Class::Other => None,
        }
    }
}

impl Limiter {
    /// Counts one call, also one that will be refused.
    pub(crate) fn count(&mut self, plan: FreshdeskPlan, class: Class, credits: u32, now_ms: i64) -> Room {
        if now_ms >= self.window_started_ms + WINDOW_MS {
            *self = Self { window_started_ms: now_ms, ..Self::default() };
        }
        let total = plan.total();
        let of_class = self.used_by_class.get_mut(class as usize);
        let class_full = plan.own(class).zip(of_class.as_deref()).is_some_and(|(most, used)| *used >= most);
        let exceeded = total > 0 && (class_full || self.used + credits > total);
        if !exceeded {
            self.used += credits;
            if let Some(used) = of_class {
                *used += 1;
            }
        }
        let left_ms = self.window_started_ms + WINDOW_MS - now_ms;
        Room {
            total,
            remaining: total.saturating_sub(self.used),
            used: credits,
            resets_secs: (left_ms + 999) / 1000,
            exceeded,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_has_less_room_than_the_account() {
        let mut limiter = Limiter::default();
        let start = 1_000_000;
        for _ in 0..20 {
            assert!(!limiter.count(FreshdeskPlan::Growth, Class::TicketList, 1, start).exceeded);
        }
        let over = limiter.count(FreshdeskPlan::Growth, Class::TicketList, 1, start + 10_000);
        assert_eq!((over.exceeded, over.remaining, over.resets_secs), (true, 180, 50));
        assert!(!limiter.count(FreshdeskPlan::Growth, Class::Other, 3, start + 10_000).exceeded);
        assert!(!limiter.count(FreshdeskPlan::Growth, Class::TicketList, 1, start + 60_000).exceeded);
    }

    #[test]
    fn an_account_has_so_many_credits_a_minute() {
        let mut limiter = Limiter::default();
        for _ in 0..16 {
            assert!(!limiter.count(FreshdeskPlan::Trial, Class::Other, 3, 90_000).exceeded);
        }
        let over = limiter.count(FreshdeskPlan::Trial, Class::Other, 3, 90_000);
        assert_eq!((over.exceeded, over.remaining), (true, 2));
    }
}
