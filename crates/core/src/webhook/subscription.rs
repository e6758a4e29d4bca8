//! Subscriptions: what makes a provider send to an address of ours. An adapter asks its provider and says what it saw; what
//! follows from that is decided here, by pure functions.

use std::{collections::BTreeMap, time::Duration};

use async_trait::async_trait;
use chrono::{DateTime, TimeDelta, Utc};
use secrecy::SecretString;
use serde::{Deserialize, Serialize};
use url::Url;

use crate::{api_client::ApiClient, error::Result};

/// Fewer deliveries than this say nothing about what is usual.
const ENOUGH: u64 = 20;
/// Silence is noticed after so many usual pauses ...
const PAUSES: u32 = 10;
/// ... and never sooner.
const LEAST_SILENCE: Duration = Duration::from_hours(1);
/// People are warned when this much is left of what could not be renewed (WD-08) ...
const NEAR_ITS_END: TimeDelta = TimeDelta::hours(48);
/// ... and when nobody could see to a subscription for so long.
const OUT_OF_REACH: TimeDelta = TimeDelta::hours(24);

/// Keeps the subscriptions of one way at the provider. Every call may be repeated: whoever makes one has looked before.
#[async_trait]
pub trait Subscriptions: Send + Sync {
    /// What has to be there, by names of the adapter's: the topics of a shop. One name where one serves all.
    fn parts(&self) -> &'static [&'static str];
    /// What a person does where the provider allows it to nobody else: a whole sentence.
    fn remedy(&self) -> &'static str;
    /// How long before its end one is renewed; of no meaning where they do not end.
    fn renew_ahead(&self) -> Duration {
        Duration::ZERO
    }
    /// Those at the provider that are ours, wherever they send to. Where the provider lists none, those of
    /// [`Wanted::remembered`] that have not ended.
    async fn look(&self, api: &ApiClient, wanted: &Wanted<'_>) -> Result<Vec<Subscription>>;
    /// Makes the one of a part.
    async fn make(&self, api: &ApiClient, wanted: &Wanted<'_>, part: &str) -> Result<Subscription>;
    /// Switches it on, and sets it to what is wanted.
    async fn mend(&self, api: &ApiClient, wanted: &Wanted<'_>, seen: &Subscription) -> Result<Subscription>;
    /// Lets it last longer.
    async fn renew(&self, api: &ApiClient, wanted: &Wanted<'_>, seen: &Subscription) -> Result<Subscription> {
        self.mend(api, wanted, seen).await
    }
    /// Takes it away; one that is gone already is no error.
    async fn remove(&self, api: &ApiClient, seen: &Subscription) -> Result<()>;
    /// What the provider signs its deliveries with, where it makes that itself and tells.
    async fn secret(&self, _api: &ApiClient, _seen: &Subscription) -> Result<Option<SecretString>> {
        Ok(None)
    }
}

/// What a subscription is to be like.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    /// The id of our address, which is in it: nobody else knows it, so that what sends to it is ours.
    pub endpoint: &'a str,
    /// The address.
    pub url: &'a str,
    /// What deliveries are to carry, where it is ours to say.
    pub secret: Option<&'a SecretString>,
    /// What was there when somebody looked last.
    pub remembered: &'a [Subscription],
    /// Now.
    pub now: DateTime<Utc>,
}

impl Wanted<'_> {
    /// Whether this address is ours, also below a public URL that we had before.
    pub fn is_ours(&self, url: &str) -> bool {
        let Ok(url) = Url::parse(url) else { return false };
        let mut parts = url.path_segments().into_iter().flatten().rev();
        parts.next() == Some(self.endpoint) && parts.next() == Some("hooks")
    }
}

/// A subscription as the provider shows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Subscription {
    /// The provider's id.
    pub id: String,
    /// Of [`Subscriptions::parts`]; another word for one that has no place there.
    pub part: String,
    /// Where it sends to.
    pub url: String,
    /// Whether it is switched on.
    pub enabled: bool,
    /// Whether it is set to what is wanted, apart from its address.
    pub current: bool,
    /// When it ends by itself.
    pub lapses_at: Option<DateTime<Utc>>,
    /// The provider has forgotten what happened since it was known to send: nobody can read it there (WD-07). Said once, by
    /// the call that found out.
    #[serde(skip)]
    pub behind: bool,
    /// What the adapter needs beside that; no secrets.
    #[serde(default)]
    pub more: BTreeMap<String, String>,
}

