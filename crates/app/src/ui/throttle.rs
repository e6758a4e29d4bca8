//! Guessing is slowed down: a few wrong passwords cost nothing, then each further one costs twice the wait of the one
//! before. The right password waits as well, or the wait would tell it from the others. Counted in the database, so over all
//! replicas, and before the attempt is made.

use std::net::{IpAddr, SocketAddr};

use axum::{extract::ConnectInfo, http::Extensions};
use chrono::{DateTime, TimeDelta, Utc};
use holdfast_core::ports::{Changed, StoreError};
use holdfast_store::Throttle;

use crate::{app::App, keys, serve::Peer};

/// So many wrong passwords for one address cost nothing.
const FREE: i64 = 5;
/// Many people may sit behind one.
const FREE_OF_A_HOST: i64 = 50;
/// Many people of one office leave for their identity provider in the same hour, and not all come back.
const FREE_LEAVINGS: i64 = 500;
/// Mails to somebody who may not have asked for them.
const FREE_RESETS: i64 = 3;
/// Tests of mail and channels.
const FREE_TESTS: i64 = 10;
/// A team is invited in one go.
const FREE_INVITATIONS: i64 = 40;
/// The first wait.
const SHORTEST_WAIT_SECS: i64 = 5;
/// The first one for a code of six digits: whoever guesses those has the password.
const SHORTEST_WAIT_OF_A_CODE_SECS: i64 = 60;
/// The longest one.
const LONGEST_WAIT: TimeDelta = TimeDelta::minutes(15);
/// After this, failures are forgotten.
const FORGET_AFTER: TimeDelta = TimeDelta::hours(1);
/// Somebody else counted at the same moment: look again, so often.
const LOOKS: u32 = 8;

/// What is counted, as a hash of it, and how much of it is free.
#[derive(Clone, Copy)]
pub(crate) struct Subject {
    hash: [u8; 32],
    free: i64,
    first_wait_secs: i64,
}

impl Subject {
    /// An e-mail address, whether anybody has it or not.
    pub(crate) fn address(email: &str) -> Self {
        Self::new(&format!("address|{}", email.trim().to_lowercase()), FREE)
    }

    /// Somebody who is signed in and says their password again.
    pub(crate) fn person(id: &str) -> Self {
        Self::new(&format!("person|{id}"), FREE)
    }

    /// The second factor of an address, whether it is asked for at the door or in the settings.
    pub(crate) fn second_factor(email: &str) -> Self {
        Self { first_wait_secs: SHORTEST_WAIT_OF_A_CODE_SECS, ..Self::new(&format!("second-factor|{email}"), FREE) }
    }

    /// Where a request comes from. Not where that is this machine or its own network: there it is the operator's proxy,
    /// and so everybody.
    pub(crate) fn host(peer: Option<SocketAddr>) -> Option<Self> {
        Some(Self::new(&format!("host|{}", host(peer)?), FREE_OF_A_HOST))
    }

    /// Where somebody goes to the identity provider from, as [`Subject::host`]: each time leaves a row.
    pub(crate) fn leaving(peer: Option<SocketAddr>) -> Option<Self> {
        Some(Self::new(&format!("leaving|{}", host(peer)?), FREE_LEAVINGS))
    }

    /// An address that a link for a forgotten password is asked for, whether anybody has it or not.
    pub(crate) fn reset(email: &str) -> Self {
        Self::new(&format!("reset|{}", email.trim().to_lowercase()), FREE_RESETS)
    }

    /// Somebody who sends tests: each is a message that leaves.
    pub(crate) fn tester(id: &str) -> Self {
        Self::new(&format!("tester|{id}"), FREE_TESTS)
    }

    /// Somebody who invites people: each invitation is a mail to an address that they chose.
    pub(crate) fn inviter(id: &str) -> Self {
        Self::new(&format!("inviter|{id}"), FREE_INVITATIONS)
    }

    fn new(name: &str, free: i64) -> Self {
        Self { hash: keys::hash(name), free, first_wait_secs: SHORTEST_WAIT_SECS }
    }
}

fn host(peer: Option<SocketAddr>) -> Option<String> {
    Some(match outside(peer)? {
        IpAddr::V4(ip) => ip.to_string(),
        // A customer of an IPv6 provider has at least a whole /64.
        IpAddr::V6(ip) => format!("{:?}/64", &ip.segments()[..4]),
    })
}

/// Where a request comes from, unless it may have come through a proxy of the operator's.
pub(crate) fn outside(peer: Option<SocketAddr>) -> Option<IpAddr> {
    let ip = peer?.ip().to_canonical();
    let near = match ip {
        IpAddr::V4(ip) => ip.is_private() || ip.is_loopback() || ip.is_link_local(),
        IpAddr::V6(ip) => ip.is_unique_local() || ip.is_loopback() || ip.is_unicast_link_local(),
    };
    (!near).then_some(ip)
}

/// The same of a request, in words.
pub(crate) fn from(extensions: &Extensions) -> Option<String> {
    let peer = extensions.get::<ConnectInfo<Peer>>().map(|ConnectInfo(Peer(peer))| *peer);
    outside(peer).map(|ip| ip.to_string())
}

