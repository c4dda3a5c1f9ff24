//! What is about to be added to what quotas limit.

use vctl_machinery::requests::Requests;

use super::counted::{Counted, is_awake, taken};
use crate::documents::EnvironmentDoc;

/// What is about to be added.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Demand<'a> {
    /// The environment.
    pub(crate) environment: &'a EnvironmentDoc,
    /// What becomes more.
    pub(crate) adds: Adds,
}

/// What becomes more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Adds {
    /// The environment is new.
    New,
    /// It is there already, and asleep: what is awake becomes more.
    Wakes,
    /// It is awake, and its template requested so much until now.
    Grows(Requests),
    /// So much more is requested in it than is counted there.
    Requests(Requests),
    /// It is put back from a backup in which so much is requested, awake.
    Restores {
        requests: Requests,
        /// It is there already.
        replaces: bool,
    },
}

impl Demand<'_> {
    /// What becomes more, when so much is requested in the environment now.
    pub(super) fn counted(self, requested: Requests) -> Counted {
        let environment = self.environment;
        let grown = |size: Requests| Counted { size, ..Counted::default() };
        match self.adds {
            Adds::New => Counted::of(environment, requested),
            Adds::Restores { requests, replaces: false } => Counted::of(environment, requests),
            Adds::Restores { requests, replaces: true } => {
                let now = Counted::of(environment, requested);
                let size = taken(environment, requests).minus(now.size);
                Counted { awake: 1 - now.awake, ..grown(size) }
            }
            Adds::Wakes => Counted { awake: 1, ..grown(Requests { storage: 0, ..taken(environment, requested) }) },
            Adds::Grows(before) => grown(taken(environment, requested).minus(before.max(requested))),
            Adds::Requests(more) => {
                let more = taken(environment, requested.plus(more)).minus(taken(environment, requested));
                grown(if is_awake(environment) { more } else { more.asleep() })
            }
        }
    }
}
