//! Lists: at a revision, selected, in pages.

use std::time::Duration;

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use serde_json::{Value, json};
use vctl_machinery::{
    catalog::Descriptor,
    selector::{FieldSelector, LabelSelector},
    status::ApiError,
};
use vctl_store::{Entry, Key, ListOptions, Revision, Scope, StoreError};

use super::{Call, Target};
use crate::{
    document::{self, Layout},
    resource_metrics, storage,
};

/// What a list or watch selects.
#[derive(Debug, Clone, Default)]
pub(crate) struct Selection {
    pub labels: LabelSelector,
    pub fields: FieldSelector,
}

impl Selection {
    /// From the query parameters.
    pub(crate) fn parse(descriptor: &Descriptor, labels: &str, fields: &str) -> Result<Self, ApiError> {
        let labels = LabelSelector::parse(labels).map_err(|e| ApiError::bad_request(e.clone()))?;
        let fields = if fields.is_empty() {
            FieldSelector::default()
        } else {
            FieldSelector::parse(descriptor, fields).map_err(ApiError::bad_request)?
        };
        Ok(Self { labels, fields })
    }

    pub(crate) fn is_everything(&self) -> bool {
        self.labels.is_everything() && self.fields.is_everything()
    }

    /// Whether objects of this name are selected, where only names are; none where more of an object must be seen.
    pub(crate) fn matches_name(&self, namespace: &str, name: &str) -> Option<bool> {
        if self.labels.is_everything() { self.fields.matches_name(namespace, name) } else { None }
    }

    pub(crate) fn matches(&self, descriptor: &Descriptor, object: &Value) -> bool {
        self.labels.matches(object.pointer("/metadata/labels").unwrap_or(&Value::Null))
            && self.fields.matches(descriptor, object)
    }
}

/// Which revision a list is to show.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum At {
    /// The newest.
    #[default]
    Newest,
    /// This one or a newer one.
    NotOlderThan(Revision),
    /// This one.
    Exact(Revision),
}

/// A document that a list or watch found.
#[derive(Debug)]
pub(crate) struct Found {
    pub entry: Entry,
    /// The object, where it had to be read to know that it is selected.
    pub object: Option<Value>,
}

/// One page of a list as it is stored: what is shown of it may not need parsing.
#[derive(Debug, Default)]
pub(crate) struct StoredPage {
    pub items: Vec<Found>,
    pub revision: Revision,
    /// Token for the next page.
    pub next: Option<String>,
    /// How many follow, where that is known.
    pub remaining: Option<usize>,
}

/// One page of a list.
#[derive(Debug, Default)]
pub(crate) struct Page {
    pub items: Vec<Value>,
    pub revision: Revision,
    /// Token for the next page.
    pub next: Option<String>,
    /// How many follow, where that is known.
    pub remaining: Option<usize>,
}

/// What a list request asks for.
#[derive(Debug, Clone, Default)]
pub(crate) struct ListQuery {
    pub selection: Selection,
    pub at: At,
    pub limit: usize,
    pub token: String,
}

/// So many documents are read before others get their turn on the thread.
const READ_AT_ONCE: usize = 64;

/// Lets others run now and then: called with the number of documents that were read.
pub(crate) async fn breathe(n: usize) {
    if n % READ_AT_ONCE == READ_AT_ONCE - 1 {
        tokio::task::yield_now().await;
    }
}

/// How long a request waits for a revision that has not been reached.
const WAIT: Duration = Duration::from_secs(3);

fn token(revision: Revision, namespace: &str, name: &str) -> String {
    let start = format!("{namespace}/{name}\u{0}");
    URL_SAFE_NO_PAD.encode(json!({ "v": "meta.k8s.io/v1", "rv": revision, "start": start }).to_string())
}

