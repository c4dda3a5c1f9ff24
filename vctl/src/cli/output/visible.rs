//! Text of others on a terminal: what would move the cursor, change colours or titles, or turn the order of letters around is shown instead
//! of done. Reasons, comments, names of users and logs are written by people and programs that whoever reads them need not trust.

use std::borrow::Cow;

/// Whether a terminal does something with it besides showing it. Directions are those of Unicode's "Trojan source" (UTR 36).
fn acts(c: char) -> bool {
    c.is_control() && c != '\n' && c != '\t'
        || matches!(c, '\u{200e}' | '\u{200f}' | '\u{61c}' | '\u{2028}' | '\u{2029}')
        || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// The same text, in which everything can be seen: `\u{1b}` for an escape.
pub(crate) fn visible(text: &str) -> Cow<'_, str> {
    except(text, &[])
}

/// The same, in which some sequences stay as they are.
pub(super) fn except<'t>(text: &'t str, kept: &[&str]) -> Cow<'t, str> {
    if !text.contains(acts) {
        return text.into();
    }
    let mut shown = String::with_capacity(text.len() + 16);
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let own = kept.iter().find(|own| rest.starts_with(**own));
        let length = own.map_or(c.len_utf8(), |own| own.len());
        match own {
            Some(own) => shown.push_str(own),
            None if acts(c) => shown.extend(c.escape_unicode()),
            None => shown.push(c),
        }
        rest = &rest[length..];
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
        assert_eq!(
            except("\u{1b}[32mReady\u{1b}[0m\u{1b}[2J", &["\u{1b}[32m", "\u{1b}[0m"]),
            "\u{1b}[32mReady\u{1b}[0m\\u{1b}[2J"
        );
    }
}
