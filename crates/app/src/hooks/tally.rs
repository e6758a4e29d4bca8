//! What is turned away, counted in memory and written down every second: a stranger's flood costs neither rows nor statements.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Mutex, PoisonError},
};

use chrono::{DateTime, Utc};
use holdfast_core::ports::StoreError;
use holdfast_store::{Rejections, Store};
use serde_json::Value;

/// Samples that are kept of each reason.
const SAMPLES: usize = 5;

type Counts = HashMap<String, HashMap<&'static str, Count>>;

/// By address and reason. Only addresses that exist are counted, so that it cannot grow without end.
#[derive(Default)]
pub(crate) struct Tally {
    counts: Mutex<Counts>,
    /// Whoever writes down; who comes meanwhile waits, and finds what was counted written.
    writing: tokio::sync::Mutex<()>,
}

/// One that was turned away.
pub(super) struct Turned<'a> {
    pub(super) endpoint: &'a str,
    pub(super) reason: &'static str,
    /// Masked.
    pub(super) sample: Value,
    /// Whether nothing proved it.
    pub(super) unproven: bool,
    /// From how many in a row on people are warned.
    pub(super) warn_at: u64,
    pub(super) at: DateTime<Utc>,
}

struct Count {
    all: u64,
    /// Those of them that nothing proved, since one was accepted here.
    in_a_row: u64,
    samples: VecDeque<Value>,
    warn_at: u64,
    first_at: DateTime<Utc>,
    last_at: DateTime<Utc>,
}

impl Tally {
    pub(super) fn add(&self, turned: Turned<'_>) {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        if !counts.contains_key(turned.endpoint) {
            counts.insert(turned.endpoint.to_owned(), HashMap::new());
        }
        let of_endpoint = counts.get_mut(turned.endpoint).expect("it is there now");
        let count = of_endpoint.entry(turned.reason).or_insert_with(|| Count {
            all: 0,
            in_a_row: 0,
            samples: VecDeque::new(),
            warn_at: turned.warn_at,
            first_at: turned.at,
            last_at: turned.at,
        });
        count.all += 1;
        count.in_a_row += u64::from(turned.unproven);
        count.last_at = turned.at;
        count.samples.push_front(turned.sample);
        count.samples.truncate(SAMPLES);
    }

    /// One was accepted: those before it are no failures in a row any more.
    pub(super) fn accepted(&self, endpoint: &str) {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        for count in counts.get_mut(endpoint).into_iter().flat_map(HashMap::values_mut) {
            count.in_a_row = 0;
        }
    }

    /// Empties it into the database. Where that takes nothing, everything is kept for the next time.
    pub(super) async fn write_down(&self, store: &Store) -> Result<(), StoreError> {
        let _alone = self.writing.lock().await;
        let taken = std::mem::take(&mut *self.counts.lock().unwrap_or_else(PoisonError::into_inner));
        if taken.is_empty() {
            return Ok(());
        }
        let all = taken.iter().flat_map(|(endpoint, counts)| counts.iter().map(move |count| (endpoint, count)));
        let samples: Vec<(&String, (&&str, &Count), Vec<Value>)> = all
            .map(|(endpoint, (reason, count))| (endpoint, (reason, count), count.samples.iter().cloned().collect()))
            .collect();
        let rejections: Vec<Rejections<'_>> = samples
            .iter()
            .map(|(endpoint, (reason, count), samples)| Rejections {
                endpoint,
                reason,
                count: count.all,
                in_a_row: count.in_a_row,
                samples,
                warn_at: count.warn_at,
                first_at: count.first_at,
                last_at: count.last_at,
            })
            .collect();
        let written = store.note_rejections(&rejections).await;
        drop(rejections);
        if written.is_err() {
            self.keep(taken);
        }
        written
    }

    /// Beside what was counted meanwhile.
    fn keep(&self, older: Counts) {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        for (endpoint, older) in older {
            let newer = counts.entry(endpoint).or_default();
            for (reason, mut older) in older {
                if let Some(newer) = newer.remove(reason) {
                    older.all += newer.all;
                    older.in_a_row += newer.in_a_row;
                    older.last_at = newer.last_at;
                    newer.samples.into_iter().rev().for_each(|sample| older.samples.push_front(sample));
                    older.samples.truncate(SAMPLES);
                }
                newer.insert(reason, older);
            }
        }
    }
}
