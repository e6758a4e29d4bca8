//! What follows from an attempt, and whether a connector lets its jobs begin: pure.

use std::time::Duration;

use crate::{Health, agent::StopReason, error::Retry};

/// No pause is shorter, so that no loop is hot.
const LEAST_PAUSE: Duration = Duration::from_millis(500);
/// What waits for something else is looked at again within this.
const LONGEST_WAIT: Duration = Duration::from_mins(2);
/// Whoever tells us to wait for longer is asked again after this.
const LONGEST_PAUSE: Duration = Duration::from_hours(24);

/// How hard a job is tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// Attempts that count, at most; at least 1.
    pub attempts: u32,
    /// The longest pause after the first of them; doubled with each further one.
    pub backoff_base: Duration,
    /// No pause is longer, unless somebody told us to wait.
    pub backoff_cap: Duration,
}

/// Why an attempt did not do it. It is kept and shown: no secrets, and none of a customer's words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// A stable word.
    pub code: String,
    /// For people.
    pub detail: String,
}

impl Fault {
    /// Of these words.
    pub fn new(code: impl Into<String>, detail: impl Into<String>) -> Self {
        Self { code: code.into(), detail: detail.into() }
    }
}

/// How an attempt ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// What was to be done is done.
    Done,
    /// It is not, and may be tried again as [`Retry`] says.
    Failed(Fault, Retry),
    /// The connector cannot be used before a person has reconnected it. Costs no attempt where that is so.
    NeedsReconnect(Fault),
    /// Something else has to be mended first, for which nobody can say when. Costs no attempt.
    Waits(Fault),
    /// The replica stops, and nothing was begun. Costs no attempt.
    GivenBack,
    /// Its replica is gone.
    Lost,
}

impl Outcome {
    /// The stable word in API, metrics and database.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Failed(..) => "failed",
            Self::NeedsReconnect(_) => "needs_reconnect",
            Self::Waits(_) => "waits",
            Self::GivenBack => "given_back",
            Self::Lost => "lost",
        }
    }

    /// Why it was not done; `None`: it was, or nobody tried.
    pub fn fault(&self) -> Option<Fault> {
        match self {
            Self::Failed(fault, _) | Self::NeedsReconnect(fault) | Self::Waits(fault) => Some(fault.clone()),
            Self::Lost => Some(Fault::new("lost", "The replica that had it is gone; how far it came is unknown.")),
            Self::Done | Self::GivenBack => None,
        }
    }
}

/// Whether a connector lets its jobs begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// They run.
    Run,
    /// They wait for a person.
    Park,
    /// They are over: nobody is expected to bring it back.
    End(StopReason),
}

/// What a connector's health means for jobs that need it; `None`: it is gone.
pub fn admission(health: Option<Health>) -> Admission {
    match health {
        Some(Health::Connected) => Admission::Run,
        Some(Health::AuthFailed | Health::Pending) => Admission::Park,
        Some(Health::Disconnected) => Admission::End(StopReason::Disconnected),
        None => Admission::End(StopReason::Deleted),
    }
}

impl Admission {
    /// Why jobs end; for people.
    pub fn end(reason: StopReason) -> Fault {
        let detail = match reason {
            StopReason::Deleted => "Its connector was deleted.",
            StopReason::Disconnected => "Its connector was disconnected.",
            StopReason::Pending | StopReason::AuthFailed => "Its connector cannot be used.",
        };
        Fault::new(format!("connector_{}", reason.as_str()), detail)
    }
}

/// What becomes of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// It is over, and was done.
    Done,
    /// It is tried again after this long.
    Again(Duration),
    /// The same; the attempt does not count.
    Later(Duration),
    /// Its turn comes again at once; the attempt does not count.
    Back,
    /// It waits for its connector; the attempt does not count.
    Parked,
    /// It is over, for this reason.
    Dead(Fault),
}

