//! Expressions from tokens, by precedence climbing; macros are expanded on the way.

use super::{
    Issue,
    ast::{Expression, Node},
    lexer::{Spanned, Token, tokens},
    macros,
    value::Value,
    words,
};

/// Longest expression, in characters (cel-go's limit).
const MAX_LENGTH: usize = 100_000;
/// Deepest nesting: what walks through an expression recurses as deep, on stacks of 2 MiB. (cel-go's limit is 250.)
const MAX_DEPTH: usize = 100;

/// Parses an expression.
pub(super) fn parse(text: &str) -> Result<Expression, Vec<Issue>> {
    let length = text.chars().count();
    if length > MAX_LENGTH {
        let text = format!("expression code point size exceeds limit: size: {length}, limit {MAX_LENGTH}");
        return Err(vec![Issue::new(0, text)]);
    }
    let mut parser = Parser { tokens: tokens(text)?, at: 0, depth: 0 };
    let parsed = parser.ternary().and_then(|e| match parser.peek() {
        Token::End => Ok(e),
        _ => Err(parser.unexpected("<EOF>")),
    });
    parsed.map_err(|issue| vec![issue])
}

struct Parser {
    tokens: Vec<Spanned>,
    at: usize,
    depth: usize,
}

const BINARY: [(&str, u8); 14] = [
    ("||", 1),
    ("&&", 2),
    ("==", 3),
    ("!=", 3),
    ("<", 3),
    ("<=", 3),
    (">", 3),
    (">=", 3),
    ("in", 3),
    ("+", 4),
    ("-", 4),
    ("*", 5),
    ("/", 5),
    ("%", 5),
];

impl Parser {
    fn peek(&self) -> &Token {
        self.tokens.get(self.at).map_or(&Token::End, |(t, _)| t)
    }

    fn place(&self) -> usize {
        self.tokens.get(self.at).or(self.tokens.last()).map_or(0, |(_, at)| *at)
    }

    fn take(&mut self) -> Token {
        let token = self.peek().clone();
        self.at += 1;
        token
    }

    fn eat(&mut self, mark: &str) -> bool {
        let found = matches!(self.peek(), Token::Mark(m) if *m == mark);
        self.at += usize::from(found);
        found
    }

    fn unexpected(&self, expecting: &str) -> Issue {
        let found = match self.peek() {
            Token::End => "<EOF>".to_owned(),
            Token::Mark(mark) => (*mark).to_owned(),
            Token::Smallest => "9223372036854775808".to_owned(),
            Token::Identifier(name) => name.clone(),
            Token::Literal(Value::String(text)) => format!("{text:?}"),
            Token::Literal(value) => value.to_string(),
        };
        Issue::new(self.place(), format!("Syntax error: mismatched input '{found}' expecting {expecting}"))
    }

    fn expect(&mut self, mark: &str) -> Result<(), Issue> {
        if self.eat(mark) { Ok(()) } else { Err(self.unexpected(&format!("'{mark}'"))) }
    }

