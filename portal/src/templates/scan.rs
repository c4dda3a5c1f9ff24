//! What the tags of a manifest do, as far as it decides how much memory compiling and rendering them may take.
//!
//! The template engine counts steps and output, not memory: text that doubles itself in a loop, or is repeated, is held before any of
//! it is written. So a manifest that repeats a literal is refused (the engine would do that while it compiles), and only *plain* ones are
//! rendered in the process of the server: each of their expressions is evaluated once and gives about as much as it was given.

/// Statements that evaluate what is inside them at most once and hold nothing.
const PLAIN_STATEMENTS: [&str; 4] = ["if", "elif", "else", "endif"];
/// Filters that give about as much as they are given, without arguments.
const PLAIN_FILTERS: [&str; 15] = [
    "string",
    "int",
    "float",
    "bool",
    "lower",
    "upper",
    "trim",
    "tojson",
    "title",
    "capitalize",
    "length",
    "abs",
    "first",
    "last",
    "safe",
];
/// The same, with arguments.
const PLAIN_FILTERS_WITH_ARGUMENTS: [&str; 2] = ["default", "d"];

/// What a scan has found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Scan {
    /// Rendering takes little memory.
    pub(crate) plain: bool,
    /// Offset of a `*` that repeats a literal.
    pub(crate) repeats: Option<usize>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Token<'a> {
    Text,
    Name(&'a str),
    Open,
    Close,
    Repeat,
    Pipe,
    /// `+` and `-`, which may be signs.
    Sign,
    Other,
}

/// Scans the text of a manifest.
pub(crate) fn scan(text: &str) -> Scan {
    let mut found = Scan { plain: true, repeats: None };
    let mut rest = 0;
    while let Some(at) = text[rest..].find('{').map(|at| rest + at) {
        rest = match text.as_bytes().get(at + 1) {
            Some(b'#') => text[at + 2..].find("#}").map_or(text.len(), |end| at + 2 + end + 2),
            Some(b'{' | b'%') => {
                let statement = text.as_bytes()[at + 1] == b'%';
                let (tokens, end) = tag(text, at + 2, statement);
                found.plain &= is_plain(&tokens, statement);
                found.repeats = found.repeats.or_else(|| repeated(&tokens));
                match tokens.first() {
                    Some((Token::Name("raw"), _)) if statement => after_raw(text, end),
                    _ => end,
                }
            }
            _ => at + 1,
        };
    }
    found
}

