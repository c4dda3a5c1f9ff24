//! Changes of environments, jobs and requests for approval as they happen: what `GET /api/v1/events` streams.

use std::{collections::BTreeMap, sync::Arc};

use futures::{Stream, stream};
use vctl_api::rest::{Change, PodCounts};
use vctl_store::{Event, Revision, StoreError, Watch, WatchError};

use super::Environments;
use crate::{
    access::{Access, decide::Scope, permission::Permission, policy::Permit},
    approvals::documents::ApprovalDoc,
    documents::{Document, EnvironmentDoc, JobDoc, Stored, decode},
    error::Error,
    jobs,
};

/// How far a follower is: revisions of the newest change of each kind that it has seen. They come by a watch for each,
/// so one number could skip over a change of another kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Position {
    environments: Revision,
    jobs: Revision,
    approvals: Revision,
}

impl std::fmt::Display for Position {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}.{}", self.environments, self.jobs, self.approvals)
    }
}

impl std::str::FromStr for Position {
    type Err = std::num::ParseIntError;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (environments, rest) = text.split_once('.').unwrap_or((text, text));
        let (jobs, approvals) = rest.split_once('.').unwrap_or((rest, rest));
        Ok(Self { environments: environments.parse()?, jobs: jobs.parse()?, approvals: approvals.parse()? })
    }
}

impl Position {
    fn all(revision: Revision) -> Self {
        Self { environments: revision, jobs: revision, approvals: revision }
    }

    fn pass(&mut self, event: &Event) {
        match &*event.key.resource {
            JobDoc::RESOURCE => self.jobs = event.revision,
            ApprovalDoc::RESOURCE => self.approvals = event.revision,
            _ => self.environments = event.revision,
        }
    }
}

/// From where somebody follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Since {
    /// From now on.
    Now,
    /// After this.
    After(Position),
    /// From somewhere that is not known any more.
    Unknown,
}

struct Watches {
    position: Position,
    environments: Watch,
    jobs: Watch,
    approvals: Watch,
}

/// Who follows: of what they may not see they are told nothing, and of what they may see no more, that it is gone.
struct Viewer {
    access: Access,
    permit: Permit,
    /// Environments that they have seen last: uid by name.
    seen: BTreeMap<String, String>,
}

impl Viewer {
    /// What was given or taken since the stream began counts.
    async fn refresh(&mut self) -> Result<(), Error> {
        self.permit = self.access.permit(self.permit.subject.clone(), self.permit.limit.clone()).await?;
        Ok(())
    }

    fn shows(&mut self, event: &Event, change: Change) -> Option<Change> {
        match &change {
            Change::Environment { object } => {
                // It was decoded once already: this cannot fail.
                let document = decode::<EnvironmentDoc>(event.value.as_ref()?).ok()?;
                let name = object.name.to_string();
                if self.permit.allows_on(Permission::EnvironmentsGet, &document) {
                    self.seen.insert(name, document.uid);
                    return Some(change);
                }
                let gone = self.seen.remove(&name).is_some();
                gone.then(|| Change::EnvironmentDeleted { name: object.name.clone() })
            }
            Change::EnvironmentDeleted { name } => self.seen.remove(name.as_str()).map(|_| change),
            Change::Job { object } => {
                let document = decode::<JobDoc>(event.value.as_ref()?).ok()?;
                let theirs = self.seen.get(object.environment.as_str()) == Some(&document.environment_uid);
                let in_project = self.permit.allows(Permission::JobsGet, Scope::Project(&document.project));
                (theirs || in_project).then_some(change)
            }
            Change::Approval { .. } => {
                let document = decode::<ApprovalDoc>(event.value.as_ref()?).ok()?;
                self.permit.on_approval(&document).contains(Permission::ApprovalsList).then_some(change)
            }
            Change::Reset => Some(change),
        }
    }
}

impl Environments {
    /// Where it begins, and the changes from there that somebody may see, each with its position, without end. When history has been missed a
    /// [`Change::Reset`] comes first.
    ///
    /// # Errors
    /// When the store fails.
    pub(crate) async fn changes(
        &self,
        since: Since,
        access: Access,
        permit: Permit,
    ) -> Result<(Position, impl Stream<Item = (Position, Change)> + Send + use<>), Error> {
        let now = Position::all(self.documents.revision().await?);
        let (start, missed) = match since {
            Since::Now => (self.watches(now).await?, false),
            Since::Unknown => (self.watches(now).await?, true),
            Since::After(after) => match self.watches(after).await {
                Ok(watches) => (watches, false),
                // Compacted, or of another life of the store.
                Err(StoreError::Compacted { .. } | StoreError::Future { .. }) => (self.watches(now).await?, true),
                Err(e) => return Err(e.into()),
            },
        };
        let begins = start.position;
        let first = missed.then_some(vec![(now, Change::Reset)]);
        let seen = self.seen_by_name(&permit).await?.into_iter().map(|(name, e)| (name, e.uid)).collect();
        let state = (self.clone(), start, first, Viewer { access, permit, seen });
        let batches = stream::unfold(state, |(this, mut watches, first, mut viewer)| async move {
            if let Some(batch) = first {
                return Some((batch, (this, watches, None, viewer)));
            }
            let next = tokio::select! {
                events = watches.environments.next() => events,
                events = watches.jobs.next() => events,
                events = watches.approvals.next() => events,
            };
            match next {
                Ok(events) => {
                    let mut batch = Vec::with_capacity(events.len());
                    viewer.refresh().await.ok()?;
                    for event in events {
                        watches.position.pass(&event);
                        let shown = this.change(&event).and_then(|change| viewer.shows(&event, change));
                        batch.extend(shown.map(|change| (watches.position, change)));
                    }
                    Some((batch, (this, watches, None, viewer)))
                }
                Err(WatchError::Closed) => None,
                Err(_) => {
                    let now = Position::all(this.documents.revision().await.ok()?);
                    let watches = this.watches(now).await.ok()?;
                    viewer.refresh().await.ok()?;
                    let seen = this.seen_by_name(&viewer.permit).await.ok()?;
                    viewer.seen = seen.into_iter().map(|(name, e)| (name, e.uid)).collect();
                    Some((vec![(now, Change::Reset)], (this, watches, None, viewer)))
                }
            }
        });
        Ok((begins, futures::StreamExt::flat_map(batches, stream::iter)))
    }

    async fn watches(&self, position: Position) -> Result<Watches, StoreError> {
        let environments = self.documents.watch::<EnvironmentDoc>(position.environments).await?;
        let jobs = self.documents.watch::<JobDoc>(position.jobs).await?;
        let approvals = self.documents.watch::<ApprovalDoc>(position.approvals).await?;
        Ok(Watches { position, environments, jobs, approvals })
    }

    fn change(&self, event: &Arc<Event>) -> Option<Change> {
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
            (ApprovalDoc::RESOURCE, Some(value)) => {
                decode::<ApprovalDoc>(value).map(|doc| Some(Change::Approval { id: doc.id, state: doc.state }))
            }
            _ => Ok(None),
        };
        match change {
            Ok(change) => change,
            Err(e) => {
                tracing::error!(error = %e, "a change cannot be read; telling clients to read everything again");
                Some(Change::Reset)
            }
        }
    }
}
