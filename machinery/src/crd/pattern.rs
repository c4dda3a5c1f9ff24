//! Regular expressions as Go's `regexp` (RE2) understands them, on the `regex` crate.
//!
//! Both have the same engine design (no backtracking, linear time); they differ in what `\d`, `\w`, `\s` and `\b` mean (ASCII in Go), in
//! what stands for itself inside of brackets, and in `\Q..\E` and literal braces, which are translated here.

use std::sync::Arc;

use regex::Regex;

/// A pattern with its source text.
#[derive(Debug, Clone)]
pub struct Pattern {
    source: Arc<str>,
    compiled: Result<Regex, String>,
}

impl Pattern {
    /// Compiles it. A pattern that does not compile matches nothing; [`Pattern::error`] says why.
    pub fn new(source: &str) -> Self {
        Self { source: source.into(), compiled: compile(source) }
    }

    /// The text it was made from.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Why it does not compile.
    pub fn error(&self) -> Option<&str> {
        self.compiled.as_ref().err().map(String::as_str)
    }

    /// Whether it matches somewhere in the text.
    pub fn is_match(&self, text: &str) -> bool {
        self.compiled.as_ref().is_ok_and(|r| r.is_match(text))
    }
}

/// Largest compiled program, in bytes: a pattern from a client cannot take more.
const SIZE_LIMIT: usize = 2 << 20;

/// Compiles a pattern in Go's syntax.
///
/// # Errors
/// In the words of Go's package where they are known (`error parsing regexp: missing closing ]: ...`), else in those of the crate.
pub(crate) fn compile(source: &str) -> Result<Regex, String> {
    regex::RegexBuilder::new(&translate(source)).size_limit(SIZE_LIMIT).build().map_err(|e| go_error(source, &e))
}

fn go_error(source: &str, error: &regex::Error) -> String {
    let text = error.to_string();
    let last = text.lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned();
    let known = [
        ("unclosed character class", "missing closing ]"),
        ("unclosed group", "missing closing )"),
        ("unopened group", "unexpected )"),
        ("repetition operator missing expression", "missing argument to repetition operator"),
        ("look-around", "invalid or unsupported Perl syntax"),
        ("unrecognized escape", "invalid escape sequence"),
        ("invalid character class range", "invalid character class range"),
        ("repetition quantifier", "invalid repeat count"),
    ];
    for (theirs, go) in known {
        if last.contains(theirs) {
            let shown = match go {
                "missing closing ]" => source.rfind('[').map_or(source, |i| &source[i..]),
                _ => source,
            };
            return format!("error parsing regexp: {go}: `{shown}`");
        }
    }
    format!("error parsing regexp: {last}: `{source}`")
}

