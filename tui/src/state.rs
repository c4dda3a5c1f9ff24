//! Everything that the screen depends on.

use std::collections::BTreeMap;

use jiff::Timestamp;
use vctl_api::rest::{Environment, Worker};

use crate::model::{Event, Pod};

/// One of the four tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum View {
    /// All environments.
    Environments,
    /// Pods of the chosen environment.
    Pods,
    /// All workers.
    Workers,
    /// Events of the chosen environment.
    Events,
}

impl View {
    /// In the order of their numbers.
    pub const ALL: [Self; 4] = [Self::Environments, Self::Pods, Self::Workers, Self::Events];

    /// As the palette and the tabs call it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Environments => "environments",
            Self::Pods => "pods",
            Self::Workers => "workers",
            Self::Events => "events",
        }
    }
}

/// What keys mean at the moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Mode {
    /// Moving about.
    Normal,
    /// Typing a filter.
    Filter,
    /// Typing a command.
    Palette(String),
    /// Reading the help.
    Help,
}

/// Where one is in a table.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Place {
    /// The chosen row, among those that pass the filter.
    pub cursor: usize,
    /// The first row on the screen.
    pub offset: usize,
    /// Only rows with this text; with `!` before it, only rows without.
    pub filter: String,
}

/// The dashboard's state.
#[derive(Debug, Clone, PartialEq)]
pub struct State {
    /// Address of the server.
    pub server: String,
    /// The table that is shown.
    pub view: View,
    /// What keys mean.
    pub mode: Mode,
    /// Where one is in each table.
    pub places: BTreeMap<View, Place>,
    /// The environment whose pods and events are shown.
    pub chosen: Option<String>,
    /// None until they are known.
    pub environments: Option<Vec<Environment>>,
    /// None until they are known.
    pub workers: Option<Vec<Worker>>,
    /// None until they are known.
    pub pods: Option<Vec<Pod>>,
    /// None until they are known.
    pub events: Option<Vec<Event>>,
    /// Why pods and events of the chosen environment are not known.
    pub unreachable: Option<String>,
    /// Why data does not flow.
    pub trouble: Option<String>,
    /// What to tell about the last command.
    pub notice: Option<String>,
    /// Now, for ages.
    pub now: Timestamp,
    /// Rows of a table that fit on the screen.
    pub height: usize,
}

/// How a row, or a part of it, is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tone {
    /// Nothing special.
    Plain,
    /// As it should be.
    Good,
    /// On its way.
    Busy,
    /// Needs somebody.
    Bad,
}

/// A row of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// One per column.
    pub cells: Vec<String>,
    /// How it is meant.
    pub tone: Tone,
}

impl Row {
    /// What the row is about: its name, with the namespace where there is one.
    pub(crate) fn subject(&self, view: View) -> String {
        let cells = if view == View::Pods { 2 } else { 1 };
        self.cells.iter().take(cells).map(String::as_str).collect::<Vec<_>>().join("/")
    }
}

impl State {
    /// Before anything is known.
    pub fn new(server: String, now: Timestamp) -> Self {
        Self {
            server,
            view: View::Environments,
            mode: Mode::Normal,
            places: BTreeMap::new(),
            chosen: None,
            environments: None,
            workers: None,
            pods: None,
            events: None,
            unreachable: None,
            trouble: None,
            notice: None,
            now,
            height: 20,
        }
    }

    /// Where one is in the table that is shown.
    pub fn place(&self) -> Place {
        self.places.get(&self.view).cloned().unwrap_or_default()
    }

    /// What the chosen row is about, as long as one row is about one thing.
    pub(crate) fn subject(&self) -> Option<String> {
        let rows = self.rows().filter(|_| self.view != View::Events)?;
        rows.get(self.place().cursor).map(|row| row.subject(self.view))
    }

