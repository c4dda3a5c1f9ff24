//! Volumes of a pod: set up before its containers start, mounted into them, taken down after them.

mod content;
mod etc;
mod sub_path;

use std::{
    fs, io,
    os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown},
    path::{Path, PathBuf},
};

use nix::mount::{MntFlags, MsFlags, mount, umount2};
use sha2::{Digest as _, Sha256};
use vctl_api::agent::{Container, Pod, Volume, volume::Source};

use super::env::{Facts, expand, variables};
use crate::volumes::PersistentVolumes;
use content::write_files;
pub(crate) use etc::write_etc;
use sub_path::{below, pin, release};

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
    pub(crate) persistent: &'a PersistentVolumes,
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
            // The server has said it in whole.
            if !volume.error.is_empty() {
                return Err(volume.error.clone());
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
            Some(Source::Persistent(id)) => self.persistent.prepare(id, group),
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
                Some(Source::Persistent(id)) => (self.persistent.dir(id).map_err(|e| e.to_string())?, false),
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

fn share(dir: &Path, group: Option<i64>) -> io::Result<()> {
    match group {
        None => fs::set_permissions(dir, fs::Permissions::from_mode(0o777)),
        Some(group) => {
            chown(dir, None, Some(group as u32))?;
            fs::set_permissions(dir, fs::Permissions::from_mode(0o2777))
        }
    }
}
