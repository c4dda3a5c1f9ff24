//! Volumes and the files every pod gets: /etc/hosts, /etc/resolv.conf.
//!
//! ConfigMap, Secret, projected and downward volumes change all at once: the content is in a directory of its own, `..data` points at it,
//! and a rename moves that link. A process sees the old set or the new one.

use std::{
    collections::BTreeSet,
    fmt::Write as _,
    fs, io,
    os::{
        fd::{AsRawFd as _, OwnedFd},
        unix::fs::{MetadataExt as _, PermissionsExt as _, chown, symlink},
    },
    path::{Component, Path, PathBuf},
};

use nix::{
    errno::Errno,
    fcntl::{OFlag, OpenHow, ResolveFlag, openat2},
    mount::{MntFlags, MsFlags, mount, umount2},
    sys::stat::{Mode, mkdirat},
};
use sha2::{Digest as _, Sha256};
use vctl_api::agent::{Container, File, Pod, Volume, volume::Source};

use super::env::{Facts, expand, variables};
use crate::files;

/// A number that changes when the contents of any volume do.
pub(crate) fn fingerprint(pod: &Pod) -> u64 {
    let mut hash = Sha256::new();
    for volume in &pod.volumes {
        hash.update(prost::Message::encode_to_vec(volume));
    }
    let bytes: [u8; 32] = hash.finalize().into();
    bytes.iter().take(8).fold(0, |n, b| n << 8 | u64::from(*b))
}

/// What is mounted into a container.
#[derive(Default)]
pub(crate) struct Mounts {
    /// Source, destination, read-only.
    pub(crate) list: Vec<(PathBuf, String, bool)>,
    /// Sources that are mounts of what `subPath` says. To be kept until the container has started, which has mounts of its own then.
    pinned: Vec<PathBuf>,
}

impl Drop for Mounts {
    fn drop(&mut self) {
        for place in &self.pinned {
            if let Err(error) = release(place) {
                tracing::warn!(place = %place.display(), %error, "a mount for a container cannot be removed");
            }
        }
    }
}

/// Where a pod's volumes are.
pub(crate) struct Volumes<'a> {
    pub(crate) pod_dir: &'a Path,
    pub(crate) persistent_dir: &'a Path,
}

impl Volumes<'_> {
    fn dir(&self, name: &str) -> PathBuf {
        self.pod_dir.join("volumes").join(name)
    }

    /// Brings all volumes to what is expected.
    ///
    /// # Errors
    /// What to tell the user; the pod waits.
    pub(crate) fn sync(&self, pod: &Pod, facts: &Facts) -> Result<(), String> {
        let group = pod.security.as_ref().and_then(|s| s.fs_group);
        for volume in &pod.volumes {
            let failed = |why: String| format!("MountVolume.SetUp failed for volume \"{}\" : {why}", volume.name);
            if !volume.error.is_empty() {
                return Err(failed(volume.error.clone()));
            }
            self.sync_one(volume, facts, group).map_err(|e| failed(e.to_string()))?;
        }
        Ok(())
    }

    fn sync_one(&self, volume: &Volume, facts: &Facts, group: Option<i64>) -> io::Result<()> {
        let dir = self.dir(&volume.name);
        match &volume.source {
            Some(Source::Files(content)) => write_files(&dir, &content.files, facts, group),
            Some(Source::EmptyDir(empty)) => {
                fs::create_dir_all(&dir)?;
                if empty.memory && !is_mount(&dir)? {
                    let options = empty.size_limit_bytes.map(|b| format!("size={b}"));
                    mount(
                        Some("tmpfs"),
                        &dir,
                        Some("tmpfs"),
                        MsFlags::MS_NOSUID | MsFlags::MS_NODEV,
                        options.as_deref(),
                    )?;
                }
                share(&dir, group)
            }
            Some(Source::Persistent(id)) => {
                let dir = self.persistent_dir.join(checked(id)?);
                fs::create_dir_all(&dir)?;
                share(&dir, group)
            }
            Some(Source::HostPath(path)) if Path::new(path).is_absolute() => {
                if Path::new(path).exists() {
                    Ok(())
                } else {
                    fs::create_dir_all(path)
                }
            }
            Some(Source::HostPath(_)) => Err(io::Error::other("hostPath must be absolute")),
            None => Err(io::Error::other("this kind of volume is not supported by Podman workers")),
        }
    }

    /// What to mount into a container.
    pub(crate) fn mounts(&self, pod: &Pod, container: &Container, facts: &Facts) -> Result<Mounts, String> {
        let variables = variables(&container.env, facts)?;
        let mut all = Mounts::default();
        for wanted in &container.mounts {
            let volume = pod
                .volumes
                .iter()
                .find(|v| v.name == wanted.volume)
                .ok_or_else(|| format!("volume {} is not defined", wanted.volume))?;
            let (root, fixed) = match &volume.source {
                Some(Source::HostPath(path)) => (PathBuf::from(path), false),
                Some(Source::Persistent(id)) => (self.persistent_dir.join(id), false),
                Some(Source::Files(_)) => (self.dir(&volume.name), true),
                _ => (self.dir(&volume.name), false),
            };
            let sub = if wanted.sub_path_expr.is_empty() {
                wanted.sub_path.clone()
            } else {
                expand(&wanted.sub_path_expr, &variables)
            };
            if sub.contains("$(") && !wanted.sub_path_expr.is_empty() {
                return Err(format!("subPathExpr {:?} refers to a variable that is not defined", wanted.sub_path_expr));
            }
            let source = if sub.is_empty() {
                root
            } else {
                let held = below(&root, &sub, !fixed)
                    .map_err(|e| format!("subPath {sub:?} of volume {}: {e}", volume.name))?;
                let place = self.pod_dir.join("mounts").join(format!("{}-{}", container.name, all.pinned.len()));
                pin(&held, &place).map_err(|e| format!("subPath {sub:?} of volume {}: {e}", volume.name))?;
                all.pinned.push(place.clone());
                place
            };
            all.list.push((source, wanted.mount_path.clone(), wanted.read_only || fixed));
        }
        Ok(all)
    }

    /// Unmounts memory volumes; everything else goes with the pod's directory.
    pub(crate) fn unmount(&self) -> io::Result<()> {
        for entry in fs::read_dir(self.pod_dir.join("volumes")).into_iter().flatten() {
            let dir = entry?.path();
            if is_mount(&dir)? {
                umount2(&dir, MntFlags::MNT_DETACH)?;
            }
        }
        for entry in fs::read_dir(self.pod_dir.join("mounts")).into_iter().flatten() {
            release(&entry?.path())?;
        }
        Ok(())
    }
}