/// Counts an attempt that is about to be made, for all of these; or says how long it has to wait, and counts nothing.
pub(crate) async fn attempt(app: &App, subjects: &[Subject]) -> Result<Result<(), TimeDelta>, StoreError> {
    for (at, subject) in subjects.iter().enumerate() {
        if let Err(wait) = claim(app, subject).await? {
            uncount(app, &subjects[..at]).await?;
            return Ok(Err(wait));
        }
    }
    Ok(Ok(()))
}

/// It succeeded: nothing is held against the first subject any more. The others are no better for one success.
pub(crate) async fn succeeded(app: &App, subjects: &[Subject]) -> Result<(), StoreError> {
    let Some((own, others)) = subjects.split_first() else { return Ok(()) };
    app.store.forget_failures(&own.hash).await?;
    uncount(app, others).await
}

async fn uncount(app: &App, subjects: &[Subject]) -> Result<(), StoreError> {
    for subject in subjects {
        app.store.uncount_attempt(&subject.hash).await?;
    }
    Ok(())
}

/// Nothing is held against it any more.
pub(crate) async fn forget(app: &App, subject: Subject) -> Result<(), StoreError> {
    app.store.forget_failures(&subject.hash).await
}

/// Whether the failure that was just counted was the last free one.
pub(crate) async fn just_spent(app: &App, subject: &Subject) -> Result<bool, StoreError> {
    let seen = app.store.find_throttle(&subject.hash).await?;
    Ok(seen.is_some_and(|seen| seen.failures == subject.free))
}

async fn claim(app: &App, subject: &Subject) -> Result<Result<(), TimeDelta>, StoreError> {
    let now = app.seams.clock.now();
    for _ in 0..LOOKS {
        let seen = app.store.find_throttle(&subject.hash).await?;
        if let Some(wait) = seen.and_then(|seen| left(&seen, subject, now)) {
            return Ok(Err(wait));
        }
        let counted = app.store.count_attempt(&subject.hash, seen.as_ref(), now, now - FORGET_AFTER).await?;
        if counted == Changed::Yes {
            return Ok(Ok(()));
        }
    }
    Ok(Err(TimeDelta::seconds(SHORTEST_WAIT_SECS)))
}

/// How long is left to wait at `now`; `None`: an attempt may be made.
fn left(seen: &Throttle, subject: &Subject, now: DateTime<Utc>) -> Option<TimeDelta> {
    let over = seen.failures - subject.free;
    if over < 0 || now - seen.last_at > FORGET_AFTER {
        return None;
    }
    let wait = TimeDelta::seconds(subject.first_wait_secs << over.min(10)).min(LONGEST_WAIT);
    let left = seen.last_at + wait - now;
    (left > TimeDelta::zero()).then_some(left)
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use chrono::{DateTime, TimeDelta};
    use holdfast_store::Throttle;

    use super::{Subject, left};

    #[test]
    fn the_wait_doubles_up_to_a_bound_and_is_forgotten() {
        let now = DateTime::from_timestamp(1_764_442_000, 0).unwrap();
        let wait = |failures, ago| {
            let seen = Throttle { failures, last_at: now - TimeDelta::seconds(ago) };
            left(&seen, &Subject::address("ada@example.com"), now).map(|left| left.num_seconds())
        };
        for (failures, ago, expected) in [
            (0, 0, None),
            (4, 0, None),
            (5, 0, Some(5)),
            (5, 4, Some(1)),
            (5, 5, None),
            (6, 0, Some(10)),
            (7, 0, Some(20)),
            (12, 0, Some(640)),
            (13, 0, Some(900)),
            (900, 0, Some(900)),
            (900, 901, None),
            (900, 3_601, None),
        ] {
            assert_eq!(wait(failures, ago), expected, "{failures} failures, {ago} s ago");
        }
    }

    #[test]
    fn a_host_is_counted_unless_it_may_be_a_proxy_of_the_operators() {
        let host = |address: &str| Subject::host(Some(address.parse::<SocketAddr>().unwrap())).map(|host| host.hash);
        for near in [
            "127.0.0.1:1",
            "10.0.0.7:1",
            "192.168.1.1:1",
            "[::1]:1",
            "[fd00::1]:1",
            "[fe80::1]:1",
            "[::ffff:10.0.0.7]:1",
        ] {
            assert_eq!(host(near), None, "{near}");
        }
        let leaving =
            |address: &str| Subject::leaving(Some(address.parse::<SocketAddr>().unwrap())).map(|from| from.hash);
        assert!(leaving("10.0.0.7:1").is_none() && leaving("203.0.113.7:1").is_some());
        assert_ne!(host("203.0.113.7:1"), leaving("203.0.113.7:1"), "who signs in there guesses no passwords");
        assert!(host("203.0.113.7:1").is_some());
        assert_eq!(host("203.0.113.7:1"), host("203.0.113.7:2"));
        assert_eq!(host("203.0.113.7:1"), host("[::ffff:203.0.113.7]:1"));
        assert_ne!(host("203.0.113.7:1"), host("203.0.113.8:1"));
        assert_eq!(host("[2001:db8::1]:1"), host("[2001:db8::2]:1"));
        assert_ne!(host("[2001:db8::1]:1"), host("[2001:db8:0:1::1]:1"));
    }
}
