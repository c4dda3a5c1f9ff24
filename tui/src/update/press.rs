//! Keys.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::{Effect, choose, palette, show_text};
use crate::{
    keys::{ACTIONS, Action},
    model::{Document, HandOver, Object, Request, Subject, View},
    page::Page,
    state::{Mode, State},
};

/// A key was pressed.
pub(super) fn press(state: &mut State, key: KeyEvent) -> Vec<Effect> {
    if key.modifiers.contains(KeyModifiers::CONTROL) && key.code == KeyCode::Char('c') {
        return vec![Effect::Quit];
    }
    state.notice = None;
    match state.mode.clone() {
        Mode::Normal => match state.settings.keys.action(key) {
            Some(action) if state.page.is_some() => on_page(state, action),
            Some(action) => on_table(state, action),
            None => Vec::new(),
        },
        Mode::Filter => {
            let typed = state.table_mut().typed.clone();
            let typed = typing(state, key, typed);
            filter(state, &typed);
            Vec::new()
        }
        Mode::Search => {
            let typed = state.page.as_ref().map(|page| page.typed.clone()).unwrap_or_default();
            let typed = typing(state, key, typed);
            if let Some(page) = &mut state.page {
                page.find(&typed);
            }
            Vec::new()
        }
        Mode::Palette(text) => palette::palette(state, key, text),
        Mode::Confirm { subject, typed } => confirm(state, key, subject, typed),
    }
}

/// Text that is typed: enter keeps it, escape removes it.
fn typing(state: &mut State, key: KeyEvent, mut text: String) -> String {
    match key.code {
        KeyCode::Char('u') if key.modifiers.contains(KeyModifiers::CONTROL) => text.clear(),
        KeyCode::Char(c) if !key.modifiers.contains(KeyModifiers::CONTROL) => text.push(c),
        KeyCode::Backspace => {
            text.pop();
        }
        KeyCode::Esc => {
            text.clear();
            state.mode = Mode::Normal;
        }
        KeyCode::Enter => state.mode = Mode::Normal,
        _ => {}
    }
    text
}

fn filter(state: &mut State, text: &str) {
    // A selector that is half typed is not worth a word.
    if let Err(wrong) = state.table_mut().filter(text)
        && state.mode == Mode::Normal
    {
        state.notice = Some(format!("this is no label selector: {wrong}"));
    }
}

fn confirm(state: &mut State, key: KeyEvent, subject: Subject, typed: String) -> Vec<Effect> {
    let cancelled = key.code == KeyCode::Esc;
    let typed = typing(state, key, typed);
    if state.mode != Mode::Normal {
        state.mode = Mode::Confirm { subject, typed };
        return Vec::new();
    }
    let right = !cancelled && typed == subject.name();
    if let Subject::Job(id) = subject {
        let said =
            if right { format!("cancelling job {id} ...") } else { format!("job {id} goes on: its id was not typed") };
        state.notice = Some(said);
        return if right { vec![Effect::Ask(Request::Cancel(id))] } else { Vec::new() };
    }
    if !right {
        state.notice = Some(format!("{} stays: its name was not typed", subject.name()));
        return Vec::new();
    }
    state.notice = Some(format!("deleting {} ...", subject.name()));
    vec![Effect::Ask(Request::Delete(subject))]
}

/// What a key does to the table.
pub(super) fn on_table(state: &mut State, action: Action) -> Vec<Effect> {
    let page = state.table_height();
    match action {
        Action::Quit => return vec![Effect::Quit],
        Action::Down => move_by(state, |at| at.saturating_add(1)),
        Action::Up => move_by(state, |at| at.saturating_sub(1)),
        Action::PageDown => move_by(state, |at| at.saturating_add(page)),
        Action::PageUp => move_by(state, |at| at.saturating_sub(page)),
        Action::Top => move_by(state, |_| 0),
        Action::Bottom => move_by(state, |_| usize::MAX),
        Action::Right | Action::NextView => step_view(state, 1),
        Action::Left | Action::PreviousView => step_view(state, View::NUMBERED.len() - 1),
        Action::View1 => go(state, View::Environments),
        Action::View2 => go(state, View::Pods),
        Action::View3 => go(state, View::Workers),
        Action::View4 => go(state, View::Jobs),
        Action::View5 => go(state, View::Events),
        Action::View6 => go(state, View::Audit),
        Action::Filter => {
            state.mode = Mode::Filter;
            filter(state, "");
        }
        Action::Back => back(state),
        Action::Sort => {
            let wide = state.wide;
            state.table_mut().sort_next(wide);
        }
        Action::Reverse => state.table_mut().reverse(),
        Action::Open
        | Action::Describe
        | Action::Yaml
        | Action::Edit
        | Action::Logs
        | Action::PreviousLogs
        | Action::Shell
        | Action::Delete
        | Action::Sleep
        | Action::Wake
        | Action::Cancel
        | Action::Resume => return on_row(state, action),
        Action::Follow | Action::Container | Action::NextMatch | Action::PreviousMatch => {}
        Action::Wide => state.wide = !state.wide,
        Action::Help | Action::Palette | Action::Theme => anywhere(state, action),
    }
    Vec::new()
}

