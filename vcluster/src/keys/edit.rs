//! Changing the keys document: with the ConfigMap that is made of it, in one transaction.

use serde_json::Value;
use vctl_machinery::status::ApiError;
use vctl_store::{Expect, Key, Store, StoreError, Tenant, Write};

use super::{AUTHENTICATION, KeysDocument, key};
use crate::{document, storage};

/// How often a change that met another one at the same moment is tried anew.
const TRIES: usize = 16;

/// Changes the document by `change`, which says whether it did; then the document as it is now.
///
/// # Errors
/// 404 when the cluster is gone; what `change` says; 503 when others change it all the time.
pub(crate) async fn edit(
    store: &dyn Store,
    tenant: Tenant,
    change: impl Fn(&mut KeysDocument) -> Result<bool, ApiError> + Send + Sync,
) -> Result<KeysDocument, ApiError> {
    let map_key = Key::new("configmaps", "kube-system", AUTHENTICATION);
    for _ in 0..TRIES {
        let (entry, _) = store.get(tenant, &key()).await.map_err(storage::error)?;
        let entry = entry.ok_or_else(storage::gone)?;
        let mut document: KeysDocument = serde_json::from_slice(&entry.value).map_err(ApiError::internal)?;
        if !change(&mut document)? {
            return Ok(document);
        }
        let value = Some(serde_json::to_vec(&document).map_err(ApiError::internal)?.into());
        let mut writes = vec![Write { key: entry.key, expect: Expect::Revision(entry.revision), value }];
        let (map, _) = store.get(tenant, &map_key).await.map_err(storage::error)?;
        // A tenant may have deleted it.
        if let Some(map) = map {
            let mut object: Value = serde_json::from_slice(&map.value).map_err(ApiError::internal)?;
            let before = object["data"].clone();
            for (field, text) in document.describe().as_object().into_iter().flatten() {
                object["data"][field] = text.clone();
            }
            if object["data"] != before {
                let value = Some(document::encode(&object)?);
                writes.push(Write { key: map.key, expect: Expect::Revision(map.revision), value });
            }
        }
        match store.transact(tenant, writes).await {
            Ok(_) => return Ok(document),
            Err(StoreError::Conflict { .. }) => {}
            Err(e) => return Err(storage::error(e)),
        }
    }
    Err(storage::unavailable("the keys of this cluster are being changed; try again"))
}
