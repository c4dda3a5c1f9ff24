//! Compiled patterns, by their text: as many as fit, those that were used last.

use std::{
    collections::HashMap,
    sync::{Arc, LazyLock, Mutex, PoisonError},
};

use super::{Program, SEARCH_CACHE};

/// Bytes of all together.
const CAPACITY: usize = 64 << 20;

static SHARED: LazyLock<Mutex<Cache>> = LazyLock::new(|| Mutex::new(Cache::new(CAPACITY)));

/// Why a pattern does not compile is kept as well: to find it out may have taken long.
type Compiled = Result<Arc<Program>, String>;

struct Entry {
    compiled: Compiled,
    size: usize,
    used: u64,
}

struct Cache {
    entries: HashMap<Arc<str>, Entry>,
    capacity: usize,
    size: usize,
    tick: u64,
}

/// The program of a text, built if it is not there. Nothing is locked meanwhile.
pub(super) fn get(source: &str, build: impl FnOnce() -> Result<Program, String>) -> Compiled {
    if source.len() > super::MAX_SOURCE {
        // Not worth the memory.
        return build().map(Arc::new);
    }
    if let Some(found) = SHARED.lock().unwrap_or_else(PoisonError::into_inner).get(source) {
        return found;
    }
    let compiled = build().map(Arc::new);
    SHARED.lock().unwrap_or_else(PoisonError::into_inner).insert(source, compiled.clone());
    compiled
}

impl Cache {
    fn new(capacity: usize) -> Self {
        Self { entries: HashMap::new(), capacity, size: 0, tick: 0 }
    }

    fn get(&mut self, source: &str) -> Option<Compiled> {
        self.tick += 1;
        let entry = self.entries.get_mut(source)?;
        entry.used = self.tick;
        Some(entry.compiled.clone())
    }

    fn insert(&mut self, source: &str, compiled: Compiled) {
        let held = match &compiled {
            Ok(program) => program.size + SEARCH_CACHE,
            Err(why) => why.len(),
        };
        let size = source.len() + size_of::<Entry>() + held;
        self.tick += 1;
        let entry = Entry { compiled, size, used: self.tick };
        self.size += size;
        self.size -= self.entries.insert(source.into(), entry).map_or(0, |replaced| replaced.size);
        while self.size > self.capacity
            && let Some(oldest) = self.entries.iter().min_by_key(|(_, e)| e.used).map(|(source, _)| source.clone())
        {
            self.size -= self.entries.remove(&oldest).map_or(0, |gone| gone.size);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_returned() {
        let mut cache = Cache::new(1 << 20);
        for n in 0..200 {
            let source = format!("a{n}");
            cache.insert(&source, super::super::build(&source).map(Arc::new));
            assert!(cache.get("a0").is_some(), "what is used stays");
            assert!(cache.size <= cache.capacity);
        }
        assert!(cache.get("a1").is_none() && cache.get("a199").is_some());
        assert_eq!(cache.size, cache.entries.values().map(|e| e.size).sum::<usize>());
    }

    #[test]
    fn equal_ones_are_compiled_once() {
        let first = super::super::compile("^equal-ones$").unwrap();
        assert!(Arc::ptr_eq(&first, &super::super::compile("^equal-ones$").unwrap()));
    }
}
