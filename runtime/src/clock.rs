//! Time is passed in, so that tests can set it.

use std::sync::{Arc, Mutex};

use jiff::{Timestamp, ToSpan};

/// Where a service gets the time of day from.
#[derive(Clone, Default)]
pub struct Clock {
    fixed: Option<Arc<Mutex<Timestamp>>>,
}

impl Clock {
    /// The machine's clock.
    pub fn system() -> Self {
        Self { fixed: None }
    }

    /// A clock that stands still until it is advanced.
    pub fn fixed(at: Timestamp) -> Self {
        Self { fixed: Some(Arc::new(Mutex::new(at))) }
    }

    /// Now.
    pub fn now(&self) -> Timestamp {
        match &self.fixed {
            None => Timestamp::now(),
            Some(at) => *at.lock().unwrap_or_else(std::sync::PoisonError::into_inner),
        }
    }

    /// Moves a fixed clock forward; does nothing to the machine's.
    pub fn advance(&self, seconds: i64) {
        if let Some(at) = &self.fixed {
            let mut at = at.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            *at = at.checked_add(seconds.seconds()).unwrap_or(*at);
        }
    }
}
