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
        let mut file = File::options()
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

pub(crate) fn io(verb: &str, path: &Path, error: &std::io::Error) -> StoreError {
    StoreError::backend(format!("cannot {verb} {}: {error}; check the directory and its permissions", path.display()))
}
