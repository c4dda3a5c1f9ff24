use std::{fmt, path::Path, process::Stdio, time::Duration};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use sha2::{Digest, Sha256};
use tokio::process::Command;

use crate::StoreError;

/// Bytes of a key of AES-256.
pub(super) const KEY_BYTES: usize = 32;
/// Bytes of a key's id.
pub(super) const ID_BYTES: usize = 8;

/// Keys that seal what is kept. The first one is used for writing, all of them for reading. They print as their ids.
#[derive(Clone)]
pub struct EncryptionKeys {
    pub(super) keys: Vec<Key>,
}

#[derive(Clone)]
pub(super) struct Key {
    pub(super) id: [u8; ID_BYTES],
    pub(super) bytes: [u8; KEY_BYTES],
}

impl Key {
    fn new(bytes: [u8; KEY_BYTES]) -> Self {
        let mut id = [0; ID_BYTES];
        // Tells keys apart, and says nothing about them.
        let digest = Sha256::new().chain_update(b"vctl encryption key id\0").chain_update(bytes).finalize();
        id.copy_from_slice(&digest[..ID_BYTES]);
        Self { id, bytes }
    }
}

impl EncryptionKeys {
    /// Keys as text: one a line, 32 bytes in base64 (`openssl rand -base64 32`); empty lines and lines that begin with `#` do not
    /// count. `source` is where they come from, for errors.
    ///
    /// # Errors
    /// [`StoreError::Unusable`] with the line that is no key, never with what stands there.
    pub fn parse(text: &str, source: &str) -> Result<Self, StoreError> {
        let mut keys: Vec<Key> = Vec::new();
        for (number, line) in text.lines().enumerate().map(|(n, line)| (n + 1, line.trim())) {
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let bytes = STANDARD.decode(line).ok().and_then(|b| <[u8; KEY_BYTES]>::try_from(b).ok());
            let Some(bytes) = bytes else {
                return Err(StoreError::Unusable(format!(
                    "line {number} of {source} is not a key: write {KEY_BYTES} bytes in base64, such as `openssl rand -base64 \
                     {KEY_BYTES}` prints"
                )));
            };
            let key = Key::new(bytes);
            if !keys.iter().any(|k| k.id == key.id) {
                keys.push(key);
            }
        }
        if keys.is_empty() {
            return Err(StoreError::Unusable(format!(
                "there is no key in {source}: make one with `openssl rand -base64 {KEY_BYTES}`"
            )));
        }
        Ok(Self { keys })
    }

    /// The keys in a file, which may be a pipe: it is waited for until somebody has written.
    ///
    /// # Errors
    /// [`StoreError::Unusable`] when it cannot be read, or holds something else.
    pub async fn from_file(path: &Path) -> Result<Self, StoreError> {
        let source = path.display().to_string();
        let text = tokio::fs::read_to_string(path).await.map_err(|e| {
            StoreError::Unusable(format!("cannot read the encryption key {source}: {e}; check --encryption-key-file"))
        })?;
        Self::parse(&text, &source)
    }

    /// The keys that a shell command prints on its standard output. It is ended when this is dropped.
    ///
    /// # Errors
    /// [`StoreError::Unusable`] when it fails, does not end within `limit`, or prints something else.
    pub async fn from_command(command: &str, limit: Duration) -> Result<Self, StoreError> {
        let failed = |reason: String| {
            StoreError::Unusable(format!(
                "the encryption key command failed ({reason}); check --encryption-key-command"
            ))
        };
        let mut shell = Command::new("/bin/sh");
        shell.args(["-c", command]).stdin(Stdio::null()).kill_on_drop(true);
        let output = tokio::time::timeout(limit, shell.output())
            .await
            .map_err(|_| failed(format!("it did not end within {} s: does it wait for somebody?", limit.as_secs())))?
            .map_err(|e| failed(e.to_string()))?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            let said = match said.trim() {
                "" => "it said nothing on standard error".to_owned(),
                said => format!("it said: {said}"),
            };
            return Err(failed(format!("{}; {said}", output.status)));
        }
        let text = String::from_utf8(output.stdout).map_err(|_| failed("it does not print text".to_owned()))?;
        Self::parse(&text, "the output of --encryption-key-command")
    }

    /// These, and then those.
    #[must_use]
    pub fn and(mut self, others: Self) -> Self {
        for key in others.keys {
            if !self.keys.iter().any(|k| k.id == key.id) {
                self.keys.push(key);
            }
        }
        self
    }

    /// Their ids, the writing one first: what errors and logs name them by.
    pub fn ids(&self) -> Vec<String> {
        self.keys.iter().map(|k| hex::encode(k.id)).collect()
    }
}

impl fmt::Debug for EncryptionKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("EncryptionKeys").field(&self.ids()).finish()
    }
}
