//! Changes of environments and jobs as they happen: what `GET /api/v1/events` streams.

use std::sync::Arc;

use futures::{Stream, stream};
use vctl_api::rest::{Change, PodCounts};
use vctl_store::{Event, Revision, StoreError, Watch, WatchError};

use super::Environments;
use crate::{
    documents::{Document, EnvironmentDoc, JobDoc, Stored, decode},
    error::Error,
    jobs,
};

struct Watches {
    environments: Watch,
    jobs: Watch,
}

impl Environments {
    /// Changes after a revision (none: from now on), each with its revision, without end. When history has been missed a
    /// [`Change::Reset`] comes first.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn changes(
        &self,
        after: Option<Revision>,
    ) -> Result<impl Stream<Item = (Revision, Change)> + Send + use<>, Error> {
        let newest = self.documents.revision().await?;
        let (start, missed) = match after {
            Some(after) if after <= newest => match self.watches(after).await {
                Ok(watches) => (watches, false),
                Err(StoreError::Compacted { .. }) => (self.watches(newest).await?, true),
                Err(e) => return Err(e.into()),
            },
            Some(_) => (self.watches(newest).await?, true),
            None => (self.watches(newest).await?, false),
        };
        let first = missed.then_some(vec![(newest, Change::Reset)]);
        let state = (self.clone(), Some(start), first);
        let batches = stream::unfold(state, |(this, watches, first)| async move {
            if let Some(batch) = first {
                return Some((batch, (this, watches, None)));
            }
            let mut watches = watches?;
            let next = tokio::select! {
                events = watches.environments.next() => events,
                events = watches.jobs.next() => events,
            };
            match next {
                Ok(events) => {
                    let batch = events.iter().filter_map(|event| this.change(event)).collect();
                    Some((batch, (this, Some(watches), None)))
                }
                Err(WatchError::Closed) => None,
                Err(_) => {
                    let newest = this.documents.revision().await.ok()?;
                    let watches = this.watches(newest).await.ok()?;
                    Some((vec![(newest, Change::Reset)], (this, Some(watches), None)))
                }
            }
        });
        Ok(futures::StreamExt::flat_map(batches, stream::iter))
    }

    async fn watches(&self, after: Revision) -> Result<Watches, StoreError> {
        let environments = self.documents.watch::<EnvironmentDoc>(after).await?;
        let jobs = self.documents.watch::<JobDoc>(after).await?;
        Ok(Watches { environments, jobs })
    }

    fn change(&self, event: &Arc<Event>) -> Option<(Revision, Change)> {
        let revision = event.revision;
        let change = match (&*event.key.resource, &event.value) {
            (EnvironmentDoc::RESOURCE, Some(value)) => decode::<EnvironmentDoc>(value).map(|value| {
                let stored = Stored { value, revision, created: revision };
                Some(Change::Environment { object: Box::new(self.view(stored, PodCounts::default(), String::new())) })
            }),
            (EnvironmentDoc::RESOURCE, None) => {
                Ok(event.key.name.parse().ok().map(|name| Change::EnvironmentDeleted { name }))
            }
            (JobDoc::RESOURCE, Some(value)) => decode::<JobDoc>(value).map(|value| {
                let job = jobs::view(Stored { value, revision, created: revision });
                Some(Change::Job { object: Box::new(job) })
            }),
            _ => Ok(None),
        };
        match change {
            Ok(change) => change.map(|change| (revision, change)),
            Err(e) => {
                tracing::error!(error = %e, "a change cannot be read; telling clients to read everything again");
                Some((revision, Change::Reset))
            }
        }
    }
}
