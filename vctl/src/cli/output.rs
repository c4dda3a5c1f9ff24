//! Tables, names, JSON and YAML on standard output.

mod layout;
mod visible;

use std::{
    cell::Cell,
    io::{self, IsTerminal, Write},
};

use clap::ValueEnum;
use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;

pub(crate) use self::visible::visible;
use super::error::CliError;

/// How to print.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people; as wide as the terminal.
    #[default]
    Table,
    /// For people, with everything: more columns, and nothing is shortened.
    Wide,
    /// JSON.
    Json,
    /// YAML.
    Yaml,
    /// What other commands call it, one a line.
    Name,
}

impl Format {
    /// It is read by people.
    pub(crate) fn for_people(self) -> bool {
        matches!(self, Self::Table | Self::Wide)
    }
}

thread_local! {
    /// How tables are laid out while [`show`] has one made.
    static LAYOUT: Cell<Layout> = const { Cell::new(Layout::PIPED) };
}

/// How a table is laid out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Layout {
    /// It is for a terminal.
    terminal: bool,
    /// Columns of the terminal; none: as many as there are letters.
    room: Option<usize>,
    /// What says how something is doing has a colour.
    colours: bool,
}

impl Layout {
    /// Whole and plain.
    const PIPED: Self = Self { terminal: false, room: None, colours: false };

    /// Colours and widths are for terminals: what is piped is whole and plain.
    fn of_stdout(format: Format) -> Self {
        if !on_terminal() {
            return Self::PIPED;
        }
        let room = vctl_tui::terminal_columns().map(usize::from).filter(|_| format == Format::Table);
        let plain = std::env::var_os("NO_COLOR").is_some_and(|v| !v.is_empty())
            || std::env::var_os("TERM").is_some_and(|v| v == "dumb");
        Self { terminal: true, room, colours: !plain }
    }
}

/// Whether a person sees standard output: then what others wrote must not do anything. What is piped goes on as it is.
fn on_terminal() -> bool {
    io::stdout().is_terminal()
}

/// Arguments of commands that print something.
#[derive(Debug, Clone, Copy, clap::Args)]
pub(crate) struct Output {
    /// How to print it
    #[arg(long, short, value_enum, default_value_t)]
    pub(crate) output: Format,
}

/// Prints a value as JSON or YAML, its names, or the text that `table` makes.
pub(crate) fn show<T: Serialize>(format: Format, value: &T, table: impl FnOnce() -> String) -> Result<(), CliError> {
    let text = match format {
        Format::Table | Format::Wide => {
            LAYOUT.set(Layout::of_stdout(format));
            let text = table();
            LAYOUT.set(Layout::PIPED);
            text
        }
        Format::Name => names(&serde_json::to_value(value).map_err(|e| CliError::Answer(e.to_string()))?)?,
        Format::Json => serde_json::to_string_pretty(value).map_err(|e| CliError::Answer(e.to_string()))?,
        Format::Yaml => serde_yaml::to_string(value).map_err(|e| CliError::Answer(e.to_string()))?,
    };
    let mut text = match format {
        _ if !on_terminal() => text,
        Format::Table | Format::Wide => layout::coloured(&text),
        Format::Name => visible(&text).into_owned(),
        Format::Json | Format::Yaml => visible::escaped(&text).into_owned(),
    };
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    write(text.as_bytes())
}

/// Writes text to standard output; on a terminal what others wrote in it does nothing.
pub(crate) fn print(text: &str) -> Result<(), CliError> {
    if on_terminal() { write(visible(text).as_bytes()) } else { write(text.as_bytes()) }
}

fn write(bytes: &[u8]) -> Result<(), CliError> {
    let mut out = io::stdout().lock();
    out.write_all(bytes)?;
    out.flush()?;
    Ok(())
}

/// Writes what comes in pieces to standard output, as [`print`] does, by lines: a piece may end within a letter.
#[derive(Debug, Default)]
pub(crate) struct Pieces(Vec<u8>);

