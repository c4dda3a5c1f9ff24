//! A table: its rows in the order in which they are shown, and where one is in it.
//!
//! All rows are looked at when they come, and when filter or order change; a key or a frame looks at those on the screen only.

use std::cmp::Ordering;

use crate::{
    filter::Filter,
    model::{Cell, Column, Row, Subject},
};

/// Width of an age.
const AGE_WIDTH: usize = 5;

/// One table.
#[derive(Debug, Clone, Default)]
pub struct Table {
    columns: Vec<Column>,
    rows: Option<Vec<Row>>,
    /// Rows that pass the filter, in order.
    shown: Vec<u32>,
    /// Of the widest cell of each column.
    widths: Vec<usize>,
    filter: Filter,
    sort: Option<(usize, bool)>,
    /// Position of the chosen row among those that are shown.
    pub(crate) cursor: usize,
    /// The first row on the screen.
    pub(crate) offset: usize,
    /// What was typed as filter.
    pub(crate) typed: String,
    /// Why there are no rows.
    pub(crate) why: Option<String>,
    /// How often all rows were looked at.
    passes: u64,
}

impl Table {
    /// Takes new rows; the cursor stays on what it was on.
    pub(crate) fn replace(&mut self, columns: Vec<Column>, rows: Vec<Row>) {
        let subject = self.chosen().map(|row| row.subject.clone());
        let width = |at: usize| {
            let cells = rows.iter().filter_map(|row| row.cells.get(at)).map(|cell| match cell {
                Cell::Text(text) => text.chars().count(),
                Cell::Age(_) => AGE_WIDTH,
            });
            cells.chain([columns[at].title.chars().count()]).max().unwrap_or_default()
        };
        self.widths = (0..columns.len()).map(width).collect();
        if self.columns != columns {
            self.sort = None;
            self.columns = columns;
        }
        self.rows = Some(rows);
        self.why = None;
        self.arrange(subject);
    }

    /// Reads a filter; the error is of a selector, whose rows are then all shown.
    pub(crate) fn filter(&mut self, text: &str) -> Result<(), String> {
        let parsed = Filter::parse(text);
        let wrong = parsed.as_ref().err().cloned();
        if self.typed != text {
            let subject = self.chosen().map(|row| row.subject.clone());
            text.clone_into(&mut self.typed);
            self.filter = parsed.unwrap_or_default();
            self.arrange(subject);
        }
        wrong.map_or(Ok(()), Err)
    }

    /// Sorts by the next column that is shown; after the last as the rows came.
    pub(crate) fn sort_next(&mut self, wide: bool) {
        let next = self.sort.map_or(0, |(at, _)| at + 1);
        let found = (next..self.columns.len()).find(|at| wide || !self.columns[*at].wide);
        self.sort = found.map(|at| (at, false));
        let subject = self.chosen().map(|row| row.subject.clone());
        self.arrange(subject);
    }

    /// Sorts the other way round.
    pub(crate) fn reverse(&mut self) {
        let (at, reversed) = self.sort.unwrap_or((0, false));
        self.sort = Some((at, !reversed));
        let subject = self.chosen().map(|row| row.subject.clone());
        self.arrange(subject);
    }

    fn arrange(&mut self, subject: Option<Subject>) {
        self.passes += 1;
        let rows = self.rows.as_deref().unwrap_or_default();
        let mut shown: Vec<u32> = (0..rows.len() as u32).filter(|at| self.filter.takes(&rows[*at as usize])).collect();
        if let Some((column, reversed)) = self.sort {
            shown.sort_by(|a, b| {
                let of = |at: u32| rows[at as usize].cells.get(column);
                let order = compare(of(*a), of(*b));
                if reversed { order.reverse() } else { order }
            });
        }
        self.shown = shown;
        if let Some(subject) = subject
            && let Some(at) = self
                .shown
                .iter()
                .position(|at| self.rows.iter().flatten().nth(*at as usize).is_some_and(|r| r.subject == subject))
        {
            self.cursor = at;
        }
    }

    /// Keeps the cursor on a row, and that row on a screen of so many rows.
    pub(crate) fn keep_in_sight(&mut self, height: usize) {
        let height = height.max(1);
        self.cursor = self.cursor.min(self.shown.len().saturating_sub(1));
        if self.cursor < self.offset {
            self.offset = self.cursor;
        } else if self.cursor >= self.offset + height {
            self.offset = self.cursor + 1 - height;
        }
        self.offset = self.offset.min(self.shown.len().saturating_sub(height));
    }

