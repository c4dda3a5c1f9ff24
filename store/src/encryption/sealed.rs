use std::sync::Arc;

use bytes::Bytes;

use crate::{
    Entry, Event, Export, Key, Revision, Scope, StoreError, Tenant,
    encryption::{Cipher, Place},
    engine::durable::{Change, CommitError, Failure, Journal, Kept, Reader, Record},
};

/// A reader that opens what it reads.
pub(crate) struct SealedReader {
    inner: Arc<dyn Reader>,
    cipher: Arc<Cipher>,
}

impl SealedReader {
    pub(crate) fn new(inner: Arc<dyn Reader>, cipher: Arc<Cipher>) -> Self {
        Self { inner, cipher }
    }

    fn entry(&self, tenant: Tenant, entry: Entry) -> Result<Entry, StoreError> {
        let place = Place { tenant, key: &entry.key, revision: entry.revision };
        let value = self.cipher.open(place, entry.value.clone())?;
        Ok(Entry { value, ..entry })
    }

    fn event(&self, tenant: Tenant, event: Arc<Event>) -> Result<Arc<Event>, StoreError> {
        let open =
            |revision, value: &Bytes| self.cipher.open(Place { tenant, key: &event.key, revision }, value.clone());
        let value = event.value.as_ref().map(|value| open(event.revision, value)).transpose()?;
        let previous = event
            .previous
            .as_ref()
            // Sealed, nothing is empty: this one is not kept.
            .map(|(revision, value)| {
                let value = if value.is_empty() { value.clone() } else { open(*revision, value)? };
                Ok::<_, StoreError>((*revision, value))
            })
            .transpose()?;
        Ok(Arc::new(Event { revision: event.revision, key: event.key.clone(), value, previous }))
    }
}

#[async_trait::async_trait]
impl Reader for SealedReader {
    async fn resources(&self, tenant: Tenant) -> Result<Vec<String>, StoreError> {
        self.inner.resources(tenant).await
    }

    async fn current(&self, tenant: Tenant, resource: &Arc<str>) -> Result<Vec<Entry>, StoreError> {
        let entries = self.inner.current(tenant, resource).await?;
        entries.into_iter().map(|e| self.entry(tenant, e)).collect()
    }

    async fn changes(
        &self,
        tenant: Tenant,
        scope: &Scope,
        after: Revision,
        until: Revision,
        limit: usize,
    ) -> Result<Vec<Arc<Event>>, StoreError> {
        let events = self.inner.changes(tenant, scope, after, until, limit).await?;
        events.into_iter().map(|e| self.event(tenant, e)).collect()
    }

    async fn before(
        &self,
        tenant: Tenant,
        scope: &Scope,
        at: Revision,
        until: Revision,
    ) -> Result<Vec<(Key, Option<Entry>)>, StoreError> {
        let found = self.inner.before(tenant, scope, at, until).await?;
        let open = |(key, entry): (Key, Option<Entry>)| Ok((key, entry.map(|e| self.entry(tenant, e)).transpose()?));
        found.into_iter().map(open).collect()
    }

    async fn export(&self, tenant: Tenant) -> Result<Export, StoreError> {
        let Export { revision, entries } = self.inner.export(tenant).await?;
        let entries = entries.into_iter().map(|e| self.entry(tenant, e)).collect::<Result<_, _>>()?;
        Ok(Export { revision, entries })
    }

    async fn kept(&self, after: (Tenant, Revision), limit: usize) -> Result<Vec<Kept>, StoreError> {
        // As they are kept: whoever asks wants to see that.
        self.inner.kept(after, limit).await
    }

    async fn close(&self) {
        self.inner.close().await;
    }
}

/// A journal that seals what it writes.
pub(crate) struct SealedJournal {
    inner: Box<dyn Journal>,
    cipher: Arc<Cipher>,
}

impl SealedJournal {
    pub(crate) fn new(inner: Box<dyn Journal>, cipher: Arc<Cipher>) -> Self {
        Self { inner, cipher }
    }

    fn records(&self, tenant: Tenant, records: &[Record]) -> Result<Vec<Record>, StoreError> {
        let seal = |record: &Record| {
            let Event { revision, key, value, previous } = &*record.event;
            let place = Place { tenant, key, revision: *revision };
            let value = value.as_ref().map(|value| self.cipher.seal(place, value)).transpose()?;
            // Of what was before, only the revision is written.
            let previous = previous.as_ref().map(|(revision, _)| (*revision, Bytes::new()));
            let event = Arc::new(Event { revision: *revision, key: key.clone(), value, previous });
            Ok(Record { event, created: record.created, replaces: record.replaces })
        };
        records.iter().map(seal).collect()
    }

    fn change(&self, change: &Change) -> Result<Change, StoreError> {
        Ok(match change {
            Change::Write { tenant, records } => {
                Change::Write { tenant: *tenant, records: self.records(*tenant, records)? }
            }
            Change::Create { tenant, name, base, replaces, records } => Change::Create {
                tenant: *tenant,
                name: name.clone(),
                base: *base,
                replaces: *replaces,
                records: self.records(*tenant, records)?,
            },
            Change::Delete { tenant } => Change::Delete { tenant: *tenant },
            Change::Compact { tenant, revision } => Change::Compact { tenant: *tenant, revision: *revision },
            // Sealed by who rewrites.
            Change::Rewrite { values } => Change::Rewrite { values: values.clone() },
            Change::UseKeys { ids } => Change::UseKeys { ids: ids.clone() },
            Change::Tidy => Change::Tidy,
            Change::Barrier => Change::Barrier,
        })
    }
}

#[async_trait::async_trait]
impl Journal for SealedJournal {
    async fn commit(&mut self, changes: &[Change]) -> Result<(), CommitError> {
        let sealed: Result<Vec<_>, _> = changes.iter().map(|c| self.change(c)).collect();
        let sealed = sealed.map_err(|error| CommitError { error, failure: Failure::Rejected })?;
        self.inner.commit(&sealed).await
    }

    async fn sweep(&mut self) -> Result<bool, StoreError> {
        self.inner.sweep().await
    }

    async fn tidy(&mut self) -> Result<(), StoreError> {
        self.inner.tidy().await
    }

    async fn close(self: Box<Self>) -> Result<(), StoreError> {
        self.inner.close().await
    }
}
