use proptest::prelude::*;
use serde_json::json;

use super::*;

fn groups(of: &[&str]) -> Vec<String> {
    of.iter().map(|g| (*g).to_owned()).collect()
}

fn classify<'a>(
    control: &'a FlowControl,
    user: &str,
    of: &[&str],
    verb: &str,
    target: Target<'_>,
) -> (&'a str, &'a str, u64) {
    let groups = groups(of);
    let found = control.classify(&Request { user, groups: &groups, verb, target }).expect("classified");
    (found.schema, &found.level.name, found.flow)
}

fn resource<'a>(group: &'a str, resource: &'a str, subresource: &'a str, namespace: &'a str) -> Target<'a> {
    Target::Resource { group, resource, subresource, namespace }
}

/// User, groups, verb, target; the schema and level that are found.
type Case<'a> = (&'a str, &'a [&'a str], &'a str, Target<'a>, &'a str, &'a str);

#[test]
fn requests_find_the_schemas_that_upstream_has_for_them() {
    let control = FlowControl::new(&bootstrap::schemas(), &bootstrap::levels());
    let pods = resource("", "pods", "", "default");
    let lease = resource("coordination.k8s.io", "leases", "", "kube-system");
    let known = "system:authenticated";
    let account = "system:serviceaccount:kube-system:x";
    let accounts = "system:serviceaccounts";
    let cases: [Case<'_>; 14] = [
        ("me", &["system:masters", known], "get", pods, "exempt", "exempt"),
        ("me", &[known], "list", pods, "global-default", "global-default"),
        ("system:anonymous", &["system:unauthenticated"], "get", Target::Path("/livez"), "probes", "exempt"),
        ("me", &[known], "get", Target::Path("/livez/ping"), "probes", "exempt"),
        ("me", &[known], "get", Target::Path("/livezz"), "global-default", "global-default"),
        ("me", &[known], "post", Target::Path("/livez"), "global-default", "global-default"),
        ("system:kube-scheduler", &[known], "update", lease, "system-leader-election", "leader-election"),
        ("system:kube-scheduler", &[known], "delete", lease, "kube-scheduler", "workload-high"),
        (account, &[accounts, known], "get", lease, "system-leader-election", "leader-election"),
        (account, &[accounts, known], "get", pods, "kube-system-service-accounts", "workload-high"),
        ("system:serviceaccount:kube-system2:x", &[accounts, known], "get", pods, "service-accounts", "workload-low"),
        (
            "system:node:a",
            &["system:nodes", known],
            "patch",
            resource("", "nodes", "status", ""),
            "system-node-high",
            "node-high",
        ),
        (
            "system:node:a",
            &["system:nodes", known],
            "patch",
            resource("", "nodes", "proxy", ""),
            "system-nodes",
            "system",
        ),
        ("nobody", &[], "get", pods, "catch-all", "catch-all"),
    ];
    for (user, of, verb, target, schema, level) in cases {
        let (found, at, _) = classify(&control, user, of, verb, target);
        assert_eq!((found, at), (schema, level), "{user} {verb} {target:?}");
    }
    // Flows are users here, and namespaces there.
    let flow = |user, namespace| classify(&control, user, &[known], "get", resource("", "pods", "", namespace)).2;
    assert_ne!(flow("a", "x"), flow("b", "x"));
    assert_eq!(flow("a", "x"), flow("a", "y"));
    assert_ne!(flow("system:kube-scheduler", "x"), flow("system:kube-scheduler", "y"));
}

#[test]
fn what_is_mandatory_is_there_also_when_nothing_is_stored() {
    let control = FlowControl::new(&[], &[]);
    let path = Target::Path("/version");
    assert_eq!(classify(&control, "a", &["system:masters"], "get", path).0, "exempt");
    assert_eq!(classify(&control, "a", &["system:authenticated"], "get", path).0, "catch-all");
    // A schema whose level is not there does not count.
    let mut mine = bootstrap::schemas().pop().expect("one");
    mine["spec"]["priorityLevelConfiguration"]["name"] = json!("gone");
    let control = FlowControl::new(&[mine], &[]);
    assert_eq!(classify(&control, "a", &["system:authenticated"], "get", path).0, "catch-all");
}

