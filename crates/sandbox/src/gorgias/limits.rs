//! The leaky bucket: it holds so many requests and empties itself steadily.
//! <https://developers.gorgias.com/reference/limitations>

use super::account::Rules;

/// One bucket for all OAuth calls, one for all by key.
#[derive(Debug, Default)]
pub(crate) struct Buckets {
    oauth: Bucket,
    key: Bucket,
}

/// In thousandths of a request, so that it leaks in whole numbers.
#[derive(Debug, Default)]
struct Bucket {
    milli: i64,
    at_ms: i64,
}

/// What a request met.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Room {
    pub(crate) used: i64,
    pub(crate) holds: i64,
    /// Whole seconds until one more fits; 0 where this one did.
    pub(crate) wait_secs: i64,
}

impl Buckets {
    /// Puts one request in, where it fits.
    pub(crate) fn count(&mut self, by_key: bool, rules: &Rules, now_ms: i64) -> Room {
        let holds = i64::from(if by_key { rules.key_bucket } else { rules.oauth_bucket }).max(1);
        let bucket = if by_key { &mut self.key } else { &mut self.oauth };
        let window_ms = i64::from(rules.window_secs.max(1)) * 1000;
        let leaked = (now_ms - bucket.at_ms).clamp(0, window_ms) * holds * 1000 / window_ms;
        bucket.milli = (bucket.milli - leaked).max(0);
        bucket.at_ms = now_ms;
        let over = bucket.milli + 1000 - holds * 1000;
        let wait_secs = if over > 0 { (over * window_ms / (holds * 1000) + 999) / 1000 } else { 0 };
        if over <= 0 {
            bucket.milli += 1000;
        }
        Room { used: (bucket.milli + 999) / 1000, holds, wait_secs }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_is_full_after_as_many_as_it_holds_and_leaks_steadily() {
        let rules = Rules::default();
        let mut buckets = Buckets::default();
        for used in 1..=40 {
            assert_eq!(buckets.count(true, &rules, 0), Room { used, holds: 40, wait_secs: 0 });
        }
        assert_eq!(buckets.count(true, &rules, 0), Room { used: 40, holds: 40, wait_secs: 1 });
        assert_eq!(buckets.count(false, &rules, 0).used, 1, "the other bucket is its own");
        // Two a second.
        assert_eq!(buckets.count(true, &rules, 1000).used, 39);
        assert_eq!(buckets.count(true, &rules, 21_000).used, 1);
    }

    #[test]
    fn a_slow_bucket_says_how_long_to_wait() {
        let rules = Rules { oauth_bucket: 1, window_secs: 30, ..Rules::default() };
        let mut buckets = Buckets::default();
        assert_eq!(buckets.count(false, &rules, 5).wait_secs, 0);
        assert_eq!(buckets.count(false, &rules, 5).wait_secs, 30);
        assert_eq!(buckets.count(false, &rules, 30_005).wait_secs, 0);
    }
}
