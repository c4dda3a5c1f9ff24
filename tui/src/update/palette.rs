//! The command palette.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::{Effect, choose, press, show_text};
use crate::{
    keys::{Action, nearest},
    model::{Subject, View},
    state::{Mode, State},
    theme::{THEMES, Theme},
};

/// What the palette knows beside views and kinds.
const COMMANDS: [&str; 8] = ["cancel", "help", "quit", "resume", "sleep", "theme", "wake", "warnings"];

pub(super) fn palette(state: &mut State, key: KeyEvent, mut text: String) -> Vec<Effect> {
    match key.code {
        KeyCode::Char('u') if key.modifiers.contains(KeyModifiers::CONTROL) => text.clear(),
        KeyCode::Char(c) if !key.modifiers.contains(KeyModifiers::CONTROL) => text.push(c),
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
        KeyCode::Tab => text = complete(state, &text),
        KeyCode::Enter => {
            state.mode = Mode::Normal;
            return command(state, &text);
        }
        _ => {}
    }
    state.mode = Mode::Palette(text);
    Vec::new()
}

/// Views and commands that begin so, then kinds; of the second word the environments or themes.
pub(crate) fn candidates<'a>(state: &'a State, text: &str) -> Vec<&'a str> {
    if let Some((word, second)) = text.split_once(' ') {
        if word == "theme" {
            return THEMES
                .iter()
                .map(|theme| theme.name)
                .filter(|name| name.starts_with(second.trim_start()))
                .collect();
        }
        let environments = state.tables.get(&View::Environments);
        let rows = environments.into_iter().flat_map(|table| (0..table.shown()).filter_map(|at| table.row(at)));
        return rows
            .map(|row| row.subject.name())
            .filter(|name| name.starts_with(second.trim_start()))
            .take(50)
            .collect();
    }
    let views = ["environments", "pods", "workers", "jobs", "events", "audit"];
    let kinds = state.kinds.iter().map(|kind| kind.name.as_str()).filter(|name| !views.contains(name));
    views.into_iter().chain(COMMANDS).chain(kinds).filter(|name| name.starts_with(text)).collect()
}

/// As much as all candidates have in common.
fn complete(state: &State, text: &str) -> String {
    let found = candidates(state, text);
    let Some(first) = found.first() else { return text.to_owned() };
    let common = found.iter().fold(*first, |common, name| {
        let same = common.chars().zip(name.chars()).take_while(|(a, b)| a == b).map(|(c, _)| c.len_utf8()).sum();
        &common[..same]
    });
    match text.rsplit_once(' ') {
        Some((word, _)) => format!("{word} {common}"),
        None => common.to_owned(),
    }
}

/// What a word means.
enum Meaning {
    Command(&'static str),
    View(View),
    Several(Vec<String>),
    Unknown(Option<String>),
}

fn view_of(name: &str) -> View {
    View::NUMBERED.into_iter().find(|view| view.name() == name).unwrap_or_else(|| View::Kind(name.to_owned()))
}

/// The whole name of something, another name of it, or a beginning that only one thing has.
fn meaning(state: &State, word: &str) -> Meaning {
    if let Some(command) = COMMANDS.into_iter().find(|name| *name == word) {
        return Meaning::Command(command);
    }
    if View::NUMBERED.iter().any(|view| view.name() == word) {
        return Meaning::View(view_of(word));
    }
    let lower = word.to_lowercase();
    let same = |kind: &&crate::model::Kind| kind.name == lower || kind.aliases.contains(&lower);
    if let Some(kind) = state.kinds.iter().find(same) {
        return Meaning::View(view_of(&kind.name));
    }
    let own = views_and_commands().filter(|name| name.starts_with(&lower));
    let own: Vec<&str> = own.collect();
    let kinds = || state.kinds.iter().map(|kind| kind.name.as_str()).filter(|name| name.starts_with(&lower));
    match (own.as_slice(), kinds().count()) {
        ([only], _) => match COMMANDS.into_iter().find(|name| name == only) {
            Some(command) => Meaning::Command(command),
            None => Meaning::View(view_of(only)),
        },
        ([], 1) => kinds().next().map_or(Meaning::Unknown(None), |name| Meaning::View(view_of(name))),
        ([], 0) => {
            let kinds = state.kinds.iter().map(|kind| kind.name.as_str());
            let all: Vec<&str> = views_and_commands().chain(kinds).collect();
            Meaning::Unknown(nearest(&lower, all.into_iter()).map(ToOwned::to_owned))
        }
        (own, _) => Meaning::Several(own.iter().copied().chain(kinds()).take(6).map(ToOwned::to_owned).collect()),
    }
}

fn views_and_commands<'a>() -> impl Iterator<Item = &'a str> {
    ["environments", "pods", "workers", "jobs", "events", "audit"].into_iter().chain(COMMANDS)
}

/// `pods NAME` and the like choose the environment too; a beginning that only one command has is enough.
fn command(state: &mut State, text: &str) -> Vec<Effect> {
    let mut words = text.split_whitespace();
    let Some(word) = words.next() else { return Vec::new() };
    let second = words.next();
    match meaning(state, word) {
        Meaning::Several(names) => state.notice = Some(format!("{word:?} may be {}", names.join(" or "))),
        Meaning::Unknown(near) => {
            let hint = match near {
                Some(near) => format!("did you mean {near}?"),
                None if state.kinds.is_empty() => "the kinds of the environment are not known yet".to_owned(),
                None => "tab completes what there is".to_owned(),
            };
            state.notice = Some(format!("there is no view, kind or command {word:?}: {hint}"));
        }
        Meaning::Command(name) => return run(state, name, second),
        Meaning::View(view) => {
            state.page = None;
            if let Some(name) = second.filter(|_| view.resource().is_some()) {
                let subject = Subject::Environment(name.to_owned());
                if !state.tables.get(&View::Environments).is_some_and(|table| table.has(&subject)) {
                    state.notice = Some(format!("there is no environment {name:?}"));
                    return Vec::new();
                }
                choose(state, name.to_owned());
            }
            press::go(state, view);
        }
    }
    Vec::new()
}

fn run(state: &mut State, command: &str, second: Option<&str>) -> Vec<Effect> {
    match command {
        "quit" => return vec![Effect::Quit],
        "help" => return press::on_table(state, Action::Help),
        "sleep" => return press::on_row(state, Action::Sleep),
        "wake" => return press::on_row(state, Action::Wake),
        "cancel" => return press::on_row(state, Action::Cancel),
        "resume" => return press::on_row(state, Action::Resume),
        "theme" => match second.map(|name| (name, Theme::named(name))) {
            None => return press::on_table(state, Action::Theme),
            Some((_, Some(theme))) => state.settings.theme = theme,
            Some((name, None)) => {
                let names: Vec<&str> = THEMES.iter().map(|theme| theme.name).collect();
                state.notice = Some(format!("there is no theme {name:?}: there are {}", names.join(", ")));
            }
        },
        _ => {
            let text = state.settings.warnings.join("\n");
            show_text(state, "warnings", if text.is_empty() { "the settings have no problems" } else { &text });
        }
    }
    Vec::new()
}
