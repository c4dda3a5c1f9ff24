//! Tenants as a stream of bytes: what `vctl snapshot` writes and `vctl restore` reads.
//!
//! A line says what it is and in which version; frames follow (one byte of kind, four of length, the content), and the last one is the
//! SHA-256 of everything before it. So a stream that was cut short, continued or changed is recognised before anything is done
//! with it. Values are as the API server wrote them, not encrypted: keep the file as safe as the store itself.

#[cfg(test)]
mod tests;

use bytes::{BufMut, Bytes, BytesMut};
use sha2::{Digest, Sha256};

use crate::{Entry, Export, Key, Revision, Write};

/// The first line, with the version of the format.
const HEADER: &[u8] = b"vctl-backup 1\n";
/// What the first line of every version begins with.
const ANY_HEADER: &[u8] = b"vctl-backup ";

/// Kinds of frames.
const TENANT: u8 = b't';
const DOCUMENT: u8 = b'd';
const END: u8 = b'e';

/// Pieces of a stream are about so long.
const PIECE: usize = 256 << 10;

/// Why a backup cannot be read. Nothing has been done with it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BackupError {
    /// Something else.
    #[error("this is not a backup of vctl: give a file that `vctl snapshot` or `vctl backup` wrote")]
    Foreign,
    /// A version that this program does not know.
    #[error(
        "this backup has format {0:?}, which this vctl does not know (it knows 1): use the vctl that wrote it, or a newer one"
    )]
    Version(String),
    /// It ends too early.
    #[error("this backup is cut short after {0} bytes: copy it again, or take another one")]
    Truncated(usize),
    /// It was changed.
    #[error("this backup is damaged ({0}): copy it again, or take another one")]
    Damaged(&'static str),
}

/// A tenant in a backup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TenantBackup {
    /// Its name; empty for [`crate::Tenant::SYSTEM`].
    pub name: String,
    /// Its documents, and the revision at which they were read.
    pub export: Export,
}

impl TenantBackup {
    /// What writes its documents into an empty tenant.
    pub fn writes(&self) -> Vec<Write> {
        self.export.entries.iter().map(|e| Write::create(e.key.clone(), e.value.clone())).collect()
    }
}

/// A backup that has been read and found whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Backup {
    /// Its tenants, in the order in which they were written.
    pub tenants: Vec<TenantBackup>,
}

impl Backup {
    /// Names of the virtual clusters in it.
    pub fn names(&self) -> Vec<&str> {
        self.tenants.iter().map(|t| t.name.as_str()).filter(|name| !name.is_empty()).collect()
    }

    /// It with one virtual cluster only, and what the platform knows.
    #[must_use]
    pub fn only(mut self, name: &str) -> Self {
        self.tenants.retain(|t| t.name.is_empty() || t.name == name);
        self
    }

    /// As bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut encoder = BackupEncoder::new();
        let mut bytes: Vec<u8> = self.tenants.iter().flat_map(|t| encoder.tenant(t)).flatten().collect();
        bytes.extend(encoder.finish());
        bytes
    }
}

/// Writes a backup piece by piece.
pub struct BackupEncoder {
    buffer: BytesMut,
    digest: Sha256,
}

impl Default for BackupEncoder {
    fn default() -> Self {
        Self::new()
    }
}

impl BackupEncoder {
    /// A backup without a tenant yet.
    pub fn new() -> Self {
        Self { buffer: BytesMut::from(HEADER), digest: Sha256::new() }
    }

    /// Adds a tenant. Returns what is to be written now.
    pub fn tenant(&mut self, tenant: &TenantBackup) -> Vec<Bytes> {
        let mut done = Vec::new();
        let mut head = BytesMut::new();
        head.put_u64_le(tenant.export.revision);
        head.put_slice(tenant.name.as_bytes());
        self.frame(TENANT, &[&head]);
        for entry in &tenant.export.entries {
            let Key { resource, namespace, name } = &entry.key;
            let mut head = BytesMut::with_capacity(28 + resource.len() + namespace.len() + name.len());
            head.put_u64_le(entry.revision);
            head.put_u64_le(entry.created);
            for part in [resource, namespace, name] {
                head.put_u32_le(part.len() as u32);
                head.put_slice(part.as_bytes());
            }
            self.frame(DOCUMENT, &[&head, &entry.value]);
            if self.buffer.len() >= PIECE {
                done.push(self.piece());
            }
        }
        done
    }

