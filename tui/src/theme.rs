//! Colours.

use ratatui::style::{Color, Modifier, Style};

use crate::model::Tone;

/// How everything looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Theme {
    /// By which it is chosen.
    pub name: &'static str,
    accent: Option<Color>,
    dim: Option<Color>,
    good: Option<Color>,
    busy: Option<Color>,
    bad: Option<Color>,
    cursor: Option<(Color, Color)>,
}

/// All of them; the first is what one gets. `mono` has no colours at all and is what `NO_COLOR` gives.
pub const THEMES: [Theme; 5] = [
    Theme {
        name: "terminal",
        accent: Some(Color::Cyan),
        dim: Some(Color::DarkGray),
        good: Some(Color::Green),
        busy: Some(Color::Yellow),
        bad: Some(Color::Red),
        cursor: None,
    },
    Theme {
        name: "dark",
        accent: Some(Color::Rgb(0x7a, 0xa2, 0xf7)),
        dim: Some(Color::Rgb(0x78, 0x80, 0x9a)),
        good: Some(Color::Rgb(0x9e, 0xce, 0x6a)),
        busy: Some(Color::Rgb(0xe0, 0xaf, 0x68)),
        bad: Some(Color::Rgb(0xf7, 0x76, 0x8e)),
        cursor: Some((Color::Rgb(0xff, 0xff, 0xff), Color::Rgb(0x36, 0x4a, 0x82))),
    },
    Theme {
        name: "light",
        accent: Some(Color::Rgb(0x0b, 0x57, 0xd0)),
        dim: Some(Color::Rgb(0x5f, 0x63, 0x68)),
        good: Some(Color::Rgb(0x13, 0x73, 0x33)),
        busy: Some(Color::Rgb(0x8a, 0x4b, 0x00)),
        bad: Some(Color::Rgb(0xb3, 0x14, 0x12)),
        cursor: Some((Color::Rgb(0x00, 0x00, 0x00), Color::Rgb(0xc2, 0xdb, 0xff))),
    },
    Theme {
        name: "contrast",
        accent: Some(Color::LightCyan),
        dim: None,
        good: Some(Color::LightGreen),
        busy: Some(Color::LightYellow),
        bad: Some(Color::LightRed),
        cursor: Some((Color::Black, Color::LightYellow)),
    },
    Theme { name: "mono", accent: None, dim: None, good: None, busy: None, bad: None, cursor: None },
];

fn fg(color: Option<Color>) -> Style {
    color.map_or_else(Style::new, |color| Style::new().fg(color))
}

impl Theme {
    /// The theme of this name.
    pub fn named(name: &str) -> Option<Self> {
        THEMES.into_iter().find(|theme| theme.name == name)
    }

    /// The one after it.
    pub(crate) fn next(self) -> Self {
        let at = THEMES.iter().position(|theme| *theme == self).unwrap_or_default();
        THEMES[(at + 1) % THEMES.len()]
    }

    pub(crate) fn accent(self) -> Style {
        fg(self.accent).add_modifier(Modifier::BOLD)
    }

    pub(crate) fn dim(self) -> Style {
        match self.dim {
            None => Style::new().add_modifier(Modifier::DIM),
            color => fg(color),
        }
    }

    /// Of what says how a row is doing. Without colours, what needs somebody is bold.
    pub(crate) fn tone(self, tone: Tone) -> Style {
        match tone {
            Tone::Plain => Style::new(),
            Tone::Good => fg(self.good),
            Tone::Busy => fg(self.busy),
            Tone::Bad if self.bad.is_none() => Style::new().add_modifier(Modifier::BOLD),
            Tone::Bad => fg(self.bad),
        }
    }

    /// Of what one has chosen.
    pub(crate) fn cursor(self) -> Style {
        self.cursor.map_or_else(
            || Style::new().add_modifier(Modifier::REVERSED),
            |(text, ground)| Style::new().fg(text).bg(ground),
        )
    }

    /// Of what a search has found.
    pub(crate) fn found(self) -> Style {
        fg(self.busy).add_modifier(Modifier::REVERSED)
    }
}
