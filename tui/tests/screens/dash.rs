//! A dashboard without a terminal.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use jiff::Timestamp;
use ratatui::{Terminal, backend::TestBackend};
use serde_json::json;
use vctl_tui::{
    draw::draw,
    model::{Cell, Column, Data, Object, Row, Subject, Tone, View},
    rows,
    state::{Settings, State},
    update::{Effect, Message, update},
};

pub(crate) struct Dash {
    pub(crate) state: State,
    pub(crate) terminal: Terminal<TestBackend>,
    /// Cells and lines that the last frame was made of.
    pub(crate) work: usize,
}

pub(crate) fn now() -> Timestamp {
    "2026-01-02T03:04:05Z".parse().expect("time")
}

impl Dash {
    pub(crate) fn new() -> Self {
        Self::with(Settings::default(), 100, 14)
    }

    pub(crate) fn with(settings: Settings, columns: u16, rows: u16) -> Self {
        let state = State::new("https://127.0.0.1:8443".to_owned(), settings, now());
        let mut dash =
            Self { state, terminal: Terminal::new(TestBackend::new(columns, rows)).expect("terminal"), work: 0 };
        dash.send(Message::Resize(columns, rows));
        dash
    }

    pub(crate) fn send(&mut self, message: Message) -> Vec<Effect> {
        update(&mut self.state, message)
    }

    pub(crate) fn data(&mut self, data: Data) -> Vec<Effect> {
        self.send(Message::Data(data))
    }

    /// Keys as text; `\n` is enter, `\x1b` escape, `\t` tab, `\x04` ctrl-d, `\x18` ctrl-x.
    pub(crate) fn keys(&mut self, keys: &str) -> Vec<Effect> {
        let mut effects = Vec::new();
        for key in keys.chars() {
            let (code, modifiers) = match key {
                '\n' => (KeyCode::Enter, KeyModifiers::NONE),
                '\x1b' => (KeyCode::Esc, KeyModifiers::NONE),
                '\t' => (KeyCode::Tab, KeyModifiers::NONE),
                '\x04' => (KeyCode::Char('d'), KeyModifiers::CONTROL),
                '\x18' => (KeyCode::Char('x'), KeyModifiers::CONTROL),
                other => (KeyCode::Char(other), KeyModifiers::NONE),
            };
            effects.extend(self.send(Message::Key(KeyEvent::new(code, modifiers))));
        }
        effects
    }

    pub(crate) fn screen(&mut self) -> String {
        let state = &self.state;
        let mut work = 0;
        self.terminal.draw(|frame| work = draw(frame, state)).expect("drawn");
        self.work = work;
        self.terminal.backend().to_string()
    }

    pub(crate) fn notice(&self) -> &str {
        self.state.notice.as_deref().unwrap_or_default()
    }
}

pub(crate) fn environments(names: &[(&str, &str, &str)]) -> Data {
    let one = |(name, phase, message): &(&str, &str, &str)| {
        let environment = json!({
            "name": name, "uid": "u", "template": "team-x", "templateVersion": "1.0.0", "parameters": {}, "phase": phase,
            "message": message, "createdAt": "2026-01-02T03:00:00Z", "readyAt": null, "server": "https://x", "owner": "ann",
            "kubernetesVersion": "v1.36.0", "job": null, "pods": {"ready": 2, "total": 2}, "revision": 1,
        });
        rows::environment(&serde_json::from_value(environment).expect("environment"))
    };
    Data::Table {
        view: View::Environments,
        environment: None,
        columns: rows::environment_columns(),
        rows: names.iter().map(one).collect(),
    }
}

pub(crate) fn jobs(jobs: &[(&str, &str, &str)]) -> Data {
    let one = |(id, environment, state): &(&str, &str, &str)| {
        let job = json!({
            "id": id, "environment": environment, "operation": "create", "state": state, "attempt": 1, "steps": [],
            "createdAt": "2026-01-02T03:00:00Z", "finishedAt": null, "error": "", "revision": 1,
        });
        rows::job(&serde_json::from_value(job).expect("job"))
    };
    Data::Table {
        view: View::Jobs,
        environment: None,
        columns: rows::job_columns(),
        rows: jobs.iter().map(one).collect(),
    }
}

pub(crate) fn pod(environment: &str, name: &str) -> Object {
    Object {
        environment: environment.to_owned(),
        resource: "pods".to_owned(),
        namespace: "default".to_owned(),
        name: name.to_owned(),
        containers: vec!["web".to_owned(), "side".to_owned()],
    }
}

pub(crate) fn pods(environment: &str, pods: &[(&str, &str, &str)]) -> Data {
    let row = |(name, ready, status): &(&str, &str, &str)| {
        let text = |text: &str| Cell::Text(text.to_owned());
        let cells = vec![
            text("default"),
            text(name),
            text(ready),
            text(status),
            text("0"),
            Cell::Age(Some("2026-01-02T03:02:00Z".parse().expect("time"))),
            text("10.200.1.2"),
            text("local"),
        ];
        let app = name.split('-').next().unwrap_or_default();
        Row::new(Subject::Object(pod(environment, name)), cells, rows::tone("STATUS", status), json!({"app": app}))
    };
    let mut columns: Vec<Column> = ["NAMESPACE", "NAME", "READY"].into_iter().map(Column::new).collect();
    columns.push(Column::telling("STATUS"));
    columns.extend(["RESTARTS", "AGE"].into_iter().map(Column::new));
    columns.extend(["IP", "NODE"].into_iter().map(Column::wide));
    Data::Table {
        view: View::Pods,
        environment: Some(environment.to_owned()),
        columns,
        rows: pods.iter().map(row).collect(),
    }
}

pub(crate) fn three() -> Dash {
    let mut dash = Dash::new();
    dash.data(environments(&[
        ("alpha", "Ready", ""),
        ("beta", "Creating", "wait for workloads: deployment web 1/2 ready"),
        ("gamma", "Failed", "template does not render"),
    ]));
    dash
}

/// The pods of alpha, on the screen.
pub(crate) fn at_pods() -> Dash {
    let mut dash = three();
    dash.keys("2");
    dash.data(pods("alpha", &[("redis-5f6c8", "0/1", "ImagePullBackOff"), ("web-7d4b9", "1/1", "Running")]));
    dash
}

/// A row that says how it is doing in no way.
pub(crate) fn plain(subject: Subject, cells: &[&str]) -> Row {
    Row::new(subject, cells.iter().map(|c| Cell::Text((*c).to_owned())).collect(), Tone::Plain, serde_json::Value::Null)
}
