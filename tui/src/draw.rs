//! The screen as a function of the state.

use ratatui::{
    Frame,
    layout::{Constraint, Layout, Rect},
    style::{Color, Modifier, Style, Stylize},
    text::{Line, Span},
    widgets::{Block, Borders, Cell, Clear, Paragraph, Row as TableRow, Table},
};

use crate::{
    state::{Mode, Row, State, Tone, View},
    update::candidates,
};

/// Widest a column gets when another one still wants room.
const COLUMN_LIMIT: usize = 48;

/// Draws everything.
pub fn draw(frame: &mut Frame<'_>, state: &State) {
    let [title, tabs, body, bar] =
        Layout::vertical([Constraint::Length(1), Constraint::Length(1), Constraint::Min(3), Constraint::Length(1)])
            .areas(frame.area());
    frame.render_widget(title_line(state), title);
    frame.render_widget(tab_line(state), tabs);
    table(frame, body, state);
    frame.render_widget(bar_line(state), bar);
    if state.mode == Mode::Help {
        help(frame);
    }
}

fn title_line(state: &State) -> Line<'_> {
    let mut spans = vec![Span::from("vctl ").bold(), Span::from(state.server.as_str())];
    if let Some(trouble) = &state.trouble {
        spans.push(Span::from("  ✗ ").fg(Color::Red));
        spans.push(Span::from(trouble.as_str()).fg(Color::Red));
    } else if state.environments.is_none() {
        spans.push(Span::from("  connecting …").fg(Color::Yellow));
    }
    Line::from(spans)
}

fn tab_line(state: &State) -> Line<'static> {
    let count = |n: Option<usize>| n.map_or_else(String::new, |n| format!(" ({n})"));
    let mut spans = Vec::new();
    for (i, view) in View::ALL.into_iter().enumerate() {
        let number = match view {
            View::Environments => count(state.environments.as_ref().map(Vec::len)),
            View::Pods => count(state.pods.as_ref().map(Vec::len)),
            View::Workers => count(state.workers.as_ref().map(Vec::len)),
            View::Events => count(state.events.as_ref().map(Vec::len)),
        };
        let tab = Span::from(format!(" {} {}{number} ", i + 1, view.name()));
        spans.push(if view == state.view { tab.add_modifier(Modifier::REVERSED) } else { tab });
        spans.push(Span::from(" "));
    }
    Line::from(spans)
}

fn table(frame: &mut Frame<'_>, area: Rect, state: &State) {
    let place = state.place();
    let block = Block::new().borders(Borders::TOP | Borders::BOTTOM).title(heading(state));
    let Some(rows) = state.rows() else {
        frame.render_widget(Paragraph::new(waiting(state)).block(block), area);
        return;
    };
    if rows.is_empty() {
        frame.render_widget(Paragraph::new(nothing(state)).block(block), area);
        return;
    }
    let height = usize::from(area.height.saturating_sub(3)).max(1);
    let shown = rows.iter().enumerate().skip(place.offset).take(height);
    let lines = shown.map(|(i, row)| {
        let style = if i == place.cursor { Style::new().add_modifier(Modifier::REVERSED) } else { Style::new() };
        TableRow::new(row.cells.iter().enumerate().map(|(c, text)| cell(state.view, c, row, text))).style(style)
    });
    let titles = state.columns();
    let head = TableRow::new(titles.iter().map(|t| Cell::from(*t).dim()));
    let widget = Table::new(lines, widths(titles, &rows)).header(head).column_spacing(2).block(block);
    frame.render_widget(widget, area);
}

/// The cell that says how it goes has the colour of it.
fn cell<'a>(view: View, column: usize, row: &'a Row, text: &'a str) -> Cell<'a> {
    let tells = match view {
        View::Environments => 1,
        View::Pods => 3,
        View::Workers => 2,
        View::Events => 1,
    };
    let cell = Cell::from(text);
    if column != tells {
        return cell;
    }
    match row.tone {
        Tone::Plain => cell,
        Tone::Good => cell.fg(Color::Green),
        Tone::Busy => cell.fg(Color::Yellow),
        Tone::Bad => cell.fg(Color::Red),
    }
}

/// Every column as wide as its widest cell, the last as wide as what is left.
fn widths(titles: &[&str], rows: &[Row]) -> Vec<Constraint> {
    let widest = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.cells.get(column)).map(|text| text.chars().count());
        cells.chain([titles[column].len()]).max().unwrap_or_default()
    };
    let last = titles.len().saturating_sub(1);
    let width = |column: usize| {
        if column == last { Constraint::Fill(1) } else { Constraint::Length(widest(column).min(COLUMN_LIMIT) as u16) }
    };
    (0..titles.len()).map(width).collect()
}

fn heading(state: &State) -> String {
    let of = match (state.view, &state.chosen) {
        (View::Pods | View::Events, Some(name)) => format!(" of {name}"),
        _ => String::new(),
    };
    let filter = state.place().filter;
    let filter = if filter.is_empty() { String::new() } else { format!(" /{filter}") };
    format!(" {}{of}{filter} ", state.view.name())
}

fn waiting(state: &State) -> String {
    match (state.view, &state.chosen) {
        (View::Pods | View::Events, None) => "choose an environment first: 1, then enter".to_owned(),
        (View::Pods | View::Events, Some(name)) if let Some(why) = &state.unreachable => {
            format!("{name} cannot be reached: {why}; trying again")
        }
        _ => "waiting for the first answer …".to_owned(),
    }
}

fn nothing(state: &State) -> String {
    if !state.place().filter.is_empty() {
        return "nothing passes the filter; esc removes it".to_owned();
    }
    match state.view {
        View::Environments => "no environments yet: vctl create NAME --template team-x",
        View::Pods => "no pods",
        View::Workers => "no workers: pods stay pending",
        View::Events => "no events",
    }
    .to_owned()
}

fn bar_line(state: &State) -> Line<'_> {
    match &state.mode {
        Mode::Filter => Line::from(format!(
            "/{}▏  text, or !text for rows without it; enter keeps it, esc removes it",
            state.place().filter
        )),
        Mode::Palette(text) => Line::from(format!(":{text}▏  {}", candidates(text).join("  "))),
        Mode::Normal | Mode::Help => {
            if let Some(notice) = &state.notice {
                return Line::from(notice.as_str()).fg(Color::Yellow);
            }
            let enter = if state.view == View::Environments { "enter pods  " } else { "esc back  " };
            Line::from(format!("{enter}1-4 tab views  / filter  : command  ? help  q quit")).dim()
        }
    }
}

const HELP: &str = " j k ↓ ↑        next, previous row
 g G home end   first, last row
 page up, down  a screen up, down
 h l tab ← →    next, previous view
 1 2 3 4        environments, pods, workers, events
 enter          pods of the environment
 esc            remove the filter; back to the environments
 /              filter: text, or !text for rows without it
 :              command: a view (pods NAME), help, quit
 ?              this help
 q ctrl-c       quit

 any key goes back";

fn help(frame: &mut Frame<'_>) {
    let lines = HELP.lines().count() as u16 + 2;
    let area = frame.area();
    let width = 64.min(area.width);
    let height = lines.min(area.height);
    let area = Rect::new((area.width - width) / 2, (area.height - height) / 2, width, height);
    frame.render_widget(Clear, area);
    frame.render_widget(Paragraph::new(HELP).block(Block::bordered().title(" help ")), area);
}
