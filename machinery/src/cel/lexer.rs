//! Words of an expression. Source: the language definition, <https://github.com/google/cel-spec/blob/master/doc/langdef.md>.

use std::sync::Arc;

use super::{Issue, value::Value};

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Token {
    Identifier(String),
    Literal(Value),
    /// 2^63: an integer only with its sign before it.
    Smallest,
    /// Operators, brackets and `true`-like words.
    Mark(&'static str),
    End,
}

/// A token and where it begins, in characters.
pub(super) type Spanned = (Token, usize);

const MARKS: [&str; 28] = [
    "==", "!=", "<=", ">=", "&&", "||", ".?", "[?", "<", ">", "+", "-", "*", "/", "%", "!", "?", ":", ".", ",", "(",
    ")", "[", "]", "{", "}", "=", "&",
];

struct Lexer {
    chars: Vec<char>,
    at: usize,
}

/// Splits a text into tokens.
pub(super) fn tokens(text: &str) -> Result<Vec<Spanned>, Vec<Issue>> {
    let mut lexer = Lexer { chars: text.chars().collect(), at: 0 };
    let mut tokens = Vec::new();
    loop {
        lexer.skip();
        let start = lexer.at;
        let token = lexer.token().map_err(|issue| vec![issue])?;
        let end = token == Token::End;
        tokens.push((token, start));
        if end {
            return Ok(tokens);
        }
    }
}

impl Lexer {
    fn peek(&self, ahead: usize) -> char {
        self.chars.get(self.at + ahead).copied().unwrap_or('\0')
    }

    fn skip(&mut self) {
        while self.at < self.chars.len() {
            match self.peek(0) {
                ' ' | '\t' | '\n' | '\r' | '\u{c}' => self.at += 1,
                '/' if self.peek(1) == '/' => {
                    while self.at < self.chars.len() && self.peek(0) != '\n' {
                        self.at += 1;
                    }
                }
                _ => return,
            }
        }
    }

    fn token(&mut self) -> Result<Token, Issue> {
        let c = self.peek(0);
        if self.at >= self.chars.len() {
            return Ok(Token::End);
        }
        if c.is_ascii_digit() || (c == '.' && self.peek(1).is_ascii_digit()) {
            return self.number();
        }
        if let Some((raw, bytes, prefix)) = self.string_start() {
            self.at += prefix;
            return self.string(raw, bytes);
        }
        if c.is_ascii_alphabetic() || c == '_' {
            let start = self.at;
            while self.peek(0).is_ascii_alphanumeric() || self.peek(0) == '_' {
                self.at += 1;
            }
            let word: String = self.chars[start..self.at].iter().collect();
            return Ok(match word.as_str() {
                "true" => Token::Literal(Value::Bool(true)),
                "false" => Token::Literal(Value::Bool(false)),
                "null" => Token::Literal(Value::Null),
                "in" => Token::Mark("in"),
                _ => Token::Identifier(word),
            });
        }
        if c == '`' {
            let start = self.at;
            self.at += 1;
            while self.at < self.chars.len() && self.peek(0) != '`' {
                self.at += 1;
            }
            if self.peek(0) != '`' {
                return Err(Issue::new(start, "Syntax error: token recognition error at: '`'"));
            }
            let word: String = self.chars[start + 1..self.at].iter().collect();
            self.at += 1;
            return Ok(Token::Identifier(word));
        }
        for mark in MARKS.into_iter().filter(|m| *m != "=" && *m != "&") {
            if mark.chars().enumerate().all(|(i, m)| self.peek(i) == m) {
                // `a ? [?x] : y` and `a ?.b` are rare; `[?` and `.?` are the optional forms.
                self.at += mark.len();
                return Ok(Token::Mark(mark));
            }
        }
        Err(Issue::new(self.at, format!("Syntax error: token recognition error at: '{c}'")))
    }

    /// Whether a string begins here: raw, bytes, and how many letters come before the quote.
    fn string_start(&self) -> Option<(bool, bool, usize)> {
        let (mut raw, mut bytes, mut letters) = (false, false, 0);
        loop {
            match self.peek(letters) {
                '"' | '\'' => return Some((raw, bytes, letters)),
                'r' | 'R' if !raw => raw = true,
                'b' | 'B' if !bytes => bytes = true,
                _ => return None,
            }
            letters += 1;
        }
    }

    fn number(&mut self) -> Result<Token, Issue> {
        let start = self.at;
        if self.peek(0) == '0' && matches!(self.peek(1), 'x' | 'X') {
            self.at += 2;
            let digits = self.at;
            while self.peek(0).is_ascii_hexdigit() {
                self.at += 1;
            }
            let text: String = self.chars[digits..self.at].iter().collect();
            return self.integer(start, &text, 16);
        }
        let mut double = false;
        loop {
            match self.peek(0) {
                '0'..='9' => {}
                '.' if !double && self.peek(1).is_ascii_digit() => double = true,
                'e' | 'E'
                    if self.peek(1).is_ascii_digit()
                        || (matches!(self.peek(1), '+' | '-') && self.peek(2).is_ascii_digit()) =>
                {
                    double = true;
                    self.at += 1;
                }
                _ => break,
            }
            self.at += 1;
        }
        let text: String = self.chars[start..self.at].iter().collect();
        if !double {
            return self.integer(start, &text, 10);
        }
        match text.parse::<f64>() {
            Ok(n) if n.is_finite() => Ok(Token::Literal(Value::Double(n))),
            _ => Err(Issue::new(start, "invalid double literal")),
        }
    }

    fn integer(&mut self, start: usize, digits: &str, radix: u32) -> Result<Token, Issue> {
        if matches!(self.peek(0), 'u' | 'U') {
            self.at += 1;
            return match u64::from_str_radix(digits, radix) {
                Ok(n) => Ok(Token::Literal(Value::Uint(n))),
                Err(_) => Err(Issue::new(start, "invalid uint literal")),
            };
        }
        match u64::from_str_radix(digits, radix) {
            Ok(n) if n == 1 << 63 => Ok(Token::Smallest),
            Ok(n) if n < 1 << 63 => Ok(Token::Literal(Value::Int(n as i64))),
            _ => Err(Issue::new(start, "invalid int literal")),
        }
    }

    fn string(&mut self, raw: bool, bytes: bool) -> Result<Token, Issue> {
        let start = self.at;
        let quote = self.peek(0);
        let triple = self.peek(1) == quote && self.peek(2) == quote;
        self.at += if triple { 3 } else { 1 };
        let mut text = String::new();
        let mut octets: Vec<u8> = Vec::new();
        loop {
            let unclosed = || Issue::new(start, "Syntax error: unterminated string literal");
            if self.at >= self.chars.len() {
                return Err(unclosed());
            }
            let c = self.peek(0);
            if c == quote && (!triple || (self.peek(1) == quote && self.peek(2) == quote)) {
                self.at += if triple { 3 } else { 1 };
                break;
            }
            if !triple && matches!(c, '\n' | '\r') {
                return Err(unclosed());
            }
            self.at += 1;
            if c == '\\' && !raw {
                self.escape(start, bytes, &mut text, &mut octets)?;
            } else {
                text.push(c);
                octets.extend(c.encode_utf8(&mut [0; 4]).bytes());
            }
        }
        Ok(Token::Literal(if bytes { Value::Bytes(octets.into()) } else { Value::String(Arc::from(text)) }))
    }

    fn escape(&mut self, start: usize, bytes: bool, text: &mut String, octets: &mut Vec<u8>) -> Result<(), Issue> {
        let wrong = || Issue::new(start, "invalid string literal: unable to unescape string");
        let c = self.peek(0);
        self.at += 1;
        let mut push = |c: char| {
            text.push(c);
            octets.extend(c.encode_utf8(&mut [0; 4]).bytes());
        };
        let plain = match c {
            'a' => Some('\u{7}'),
            'b' => Some('\u{8}'),
            'f' => Some('\u{c}'),
            'n' => Some('\n'),
            'r' => Some('\r'),
            't' => Some('\t'),
            'v' => Some('\u{b}'),
            '\\' | '\'' | '"' | '`' | '?' => Some(c),
            _ => None,
        };
        if let Some(plain) = plain {
            push(plain);
            return Ok(());
        }
        let digits = match c {
            'x' | 'X' => 2,
            'u' if !bytes => 4,
            'U' if !bytes => 8,
            '0'..='3' => {
                self.at -= 1;
                3
            }
            _ => return Err(wrong()),
        };
        let radix = if digits == 3 { 8 } else { 16 };
        let mut code = 0_u32;
        for _ in 0..digits {
            let digit = self.peek(0).to_digit(radix).ok_or_else(wrong)?;
            code = code.wrapping_mul(radix).wrapping_add(digit);
            self.at += 1;
        }
        if bytes {
            octets.push(u8::try_from(code).map_err(|_| wrong())?);
        } else {
            push(char::from_u32(code).ok_or_else(wrong)?);
        }
        Ok(())
    }
}
