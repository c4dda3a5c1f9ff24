//! A value that is derived from stored objects and thrown away when they change.

use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicU64, Ordering},
};

/// See the module.
pub(crate) struct Cached<T> {
    generation: AtomicU64,
    value: Mutex<Option<(u64, Arc<T>)>>,
}

impl<T> Default for Cached<T> {
    fn default() -> Self {
        Self { generation: AtomicU64::new(0), value: Mutex::default() }
    }
}

impl<T> Cached<T> {
    /// The value, or the generation to say with a new one.
    pub(crate) fn get(&self) -> Result<Arc<T>, u64> {
        let generation = self.generation.load(Ordering::SeqCst);
        match &*self.value.lock().unwrap_or_else(PoisonError::into_inner) {
            Some((of, value)) if *of == generation => Ok(value.clone()),
            _ => Err(generation),
        }
    }

    /// Keeps a value that was derived after the generation was read.
    pub(crate) fn put(&self, generation: u64, value: T) -> Arc<T> {
        let value = Arc::new(value);
        *self.value.lock().unwrap_or_else(PoisonError::into_inner) = Some((generation, value.clone()));
        value
    }

    /// Throws the value away.
    pub(crate) fn invalidate(&self) {
        self.generation.fetch_add(1, Ordering::SeqCst);
        *self.value.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}