#[test]
fn levels_have_their_share_and_what_the_others_lend() {
    let control = FlowControl::new(&bootstrap::schemas(), &bootstrap::levels());
    let level =
        |name: &str| control.schemas.iter().find(|s| s.level.name == name).map(|s| s.level.clone()).expect(name);
    assert_eq!(level("exempt").seats(200), 200);
    // 5 of 245 shares are 2 %, and all others lend 55 %.
    assert_eq!(level("catch-all").percent, 2 + 55);
    assert_eq!(level("workload-low").percent, 40 + 19);
    assert_eq!(level("catch-all").seats(1), 1);
    assert_eq!(level("catch-all").queue_length, None);
    assert_eq!(level("system").queue_length, Some(50));
}

fn a_level(name: &str, shares: u32, queue_length: Option<usize>) -> Arc<Level> {
    Arc::new(Level {
        name: name.to_owned(),
        uid: String::new(),
        shares,
        lendable: 0,
        borrowing_limit: None,
        queue_length,
        exempt: name == EXEMPT,
        percent: 100,
    })
}

type Small = Scheduler<u8, (u8, u64)>;

fn small(total: usize, tenant: usize) -> Small {
    Scheduler::new(Limits { total, tenant, waiting: 1000 })
}

/// Asks for a seat with a token of tenant and flow.
fn ask(scheduler: &mut Small, tenant: u8, level: &Arc<Level>, flow: u64) -> Entered {
    scheduler.enter(&tenant, level, flow, || (tenant, flow))
}

#[test]
fn the_next_seat_is_the_quiet_tenants() {
    let (mut scheduler, level) = (small(2, 2), a_level("l", 1, Some(1000)));
    for _ in 0..2 {
        assert_eq!(ask(&mut scheduler, 1, &level, 7), Entered::Seated);
    }
    for _ in 0..500 {
        assert!(matches!(ask(&mut scheduler, 1, &level, 7), Entered::Waits(_)));
    }
    assert!(matches!(ask(&mut scheduler, 2, &level, 9), Entered::Waits(_)));
    assert_eq!(scheduler.leave(&1, &level), [(1, 7)], "who came first");
    assert_eq!(scheduler.leave(&1, &level), [(2, 9)], "not the other 499");
    assert_eq!(scheduler.leave(&2, &level), [(1, 7)]);
}

#[test]
fn a_tenant_has_no_more_than_its_seats() {
    let (mut scheduler, level) = (small(10, 3), a_level("l", 1, Some(1000)));
    let seated = (0..50).filter(|_| ask(&mut scheduler, 1, &level, 7) == Entered::Seated).count();
    assert_eq!((seated, scheduler.waiting()), (3, 47));
    // Another one does not even wait.
    assert_eq!(ask(&mut scheduler, 2, &level, 7), Entered::Seated);
}

#[test]
fn flows_take_turns_and_levels_by_their_shares() {
    let (large, little) = (a_level("large", 30, Some(1000)), a_level("little", 10, Some(1000)));
    let mut scheduler = small(1, 1);
    assert_eq!(ask(&mut scheduler, 1, &large, 0), Entered::Seated);
    for flow in [1, 1, 1, 1, 1, 1, 2, 3] {
        ask(&mut scheduler, 1, &large, flow);
        ask(&mut scheduler, 1, &little, flow + 10);
    }
    let (mut order, mut last) = (Vec::new(), large.clone());
    while let [(_, flow)] = scheduler.leave(&1, &last)[..] {
        last = if flow > 10 { little.clone() } else { large.clone() };
        order.push(flow);
    }
    let of_large: Vec<u64> = order.iter().copied().filter(|f| *f < 10).collect();
    assert_eq!(of_large, [1, 2, 3, 1, 1, 1, 1, 1], "the noisy flow waits for each of the others once");
    assert_eq!(order[..8].iter().filter(|f| **f < 10).count(), 6, "three to one: {order:?}");
}

