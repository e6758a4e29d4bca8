//! When a refresh token ends, from what its answer says and from what is known of its provider. Pure.

use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};

use crate::{
    credential::TokenSet,
    provider::{OAuth2, RefreshLife},
};

/// Told lives are whole seconds, and answers take their time: over less than this nobody can tell whether an end moves.
const TELLING: TimeDelta = TimeDelta::minutes(2);

/// When the refresh token ends, and whether no refresh moves that; `told`: the life that the answer says, `same_token`: it
/// is the old one, repeated or left out. An end that moves along with the time between two answers begins anew with each;
/// one that does not is fixed, and stays as it was told first.
pub(super) fn refresh_end(
    facts: &OAuth2,
    old: Option<&TokenSet>,
    told: Option<Duration>,
    same_token: bool,
    received_at: DateTime<Utc>,
) -> (Option<DateTime<Utc>>, bool) {
    let after = |life: Duration| received_at.checked_add_signed(TimeDelta::from_std(life).ok()?);
    let before = old.and_then(|old| old.refresh_expires_at);
    let was_fixed = old.is_some_and(|old| old.refresh_end_fixed);
    let told = told.and_then(after);
    match (told, facts.refresh_life) {
        (Some(told), life) => {
            let moved = before.map(|before| told - before);
            let between = old.map(|old| received_at - old.obtained_at).filter(|between| *between >= TELLING);
            let stays = match (moved, between) {
                (Some(moved), Some(between)) => moved < between / 2,
                _ => was_fixed,
            };
            let same = moved.is_some_and(|moved| moved.abs() < TELLING);
            let fixed = stays || matches!(life, RefreshLife::Age(_) | RefreshLife::ToldOnce);
            (before.filter(|_| fixed && same).or(Some(told)), fixed)
        }
        (None, RefreshLife::Idle(life)) => (after(life), false),
        (None, RefreshLife::Age(life)) => (before.or_else(|| after(life)), true),
        (None, RefreshLife::Replaced { life, window }) => match before.filter(|end| same_token && *end > received_at) {
            Some(end) => (Some(end), end - received_at <= TimeDelta::from_std(window / 2).unwrap_or(TimeDelta::MAX)),
            // Another one, or one that was taken after what was believed to be its end: counted anew.
            None => (after(life), false),
        },
        (None, RefreshLife::ToldOnce) => (before.filter(|_| same_token), same_token && before.is_some()),
        // Another token, of which nothing is said.
        (None, RefreshLife::AsTold) if !same_token && !was_fixed => (None, false),
        (None, RefreshLife::AsTold) => (before, was_fixed),
    }
}

/// The end of a refresh token that came without an answer, as in an import; see [`super::merge`].
pub fn first_refresh_end(facts: &OAuth2, received_at: DateTime<Utc>) -> (Option<DateTime<Utc>>, bool) {
    refresh_end(facts, None, None, false, received_at)
}

#[cfg(test)]
mod tests {
    use secrecy::SecretString;

    use super::*;
    use crate::{
        exchange::{TokenAnswer, merge},
        testkit::FakeProvider,
    };

    const DAY: u64 = 24 * 3600;

    fn start() -> DateTime<Utc> {
        DateTime::UNIX_EPOCH
    }

    fn facts(refresh_life: RefreshLife) -> OAuth2 {
        OAuth2 { refresh_life, ..FakeProvider::new().facts }
    }

    fn answer(refresh_expires_in: Option<u64>) -> TokenAnswer {
        TokenAnswer {
            access_token: SecretString::from("at"),
            refresh_token: Some(SecretString::from("rt")),
            expires_in: Some(Duration::from_hours(1)),
            refresh_expires_in: refresh_expires_in.map(Duration::from_secs),
            scopes: None,
            base_url: None,
        }
    }

    /// A grant at 0 and refreshes at these seconds, each told the rest of the refresh token's life; the end in days and
    /// whether it is fixed, after each.
    fn follow(facts: &OAuth2, told: &[(u64, Option<u64>)]) -> Vec<(Option<i64>, bool)> {
        let mut set: Option<TokenSet> = None;
        let step = |&(at, told): &(u64, Option<u64>)| {
            let answer = TokenAnswer { refresh_token: Some(format!("rt{at}").into()), ..answer(told) };
            let merged = merge(facts, set.as_ref(), &answer, start() + Duration::from_secs(at));
            set = Some(merged.clone());
            (merged.refresh_expires_at.map(|end| (end - start()).num_days()), merged.refresh_end_fixed)
        };
        told.iter().map(step).collect()
    }