/// What is wrong with one that is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flaw {
    /// The provider, or somebody there, has switched it off.
    Disabled,
    /// It sends to an address that we had before.
    OtherAddress,
    /// It was changed there, or here.
    OtherSettings,
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step<'a> {
    /// There is none for this part.
    Make(&'static str),
    /// It is there, and of no use as it is.
    Mend(&'a Subscription, Flaw),
    /// It ends soon.
    Renew(&'a Subscription),
    /// It is one too many.
    Remove(&'a Subscription),
}

/// What follows from what was seen: one of each part stays, the best of them. Nothing is taken away before the rest is done.
pub fn plan<'a>(
    parts: &'static [&'static str],
    url: &str,
    seen: &'a [Subscription],
    renew_ahead: Duration,
    now: DateTime<Utc>,
) -> Vec<Step<'a>> {
    let flaw = |one: &Subscription| match one {
        one if !one.enabled => Some(Flaw::Disabled),
        one if one.url != url => Some(Flaw::OtherAddress),
        one if !one.current => Some(Flaw::OtherSettings),
        _ => None,
    };
    let mut steps = Vec::new();
    let mut spare: Vec<&Subscription> = seen.iter().filter(|one| !parts.contains(&one.part.as_str())).collect();
    for &part in parts {
        let mut there: Vec<&Subscription> = seen.iter().filter(|one| one.part == part).collect();
        there.sort_by_key(|one| (flaw(one).is_some(), one.url != url, !one.enabled, std::cmp::Reverse(one.lapses_at)));
        let mut there = there.into_iter();
        match there.next().map(|best| (best, flaw(best))) {
            None => steps.push(Step::Make(part)),
            Some((best, Some(flaw))) => steps.push(Step::Mend(best, flaw)),
            Some((best, None)) if ends_within(best, renew_ahead, now) => steps.push(Step::Renew(best)),
            Some((_, None)) => {}
        }
        spare.extend(there);
    }
    steps.extend(spare.into_iter().map(Step::Remove));
    steps
}

fn ends_within(one: &Subscription, ahead: Duration, now: DateTime<Utc>) -> bool {
    one.lapses_at.is_some_and(|end| end - now <= TimeDelta::from_std(ahead).unwrap_or(TimeDelta::MAX))
}

/// What is usually between two deliveries, by how many came within so long; `None`: too few to say.
pub fn usual_pause(count: u64, within: Duration) -> Option<Duration> {
    let count = u32::try_from(count).unwrap_or(u32::MAX);
    (u64::from(count) >= ENOUGH).then(|| within / count)
}

/// When a silence since `heard` is more than usual.
pub fn silent_at(heard: DateTime<Utc>, pause: Duration) -> DateTime<Utc> {
    heard + TimeDelta::from_std((pause * PAUSES).max(LEAST_SILENCE)).unwrap_or(TimeDelta::MAX)
}

/// When to look again: after the usual time, before what ends has to be renewed, and earlier if it stays silent until then.
/// A silence from before this look was looked at.
pub fn next_look(
    now: DateTime<Utc>,
    every: Duration,
    silent_at: Option<DateTime<Utc>>,
    lapses_at: Option<DateTime<Utc>>,
    renew_ahead: Duration,
) -> DateTime<Utc> {
    let delta = |duration: Duration| TimeDelta::from_std(duration).unwrap_or(TimeDelta::MAX);
    let usual = now + delta(every);
    let renew = lapses_at.map_or(usual, |end| end - delta(renew_ahead));
    let silent = silent_at.filter(|at| *at > now).unwrap_or(usual);
    // What is late already is the queue's to try again.
    usual.min(silent).min(if renew > now { renew } else { usual })
}

/// How a subscription stands, as it was seen last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It is there, and sends here.
    Made,
    /// The provider does not allow it.
    Forbidden,
    /// Nobody could see to it; it may be there.
    Failing,
    /// It was taken away, since nobody wants it.
    Removed,
}

impl Standing {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Made, Self::Forbidden, Self::Failing, Self::Removed];

    /// The stable word in API and database.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Made => "made",
            Self::Forbidden => "forbidden",
            Self::Failing => "failing",
            Self::Removed => "removed",
        }
    }

    /// Reads [`Self::as_str`] back.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|standing| standing.as_str() == word)
    }
}