fn parse_token(text: &str) -> Result<(Option<Revision>, (String, String)), ApiError> {
    let invalid = || ApiError::bad_request("continue key is not valid");
    let why = |why: &dyn std::fmt::Display| ApiError::bad_request(format!("continue key is not valid: {why}"));
    let bytes = URL_SAFE_NO_PAD.decode(text.trim_end_matches('=')).map_err(|e| why(&e))?;
    let value: Value = serde_json::from_slice(&bytes).map_err(|e| why(&e))?;
    if value["v"] != "meta.k8s.io/v1" {
        return Err(ApiError::bad_request(format!(
            "continue key is not valid: server does not recognize this encoded version {}",
            value["v"].as_str().unwrap_or_default()
        )));
    }
    let start = value["start"].as_str().unwrap_or_default().trim_end_matches('\u{0}');
    let (namespace, name) = start.split_once('/').ok_or_else(invalid)?;
    // -1: wherever the list is now, from here on (a token that was given with 410).
    let revision = value["rv"].as_i64().ok_or_else(invalid)?;
    Ok((u64::try_from(revision).ok().filter(|r| *r > 0), (namespace.to_owned(), name.to_owned())))
}

impl Call {
    /// Waits until the cluster has reached a revision.
    pub(crate) async fn reach(&self, revision: Revision) -> Result<(), ApiError> {
        let store = self.plane.store();
        let tenant = self.plane.tenant;
        let deadline = tokio::time::Instant::now() + WAIT;
        loop {
            let newest = store.revision(tenant).await.map_err(storage::error)?;
            if newest >= revision {
                return Ok(());
            }
            if tokio::time::Instant::now() >= deadline {
                return Err(ApiError::resource_version_too_large(revision, newest));
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// One page, as objects.
    pub(crate) async fn list(&self, target: &Target, query: &ListQuery) -> Result<Page, ApiError> {
        if resource_metrics::serves(&target.descriptor) {
            return resource_metrics::list(self, target, &query.selection).await;
        }
        let page = self.page(target, query).await?;
        let mut items = Vec::with_capacity(page.items.len());
        for (n, found) in page.items.into_iter().enumerate() {
            breathe(n).await;
            items.push(self.found(&target.descriptor, found)?);
        }
        Ok(Page { items, revision: page.revision, next: page.next, remaining: page.remaining })
    }

    /// The object of what was found.
    pub(crate) fn found(&self, descriptor: &Descriptor, found: Found) -> Result<Value, ApiError> {
        match found.object {
            Some(object) => Ok(object),
            None => self.object(descriptor, &found.entry.key, &found.entry.value, found.entry.revision),
        }
    }

    /// Whether a document is selected. What can be shown as it is stored is not read further than needed to know that. `converted` is
    /// the object, when a webhook has made it.
    fn select(
        &self,
        descriptor: &Descriptor,
        layout: Option<&Layout>,
        selection: &Selection,
        entry: Entry,
        converted: Option<Value>,
    ) -> Result<Option<Found>, ApiError> {
        let object = match selection.matches_name(&entry.key.namespace, &entry.key.name) {
            Some(false) => return Ok(None),
            Some(true) => converted,
            None if layout.is_some_and(|l| l.read(&entry.value).is_some()) => {
                if !selection.matches(descriptor, &document::parse_light(&entry.value)?) {
                    return Ok(None);
                }
                None
            }
            None => {
                let object = match converted {
                    Some(object) => object,
                    None => self.object(descriptor, &entry.key, &entry.value, entry.revision)?,
                };
                if !selection.matches(descriptor, &object) {
                    return Ok(None);
                }
                Some(object)
            }
        };
        Ok(Some(Found { entry, object }))
    }

    /// One page, as it is stored.
    pub(crate) async fn page(&self, target: &Target, query: &ListQuery) -> Result<StoredPage, ApiError> {
        let descriptor = &target.descriptor;
        let resource = target.resource();
        let namespace = (!target.namespace.is_empty()).then_some(target.namespace.as_str());
        let scope = Scope { resource: resource.as_str().into(), namespace: namespace.map(Into::into) };
        let mut after = None;
        let mut at = match query.at {
            At::Newest => None,
            At::NotOlderThan(revision) => {
                self.reach(revision).await?;
                None
            }
            At::Exact(revision) => {
                self.reach(revision).await?;
                Some(revision)
            }
        };
        let mut consistent = true;
        if !query.token.is_empty() {
            let (revision, start) = parse_token(&query.token)?;
            consistent = revision.is_some();
            (at, after) = (revision, Some(start));
        }
        let layout = Layout::of(descriptor);
        let selection = &query.selection;
        let selective = !selection.is_everything();
        let mut page = StoredPage::default();
        if at.is_none()
            && after.is_none()
            && (namespace.is_some() || !descriptor.namespaced)
            && let Some(name) = selection.fields.name()
        {
            // One object by its name needs no search.
            let key = Key::new(&resource, namespace.unwrap_or_default(), name);
            let (entry, revision) = self.plane.store().get(self.plane.tenant, &key).await.map_err(storage::error)?;
            page.revision = revision;
            if let Some(entry) = entry {
                let converted = self.converted(descriptor, [(&entry.key, &*entry.value, entry.revision)].into_iter());
                let converted = converted.await?.and_then(|mut c| c.pop());
                page.items.extend(self.select(descriptor, layout.as_ref(), selection, entry, converted)?);
            }
            return Ok(page);
        }
        loop {
            let wanted = if query.limit == 0 { 0 } else { query.limit - page.items.len() };
            // With a selector most of a page may be dropped: read more at a time than is wanted.
            let limit = if selective && wanted > 0 { wanted.max(500) } else { wanted };
            let options = ListOptions { scope: scope.clone(), at, after: after.clone(), limit };
            let list = match self.plane.store().list(self.plane.tenant, options).await {
                Ok(list) => list,
                Err(StoreError::Compacted { .. }) if !query.token.is_empty() => return Err(self.expired_token(after)),
                Err(StoreError::Compacted { .. }) => {
                    return Err(ApiError::expired("The resourceVersion for the provided list is too old."));
                }
                Err(e) => return Err(storage::error(e)),
            };
            at = Some(list.revision);
            page.revision = list.revision;
            let count = list.entries.len();
            let last = list.entries.last().map(|e| e.key.clone());
            let entries = list.entries.iter().map(|e| (&e.key, &*e.value, e.revision));
            let mut converted = self.converted(descriptor, entries).await?;
            for (i, entry) in list.entries.into_iter().enumerate() {
                let object = converted.as_mut().and_then(|c| c.get_mut(i)).map(Value::take);
                let found = if selective {
                    breathe(i).await;
                    self.select(descriptor, layout.as_ref(), selection, entry, object)?
                } else {
                    Some(Found { entry, object })
                };
                let Some(found) = found else { continue };
                let more = i + 1 < count || list.remaining > 0;
                if query.limit > 0 && page.items.len() + 1 == query.limit && more {
                    page.next = Some(token(list.revision, &found.entry.key.namespace, &found.entry.key.name));
                    page.remaining = (!selective).then(|| count - i - 1 + list.remaining);
                    page.items.push(found);
                    return Ok(page);
                }
                page.items.push(found);
            }
            let Some(last) = last.filter(|_| list.remaining > 0 && query.limit > 0) else { break };
            after = Some((last.namespace.to_string(), last.name.to_string()));
        }
        if !consistent {
            page.remaining = None;
        }
        Ok(page)
    }

    /// 410 with a token that goes on from the same place in a newer state.
    fn expired_token(&self, after: Option<(String, String)>) -> ApiError {
        let mut error = ApiError::expired(
            "The provided continue parameter is too old to display a consistent list result. You can start a new list without the \
             continue parameter, or use the continue token in this response to retrieve the remainder of the results. Continuing with \
             the provided token results in an inconsistent list - objects that were created, modified, or deleted between the time the \
             first chunk was returned and now may show up in the list.",
        );
        if let Some((namespace, name)) = after {
            let start = format!("{namespace}/{name}\u{0}");
            let token = URL_SAFE_NO_PAD.encode(json!({ "v": "meta.k8s.io/v1", "rv": -1, "start": start }).to_string());
            error.details = json!({ "continue": token });
        }
        error
    }

    /// Everything that is selected.
    pub(crate) async fn list_all(&self, target: &Target, selection: &Selection) -> Result<Page, ApiError> {
        self.list(target, &ListQuery { selection: selection.clone(), ..ListQuery::default() }).await
    }
}