/// What follows from an attempt: `attempts` counts it, `admission` is its connector's, and `unit` is even in `0.0..1.0`.
pub fn after(outcome: &Outcome, attempts: u32, admission: Admission, policy: &Policy, unit: f64) -> Next {
    let again = |fault: Fault, pause| if attempts >= policy.attempts { Next::Dead(fault) } else { Next::Again(pause) };
    let pause = backoff(attempts, policy, unit);
    match (outcome, admission) {
        (Outcome::Done, _) => Next::Done,
        (Outcome::GivenBack, _) => Next::Back,
        (Outcome::Waits(_), Admission::Run) => Next::Later(LONGEST_WAIT.mul_f64(0.5 + unit / 2.0)),
        (Outcome::NeedsReconnect(_) | Outcome::Waits(_), Admission::Park) => Next::Parked,
        (Outcome::NeedsReconnect(_) | Outcome::Waits(_), Admission::End(reason)) => Next::Dead(Admission::end(reason)),
        (Outcome::Failed(fault, Retry::Never), _) => Next::Dead(fault.clone()),
        (Outcome::Failed(fault, Retry::After(told)), _) => again(fault.clone(), as_told(*told, unit)),
        // Somebody has reconnected it meanwhile, or it never was the connector's fault.
        (Outcome::Failed(fault, Retry::Backoff) | Outcome::NeedsReconnect(fault), _) => again(fault.clone(), pause),
        (Outcome::Lost, _) => again(outcome.fault().expect("a lost one has a reason"), pause),
    }
}

/// Exponential, with full jitter.
pub fn backoff(attempts: u32, policy: &Policy, unit: f64) -> Duration {
    let step = policy.backoff_base.saturating_mul(2_u32.saturating_pow(attempts.saturating_sub(1).min(30)));
    step.min(policy.backoff_cap).mul_f64(unit.clamp(0.0, 1.0)).max(LEAST_PAUSE)
}

