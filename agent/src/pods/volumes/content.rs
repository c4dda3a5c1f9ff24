//! Volumes whose content comes with the pod: ConfigMaps, Secrets, projected and downward values.
//!
//! They change all at once: the content is in a directory of its own, `..data` points at it, and a rename moves that link. A process
//! sees the old set or the new one.

use std::{
    collections::BTreeSet,
    fs, io,
    os::unix::fs::{PermissionsExt as _, chown, symlink},
    path::Path,
};

use sha2::{Digest as _, Sha256};
use vctl_api::agent::File;

use super::{super::env::Facts, sub_path::checked};
use crate::files;

/// Brings a volume to this content.
pub(super) fn write_files(dir: &Path, list: &[File], facts: &Facts, group: Option<i64>) -> io::Result<()> {
    fs::create_dir_all(dir)?;
    fs::set_permissions(dir, fs::Permissions::from_mode(0o755))?;
    let mut hash = Sha256::new();
    for file in list {
        hash.update(prost::Message::encode_to_vec(file));
    }
    let version = format!("..{}", &hex::encode(hash.finalize())[..24]);
    let old = fs::read_link(dir.join("..data")).ok();
    if old.as_deref() == Some(Path::new(&version)) {
        return Ok(());
    }
    let fresh = dir.join(&version);
    files::remove_tree(&fresh)?;
    fs::create_dir(&fresh)?;
    fs::set_permissions(&fresh, fs::Permissions::from_mode(0o755))?;
    let mut tops = BTreeSet::new();
    for file in list {
        let relative = checked(&file.path)?;
        let path = fresh.join(relative);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)?;
        }
        let content = if file.field_path.is_empty() {
            file.content.to_vec()
        } else {
            facts
                .field(&file.field_path)
                .ok_or_else(|| io::Error::other(format!("unknown field {}", file.field_path)))?
                .into_bytes()
        };
        fs::write(&path, content)?;
        let mut mode = if file.mode == 0 { 0o644 } else { file.mode };
        if let Some(group) = group {
            chown(&path, None, Some(group as u32))?;
            mode |= (mode & 0o400) >> 3;
        }
        fs::set_permissions(&path, fs::Permissions::from_mode(mode))?;
        tops.extend(relative.components().next().map(|c| c.as_os_str().to_owned()));
    }
    let link = dir.join("..data_tmp");
    let _ = fs::remove_file(&link);
    symlink(&version, &link)?;
    fs::rename(&link, dir.join("..data"))?;
    for top in &tops {
        let visible = dir.join(top);
        if fs::symlink_metadata(&visible).is_err() {
            symlink(Path::new("..data").join(top), &visible)?;
        }
    }
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let name = entry.file_name();
        if !name.to_string_lossy().starts_with("..") && !tops.contains(&name) {
            fs::remove_file(entry.path())?;
        }
    }
    match old {
        Some(old) => files::remove_tree(&dir.join(old)),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, content: &str) -> File {
        File { path: path.into(), content: content.as_bytes().to_vec().into(), ..File::default() }
    }

    #[test]
    fn contents_change_all_at_once_and_leave_nothing_behind() {
        let dir = tempfile::tempdir().unwrap();
        let volume = dir.path().join("v");
        let facts = Facts::default();
        write_files(&volume, &[file("a", "1"), file("d/b", "2")], &facts, None).unwrap();
        let read = |p: &str| fs::read_to_string(volume.join(p)).unwrap();
        assert_eq!((read("a"), read("d/b")), ("1".into(), "2".into()));
        let before = fs::read_link(volume.join("..data")).unwrap();
        write_files(&volume, &[file("a", "3")], &facts, None).unwrap();
        assert_eq!(read("a"), "3");
        assert!(!volume.join("d").exists() && !volume.join(before).exists());
        assert_eq!(fs::read_link(volume.join("a")).unwrap(), Path::new("..data/a"));
        assert!(
            write_files(&dir.path().join("w"), &[file("../e", "")], &facts, None).is_err(),
            "it stays in the volume"
        );
    }
}
