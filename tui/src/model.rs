//! What the dashboard shows, and what it asks for.

use jiff::Timestamp;
use serde_json::Value;

/// One of the tables.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum View {
    /// All environments.
    Environments,
    /// Pods of the chosen environment.
    Pods,
    /// All workers.
    Workers,
    /// Jobs of the platform, newest first.
    Jobs,
    /// Events of the chosen environment, newest first.
    Events,
    /// The audit trail, newest first.
    Audit,
    /// Objects of any other kind of the chosen environment, by its plural name, with the group where the name alone is not enough.
    Kind(String),
}

impl View {
    /// In the order of their numbers.
    pub const NUMBERED: [Self; 6] =
        [Self::Environments, Self::Pods, Self::Workers, Self::Jobs, Self::Events, Self::Audit];

    /// As the palette and the tabs call it.
    pub fn name(&self) -> &str {
        match self {
            Self::Environments => "environments",
            Self::Workers => "workers",
            Self::Jobs => "jobs",
            Self::Audit => "audit",
            Self::Pods | Self::Events | Self::Kind(_) => self.resource().unwrap_or_default(),
        }
    }

    /// The kind of Kubernetes that it shows: its plural name.
    pub fn resource(&self) -> Option<&str> {
        match self {
            Self::Pods => Some("pods"),
            Self::Events => Some("events"),
            Self::Kind(name) => Some(name),
            Self::Environments | Self::Workers | Self::Jobs | Self::Audit => None,
        }
    }
}

/// A column of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// Its title, in capitals.
    pub title: String,
    /// Shown only when everything is.
    pub wide: bool,
    /// It says how the row is doing: it has the colour of it.
    pub tells: bool,
}

impl Column {
    /// A column that is always shown.
    pub fn new(title: &str) -> Self {
        Self { title: title.to_owned(), wide: false, tells: false }
    }

    /// A column that says how the row is doing.
    pub fn telling(title: &str) -> Self {
        Self { tells: true, ..Self::new(title) }
    }

    /// A column that is shown when everything is.
    pub fn wide(title: &str) -> Self {
        Self { wide: true, ..Self::new(title) }
    }
}

/// What stands in a column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cell {
    /// Text of one line.
    Text(String),
    /// The time since then, which grows while one looks.
    Age(Option<Timestamp>),
}

/// How a row is doing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Tone {
    /// Nothing special.
    #[default]
    Plain,
    /// As it should be.
    Good,
    /// On its way.
    Busy,
    /// Needs somebody.
    Bad,
}

/// A row of a table.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// What it is about; rows of a table are about different things.
    pub subject: Subject,
    /// One per column.
    pub cells: Vec<Cell>,
    /// How it is doing.
    pub tone: Tone,
    /// Labels, for selectors: an object, or null.
    pub labels: Value,
    /// The text of its cells, which filters search.
    pub(crate) text: String,
}

impl Row {
    /// A row; what filters find in it is the text of its cells.
    pub fn new(subject: Subject, cells: Vec<Cell>, tone: Tone, labels: Value) -> Self {
        let mut text = String::new();
        for cell in &cells {
            if let Cell::Text(cell) = cell {
                text.push_str(cell);
                text.push('\n');
            }
        }
        Self { subject, cells, tone, labels, text }
    }
}

/// What a row is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Subject {
    /// An environment, by name.
    Environment(String),
    /// A worker, by name.
    Worker(String),
    /// A job, by id.
    Job(String),
    /// An entry of the audit trail, by key.
    Audit(String),
    /// An object in an environment.
    Object(Object),
}

impl Subject {
    /// What a person calls it, and types to confirm that it shall be deleted; of a job, that it shall be cancelled.
    pub fn name(&self) -> &str {
        match self {
            Self::Environment(name) | Self::Worker(name) | Self::Job(name) | Self::Audit(name) => name,
            Self::Object(object) => &object.name,
        }
    }
}

/// An object in an environment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Object {
    /// Name of the environment.
    pub environment: String,
    /// Plural name of its kind, with the group where the name alone is not enough.
    pub resource: String,
    /// Namespace, or empty.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// Containers of a pod: of its spec, then those that initialize it.
    pub containers: Vec<String>,
}

/// A kind that an environment has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kind {
    /// Plural name, with the group where the name alone is not enough.
    pub name: String,
    /// What else it is called: singular, short names.
    pub aliases: Vec<String>,
}

