//! Which key does what.

use std::collections::{BTreeMap, HashMap};

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

/// What a key can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[expect(missing_docs, reason = "ACTIONS says what each does")]
pub enum Action {
    Quit,
    Help,
    Palette,
    Filter,
    Back,
    Open,
    Up,
    Down,
    PageUp,
    PageDown,
    Top,
    Bottom,
    Left,
    Right,
    NextView,
    PreviousView,
    View1,
    View2,
    View3,
    View4,
    View5,
    View6,
    Describe,
    Yaml,
    Edit,
    Logs,
    PreviousLogs,
    Shell,
    Delete,
    Sleep,
    Wake,
    Cancel,
    Resume,
    Sort,
    Reverse,
    Wide,
    Theme,
    Follow,
    Container,
    NextMatch,
    PreviousMatch,
}

impl Action {
    /// Whether it changes something outside of the dashboard, which `--readonly` refuses.
    pub(crate) fn changes(self) -> bool {
        matches!(self, Self::Edit | Self::Shell | Self::Delete | Self::Sleep | Self::Wake | Self::Cancel | Self::Resume)
    }
}

/// Every action: its name in a key map, its keys when there is no key map, and what it does. The order is that of the help.
pub const ACTIONS: &[(Action, &str, &[&str], &str)] = &[
    (Action::Up, "up", &["k", "up"], "previous row or line"),
    (Action::Down, "down", &["j", "down"], "next row or line"),
    (Action::PageUp, "page-up", &["pageup", "ctrl-b"], "a screen up"),
    (Action::PageDown, "page-down", &["pagedown", "ctrl-f"], "a screen down"),
    (Action::Top, "top", &["g", "home"], "first row or line"),
    (Action::Bottom, "bottom", &["G", "end"], "last row or line"),
    (Action::Left, "left", &["h", "left"], "previous view; on a page: to the left"),
    (Action::Right, "right", &["right"], "next view; on a page: to the right"),
    (Action::NextView, "next-view", &["tab"], "next view"),
    (Action::PreviousView, "previous-view", &["backtab"], "previous view"),
    (Action::View1, "view-1", &["1"], "environments"),
    (Action::View2, "view-2", &["2"], "pods"),
    (Action::View3, "view-3", &["3"], "workers"),
    (Action::View4, "view-4", &["4"], "jobs"),
    (Action::View5, "view-5", &["5"], "events"),
    (Action::View6, "view-6", &["6"], "audit trail"),
    (Action::Open, "open", &["enter"], "into it: pods, logs, description"),
    (Action::Back, "back", &["esc"], "close; remove the filter; environments"),
    (Action::Filter, "filter", &["/"], "filter rows; on a page: search"),
    (Action::Palette, "palette", &[":"], "any view or command"),
    (Action::Describe, "describe", &["d"], "describe"),
    (Action::Yaml, "yaml", &["y"], "YAML"),
    (Action::Edit, "edit", &["e"], "edit, review, apply"),
    (Action::Logs, "logs", &["l"], "logs; where there are none: next view"),
    (Action::PreviousLogs, "previous-logs", &["p"], "logs before the restart"),
    (Action::Shell, "shell", &["s"], "shell in a container"),
    (Action::Delete, "delete", &["ctrl-d"], "delete, after its name is typed"),
    (Action::Sleep, "sleep", &["z"], "let the environment sleep"),
    (Action::Wake, "wake", &["Z"], "wake the environment"),
    (Action::Cancel, "cancel", &["ctrl-x"], "cancel a job, after its id is typed"),
    (Action::Resume, "resume", &["r"], "resume a job that failed or was cancelled"),
    (Action::Sort, "sort", &["o"], "sort by the next column"),
    (Action::Reverse, "reverse", &["O"], "sort the other way round"),
    (Action::Wide, "wide", &["w"], "all columns; on a page: wrap lines"),
    (Action::Follow, "follow", &["f"], "follow the logs, or stop"),
    (Action::Container, "container", &["c"], "logs of the next container"),
    (Action::NextMatch, "next-match", &["n"], "next place found"),
    (Action::PreviousMatch, "previous-match", &["N"], "previous place found"),
    (Action::Theme, "theme", &["T"], "next theme"),
    (Action::Help, "help", &["?"], "this help"),
    (Action::Quit, "quit", &["q"], "leave (ctrl-c always does)"),
];

