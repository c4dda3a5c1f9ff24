//! Changes the state by one message. Pure: what has to be done outside comes back as effects.

use crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use jiff::Timestamp;

use crate::{
    model::{Data, Request},
    state::{Mode, Place, State, View},
};

/// Something has happened.
#[derive(Debug, Clone, PartialEq)]
pub enum Message {
    /// A key was pressed.
    Key(KeyEvent),
    /// News.
    Data(Data),
    /// Time has passed: it is this late.
    Tick(Timestamp),
    /// The terminal has so many rows now.
    Resize(u16),
}

/// What has to be done outside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// Leave.
    Quit,
    /// Ask the source.
    Ask(Request),
}

/// Rows of the screen that are not rows of the table: title, tabs, column titles, two borders, key bar.
pub(crate) const FRAME_ROWS: u16 = 6;

/// Changes the state.
pub fn update(state: &mut State, message: Message) -> Vec<Effect> {
    let effects = match message {
        Message::Key(key) if key.kind == KeyEventKind::Release => Vec::new(),
        Message::Key(key) => press(state, key),
        Message::Data(data) => {
            let subject = state.subject();
            let effects = take(state, data);
            follow_subject(state, subject);
            effects
        }
        Message::Tick(now) => {
            state.now = now;
            Vec::new()
        }
        Message::Resize(rows) => {
            state.height = usize::from(rows.saturating_sub(FRAME_ROWS)).max(1);
            Vec::new()
        }
    };
    keep_in_sight(state);
    effects
}

fn take(state: &mut State, data: Data) -> Vec<Effect> {
    match data {
        Data::Environments(environments) => {
            let gone = state.chosen.as_ref().is_some_and(|name| environments.iter().all(|e| e.name.as_str() != name));
            state.environments = Some(environments);
            if gone {
                state.chosen = None;
                state.pods = None;
                state.events = None;
            }
            if state.chosen.is_none() {
                return follow_first(state);
            }
        }
        Data::Workers(workers) => state.workers = Some(workers),
        Data::Pods { environment, pods } => {
            if state.chosen.as_deref() == Some(&environment) {
                state.pods = Some(pods);
                state.unreachable = None;
            }
        }
        Data::Events { environment, events } => {
            if state.chosen.as_deref() == Some(&environment) {
                state.events = Some(events);
            }
        }
        Data::Unreachable { environment, why } => {
            if state.chosen.as_deref() == Some(&environment) {
                state.unreachable = Some(why);
            }
        }
        Data::Trouble(text) => state.trouble = Some(text),
        Data::Connected => state.trouble = None,
    }
    Vec::new()
}

/// Rows come and go above the cursor: it stays on what it was on.
fn follow_subject(state: &mut State, subject: Option<String>) {
    let (Some(subject), Some(rows)) = (subject, state.rows()) else { return };
    let view = state.view;
    if let Some(at) = rows.iter().position(|row| row.subject(view) == subject) {
        state.places.entry(view).or_default().cursor = at;
    }
}

/// With one environment there is nothing to choose.
fn follow_first(state: &mut State) -> Vec<Effect> {
    let first = state.environments.as_ref().and_then(|all| all.first()).map(|e| e.name.to_string());
    first.map_or_else(Vec::new, |name| choose(state, name))
}

fn choose(state: &mut State, name: String) -> Vec<Effect> {
    if state.chosen.as_ref() == Some(&name) {
        return Vec::new();
    }
    state.pods = None;
    state.events = None;
    state.unreachable = None;
    for view in [View::Pods, View::Events] {
        state.places.remove(&view);
    }
    state.chosen = Some(name.clone());
    vec![Effect::Ask(Request::Follow(name))]
}

fn press(state: &mut State, key: KeyEvent) -> Vec<Effect> {
    if key.modifiers.contains(KeyModifiers::CONTROL) && key.code == KeyCode::Char('c') {
        return vec![Effect::Quit];
    }
    state.notice = None;
    match state.mode.clone() {
        Mode::Normal => normal(state, key),
        Mode::Filter => {
            filter(state, key);
            Vec::new()
        }
        Mode::Palette(text) => palette(state, key, text),
        Mode::Help => {
            state.mode = Mode::Normal;
            Vec::new()
        }
    }
}

fn normal(state: &mut State, key: KeyEvent) -> Vec<Effect> {
    let page = state.height.max(1);
    match key.code {
        KeyCode::Char('q') => return vec![Effect::Quit],
        KeyCode::Char('?') => state.mode = Mode::Help,
        KeyCode::Char('/') => {
            state.places.entry(state.view).or_default().filter.clear();
            state.mode = Mode::Filter;
        }
        KeyCode::Char(':') => state.mode = Mode::Palette(String::new()),
        KeyCode::Down | KeyCode::Char('j') => move_by(state, |at| at.saturating_add(1)),
        KeyCode::Up | KeyCode::Char('k') => move_by(state, |at| at.saturating_sub(1)),
        KeyCode::PageDown => move_by(state, |at| at.saturating_add(page)),
        KeyCode::PageUp => move_by(state, |at| at.saturating_sub(page)),
        KeyCode::Home | KeyCode::Char('g') => move_by(state, |_| 0),
        KeyCode::End | KeyCode::Char('G') => move_by(state, |_| usize::MAX),
        KeyCode::Tab | KeyCode::Right | KeyCode::Char('l') => step_view(state, 1),
        KeyCode::BackTab | KeyCode::Left | KeyCode::Char('h') => step_view(state, View::ALL.len() - 1),
        KeyCode::Char(digit @ '1'..='4') => {
            let index = usize::from(digit as u8 - b'1');
            state.view = View::ALL[index];
        }
        KeyCode::Enter => return enter(state),
        KeyCode::Esc => back(state),
        _ => {}
    }
    Vec::new()
}

