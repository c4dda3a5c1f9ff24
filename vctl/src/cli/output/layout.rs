//! The layout of tables.

use std::sync::OnceLock;

use super::{Layout, visible::visible};

/// Spaces between columns.
const GAP: usize = 3;
/// Narrowest that a column is made.
const NARROW: usize = 8;

/// How something is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Tone {
    Good,
    Busy,
    Bad,
    /// What follows has none again.
    Plain,
}

impl Tone {
    const ALL: [Self; 4] = [Self::Good, Self::Busy, Self::Bad, Self::Plain];

    /// What gives a terminal its colour.
    fn colour(self) -> &'static str {
        match self {
            Self::Good => "\u{1b}[32m",
            Self::Busy => "\u{1b}[33m",
            Self::Bad => "\u{1b}[31m",
            Self::Plain => "\u{1b}[0m",
        }
    }

    fn letter(self) -> char {
        match self {
            Self::Good => 'g',
            Self::Busy => 'b',
            Self::Bad => 'r',
            Self::Plain => 'p',
        }
    }
}

/// Stands before the letter of a tone until [`coloured`] makes a colour of it. Nobody else can write it, for nobody knows it.
fn mark() -> &'static str {
    static MARK: OnceLock<String> = OnceLock::new();
    MARK.get_or_init(|| format!("\u{1b}{:032x}", rand::random::<u128>()))
}

/// What was laid out for a terminal, and whatever stands around it: with its colours, and otherwise [`visible`].
pub(super) fn coloured(text: &str) -> String {
    let mut pieces = text.split(mark());
    let mut shown = visible(pieces.next().unwrap_or_default()).into_owned();
    for piece in pieces {
        let tone = Tone::ALL.into_iter().find(|tone| piece.starts_with(tone.letter()));
        shown.push_str(tone.unwrap_or(Tone::Plain).colour());
        shown.push_str(&visible(piece.get(1..).unwrap_or_default()));
    }
    shown
}

/// A table of text.
pub(super) fn table(head: &[&str], rows: &[&[String]], layout: Layout) -> String {
    // A row is a line, whatever is in it.
    let seen = |cell: &String| {
        let line = cell.lines().next().unwrap_or_default();
        if layout.terminal { visible(line).into_owned() } else { line.to_owned() }
    };
    let rows: Vec<Vec<String>> = rows.iter().map(|row| row.iter().map(seen).collect()).collect();
    let width = |column: usize| {
        rows.iter().map(|row| row[column].chars().count()).chain([head[column].chars().count()]).max().unwrap_or(0)
    };
    let mut widths: Vec<usize> = (0..head.len()).map(width).collect();
    if let Some(room) = layout.room {
        fit(&mut widths, room);
    }
    let mut text = String::new();
    let mut line = |cells: &[&str], colours: bool| {
        let mut line = String::new();
        for (i, cell) in cells.iter().enumerate() {
            let shown = shorten(cell, if layout.room.is_some() { widths[i] } else { usize::MAX });
            let used = shown.chars().count();
            match tone(head[i], cell).filter(|_| colours) {
                Some(tone) => {
                    line.push_str(&format!("{0}{1}{shown}{0}{2}", mark(), tone.letter(), Tone::Plain.letter()));
                }
                None => line.push_str(&shown),
            }
            if i + 1 < cells.len() {
                line.push_str(&" ".repeat(widths[i].saturating_sub(used) + GAP));
            }
        }
        text.push_str(line.trim_end());
        text.push('\n');
    };
    line(head, false);
    for row in &rows {
        let cells: Vec<&str> = row.iter().map(String::as_str).collect();
        line(&cells, layout.colours);
    }
    text
}

/// Takes from the widest columns until everything has room, or nothing more can be taken.
fn fit(widths: &mut [usize], room: usize) {
    let mut used = widths.iter().sum::<usize>() + GAP * widths.len().saturating_sub(1);
    while used > room {
        // Of several the last: prose is at the end of rows, names at their beginning.
        match widths.iter_mut().max_by_key(|width| **width) {
            Some(width) if *width > NARROW => *width -= 1,
            _ => return,
        }
        used -= 1;
    }
}