/// Go's syntax in that of the crate.
fn translate(source: &str) -> String {
    let mut out = String::with_capacity(source.len() + 16);
    let mut chars = source.chars().peekable();
    let mut class = false;
    let mut class_start = false;
    while let Some(c) = chars.next() {
        match c {
            '\\' => {
                match chars.next() {
                    Some('d') => out.push_str("[0-9]"),
                    Some('D') => out.push_str("[^0-9]"),
                    Some('w') => out.push_str("[0-9A-Za-z_]"),
                    Some('W') => out.push_str("[^0-9A-Za-z_]"),
                    Some('s') => out.push_str(r"[\t\n\f\r ]"),
                    Some('S') => out.push_str(r"[^\t\n\f\r ]"),
                    Some('b') if !class => out.push_str(r"(?-u:\b)"),
                    Some('B') if !class => out.push_str(r"(?-u:\B)"),
                    Some('Q') if !class => {
                        let mut quoted = String::new();
                        while let Some(q) = chars.next() {
                            if q == '\\' && chars.peek() == Some(&'E') {
                                chars.next();
                                break;
                            }
                            quoted.push(q);
                        }
                        out.push_str(&regex::escape(&quoted));
                    }
                    // `\p{L}`, `\x{10FF}`
                    Some(p @ ('p' | 'P' | 'x')) if chars.peek() == Some(&'{') => {
                        out.push('\\');
                        out.push(p);
                        for q in chars.by_ref() {
                            out.push(q);
                            if q == '}' {
                                break;
                            }
                        }
                    }
                    // Punctuation stands for itself in both; the crate refuses `\<` and `\>` as they mean something else there.
                    Some(p @ ('<' | '>')) => out.push(p),
                    Some(other) => {
                        out.push('\\');
                        out.push(other);
                    }
                    None => out.push('\\'),
                }
                class_start = false;
            }
            '[' if !class => {
                class = true;
                out.push('[');
                if chars.peek() == Some(&'^') {
                    chars.next();
                    out.push('^');
                }
                class_start = true;
            }
            '[' if chars.peek() == Some(&':') => {
                // `[:alpha:]`
                out.push('[');
                while let Some(p) = chars.next() {
                    out.push(p);
                    if p == ':' && chars.peek() == Some(&']') {
                        chars.next();
                        out.push(']');
                        break;
                    }
                }
                class_start = false;
            }
            '[' => {
                out.push_str(r"\[");
                class_start = false;
            }
            ']' if class && class_start => {
                out.push_str(r"\]");
                class_start = false;
            }
            ']' if class => {
                class = false;
                out.push(']');
            }
            // Set operations that Go does not have.
            '&' | '~' if class => {
                out.push('\\');
                out.push(c);
                class_start = false;
            }
            '-' if class && chars.peek() == Some(&'-') => {
                out.push_str(r"\-");
                class_start = false;
            }
            '{' if !class && is_repetition(chars.clone()) => {
                out.push('{');
                for q in chars.by_ref() {
                    out.push(q);
                    if q == '}' {
                        break;
                    }
                }
            }
            // Elsewhere braces stand for themselves.
            '{' | '}' => {
                out.push('\\');
                out.push(c);
                class_start = false;
            }
            other => {
                out.push(other);
                class_start = false;
            }
        }
    }
    out
}

/// Whether `n}`, `n,}` or `n,m}` follows.
fn is_repetition(rest: impl Iterator<Item = char>) -> bool {
    let inside: String = rest.take_while(|c| *c != '}').take(12).collect();
    let (from, to) = inside.split_once(',').unwrap_or((&inside, ""));
    !from.is_empty() && from.bytes().all(|b| b.is_ascii_digit()) && to.bytes().all(|b| b.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn go_patterns_mean_what_they_mean_in_go() {
        for (pattern, yes, no) in [
            (r"^\d+$", "123", "١٢٣"),
            (r"^[\w.-]+$", "a-b.c_1", "ä"),
            ("^[a[]+$", "a[", "b"),
            ("^[]a]+$", "]a", "b"),
            ("^a{2,3}$", "aaa", "aaaa"),
            ("^{x}$", "{x}", "x"),
            (r"^\Qa.b\E$", "a.b", "axb"),
            ("^[a&&b]+$", "a&b", "c"),
            (r"^\p{L}{2}$", "äß", "1a"),
            ("^[[:alpha:]]+$", "abc", "1"),
            (r"^([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]$", "a-b", "-a"),
            (r"(?i)^abc$", "ABC", "abd"),
            (r"^[a-z]([-a-z0-9]*[a-z0-9])?(\.[a-z]([-a-z0-9]*[a-z0-9])?)*$", "a.b", "a..b"),
            (r"^\x{41}$", "A", "B"),
        ] {
            let pattern = Pattern::new(pattern);
            assert_eq!(pattern.error(), None, "{}", pattern.source());
            assert!(pattern.is_match(yes), "{} {yes}", pattern.source());
            assert!(!pattern.is_match(no), "{} {no}", pattern.source());
        }
    }

    #[test]
    fn what_does_not_compile_is_told_as_go_tells_it() {
        for (pattern, why) in [
            ("+", "error parsing regexp: missing argument to repetition operator: `+`"),
            ("[a", "error parsing regexp: missing closing ]: `[a`"),
            ("(a", "error parsing regexp: missing closing ): `(a`"),
            ("(?=a)", "error parsing regexp: invalid or unsupported Perl syntax: `(?=a)`"),
        ] {
            assert_eq!(Pattern::new(pattern).error(), Some(why));
        }
    }
}