/// A key with what is held down beside it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Key {
    code: KeyCode,
    modifiers: KeyModifiers,
}

impl From<KeyEvent> for Key {
    fn from(event: KeyEvent) -> Self {
        // Shift is in the letter already, and terminals differ in whether they tell it besides.
        Self { code: event.code, modifiers: event.modifiers & (KeyModifiers::CONTROL | KeyModifiers::ALT) }
    }
}

impl Key {
    /// Reads `q`, `G`, `/`, `enter`, `f5`, `ctrl-d`, `alt-x`, `space`.
    pub fn parse(text: &str) -> Option<Self> {
        let mut rest = text;
        let mut modifiers = KeyModifiers::NONE;
        loop {
            if let Some(after) = rest.strip_prefix("ctrl-").filter(|r| !r.is_empty()) {
                modifiers |= KeyModifiers::CONTROL;
                rest = after;
            } else if let Some(after) = rest.strip_prefix("alt-").filter(|r| !r.is_empty()) {
                modifiers |= KeyModifiers::ALT;
                rest = after;
            } else {
                break;
            }
        }
        let mut letters = rest.chars();
        let code = match (letters.next(), letters.next()) {
            (Some(letter), None) if !letter.is_control() => KeyCode::Char(letter),
            _ => match rest {
                "enter" => KeyCode::Enter,
                "esc" => KeyCode::Esc,
                "tab" => KeyCode::Tab,
                "backtab" => KeyCode::BackTab,
                "space" => KeyCode::Char(' '),
                "backspace" => KeyCode::Backspace,
                "insert" => KeyCode::Insert,
                "del" => KeyCode::Delete,
                "up" => KeyCode::Up,
                "down" => KeyCode::Down,
                "left" => KeyCode::Left,
                "right" => KeyCode::Right,
                "home" => KeyCode::Home,
                "end" => KeyCode::End,
                "pageup" => KeyCode::PageUp,
                "pagedown" => KeyCode::PageDown,
                _ => KeyCode::F(rest.strip_prefix('f')?.parse().ok().filter(|n| (1..=24).contains(n))?),
            },
        };
        Some(Self { code, modifiers })
    }
}

/// What every key does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyMap {
    by_key: HashMap<Key, Action>,
    /// For the help: keys as they were written.
    shown: BTreeMap<Action, Vec<String>>,
}

impl Default for KeyMap {
    fn default() -> Self {
        Self::new(&BTreeMap::new()).0
    }
}

impl KeyMap {
    /// The usual keys, where `own` does not say otherwise: names of actions, each with its keys. What is wrong with it comes back as
    /// warnings, and is left out: an action or key that does not exist, a key that two actions want (the first in the order of the help has
    /// it). A key that is given to another action is taken from the one that usually has it.
    pub fn new(own: &BTreeMap<String, Vec<String>>) -> (Self, Vec<String>) {
        let mut warnings = Vec::new();
        for name in own.keys().filter(|name| ACTIONS.iter().all(|(_, known, ..)| known != name)) {
            let near = nearest(name, ACTIONS.iter().map(|(_, name, ..)| *name));
            let hint = near.map_or_else(String::new, |near| format!(": did you mean {near}?"));
            warnings.push(format!("keys: there is no action {name:?}{hint}"));
        }
        let mut map = Self { by_key: HashMap::new(), shown: BTreeMap::new() };
        for (action, name, ..) in ACTIONS {
            for text in own.get(*name).into_iter().flatten() {
                let Some(key) = Key::parse(text) else {
                    warnings.push(format!("keys: {name}: there is no key {text:?}; write q, G, enter, f5 or ctrl-d"));
                    continue;
                };
                match map.by_key.get(&key) {
                    Some(other) if other != action => {
                        let other = ACTIONS.iter().find(|(a, ..)| a == other).map_or("", |(_, name, ..)| name);
                        warnings.push(format!("keys: {text} is given to {other} and to {name}: {other} has it"));
                    }
                    _ => map.give(*action, key, text),
                }
            }
        }
        for (action, name, usual, _) in ACTIONS.iter().filter(|(_, name, ..)| !own.contains_key(*name)) {
            let free: Vec<(Key, &str)> = usual
                .iter()
                .filter_map(|text| Some((Key::parse(text)?, *text)))
                .filter(|(key, _)| !map.by_key.contains_key(key))
                .collect();
            if free.is_empty() {
                warnings.push(format!("keys: {name} has no key any more: give it one, or give it [] to mean it"));
            }
            for (key, text) in free {
                map.give(*action, key, text);
            }
        }
        (map, warnings)
    }

