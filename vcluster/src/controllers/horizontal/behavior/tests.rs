//! The behaviours of upstream's `horizontal_test.go`, told again.

use serde_json::json;

use super::*;

const NOW: i64 = 100_000;

fn at(ago: i64) -> Timestamp {
    Timestamp::from_second(NOW - ago).unwrap()
}

fn now() -> Timestamp {
    at(0)
}

fn bounds(current: i64, min: i64, max: i64) -> Bounds {
    Bounds { current, min, max }
}

/// A history of recommendations and changes, each with its age in seconds.
fn history(recommendations: &[(i64, i64)], changes: &[(i64, i64)]) -> History {
    let dated = |of: &[(i64, i64)]| of.iter().map(|(n, ago)| (*n, at(*ago))).collect();
    History { recommendations: dated(recommendations), changes: dated(changes), selector: String::new() }
}

#[test]
fn without_behavior_the_highest_recommendation_of_five_minutes_holds() {
    for (what, recent, current, proposed, replicas, able, limit) in [
        ("nothing new", &[(3, 15)][..], 3, 3, 3, "ReadyForNewScale", "DesiredWithinRange"),
        ("down waits", &[(10, 60), (5, 15)], 10, 3, 10, "ScaleDownStabilized", "DesiredWithinRange"),
        ("down once they are old", &[(10, 301), (5, 15)], 10, 3, 5, "ScaleDownStabilized", "DesiredWithinRange"),
        ("up at once", &[(3, 15)], 3, 5, 5, "ReadyForNewScale", "DesiredWithinRange"),
        ("up to twice as many", &[(3, 15)], 3, 50, 6, "ReadyForNewScale", "ScaleUpLimit"),
        ("four are always allowed", &[(1, 15)], 1, 50, 4, "ReadyForNewScale", "ScaleUpLimit"),
        ("not above the maximum", &[(15, 15)], 15, 50, 20, "ReadyForNewScale", "TooManyReplicas"),
        ("not below the minimum", &[(3, 301)], 3, 0, 2, "ReadyForNewScale", "TooFewReplicas"),
    ] {
        let mut h = history(recent, &[]);
        let verdict = h.normalize(&Value::Null, bounds(current, 2, 20), proposed, now());
        assert_eq!((verdict.replicas, verdict.able.0, verdict.limit.0), (replicas, able, limit), "{what}");
        assert_eq!(verdict.limited, limit != "DesiredWithinRange", "{what}");
        assert_eq!(h.recommendations.last(), Some(&(proposed, now())), "{what}: what was proposed is remembered");
    }
}

fn rules(window: Option<i64>, select: &str, policies: &[(&str, i64, i64)]) -> Value {
    let policies: Vec<Value> = policies
        .iter()
        .map(|(kind, value, period)| json!({ "type": kind, "value": value, "periodSeconds": period }))
        .collect();
    let mut rules = json!({ "selectPolicy": select, "policies": policies });
    if let Some(window) = window {
        rules["stabilizationWindowSeconds"] = window.into();
    }
    rules
}

fn behavior(up: Value, down: Value) -> Value {
    json!({ "scaleUp": up, "scaleDown": down })
}

/// As defaulting fills it in.
fn default_up() -> Value {
    rules(Some(0), "Max", &[("Pods", 4, 15), ("Percent", 100, 15)])
}

fn default_down() -> Value {
    rules(None, "Max", &[("Percent", 100, 15)])
}

#[test]
fn windows_of_both_directions() {
    let slow_up = || rules(Some(60), "Max", &[("Percent", 1000, 15)]);
    let fast_down = || rules(Some(0), "Max", &[("Percent", 100, 15)]);
    for (what, up, down, recent, current, proposed, replicas, able) in [
        ("down waits five minutes", default_up(), default_down(), &[(8, 299)][..], 10, 2, 8, "ScaleDownStabilized"),
        ("then goes", default_up(), default_down(), &[(8, 300)], 10, 2, 2, "ReadyForNewScale"),
        ("down at once", default_up(), fast_down(), &[(8, 1)], 10, 2, 2, "ReadyForNewScale"),
        ("up at once", default_up(), default_down(), &[(3, 1)], 3, 5, 5, "ReadyForNewScale"),
        ("up waits", slow_up(), default_down(), &[(4, 59)], 3, 9, 4, "ScaleUpStabilized"),
        ("up goes", slow_up(), default_down(), &[(4, 60)], 3, 9, 9, "ReadyForNewScale"),
        ("neither way", slow_up(), default_down(), &[(2, 10), (9, 10)], 5, 7, 5, "ScaleUpStabilized"),
    ] {
        let mut h = history(recent, &[]);
        let verdict = h.normalize(&behavior(up, down), bounds(current, 1, 100), proposed, now());
        assert_eq!((verdict.replicas, verdict.able.0), (replicas, able), "{what}");
    }
}

