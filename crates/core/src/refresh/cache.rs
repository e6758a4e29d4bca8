//! Snapshots in memory. An entry is dropped when a signal says that its connector changed; a load that was under way
//! at that moment is not kept, by a generation that each drop moves on.
//!
//! There is room for so many connectors. Beyond that, those go that nobody has read for the longest; never one whose
//! refresh or load is under way, since others wait for what it brings.

use std::{
    collections::HashMap,
    hash::{BuildHasher, RandomState},
    sync::{
        Arc, OnceLock, RwLock, RwLockWriteGuard,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use tokio::sync::{Mutex, watch};

use crate::{credential::Snapshot, id::ConnectorId};

/// Parts with a lock each, so that making room in one stops no reader of the others.
const PARTS: usize = 16;

type Part = HashMap<ConnectorId, Arc<Entry>>;

pub(super) struct Cache {
    parts: [RwLock<Part>; PARTS],
    hasher: RandomState,
    /// Of one part.
    most: usize,
}

#[derive(Default)]
pub(super) struct Entry {
    /// With the era of the signals in which it was loaded.
    kept: RwLock<Option<(u64, Arc<Snapshot>)>>,
    generation: AtomicU64,
    /// Made for the first one who watches: most connectors never have any.
    watched: OnceLock<watch::Sender<u64>>,
    /// Read since room was made last.
    read: AtomicBool,
    /// One load at a time: the others find its result.
    pub(super) loading: Mutex<()>,
}

impl Cache {
    /// With room for so many connectors.
    pub(super) fn new(most: usize) -> Self {
        Self { parts: Default::default(), hasher: RandomState::new(), most: most.div_ceil(PARTS) }
    }

    pub(super) fn get(&self, connector: &ConnectorId, era: u64) -> Option<Arc<Snapshot>> {
        self.read(connector, |part| part.get(connector)?.get(era))
    }

    pub(super) fn entry(&self, connector: &ConnectorId) -> Arc<Entry> {
        if let Some(entry) = self.read(connector, |part| part.get(connector).cloned()) {
            return entry;
        }
        let mut part = self.write(connector);
        if let Some(entry) = part.get(connector) {
            return Arc::clone(entry);
        }
        if part.len() >= self.most {
            make_room(&mut part, self.most);
        }
        Arc::clone(part.entry(connector.clone()).or_default())
    }

    /// The connector changed: what is kept of it is over, and whoever watches it wakes.
    pub(super) fn changed(&self, connector: &ConnectorId) {
        self.read(connector, |part| {
            if let Some(entry) = part.get(connector) {
                entry.drop_kept();
            }
        });
    }

    /// Anything may have changed.
    pub(super) fn all_changed(&self) {
        for part in &self.parts {
            part.read().expect("no panic happens while it is held").values().for_each(|entry| entry.drop_kept());
        }
    }

    /// Forgets a connector that does not exist, so that asking for random ids fills no memory.
    pub(super) fn remove(&self, connector: &ConnectorId) {
        self.write(connector).remove(connector);
    }

    fn read<T>(&self, connector: &ConnectorId, look: impl FnOnce(&Part) -> T) -> T {
        look(&self.part(connector).read().expect("no panic happens while it is held"))
    }

    fn write(&self, connector: &ConnectorId) -> RwLockWriteGuard<'_, Part> {
        self.part(connector).write().expect("no panic happens while it is held")
    }

    fn part(&self, connector: &ConnectorId) -> &RwLock<Part> {
        let hash = self.hasher.hash_one(connector);
        &self.parts[usize::try_from(hash % PARTS as u64).expect("it is below the number of parts")]
    }
}

/// Takes an eighth away, so that it is done once for many: first what was not read since the last time. What is in
/// somebody's hands stays, even if there is too much of it then.
fn make_room(part: &mut Part, most: usize) {
    let mut surplus = part.len().saturating_sub(most - most.div_ceil(8));
    for only_unread in [true, false] {
        part.retain(|_, entry| {
            let unread = !entry.read.swap(false, Ordering::Relaxed);
            let goes = surplus > 0 && (unread || !only_unread) && entry.is_idle();
            surplus -= usize::from(goes);
            !goes
        });
    }
}

impl Entry {
    pub(super) fn get(&self, era: u64) -> Option<Arc<Snapshot>> {
        let kept = self.kept.read().expect("no panic happens while it is held");
        let found = kept.as_ref().filter(|(loaded_in, _)| *loaded_in == era).map(|(_, snapshot)| Arc::clone(snapshot));
        // A store by every reader would make them wait for each other's.
        if found.is_some() && !self.read.load(Ordering::Relaxed) {
            self.read.store(true, Ordering::Relaxed);
        }
        found
    }

    pub(super) fn watch(&self) -> watch::Receiver<u64> {
        self.watched.get_or_init(|| watch::Sender::new(0)).subscribe()
    }

    pub(super) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// Keeps a snapshot that was loaded while the entry was at `generation`.
    pub(super) fn keep(&self, snapshot: Arc<Snapshot>, era: u64, generation: u64) {
        let mut kept = self.kept.write().expect("no panic happens while it is held");
        if self.generation() == generation {
            *kept = Some((era, snapshot));
        }
    }

    fn drop_kept(&self) {
        let mut kept = self.kept.write().expect("no panic happens while it is held");
        *kept = None;
        self.generation.fetch_add(1, Ordering::AcqRel);
        if let Some(watched) = self.watched.get() {
            watched.send_modify(|changes| *changes += 1);
        }
    }

    /// Whether only the map has it. Under the map's lock nobody else can get it.
    fn is_idle(self: &Arc<Self>) -> bool {
        Arc::strong_count(self) == 1 && self.watched.get().is_none_or(watch::Sender::is_closed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(number: usize) -> ConnectorId {
        format!("con{number}").into()
    }

    fn size(cache: &Cache) -> usize {
        cache.parts.iter().map(|part| part.read().unwrap().len()).sum()
    }

    #[test]
    fn there_are_never_more_than_there_is_room_for() {
        let cache = Cache::new(160);

        for number in 0..10_000 {
            cache.entry(&id(number));
            assert!(size(&cache) <= 160);
        }

        assert!(size(&cache) > 100, "and not much less");
    }

    #[test]
    fn what_is_in_somebodys_hands_or_watched_stays() {
        let cache = Cache::new(160);
        let held: Vec<_> = (0..20).map(|number| cache.entry(&id(number))).collect();
        let watched: Vec<_> = (20..40).map(|number| cache.entry(&id(number)).watch()).collect();

        for number in 40..10_000 {
            cache.entry(&id(number));
        }

        for (number, held) in held.iter().enumerate() {
            assert!(Arc::ptr_eq(held, &cache.entry(&id(number))), "it was taken out of a loader's hands");
        }
        for (number, mut watched) in (20..40).zip(watched) {
            cache.changed(&id(number));
            assert!(watched.has_changed().unwrap(), "a watcher was left behind");
            watched.mark_unchanged();
        }
    }

    #[test]
    fn what_was_read_lately_stays_longer() {
        let mut part = Part::new();
        for number in 0..80 {
            let entry = Arc::new(Entry::default());
            entry.read.store(number < 40, Ordering::Relaxed);
            part.insert(id(number), entry);
        }

        make_room(&mut part, 80);

        assert_eq!(part.len(), 70);
        assert!((0..40).all(|number| part.contains_key(&id(number))));
        for _ in 0..4 {
            for entry in part.values() {
                entry.read.store(true, Ordering::Relaxed);
            }
            make_room(&mut part, 80);
            assert_eq!(part.len(), 70, "of what is all read some goes as well");
            for number in 0..10 {
                part.insert(id(1000 + number), Arc::default());
            }
        }
    }
}