#[test]
fn who_waits_too_much_is_refused_and_administrators_are_not() {
    let mut scheduler = Scheduler::new(Limits { total: 1, tenant: 1, waiting: 4 });
    let (queue, reject, exempt) = (a_level("q", 1, Some(2)), a_level("r", 1, None), a_level(EXEMPT, 0, None));
    assert_eq!(ask(&mut scheduler, 1, &queue, 1), Entered::Seated);
    assert_eq!(ask(&mut scheduler, 1, &reject, 1), Entered::Refused(Refused::ConcurrencyLimit));
    for _ in 0..2 {
        assert!(matches!(ask(&mut scheduler, 1, &queue, 1), Entered::Waits(_)));
    }
    assert_eq!(ask(&mut scheduler, 1, &queue, 1), Entered::Refused(Refused::QueueFull));
    assert!(matches!(ask(&mut scheduler, 1, &queue, 2), Entered::Waits(_)), "another flow has its own queue");
    assert!(matches!(ask(&mut scheduler, 1, &exempt, 5), Entered::Waits(_)));
    assert_eq!(ask(&mut scheduler, 1, &exempt, 5), Entered::Refused(Refused::QueueFull), "a tenant has an end too");
    assert_eq!(scheduler.leave(&1, &queue), [(1, 5)], "administrators first");
    // Nothing is left of a tenant that was only refused.
    assert_eq!(ask(&mut scheduler, 2, &reject, 1), Entered::Refused(Refused::ConcurrencyLimit));
    assert_eq!(scheduler.waiting(), 3);
}

#[test]
fn who_gives_up_is_out_of_the_queue() {
    let (mut scheduler, level) = (small(1, 1), a_level("l", 1, Some(10)));
    ask(&mut scheduler, 1, &level, 1);
    let (Entered::Waits(first), Entered::Waits(second)) =
        (ask(&mut scheduler, 1, &level, 2), ask(&mut scheduler, 1, &level, 3))
    else {
        panic!("both wait")
    };
    assert!(scheduler.give_up(&1, &level, first));
    assert_eq!(scheduler.leave(&1, &level), [(1, 3)]);
    assert!(!scheduler.give_up(&1, &level, second), "has its seat already");
    assert!(scheduler.leave(&1, &level).is_empty());
    assert_eq!((scheduler.used(), scheduler.waiting()), (0, 0));
}

proptest! {
    /// Whatever comes and goes: no bound is passed, nobody waits who could have a seat, and all get one in the end.
    #[test]
    fn seats_are_neither_lost_nor_doubled(steps in proptest::collection::vec((0_u8..4, 0_u8..3, 0_u64..3, 0_u8..4), 1..200)) {
        let levels = [a_level("a", 10, Some(5)), a_level("b", 1, Some(5)), a_level(EXEMPT, 0, None)];
        let (total, tenant) = (4, 2);
        let mut scheduler: Scheduler<u8, (u8, usize)> = Scheduler::new(Limits { total, tenant, waiting: 8 });
        let mut seated: Vec<(u8, usize)> = Vec::new();
        let mut waiting: Vec<(u8, usize, Turn)> = Vec::new();
        for (who, of, flow, what) in steps {
            let level = usize::from(of);
            if what == 0 && !seated.is_empty() {
                let (t, l) = seated.swap_remove(usize::from(who) % seated.len());
                seated.extend(scheduler.leave(&t, &levels[l]));
            } else if what == 1 && !waiting.is_empty() {
                let (t, l, turn) = waiting.swap_remove(usize::from(who) % waiting.len());
                scheduler.give_up(&t, &levels[l], turn);
            } else {
                match scheduler.enter(&who, &levels[level], flow, || (who, level)) {
                    Entered::Seated => seated.push((who, level)),
                    Entered::Waits(turn) => waiting.push((who, level, turn)),
                    Entered::Refused(_) => {}
                }
            }
            prop_assert_eq!(scheduler.used(), seated.len());
            prop_assert!(seated.len() <= total);
            for t in 0..4 {
                prop_assert!(seated.iter().filter(|(s, _)| *s == t).count() <= tenant);
            }
        }
        while let Some((t, l)) = seated.pop() {
            seated.extend(scheduler.leave(&t, &levels[l]));
        }
        prop_assert_eq!((scheduler.used(), scheduler.waiting()), (0, 0));
    }
}