#[test]
fn policies_limit_the_speed_up() {
    let p = |select: &str, policies: &[(&str, i64, i64)]| rules(Some(0), select, policies);
    for (what, up, changes, current, proposed, replicas, limit) in [
        ("pods", p("Max", &[("Pods", 2, 60)]), &[][..], 10, 50, 12, "ScaleUpLimit"),
        ("percent, rounded up", p("Max", &[("Percent", 5, 60)]), &[], 10, 50, 11, "ScaleUpLimit"),
        ("the greater", p("Max", &[("Pods", 2, 60), ("Percent", 50, 60)]), &[], 10, 50, 15, "ScaleUpLimit"),
        ("the smaller", p("Min", &[("Pods", 2, 60), ("Percent", 50, 60)]), &[], 10, 50, 12, "ScaleUpLimit"),
        ("not at all", p("Disabled", &[("Pods", 2, 60)]), &[], 10, 50, 10, "ScaleUpLimit"),
        ("earlier ones count", p("Max", &[("Pods", 5, 60)]), &[(3, 30)], 10, 50, 12, "ScaleUpLimit"),
        ("not those before the period", p("Max", &[("Pods", 5, 60)]), &[(3, 60)], 10, 50, 15, "ScaleUpLimit"),
        ("what went down may come back", p("Max", &[("Pods", 5, 60)]), &[(-4, 30)], 10, 50, 19, "ScaleUpLimit"),
        ("used up", p("Max", &[("Pods", 5, 60)]), &[(9, 30)], 10, 50, 10, "ScaleUpLimit"),
        ("the maximum", p("Max", &[("Pods", 50, 60)]), &[], 10, 50, 30, "TooManyReplicas"),
        ("enough", p("Max", &[("Pods", 5, 60)]), &[], 10, 12, 12, "DesiredWithinRange"),
    ] {
        let mut h = history(&[], changes);
        let verdict = h.normalize(&behavior(up, default_down()), bounds(current, 1, 30), proposed, now());
        assert_eq!((verdict.replicas, verdict.limit.0), (replicas, limit), "{what}");
    }
}

#[test]
fn policies_limit_the_speed_down() {
    let p = |select: &str, policies: &[(&str, i64, i64)]| rules(Some(0), select, policies);
    for (what, down, changes, current, proposed, replicas, limit) in [
        ("pods", p("Max", &[("Pods", 2, 60)]), &[][..], 10, 1, 8, "ScaleDownLimit"),
        ("percent, rounded down", p("Max", &[("Percent", 25, 60)]), &[], 10, 1, 7, "ScaleDownLimit"),
        ("the greater", p("Max", &[("Pods", 2, 60), ("Percent", 50, 60)]), &[], 10, 1, 5, "ScaleDownLimit"),
        ("the smaller", p("Min", &[("Pods", 2, 60), ("Percent", 50, 60)]), &[], 10, 1, 8, "ScaleDownLimit"),
        ("not at all", p("Disabled", &[("Pods", 2, 60)]), &[], 10, 1, 10, "ScaleDownLimit"),
        ("earlier ones count", p("Max", &[("Pods", 5, 60)]), &[(-3, 30)], 10, 1, 8, "ScaleDownLimit"),
        ("used up", p("Max", &[("Pods", 5, 60)]), &[(-9, 30)], 10, 1, 10, "ScaleDownLimit"),
        ("the minimum", p("Max", &[("Percent", 100, 60)]), &[], 10, 1, 2, "TooFewReplicas"),
        ("enough", p("Max", &[("Pods", 5, 60)]), &[], 10, 8, 8, "DesiredWithinRange"),
    ] {
        let mut h = history(&[], changes);
        let verdict = h.normalize(&behavior(default_up(), down), bounds(current, 2, 30), proposed, now());
        assert_eq!((verdict.replicas, verdict.limit.0), (replicas, limit), "{what}");
    }
}

#[test]
fn changes_are_remembered_as_long_as_a_policy_looks_back() {
    let behavior = behavior(rules(Some(0), "Max", &[("Pods", 4, 60)]), default_down());
    let mut h = history(&[], &[(1, 61), (2, 60)]);
    h.changed(&behavior, 5, 3, now());
    assert_eq!(h.changes, [(2, at(60)), (-2, now())]);
    h.changed(&Value::Null, 3, 9, now());
    assert_eq!(h.changes.len(), 2, "without behavior nobody asks");
    let mut fresh = History::default();
    fresh.begin(4, now());
    fresh.begin(5, now());
    assert_eq!(fresh.recommendations, [(4, now())]);
}
