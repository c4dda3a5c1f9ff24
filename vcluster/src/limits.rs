//! What the platform holds clusters to, whatever their administrators write: how much they may request, which images, which workers.
//!
//! Nothing of it is an object of the cluster, so that nobody in it can change or delete it. What is requested is counted from the pods,
//! claims and volumes that are stored ([`counting`]), never from a counter: it cannot be wrong, and a restart or a restored copy needs
//! nothing.

pub(crate) mod counting;

use std::{any::Any, sync::Arc};

use vctl_machinery::requests::Requests;

/// Says what clusters are held to. Asked for every write that needs it, so that a change counts from the next one on.
#[async_trait::async_trait]
pub trait PlatformLimits: Send + Sync {
    /// What a cluster is held to; none for one that the platform says nothing of.
    ///
    /// # Errors
    /// Why it cannot be said at the moment: what asks is refused.
    async fn rules(&self, cluster: &str) -> Result<Option<Arc<Rules>>, String>;

    /// Whether a cluster may request this much more, by everything that limits it. Until the turn is dropped, nobody else that shares
    /// one of these limits is told anything.
    ///
    /// # Errors
    /// Why it cannot be said at the moment: what asks is refused.
    async fn take(&self, cluster: &str, more: Requests) -> Result<Take, String>;
}

/// What a cluster is held to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rules {
    /// Whose rules they are.
    pub project: String,
    /// Patterns of images ([`vctl_machinery::image`]); empty: all are allowed.
    pub images: Vec<String>,
    /// Patterns of names of workers; empty: all are allowed.
    pub workers: Vec<String>,
    /// The first limit of each amount, by name.
    pub limited: Limited,
}

/// By which limit an amount is limited, if it is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Limited {
    /// Of processors.
    pub cpu: Option<String>,
    /// Of memory.
    pub memory: Option<String>,
    /// Of storage.
    pub storage: Option<String>,
}

/// The answer to [`PlatformLimits::take`].
#[derive(Debug)]
pub enum Take {
    /// It may.
    Taken(Turn),
    /// It may not: upstream's sentence about a quota that is exceeded.
    Exceeded(String),
}

/// Whoever has it is the only one that may take more of some limits.
pub struct Turn(#[expect(dead_code, reason = "what it does is to be dropped")] Box<dyn Any + Send + Sync>);

impl Turn {
    /// A turn that lasts as long as this value.
    pub fn new(held: impl Any + Send + Sync) -> Self {
        Self(Box::new(held))
    }
}

impl std::fmt::Debug for Turn {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Turn")
    }
}

impl Rules {
    /// Whether pods may be on a worker, which is the node of its name.
    pub fn allows_worker(&self, name: &str) -> bool {
        self.workers.is_empty() || self.workers.iter().any(|pattern| vctl_machinery::image::matches(pattern, name))
    }
}
