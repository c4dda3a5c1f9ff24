//! Words of the language that are no names. Source: the language definition, and apiserver `pkg/cel/escaping.go`.

/// Words of the grammar; the lexer makes other tokens of the first four.
const GRAMMAR: [&str; 4] = ["true", "false", "null", "in"];
/// Words that may mean something one day.
const RESERVED: [&str; 17] = [
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
];

/// Whether the parser refuses a word as a name.
pub(super) fn is_reserved(word: &str) -> bool {
    RESERVED.contains(&word)
}

/// Whether a word is no name: fields of this name are escaped.
pub(super) fn is_keyword(word: &str) -> bool {
    GRAMMAR.contains(&word) || is_reserved(word)
}

/// Whether a text can be the name of a variable.
pub fn is_identifier(text: &str) -> bool {
    text.starts_with(|c: char| c == '_' || c.is_ascii_alphabetic())
        && text.chars().all(|c| c == '_' || c.is_ascii_alphanumeric())
        && !is_keyword(text)
}
