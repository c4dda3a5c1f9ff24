//! A page of text over the tables: a description, YAML, logs, a review.

use std::collections::VecDeque;

use regex::Regex;

use crate::{
    filter::pattern_of,
    model::{Document, Draft},
};

/// Lines that are kept; of logs the last ones.
pub const LINES: usize = 10_000;
/// Columns that one step to the side goes.
const SIDE: usize = 8;

/// One page.
#[derive(Debug, Clone)]
pub struct Page {
    /// Its number: news of another one come too late.
    pub(crate) id: u64,
    /// What it is called.
    pub title: String,
    /// What was asked for; none: it comes from the dashboard itself.
    pub(crate) document: Option<Document>,
    lines: VecDeque<String>,
    /// First line on the screen, and first column.
    pub(crate) top: usize,
    pub(crate) left: usize,
    /// Long lines go on in the next one.
    pub(crate) wrap: bool,
    /// The end stays in sight.
    pub(crate) follow: bool,
    pub(crate) search: Option<Regex>,
    /// What was typed to be found.
    pub(crate) typed: String,
    /// Nothing more comes; the reason if something is wrong.
    pub(crate) ended: Option<Option<String>>,
    /// Lines that came before those that are kept.
    pub(crate) dropped: usize,
    /// A change that waits for somebody to apply it, and whether it can be applied.
    pub(crate) draft: Option<(Draft, bool)>,
}

impl Page {
    /// An empty page that waits for its document.
    pub(crate) fn of(id: u64, title: String, document: Document) -> Self {
        let follow = matches!(document, Document::Logs { previous: false, .. } | Document::JobLog(_));
        Self { follow, document: Some(document), ..Self::with(id, title, "") }
    }

    /// A page with this text.
    pub(crate) fn with(id: u64, title: String, text: &str) -> Self {
        let mut page = Self {
            id,
            title,
            document: None,
            lines: VecDeque::new(),
            top: 0,
            left: 0,
            wrap: false,
            follow: false,
            search: None,
            typed: String::new(),
            ended: None,
            dropped: 0,
            draft: None,
        };
        page.replace(text);
        page
    }

    /// Replaces the text.
    pub(crate) fn replace(&mut self, text: &str) {
        self.lines.clear();
        self.dropped = 0;
        self.append(text.lines().map(ToOwned::to_owned).collect());
    }

    /// Adds lines.
    pub(crate) fn append(&mut self, lines: Vec<String>) {
        self.lines.extend(lines.into_iter().map(|line| visible(&line)));
        let over = self.lines.len().saturating_sub(LINES);
        self.lines.drain(..over);
        self.dropped += over;
        self.top = self.top.saturating_sub(over);
    }

    /// How many lines there are.
    pub fn len(&self) -> usize {
        self.lines.len()
    }

    /// Whether there is nothing on it.
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// A line by its number.
    pub(crate) fn line(&self, at: usize) -> Option<&str> {
        self.lines.get(at).map(String::as_str)
    }

    /// Rows that a line takes on a screen of so many columns.
    pub(crate) fn rows_of(&self, at: usize, width: usize) -> usize {
        if !self.wrap {
            return 1;
        }
        self.line(at).map_or(1, |line| line.chars().count().div_ceil(width.max(1)).max(1))
    }

    /// The first line of the last screen.
    pub(crate) fn bottom(&self, width: usize, height: usize) -> usize {
        let mut left = height.max(1);
        let mut top = self.lines.len();
        while top > 0 {
            let rows = self.rows_of(top - 1, width);
            if rows > left {
                break;
            }
            left -= rows;
            top -= 1;
        }
        // A line that is longer than the screen is better than nothing.
        top.min(self.lines.len().saturating_sub(1))
    }

    /// Keeps the page on its lines, and at the end when it is followed.
    pub(crate) fn keep_in_sight(&mut self, width: usize, height: usize) {
        let bottom = self.bottom(width, height);
        self.top = if self.follow { bottom } else { self.top.min(bottom) };
    }

