//! The mouse: the wheel scrolls, a click chooses a row or a view, a click on the chosen row goes into it.

use crossterm::event::{MouseButton, MouseEvent, MouseEventKind};

use super::{Effect, press};
use crate::{
    draw::tab_at,
    keys::Action,
    state::{Mode, State},
};

/// Rows that one step of the wheel goes.
const STEP: usize = 3;
/// Row of the screen with the tabs, and of the first row of a table.
const TABS: u16 = 1;
const FIRST: u16 = 4;

pub(super) fn mouse(state: &mut State, event: MouseEvent) -> Vec<Effect> {
    if state.mode != Mode::Normal {
        return Vec::new();
    }
    match event.kind {
        MouseEventKind::ScrollDown | MouseEventKind::ScrollUp => {
            let down = event.kind == MouseEventKind::ScrollDown;
            if state.page.is_some() {
                let action = if down { Action::Down } else { Action::Up };
                (0..STEP).flat_map(|_| press::on_page(state, action)).collect()
            } else {
                press::move_by(state, |at| if down { at.saturating_add(STEP) } else { at.saturating_sub(STEP) });
                Vec::new()
            }
        }
        MouseEventKind::Down(MouseButton::Left) if event.row == TABS => {
            let Some(view) = tab_at(state, event.column) else { return Vec::new() };
            let effects = press::close(state);
            press::go(state, view);
            effects
        }
        MouseEventKind::Down(MouseButton::Left) if state.page.is_none() && event.row >= FIRST => {
            let height = state.table_height();
            let line = usize::from(event.row - FIRST);
            let table = state.table_mut();
            let at = table.offset + line;
            if line >= height || at >= table.shown() {
                return Vec::new();
            }
            if table.cursor == at {
                return press::on_row(state, Action::Open);
            }
            table.cursor = at;
            Vec::new()
        }
        _ => Vec::new(),
    }
}