    /// Its columns.
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// Width of the widest cell of a column.
    pub(crate) fn width(&self, column: usize) -> usize {
        self.widths.get(column).copied().unwrap_or_default()
    }

    /// The column by which it is sorted, and whether the other way round.
    pub(crate) fn sort(&self) -> Option<(usize, bool)> {
        self.sort
    }

    /// Rows there are; none while that is not known.
    pub fn len(&self) -> Option<usize> {
        self.rows.as_ref().map(Vec::len)
    }

    /// Whether it is known that there is no row.
    pub fn is_empty(&self) -> bool {
        self.len() == Some(0)
    }

    /// Rows that pass the filter.
    pub fn shown(&self) -> usize {
        self.shown.len()
    }

    /// A row by its position among those that are shown.
    pub fn row(&self, at: usize) -> Option<&Row> {
        self.rows.as_ref()?.get(*self.shown.get(at)? as usize)
    }

    /// The row under the cursor.
    pub fn chosen(&self) -> Option<&Row> {
        self.row(self.cursor)
    }

    /// Position of the cursor among the rows that are shown.
    pub fn cursor(&self) -> usize {
        self.cursor
    }

    /// Whether there is a row about this.
    pub(crate) fn has(&self, subject: &Subject) -> bool {
        self.rows.iter().flatten().any(|row| row.subject == *subject)
    }

    /// How often all rows were looked at: it grows with news, filters and sorting, never with a frame or a movement.
    pub fn passes(&self) -> u64 {
        self.passes
    }
}

/// Numbers by value, ages by time (youngest first), anything else by text.
fn compare(a: Option<&Cell>, b: Option<&Cell>) -> Ordering {
    match (a, b) {
        (Some(Cell::Text(a)), Some(Cell::Text(b))) => match (number(a), number(b)) {
            (Some(a), Some(b)) => a.total_cmp(&b),
            _ => a.cmp(b),
        },
        (Some(Cell::Age(a)), Some(Cell::Age(b))) => b.cmp(a),
        _ => Ordering::Equal,
    }
}

/// The number with which a cell begins: `3`, `1/2`, `250m`, `1.5 GiB`.
fn number(text: &str) -> Option<f64> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let value: f64 = text[..end].parse().ok()?;
    let scale = match text[end..].trim_start().as_bytes() {
        [b'm', ..] => 0.001,
        [b'K' | b'k', ..] => 1024.0,
        [b'M', ..] => 1024.0 * 1024.0,
        [b'G', ..] => 1024.0 * 1024.0 * 1024.0,
        [] | [b'/' | b'%' | b' ', ..] => 1.0,
        _ => return None,
    };
    Some(value * scale)
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::model::Tone;

    fn table(cells: &[&str]) -> Table {
        let row = |text: &&str| {
            let cells = vec![Cell::Text((*text).to_owned())];
            Row::new(Subject::Worker((*text).to_owned()), cells, Tone::Plain, Value::Null)
        };
        let mut table = Table::default();
        table.replace(vec![Column::new("X")], cells.iter().map(row).collect());
        table
    }

    fn shown(table: &Table) -> Vec<&str> {
        (0..table.shown()).filter_map(|at| table.row(at)).map(|row| row.subject.name()).collect()
    }

    #[test]
    fn numbers_sort_by_value_and_names_by_text() {
        let mut numbers = table(&["10", "9", "1/2", "250m", "1.5 GiB", "3Ki"]);
        numbers.sort_next(false);
        assert_eq!(shown(&numbers), ["250m", "1/2", "9", "10", "3Ki", "1.5 GiB"]);
        numbers.reverse();
        assert_eq!(shown(&numbers)[0], "1.5 GiB");
        numbers.sort_next(false);
        assert_eq!(shown(&numbers)[0], "10", "after the last column as they came");
        let mut names = table(&["web-2", "Web", "web-10"]);
        names.sort_next(false);
        assert_eq!(shown(&names), ["Web", "web-10", "web-2"]);
    }

    #[test]
    fn the_cursor_stays_on_its_row_and_in_sight() {
        let mut it = table(&["a", "b", "c", "d"]);
        it.cursor = 2;
        it.filter("c|d").expect("filter");
        assert_eq!((it.cursor, it.shown()), (0, 2));
        it.filter("").expect("filter");
        assert_eq!(it.cursor, 2);
        it.keep_in_sight(2);
        assert_eq!(it.offset, 1);
        it.replace(vec![Column::new("X")], Vec::new());
        it.keep_in_sight(2);
        assert_eq!((it.cursor, it.offset, it.chosen().is_none()), (0, 0, true));
    }
}
