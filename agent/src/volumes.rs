//! Volumes that outlive pods: directories below the worker's state, `volumes/ENVIRONMENT/HANDLE`.
//!
//! They are made when a pod first needs them and stay over restarts of pods, agent and machine. Only the server's word removes one
//! ([`remove`]); what it does not name is never touched. Their size is not limited.

use std::{
    fs, io,
    os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use vctl_api::agent::volume::Source;

use crate::{error::AgentError, error::state, files, reconcile::Reconciler};

/// How often it is looked whether the last pod has let go of a volume that is to be removed.
const LOOK: Duration = Duration::from_millis(250);
/// Where directories are while they are being removed. No environment has such a name.
const TRASH: &str = ".removed";

/// All of them.
#[derive(Debug, Clone)]
pub(crate) struct PersistentVolumes {
    root: PathBuf,
}

/// Whether a name is one file name that is not hidden.
fn is_plain(name: &str) -> bool {
    !name.is_empty()
        && name.len() <= 255
        && !name.starts_with('.')
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_'))
}

fn invalid(id: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, format!("{id:?} is no id of a volume: ENVIRONMENT/HANDLE"))
}

impl PersistentVolumes {
    pub(crate) fn new(state_dir: &Path) -> Self {
        Self { root: Self::root(state_dir) }
    }

    /// Where they are.
    pub(crate) fn root(state_dir: &Path) -> PathBuf {
        state_dir.join("volumes")
    }

    /// The directory of a volume.
    ///
    /// # Errors
    /// The id is not `ENVIRONMENT/HANDLE`.
    pub(crate) fn dir(&self, id: &str) -> io::Result<PathBuf> {
        match id.split_once('/') {
            Some((environment, handle)) if is_plain(environment) && is_plain(handle) => {
                Ok(self.root.join(environment).join(handle))
            }
            _ => Err(invalid(id)),
        }
    }

    /// Makes a volume if it is not there: open to all users, or (`group`) to a group that then owns what is made in it. What the
    /// containers have made of it later is left as it is.
    pub(crate) fn prepare(&self, id: &str, group: Option<i64>) -> io::Result<()> {
        let dir = self.dir(id)?;
        if !dir.exists() {
            let (Some(parent), Some(name)) = (dir.parent(), dir.file_name()) else { return Err(invalid(id)) };
            // Made beside it, so that it never is there with half of its permissions.
            let new = parent.join(format!(".{}.new", name.to_string_lossy()));
            fs::create_dir_all(&new)?;
            fs::set_permissions(&new, fs::Permissions::from_mode(0o777))?;
            fs::rename(&new, &dir)?;
        }
        let group = group.and_then(|g| u32::try_from(g).ok());
        if let Some(group) = group
            && fs::metadata(&dir)?.gid() != group
        {
            chown(&dir, None, Some(group))?;
            fs::set_permissions(&dir, fs::Permissions::from_mode(0o2777))?;
        }
        Ok(())
    }

    /// The environments that have volumes here.
    pub(crate) fn environments(&self) -> Vec<String> {
        let names = fs::read_dir(&self.root).into_iter().flatten().flatten();
        names.filter_map(|e| e.file_name().into_string().ok()).filter(|name| is_plain(name)).collect()
    }

    /// Removes what an id stands for: see `RemoveVolumes`. Fine when there is nothing.
    fn remove(&self, id: &str) -> io::Result<()> {
        let gone = if id.contains('/') {
            vec![self.dir(id)?]
        } else if is_plain(id) {
            let of = |environment: &String| is_of(environment, id);
            self.environments().iter().filter(|e| of(e)).map(|e| self.root.join(e)).collect()
        } else {
            return Err(invalid(id));
        };
        for dir in gone {
            let trash = self.root.join(TRASH);
            fs::create_dir_all(&trash)?;
            // Moved away first: a volume is there with all it has, or not at all.
            let away = trash.join(format!("{:016x}", rand::random::<u64>()));
            match fs::rename(&dir, &away) {
                Err(e) if e.kind() == io::ErrorKind::NotFound => {}
                other => other?,
            }
            if let Some(parent) = dir.parent().filter(|p| *p != self.root) {
                // Only the last one leaves an empty directory behind.
                let _ = fs::remove_dir(parent);
            }
        }
        files::remove_tree(&self.root.join(TRASH))
    }
}

