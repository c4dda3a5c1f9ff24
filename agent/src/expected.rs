//! The state the server expects, as it was last told: in memory, and on disk for the time the server is away.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use prost::Message;
use vctl_api::agent::{DnsRecord, ExpectedDns, ExpectedPods, ExpectedServices, Pod, Service};

use crate::{
    error::{AgentError, state},
    files,
};

/// One resource class: its generation and its members.
#[derive(Debug, Clone)]
pub(crate) struct Class<T> {
    pub(crate) generation: u64,
    pub(crate) members: BTreeMap<String, T>,
}

impl<T> Default for Class<T> {
    fn default() -> Self {
        Self { generation: 0, members: BTreeMap::new() }
    }
}

impl<T> Class<T> {
    /// Applies an update; false when a delta is not newer than what is known (a repetition).
    pub(crate) fn update(
        &mut self,
        generation: u64,
        full: bool,
        upsert: Vec<T>,
        removed: &[String],
        id: fn(&T) -> &str,
    ) -> bool {
        if !full && generation <= self.generation {
            return false;
        }
        if full {
            self.members.clear();
        }
        for gone in removed {
            self.members.remove(gone);
        }
        for member in upsert {
            self.members.insert(id(&member).to_owned(), member);
        }
        self.generation = generation;
        true
    }
}

/// All classes, and where they are kept.
pub(crate) struct Expected {
    dir: PathBuf,
    pub(crate) pods: Class<Pod>,
    pub(crate) services: Class<Service>,
    pub(crate) dns: Class<DnsRecord>,
}

fn load<M: Message + Default>(path: &Path) -> Result<M, AgentError> {
    match files::read_if_present(path).map_err(state("reading", path))? {
        None => Ok(M::default()),
        Some(content) => M::decode(content.as_slice()).map_err(|e| AgentError::State {
            what: "reading",
            path: path.display().to_string(),
            why: e.to_string(),
        }),
    }
}

impl Expected {
    /// Reads the last state of an earlier run.
    pub(crate) fn open(dir: PathBuf) -> Result<Self, AgentError> {
        fs::create_dir_all(&dir).map_err(state("creating", &dir))?;
        let mut this = Self { pods: Class::default(), services: Class::default(), dns: Class::default(), dir };
        let pods: ExpectedPods = load(&this.dir.join("pods.pb"))?;
        this.pods.update(pods.generation, true, pods.upsert, &[], |p| &p.uid);
        let services: ExpectedServices = load(&this.dir.join("services.pb"))?;
        this.services.update(services.generation, true, services.upsert, &[], |s| &s.id);
        let dns: ExpectedDns = load(&this.dir.join("dns.pb"))?;
        this.dns.update(dns.generation, true, dns.upsert, &[], |d| &d.id);
        Ok(this)
    }

    fn save(&self, file: &str, message: &impl Message) -> Result<(), AgentError> {
        let path = self.dir.join(file);
        files::replace(&path, &message.encode_to_vec(), 0o600).map_err(state("writing", &path))
    }

    pub(crate) fn save_pods(&self) -> Result<(), AgentError> {
        let upsert = self.pods.members.values().cloned().collect();
        self.save(
            "pods.pb",
            &ExpectedPods { generation: self.pods.generation, full: true, upsert, removed: Vec::new() },
        )
    }

    pub(crate) fn save_services(&self) -> Result<(), AgentError> {
        let upsert = self.services.members.values().cloned().collect();
        self.save(
            "services.pb",
            &ExpectedServices { generation: self.services.generation, full: true, upsert, removed: Vec::new() },
        )
    }

    pub(crate) fn save_dns(&self) -> Result<(), AgentError> {
        let upsert = self.dns.members.values().cloned().collect();
        self.save("dns.pb", &ExpectedDns { generation: self.dns.generation, full: true, upsert, removed: Vec::new() })
    }

    /// Generations applied, as `Hello` carries them.
    pub(crate) fn generations(&self) -> impl Iterator<Item = (String, u64)> {
        [("pods", self.pods.generation), ("services", self.services.generation), ("dns", self.dns.generation)]
            .into_iter()
            .filter(|(_, generation)| *generation > 0)
            .map(|(class, generation)| (class.to_owned(), generation))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(uid: &str) -> Pod {
        Pod { uid: uid.into(), ..Pod::default() }
    }

    #[test]
    fn deltas_merge_repetitions_are_ignored_and_a_full_state_replaces() {
        let dir = tempfile::tempdir().unwrap();
        let mut expected = Expected::open(dir.path().to_owned()).unwrap();
        assert!(expected.pods.update(3, true, vec![pod("a"), pod("b")], &[], |p| &p.uid));
        assert!(expected.pods.update(4, false, vec![pod("c")], &["a".into()], |p| &p.uid));
        assert!(!expected.pods.update(4, false, vec![pod("z")], &[], |p| &p.uid));
        assert_eq!(expected.pods.members.keys().collect::<Vec<_>>(), ["b", "c"]);
        expected.save_pods().unwrap();

        let mut again = Expected::open(dir.path().to_owned()).unwrap();
        assert_eq!((again.pods.generation, again.pods.members.len()), (4, 2));
        assert_eq!(again.generations().collect::<Vec<_>>(), [("pods".to_owned(), 4)]);
        assert!(again.pods.update(1, true, vec![pod("d")], &[], |p| &p.uid));
        assert_eq!(again.pods.members.keys().collect::<Vec<_>>(), ["d"]);
    }
}
