use std::{
    fs::{self, File, TryLockError},
    io::{Read, Seek, SeekFrom, Write},
    path::Path,
};

use crate::StoreError;

/// A data directory is one process's at a time: the holder of the lock on `vctl.lock` in it. It is given up by the system when
/// the process ends, however it ends.
#[derive(Debug)]
pub struct DirectoryLock(File);

impl DirectoryLock {
    /// Takes a directory for this process; makes it (mode 0700) when it is not there.
    ///
    /// # Errors
    /// [`StoreError::Locked`] when another process has it, [`StoreError::Backend`] when it cannot be made or written.
    pub fn take(directory: &Path) -> Result<Self, StoreError> {
        create_directory(directory)?;
        let path = directory.join("vctl.lock");
        let mut file = private()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)
            .map_err(|e| io("open", &path, &e))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut holder = String::new();
                // Who holds it writes its process id into it; without that the message is only less helpful.
                let holder = match file.read_to_string(&mut holder) {
                    Ok(_) if !holder.trim().is_empty() => format!("process {}", holder.trim()),
                    _ => "another process".to_owned(),
                };
                return Err(StoreError::Locked(format!(
                    "{} is in use by {holder}; stop that server first, or use another --data-dir",
                    directory.display()
                )));
            }
            Err(TryLockError::Error(e)) => return Err(io("lock", &path, &e)),
        }
        file.set_len(0)
            .and_then(|()| file.seek(SeekFrom::Start(0)))
            .and_then(|_| writeln!(file, "{}", std::process::id()))
            .map_err(|e| io("write", &path, &e))?;
        Ok(Self(file))
    }

    /// The process that has a directory; none when nobody has it.
    ///
    /// # Errors
    /// [`StoreError::Backend`] when that cannot be told.
    pub fn holder(directory: &Path) -> Result<Option<u32>, StoreError> {
        let path = directory.join("vctl.lock");
        let mut file = match File::open(&path) {
            Ok(file) => file,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(io("open", &path, &e)),
        };
        match file.try_lock() {
            Ok(()) => file.unlock().map(|()| None).map_err(|e| io("unlock", &path, &e)),
            Err(TryLockError::WouldBlock) => {
                let mut holder = String::new();
                file.read_to_string(&mut holder).map_err(|e| io("read", &path, &e))?;
                let unknown =
                    |_| StoreError::backend(format!("{} is locked, and does not say by which process", path.display()));
                holder.trim().parse().map(Some).map_err(unknown)
            }
            Err(TryLockError::Error(e)) => Err(io("lock", &path, &e)),
        }
    }

    /// Gives the directory up. This is more than dropping it: a process that is just being forked has a copy of the open file until it
    /// executes its program.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn release(self) -> std::io::Result<()> {
        self.0.unlock()
    }
}

fn create_directory(directory: &Path) -> Result<(), StoreError> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::DirBuilderExt;
        // Secrets are in it.
        builder.mode(0o700);
    }
    builder.create(directory).map_err(|e| io("create", directory, &e))
}

/// How files are opened that only their owner may read, also in a directory that others may enter.
pub(crate) fn private() -> fs::OpenOptions {
    let mut options = File::options();
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

/// Closes a file to others than its owner. One that is not there is no error.
pub(crate) fn close_to_others(path: &Path) -> Result<(), StoreError> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let mode = match fs::metadata(path) {
            Ok(found) => found.permissions().mode(),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(()),
            Err(e) => return Err(io("look at", path, &e)),
        };
        if mode & 0o077 != 0 {
            tracing::warn!(path = %path.display(), "others could read this file; closing it to them");
            fs::set_permissions(path, fs::Permissions::from_mode(0o600)).map_err(|e| io("restrict", path, &e))?;
        }
    }
    Ok(())
}

pub(crate) fn io(verb: &str, path: &Path, error: &std::io::Error) -> StoreError {
    StoreError::backend(format!("cannot {verb} {}: {error}; check the directory and its permissions", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_says_who_has_it() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(DirectoryLock::holder(dir.path()).unwrap(), None, "never used");
        let lock = DirectoryLock::take(dir.path()).unwrap();
        assert_eq!(DirectoryLock::holder(dir.path()).unwrap(), Some(std::process::id()));
        assert!(matches!(DirectoryLock::take(dir.path()), Err(StoreError::Locked(_))));
        lock.release().unwrap();
        assert_eq!(DirectoryLock::holder(dir.path()).unwrap(), None, "given up");
    }
}