fn anywhere(state: &mut State, action: Action) {
    match action {
        Action::Help => help(state),
        Action::Palette => state.mode = Mode::Palette(String::new()),
        Action::Theme => {
            state.settings.theme = state.settings.theme.next();
            state.notice = Some(format!("theme {}", state.settings.theme.name));
        }
        _ => {}
    }
}

/// What a key does to the row under the cursor.
pub(super) fn on_row(state: &mut State, action: Action) -> Vec<Effect> {
    let Some(subject) = state.chosen_row().map(|row| row.subject.clone()) else {
        if action == Action::Logs {
            step_view(state, 1);
        }
        return Vec::new();
    };
    if action.changes() && state.settings.read_only {
        state.notice = Some("the dashboard was started with --readonly: nothing can be changed".to_owned());
        return Vec::new();
    }
    match (action, subject) {
        (Action::Open, Subject::Environment(name)) => {
            choose(state, name);
            go(state, View::Pods);
        }
        (Action::Open | Action::Logs, Subject::Job(id)) => return open(state, Document::JobLog(id)),
        (Action::Open, Subject::Object(pod)) if pod.resource == "pods" => {
            return logs(state, pod, String::new(), false);
        }
        (Action::Logs | Action::PreviousLogs, Subject::Object(pod)) if pod.resource == "pods" => {
            return logs(state, pod, String::new(), action == Action::PreviousLogs);
        }
        (Action::Logs, _) => step_view(state, 1),
        (Action::Open | Action::Describe, subject) => return open(state, Document::Describe(subject)),
        (Action::Yaml, subject) => return open(state, Document::Yaml(subject)),
        (Action::Edit, Subject::Object(object)) => return vec![Effect::HandOver(HandOver::Edit(object))],
        (Action::Edit, Subject::Environment(name)) => {
            state.notice = Some(format!("its parameters are changed with `vctl set {name} NAME=VALUE`"));
        }
        (Action::Shell, Subject::Object(pod)) if pod.resource == "pods" => {
            return vec![Effect::HandOver(HandOver::Shell { pod, container: String::new() })];
        }
        (Action::Delete, subject @ (Subject::Environment(_) | Subject::Object(_)))
        | (Action::Cancel, subject @ Subject::Job(_)) => {
            state.mode = Mode::Confirm { subject, typed: String::new() };
        }
        (Action::Sleep, Subject::Environment(name)) => return vec![Effect::Ask(Request::Sleep(name))],
        (Action::Wake, Subject::Environment(name)) => return vec![Effect::Ask(Request::Wake(name))],
        (Action::Resume, Subject::Job(id)) => return vec![Effect::Ask(Request::Resume(id))],
        (action, _) => {
            let name = ACTIONS.iter().find(|(a, ..)| *a == action).map_or("", |(_, name, ..)| name);
            state.notice = Some(format!("{name} does nothing in {}", state.view.name()));
        }
    }
    Vec::new()
}

fn logs(state: &mut State, pod: Object, container: String, previous: bool) -> Vec<Effect> {
    open(state, Document::Logs { pod, container, previous })
}

/// Opens a page.
fn open(state: &mut State, document: Document) -> Vec<Effect> {
    let of = |subject: &Subject| match subject {
        Subject::Object(object) if !object.namespace.is_empty() => {
            format!("{} {}/{}", object.resource, object.namespace, object.name)
        }
        Subject::Object(object) => format!("{} {}", object.resource, object.name),
        other => other.name().to_owned(),
    };
    let title = match &document {
        Document::Describe(subject) => of(subject),
        Document::Yaml(subject) => format!("{} as YAML", of(subject)),
        Document::JobLog(id) => format!("log of job {id}"),
        Document::Logs { pod, container, previous } => {
            let first = pod.containers.first().map(String::as_str).unwrap_or_default();
            let container = if container.is_empty() { first } else { container };
            let before = if *previous { ", before the restart" } else { "" };
            format!("logs of {}/{} ({container}{before})", pod.namespace, pod.name)
        }
    };
    state.pages += 1;
    let wrap = state.page.as_ref().is_some_and(|page| page.wrap);
    let mut page = Page::of(state.pages, title, document.clone());
    page.wrap = wrap;
    state.page = Some(page);
    vec![Effect::Ask(Request::Open { page: state.pages, document })]
}

