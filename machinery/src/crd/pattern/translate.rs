//! Go's syntax of regular expressions in that of the `regex` crate.

use super::MAX_REPEAT;

/// Translates a pattern.
///
/// # Errors
/// In Go's words, where the crate would allow what Go does not.
pub(super) fn translate(source: &str) -> Result<String, String> {
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
                let counts: String = chars.by_ref().take_while(|c| *c != '}').collect();
                let allowed = |n: &str| n.is_empty() || n.parse::<u32>().is_ok_and(|n| n <= MAX_REPEAT);
                if !counts.split(',').all(allowed) {
                    return Err(format!("error parsing regexp: invalid repeat count: `{{{counts}}}`"));
                }
                out.push('{');
                out.push_str(&counts);
                out.push('}');
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
    Ok(out)
}

/// Whether `n}`, `n,}` or `n,m}` follows.
fn is_repetition(rest: impl Iterator<Item = char>) -> bool {
    let inside: String = rest.take_while(|c| *c != '}').take(12).collect();
    let (from, to) = inside.split_once(',').unwrap_or((&inside, ""));
    !from.is_empty() && from.bytes().all(|b| b.is_ascii_digit()) && to.bytes().all(|b| b.is_ascii_digit())
}
