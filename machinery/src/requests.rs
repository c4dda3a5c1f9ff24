//! How much is requested.

use serde::{Deserialize, Serialize};

/// What pods, claims and volumes request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Requests {
    /// Thousandths of processors.
    pub cpu: u64,
    /// Bytes of memory.
    pub memory: u64,
    /// Bytes of PersistentVolumeClaims and PersistentVolumes: those that are the same, or become it, once.
    pub storage: u64,
}

impl Requests {
    /// Nothing.
    pub const NONE: Self = Self { cpu: 0, memory: 0, storage: 0 };

    /// The sum.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        self.each(other, u64::saturating_add)
    }

    /// What is more than in the other; nothing of what is less.
    #[must_use]
    pub fn minus(self, other: Self) -> Self {
        self.each(other, u64::saturating_sub)
    }

    /// So many times as much.
    #[must_use]
    pub fn times(self, n: u64) -> Self {
        self.each(Self { cpu: n, memory: n, storage: n }, u64::saturating_mul)
    }

    /// The larger of each.
    #[must_use]
    pub fn max(self, other: Self) -> Self {
        self.each(other, std::cmp::max)
    }

    /// Without what needs nothing while it sleeps.
    #[must_use]
    pub fn asleep(self) -> Self {
        Self { cpu: 0, memory: 0, ..self }
    }

    fn each(self, other: Self, join: fn(u64, u64) -> u64) -> Self {
        Self {
            cpu: join(self.cpu, other.cpu),
            memory: join(self.memory, other.memory),
            storage: join(self.storage, other.storage),
        }
    }
}