/// The tokens of a tag with their offsets, and where it ends: as the engine reads it, so that nothing inside a string or group ends it.
fn tag(text: &str, start: usize, statement: bool) -> (Vec<(Token<'_>, usize)>, usize) {
    let bytes = text.as_bytes();
    let mut tokens = Vec::new();
    let last = if statement { b'%' } else { b'}' };
    let (mut at, mut depth) = (start, 0_i64);
    while let Some(byte) = bytes.get(at) {
        let token = match byte {
            b if *b == last && depth == 0 && bytes.get(at + 1) == Some(&b'}') => return (tokens, at + 2),
            b'\'' | b'"' => {
                let begin = at;
                at += 1;
                while bytes.get(at).is_some_and(|b| b != byte) {
                    at += if bytes[at] == b'\\' { 2 } else { 1 };
                }
                tokens.push((Token::Text, begin));
                at = (at + 1).min(bytes.len());
                continue;
            }
            b if b.is_ascii_alphabetic() || *b == b'_' => {
                let inner = |b: &u8| b.is_ascii_alphanumeric() || *b == b'_';
                let end = at + bytes[at..].iter().take_while(|b| inner(b)).count();
                tokens.push((Token::Name(&text[at..end]), at));
                at = end;
                continue;
            }
            b' ' | b'\t' | b'\r' | b'\n' => None,
            // What is trimmed around a tag.
            b'-' | b'+' if tokens.is_empty() => None,
            b'-' | b'+' => Some(Token::Sign),
            b'(' | b'[' | b'{' => Some(Token::Open),
            b')' | b']' | b'}' => Some(Token::Close),
            b'*' => Some(Token::Repeat),
            b'|' => Some(Token::Pipe),
            _ => Some(Token::Other),
        };
        depth += i64::from(token == Some(Token::Open)) - i64::from(token == Some(Token::Close));
        tokens.extend(token.map(|token| (token, at)));
        at += 1;
    }
    (tokens, bytes.len())
}

fn after_raw(text: &str, start: usize) -> usize {
    let mut at = start;
    while let Some(next) = text[at..].find("{%").map(|next| at + next + 2) {
        let (tokens, end) = tag(text, next, true);
        if matches!(tokens.first(), Some((Token::Name("endraw"), _))) {
            return end;
        }
        at = next;
    }
    text.len()
}

fn is_plain(tokens: &[(Token<'_>, usize)], statement: bool) -> bool {
    if statement
        && !matches!(tokens.first(), Some((Token::Name(name), _)) if PLAIN_STATEMENTS.contains(name) || *name == "raw")
    {
        return false;
    }
    let kind = |at: usize| tokens.get(at).map(|(token, _)| *token);
    let opens = |at: usize| kind(at) == Some(Token::Open);
    (0..tokens.len()).all(|at| match tokens[at].0 {
        Token::Repeat => false,
        Token::Pipe => match kind(at + 1) {
            Some(Token::Name(filter)) => {
                PLAIN_FILTERS_WITH_ARGUMENTS.contains(&filter) || PLAIN_FILTERS.contains(&filter) && !opens(at + 2)
            }
            _ => false,
        },
        // A call of something, unless it is a filter's, which the pipe before it has judged; a word of the language before a group.
        Token::Name(name) if opens(at + 1) => {
            let filter = at > 0 && kind(at - 1) == Some(Token::Pipe);
            filter || matches!(name, "if" | "elif" | "else" | "and" | "or" | "not" | "in")
        }
        // A list or map, an index, or the call of what an expression gave.
        Token::Close if opens(at + 1) => false,
        _ => true,
    })
}

/// A `*` one side of which is a literal text, or a group with one in it. The engine evaluates those while it compiles.
fn repeated(tokens: &[(Token<'_>, usize)]) -> Option<usize> {
    let repeats = |at: usize| {
        let before = operand(tokens[..at].iter().rev().map(|(t, _)| *t), Token::Close, Token::Open);
        before || operand(tokens[at + 1..].iter().map(|(t, _)| *t), Token::Open, Token::Close)
    };
    (0..tokens.len()).find(|at| tokens[*at].0 == Token::Repeat && repeats(*at)).map(|at| tokens[at].1)
}

fn operand<'a>(tokens: impl Iterator<Item = Token<'a>>, opens: Token<'a>, closes: Token<'a>) -> bool {
    let mut depth = 0;
    for token in tokens {
        match token {
            Token::Text => return true,
            // A sign, and the second half of `**`.
            Token::Sign | Token::Repeat if depth == 0 => {}
            other if other == opens => depth += 1,
            other if other == closes && depth <= 1 => return false,
            other if other == closes => depth -= 1,
            _ if depth == 0 => return false,
            _ => {}
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_only_shows_values_is_plain() {
        for plain in [
            "a: |\n  (x) * [y]\n",
            "a: {{ parameters.a }}\nb: {{ \"redis://\" ~ environment.name ~ ':6379' }}",
            "{% if bindings.db.secret and (parameters.a or not (parameters.b)) %}a{% elif x %}{% else %}b{%- endif -%}",
            "a: {{ bindings.db.port|string }} {{ parameters.x|default('}} * {{', true)|upper }}",
            "{# {{ ' #} a: {{ a }} {# {% for %} #}",
            "{% raw %}{{ range(1) * 'x' }} {% for x %}{% endraw %}a: {{ b }}",
            "{ a: {b: c} } {",
        ] {
            assert_eq!(scan(plain), Scan { plain: true, repeats: None }, "{plain}");
        }
    }

    #[test]
    fn what_may_grow_is_not() {
        for grows in [
            "{% for i in x %}{% endfor %}",
            "{% set a = 'x' %}",
            "{%- macro m() %}{% endmacro %}",
            "{{ range(9) }}",
            "{{ a['x'](9) }}",
            "{{ a * 9 }}",
            "{{ a|join(b) }}",
            "{{ a|indent(99999999) }}",
            "{{ a|tojson(indent=99999999) }}",
            "{# {{ \" #}{{ a * 9 }}",
            "{{ {'a': {'b': 1}} and a * 9 }}",
            "{{ a %} * 9 }}",
            "{{ '}}' ~ a * 9 }}",
            "{{ '\\'}}' ~ a * 9 }}",
            "{% raw %}{% endraw %}{{ a * 9 }}",
        ] {
            assert!(!scan(grows).plain, "{grows}");
        }
    }

    #[test]
    fn a_literal_is_not_repeated() {
        for repeats in [
            "{{ 'x' * 100000000 }}",
            "{{ 9 * 'x' }}",
            "{{ ('x') * 9 }}",
            "{{ 9 * -(('x' ~ 'y')) }}",
            "{{ 2 * 3 * 'x' }}",
            "{{ ['x', 'y'] * 9 }}",
            "{% if 'x' * 9 %}",
            "{# ' #}{{ \"'\" * 9 }}",
        ] {
            assert!(scan(repeats).repeats.is_some(), "{repeats}");
        }
        for fine in [
            "{{ parameters.n * 512 ~ 'Mi' }}",
            "{{ (parameters.n + 1) * 2 ~ 'Mi' }}",
            "{{ 'a' ~ 2 * (n) }}",
            "{{ 2 ** 3 ~ 'x' }}",
        ] {
            assert_eq!(scan(fine).repeats, None, "{fine}");
        }
    }
}
