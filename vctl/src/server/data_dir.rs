//! The data directory: the one place where a server and its worker keep everything.

use std::{
    fs, io,
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result};
use sha2::{Digest as _, Sha256};

/// Longest path of a unix socket in bytes (`sockaddr_un` less its NUL).
const SOCKET_PATH_MAX: usize = 107;

/// Paths in a data directory.
#[derive(Debug, Clone)]
pub(crate) struct DataDir {
    root: PathBuf,
}

impl DataDir {
    /// The directory at this path; made (mode 0700) when it is not there.
    pub(crate) fn create(root: &Path) -> Result<Self> {
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(root)
            .with_context(|| format!("cannot make the data dir {}; choose another with --data-dir", root.display()))?;
        Self::open(root)
    }

    /// The directory at this path, which must be there.
    pub(crate) fn open(root: &Path) -> Result<Self> {
        let root = root.canonicalize().with_context(|| format!("cannot open the data dir {}", root.display()))?;
        Ok(Self { root })
    }

    /// Its path.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// By which local commands find the server.
    pub(crate) fn server_file(&self) -> PathBuf {
        self.root.join("server.json")
    }

    /// Removes what tells others about a running server. Nothing to remove is no error.
    pub(crate) fn withdraw(&self) -> Result<()> {
        for path in [self.server_file(), self.socket()] {
            remove_if_present(&path)?;
        }
        Ok(())
    }

    /// The administrator's token.
    pub(crate) fn token_file(&self) -> PathBuf {
        self.root.join("admin.token")
    }

    /// Certificates and keys of the server.
    pub(crate) fn pki(&self) -> PathBuf {
        self.root.join("pki")
    }

    /// Everything of the local worker.
    pub(crate) fn worker(&self) -> PathBuf {
        self.root.join("worker")
    }

    /// The socket by which a local agent reaches the server. Beside the data when that path is short enough for a socket, else in
    /// the directory for temporary files under a name derived from it.
    pub(crate) fn socket(&self) -> PathBuf {
        let beside = self.root.join("server.sock");
        if beside.as_os_str().len() <= SOCKET_PATH_MAX {
            return beside;
        }
        let digest = hex::encode(Sha256::digest(self.root.as_os_str().as_encoded_bytes()));
        std::env::temp_dir().join(format!("vctl-{}.sock", &digest[..16]))
    }
}

/// Writes a file that only its owner can read, whole or not at all.
pub(crate) fn write_private(path: &Path, content: &[u8]) -> Result<()> {
    use std::io::Write as _;
    let new = path.with_extension("new");
    let write = || -> io::Result<()> {
        let mut file = fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&new)?;
        file.write_all(content)?;
        file.sync_all()?;
        fs::rename(&new, path)
    };
    write().with_context(|| format!("cannot write {}", path.display()))
}

/// Removes a file; one that is not there is no error.
pub(crate) fn remove_if_present(path: &Path) -> Result<()> {
    match fs::remove_file(path) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => {
            Err(e).with_context(|| format!("cannot remove {}", path.display()))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn the_socket_path_always_fits() -> Result<()> {
        let dir = tempfile::tempdir()?;
        let deep = dir.path().join("d".repeat(90)).join("e".repeat(90));
        let data = DataDir::create(&deep)?;
        assert!(data.socket().as_os_str().len() <= SOCKET_PATH_MAX);
        assert_eq!(DataDir::create(dir.path())?.socket(), dir.path().canonicalize()?.join("server.sock"));
        Ok(())
    }

    #[test]
    fn private_files_are_private() -> Result<()> {
        let dir = tempfile::tempdir()?;
        let path = dir.path().join("key");
        write_private(&path, b"one")?;
        write_private(&path, b"two")?;
        assert_eq!(fs::read(&path)?, b"two");
        assert_eq!(fs::metadata(&path)?.permissions().mode() & 0o777, 0o600);
        Ok(())
    }
}
