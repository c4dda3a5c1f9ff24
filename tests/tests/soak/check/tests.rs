//! The soak's judge is judged: it accepts what may happen and finds what may not.

use super::*;
use crate::truth::Write;

fn write(version: u64, lane: Option<Lane>) -> Write {
    Write { version: Some(version), number: version * 10, lane, acknowledged: Some(0) }
}

/// x: made at 10, changed at 13 and 16. y: made at 11, deleted at 14, made at 17.
fn truth() -> Truth {
    let (a, b) = (Some(Lane::A), Some(Lane::B));
    let x = vec![write(10, a), write(13, b), write(16, a)];
    // A deletion shows the last state.
    let gone = Write { number: 110, ..write(14, None) };
    let y = vec![write(11, a), gone, write(17, a)];
    Truth { objects: [("ns/x".into(), x), ("ns/y".into(), y)].into() }
}

fn item(name: &str, version: u64, number: u64) -> Item {
    Item { key: format!("ns/{name}").into(), version, number: Some(number) }
}

fn event(kind: Kind, name: &str, version: u64, number: u64) -> Record {
    Record::Event { kind, item: item(name, version, number), at: 1 }
}

/// Everything that happens after version 11.
fn events() -> Vec<Record> {
    vec![
        event(Kind::Modified, "x", 13, 130),
        event(Kind::Deleted, "y", 14, 110),
        event(Kind::Modified, "x", 16, 160),
        event(Kind::Added, "y", 17, 170),
    ]
}

fn listed(version: Option<u64>, items: &[(&str, u64)]) -> Record {
    Record::List { version, items: items.iter().map(|(name, v)| item(name, *v, v * 10)).collect() }
}

fn hold(records: Vec<Record>) -> Result<Findings> {
    Expectation::new(&truth(), None).hold(&records)
}

/// A list at 12, then these.
fn after_list(events: Vec<Record>) -> Result<Findings> {
    hold([vec![listed(Some(12), &[("x", 10), ("y", 11)])], events].concat())
}

fn refused(result: Result<Findings>, says: &str) {
    let text = format!("{:#}", result.expect_err("must be found"));
    assert!(text.contains(says), "{text}");
}

#[test]
fn what_happened_is_accepted() {
    let found = after_list(events()).expect("all is well");
    assert_eq!((found.events, found.lists, found.lags.len()), (4, 1, 4));
    // Connections may break anywhere.
    let mut broken = events();
    broken.insert(2, Record::Failed("gone".into()));
    assert_eq!(after_list(broken).expect("resumed").failed, 1);
    // kube-rs tells neither the version of a list nor additions from changes.
    let mut applied = events();
    applied[0] = event(Kind::Applied, "x", 13, 130);
    applied[3] = event(Kind::Applied, "y", 17, 170);
    hold([vec![listed(None, &[("x", 10), ("y", 11)])], applied].concat()).expect("all is well");
}

#[test]
fn missed_doubled_and_disordered_events_are_found() {
    for index in 0..events().len() {
        let mut missed = events();
        missed.remove(index);
        refused(after_list(missed), if index == 3 { "1 changes were never delivered" } else { "missed 1 changes" });
        let mut doubled = events();
        doubled.insert(index, doubled[index].clone());
        assert!(after_list(doubled).is_err());
    }
    let mut disordered = events();
    disordered.swap(1, 2);
    refused(after_list(disordered), "missed 1 changes");
    let mut replayed = events();
    replayed.extend([Record::Failed("gone".into()), event(Kind::Added, "y", 17, 170)]);
    assert!(after_list(replayed).is_err());
    refused(after_list(vec![event(Kind::Modified, "x", 13, 131)]), "not what was written");
    refused(after_list(vec![event(Kind::Added, "x", 13, 130)]), "not what was written");
}

