//! The numbers of a rollout: surge, unavailability, deadlines, sums over ReplicaSets.

use serde_json::Value;

use crate::controllers::{
    int_or_percent::scaled,
    object::{int, text},
};

/// `spec.replicas`; 1 when absent.
pub(super) fn replicas(object: &Value) -> i64 {
    int(object, "/spec/replicas").unwrap_or(1)
}

pub(super) fn is_rolling(deployment: &Value) -> bool {
    text(deployment, "/spec/strategy/type") != "Recreate"
}

/// (maxSurge rounded up, maxUnavailable rounded down); both 0 gives (0, 1), as a rollout could not move otherwise.
fn fence_posts(deployment: &Value) -> (i64, i64) {
    let total = replicas(deployment);
    let rolling = deployment.pointer("/spec/strategy/rollingUpdate").unwrap_or(&Value::Null);
    let surge = scaled(rolling.get("maxSurge").unwrap_or(&Value::Null), total, true);
    let unavailable = scaled(rolling.get("maxUnavailable").unwrap_or(&Value::Null), total, false);
    if surge == 0 && unavailable == 0 { (0, 1) } else { (surge, unavailable) }
}

/// Pods above `spec.replicas` that a rollout may have.
pub(super) fn max_surge(deployment: &Value) -> i64 {
    if is_rolling(deployment) { fence_posts(deployment).0 } else { 0 }
}

/// Pods below `spec.replicas` that may be unavailable during a rollout.
pub(super) fn max_unavailable(deployment: &Value) -> i64 {
    if !is_rolling(deployment) || replicas(deployment) == 0 {
        return 0;
    }
    fence_posts(deployment).1.min(replicas(deployment))
}

/// `spec.progressDeadlineSeconds`; none when it is absent or the largest int32, which both mean "never".
pub(super) fn progress_deadline(deployment: &Value) -> Option<i64> {
    int(deployment, "/spec/progressDeadlineSeconds").filter(|s| *s != i64::from(i32::MAX))
}

/// Sum of an integer over ReplicaSets.
pub(super) fn sum<'a>(sets: impl IntoIterator<Item = &'a Value>, pointer: &str) -> i64 {
    sets.into_iter().filter_map(|s| int(s, pointer)).sum()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn surge_rounds_up_unavailable_rounds_down_and_both_zero_is_one_unavailable() {
        for (replicas, surge, unavailable, expected) in [
            (10, json!("25%"), json!("25%"), (3, 2)),
            (1, json!("25%"), json!("25%"), (1, 0)),
            (10, json!(2), json!(1), (2, 1)),
            (10, json!(0), json!(0), (0, 1)),
            (3, json!("0%"), json!("10%"), (0, 1)),
            (2, json!(0), json!(9), (0, 2)),
            (0, json!("25%"), json!("25%"), (0, 0)),
        ] {
            let d = json!({ "spec": { "replicas": replicas, "strategy": {
                "type": "RollingUpdate", "rollingUpdate": { "maxSurge": surge, "maxUnavailable": unavailable } } } });
            assert_eq!((max_surge(&d), max_unavailable(&d)), expected, "{d}");
        }
    }
}