/// Text of at most so many letters, in one line.
fn shorten(text: &str, width: usize) -> String {
    let text = text.lines().next().unwrap_or_default();
    if text.chars().count() <= width {
        return text.to_owned();
    }
    let mut short: String = text.chars().take(width.saturating_sub(1)).collect();
    short.push('…');
    short
}

/// That of what says how something is doing.
fn tone(head: &str, cell: &str) -> Option<Tone> {
    if !["PHASE", "STATE", "AGENT", "STATUS"].contains(&head) {
        return None;
    }
    match cell.to_lowercase().as_str() {
        "ready" | "succeeded" | "connected" | "approved" | "active" => Some(Tone::Good),
        "creating" | "updating" | "waking" | "deleting" | "running" | "pending" => Some(Tone::Busy),
        "failed" | "denied" | "expired" | "revoked" => Some(Tone::Bad),
        other if other.starts_with("not connected") || other == "never seen" => Some(Tone::Bad),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows() -> Vec<Vec<String>> {
        [["alpha", "Ready", ""], ["a-rather-long-name", "Failed", "a message that is longer than there is room for"]]
            .map(|row| row.map(ToOwned::to_owned).to_vec())
            .to_vec()
    }

    fn text(layout: Layout) -> String {
        let rows = rows();
        let rows: Vec<&[String]> = rows.iter().map(Vec::as_slice).collect();
        table(&["NAME", "PHASE", "MESSAGE"], &rows, layout)
    }

    fn on_terminal(room: usize) -> Layout {
        Layout { terminal: true, room: Some(room), colours: false }
    }

    #[test]
    fn what_is_piped_is_whole_and_aligned() {
        assert_eq!(
            text(Layout::PIPED),
            "NAME                 PHASE    MESSAGE\nalpha                Ready\n\
             a-rather-long-name   Failed   a message that is longer than there is room for\n"
        );
    }

    #[test]
    fn on_a_terminal_a_row_is_a_line() {
        for room in [80, 50, 40, 30] {
            let text = text(on_terminal(room));
            assert!(text.lines().all(|line| line.chars().count() <= room), "{room}: {text}");
        }
        assert!(text(on_terminal(50)).contains("a-rather-long-name   Failed   a message that"));
        assert!(text(on_terminal(1)).contains("a-rathe…"), "no narrower than can be read");
    }

    #[test]
    fn what_others_wrote_does_nothing_to_the_terminal() {
        let row = ["a\u{1b}[2Jb".to_owned(), "Ready".to_owned(), "one\ntwo".to_owned()];
        let of = |layout| table(&["NAME", "PHASE", "MESSAGE"], &[&row[..]], layout);
        assert_eq!(of(on_terminal(80)), "NAME          PHASE   MESSAGE\na\\u{1b}[2Jb   Ready   one\n");
        assert_eq!(of(Layout::PIPED), "NAME     PHASE   MESSAGE\na\u{1b}[2Jb   Ready   one\n", "it is whole");
    }

    #[test]
    fn only_tables_have_colours() {
        let layout = Layout { terminal: true, room: None, colours: true };
        let row = ["\u{1b}[31ma\u{1b}[0m".to_owned(), "Ready".to_owned()];
        let text = format!("reason \u{1b}[31mred\n{}", table(&["NAME", "PHASE"], &[&row[..]], layout));
        assert_eq!(
            coloured(&text),
            "reason \\u{1b}[31mred\nNAME                   PHASE\n\\u{1b}[31ma\\u{1b}[0m   \u{1b}[32mReady\u{1b}[0m\n"
        );
    }

    #[test]
    fn colours_are_of_what_says_how_it_goes() {
        let text = coloured(&text(Layout { terminal: true, room: None, colours: true }));
        assert!(
            text.contains("\u{1b}[32mReady\u{1b}[0m\n") && text.contains("\u{1b}[31mFailed\u{1b}[0m   a message"),
            "{text}"
        );
        assert!(!text.lines().next().is_some_and(|head| head.contains('\u{1b}')));
    }
}