#[test]
fn who_only_looks_on_sees_everything_from_somewhere_on() {
    let from = |index: usize| [vec![Record::Started], events().split_off(index)].concat();
    for index in 0..4 {
        hold(from(index)).expect("all is well");
        hold([events(), from(index)].concat()).expect_err("nothing comes before it starts");
        hold([from(0), from(index)].concat()).expect("started anew");
    }
    let mut missed = from(0);
    missed.remove(2);
    refused(hold(missed), "missed 1 changes");
}

#[test]
fn a_list_is_the_state_at_one_version() {
    // x of 13 together with a y that is gone since 14 and x of 16: between 14 and 16.
    hold(vec![listed(None, &[("x", 16), ("y", 17)])]).expect("the newest state");
    refused(hold(vec![listed(None, &[("x", 10), ("y", 17)])]), "the state at no version");
    refused(hold(vec![listed(None, &[("x", 16), ("y", 11)])]), "the state at no version");
    refused(hold(vec![listed(Some(12), &[("x", 13), ("y", 11)])]), "the state at no version");
    refused(hold(vec![listed(Some(12), &[("x", 12)])]), "which nobody wrote");
}

#[test]
fn lists_are_for_a_reason_and_never_go_back() {
    let again = |version, items| [events(), vec![listed(Some(version), items)]].concat();
    refused(after_list(again(17, &[("x", 16), ("y", 17)])), "although nothing had expired");
    let mut expired = again(17, &[("x", 16), ("y", 17)]);
    expired.insert(4, Record::Expired { at: 0 });
    assert_eq!(after_list(expired).expect("a reason").lists, 2);
    let mut back = again(15, &[("x", 13)]);
    back.insert(4, Record::Expired { at: 0 });
    refused(after_list(back), "went back");
    // What was changed while nobody watched is no gap.
    let mut gap = vec![Record::Expired { at: 0 }, listed(Some(15), &[("x", 13)])];
    gap.extend(events().split_off(2));
    after_list(gap).expect("the list said it");
}

#[test]
fn a_label_that_changes_adds_and_deletes() {
    let expectation = Expectation::new(&truth(), Some(Lane::A));
    let mut seen = vec![listed(None, &[("x", 10), ("y", 11)])];
    // What leaves is shown as it was, at the version at which it left.
    seen.extend([
        event(Kind::Deleted, "x", 13, 100),
        event(Kind::Deleted, "y", 14, 110),
        event(Kind::Applied, "x", 16, 160),
        event(Kind::Applied, "y", 17, 170),
    ]);
    assert_eq!(expectation.hold(&seen).expect("all is well").events, 4);
    seen[1] = event(Kind::Deleted, "x", 13, 130);
    assert!(expectation.hold(&seen).is_err());
}

#[test]
fn deletions_are_found_in_what_was_seen() {
    let mut truth = truth();
    let deletion = |truth: &mut Truth, version| truth.objects.get_mut("ns/y").expect("y")[1].version = version;
    deletion(&mut truth, None);
    truth.saw_deletion("ns/y", 15).expect("between 11 and 17");
    truth.saw_deletion("ns/y", 15).expect("again the same");
    assert!(truth.saw_deletion("ns/y", 16).is_err(), "another version of the same");
    assert!(truth.saw_deletion("ns/x", 12).is_err(), "nobody deleted it");
    truth.saw_deletion("ns/other", 12).expect("of others");
    // While nobody has seen it, a list may have either.
    deletion(&mut truth, None);
    let expectation = Expectation::new(&truth, None);
    for items in [&[("x", 13), ("y", 11)][..], &[("x", 13)]] {
        let mut seen = vec![listed(None, items)];
        seen.extend(events().split_off(2));
        expectation.hold(&seen).expect("either");
    }
}

#[test]
fn a_version_is_issued_once() {
    let mut truth = truth();
    truth.check().expect("as it was written");
    truth.objects.get_mut("ns/x").expect("x").push(write(17, None));
    assert!(truth.check().is_err());
}