    fn deeper<T>(&mut self, read: impl FnOnce(&mut Self) -> Result<T, Issue>) -> Result<T, Issue> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(too_deep(self.place()));
        }
        let result = read(self);
        self.depth -= 1;
        result
    }

    fn ternary(&mut self) -> Result<Expression, Issue> {
        self.deeper(|p| {
            let condition = p.binary(1)?;
            let at = p.place();
            if !p.eat("?") {
                return Ok(condition);
            }
            let yes = p.binary(1)?;
            p.expect(":")?;
            let no = p.ternary()?;
            Ok(Expression::call(at, "_?_:_", vec![condition, yes, no]))
        })
    }

    fn binary(&mut self, minimum: u8) -> Result<Expression, Issue> {
        let mut left = self.unary()?;
        loop {
            let Token::Mark(mark) = self.peek() else { return Ok(left) };
            let Some((mark, precedence)) = BINARY.into_iter().find(|(m, p)| m == mark && *p >= minimum) else {
                return Ok(left);
            };
            let function = if mark == "in" { "@in".to_owned() } else { format!("_{mark}_") };
            if matches!(mark, "&&" | "||") {
                // A long chain is no deep one: `&&` and `||` may be bracketed as one likes.
                let (mut operands, mut places) = (vec![left], Vec::new());
                while matches!(self.peek(), Token::Mark(m) if *m == mark) {
                    places.push(self.place());
                    self.at += 1;
                    operands.push(self.deeper(|p| p.binary(precedence + 1))?);
                }
                left = balanced(&function, operands, &places);
                continue;
            }
            let at = self.place();
            self.at += 1;
            let right = self.deeper(|p| p.binary(precedence + 1))?;
            left = not_too_deep(Expression::call(at, &function, vec![left, right]))?;
        }
    }

    fn unary(&mut self) -> Result<Expression, Issue> {
        let at = self.place();
        for (mark, function) in [("!", "!_"), ("-", "-_")] {
            if !self.eat(mark) {
                continue;
            }
            // A sign is part of a number.
            if mark == "-" {
                let number = match self.peek() {
                    Token::Literal(Value::Int(n)) => Some(Value::Int(-n)),
                    Token::Smallest => Some(Value::Int(i64::MIN)),
                    Token::Literal(Value::Double(n)) => Some(Value::Double(-n)),
                    _ => None,
                };
                if let Some(number) = number {
                    self.at += 1;
                    return self.members(Expression::new(at, Node::Literal(number)));
                }
            }
            let operand = self.deeper(Self::unary)?;
            return Ok(Expression::call(at, function, vec![operand]));
        }
        let primary = self.primary()?;
        self.members(primary)
    }

    /// `.a`, `.a(..)`, `[..]` and what else follows.
    fn members(&mut self, mut of: Expression) -> Result<Expression, Issue> {
        loop {
            of = not_too_deep(of)?;
            let at = self.place();
            if self.eat(".?") {
                let field = self.identifier(true)?;
                of = Expression::new(at, Node::Select { of: Box::new(of), field, test: false, optional: true });
            } else if self.eat(".") {
                let field = self.identifier(true)?;
                let open = self.place();
                if self.eat("(") {
                    let arguments = self.arguments(")")?;
                    of = macros::member(open, of, &field, arguments)?;
                } else {
                    of = Expression::new(at, Node::Select { of: Box::new(of), field, test: false, optional: false });
                }
            } else if self.eat("[?") {
                let index = self.ternary()?;
                self.expect("]")?;
                of = Expression::call(at, "_[?_]", vec![of, index]);
            } else if self.eat("[") {
                let index = self.ternary()?;
                self.expect("]")?;
                of = Expression::call(at, "_[_]", vec![of, index]);
            } else if matches!(self.peek(), Token::Mark("{")) && is_name(&of) {
                self.take();
                let name = dotted(&of).unwrap_or_default();
                let fields = self.deeper(Self::fields)?;
                of = Expression::new(at, Node::Message { name, fields });
            } else {
                return Ok(of);
            }
        }
    }

    /// The fields of a message, after its opening bracket.
    fn fields(&mut self) -> Result<Vec<(String, Expression, bool)>, Issue> {
        let mut fields = Vec::new();
        while !self.eat("}") {
            let optional = self.eat("?");
            let field = self.identifier(true)?;
            self.expect(":")?;
            fields.push((field, self.ternary()?, optional));
            if !self.eat(",") {
                self.expect("}")?;
                break;
            }
        }
        Ok(fields)
    }

    fn identifier(&mut self, selector: bool) -> Result<String, Issue> {
        match self.peek().clone() {
            Token::Identifier(name) if selector || !words::is_reserved(&name) => {
                self.at += 1;
                Ok(name)
            }
            Token::Identifier(name) => Err(Issue::new(self.place(), format!("reserved identifier: {name}"))),
            // Fields may be called `in`.
            Token::Mark("in") if selector => {
                self.at += 1;
                Ok("in".to_owned())
            }
            _ => Err(self.unexpected("IDENTIFIER")),
        }
    }

    fn arguments(&mut self, close: &str) -> Result<Vec<Expression>, Issue> {
        let mut arguments = Vec::new();
        if self.eat(close) {
            return Ok(arguments);
        }
        loop {
            arguments.push(self.ternary()?);
            if self.eat(close) {
                return Ok(arguments);
            }
            self.expect(",")?;
        }
    }

    fn primary(&mut self) -> Result<Expression, Issue> {
        let at = self.place();
        match self.peek().clone() {
            Token::Smallest => Err(Issue::new(at, "invalid int literal")),
            Token::Literal(value) => {
                self.at += 1;
                Ok(Expression::new(at, Node::Literal(value)))
            }
            Token::Mark("(") => {
                self.at += 1;
                let inner = self.ternary()?;
                self.expect(")")?;
                Ok(inner)
            }
            Token::Mark("[") => {
                self.at += 1;
                self.list(at, false)
            }
            Token::Mark("[?") => {
                self.at += 1;
                self.list(at, true)
            }
            Token::Mark("{") => {
                self.at += 1;
                self.map(at)
            }
            Token::Mark(".") => {
                // From the root: there are no containers, so that changes nothing.
                self.at += 1;
                self.name()
            }
            Token::Identifier(_) => self.name(),
            _ => Err(self.unexpected("{'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}")),
        }
    }

    fn name(&mut self) -> Result<Expression, Issue> {
        let at = self.place();
        let name = self.identifier(false)?;
        let open = self.place();
        if self.eat("(") {
            let arguments = self.arguments(")")?;
            return macros::global(open, &name, arguments);
        }
        Ok(Expression::new(at, Node::Variable(name)))
    }

    fn list(&mut self, at: usize, mut optional: bool) -> Result<Expression, Issue> {
        let mut items = Vec::new();
        loop {
            if !optional && self.eat("]") {
                break;
            }
            let marked = optional || self.eat("?");
            optional = false;
            items.push((self.ternary()?, marked));
            if self.eat("]") {
                break;
            }
            self.expect(",")?;
        }
        Ok(Expression::new(at, Node::List(items)))
    }

    fn map(&mut self, at: usize) -> Result<Expression, Issue> {
        let mut entries = Vec::new();
        while !self.eat("}") {
            let optional = self.eat("?");
            let key = self.ternary()?;
            self.expect(":")?;
            let value = self.ternary()?;
            entries.push((key, value, optional));
            if !self.eat(",") {
                self.expect("}")?;
                break;
            }
        }
        Ok(Expression::new(at, Node::Map(entries)))
    }
}

fn too_deep(at: usize) -> Issue {
    Issue::new(at, format!("expression recursion limit exceeded: {MAX_DEPTH}"))
}

fn not_too_deep(e: Expression) -> Result<Expression, Issue> {
    if e.depth > MAX_DEPTH { Err(too_deep(e.at)) } else { Ok(e) }
}

/// A chain of one operator as a tree of the least depth; `places` are those of the operators.
fn balanced(function: &str, mut operands: Vec<Expression>, places: &[usize]) -> Expression {
    if places.is_empty() {
        return operands.remove(0);
    }
    let middle = places.len() / 2;
    let right = operands.split_off(middle + 1);
    let left = balanced(function, operands, &places[..middle]);
    let right = balanced(function, right, &places[middle + 1..]);
    Expression::call(places[middle], function, vec![left, right])
}

fn is_name(e: &Expression) -> bool {
    dotted(e).is_some()
}

/// `a.b.c` as a name.
pub(super) fn dotted(e: &Expression) -> Option<String> {
    match &e.node {
        Node::Variable(name) => Some(name.clone()),
        Node::Select { of, field, test: false, optional: false } => Some(format!("{}.{field}", dotted(of)?)),
        _ => None,
    }
}
