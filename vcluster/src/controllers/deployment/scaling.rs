//! Proportional scaling: a deployment that is resized in the middle of a rollout resizes its ReplicaSets in proportion.

use serde_json::Value;

use super::{
    numbers::{max_surge, replicas},
    revision::{MAXIMUM, number},
};
use crate::controllers::object::{int, text};

/// New sizes, in the order of `sets` (active ReplicaSets), which together have `allowed` replicas.
pub(super) fn proportional(deployment: &Value, sets: &[&Value]) -> Vec<i64> {
    let total: i64 = sets.iter().map(|s| replicas(s)).sum();
    let allowed = if replicas(deployment) > 0 { replicas(deployment) + max_surge(deployment) } else { 0 };
    let to_add = allowed - total;
    let mut sizes: Vec<i64> = sets.iter().map(|s| replicas(s)).collect();
    if to_add == 0 {
        return sizes;
    }
    // The largest first; of equal ones the newer when growing, the older when shrinking.
    let mut order: Vec<usize> = (0..sets.len()).collect();
    order.sort_by(|a, b| {
        let created = |i: usize| text(sets[i], "/metadata/creationTimestamp");
        let age = if to_add > 0 { created(*b).cmp(created(*a)) } else { created(*a).cmp(created(*b)) };
        replicas(sets[*b]).cmp(&replicas(sets[*a])).then(age)
    });
    let mut added = 0;
    for i in &order {
        let share = share(deployment, sets[*i], to_add, added);
        sizes[*i] += share;
        added += share;
    }
    // What rounding left over goes to the first.
    if let Some(first) = order.first() {
        sizes[*first] = (sizes[*first] + to_add - added).max(0);
    }
    sizes
}

/// What one ReplicaSet gets of `to_add`, of which `added` has been given out.
fn share(deployment: &Value, set: &Value, to_add: i64, added: i64) -> i64 {
    if replicas(set) == 0 || to_add == added {
        return 0;
    }
    let fraction = fraction(deployment, set);
    let left = to_add - added;
    if to_add > 0 { fraction.min(left) } else { fraction.max(left) }
}

/// By how much a ReplicaSet grows when it keeps its part of the deployment.
fn fraction(deployment: &Value, set: &Value) -> i64 {
    if replicas(deployment) == 0 {
        return -replicas(set);
    }
    let maximum = replicas(deployment) + max_surge(deployment);
    let before =
        number(set, MAXIMUM).filter(|m| *m > 0).unwrap_or_else(|| int(deployment, "/status/replicas").unwrap_or(0));
    if before <= 0 {
        return 0;
    }
    let size = (replicas(set) * maximum) as f64 / before as f64;
    size.round() as i64 - replicas(set)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn sizes(new_size: i64, surge: i64, before: i64, sets: &[i64]) -> Vec<i64> {
        let deployment = json!({ "spec": { "replicas": new_size, "strategy": { "type": "RollingUpdate",
            "rollingUpdate": { "maxSurge": surge, "maxUnavailable": 1 } } } });
        let sets: Vec<Value> = sets
            .iter()
            .enumerate()
            .map(|(i, n)| {
                json!({
                    "metadata": { "creationTimestamp": format!("2026-01-01T00:0{}:00Z", 9 - i),
                        "annotations": { MAXIMUM: (before + surge).to_string() } },
                    "spec": { "replicas": n },
                })
            })
            .collect();
        proportional(&deployment, &sets.iter().collect::<Vec<_>>())
    }

    /// Cases of upstream's `TestScale`, newest set first.
    #[test]
    fn sets_grow_and_shrink_in_proportion() {
        assert_eq!(sizes(12, 0, 10, &[10]), [12]);
        assert_eq!(sizes(5, 0, 10, &[10]), [5]);
        assert_eq!(sizes(12, 0, 10, &[6, 4]), [7, 5]);
        assert_eq!(sizes(5, 0, 10, &[3, 7]), [2, 3], "rounded half away from zero");
        assert_eq!(sizes(20, 0, 10, &[3, 2, 5]), [6, 4, 10]);
        assert_eq!(sizes(0, 0, 10, &[3, 4, 3]), [0, 0, 0]);
        assert_eq!(sizes(6, 0, 5, &[5, 0]), [6, 0]);
    }
}
