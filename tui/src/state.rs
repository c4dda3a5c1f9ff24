//! Everything that the screen depends on.

use std::collections::{BTreeMap, VecDeque};

use jiff::Timestamp;

use crate::{
    keys::KeyMap,
    model::{Kind, Row, Subject, View},
    page::Page,
    table::Table,
    theme::{THEMES, Theme},
};

/// What people choose before the dashboard begins.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Which key does what.
    pub keys: KeyMap,
    /// Colours.
    pub theme: Theme,
    /// Nothing can be changed: no edit, no deletion, no shell.
    pub read_only: bool,
    /// The terminal shows ASCII only.
    pub ascii: bool,
    /// What is wrong with the settings; told once and by `:warnings`.
    pub warnings: Vec<String>,
}

impl Default for Settings {
    fn default() -> Self {
        Self { keys: KeyMap::default(), theme: THEMES[0], read_only: false, ascii: false, warnings: Vec::new() }
    }
}

/// What keys mean at the moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Mode {
    /// What the key map says.
    Normal,
    /// Typing a filter.
    Filter,
    /// Typing what is searched on a page.
    Search,
    /// Typing a command.
    Palette(String),
    /// Typing the name of what shall be deleted, or the id of the job that shall be cancelled: jobs are not deleted.
    Confirm {
        /// What.
        subject: Subject,
        /// What was typed.
        typed: String,
    },
}

/// Measurements that are kept for the little curves.
pub(crate) const SAMPLES: usize = 12;

/// The dashboard's state.
#[derive(Debug, Clone)]
pub struct State {
    /// Address of the server.
    pub server: String,
    /// What was chosen before it began.
    pub settings: Settings,
    /// The table that is shown.
    pub view: View,
    /// The view that one comes back to from a kind.
    pub(crate) before: View,
    /// What keys mean.
    pub mode: Mode,
    /// The page over the table.
    pub page: Option<Page>,
    /// The environment whose pods and events are shown.
    pub chosen: Option<String>,
    /// Why data does not flow.
    pub trouble: Option<String>,
    /// What to tell about the last command.
    pub notice: Option<String>,
    /// All columns are shown.
    pub wide: bool,
    /// Now, for ages.
    pub now: Timestamp,
    pub(crate) tables: BTreeMap<View, Table>,
    /// Kinds of the chosen environment.
    pub(crate) kinds: Vec<Kind>,
    /// What the chosen environment uses: thousandths of processors, bytes.
    pub(crate) usage: VecDeque<(u64, u64)>,
    /// Number of the last page.
    pub(crate) pages: u64,
    /// What was asked for last.
    pub(crate) asked: Option<(View, Option<String>)>,
    /// Of the terminal.
    pub(crate) columns: u16,
    pub(crate) rows: u16,
}

impl State {
    /// Before anything is known.
    pub fn new(server: String, settings: Settings, now: Timestamp) -> Self {
        let notice = match settings.warnings.as_slice() {
            [] => None,
            [one] => Some(one.clone()),
            several => Some(format!("the settings have {} problems: see :warnings", several.len())),
        };
        Self {
            server,
            settings,
            view: View::Environments,
            before: View::Environments,
            mode: Mode::Normal,
            page: None,
            chosen: None,
            trouble: None,
            notice,
            wide: false,
            now,
            tables: BTreeMap::new(),
            kinds: Vec::new(),
            usage: VecDeque::new(),
            pages: 0,
            asked: None,
            columns: 80,
            rows: 24,
        }
    }

    /// The table of a view; none when nothing is known of it.
    pub fn table(&self, view: &View) -> Option<&Table> {
        self.tables.get(view)
    }

    /// The table that is shown.
    pub(crate) fn table_mut(&mut self) -> &mut Table {
        self.tables.entry(self.view.clone()).or_default()
    }

    /// The row under the cursor.
    pub fn chosen_row(&self) -> Option<&Row> {
        self.table(&self.view)?.chosen()
    }

    /// Rows of a table that fit on the screen: beside it there are title, tabs, two borders, column titles and the key bar.
    pub(crate) fn table_height(&self) -> usize {
        usize::from(self.rows.saturating_sub(6)).max(1)
    }

    /// Lines of a page that fit on the screen: without column titles.
    pub(crate) fn page_height(&self) -> usize {
        usize::from(self.rows.saturating_sub(5)).max(1)
    }

    /// The theme that is shown.
    pub(crate) fn theme(&self) -> Theme {
        self.settings.theme
    }
}
