//! Who owns whom in one tenant; pure.

use std::collections::{HashMap, HashSet};

use vctl_store::Key;

use crate::controllers::dispatch::{FOREGROUND, ORPHAN, Owner};

/// One object.
#[derive(Debug, Clone)]
pub(super) struct Node {
    pub(super) key: Key,
    pub(super) uid: String,
    pub(super) deleting: bool,
    pub(super) finalizers: Vec<String>,
    pub(super) owners: Vec<Owner>,
}

impl Node {
    fn has(&self, finalizer: &str) -> bool {
        self.finalizers.iter().any(|f| f == finalizer)
    }

    /// Is being deleted and waits until its dependents are.
    pub(super) fn is_deleting_dependents(&self) -> bool {
        self.deleting && self.has(FOREGROUND)
    }
}

/// The objects of a tenant that own, are owned or are being deleted.
pub(super) struct Graph {
    nodes: Vec<Node>,
    uids: HashSet<String>,
    dependents: HashMap<String, Vec<usize>>,
}

impl Graph {
    /// The graph of these objects; `others` are the UIDs of further ones that are there and own some of them.
    pub(super) fn new(nodes: Vec<Node>, others: HashSet<String>) -> Self {
        let mut dependents: HashMap<String, Vec<usize>> = HashMap::new();
        for (i, node) in nodes.iter().enumerate() {
            for owner in &node.owners {
                dependents.entry(owner.uid.clone()).or_default().push(i);
            }
        }
        let mut uids = others;
        uids.extend(nodes.iter().map(|n| n.uid.clone()));
        Self { nodes, uids, dependents }
    }

    pub(super) fn node(&self, index: usize) -> &Node {
        &self.nodes[index]
    }

    fn find(&self, wanted: impl Fn(&Node) -> bool) -> Vec<usize> {
        (0..self.nodes.len()).filter(|i| wanted(&self.nodes[*i])).collect()
    }

    /// Objects that are being deleted and leave their dependents behind.
    pub(super) fn orphaning(&self) -> Vec<usize> {
        self.find(|n| n.deleting && n.has(ORPHAN))
    }

    /// Objects that wait for their dependents' deletion.
    pub(super) fn deleting_dependents(&self) -> Vec<usize> {
        self.find(|n| n.is_deleting_dependents() && !n.has(ORPHAN))
    }

    /// Objects with an owner that is not there.
    pub(super) fn with_absent_owner(&self) -> Vec<usize> {
        self.find(|n| !n.deleting && n.owners.iter().any(|o| !self.uids.contains(&o.uid)))
    }

    /// Objects that name this one as owner.
    pub(super) fn dependents(&self, owner: usize) -> Vec<usize> {
        self.dependents.get(&self.nodes[owner].uid).cloned().unwrap_or_default()
    }

    /// Dependents that their owner waits for.
    pub(super) fn blocking_dependents(&self, owner: usize) -> Vec<usize> {
        let uid = &self.nodes[owner].uid;
        let blocks = |i: &usize| self.nodes[*i].owners.iter().any(|o| o.uid == *uid && o.block_owner_deletion);
        self.dependents(owner).into_iter().filter(blocks).collect()
    }
}

/// How an owner stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OwnerState {
    /// There, with that UID.
    Solid,
    /// Not there, or another object under that name.
    Absent,
    /// There, being deleted, and waiting for its dependents.
    Waiting,
    /// Of a kind that is not served, or one that cannot own this object: nothing is decided on its account.
    Unknown,
}

/// What becomes of an object with owners.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Fate {
    Keep,
    /// Other owners keep it: take the references with these UIDs off.
    Disown(Vec<String>),
    Delete(Policy),
}

/// `propagationPolicy`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Policy {
    Background,
    Foreground,
    Orphan,
}

impl Policy {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Background => "Background",
            Self::Foreground => "Foreground",
            Self::Orphan => "Orphan",
        }
    }
}