/// A change of an object that has not been applied.
#[derive(Debug, Clone, PartialEq)]
pub struct Draft {
    /// What is changed.
    pub object: Object,
    /// As it was when the change was begun.
    pub base: Value,
    /// As it shall be: what was written, in YAML.
    pub edited: String,
}

/// What the server says to a change of an object, before it is made.
#[derive(Debug, Clone, PartialEq)]
pub struct Review {
    /// The change.
    pub draft: Draft,
    /// What would come of it, or why it cannot be made; lines of a diff begin with `+` and `-`.
    pub text: String,
    /// It can be applied.
    pub accepted: bool,
}

/// News for the dashboard.
#[derive(Debug, Clone, PartialEq)]
pub enum Data {
    /// All rows of a table; replaces what was known of it.
    Table {
        /// Which.
        view: View,
        /// Of which environment, where the view is of one.
        environment: Option<String>,
        /// Its columns.
        columns: Vec<Column>,
        /// Its rows.
        rows: Vec<Row>,
    },
    /// A table cannot be had (yet); this is shown in its place while none is known.
    Unreachable {
        /// Which.
        view: View,
        /// Of which environment.
        environment: Option<String>,
        /// Why.
        why: String,
    },
    /// The kinds that an environment has.
    Kinds {
        /// Which environment.
        environment: String,
        /// Its kinds.
        kinds: Vec<Kind>,
    },
    /// What the pods of an environment use at the moment.
    Usage {
        /// Which environment.
        environment: String,
        /// Thousandths of a processor.
        cpu_millis: u64,
        /// Bytes.
        memory_bytes: u64,
    },
    /// Data cannot be had; what is shown grows old. The text is shown until [`Data::Connected`].
    Trouble(String),
    /// Data flows (again).
    Connected,
    /// The text of a page; replaces what was there.
    Text {
        /// Number of the page; another one is not open any more.
        page: u64,
        /// The text.
        text: String,
    },
    /// Lines that are added to a page.
    Lines {
        /// Number of the page.
        page: u64,
        /// The lines.
        lines: Vec<String>,
    },
    /// Nothing more is added to a page.
    Ended {
        /// Number of the page.
        page: u64,
        /// Why, if something is wrong.
        why: Option<String>,
    },
    /// What the server says to a change.
    Review(Review),
    /// Something has been done, or could not be done.
    Notice(String),
}

/// What the dashboard asks for.
#[derive(Debug, Clone, PartialEq)]
pub enum Request {
    /// Bring this table from now on, and of the others only environments and workers.
    Show {
        /// Which.
        view: View,
        /// Of which environment.
        environment: Option<String>,
    },
    /// Bring a page.
    Open {
        /// Its number.
        page: u64,
        /// What is on it.
        document: Document,
    },
    /// No page is open any more.
    Close,
    /// Delete this, without asking again.
    Delete(Subject),
    /// Put an environment to sleep.
    Sleep(String),
    /// Wake an environment.
    Wake(String),
    /// Tell a job to stop, by its id, without asking again.
    Cancel(String),
    /// Do again what a job was at, by its id.
    Resume(String),
    /// Make a change.
    Apply(Draft),
}

/// What can be on a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Document {
    /// Everything that matters about it, for people.
    Describe(Subject),
    /// As it is stored.
    Yaml(Subject),
    /// What a container writes, for as long as the page is open.
    Logs {
        /// The pod.
        pod: Object,
        /// Name of the container; empty: the first.
        container: String,
        /// Of the container before the last restart.
        previous: bool,
    },
    /// What a job says, until it ends.
    JobLog(String),
}

/// What needs the terminal for itself.
#[derive(Debug, Clone, PartialEq)]
pub enum HandOver {
    /// A shell in a container.
    Shell {
        /// The pod.
        pod: Object,
        /// Name of the container; empty: the first.
        container: String,
    },
    /// The person's editor, with an object.
    Edit(Object),
    /// The editor again, with what was written before.
    EditAgain(Draft),
}

/// What happens outside while the dashboard has given the terminal away.
#[async_trait::async_trait]
pub trait Outside: Send {
    /// Uses the terminal, which is as it was before the dashboard, and gives it back so.
    async fn hand_over(&mut self, task: HandOver) -> Data;
}
