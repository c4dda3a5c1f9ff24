//! Pages: logs, descriptions, changes; and what is done to a row.

use vctl_tui::{
    model::{Data, Document, Draft, HandOver, Request, Review, Subject},
    state::Settings,
    update::Effect,
};

use crate::dash::{Dash, at_pods, environments, jobs, pod, pods, three};

fn lines(page: u64, lines: &[&str]) -> Data {
    Data::Lines { page, lines: lines.iter().map(|line| (*line).to_owned()).collect() }
}

fn logs(page: u64, container: &str, previous: bool) -> Effect {
    let pod = pod("alpha", "web-7d4b9");
    Effect::Ask(Request::Open { page, document: Document::Logs { pod, container: container.to_owned(), previous } })
}

#[test]
fn logs_are_followed_searched_and_wrapped() {
    let mut dash = at_pods();
    assert_eq!(dash.keys("Gl"), [logs(1, "", false)]);
    assert!(dash.screen().contains("waiting for the first answer"));
    let many: Vec<String> = (0..30).map(|i| format!("line {i} GET /healthz 200")).collect();
    dash.data(lines(1, &many.iter().map(String::as_str).collect::<Vec<_>>()));
    dash.data(lines(1, &["\u{1b}[31mERROR\u{1b}[0m cannot connect"]));
    insta::assert_snapshot!("logs_followed", dash.screen());
    dash.data(lines(99, &["of a page that is closed"]));
    assert!(!dash.screen().contains("closed"));
    // Going up stops following.
    dash.keys("k");
    dash.data(lines(1, &["news"]));
    assert!(!dash.screen().contains("news") && !dash.screen().contains("following"));
    dash.keys("f");
    assert!(dash.screen().contains("news"));
    // Search from the top.
    dash.keys("g/line 2[0-2]\n");
    insta::assert_snapshot!("logs_searched", dash.screen());
    dash.keys("nn");
    assert!(dash.screen().contains("line 22 "));
    dash.keys("\x1b");
    assert!(!dash.screen().contains("/line"));
    // Other containers, and the one before.
    assert_eq!(dash.keys("c"), [logs(2, "side", false)]);
    assert_eq!(dash.keys("p"), [logs(3, "side", true)]);
    dash.data(Data::Ended { page: 3, why: Some("previous terminated container \"side\" not found".to_owned()) });
    assert!(dash.screen().contains("not found"));
    assert_eq!(dash.keys("q"), [Effect::Ask(Request::Close)]);
    assert_eq!(dash.keys("p"), [logs(4, "", true)], "of before the restart, from the table");
}

#[test]
fn pages_of_a_row() {
    let mut dash = at_pods();
    let subject = Subject::Object(pod("alpha", "web-7d4b9"));
    dash.keys("G");
    let describe = Effect::Ask(Request::Open { page: 1, document: Document::Describe(subject.clone()) });
    assert_eq!(dash.keys("d"), [describe]);
    dash.data(Data::Text { page: 1, text: "Name:       web-7d4b9\nNamespace:  default\n".to_owned() });
    insta::assert_snapshot!(dash.screen());
    dash.keys("\x1b");
    assert_eq!(dash.keys("y"), [Effect::Ask(Request::Open { page: 2, document: Document::Yaml(subject) })]);
    assert_eq!(
        dash.keys("e"),
        [Effect::Ask(Request::Close), Effect::HandOver(HandOver::Edit(pod("alpha", "web-7d4b9")))]
    );
    let shell = HandOver::Shell { pod: pod("alpha", "web-7d4b9"), container: String::new() };
    assert_eq!(dash.keys("s"), [Effect::HandOver(shell)]);
}

#[test]
fn help_says_what_keys_do() {
    let mut dash = Dash::with(Settings::default(), 80, 50);
    dash.data(environments(&[("alpha", "Ready", "")]));
    dash.keys("?");
    insta::assert_snapshot!(dash.screen());
    assert!(dash.keys("q").is_empty(), "it only closes the help");
}