    /// Titles of the columns of the table that is shown.
    pub fn columns(&self) -> &'static [&'static str] {
        match self.view {
            View::Environments => &["NAME", "PHASE", "PODS", "TEMPLATE", "AGE", "MESSAGE"],
            View::Pods => &["NAMESPACE", "NAME", "READY", "STATUS", "RESTARTS", "AGE", "IP", "NODE"],
            View::Workers => &["NAME", "KIND", "AGENT", "PODS", "CPUS", "MEMORY", "RUNTIME"],
            View::Events => &["LAST SEEN", "TYPE", "REASON", "OBJECT", "COUNT", "MESSAGE"],
        }
    }

    /// The rows that pass the filter; none while they are not known.
    pub fn rows(&self) -> Option<Vec<Row>> {
        let now = self.now;
        let mut rows: Vec<Row> = match self.view {
            View::Environments => self.environments.as_ref()?.iter().map(|e| environment(e, now)).collect(),
            View::Pods => self.pods.as_ref()?.iter().map(|p| pod(p, now)).collect(),
            View::Workers => self.workers.as_ref()?.iter().map(worker).collect(),
            View::Events => self.events.as_ref()?.iter().map(|e| event(e, now)).collect(),
        };
        let filter = self.place().filter;
        if !filter.is_empty() {
            rows.retain(|row| passes(&row.cells, &filter));
        }
        Some(rows)
    }
}

/// Whether a row passes a filter, without regard to case.
fn passes(cells: &[String], filter: &str) -> bool {
    let (text, wanted) = filter.strip_prefix('!').map_or((filter, true), |text| (text, false));
    if text.is_empty() {
        return true;
    }
    let text = text.to_lowercase();
    cells.iter().any(|cell| cell.to_lowercase().contains(&text)) == wanted
}

fn environment(e: &Environment, now: Timestamp) -> Row {
    use vctl_api::rest::Phase;
    let tone = match e.phase {
        Phase::Ready if e.pods.ready == e.pods.total => Tone::Good,
        Phase::Ready | Phase::Creating | Phase::Deleting | Phase::Waking | Phase::Updating => Tone::Busy,
        Phase::Sleeping => Tone::Plain,
        Phase::Failed => Tone::Bad,
    };
    let cells = vec![
        e.name.to_string(),
        format!("{:?}", e.phase),
        format!("{}/{}", e.pods.ready, e.pods.total),
        format!("{} {}", e.template, e.template_version),
        age(Some(e.created_at), now),
        e.message.clone(),
    ];
    Row { cells, tone }
}

fn pod(p: &Pod, now: Timestamp) -> Row {
    let tone = match p.status.as_str() {
        "Running" if p.ready == p.containers => Tone::Good,
        "Completed" | "Succeeded" => Tone::Plain,
        "Failed" | "Error" | "OOMKilled" | "Evicted" => Tone::Bad,
        status if status.contains("BackOff") || status.contains("Err") => Tone::Bad,
        _ => Tone::Busy,
    };
    let cells = vec![
        p.namespace.clone(),
        p.name.clone(),
        format!("{}/{}", p.ready, p.containers),
        p.status.clone(),
        p.restarts.to_string(),
        age(p.created, now),
        p.ip.clone(),
        p.node.clone(),
    ];
    Row { cells, tone }
}

fn worker(w: &Worker) -> Row {
    let (agent, tone) = if w.connected { ("connected", Tone::Good) } else { ("not connected", Tone::Bad) };
    let cells = vec![
        w.name.clone(),
        w.kind.clone(),
        agent.to_owned(),
        w.pods.to_string(),
        format!("{:.1}", w.cpu_millis as f64 / 1000.0),
        format!("{:.1} GiB", w.memory_bytes as f64 / f64::from(1 << 30)),
        w.runtime.clone(),
    ];
    Row { cells, tone }
}

fn event(e: &Event, now: Timestamp) -> Row {
    let cells = vec![
        age(e.at, now),
        if e.warning { "Warning" } else { "Normal" }.to_owned(),
        e.reason.clone(),
        e.object.clone(),
        e.count.to_string(),
        e.message.clone(),
    ];
    Row { cells, tone: if e.warning { Tone::Bad } else { Tone::Plain } }
}

/// Time since then, in its two largest units at most.
fn age(since: Option<Timestamp>, now: Timestamp) -> String {
    let Some(since) = since else { return "-".to_owned() };
    let seconds = now.duration_since(since).as_secs().max(0);
    match seconds {
        0..120 => format!("{seconds}s"),
        120..7200 => format!("{}m", seconds / 60),
        7200..172_800 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86400),
    }
}
