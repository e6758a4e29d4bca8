//! A lifeboat in memory: it outlives the engines that use it, as a folder outlives processes.

use std::{
    collections::BTreeMap,
    sync::{
        Mutex,
        atomic::{AtomicBool, Ordering},
    },
};

use async_trait::async_trait;

use crate::{
    id::ExchangeId,
    ports::{Castaway, Lifeboat, StoreError},
};

/// Keeps what it is given, unless it is full.
#[derive(Default)]
pub struct MemoryLifeboat {
    kept: Mutex<BTreeMap<ExchangeId, Castaway>>,
    full: AtomicBool,
}

impl MemoryLifeboat {
    /// Takes nothing more, or takes it again.
    pub fn set_full(&self, full: bool) {
        self.full.store(full, Ordering::Relaxed);
    }

    /// Sets in it.
    pub fn len(&self) -> usize {
        self.kept().len()
    }

    /// Whether nothing is in it.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn kept(&self) -> std::sync::MutexGuard<'_, BTreeMap<ExchangeId, Castaway>> {
        self.kept.lock().expect("no panic happens while it is held")
    }
}

#[async_trait]
impl Lifeboat for MemoryLifeboat {
    async fn put(&self, castaway: &Castaway) -> Result<(), StoreError> {
        if self.full.load(Ordering::Relaxed) {
            return Err(StoreError::new("the lifeboat is full"));
        }
        self.kept().insert(castaway.exchange.id.clone(), castaway.clone());
        Ok(())
    }

    async fn list(&self) -> Result<Vec<Castaway>, StoreError> {
        Ok(self.kept().values().cloned().collect())
    }

    async fn remove(&self, castaway: &Castaway) -> Result<(), StoreError> {
        self.kept().remove(&castaway.exchange.id);
        Ok(())
    }
}
