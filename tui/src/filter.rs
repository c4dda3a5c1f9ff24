//! Which rows are shown.

use regex::{Regex, RegexBuilder};
use vctl_machinery::selector::LabelSelector;

use crate::model::Row;

/// Largest compiled pattern in bytes: nobody types more.
const PATTERN_LIMIT: usize = 1 << 20;

/// Decides which rows are shown.
#[derive(Debug, Clone, Default)]
pub enum Filter {
    /// All.
    #[default]
    All,
    /// Those in which a regular expression is found, without regard to case.
    Matching(Regex),
    /// Those in which it is not.
    Without(Regex),
    /// Those whose labels a selector takes.
    Labels(LabelSelector),
    /// Those that have these letters in this order.
    Fuzzy(String),
}

impl Filter {
    /// Reads what a person types: a regular expression; with `!` before it what does not match; `-l SELECTOR` for labels; `-f LETTERS` for
    /// letters in this order. What is no regular expression (yet) is searched as it is. An error is of the selector.
    ///
    /// # Errors
    /// What is wrong with the selector.
    pub fn parse(text: &str) -> Result<Self, String> {
        if let Some(selector) = text.strip_prefix("-l") {
            let selector = selector.trim();
            return if selector.is_empty() { Ok(Self::All) } else { LabelSelector::parse(selector).map(Self::Labels) };
        }
        if let Some(letters) = text.strip_prefix("-f") {
            let letters = letters.trim().to_lowercase();
            return Ok(if letters.is_empty() { Self::All } else { Self::Fuzzy(letters) });
        }
        let (pattern, wanted) = text.strip_prefix('!').map_or((text, true), |pattern| (pattern, false));
        match (pattern.is_empty(), wanted) {
            (true, _) => Ok(Self::All),
            (false, true) => Ok(pattern_of(pattern).map_or(Self::All, Self::Matching)),
            (false, false) => Ok(pattern_of(pattern).map_or(Self::All, Self::Without)),
        }
    }

    /// Whether a row is shown.
    pub fn takes(&self, row: &Row) -> bool {
        match self {
            Self::All => true,
            Self::Matching(pattern) => pattern.is_match(&row.text),
            Self::Without(pattern) => !pattern.is_match(&row.text),
            Self::Labels(selector) => selector.matches(&row.labels),
            Self::Fuzzy(letters) => fuzzy(letters, &row.text),
        }
    }
}

/// A regular expression without regard to case; what is none is meant as it is written.
pub(crate) fn pattern_of(text: &str) -> Option<Regex> {
    let build = |pattern: &str| {
        RegexBuilder::new(pattern).case_insensitive(true).multi_line(true).size_limit(PATTERN_LIMIT).build().ok()
    };
    build(text).or_else(|| build(&regex::escape(text)))
}

fn fuzzy(letters: &str, text: &str) -> bool {
    text.lines().any(|line| {
        let mut line = line.chars().flat_map(char::to_lowercase);
        letters.chars().filter(|c| !c.is_whitespace()).all(|letter| line.any(|c| c == letter))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::model::{Cell, Subject, Tone};

    #[test]
    fn what_a_person_types_selects_rows() {
        let row = Row::new(
            Subject::Worker("w".to_owned()),
            vec![Cell::Text("web-7d4b9".to_owned()), Cell::Text("Running".to_owned())],
            Tone::Plain,
            json!({"app": "web", "tier": "front"}),
        );
        for (text, expected) in [
            ("", true),
            ("WEB", true),
            ("^web-.*9$", true),
            ("redis|running", true),
            ("redis", false),
            ("!redis", true),
            ("!run", false),
            ("!", true),
            ("we(", false),
            ("-l", true),
            ("-l app=web", true),
            ("-l app in (web,redis),tier!=back", true),
            ("-l app=redis", false),
            ("-l !app", false),
            ("-f w7b", true),
            ("-f wzz", false),
        ] {
            assert_eq!(Filter::parse(text).expect(text).takes(&row), expected, "{text}");
        }
        assert!(Filter::parse("-l app==").is_ok());
        assert!(Filter::parse("-l app in web").is_err());
    }
}
