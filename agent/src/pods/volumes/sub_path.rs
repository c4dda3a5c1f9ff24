//! `subPath`: a place inside a volume, which its containers must not be able to lead elsewhere.

use std::{
    fs, io,
    os::fd::{AsRawFd as _, OwnedFd},
    path::{Component, Path, PathBuf},
};

use nix::{
    errno::Errno,
    fcntl::{OFlag, OpenHow, ResolveFlag, openat2},
    mount::{MntFlags, MsFlags, mount, umount2},
    sys::stat::{Mode, mkdirat},
};

/// A relative path without `..`.
pub(super) fn checked(path: &str) -> io::Result<&Path> {
    let path = Path::new(path);
    if path.as_os_str().is_empty() || !path.components().all(|c| matches!(c, Component::Normal(_))) {
        return Err(io::Error::other("the path must be relative and must not contain '..'"));
    }
    Ok(path)
}

/// Opens a path below a root without ever leaving it, whatever links the containers of the pod put in its place at the same moment:
/// the kernel checks while it walks. What is opened stays the same one when the path is changed later, so this, not the path, is
/// what to mount.
pub(super) fn below(root: &Path, sub: &str, create: bool) -> io::Result<OwnedFd> {
    let root = fs::File::open(root)?;
    let how = OpenHow::new()
        .flags(OFlag::O_PATH | OFlag::O_CLOEXEC)
        .resolve(ResolveFlag::RESOLVE_BENEATH | ResolveFlag::RESOLVE_NO_MAGICLINKS);
    let open = |path: &Path| match openat2(&root, path, how) {
        Err(Errno::EXDEV) => Err(io::Error::other("it leads out of the volume")),
        other => other.map_err(io::Error::from),
    };
    let sub = checked(sub)?;
    match open(sub) {
        Err(e) if create && e.kind() == io::ErrorKind::NotFound => {}
        other => return other,
    }
    let (mut parent, mut path) = (open(Path::new("."))?, PathBuf::new());
    for name in sub.components() {
        path.push(name);
        parent = match open(&path) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                match mkdirat(&parent, name.as_os_str(), Mode::from_bits_truncate(0o755)) {
                    Ok(()) | Err(Errno::EEXIST) => open(&path)?,
                    Err(e) => return Err(e.into()),
                }
            }
            other => other?,
        };
    }
    Ok(parent)
}

/// Mounts what is held at a place that no container can change.
pub(super) fn pin(held: &OwnedFd, place: &Path) -> io::Result<()> {
    release(place)?;
    if let Some(parent) = place.parent() {
        fs::create_dir_all(parent)?;
    }
    let source = PathBuf::from(format!("/proc/self/fd/{}", held.as_raw_fd()));
    if fs::metadata(&source)?.is_dir() {
        fs::create_dir(place)?;
    } else {
        fs::File::create(place)?;
    }
    Ok(mount(Some(&source), place, None::<&str>, MsFlags::MS_BIND, None::<&str>)?)
}

/// Takes away what [`pin`] has made, if it is there; never what was mounted.
pub(super) fn release(place: &Path) -> io::Result<()> {
    let there = match fs::symlink_metadata(place) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
        other => other?,
    };
    match umount2(place, MntFlags::MNT_DETACH | MntFlags::UMOUNT_NOFOLLOW) {
        // It is no mount: the agent ended in between.
        Ok(()) | Err(Errno::EINVAL) => {}
        Err(e) => return Err(e.into()),
    }
    if there.is_dir() { fs::remove_dir(place) } else { fs::remove_file(place) }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn paths_cannot_lead_out_of_a_volume() {
        let dir = tempfile::tempdir().unwrap();
        let (root, outside) = (dir.path().join("root"), dir.path().join("outside"));
        for dir in [&root, &outside] {
            fs::create_dir(dir).unwrap();
        }
        symlink("/etc", root.join("link")).unwrap();
        symlink("../outside", root.join("up")).unwrap();
        symlink("inner", root.join("inside")).unwrap();
        for sub in ["../x", "/etc", "link/passwd", "link", "up", "up/new", "up/new/deep", ""] {
            assert!(below(&root, sub, false).is_err() && below(&root, sub, true).is_err(), "{sub}");
        }
        assert_eq!(fs::read_dir(&outside).unwrap().count(), 0, "nothing is made outside");
        for sub in ["new/deep", "inner", "inside/more"] {
            let held = below(&root, sub, true).unwrap();
            let real = fs::read_link(format!("/proc/self/fd/{}", held.as_raw_fd())).unwrap();
            assert_eq!(real, root.join(sub).canonicalize().unwrap());
        }
        // What was opened stays what it is, also when a container puts a link in its place.
        let held = below(&root, "new/deep", false).unwrap();
        fs::rename(root.join("new"), root.join("old")).unwrap();
        symlink("/", root.join("new")).unwrap();
        let real = fs::read_link(format!("/proc/self/fd/{}", held.as_raw_fd())).unwrap();
        assert_eq!(real, root.canonicalize().unwrap().join("old/deep"));
    }
}
