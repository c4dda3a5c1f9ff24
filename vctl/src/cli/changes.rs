//! Changes of objects as people read them.

use vctl_api::rest::{ChangeKind, ObjectChange};

/// All of them, as one unified diff.
pub(super) fn diff(changes: &[ObjectChange]) -> String {
    let mut text = String::new();
    for change in changes {
        let namespace = if change.namespace.is_empty() { String::new() } else { format!("{}/", change.namespace) };
        let object = format!("{} {namespace}{}", change.kind.to_lowercase(), change.name);
        let (from, to) = match change.change {
            ChangeKind::Create => ("/dev/null", object.as_str()),
            ChangeKind::Update => (object.as_str(), object.as_str()),
            ChangeKind::Delete => (object.as_str(), "/dev/null"),
        };
        text.push_str(&format!("--- {from}\n+++ {to}\n{}", change.diff));
    }
    text
}

/// How many there are of each kind.
pub(super) fn count(changes: &[ObjectChange]) -> String {
    let of = |kind| changes.iter().filter(|c| c.change == kind).count();
    format!("{} new, {} changed, {} removed", of(ChangeKind::Create), of(ChangeKind::Update), of(ChangeKind::Delete))
}
