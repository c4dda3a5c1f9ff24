//! The screen as a function of the state.

mod bars;
mod page;
mod table;

use ratatui::{
    Frame,
    buffer::Buffer,
    layout::{Constraint, Layout},
};

use crate::state::State;

pub(crate) use bars::tab_at;

/// Draws everything. Returns how many cells of tables or lines of pages were formatted for it: at most what fits on the screen.
pub fn draw(frame: &mut Frame<'_>, state: &State) -> usize {
    let [title, tabs, body, bar] =
        Layout::vertical([Constraint::Length(1), Constraint::Length(1), Constraint::Min(3), Constraint::Length(1)])
            .areas(frame.area());
    bars::title(frame, title, state);
    bars::tabs(frame, tabs, state);
    let work = match &state.page {
        Some(open) => page::page(frame, body, state, open),
        None => table::table(frame, body, state),
    };
    bars::bar(frame, bar, state);
    if state.settings.ascii {
        to_ascii(frame.buffer_mut());
    }
    work
}

/// Replaces what a terminal without UTF-8 would show as something else.
fn to_ascii(buffer: &mut Buffer) {
    for cell in &mut buffer.content {
        if cell.symbol().is_ascii() {
            continue;
        }
        let ascii = match cell.symbol() {
            "─" | "━" => "-",
            "│" | "▏" => "|",
            "…" => "~",
            "·" => ".",
            "✗" => "!",
            "▲" => "^",
            "▼" => "v",
            "▁" => "_",
            "▂" => ".",
            "▃" => "-",
            "▄" => "=",
            "▅" => "+",
            "▆" => "*",
            "▇" => "%",
            "█" => "#",
            _ => "?",
        };
        cell.set_symbol(ascii);
    }
}