/// Whether people have to be told: events have stopped, or are about to, and nothing of ours helps. `before`: it was there
/// once, so that somebody relies on it; who has just switched it on sees it on the page.
pub fn is_alarming(
    standing: Standing,
    since: DateTime<Utc>,
    before: bool,
    lapses_at: Option<DateTime<Utc>>,
    now: DateTime<Utc>,
) -> bool {
    let near = lapses_at.is_some_and(|end| end - now < NEAR_ITS_END);
    match standing {
        Standing::Forbidden => before,
        Standing::Failing => before && (near || now - since >= OUT_OF_REACH),
        Standing::Made | Standing::Removed => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const URL: &str = "https://hub.example/hooks/hook_1";
    const OLD: &str = "https://old.example/hooks/hook_1";
    const HOUR: Duration = Duration::from_hours(1);

    fn at(hours: i64) -> DateTime<Utc> {
        DateTime::from_timestamp(hours * 3600, 0).unwrap()
    }

    fn one(id: &str, part: &str) -> Subscription {
        Subscription {
            id: id.to_owned(),
            part: part.to_owned(),
            url: URL.to_owned(),
            enabled: true,
            current: true,
            lapses_at: None,
            behind: false,
            more: BTreeMap::new(),
        }
    }

    #[test]
    fn each_thing_that_can_be_seen_leads_to_what_mends_it() {
        let fine = one("1", "a");
        let off = Subscription { enabled: false, ..fine.clone() };
        let moved = Subscription { url: OLD.to_owned(), ..fine.clone() };
        let changed = Subscription { current: false, ..fine.clone() };
        let ends = Subscription { lapses_at: Some(at(11)), ..fine.clone() };
        let lasts = Subscription { lapses_at: Some(at(12)), ..fine.clone() };
        for (seen, steps) in [
            (vec![], vec![Step::Make("a")]),
            (vec![fine.clone()], vec![]),
            (vec![off.clone()], vec![Step::Mend(&off, Flaw::Disabled)]),
            (vec![moved.clone()], vec![Step::Mend(&moved, Flaw::OtherAddress)]),
            (vec![changed.clone()], vec![Step::Mend(&changed, Flaw::OtherSettings)]),
            (vec![ends.clone()], vec![Step::Renew(&ends)]),
            (vec![lasts.clone()], vec![]),
        ] {
            assert_eq!(plan(&["a"], URL, &seen, HOUR, at(10)), steps);
        }
    }

    /// RC-07: of what a crash or somebody else has left, one of each part stays, and it is one that works.
    #[test]
    fn of_many_the_best_stays_and_the_rest_goes_last() {
        let moved = Subscription { url: OLD.to_owned(), ..one("1", "a") };
        let off = Subscription { enabled: false, ..one("2", "a") };
        let (fine, other, strange) = (one("3", "a"), one("4", "a"), one("5", "z"));
        let seen = [moved.clone(), off.clone(), fine, other.clone(), strange.clone()];

        let steps = plan(&["a", "b"], URL, &seen, HOUR, at(0));

        assert_eq!(
            steps,
            [Step::Make("b"), Step::Remove(&strange), Step::Remove(&other), Step::Remove(&off), Step::Remove(&moved)]
        );
        let seen = [moved.clone(), off.clone()];
        let steps = plan(&["a"], URL, &seen, HOUR, at(0));
        assert_eq!(steps, [Step::Mend(&off, Flaw::Disabled), Step::Remove(&moved)]);
    }

    #[test]
    fn an_address_of_ours_is_known_by_its_id_wherever_it_lives() {
        let wanted = Wanted { endpoint: "hook_1", url: URL, secret: None, remembered: &[], now: at(0) };
        for ours in [URL, OLD, "http://127.0.0.1:8080/below/hooks/hook_1", "https://x.example/hooks/hook_1?a=b"] {
            assert!(wanted.is_ours(ours), "{ours}");
        }
        for not in ["", "hook_1", "https://hub.example/hooks/hook_12", "https://hub.example/hook_1", "https://h/hooks/"]
        {
            assert!(!wanted.is_ours(not), "{not}");
        }
    }

    #[test]
    fn silence_is_measured_by_what_is_usual() {
        let week = Duration::from_hours(24 * 7);
        assert_eq!(usual_pause(19, week), None);
        assert_eq!(usual_pause(168, week), Some(HOUR));
        assert_eq!(silent_at(at(0), HOUR), at(10));
        assert_eq!(silent_at(at(0), Duration::from_secs(1)), at(1), "never at once");
        assert_eq!(next_look(at(0), 12 * HOUR, None, None, HOUR), at(12));
        assert_eq!(next_look(at(0), 12 * HOUR, Some(at(3)), None, HOUR), at(3));
        assert_eq!(next_look(at(0), 12 * HOUR, Some(at(-1)), None, HOUR), at(12), "it was looked at just now");
        assert_eq!(next_look(at(0), 12 * HOUR, None, Some(at(6)), HOUR), at(5));
        assert_eq!(next_look(at(0), 12 * HOUR, None, Some(at(1)), HOUR), at(12), "the queue tries what is late");
    }

    /// WD-08, WR-05
    #[test]
    fn people_are_told_when_nothing_of_ours_helps() {
        for (standing, before, lapses, now, alarming) in [
            (Standing::Made, true, None, 99, false),
            (Standing::Removed, true, None, 99, false),
            (Standing::Forbidden, true, None, 0, true),
            (Standing::Forbidden, false, None, 99, false),
            (Standing::Failing, true, None, 23, false),
            (Standing::Failing, true, None, 24, true),
            (Standing::Failing, false, None, 99, false),
            (Standing::Failing, true, Some(at(49)), 1, false),
            (Standing::Failing, true, Some(at(48)), 1, true),
        ] {
            assert_eq!(is_alarming(standing, at(0), before, lapses, at(now)), alarming, "{standing:?} {now}");
        }
        for standing in Standing::ALL {
            assert_eq!(Standing::parse(standing.as_str()), Some(standing));
        }
    }
}