/// What a key does to the page.
pub(super) fn on_page(state: &mut State, action: Action) -> Vec<Effect> {
    let (width, height) = (usize::from(state.columns), state.page_height());
    let Some(page) = &mut state.page else { return Vec::new() };
    match action {
        Action::Quit => return close(state),
        Action::Back if page.search.is_some() => page.find(""),
        Action::Back => return close(state),
        Action::Down => page.go((page.top + 1).min(page.bottom(width, height))),
        Action::Up => page.go(page.top.saturating_sub(1)),
        Action::PageDown => page.go((page.top + height).min(page.bottom(width, height))),
        Action::PageUp => page.go(page.top.saturating_sub(height)),
        Action::Top => page.go(0),
        Action::Bottom => page.go(page.bottom(width, height)),
        Action::Left => page.aside(false),
        Action::Right => page.aside(true),
        // `l` is the right hand of hjkl where there are no other logs to show.
        Action::Logs if !matches!(page.document, Some(Document::Logs { previous: true, .. })) => page.aside(true),
        Action::Wide => {
            page.wrap = !page.wrap;
            page.left = 0;
        }
        Action::Follow => page.follow = !page.follow,
        Action::Filter => {
            page.find("");
            state.mode = Mode::Search;
        }
        Action::NextMatch => page.find_next(true),
        Action::PreviousMatch => page.find_next(false),
        Action::Logs | Action::PreviousLogs | Action::Container => return other_logs(state, action),
        Action::Open => return apply(state),
        Action::Edit => return edit(state),
        Action::Help | Action::Palette | Action::Theme => anywhere(state, action),
        _ => {}
    }
    Vec::new()
}

/// The logs of before the restart, of after it, or of the next container.
fn other_logs(state: &mut State, action: Action) -> Vec<Effect> {
    let Some(Document::Logs { pod, container, previous }) = state.page.as_ref().and_then(|p| p.document.clone()) else {
        return Vec::new();
    };
    match action {
        Action::Container => {
            let at = pod.containers.iter().position(|name| *name == container).unwrap_or_default();
            let next = pod.containers.get((at + 1) % pod.containers.len().max(1)).cloned().unwrap_or_default();
            logs(state, pod, next, previous)
        }
        Action::PreviousLogs => logs(state, pod, container, !previous),
        _ => logs(state, pod, container, false),
    }
}

/// Applies the change that is on the page.
fn apply(state: &mut State) -> Vec<Effect> {
    match state.page.as_ref().and_then(|page| page.draft.clone()) {
        None => Vec::new(),
        Some((_, false)) => {
            let key = state.settings.keys.key(Action::Edit);
            state.notice = Some(format!("the server does not take it so: {key} edits it again"));
            Vec::new()
        }
        Some((draft, true)) => {
            state.page = None;
            state.notice = Some("applying ...".to_owned());
            vec![Effect::Ask(Request::Apply(draft))]
        }
    }
}

fn edit(state: &mut State) -> Vec<Effect> {
    let Some(page) = &state.page else { return Vec::new() };
    let task = match (&page.draft, &page.document) {
        (Some((draft, _)), _) => HandOver::EditAgain(draft.clone()),
        (None, Some(Document::Yaml(Subject::Object(object)) | Document::Describe(Subject::Object(object)))) => {
            HandOver::Edit(object.clone())
        }
        _ => return Vec::new(),
    };
    if state.settings.read_only {
        state.notice = Some("the dashboard was started with --readonly: nothing can be changed".to_owned());
        return Vec::new();
    }
    let mut effects = close(state);
    effects.push(Effect::HandOver(task));
    effects
}

/// Closes the page.
pub(super) fn close(state: &mut State) -> Vec<Effect> {
    match state.page.take() {
        Some(page) if page.document.is_some() => vec![Effect::Ask(Request::Close)],
        _ => Vec::new(),
    }
}

fn help(state: &mut State) {
    let mut text = String::new();
    for (action, name, _, what) in ACTIONS {
        text.push_str(&format!(" {:<16}{what:<42}{name}\n", state.settings.keys.keys(*action)));
    }
    text.push_str(
        "\n A filter is a regular expression; !TEXT: rows without it; -l app=web: labels; -f LETTERS: in this order.\n",
    );
    text.push_str(" Keys are changed in dash.yaml, by the names at the right: see `vctl dash --help`.\n");
    show_text(state, "help", &text);
}

/// Goes to a view.
pub(super) fn go(state: &mut State, view: View) {
    if !matches!(state.view, View::Kind(_)) {
        state.before = state.view.clone();
    }
    state.view = view;
}

/// First the filter goes, then one is back where one came from, then at the environments.
fn back(state: &mut State) {
    if !state.table_mut().typed.is_empty() {
        filter(state, "");
    } else if matches!(state.view, View::Kind(_)) {
        state.view = state.before.clone();
    } else {
        state.view = View::Environments;
    }
}

fn step_view(state: &mut State, by: usize) {
    let all = View::NUMBERED;
    let at = all.iter().position(|view| *view == state.view).unwrap_or_default();
    go(state, all[(at + by) % all.len()].clone());
}

pub(super) fn move_by(state: &mut State, to: impl Fn(usize) -> usize) {
    let table = state.table_mut();
    table.cursor = to(table.cursor);
}
