use std::{
    collections::HashMap,
    sync::{
        Arc, PoisonError, RwLock,
        atomic::{AtomicU64, Ordering},
    },
};

use bytes::Bytes;
use ring::{
    aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey},
    rand::{SecureRandom, SystemRandom},
};

use crate::{
    EncryptionKeys, Key, Revision, StoreError, Tenant,
    encryption::keys::{ID_BYTES, KEY_BYTES},
};

/// What a sealed value begins with. No JSON does; the last byte is the version of the format.
const MAGIC: [u8; 4] = [0, b'v', b'e', 1];
const TAG: usize = 16;
/// A sealed data key: nonce, key, tag.
const WRAPPED: usize = NONCE_LEN + KEY_BYTES + TAG;
/// Id of the key that sealed the data key, and this.
const ENVELOPE: usize = ID_BYTES + WRAPPED;
const HEADER: usize = MAGIC.len() + ENVELOPE + NONCE_LEN;

/// So many data keys are remembered: one for each start of a server whose values are still there.
const REMEMBERED: usize = 4096;

/// Where a value belongs; it opens nowhere else.
#[derive(Clone, Copy)]
pub(crate) struct Place<'a> {
    pub(crate) tenant: Tenant,
    pub(crate) key: &'a Key,
    pub(crate) revision: Revision,
}

impl Place<'_> {
    fn authenticated(&self) -> Vec<u8> {
        let Key { resource, namespace, name } = self.key;
        let mut bytes = Vec::with_capacity(24 + resource.len() + namespace.len() + name.len());
        bytes.extend(self.tenant.0.to_be_bytes());
        bytes.extend(self.revision.to_be_bytes());
        for part in [resource, namespace, name] {
            bytes.extend((part.len() as u32).to_be_bytes());
            bytes.extend(part.as_bytes());
        }
        bytes
    }
}

/// Seals and opens values.
pub(crate) struct Cipher {
    keys: HashMap<[u8; ID_BYTES], LessSafeKey>,
    ids: Vec<String>,
    /// This process's data key, and what stands before each value that it seals.
    data: LessSafeKey,
    envelope: [u8; ENVELOPE],
    /// Counts the values sealed with it: no nonce comes twice.
    sealed: AtomicU64,
    /// Data keys of other processes that were opened already.
    opened: RwLock<HashMap<[u8; ENVELOPE], Arc<LessSafeKey>>>,
}

impl Cipher {
    /// A cipher with a new data key.
    pub(crate) fn new(keys: &EncryptionKeys) -> Result<Self, StoreError> {
        let failed = |what: &str| StoreError::backend(format!("{what} failed; the system gives no randomness"));
        let random = SystemRandom::new();
        let mut bytes = [0; KEY_BYTES];
        random.fill(&mut bytes).map_err(|_| failed("making a data key"))?;
        let mut nonce = [0; NONCE_LEN];
        random.fill(&mut nonce).map_err(|_| failed("making a nonce"))?;
        let known: HashMap<_, _> =
            keys.keys.iter().map(|k| (k.id, key(&k.bytes))).filter_map(|(id, k)| Some((id, k?))).collect();
        let first = keys.keys.first().and_then(|k| Some((k.id, known.get(&k.id)?)));
        let (id, first) = first.ok_or_else(|| StoreError::Unusable("there is no encryption key".to_owned()))?;
        let mut wrapped = bytes;
        let tag = first
            .seal_in_place_separate_tag(Nonce::assume_unique_for_key(nonce), Aad::from(id), &mut wrapped)
            .map_err(|_| failed("sealing the data key"))?;
        let parts = [&id[..], &nonce, &wrapped, tag.as_ref()].concat();
        let envelope = parts.try_into().map_err(|_| failed("sealing the data key"))?;
        let data = key(&bytes).ok_or_else(|| failed("making a data key"))?;
        Ok(Self { keys: known, ids: keys.ids(), data, envelope, sealed: AtomicU64::new(0), opened: RwLock::default() })
    }

    /// Id of the key that new values need.
    pub(crate) fn writing(&self) -> &str {
        self.ids.first().map_or("", String::as_str)
    }

