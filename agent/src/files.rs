//! Files that are either the old or the new one, also after a crash.

use std::{fs, io, io::Read as _, io::Write as _, os::unix::fs::OpenOptionsExt as _, path::Path};

/// Replaces a file: written beside it, synced, renamed.
pub(crate) fn replace(path: &Path, content: &[u8], mode: u32) -> io::Result<()> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".new");
    let beside = path.with_file_name(name);
    let mut file = fs::OpenOptions::new().write(true).create(true).truncate(true).mode(mode).open(&beside)?;
    file.write_all(content)?;
    file.sync_data()?;
    fs::rename(&beside, path)
}

/// Reads a file; none when it is not there.
pub(crate) fn read_if_present(path: &Path) -> io::Result<Option<Vec<u8>>> {
    match fs::read(path) {
        Ok(content) => Ok(Some(content)),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(e),
    }
}

/// Reads at most so many bytes of a file.
pub(crate) fn read_start(path: &Path, limit: usize) -> io::Result<Vec<u8>> {
    let mut content = Vec::new();
    fs::File::open(path)?.take(limit as u64).read_to_end(&mut content)?;
    Ok(content)
}

/// Removes a directory and all below; fine when it is not there.
pub(crate) fn remove_tree(path: &Path) -> io::Result<()> {
    match fs::remove_dir_all(path) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e),
        _ => Ok(()),
    }
}