fn enter(state: &mut State) -> Vec<Effect> {
    if state.view != View::Environments {
        return Vec::new();
    }
    let cursor = state.place().cursor;
    let name = state.rows().and_then(|rows| rows.get(cursor).and_then(|row| row.cells.first().cloned()));
    let Some(name) = name else { return Vec::new() };
    let effects = choose(state, name);
    state.view = View::Pods;
    effects
}

/// First the filter goes, then one is back at the environments.
fn back(state: &mut State) {
    let place = state.places.entry(state.view).or_default();
    if place.filter.is_empty() {
        state.view = View::Environments;
    } else {
        *place = Place::default();
    }
}

fn step_view(state: &mut State, by: usize) {
    let at = View::ALL.iter().position(|view| *view == state.view).unwrap_or_default();
    state.view = View::ALL[(at + by) % View::ALL.len()];
}

fn move_by(state: &mut State, to: impl Fn(usize) -> usize) {
    let place = state.places.entry(state.view).or_default();
    place.cursor = to(place.cursor);
}

fn filter(state: &mut State, key: KeyEvent) {
    let place = state.places.entry(state.view).or_default();
    match key.code {
        KeyCode::Char(c) => place.filter.push(c),
        KeyCode::Backspace => {
            place.filter.pop();
        }
        KeyCode::Esc => {
            place.filter.clear();
            state.mode = Mode::Normal;
        }
        KeyCode::Enter => state.mode = Mode::Normal,
        _ => {}
    }
}

fn palette(state: &mut State, key: KeyEvent, mut text: String) -> Vec<Effect> {
    match key.code {
        KeyCode::Char(c) => text.push(c),
        KeyCode::Backspace if text.is_empty() => {
            state.mode = Mode::Normal;
            return Vec::new();
        }
        KeyCode::Backspace => {
            text.pop();
        }
        KeyCode::Esc => {
            state.mode = Mode::Normal;
            return Vec::new();
        }
        KeyCode::Tab => text = complete(&text),
        KeyCode::Enter => {
            state.mode = Mode::Normal;
            return command(state, &text);
        }
        _ => {}
    }
    state.mode = Mode::Palette(text);
    Vec::new()
}

/// What the palette knows beside the views.
const COMMANDS: [&str; 2] = ["help", "quit"];

/// Commands that begin so.
pub(crate) fn candidates(text: &str) -> Vec<&'static str> {
    let word = text.split_whitespace().next().unwrap_or_default();
    View::ALL.iter().map(|view| view.name()).chain(COMMANDS).filter(|name| name.starts_with(word)).collect()
}

fn complete(text: &str) -> String {
    match candidates(text).as_slice() {
        [only] => (*only).to_owned(),
        _ => text.to_owned(),
    }
}

/// `pods NAME` and `events NAME` choose the environment too; a beginning that only one command has is enough.
fn command(state: &mut State, text: &str) -> Vec<Effect> {
    let mut words = text.split_whitespace();
    let Some(word) = words.next() else { return Vec::new() };
    let found = candidates(word);
    let name = match found.as_slice() {
        [only] => *only,
        [] => {
            state.notice = Some(format!("there is no command {word:?}: try {}", candidates("").join(", ")));
            return Vec::new();
        }
        several => {
            state.notice = Some(format!("{word:?} may be {}", several.join(" or ")));
            return Vec::new();
        }
    };
    match name {
        "quit" => return vec![Effect::Quit],
        "help" => state.mode = Mode::Help,
        _ => {
            if let Some(view) = View::ALL.into_iter().find(|view| view.name() == name) {
                state.view = view;
            }
        }
    }
    let Some(environment) = words.next().filter(|_| matches!(state.view, View::Pods | View::Events)) else {
        return Vec::new();
    };
    let known = state.environments.iter().flatten().any(|e| e.name.as_str() == environment);
    if !known {
        state.notice = Some(format!("there is no environment {environment:?}"));
        return Vec::new();
    }
    choose(state, environment.to_owned())
}

/// The cursor is on a row, and that row on the screen.
fn keep_in_sight(state: &mut State) {
    let Some(rows) = state.rows() else { return };
    let height = state.height.max(1);
    let place = state.places.entry(state.view).or_default();
    place.cursor = place.cursor.min(rows.len().saturating_sub(1));
    if place.cursor < place.offset {
        place.offset = place.cursor;
    } else if place.cursor >= place.offset + height {
        place.offset = place.cursor + 1 - height;
    }
}
