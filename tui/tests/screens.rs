//! The dashboard on a fake terminal: keys and data in, screens out.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use jiff::Timestamp;
use ratatui::{Terminal, backend::TestBackend};
use serde_json::json;
use vctl_tui::{
    draw::draw,
    model::{Data, Event, Pod, Request},
    state::{State, View},
    update::{Effect, Message, update},
};

const ROWS: u16 = 14;

struct Dash {
    state: State,
    terminal: Terminal<TestBackend>,
}

fn now() -> Timestamp {
    "2026-01-02T03:04:05Z".parse().expect("time")
}

impl Dash {
    fn new() -> Self {
        let state = State::new("https://127.0.0.1:8443".to_owned(), now());
        let mut dash = Self { state, terminal: Terminal::new(TestBackend::new(100, ROWS)).expect("terminal") };
        dash.send(Message::Resize(ROWS));
        dash
    }

    fn send(&mut self, message: Message) -> Vec<Effect> {
        update(&mut self.state, message)
    }

    fn data(&mut self, data: Data) -> Vec<Effect> {
        self.send(Message::Data(data))
    }

    /// Keys as text; `\n` is enter, `\x1b` escape, `\t` tab.
    fn keys(&mut self, keys: &str) -> Vec<Effect> {
        let mut effects = Vec::new();
        for key in keys.chars() {
            let code = match key {
                '\n' => KeyCode::Enter,
                '\x1b' => KeyCode::Esc,
                '\t' => KeyCode::Tab,
                other => KeyCode::Char(other),
            };
            effects.extend(self.send(Message::Key(KeyEvent::new(code, KeyModifiers::NONE))));
        }
        effects
    }

    fn screen(&mut self) -> String {
        let state = &self.state;
        self.terminal.draw(|frame| draw(frame, state)).expect("drawn");
        self.terminal.backend().to_string()
    }
}

fn environments(names: &[(&str, &str, &str)]) -> Data {
    let one = |(name, phase, message): &(&str, &str, &str)| {
        serde_json::from_value(json!({
            "name": name, "uid": "u", "template": "team-x", "templateVersion": "1.0.0", "parameters": {}, "phase": phase,
            "message": message, "createdAt": "2026-01-02T03:00:00Z", "readyAt": null, "server": "https://x", "owner": "o",
            "kubernetesVersion": "v1.36.0", "job": null, "pods": {"ready": 2, "total": 2}, "revision": 1,
        }))
        .expect("environment")
    };
    Data::Environments(names.iter().map(one).collect())
}

fn pods(environment: &str, pods: &[(&str, u32, &str)]) -> Data {
    let pod = |(name, ready, status): &(&str, u32, &str)| Pod {
        namespace: "default".to_owned(),
        name: (*name).to_owned(),
        ready: *ready,
        containers: 1,
        status: (*status).to_owned(),
        restarts: 0,
        ip: "10.200.1.2".to_owned(),
        node: "local".to_owned(),
        created: Some("2026-01-02T03:02:00Z".parse().expect("time")),
    };
    Data::Pods { environment: environment.to_owned(), pods: pods.iter().map(pod).collect() }
}

fn three() -> Dash {
    let mut dash = Dash::new();
    dash.data(environments(&[
        ("alpha", "Ready", ""),
        ("beta", "Creating", "wait for workloads: deployment web 1/2 ready"),
        ("gamma", "Failed", "template does not render"),
    ]));
    dash
}

#[test]
fn nothing_is_known_yet() {
    insta::assert_snapshot!(Dash::new().screen());
}

#[test]
fn environments_with_their_phases() {
    insta::assert_snapshot!(three().screen());
}

#[test]
fn the_first_environment_is_followed_and_enter_follows_another() {
    let mut dash = Dash::new();
    let first = dash.data(environments(&[("alpha", "Ready", ""), ("beta", "Ready", "")]));
    assert_eq!(first, [Effect::Ask(Request::Follow("alpha".to_owned()))]);
    assert_eq!(dash.keys("j\n"), [Effect::Ask(Request::Follow("beta".to_owned()))]);
    dash.data(pods("alpha", &[("of-alpha", 1, "Running")]));
    assert_eq!(dash.state.pods, None, "late news of another environment is not shown");
    dash.data(pods("beta", &[("web-7d4b9", 1, "Running"), ("redis-5f6c8", 0, "ImagePullBackOff")]));
    insta::assert_snapshot!(dash.screen());
}

#[test]
fn events_of_an_environment() {
    let mut dash = three();
    let event = |warning, reason: &str, message: &str| Event {
        at: Some("2026-01-02T03:04:00Z".parse().expect("time")),
        warning,
        reason: reason.to_owned(),
        object: "Pod default/web-1".to_owned(),
        count: 3,
        message: message.to_owned(),
    };
    let events = vec![event(true, "Failed", "image not known"), event(false, "Scheduled", "assigned to local")];
    dash.data(Data::Events { environment: "alpha".to_owned(), events });
    dash.keys("4");
    insta::assert_snapshot!(dash.screen());
}