    /// The end of the stream.
    pub fn finish(mut self) -> Bytes {
        let before = self.piece();
        let digest: [u8; 32] = self.digest.clone().finalize().into();
        self.frame(END, &[&digest]);
        [before, self.buffer.freeze()].concat().into()
    }

    fn frame(&mut self, kind: u8, parts: &[&[u8]]) {
        self.buffer.put_u8(kind);
        self.buffer.put_u32_le(parts.iter().map(|p| p.len()).sum::<usize>() as u32);
        for part in parts {
            self.buffer.put_slice(part);
        }
    }

    fn piece(&mut self) -> Bytes {
        let piece = self.buffer.split().freeze();
        self.digest.update(&piece);
        piece
    }
}

impl Backup {
    /// Reads a whole backup.
    ///
    /// # Errors
    /// [`BackupError`] when it is not one, not whole, or changed.
    pub fn decode(bytes: &Bytes) -> Result<Self, BackupError> {
        if !bytes.starts_with(HEADER) {
            let Some(rest) = bytes.strip_prefix(ANY_HEADER) else {
                // A beginning of the line is what is left of a backup.
                let cut = !bytes.is_empty() && HEADER.starts_with(bytes);
                return Err(if cut { BackupError::Truncated(bytes.len()) } else { BackupError::Foreign });
            };
            let Some(end) = rest.iter().take(32).position(|b| *b == b'\n') else {
                return Err(if rest.len() < 32 { BackupError::Truncated(bytes.len()) } else { BackupError::Foreign });
            };
            return Err(BackupError::Version(String::from_utf8_lossy(&rest[..end]).into_owned()));
        }
        let mut tenants: Vec<TenantBackup> = Vec::new();
        let mut position = HEADER.len();
        loop {
            let start = position;
            let truncated = || BackupError::Truncated(bytes.len());
            let kind = *bytes.get(position).ok_or_else(truncated)?;
            if ![TENANT, DOCUMENT, END].contains(&kind) {
                return Err(BackupError::Damaged("there is an unknown frame"));
            }
            let mut content = bytes.slice(position + 1..);
            let length = number(&mut content).ok_or_else(truncated)? as usize;
            if content.len() < length {
                return Err(truncated());
            }
            content.truncate(length);
            position += 5 + length;
            match kind {
                TENANT => tenants.push(tenant(content)?),
                DOCUMENT => {
                    let tenant = tenants.last_mut().ok_or(BackupError::Damaged("a document belongs to no cluster"))?;
                    tenant.export.entries.push(document(content)?);
                }
                _ => {
                    if Sha256::digest(&bytes[..start])[..] != content[..] {
                        return Err(BackupError::Damaged("its checksum does not fit"));
                    }
                    if position < bytes.len() {
                        return Err(BackupError::Damaged("something follows its end"));
                    }
                    return Ok(Self { tenants });
                }
            }
        }
    }
}

const SHORT: BackupError = BackupError::Damaged("a frame is too short");

fn tenant(mut content: Bytes) -> Result<TenantBackup, BackupError> {
    let revision = long(&mut content).ok_or(SHORT)?;
    let name = text(content)?;
    Ok(TenantBackup { name, export: Export { revision, entries: Vec::new() } })
}

fn document(mut content: Bytes) -> Result<Entry, BackupError> {
    let revision: Revision = long(&mut content).ok_or(SHORT)?;
    let created = long(&mut content).ok_or(SHORT)?;
    let mut part = || {
        let length = number(&mut content).ok_or(SHORT)? as usize;
        if content.len() < length {
            return Err(SHORT);
        }
        text(content.split_to(length))
    };
    let (resource, namespace, name) = (part()?, part()?, part()?);
    Ok(Entry { key: Key::new(&resource, &namespace, &name), revision, created, value: content })
}

fn text(bytes: Bytes) -> Result<String, BackupError> {
    String::from_utf8(bytes.into()).map_err(|_| BackupError::Damaged("a name is not UTF-8"))
}

fn number(content: &mut Bytes) -> Option<u32> {
    let bytes = (content.len() >= 4).then(|| content.split_to(4))?;
    bytes[..].try_into().ok().map(u32::from_le_bytes)
}

fn long(content: &mut Bytes) -> Option<u64> {
    let bytes = (content.len() >= 8).then(|| content.split_to(8))?;
    bytes[..].try_into().ok().map(u64::from_le_bytes)
}
