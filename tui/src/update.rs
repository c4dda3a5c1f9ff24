//! Changes the state by one message. Pure: what has to be done outside comes back as effects.

mod mouse;
mod palette;
mod press;

use crossterm::event::{KeyEvent, KeyEventKind, MouseEvent};
use jiff::Timestamp;

use crate::{
    model::{Data, HandOver, Request, Review, Subject, View},
    page::Page,
    state::{Mode, SAMPLES, State},
};

pub(crate) use palette::candidates;

/// Something has happened.
#[derive(Debug, Clone, PartialEq)]
pub enum Message {
    /// A key was pressed.
    Key(KeyEvent),
    /// The mouse was used.
    Mouse(MouseEvent),
    /// News.
    Data(Data),
    /// Time has passed: it is this late.
    Tick(Timestamp),
    /// The terminal has so many columns and rows now.
    Resize(u16, u16),
}

/// What has to be done outside.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// Leave.
    Quit,
    /// Ask the source.
    Ask(Request),
    /// Give the terminal away.
    HandOver(HandOver),
}

/// Changes the state.
pub fn update(state: &mut State, message: Message) -> Vec<Effect> {
    let mut effects = match message {
        Message::Key(key) if key.kind == KeyEventKind::Release => Vec::new(),
        Message::Key(key) => press::press(state, key),
        Message::Mouse(event) => mouse::mouse(state, event),
        Message::Data(data) => {
            take(state, data);
            Vec::new()
        }
        Message::Tick(now) => {
            state.now = now;
            Vec::new()
        }
        Message::Resize(columns, rows) => {
            (state.columns, state.rows) = (columns, rows);
            Vec::new()
        }
    };
    let wanted = (state.view.clone(), state.chosen.clone());
    if state.asked.as_ref() != Some(&wanted) {
        let (view, environment) = wanted.clone();
        state.asked = Some(wanted);
        effects.push(Effect::Ask(Request::Show { view, environment }));
    }
    let (width, height, rows) = (usize::from(state.columns), state.page_height(), state.table_height());
    if let Some(page) = &mut state.page {
        page.keep_in_sight(width, height);
    }
    state.table_mut().keep_in_sight(rows);
    effects
}

fn take(state: &mut State, data: Data) {
    match data {
        Data::Table { view, environment, columns, rows } => {
            // Late news of another environment are not shown.
            if view.resource().is_some() && environment != state.chosen {
                return;
            }
            let environments = view == View::Environments;
            state.tables.entry(view).or_default().replace(columns, rows);
            if environments {
                check_chosen(state);
            }
        }
        Data::Unreachable { view, environment, why } => {
            if view.resource().is_none() || environment == state.chosen {
                state.tables.entry(view).or_default().why = Some(why);
            }
        }
        Data::Kinds { environment, kinds } => {
            if state.chosen.as_ref() == Some(&environment) {
                state.kinds = kinds;
            }
        }
        Data::Usage { environment, cpu_millis, memory_bytes } => {
            if state.chosen.as_ref() == Some(&environment) {
                if state.usage.len() == SAMPLES {
                    state.usage.pop_front();
                }
                state.usage.push_back((cpu_millis, memory_bytes));
            }
        }
        Data::Trouble(text) => state.trouble = Some(text),
        Data::Connected => state.trouble = None,
        Data::Text { page, text } => {
            if let Some(open) = page_of(state, page) {
                open.replace(&text);
            }
        }
        Data::Lines { page, lines } => {
            if let Some(open) = page_of(state, page) {
                open.append(lines);
            }
        }
        Data::Ended { page, why } => {
            if let Some(open) = page_of(state, page) {
                open.ended = Some(why);
            }
        }
        Data::Review(review) => show_review(state, review),
        Data::Notice(text) => state.notice = Some(text),
    }
}

fn page_of(state: &mut State, id: u64) -> Option<&mut Page> {
    state.page.as_mut().filter(|page| page.id == id)
}

/// With one environment there is nothing to choose; one that is gone cannot stay chosen.
fn check_chosen(state: &mut State) {
    let Some(table) = state.tables.get(&View::Environments) else { return };
    let there = |name: &String| table.has(&Subject::Environment(name.clone()));
    if state.chosen.as_ref().is_some_and(there) {
        return;
    }
    let first = table.row(0).map(|row| row.subject.name().to_owned());
    match first {
        Some(name) => choose(state, name),
        None if state.chosen.is_some() => {
            forget(state);
            state.chosen = None;
        }
        None => {}
    }
}

/// Looks at another environment from now on.
pub(crate) fn choose(state: &mut State, name: String) {
    if state.chosen.as_ref() != Some(&name) {
        forget(state);
        state.chosen = Some(name);
    }
}

fn forget(state: &mut State) {
    state.tables.retain(|view, _| view.resource().is_none());
    state.kinds.clear();
    state.usage.clear();
}

/// Opens a page that the dashboard itself has written.
pub(crate) fn show_text(state: &mut State, title: &str, text: &str) {
    state.pages += 1;
    state.mode = Mode::Normal;
    state.page = Some(Page::with(state.pages, title.to_owned(), text));
}

fn show_review(state: &mut State, review: Review) {
    let object = &review.draft.object;
    let title = format!("change of {} {}", object.resource, object.name);
    let text = review.text;
    let draft = (review.draft, review.accepted);
    show_text(state, &title, &text);
    if let Some(page) = &mut state.page {
        page.draft = Some(draft);
    }
}