    fn give(&mut self, action: Action, key: Key, text: &str) {
        self.by_key.insert(key, action);
        self.shown.entry(action).or_default().push(text.to_owned());
    }

    /// What a key does.
    pub fn action(&self, key: KeyEvent) -> Option<Action> {
        self.by_key.get(&Key::from(key)).copied()
    }

    /// Keys of an action, for people.
    pub(crate) fn keys(&self, action: Action) -> String {
        self.shown.get(&action).map(|keys| keys.join(" ")).unwrap_or_default()
    }

    /// The first key of an action, for the bar.
    pub(crate) fn key(&self, action: Action) -> &str {
        self.shown.get(&action).and_then(|keys| keys.first()).map_or("", String::as_str)
    }
}

/// The name that is nearest to a text, if one is near.
pub(crate) fn nearest<'a>(text: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let scored = names.map(|name| (strsim::damerau_levenshtein(text, name), name));
    scored
        .min_by_key(|(distance, _)| *distance)
        .filter(|(distance, name)| *distance <= 1 + name.len() / 4)
        .map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own(keys: &[(&str, &[&str])]) -> BTreeMap<String, Vec<String>> {
        keys.iter().map(|(name, keys)| ((*name).to_owned(), keys.iter().map(|k| (*k).to_owned()).collect())).collect()
    }

    fn press(text: &str) -> KeyEvent {
        let key = Key::parse(text).expect(text);
        KeyEvent::new(key.code, key.modifiers)
    }

    #[test]
    fn the_usual_keys_are_each_of_one_action() {
        let (map, warnings) = KeyMap::new(&BTreeMap::new());
        assert_eq!(warnings, Vec::<String>::new());
        let all: usize = ACTIONS.iter().map(|(_, _, keys, _)| keys.len()).sum();
        assert_eq!(map.by_key.len(), all);
        assert_eq!(map.action(press("ctrl-d")), Some(Action::Delete));
        assert_eq!(map.action(KeyEvent::new(KeyCode::Char('G'), KeyModifiers::SHIFT)), Some(Action::Bottom));
    }

    #[test]
    fn a_key_map_changes_keys_and_says_what_is_wrong_with_it() {
        let (map, warnings) = KeyMap::new(&own(&[
            ("delete", &["D", "f8"]),
            ("describe", &["x"]),
            ("yaml", &["x", "hyper-y"]),
            ("qiut", &["q"]),
            ("logs", &[]),
            ("wide", &["W"]),
            ("theme", &["w"]),
            ("sort", &["T"]),
        ]));
        assert_eq!(map.action(press("D")), Some(Action::Delete));
        assert_eq!((map.action(press("ctrl-d")), map.action(press("l"))), (None, None));
        assert_eq!((map.action(press("w")), map.action(press("T"))), (Some(Action::Theme), Some(Action::Sort)));
        assert_eq!(
            warnings,
            [
                "keys: there is no action \"qiut\": did you mean quit?",
                "keys: x is given to describe and to yaml: describe has it",
                "keys: yaml: there is no key \"hyper-y\"; write q, G, enter, f5 or ctrl-d",
            ]
        );
        let (_, warnings) = KeyMap::new(&own(&[("top", &["q"])]));
        assert_eq!(warnings, ["keys: quit has no key any more: give it one, or give it [] to mean it"]);
    }
}