/// Decides by the live state of every owner.
pub(super) fn fate(node: &Node, states: &HashMap<&str, OwnerState>, has_dependents: bool) -> Fate {
    let count = |wanted: OwnerState| states.values().filter(|s| **s == wanted).count();
    let (absent, waiting) = (count(OwnerState::Absent), count(OwnerState::Waiting));
    if absent + waiting == 0 {
        return Fate::Keep;
    }
    if count(OwnerState::Unknown) > 0 && count(OwnerState::Solid) == 0 {
        return Fate::Keep;
    }
    if count(OwnerState::Solid) > 0 {
        let gone = node
            .owners
            .iter()
            .filter(|o| matches!(states.get(o.uid.as_str()), Some(OwnerState::Absent | OwnerState::Waiting)))
            .map(|o| o.uid.clone())
            .collect();
        return Fate::Disown(gone);
    }
    if waiting > 0 && has_dependents {
        return Fate::Delete(Policy::Foreground);
    }
    Fate::Delete(if node.has(ORPHAN) {
        Policy::Orphan
    } else if node.has(FOREGROUND) {
        Policy::Foreground
    } else {
        Policy::Background
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner(uid: &str, blocks: bool) -> Owner {
        Owner {
            uid: uid.into(),
            name: uid.into(),
            kind: "K".into(),
            api_version: "v1".into(),
            block_owner_deletion: blocks,
        }
    }

    fn node(uid: &str, owners: &[(&str, bool)], finalizers: &[&str], deleting: bool) -> Node {
        Node {
            key: Key::new("pods", "ns", uid),
            uid: uid.into(),
            deleting,
            finalizers: finalizers.iter().map(|f| (*f).to_owned()).collect(),
            owners: owners.iter().map(|(uid, blocks)| owner(uid, *blocks)).collect(),
        }
    }

    #[test]
    fn fates_follow_the_state_of_all_owners() {
        use OwnerState::*;
        let two = node("x", &[("a", true), ("b", true)], &[], false);
        let orphan = node("x", &[("a", true), ("b", true)], &[ORPHAN], false);
        for (what, node, a, b, dependents, expected) in [
            ("both there", &two, Solid, Solid, false, Fate::Keep),
            ("one gone", &two, Solid, Absent, false, Fate::Disown(vec!["b".into()])),
            ("one waiting", &two, Waiting, Solid, true, Fate::Disown(vec!["a".into()])),
            ("all gone", &two, Absent, Absent, false, Fate::Delete(Policy::Background)),
            ("all gone, orphaning", &orphan, Absent, Absent, true, Fate::Delete(Policy::Orphan)),
            ("waiting, has dependents", &two, Waiting, Absent, true, Fate::Delete(Policy::Foreground)),
            ("waiting, none", &two, Waiting, Absent, false, Fate::Delete(Policy::Background)),
            ("unknown kind", &two, Unknown, Absent, false, Fate::Keep),
        ] {
            let states = [("a", a), ("b", b)].into();
            assert_eq!(fate(node, &states, dependents), expected, "{what}");
        }
    }

    #[test]
    fn the_graph_finds_what_waits_and_what_is_left_behind() {
        let graph = Graph::new(
            vec![
                node("owner", &[], &[FOREGROUND], true),
                node("blocking", &[("owner", true)], &[], false),
                node("free", &[("owner", false)], &[], false),
                node("left", &[("ghost", true)], &[], false),
                node("leaving", &[("ghost", true)], &[], true),
                node("orphaner", &[], &[ORPHAN], true),
            ],
            HashSet::new(),
        );
        assert_eq!(graph.deleting_dependents(), [0]);
        assert_eq!(graph.dependents(0), [1, 2]);
        assert_eq!(graph.blocking_dependents(0), [1]);
        assert_eq!(graph.with_absent_owner(), [3]);
        assert_eq!(graph.orphaning(), [5]);
    }
}