    /// Goes up or down; who goes up does not follow any more.
    pub(crate) fn go(&mut self, to: usize) {
        self.follow &= to >= self.top;
        self.top = to;
    }

    /// Goes to the side.
    pub(crate) fn aside(&mut self, right: bool) {
        self.left = if right { self.left + SIDE } else { self.left.saturating_sub(SIDE) };
    }

    /// Searches, and goes to the first place at or after the top of the screen.
    pub(crate) fn find(&mut self, text: &str) {
        text.clone_into(&mut self.typed);
        self.search = if text.is_empty() { None } else { pattern_of(text) };
        if self.search.is_some() {
            self.jump((self.top..self.lines.len()).chain(0..self.top));
        }
    }

    /// Goes to the next place, or the previous one; from the last to the first.
    pub(crate) fn find_next(&mut self, forward: bool) {
        let (top, all) = (self.top.min(self.lines.len()), self.lines.len());
        if forward {
            self.jump((top + 1..all).chain(0..=top.min(all.saturating_sub(1))));
        } else {
            self.jump((0..top).rev().chain((top..all).rev()));
        }
    }

    fn jump(&mut self, mut lines: impl Iterator<Item = usize>) {
        let Some(pattern) = &self.search else { return };
        if let Some(at) = lines.find(|at| self.lines.get(*at).is_some_and(|line| pattern.is_match(line))) {
            self.follow = false;
            self.top = at;
        }
    }

    /// Lines in which something is found.
    pub(crate) fn found(&self) -> Option<usize> {
        let pattern = self.search.as_ref()?;
        Some(self.lines.iter().filter(|line| pattern.is_match(line)).count())
    }
}

/// A line without what would do something to the terminal: control characters, and sequences of colours. Tabs become spaces.
fn visible(line: &str) -> String {
    let mut text = String::with_capacity(line.len());
    let mut letters = line.chars().peekable();
    while let Some(c) = letters.next() {
        match c {
            '\u{1b}' if letters.peek() == Some(&'[') => {
                letters.next();
                // Up to the letter that ends it (ECMA-48).
                while letters.next().is_some_and(|c| !('@'..='~').contains(&c)) {}
            }
            '\t' => text.push_str("    "),
            c if c.is_control() => {}
            // What changes the direction of text could make a line say something else.
            '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{200e}' | '\u{200f}' => {}
            c => text.push(c),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_cannot_drive_the_terminal() {
        assert_eq!(visible("\u{1b}[31mred\u{1b}[0m\tx\u{7}\u{1b}]0;t\r"), "red    x]0;t");
        assert_eq!(visible("a\u{202e}b"), "ab");
    }

    #[test]
    fn the_last_lines_are_kept_and_followed() {
        let document = Document::JobLog("j".to_owned());
        let mut page = Page::of(1, "t".to_owned(), document);
        page.append((0..LINES + 5).map(|i| format!("line {i}")).collect());
        assert_eq!((page.len(), page.dropped, page.line(0)), (LINES, 5, Some("line 5")));
        page.keep_in_sight(80, 10);
        assert_eq!(page.top, LINES - 10);
        page.go(page.top - 1);
        page.append(vec!["new".to_owned()]);
        page.keep_in_sight(80, 10);
        assert_eq!((page.top, page.follow), (LINES - 12, false), "what one reads stays where it is");
    }

    #[test]
    fn long_lines_wrap() {
        let mut page = Page::with(1, String::new(), &format!("short\n{}\nend", "x".repeat(25)));
        page.wrap = true;
        assert_eq!((page.rows_of(1, 10), page.bottom(10, 4)), (3, 1));
        page.find("end");
        assert_eq!(page.top, 2);
        page.find_next(true);
        assert_eq!((page.top, page.found()), (2, Some(1)));
    }
}