#[test]
fn workers() {
    let mut dash = three();
    let worker = json!({
        "name": "local", "kind": "podman", "connected": true, "lastSeen": null, "pods": 4, "cpuMillis": 2000,
        "memoryBytes": 4_294_967_296_u64, "runtime": "podman 4.3.1",
    });
    dash.data(Data::Workers(vec![serde_json::from_value(worker).expect("worker")]));
    dash.keys("\t\t");
    insta::assert_snapshot!(dash.screen());
}

#[test]
fn filters_keep_and_drop_rows() {
    let mut dash = three();
    dash.keys("/GAM");
    insta::assert_snapshot!("filter_while_typing", dash.screen());
    dash.keys("\n");
    assert_eq!(dash.state.rows().map(|rows| rows.len()), Some(1));
    assert_eq!(dash.keys("\n"), [Effect::Ask(Request::Follow("gamma".to_owned()))], "enter takes what is shown");
    dash.keys("1\x1b/!ready\n");
    let names: Vec<_> = dash.state.rows().expect("rows").into_iter().map(|row| row.cells[0].clone()).collect();
    assert_eq!(names, ["gamma"], "beta's message says ready too");
    dash.keys("/zzz\n");
    insta::assert_snapshot!("filter_nothing_passes", dash.screen());
}

#[test]
fn the_palette_goes_places() {
    let mut dash = three();
    dash.keys(":");
    insta::assert_snapshot!("palette_open", dash.screen());
    assert_eq!(dash.keys("pods beta\n"), [Effect::Ask(Request::Follow("beta".to_owned()))]);
    assert_eq!(dash.state.view, View::Pods);
    dash.keys(":w\n");
    assert_eq!(dash.state.view, View::Workers);
    dash.keys(":e\n");
    assert_eq!(dash.state.notice.as_deref(), Some("\"e\" may be environments or events"));
    dash.keys(":nope\n");
    assert!(dash.state.notice.as_deref().is_some_and(|n| n.contains("there is no command \"nope\"")));
    dash.keys(":pods nobody\n");
    assert_eq!(dash.state.notice.as_deref(), Some("there is no environment \"nobody\""));
    assert_eq!(dash.keys(":q\n"), [Effect::Quit]);
}

#[test]
fn help_and_leaving() {
    let mut dash = three();
    dash.keys("?");
    insta::assert_snapshot!(dash.screen());
    assert!(dash.keys("q").is_empty(), "any key only closes the help");
    assert_eq!(dash.keys("q"), [Effect::Quit]);
    let control_c = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
    assert_eq!(dash.send(Message::Key(control_c)), [Effect::Quit]);
}

#[test]
fn long_tables_scroll_and_stay_in_sight() {
    let mut dash = Dash::new();
    let names: Vec<String> = (0..1000).map(|i| format!("env-{i:04}")).collect();
    let rows: Vec<(&str, &str, &str)> = names.iter().map(|name| (name.as_str(), "Ready", "")).collect();
    dash.data(environments(&rows));
    dash.keys("G");
    assert!(dash.screen().contains("env-0999"));
    dash.keys("kkkkkkkkkkkkkkkkkkkk");
    assert!(dash.screen().contains("env-0979") && !dash.screen().contains("env-0999"));
    dash.data(environments(&rows[..3]));
    assert!(dash.screen().contains("env-0002"), "the cursor follows when rows go");
    dash.keys("g");
    assert_eq!(dash.state.place().cursor, 0);
}

#[test]
fn the_cursor_stays_on_what_it_was_on() {
    let mut dash = three();
    dash.keys("j");
    let names = ["aaa", "alpha", "azure", "beta"].map(|name| (name, "Ready", ""));
    dash.data(environments(&names));
    assert_eq!(dash.keys("\n"), [Effect::Ask(Request::Follow("beta".to_owned()))]);
}

#[test]
fn an_environment_that_cannot_be_reached_says_why() {
    let mut dash = three();
    dash.keys("2");
    dash.data(Data::Unreachable { environment: "alpha".to_owned(), why: "connection refused".to_owned() });
    assert!(dash.screen().contains("alpha cannot be reached: connection refused; trying again"));
    dash.data(pods("alpha", &[("web", 1, "Running")]));
    assert!(!dash.screen().contains("refused"));
}

#[test]
fn trouble_is_shown_until_it_is_over() {
    let mut dash = three();
    dash.data(Data::Trouble("the server does not answer".to_owned()));
    insta::assert_snapshot!(dash.screen());
    dash.data(Data::Connected);
    assert!(!dash.screen().contains("does not answer"));
}

#[test]
fn a_tiny_terminal_does_no_harm() {
    let mut dash = three();
    for (width, height) in [(1, 1), (5, 3), (20, 4), (300, 2)] {
        dash.terminal = Terminal::new(TestBackend::new(width, height)).expect("terminal");
        dash.send(Message::Resize(height));
        dash.keys("?");
        dash.screen();
        dash.keys("x");
        dash.screen();
    }
}