    #[test]
    fn a_told_life_that_begins_anew_is_extended_by_each_refresh() {
        let told = [(0, Some(90 * DAY)), (30, Some(90 * DAY)), (DAY, Some(90 * DAY)), (45 * DAY, Some(90 * DAY))];
        let seen = follow(&facts(RefreshLife::AsTold), &told);
        assert_eq!(seen, [(Some(90), false), (Some(90), false), (Some(91), false), (Some(135), false)]);
    }

    #[test]
    fn a_told_life_that_only_runs_down_is_seen_to_be_fixed_and_stays_where_it_was() {
        let week = 7 * DAY;
        let told = [(0, Some(week)), (30, Some(week - 30)), (3600, Some(week - 3599)), (6 * DAY, Some(DAY + 2))];
        let facts = facts(RefreshLife::AsTold);
        assert_eq!(follow(&facts, &told), [(Some(7), false), (Some(7), false), (Some(7), true), (Some(7), true)]);
    }

    #[test]
    fn a_fixed_end_is_not_forgotten_by_an_answer_that_does_not_say_it() {
        let week = 7 * DAY;
        let told = [(0, Some(week)), (3600, Some(week - 3600)), (7200, None), (9000, Some(30 * DAY))];
        let seen = follow(&facts(RefreshLife::AsTold), &told);
        assert_eq!(seen, [(Some(7), false), (Some(7), true), (Some(7), true), (Some(30), false)]);
    }

    #[test]
    fn what_a_provider_is_known_for_holds_where_answers_say_nothing() {
        let silent = [(0, None), (10 * DAY, None), (20 * DAY, None)];
        let idle = follow(&facts(RefreshLife::Idle(Duration::from_hours(24 * 30))), &silent);
        assert_eq!(idle, [(Some(30), false), (Some(40), false), (Some(50), false)]);
        let age = follow(&facts(RefreshLife::Age(Duration::from_hours(24 * 30))), &silent);
        assert_eq!(age, [(Some(30), true); 3]);
        assert_eq!(follow(&facts(RefreshLife::AsTold), &silent), [(None, false); 3]);
    }

    #[test]
    fn a_token_that_is_replaced_near_its_end_ends_for_good_only_where_no_other_one_came() {
        let day = Duration::from_hours(24);
        let facts = facts(RefreshLife::Replaced { life: day * 180, window: day * 4 });
        let mut set = merge(&facts, None, &answer(None), start());
        let mut refreshed = |at: i64, token: Option<&str>| {
            let answer = TokenAnswer { refresh_token: token.map(Into::into), ..answer(None) };
            set = merge(&facts, Some(&set), &answer, start() + TimeDelta::days(at));
            (set.refresh_expires_at.map(|end| (end - start()).num_days()), set.ends_at().is_some())
        };

        assert_eq!(refreshed(1, None), (Some(180), false), "left out");
        assert_eq!(refreshed(100, Some("rt")), (Some(180), false), "repeated");
        assert_eq!(refreshed(177, Some("rt")), (Some(180), false), "it may still come");
        assert_eq!(refreshed(178, Some("rt")), (Some(180), true));
        assert_eq!(refreshed(179, Some("rt2")), (Some(359), false), "another one");
        assert_eq!(refreshed(358, Some("rt2")), (Some(359), true));
        assert_eq!(refreshed(360, Some("rt2")), (Some(540), false), "it outlived what was believed");
    }

    #[test]
    fn an_end_that_was_told_once_stays_although_refreshes_do_not_repeat_it() {
        let facts = facts(RefreshLife::ToldOnce);
        let kept = |old: &TokenSet, at| {
            let again = TokenAnswer { refresh_token: None, ..answer(None) };
            merge(&facts, Some(old), &again, at)
        };
        let week = 7 * DAY;

        let first = merge(&facts, None, &answer(Some(week)), start());
        let second = kept(&first, start() + TimeDelta::hours(1));
        let third = kept(&second, start() + TimeDelta::hours(2));

        for tokens in [&first, &second, &third] {
            assert_eq!(tokens.ends_at(), Some(start() + TimeDelta::days(7)));
        }
        let untold = merge(&facts, None, &answer(None), start());
        assert_eq!(kept(&untold, start() + TimeDelta::hours(1)).ends_at(), None);
    }
}