    /// Seals a value.
    pub(crate) fn seal(&self, place: Place<'_>, value: &[u8]) -> Result<Bytes, StoreError> {
        let mut nonce = [0; NONCE_LEN];
        nonce[NONCE_LEN - 8..].copy_from_slice(&self.sealed.fetch_add(1, Ordering::Relaxed).to_be_bytes());
        let mut sealed = Vec::with_capacity(HEADER + value.len() + TAG);
        sealed.extend(MAGIC);
        sealed.extend(self.envelope);
        sealed.extend(nonce);
        sealed.extend(value);
        let aad = Aad::from(place.authenticated());
        let tag = self
            .data
            .seal_in_place_separate_tag(Nonce::assume_unique_for_key(nonce), aad, &mut sealed[HEADER..])
            .map_err(|_| StoreError::backend("a value is too large to be encrypted"))?;
        sealed.extend(tag.as_ref());
        Ok(sealed.into())
    }

    /// Opens a value; one that was never sealed is returned as it is.
    ///
    /// # Errors
    /// [`StoreError::Unusable`] when it was sealed with another key, or changed since.
    pub(crate) fn open(&self, place: Place<'_>, value: Bytes) -> Result<Bytes, StoreError> {
        if !is_sealed(&value) {
            return Ok(value);
        }
        let damaged = || {
            let Key { resource, namespace, name } = place.key;
            StoreError::Unusable(format!(
                "the encrypted value of {resource} {namespace}/{name} (tenant {}, revision {}) is damaged, or was moved there; restore the \
                 store from a backup",
                place.tenant.0, place.revision
            ))
        };
        if value.len() < HEADER + TAG {
            return Err(damaged());
        }
        let (head, body) = value.split_at(HEADER);
        let envelope: [u8; ENVELOPE] = head[MAGIC.len()..MAGIC.len() + ENVELOPE].try_into().map_err(|_| damaged())?;
        let nonce: [u8; NONCE_LEN] = head[MAGIC.len() + ENVELOPE..].try_into().map_err(|_| damaged())?;
        let mut body = body.to_vec();
        let nonce = Nonce::assume_unique_for_key(nonce);
        let aad = Aad::from(place.authenticated());
        let length = if envelope == self.envelope {
            self.data.open_in_place(nonce, aad, &mut body).map(|plain| plain.len())
        } else {
            self.data_key(&envelope).ok_or_else(damaged)??.open_in_place(nonce, aad, &mut body).map(|plain| plain.len())
        };
        body.truncate(length.map_err(|_| damaged())?);
        Ok(body.into())
    }

    /// Whether the value is sealed, and needs no other key than the writing one.
    pub(crate) fn is_current(&self, value: &[u8]) -> bool {
        is_sealed(value) && value.get(MAGIC.len()..MAGIC.len() + ID_BYTES) == self.envelope.get(..ID_BYTES)
    }

    /// The data key in an envelope; none when the envelope is damaged.
    fn data_key(&self, envelope: &[u8; ENVELOPE]) -> Option<Result<Arc<LessSafeKey>, StoreError>> {
        let opened = self.opened.read().unwrap_or_else(PoisonError::into_inner).get(envelope).cloned();
        if let Some(opened) = opened {
            return Some(Ok(opened));
        }
        let (id, wrapped) = envelope.split_at(ID_BYTES);
        let Some(outer) = self.keys.get(id) else {
            let missing = StoreError::Unusable(format!(
                "a value is encrypted with key {}, which is not among the given ones ({}): add that key",
                hex::encode(id),
                self.ids.join(", ")
            ));
            return Some(Err(missing));
        };
        let (nonce, wrapped) = wrapped.split_at(NONCE_LEN);
        let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
        let mut bytes = wrapped.to_vec();
        let aad = Aad::from(<[u8; ID_BYTES]>::try_from(id).ok()?);
        let inner = Arc::new(key(outer.open_in_place(nonce, aad, &mut bytes).ok()?)?);
        let mut all = self.opened.write().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= REMEMBERED {
            all.clear();
        }
        all.insert(*envelope, inner.clone());
        Some(Ok(inner))
    }
}

/// Whether a value is a sealed one.
pub(crate) fn is_sealed(value: &[u8]) -> bool {
    value.starts_with(&MAGIC)
}

fn key(bytes: &[u8]) -> Option<LessSafeKey> {
    UnboundKey::new(&AES_256_GCM, bytes).ok().map(LessSafeKey::new)
}