#[test]
fn nothing_is_deleted_before_its_name_is_typed() {
    let mut dash = three();
    assert!(dash.keys("\x04").is_empty());
    insta::assert_snapshot!("delete_asks_for_the_name", dash.screen());
    assert!(dash.keys("alph\n").is_empty());
    assert_eq!(dash.notice(), "alpha stays: its name was not typed");
    assert!(dash.keys("\x04alpha\x1b").is_empty(), "escape after the name");
    assert_eq!(dash.keys("\x04alpha\n"), [Effect::Ask(Request::Delete(Subject::Environment("alpha".to_owned())))]);
    assert_eq!(dash.keys("z"), [Effect::Ask(Request::Sleep("alpha".to_owned()))]);
    assert_eq!(dash.keys("Z"), [Effect::Ask(Request::Wake("alpha".to_owned()))]);
}

#[test]
fn a_job_is_cancelled_after_its_id_is_typed_and_resumed_at_once() {
    let mut dash = three();
    dash.keys("4");
    dash.data(jobs(&[("019a-1f", "alpha", "running"), ("019a-2b", "beta", "failed")]));
    assert!(dash.keys("\x18").is_empty());
    assert!(dash.screen().contains("cancel job 019a-1f? type its id: "), "{}", dash.screen());
    assert!(dash.keys("019a\n").is_empty());
    assert_eq!(dash.notice(), "job 019a-1f goes on: its id was not typed");
    assert_eq!(dash.keys("\x18019a-1f\n"), [Effect::Ask(Request::Cancel("019a-1f".to_owned()))]);
    assert_eq!(dash.keys("jr"), [Effect::Ask(Request::Resume("019a-2b".to_owned()))]);
    assert!(dash.keys("\x04").is_empty());
    assert_eq!(dash.notice(), "delete does nothing in jobs");
    dash.state.settings.read_only = true;
    for keys in ["\x18", "r", ":resume\n"] {
        assert!(dash.keys(keys).is_empty(), "{keys:?}");
        assert!(dash.notice().contains("--readonly"), "{}", dash.notice());
    }
    dash.state.notice = None;
    assert!(!dash.screen().contains("cancel"), "{}", dash.screen());
    dash.keys("1");
    dash.state.settings.read_only = false;
    dash.keys("r");
    assert_eq!(dash.notice(), "resume does nothing in environments");
}

#[test]
fn a_read_only_dashboard_changes_nothing() {
    let mut dash = Dash::with(Settings { read_only: true, ..Settings::default() }, 100, 14);
    dash.data(environments(&[("alpha", "Ready", "")]));
    for keys in ["\x04", "z", "Z", ":sleep\n"] {
        assert!(dash.keys(keys).is_empty(), "{keys:?}");
        assert!(dash.notice().contains("--readonly"), "{}", dash.notice());
    }
    dash.keys("2");
    dash.data(pods("alpha", &[("web-7d4b9", "1/1", "Running")]));
    for keys in ["e", "s", "\x04"] {
        assert!(dash.keys(keys).is_empty(), "{keys:?}");
    }
    dash.keys("y");
    assert!(dash.keys("e").is_empty(), "not from a page either");
    dash.keys("q");
    dash.state.notice = None;
    let screen = dash.screen();
    assert!(screen.contains("read-only") && !screen.contains("delete") && screen.contains("l logs"), "{screen}");
}

#[test]
fn a_change_is_reviewed_before_it_is_made() {
    let mut dash = at_pods();
    let draft = Draft { object: pod("alpha", "web-7d4b9"), base: serde_json::json!({}), edited: "a: 1".to_owned() };
    let review = |accepted, text: &str| Data::Review(Review { draft: draft.clone(), text: text.to_owned(), accepted });
    dash.data(review(true, "the server would store this change:\n  labels:\n-    app: web\n+    app: other\n"));
    insta::assert_snapshot!("a_change", dash.screen());
    assert_eq!(dash.keys("\n"), [Effect::Ask(Request::Apply(draft.clone()))]);
    dash.data(review(false, "spec: Forbidden: pod updates may not change fields"));
    assert!(dash.keys("\n").is_empty());
    assert!(dash.notice().contains("does not take it"));
    assert_eq!(dash.keys("e"), [Effect::HandOver(HandOver::EditAgain(draft.clone()))]);
    dash.data(review(true, "+x"));
    assert!(dash.keys("\x1b").is_empty(), "discarded");
    assert!(dash.keys("\n").iter().all(|effect| !matches!(effect, Effect::Ask(Request::Apply(_)))));
}
