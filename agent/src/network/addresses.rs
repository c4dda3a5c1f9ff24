//! Which pod has which address, durably, and without giving a freed address out again soon.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::Ipv4Addr,
    path::PathBuf,
};

use serde::{Deserialize, Serialize};

use crate::{
    config::PodCidr,
    error::{AgentError, state},
    files,
};

#[derive(Default, Serialize, Deserialize)]
struct Content {
    last: Option<Ipv4Addr>,
    pods: BTreeMap<String, Ipv4Addr>,
}

/// The register, in a file.
pub(crate) struct Addresses {
    path: PathBuf,
    cidr: PodCidr,
    content: Content,
}

impl Addresses {
    pub(crate) fn open(path: PathBuf, cidr: PodCidr) -> Result<Self, AgentError> {
        let mut content: Content = match files::read_if_present(&path).map_err(state("reading", &path))? {
            None => Content::default(),
            Some(bytes) => serde_json::from_slice(&bytes).map_err(|e| AgentError::State {
                what: "reading",
                path: path.display().to_string(),
                why: e.to_string(),
            })?,
        };
        // After the range has been changed, pods get new addresses.
        content.pods.retain(|_, ip| cidr.contains(*ip));
        Ok(Self { path, cidr, content })
    }

    pub(crate) fn get(&self, uid: &str) -> Option<Ipv4Addr> {
        self.content.pods.get(uid).copied()
    }

    /// The pod's address; a new one follows the last one given out.
    pub(crate) fn allocate(&mut self, uid: &str) -> Result<Ipv4Addr, AgentError> {
        if let Some(ip) = self.get(uid) {
            return Ok(ip);
        }
        let taken: BTreeSet<Ipv4Addr> = self.content.pods.values().copied().collect();
        let after = self.content.last.map_or(0, u32::from);
        let free = |ip: &Ipv4Addr| !taken.contains(ip);
        let ip = self
            .cidr
            .pod_addresses()
            .filter(|ip| u32::from(*ip) > after)
            .find(free)
            .or_else(|| self.cidr.pod_addresses().find(free))
            .ok_or_else(|| {
                AgentError::Network(format!(
                    "no free pod address in {}; delete pods or give the worker a larger --pod-cidr",
                    self.cidr
                ))
            })?;
        self.content.pods.insert(uid.to_owned(), ip);
        self.content.last = Some(ip);
        self.save()?;
        Ok(ip)
    }

    pub(crate) fn release(&mut self, uid: &str) -> Result<(), AgentError> {
        if self.content.pods.remove(uid).is_some() { self.save() } else { Ok(()) }
    }

    fn save(&self) -> Result<(), AgentError> {
        let bytes = serde_json::to_vec(&self.content).map_err(|e| AgentError::Network(e.to_string()))?;
        files::replace(&self.path, &bytes, 0o600).map_err(state("writing", &self.path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_survive_a_restart_and_are_reused_late() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.json");
        let cidr: PodCidr = "10.1.0.0/29".parse().unwrap();
        let mut addresses = Addresses::open(path.clone(), cidr).unwrap();
        let a = addresses.allocate("a").unwrap();
        let b = addresses.allocate("b").unwrap();
        assert_ne!(a, b);
        addresses.release("a").unwrap();
        let mut addresses = Addresses::open(path, cidr).unwrap();
        assert_eq!(addresses.get("b"), Some(b));
        assert_ne!(addresses.allocate("c").unwrap(), a, "a freed address rests while others are free");
        for uid in ["d", "e"] {
            addresses.allocate(uid).unwrap();
        }
        assert_eq!(addresses.allocate("f").unwrap(), a);
        assert!(addresses.allocate("g").unwrap_err().to_string().contains("--pod-cidr"));
    }
}