fn is_mount(dir: &Path) -> io::Result<bool> {
    let parent = dir.parent().unwrap_or(dir);
    Ok(fs::symlink_metadata(dir)?.dev() != fs::symlink_metadata(parent)?.dev())
}

/// A relative path without `..`.
fn checked(path: &str) -> io::Result<&Path> {
    let path = Path::new(path);
    if path.as_os_str().is_empty() || !path.components().all(|c| matches!(c, Component::Normal(_))) {
        return Err(io::Error::other("the path must be relative and must not contain '..'"));
    }
    Ok(path)
}

/// Opens a path below a root without ever leaving it, whatever links the containers of the pod put in its place at the same moment:
/// the kernel checks while it walks. What is opened stays the same one when the path is changed later, so this, not the path, is
/// what to mount.
fn below(root: &Path, sub: &str, create: bool) -> io::Result<OwnedFd> {
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
fn pin(held: &OwnedFd, place: &Path) -> io::Result<()> {
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
fn release(place: &Path) -> io::Result<()> {
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

fn share(dir: &Path, group: Option<i64>) -> io::Result<()> {
    match group {
        None => fs::set_permissions(dir, fs::Permissions::from_mode(0o777)),
        Some(group) => {
            chown(dir, None, Some(group as u32))?;
            fs::set_permissions(dir, fs::Permissions::from_mode(0o2777))
        }
    }
}

fn write_files(dir: &Path, list: &[File], facts: &Facts, group: Option<i64>) -> io::Result<()> {
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

/// Writes /etc/hosts and /etc/resolv.conf of a pod; in place, because they are mounted into its containers.
pub(crate) fn write_etc(etc: &Path, pod: &Pod, facts: &Facts) -> io::Result<()> {
    fs::create_dir_all(etc)?;
    let mut hosts = String::from(
        "# Kubernetes-managed hosts file.\n127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n",
    );
    let hostname = if pod.hostname.is_empty() { &pod.name } else { &pod.hostname };
    if let Some(ip) = facts.pod_ip {
        let domain = pod.dns.as_ref().and_then(|d| d.searches.first());
        match domain.filter(|_| !pod.subdomain.is_empty()) {
            Some(domain) => {
                let _ = writeln!(hosts, "{ip}\t{hostname}.{}.{domain}\t{hostname}", pod.subdomain);
            }
            None => {
                let _ = writeln!(hosts, "{ip}\t{hostname}");
            }
        }
    }
    for alias in &pod.host_aliases {
        let _ = writeln!(hosts, "{}\t{}", alias.ip, alias.hostnames.join("\t"));
    }
    let dns = pod.dns.clone().unwrap_or_default();
    let mut resolv = String::new();
    if dns.nameservers.is_empty() {
        let _ = writeln!(resolv, "nameserver {}", facts.host_ip);
    }
    for server in &dns.nameservers {
        let _ = writeln!(resolv, "nameserver {server}");
    }
    if !dns.searches.is_empty() {
        let _ = writeln!(resolv, "search {}", dns.searches.join(" "));
    }
    if !dns.options.is_empty() {
        let _ = writeln!(resolv, "options {}", dns.options.join(" "));
    }
    fs::write(etc.join("hosts"), hosts)?;
    fs::write(etc.join("resolv.conf"), resolv)
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
    }

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
        assert!(write_files(&dir.path().join("v"), &[file("../e", "")], &Facts::default(), None).is_err());
    }
}
