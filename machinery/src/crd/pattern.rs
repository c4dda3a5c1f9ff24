//! Regular expressions as Go's `regexp` (RE2) understands them, on the engine of the `regex` crate.
//!
//! Both have the same engine design (no backtracking, linear time); they differ in what `\d`, `\w`, `\s` and `\b` mean (ASCII in Go), in
//! what stands for itself inside of brackets, and in `\Q..\E` and literal braces, which are translated here.
//!
//! Patterns come from tenants. A pattern keeps only its text: it is compiled when it is first needed, into a cache of bounded size that
//! all share. How much one may take is bounded by [`MAX_SOURCE`], [`MAX_NESTING`] and [`MAX_COMPILED`], and what those of one definition
//! take together by a [`budget`].

pub(crate) mod budget;
mod cache;
mod translate;

use std::sync::Arc;

use regex_automata::{meta, nfa::thompson::WhichCaptures, util::syntax};

use translate::translate;

/// Longest pattern, in bytes.
const MAX_SOURCE: usize = 8 << 10;
/// Groups and operators inside of each other.
const MAX_NESTING: u32 = 250;
/// Highest count of a repetition, as in Go.
pub(super) const MAX_REPEAT: u32 = 1000;
/// Largest compiled program, in bytes.
const MAX_COMPILED: usize = 2 << 20;
/// Unicode classes (`\p{..}`) in a pattern: each is a table of some kilobytes before there is a program to measure.
const MAX_CLASSES: usize = 64;
/// What Go says of a pattern whose program would be too large.
const TOO_LARGE: &str = "expression too large";
/// What the engine may keep of the automaton it builds while it searches, in bytes.
const SEARCH_CACHE: usize = 64 << 10;
/// A search with a larger program, or through a longer text, keeps no memory for the next one.
const KEEPS_MEMORY: (usize, usize) = (16 << 10, 512);

/// A pattern: its text, compiled when it is needed.
#[derive(Debug, Clone)]
pub struct Pattern {
    source: Arc<str>,
}

impl Pattern {
    /// The pattern of a text. One that does not compile matches nothing; [`Pattern::error`] says why.
    pub fn new(source: &str) -> Self {
        Self { source: source.into() }
    }

    /// The text it was made from.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Why it does not compile, or is too large.
    pub fn error(&self) -> Option<String> {
        budget::check(&self.source)
    }

    /// Whether it matches somewhere in the text.
    pub fn is_match(&self, text: &str) -> bool {
        compile(&self.source).is_ok_and(|p| p.is_match(text))
    }
}

/// A compiled pattern.
pub(crate) struct Program {
    regex: meta::Regex,
    /// Its size in bytes, without what searches take.
    size: usize,
}

impl Program {
    /// Whether it matches somewhere in the text.
    pub(crate) fn is_match(&self, text: &str) -> bool {
        self.search(text, |regex| regex.is_match(text))
    }

    /// The first place that matches.
    pub(crate) fn find<'t>(&self, text: &'t str) -> Option<&'t str> {
        self.find_all(text, 1).pop()
    }

    /// The first so many places that match and do not overlap.
    pub(crate) fn find_all<'t>(&self, text: &'t str, limit: usize) -> Vec<&'t str> {
        self.search(text, |regex| {
            regex.find_iter(text).take(limit).filter_map(|found| text.get(found.range())).collect()
        })
    }

    /// Memory for searches belongs to the regex: what needs much of it gets a clone, which shares the program only.
    fn search<T>(&self, text: &str, how: impl FnOnce(&meta::Regex) -> T) -> T {
        if self.size <= KEEPS_MEMORY.0 && text.len() <= KEEPS_MEMORY.1 {
            how(&self.regex)
        } else {
            how(&self.regex.clone())
        }
    }
}

/// The program of a pattern in Go's syntax; equal ones are compiled once as long as they are used.
///
/// # Errors
/// In the words of Go's package where they are known (`error parsing regexp: missing closing ]: ...`), else in those of the crate.
pub(crate) fn compile(source: &str) -> Result<Arc<Program>, String> {
    cache::get(source, || build(source))
}

fn build(source: &str) -> Result<Program, String> {
    if source.len() > MAX_SOURCE {
        return Err(format!("error parsing regexp: {TOO_LARGE}: {} bytes, may be {MAX_SOURCE}", source.len()));
    }
    if source.matches("\\p").count() + source.matches("\\P").count() > MAX_CLASSES {
        return Err(format!("error parsing regexp: {TOO_LARGE}: more than {MAX_CLASSES} Unicode classes"));
    }
    let config = meta::Config::new()
        .nfa_size_limit(Some(MAX_COMPILED))
        .hybrid_cache_capacity(SEARCH_CACHE)
        .onepass(false)
        .dfa(false)
        .which_captures(WhichCaptures::Implicit);
    let syntax = syntax::Config::new().nest_limit(MAX_NESTING);
    let regex =
        meta::Builder::new().configure(config).syntax(syntax).build(&translate(source)?).map_err(|e| {
            match (e.syntax_error(), e.size_limit()) {
                (Some(e), _) => go_error(source, &e.to_string()),
                (None, Some(_)) => format!("error parsing regexp: {TOO_LARGE}: `{source}`"),
                (None, None) => format!("error parsing regexp: {e}: `{source}`"),
            }
        })?;
    let size = regex.memory_usage();
    Ok(Program { regex, size })
}

fn go_error(source: &str, text: &str) -> String {
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
        ("exceed the maximum number of nested", "expression nests too deeply"),
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
            assert_eq!(Pattern::new(pattern).error(), Some(why.to_owned()));
        }
    }

    /// Were it built, the first would take gigabytes.
    #[test]
    fn what_takes_much_is_refused() {
        for (pattern, why) in [
            ("|".repeat(500_000), "expression too large"),
            ("(".repeat(50_000), "expression too large"),
            (format!("{}a{}", "(".repeat(300), ")".repeat(300)), "expression nests too deeply"),
            (r"\p{L}".repeat(65), "expression too large"),
            ("(.{1000}){100}".to_owned(), "expression too large"),
            ("a{1001}".to_owned(), "invalid repeat count: `{1001}`"),
        ] {
            let error = Pattern::new(&pattern).error().unwrap();
            assert!(error.contains(why), "{error}");
            assert!(error.len() < 2 * MAX_SOURCE);
        }
    }

    #[test]
    fn what_is_used_is_allowed() {
        for pattern in [r"^[^\s]{1,253}$", "^.{1,512}$", "^[a-zA-Z0-9-]{1,253}$", r"^[\p{L}\p{N}_ -]{1,10}$"] {
            assert_eq!(Pattern::new(pattern).error(), None, "{pattern}");
            assert!(Pattern::new(pattern).is_match("abc"));
        }
    }

    #[test]
    fn long_texts_and_large_programs_match_alike() {
        let small = Pattern::new("^a+b$");
        let large = Pattern::new("^(a{900})+b$");
        let text = format!("{}b", "a".repeat(900));
        assert!(small.is_match(&text) && large.is_match(&text) && small.is_match("ab"));
        assert!(!small.is_match(&text[..900]) && !large.is_match(&text[1..]));
        let digits = compile(r"\d+").unwrap();
        assert_eq!(digits.find("a12b3"), Some("12"));
        assert_eq!(digits.find_all("a12b3c4", 2), ["12", "3"]);
    }
}
