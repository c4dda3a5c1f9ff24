use std::collections::VecDeque;

use crate::{Revision, engine::durable::Record};

/// A list in pages, or a watch that resumes, should find what happened meanwhile here also while much is written. An idle tenant has
/// none of it.
const MAX_EVENTS: usize = 4096;
const MAX_BYTES: usize = 4 << 20;

/// The newest events of a tenant, so that a watch or list of a little ago needs no database.
#[derive(Debug)]
pub(crate) struct Ring {
    /// Every event after this revision is in it.
    start: Revision,
    records: VecDeque<Record>,
    bytes: usize,
}

impl Ring {
    /// Knows nothing up to the newest revision.
    pub(crate) fn new(head: Revision) -> Self {
        Self { start: head, records: VecDeque::new(), bytes: 0 }
    }

    /// Whether every event after the revision is in it.
    pub(crate) fn reaches(&self, after: Revision) -> bool {
        self.start <= after
    }

    /// The events after a revision, in order.
    pub(crate) fn after(&self, revision: Revision) -> impl DoubleEndedIterator<Item = &Record> {
        // Dense: the position follows from the revision.
        let skip = revision.saturating_sub(self.start) as usize;
        self.records.range(skip.min(self.records.len())..)
    }

    pub(crate) fn push(&mut self, record: Record) {
        self.bytes += size(&record);
        self.records.push_back(record);
        while self.records.len() > MAX_EVENTS || self.bytes > MAX_BYTES {
            let Some(oldest) = self.records.pop_front() else { break };
            self.bytes -= size(&oldest);
            self.start = oldest.event.revision;
        }
    }

    /// Gives its memory back.
    pub(crate) fn clear(&mut self, head: Revision) {
        *self = Self::new(head);
    }
}

fn size(record: &Record) -> usize {
    let event = &record.event;
    256 + event.value.as_ref().map_or(0, |v| v.len()) + event.previous.as_ref().map_or(0, |(_, v)| v.len())
}