/// Never earlier than told, and up to a tenth later, so that those who were told the same do not come together.
fn as_told(told: Duration, unit: f64) -> Duration {
    told.clamp(LEAST_PAUSE, LONGEST_PAUSE).mul_f64(1.0 + unit.clamp(0.0, 1.0) / 10.0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const POLICY: Policy =
        Policy { attempts: 3, backoff_base: Duration::from_secs(2), backoff_cap: Duration::from_mins(1) };

    fn fault() -> Fault {
        Fault::new("busy", "It is busy.")
    }

    #[test]
    fn every_outcome_leads_where_it_should() {
        let failed = |retry| Outcome::Failed(fault(), retry);
        let reconnect = Outcome::NeedsReconnect(fault());
        let lost = Outcome::Lost.fault().unwrap();
        let secs = |secs| Next::Again(Duration::from_secs(secs));
        let gone = Admission::End(StopReason::Disconnected);
        for (outcome, attempts, admission, next) in [
            (Outcome::Done, 1, Admission::Run, Next::Done),
            (Outcome::Done, 9, gone, Next::Done),
            (Outcome::GivenBack, 9, Admission::Run, Next::Back),
            (Outcome::Waits(fault()), 9, Admission::Run, Next::Later(LONGEST_WAIT)),
            (Outcome::Waits(fault()), 9, Admission::Park, Next::Parked),
            (failed(Retry::Backoff), 1, Admission::Run, secs(2)),
            (failed(Retry::Backoff), 2, Admission::Run, secs(4)),
            (failed(Retry::Backoff), 3, Admission::Run, Next::Dead(fault())),
            (failed(Retry::Never), 1, Admission::Run, Next::Dead(fault())),
            (failed(Retry::After(Duration::from_secs(100))), 1, Admission::Run, secs(110)),
            (failed(Retry::After(Duration::from_secs(100))), 3, Admission::Run, Next::Dead(fault())),
            (reconnect.clone(), 3, Admission::Park, Next::Parked),
            (reconnect.clone(), 1, gone, Next::Dead(Admission::end(StopReason::Disconnected))),
            (reconnect.clone(), 1, Admission::Run, secs(2)),
            (reconnect, 3, Admission::Run, Next::Dead(fault())),
            (Outcome::Lost, 2, Admission::Run, secs(4)),
            (Outcome::Lost, 3, Admission::Run, Next::Dead(lost)),
        ] {
            assert_eq!(after(&outcome, attempts, admission, &POLICY, 1.0), next, "{outcome:?} {attempts}");
        }
    }

    #[test]
    fn only_a_connected_connector_lets_its_jobs_begin() {
        assert_eq!(admission(Some(Health::Connected)), Admission::Run);
        assert_eq!(admission(Some(Health::AuthFailed)), Admission::Park);
        assert_eq!(admission(Some(Health::Pending)), Admission::Park);
        assert_eq!(admission(Some(Health::Disconnected)), Admission::End(StopReason::Disconnected));
        assert_eq!(admission(None), Admission::End(StopReason::Deleted));
        assert_eq!(Admission::end(StopReason::Deleted).code, "connector_deleted");
    }

    proptest! {
        #[test]
        fn a_pause_is_within_its_step_and_its_bounds(
            attempts in 1_u32..1000, base_ms in 1_u64..100_000, cap_ms in 500_u64..10_000_000, unit in 0.0..1.0_f64,
        ) {
            let policy = Policy {
                attempts: u32::MAX,
                backoff_base: Duration::from_millis(base_ms),
                backoff_cap: Duration::from_millis(cap_ms),
            };
            let pause = backoff(attempts, &policy, unit);
            let step = policy.backoff_base.as_secs_f64() * 2_f64.powi(i32::try_from(attempts).unwrap() - 1);
            prop_assert!(pause >= LEAST_PAUSE);
            prop_assert!(pause <= policy.backoff_cap.max(LEAST_PAUSE));
            prop_assert!(pause.as_secs_f64() <= step.max(LEAST_PAUSE.as_secs_f64()) * 1.000_001);
            prop_assert!(pause <= backoff(attempts, &policy, 1.0));
        }

        #[test]
        fn nobody_comes_earlier_than_told_nor_much_later(told_ms in 0_u64..86_400_000, unit in 0.0..1.0_f64) {
            let told = Duration::from_millis(told_ms);
            let Next::Again(pause) =
                after(&Outcome::Failed(fault(), Retry::After(told)), 1, Admission::Run, &POLICY, unit)
            else {
                panic!("it has attempts left")
            };
            prop_assert!(pause >= told);
            prop_assert!(pause <= told.max(LEAST_PAUSE).mul_f64(1.1));
        }

        #[test]
        fn a_job_that_always_fails_is_dead_after_its_attempts_and_not_before(
            most in 1_u32..50, kinds in proptest::collection::vec(0_u8..5, 200), unit in 0.0..1.0_f64,
        ) {
            let policy = Policy { attempts: most, ..POLICY };
            let mut attempts = 0;
            for kind in kinds {
                attempts += 1;
                let (outcome, admission) = match kind {
                    0 => (Outcome::Lost, Admission::Run),
                    1 => (Outcome::Failed(fault(), Retry::Backoff), Admission::Run),
                    2 => (Outcome::NeedsReconnect(fault()), Admission::Park),
                    3 => (Outcome::Waits(fault()), Admission::Run),
                    _ => (Outcome::GivenBack, Admission::Run),
                };
                match after(&outcome, attempts, admission, &policy, unit) {
                    Next::Again(_) => prop_assert!(kind < 2 && attempts < most),
                    Next::Dead(_) => {
                        prop_assert!(kind < 2 && attempts == most);
                        return Ok(());
                    }
                    // As the store counts.
                    Next::Back | Next::Parked | Next::Later(_) => attempts -= 1,
                    Next::Done => prop_assert!(false, "nothing was done"),
                }
            }
        }
    }
}