/// Whether the volumes of an environment (`NAME.KEY`) are among those that an id without a handle stands for.
fn is_of(environment: &str, id: &str) -> bool {
    environment == id || environment.split_once('.').is_some_and(|(name, _)| name == id)
}

/// Whether a volume is among those that an id stands for.
fn is_among(volume: &str, id: &str) -> bool {
    volume == id || volume.split_once('/').is_some_and(|(environment, _)| is_of(environment, id))
}

/// Removes volumes for good, once no pod has them any more.
///
/// # Errors
/// The files cannot be removed; the server asks again.
pub(crate) async fn remove(
    volumes: &PersistentVolumes,
    reconciler: &Arc<Reconciler>,
    id: String,
) -> Result<(), AgentError> {
    let used = || {
        reconciler.handles().iter().any(|handle| {
            let view = handle.view.borrow();
            view.pod.volumes.iter().any(|v| matches!(&v.source, Some(Source::Persistent(of)) if is_among(of, &id)))
        })
    };
    while used() {
        tokio::time::sleep(LOOK).await;
    }
    let (volumes, what) = (volumes.clone(), id.clone());
    let removed = tokio::task::spawn_blocking(move || volumes.remove(&what)).await;
    let path = || PersistentVolumes::root(Path::new("")).join(&id);
    removed.map_err(io::Error::other).and_then(|done| done).map_err(|e| state("removing", &path())(e))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn volumes_stay_until_they_are_named() {
        let dir = tempfile::tempdir().unwrap();
        let volumes = PersistentVolumes::new(dir.path());
        let all = ["a.1/x", "a.1/y", "a.2/x", "b.1/x", "ab.1/x"];
        for id in all {
            volumes.prepare(id, None).unwrap();
            fs::write(volumes.dir(id).unwrap().join("f"), id).unwrap();
        }
        let left = || all.into_iter().filter(|id| volumes.dir(id).unwrap().join("f").exists()).collect::<Vec<_>>();
        let mode = |id: &str| fs::metadata(volumes.dir(id).unwrap()).unwrap().mode() & 0o7777;
        assert_eq!(mode("a.1/x"), 0o777);
        fs::set_permissions(volumes.dir("a.1/x").unwrap(), fs::Permissions::from_mode(0o700)).unwrap();
        volumes.prepare("a.1/x", None).unwrap();
        assert_eq!((mode("a.1/x"), left().len()), (0o700, 5), "what a container has made of it stays");

        volumes.remove("a.1/no").unwrap();
        assert_eq!(left().len(), 5);
        volumes.remove("a.1/y").unwrap();
        assert_eq!(left(), ["a.1/x", "a.2/x", "b.1/x", "ab.1/x"]);
        volumes.remove("a.2").unwrap();
        assert_eq!(left(), ["a.1/x", "b.1/x", "ab.1/x"]);
        volumes.remove("a").unwrap();
        assert_eq!(left(), ["b.1/x", "ab.1/x"]);
        let mut environments = volumes.environments();
        environments.sort();
        assert_eq!(environments, ["ab.1", "b.1"]);
        for id in ["", ".", "..", "a.1/..", "a.1/", "/x", "a.1/x/y", "../a", "a.1/.hidden"] {
            assert!(volumes.dir(id).is_err(), "{id:?}");
        }
        assert!(volumes.remove("..").is_err() && volumes.remove("").is_err());
        assert!(is_among("a.1/x", "a") && is_among("a.1/x", "a.1") && is_among("a.1/x", "a.1/x"));
        assert!(!is_among("ab.1/x", "a") && !is_among("a.1/x", "a.1/y") && !is_among("a.1/x", "a.2"));
    }
}
