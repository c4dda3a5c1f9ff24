//! The rows of a table that are on the screen.

use jiff::Timestamp;
use ratatui::{
    Frame,
    layout::Rect,
    style::Style,
    text::{Line, Span},
    widgets::{Block, Borders, Paragraph},
};

use crate::{
    keys::Action,
    model::{Cell, View},
    state::State,
    table::Table,
};

/// Widest a column gets while another one still wants room, and narrowest that it is made.
const WIDE: usize = 48;
const NARROW: usize = 6;
/// Columns between columns.
const GAP: usize = 2;

pub(super) fn table(frame: &mut Frame<'_>, area: Rect, state: &State) -> usize {
    let found = state.tables.get(&state.view);
    let block = Block::new().borders(Borders::TOP | Borders::BOTTOM).title(heading(state, found));
    let inner = block.inner(area);
    frame.render_widget(block, area);
    let Some(table) = found.filter(|table| table.len().is_some()) else {
        frame.render_widget(Paragraph::new(waiting(state, found)), inner);
        return 0;
    };
    if table.shown() == 0 {
        frame.render_widget(Paragraph::new(nothing(state, table)), inner);
        return 0;
    }
    let widths = widths(table, usize::from(inner.width), state.wide);
    let theme = state.theme();
    let mut head = Vec::new();
    for (at, width) in &widths {
        let title = &table.columns()[*at].title;
        let title = match table.sort() {
            Some((sorted, reversed)) if sorted == *at => format!("{title}{}", if reversed { "▼" } else { "▲" }),
            _ => title.clone(),
        };
        head.push(Span::styled(fit(&title, *width), theme.dim()));
    }
    let mut lines = vec![Line::from(head)];
    let mut work = 0;
    let height = usize::from(inner.height.saturating_sub(1));
    for at in table.offset..(table.offset + height).min(table.shown()) {
        let Some(row) = table.row(at) else { break };
        let chosen = at == table.cursor;
        let mut spans = Vec::new();
        for (column, width) in &widths {
            work += 1;
            let text = match row.cells.get(*column) {
                Some(Cell::Text(text)) => fit(text, *width),
                Some(Cell::Age(since)) => fit(&age(*since, state.now), *width),
                None => fit("", *width),
            };
            let tells = table.columns()[*column].tells && !chosen;
            spans.push(Span::styled(text, if tells { theme.tone(row.tone) } else { Style::new() }));
        }
        let line = Line::from(spans);
        lines.push(if chosen { line.style(theme.cursor()) } else { line });
    }
    for (i, line) in lines.into_iter().enumerate() {
        if let Ok(i) = u16::try_from(i)
            && i < inner.height
        {
            frame.render_widget(line, Rect { y: inner.y + i, height: 1, ..inner });
        }
    }
    work
}

/// Text with spaces or an ellipsis, so that it is exactly this wide, and the gap after it.
fn fit(text: &str, width: usize) -> String {
    let mut fitted = String::with_capacity(width + GAP);
    let turns = |c: char| matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{200e}' | '\u{200f}');
    let mut letters = text.chars().map(|c| if c.is_control() || turns(c) { ' ' } else { c });
    let mut used = 0;
    for c in letters.by_ref().take(width) {
        fitted.push(c);
        used += 1;
    }
    if letters.next().is_some() {
        fitted.pop();
        fitted.push('…');
    }
    fitted.extend(std::iter::repeat_n(' ', width - used + GAP));
    fitted
}

/// The columns that are shown and how wide each is: as their widest cells where that fits, else the widest give way first; the last one gets
/// what is left.
fn widths(table: &Table, room: usize, wide: bool) -> Vec<(usize, usize)> {
    let shown = table.columns().iter().enumerate().filter(|(_, column)| wide || !column.wide).map(|(at, _)| at);
    let mut widths: Vec<(usize, usize)> = shown.map(|at| (at, table.width(at).min(WIDE))).collect();
    let Some(last) = widths.len().checked_sub(1) else { return widths };
    widths[last].1 = table.width(widths[last].0);
    loop {
        let used: usize = widths.iter().map(|(_, width)| width + GAP).sum::<usize>() - GAP;
        if used <= room {
            break;
        }
        // The last column is prose mostly: it gives way before a name does.
        if widths[last].1 > 2 * NARROW {
            let width = &mut widths[last].1;
            *width = width.saturating_sub(used - room).max(2 * NARROW);
            continue;
        }
        match widths.iter_mut().max_by_key(|(_, width)| *width) {
            Some((_, width)) if *width > NARROW => *width -= 1,
            _ => break,
        }
    }
    widths
}

fn heading(state: &State, table: Option<&Table>) -> String {
    let of = match (state.view.resource(), &state.chosen) {
        (Some(_), Some(name)) => format!(" of {name}"),
        _ => String::new(),
    };
    let filter = table.map(|table| table.typed.as_str()).unwrap_or_default();
    let filter = match table {
        Some(table) if !filter.is_empty() => {
            format!(" /{filter} ({} of {})", table.shown(), table.len().unwrap_or_default())
        }
        _ => String::new(),
    };
    format!(" {}{of}{filter} ", state.view.name())
}

fn waiting(state: &State, table: Option<&Table>) -> String {
    let name = match (&state.chosen, state.view.resource()) {
        (None, Some(_)) => return "choose an environment first: 1, then enter".to_owned(),
        (Some(name), Some(_)) => name.as_str(),
        (_, None) => state.view.name(),
    };
    match table.and_then(|table| table.why.as_ref()) {
        Some(why) => format!("{name} cannot be reached: {why}; trying again"),
        None => "waiting for the first answer …".to_owned(),
    }
}

fn nothing(state: &State, table: &Table) -> String {
    if !table.is_empty() {
        let key = state.settings.keys.key(Action::Back);
        return format!("nothing passes the filter; {key} removes it");
    }
    match &state.view {
        View::Environments => "no environments yet: vctl create NAME --template team-x".to_owned(),
        View::Workers => "no workers: pods stay pending".to_owned(),
        view => format!("no {}", view.name()),
    }
}

/// Time since then, in one unit.
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

#[cfg(test)]
mod tests {
    use super::fit;

    #[test]
    fn what_others_wrote_stays_in_its_cell() {
        assert_eq!(fit("a\u{1b}[2J\u{202e}b", 8).trim_end(), "a [2J b");
        assert_eq!(fit("\u{202e}\u{202e}\u{202e}", 2).trim_end(), " …");
    }
}
