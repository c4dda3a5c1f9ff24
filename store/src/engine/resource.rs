use crate::{
    Entry, Key,
    engine::rows::{Row, Rows},
};

/// The committed documents of one resource of one tenant.
#[derive(Debug, Default)]
pub(crate) struct Resource {
    rows: Rows,
    bytes: usize,
    /// The engine's count of uses at the last one.
    pub(crate) used: u64,
}

/// What a row costs besides its value, about.
const ROW_OVERHEAD: usize = 160;

impl Resource {
    pub(crate) fn load(entries: Vec<Entry>) -> Self {
        let mut loaded = Self::default();
        for entry in entries {
            let row = Row { revision: entry.revision, created: entry.created, value: entry.value };
            loaded.set(entry.key, Some(row));
        }
        loaded
    }

    pub(crate) fn get(&self, key: &Key) -> Option<&Row> {
        self.rows.get(&key.namespace, &key.name)
    }

    pub(crate) fn set(&mut self, key: Key, row: Option<Row>) {
        let place = (key.namespace, key.name);
        let before = match row {
            Some(row) => {
                self.bytes += row.value.len() + ROW_OVERHEAD;
                self.rows.insert(place, row)
            }
            None => self.rows.remove(&place),
        };
        if let Some(before) = before {
            self.bytes -= before.value.len() + ROW_OVERHEAD;
        }
    }

    /// Memory it takes, about.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The documents as they stand, to be read when nobody is waiting any more.
    pub(crate) fn rows(&self) -> Rows {
        self.rows.clone()
    }
}