impl Pieces {
    /// Takes the next piece.
    pub(crate) fn print(&mut self, piece: &[u8]) -> Result<(), CliError> {
        if !on_terminal() {
            return write(piece);
        }
        self.0.extend_from_slice(piece);
        let lines = self.0.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let lines: Vec<u8> = self.0.drain(..lines).collect();
        print(&String::from_utf8_lossy(&lines))
    }

    /// Prints what is left.
    pub(crate) fn end(self) -> Result<(), CliError> {
        print(&String::from_utf8_lossy(&self.0))
    }
}

/// What other commands take for each thing: its id where it has one, else its name, of a version of a template both.
fn names(value: &Value) -> Result<String, CliError> {
    let of = |item: &Value| {
        let text = |field: &str| match &item[field] {
            Value::String(text) if !text.is_empty() => Some(text.clone()),
            Value::Number(number) => Some(number.to_string()),
            _ => None,
        };
        if let (Some(name), Some(version), Some(_)) = (text("name"), text("version"), text("digest")) {
            return Some(format!("{name}@{version}\n"));
        }
        text("id").or_else(|| text("name")).map(|name| name + "\n")
    };
    let found: Option<String> = match value {
        Value::Array(items) => items.iter().map(of).collect(),
        item => of(item),
    };
    found.ok_or_else(|| CliError::Usage("this has no name: print it with -o json or -o yaml".to_owned()))
}

/// Columns, as wide as their widest cell; on a terminal the widest give way, so that a row is a line.
pub(crate) fn table<const N: usize>(head: [&str; N], rows: &[[String; N]]) -> String {
    let rows: Vec<&[String]> = rows.iter().map(<[String; N]>::as_slice).collect();
    layout::table(&head, &rows, LAYOUT.get())
}

/// Time since then, short, as kubectl prints ages: `5s`, `12m`, `3h5m`, `8d`.
pub(crate) fn age(since: Timestamp, now: Timestamp) -> String {
    let seconds = now.duration_since(since).as_secs().max(0);
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86400);
    match () {
        () if seconds < 120 => format!("{seconds}s"),
        () if minutes < 10 && seconds % 60 != 0 => format!("{minutes}m{}s", seconds % 60),
        () if minutes < 180 => format!("{minutes}m"),
        () if hours < 8 && minutes % 60 != 0 => format!("{hours}h{}m", minutes % 60),
        () if hours < 48 => format!("{hours}h"),
        () if days < 8 && hours % 24 != 0 => format!("{days}d{}h", hours % 24),
        () => format!("{days}d"),
    }
}

/// Bytes for people: `12.3 MiB`.
pub(crate) fn bytes(bytes: u64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < units.len() {
        value /= 1024.0;
        unit += 1;
    }
    if unit == 0 { format!("{bytes} B") } else { format!("{value:.1} {}", units[unit]) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_what_other_commands_take() {
        let of = |value: Value| names(&value).ok();
        assert_eq!(of(serde_json::json!([{"name": "a"}, {"id": "j-1", "name": "x"}])).as_deref(), Some("a\nj-1\n"));
        let version = serde_json::json!({"name": "team-x", "version": "1.0.0", "digest": "d"});
        assert_eq!(of(version).as_deref(), Some("team-x@1.0.0\n"));
        assert_eq!(of(serde_json::json!([])).as_deref(), Some(""));
        assert_eq!(of(serde_json::json!({"entries": 3})), None);
    }

    #[test]
    fn ages_are_short() {
        let at = |seconds: i64| age(Timestamp::UNIX_EPOCH, Timestamp::from_second(seconds).expect("time"));
        let got: Vec<_> = [5, 119, 121, 600, 3 * 3600 + 300, 30 * 3600, 9 * 86400].into_iter().map(at).collect();
        assert_eq!(got, ["5s", "119s", "2m1s", "10m", "3h5m", "30h", "9d"]);
    }

    #[test]
    fn bytes_are_readable() {
        assert_eq!((bytes(512), bytes(1536), bytes(5 << 30)), ("512 B".into(), "1.5 KiB".into(), "5.0 GiB".into()));
    }
}
