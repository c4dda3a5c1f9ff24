//! Tables, JSON and YAML on standard output.

use std::io::{self, Write};

use clap::ValueEnum;
use jiff::Timestamp;
use serde::Serialize;

use super::error::CliError;

/// How to print.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people.
    #[default]
    Table,
    /// JSON.
    Json,
    /// YAML.
    Yaml,
}

/// Prints a value as JSON or YAML, or as the text that `table` makes.
pub(crate) fn show<T: Serialize>(format: Format, value: &T, table: impl FnOnce() -> String) -> Result<(), CliError> {
    let mut text = match format {
        Format::Table => table(),
        Format::Json => serde_json::to_string_pretty(value).map_err(|e| CliError::Answer(e.to_string()))?,
        Format::Yaml => serde_yaml::to_string(value).map_err(|e| CliError::Answer(e.to_string()))?,
    };
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    print(&text)
}

/// Writes text to standard output.
pub(crate) fn print(text: &str) -> Result<(), CliError> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()?;
    Ok(())
}

/// Columns, as wide as their widest cell; the last is as wide as it is.
pub(crate) fn table<const N: usize>(head: [&str; N], rows: &[[String; N]]) -> String {
    let width = |column: usize| {
        rows.iter().map(|row| row[column].chars().count()).chain([head[column].chars().count()]).max().unwrap_or(0)
    };
    let widths: [usize; N] = std::array::from_fn(width);
    let mut text = String::new();
    let mut line = |cells: [&str; N]| {
        let mut line = String::new();
        for (i, cell) in cells.iter().enumerate() {
            line.push_str(cell);
            if i + 1 < N {
                line.push_str(&" ".repeat(widths[i].saturating_sub(cell.chars().count()) + 3));
            }
        }
        text.push_str(line.trim_end());
        text.push('\n');
    };
    line(head);
    for row in rows {
        line(std::array::from_fn(|i| row[i].as_str()));
    }
    text
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
    fn tables_align() {
        let rows = [["a".to_owned(), "1".to_owned()], ["long-name".to_owned(), String::new()]];
        assert_eq!(table(["NAME", "N"], &rows), "NAME        N\na           1\nlong-name\n");
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
