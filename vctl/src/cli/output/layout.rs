//! The layout of tables.

use super::{Layout, visible::visible};

/// Spaces between columns.
const GAP: usize = 3;
/// Narrowest that a column is made.
const NARROW: usize = 8;

const GREEN: &str = "\u{1b}[32m";
const YELLOW: &str = "\u{1b}[33m";
const RED: &str = "\u{1b}[31m";
const PLAIN: &str = "\u{1b}[0m";
/// All sequences that a table has.
pub(super) const COLOURS: [&str; 4] = [GREEN, YELLOW, RED, PLAIN];

/// A table of text.
pub(super) fn table(head: &[&str], rows: &[&[String]], layout: Layout) -> String {
    // A row is a line, whatever is in it.
    let seen = |cell: &String| visible(cell.lines().next().unwrap_or_default()).into_owned();
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
                Some(colour) => line.push_str(&format!("{colour}{shown}{PLAIN}")),
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

/// The colour of what says how something is doing.
fn tone(head: &str, cell: &str) -> Option<&'static str> {
    if !["PHASE", "STATE", "AGENT", "STATUS"].contains(&head) {
        return None;
    }
    match cell.to_lowercase().as_str() {
        "ready" | "succeeded" | "connected" | "approved" | "active" => Some(GREEN),
        "creating" | "updating" | "waking" | "deleting" | "running" | "pending" => Some(YELLOW),
        "failed" | "denied" | "expired" | "revoked" => Some(RED),
        other if other.starts_with("not connected") || other == "never seen" => Some(RED),
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

    #[test]
    fn what_is_piped_is_whole_and_aligned() {
        assert_eq!(
            text(Layout { room: None, colours: false }),
            "NAME                 PHASE    MESSAGE\nalpha                Ready\n\
             a-rather-long-name   Failed   a message that is longer than there is room for\n"
        );
    }

    #[test]
    fn on_a_terminal_a_row_is_a_line() {
        for room in [80, 50, 40, 30] {
            let text = text(Layout { room: Some(room), colours: false });
            assert!(text.lines().all(|line| line.chars().count() <= room), "{room}: {text}");
        }
        assert!(
            text(Layout { room: Some(50), colours: false }).contains("a-rather-long-name   Failed   a message that")
        );
        assert!(text(Layout { room: Some(1), colours: false }).contains("a-rathe…"), "no narrower than can be read");
    }

    #[test]
    fn what_others_wrote_does_nothing_to_the_terminal() {
        let row = ["a\u{1b}[2Jb".to_owned(), "Ready".to_owned(), "one\ntwo".to_owned()];
        let text = table(&["NAME", "PHASE", "MESSAGE"], &[&row[..]], Layout { room: None, colours: false });
        assert_eq!(text, "NAME          PHASE   MESSAGE\na\\u{1b}[2Jb   Ready   one\n");
    }

    #[test]
    fn colours_are_of_what_says_how_it_goes() {
        let text = text(Layout { room: None, colours: true });
        assert!(
            text.contains("\u{1b}[32mReady\u{1b}[0m\n") && text.contains("\u{1b}[31mFailed\u{1b}[0m   a message"),
            "{text}"
        );
        assert!(!text.lines().next().is_some_and(|head| head.contains('\u{1b}')));
    }
}
