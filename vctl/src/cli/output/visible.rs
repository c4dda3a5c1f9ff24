//! Text of others on a terminal: what would move the cursor, change colours or titles, or turn the order of letters around is shown instead
//! of done. Reasons, comments, names of users and logs are written by people and programs that whoever reads them need not trust.

use std::{borrow::Cow, fmt::Write as _};

/// Whether a terminal does something with it besides showing it. Directions are those of Unicode's "Trojan source" (UTR 36).
fn acts(c: char) -> bool {
    c.is_control() && c != '\n' && c != '\t'
        || matches!(c, '\u{200e}' | '\u{200f}' | '\u{61c}' | '\u{2028}' | '\u{2029}')
        || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// The same text, in which everything can be seen: `\u{1b}` for an escape.
pub(crate) fn visible(text: &str) -> Cow<'_, str> {
    replaced(text, |c, shown| shown.extend(c.escape_unicode()))
}

/// The same JSON: `\u009b` in its strings, which means what it did. In YAML it does in quotes, where most of it is anyway.
pub(super) fn escaped(text: &str) -> Cow<'_, str> {
    replaced(text, |c, shown| {
        for unit in c.encode_utf16(&mut [0; 2]) {
            // Writing to a string does not fail.
            let _ = write!(shown, "\\u{unit:04x}");
        }
    })
}

fn replaced(text: &str, replace: impl Fn(char, &mut String)) -> Cow<'_, str> {
    if !text.contains(acts) {
        return text.into();
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if acts(c) {
            replace(c, &mut shown);
        } else {
            shown.push(c);
        }
    }
    shown.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_would_do_is_shown_instead() {
        assert_eq!(visible("a\u{1b}]0;title\u{7}b\r\u{9b}2J"), "a\\u{1b}]0;title\\u{7}b\\u{d}\\u{9b}2J");
        assert_eq!(visible("user\u{202e}nimda"), "user\\u{202e}nimda");
        assert!(matches!(visible("one line\n\tand 日本語, é\n"), Cow::Borrowed(_)));
    }

    #[test]
    fn json_means_what_it_did() {
        let value = serde_json::json!({"reason": "\u{1b}[31m\u{9b}2J\u{202e}\u{7f}é\n"});
        let text = serde_json::to_string_pretty(&value).expect("JSON");
        let shown = escaped(&text);
        assert!(shown.contains("\\u001b[31m\\u009b2J\\u202e\\u007fé\\n") && !shown.contains(acts), "{shown}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&shown).expect("JSON"), value);
        let yaml = serde_yaml::to_string(&value).expect("YAML");
        let shown = escaped(&yaml);
        assert!(!shown.contains(acts), "{shown}");
        assert_eq!(serde_yaml::from_str::<serde_json::Value>(&shown).expect("YAML"), value);
    }
}
