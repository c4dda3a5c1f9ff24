//! Label selectors: the query grammar and the object form. Source: apimachinery `pkg/labels/selector.go`.

use serde_json::Value;

use crate::names;

/// A parsed label selector.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LabelSelector {
    requirements: Vec<Requirement>,
    nothing: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Requirement {
    key: String,
    operator: Operator,
    /// Sorted, without repetition.
    values: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operator {
    In,
    NotIn,
    Exists,
    DoesNotExist,
    GreaterThan,
    LessThan,
}

impl Operator {
    fn text(self) -> &'static str {
        match self {
            Self::In => "in",
            Self::NotIn => "notin",
            Self::Exists => "exists",
            Self::DoesNotExist => "!",
            Self::GreaterThan => "gt",
            Self::LessThan => "lt",
        }
    }
}

impl Requirement {
    fn new(key: &str, operator: Operator, mut values: Vec<String>) -> Result<Self, String> {
        let errors = names::qualified_name_errors(key);
        if !errors.is_empty() {
            return Err(format!("key: Invalid value: \"{key}\": {}", errors.join("; ")));
        }
        match operator {
            Operator::In | Operator::NotIn if values.is_empty() => {
                return Err(
                    "values: Invalid value: []: for 'in', 'notin' operators, values set can't be empty".to_owned()
                );
            }
            Operator::GreaterThan | Operator::LessThan => {
                if values.len() != 1 {
                    return Err(
                        "values: Invalid value: []: for 'Gt', 'Lt' operators, exactly one value is required".to_owned()
                    );
                }
                if values[0].parse::<i64>().is_err() {
                    return Err(format!(
                        "values[0]: Invalid value: \"{}\": for 'Gt', 'Lt' operators, the value must be an integer",
                        values[0]
                    ));
                }
            }
            _ => {}
        }
        for (index, value) in values.iter().enumerate() {
            let errors = names::label_value_errors(value);
            if !errors.is_empty() {
                return Err(format!("values[{index}][{key}]: Invalid value: \"{value}\": {}", errors.join("; ")));
            }
        }
        values.sort();
        values.dedup();
        Ok(Self { key: key.to_owned(), operator, values })
    }

    fn matches(&self, value: Option<&str>) -> bool {
        let number = |text: &str| text.parse::<i64>().ok();
        let compared = || Some((number(value?)?, number(self.values.first()?)?));
        match self.operator {
            Operator::In => value.is_some_and(|v| self.values.iter().any(|w| w == v)),
            Operator::NotIn => value.is_none_or(|v| self.values.iter().all(|w| w != v)),
            Operator::Exists => value.is_some(),
            Operator::DoesNotExist => value.is_none(),
            Operator::GreaterThan => compared().is_some_and(|(is, than)| is > than),
            Operator::LessThan => compared().is_some_and(|(is, than)| is < than),
        }
    }
}

impl LabelSelector {
    /// Parses the query form: `a=b,c!=d,e in (f,g),!h,i>1`.
    ///
    /// # Errors
    /// Upstream's message.
    pub fn parse(text: &str) -> Result<Self, String> {
        let tokens = tokens(text);
        let mut parser = Parser { tokens: &tokens, at: 0 };
        let mut requirements = Vec::new();
        loop {
            match parser.next() {
                Token::End if requirements.is_empty() => break,
                Token::Word(_) | Token::Not => {
                    parser.at -= 1;
                    requirements.push(parser.requirement().map_err(|e| format!("unable to parse requirement: {e}"))?);
                    match parser.next() {
                        Token::End => break,
                        Token::Comma => {
                            if !matches!(parser.peek(), Token::Word(_) | Token::Not) {
                                let found = parser.peek();
                                return Err(format!("found '{}', expected: identifier after ','", found.text()));
                            }
                        }
                        other => return Err(format!("found '{}', expected: ',' or 'end of string'", other.text())),
                    }
                }
                other => return Err(format!("found '{}', expected: !, identifier, or 'end of string'", other.text())),
            }
        }
        requirements.sort_by(|a, b| a.key.cmp(&b.key));
        Ok(Self { requirements, nothing: false })
    }

    /// From `{matchLabels, matchExpressions}`. A null selector matches nothing, an empty one everything.
    ///
    /// # Errors
    /// Upstream's message.
    pub fn from_object(selector: &Value) -> Result<Self, String> {
        let Some(selector) = selector.as_object() else { return Ok(Self { requirements: Vec::new(), nothing: true }) };
        let mut requirements = Vec::new();
        for (key, value) in selector.get("matchLabels").and_then(Value::as_object).into_iter().flatten() {
            let value = value.as_str().unwrap_or_default().to_owned();
            requirements.push(Requirement::new(key, Operator::In, vec![value])?);
        }
        for expression in selector.get("matchExpressions").and_then(Value::as_array).into_iter().flatten() {
            let text = |field: &str| expression.get(field).and_then(Value::as_str).unwrap_or_default();
            let operator = match text("operator") {
                "In" => Operator::In,
                "NotIn" => Operator::NotIn,
                "Exists" => Operator::Exists,
                "DoesNotExist" => Operator::DoesNotExist,
                other => return Err(format!("\"{other}\" is not a valid label selector operator")),
            };
            let values = expression.get("values").and_then(Value::as_array).into_iter().flatten();
            let values = values.filter_map(Value::as_str).map(str::to_owned).collect();
            requirements.push(Requirement::new(text("key"), operator, values)?);
        }
        requirements.sort_by(|a, b| a.key.cmp(&b.key));
        Ok(Self { requirements, nothing: false })
    }

    /// The labels a map asks for, as `spec.selector` of a Service or ReplicationController: an empty map selects everything.
    pub fn from_map(labels: &Value) -> Self {
        let requirements = labels.as_object().into_iter().flatten().map(|(key, value)| Requirement {
            key: key.clone(),
            operator: Operator::In,
            values: vec![value.as_str().unwrap_or_default().to_owned()],
        });
        Self { requirements: requirements.collect(), nothing: false }
    }

    /// Whether it selects everything.
    pub fn is_everything(&self) -> bool {
        self.requirements.is_empty() && !self.nothing
    }

    /// Whether an object's labels (`metadata.labels`, an object or null) match.
    pub fn matches(&self, labels: &Value) -> bool {
        !self.nothing && self.requirements.iter().all(|r| r.matches(labels.get(&r.key).and_then(Value::as_str)))
    }
}

/// The query form, which [`LabelSelector::parse`] reads: for `status.selector` of scales and for messages.
impl std::fmt::Display for LabelSelector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (index, requirement) in self.requirements.iter().enumerate() {
            if index > 0 {
                f.write_str(",")?;
            }
            let Requirement { key, operator, values } = requirement;
            match (operator, values.as_slice()) {
                (Operator::Exists, _) => write!(f, "{key}")?,
                (Operator::DoesNotExist, _) => write!(f, "!{key}")?,
                (Operator::In, [one]) => write!(f, "{key}={one}")?,
                (Operator::NotIn, [one]) => write!(f, "{key}!={one}")?,
                (Operator::GreaterThan, _) => write!(f, "{key}>{}", values.join(","))?,
                (Operator::LessThan, _) => write!(f, "{key}<{}", values.join(","))?,
                (operator, _) => write!(f, "{key} {} ({})", operator.text(), values.join(","))?,
            }
        }
        Ok(())
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Token {
    Word(String),
    Equals,
    DoubleEquals,
    NotEquals,
    Not,
    Comma,
    Open,
    Close,
    Greater,
    Less,
    /// `=!`, `<>` and the like.
    Unknown(String),
    End,
}

impl Token {
    fn text(&self) -> &str {
        match self {
            Self::Word(word) | Self::Unknown(word) => word,
            Self::Equals => "=",
            Self::DoubleEquals => "==",
            Self::NotEquals => "!=",
            Self::Not => "!",
            Self::Comma => ",",
            Self::Open => "(",
            Self::Close => ")",
            Self::Greater => ">",
            Self::Less => "<",
            Self::End => "",
        }
    }
}

fn special(c: char) -> bool {
    matches!(c, '=' | '!' | '(' | ')' | ',' | '>' | '<')
}

fn tokens(text: &str) -> Vec<Token> {
    let mut tokens = Vec::new();
    let mut chars = text.chars().peekable();
    while let Some(&c) = chars.peek() {
        if matches!(c, ' ' | '\t' | '\r' | '\n') {
            chars.next();
        } else if special(c) {
            chars.next();
            let mut pair = |second: char| chars.next_if_eq(&second).is_some();
            tokens.push(match c {
                '=' if pair('=') => Token::DoubleEquals,
                '=' => Token::Equals,
                '!' if pair('=') => Token::NotEquals,
                '!' => Token::Not,
                '(' => Token::Open,
                ')' => Token::Close,
                ',' => Token::Comma,
                '>' => Token::Greater,
                '<' => Token::Less,
                other => Token::Unknown(other.to_string()),
            });
        } else {
            let mut word = String::new();
            while let Some(c) = chars.next_if(|&c| !special(c) && !matches!(c, ' ' | '\t' | '\r' | '\n')) {
                word.push(c);
            }
            tokens.push(Token::Word(word));
        }
    }
    tokens
}

struct Parser<'a> {
    tokens: &'a [Token],
    at: usize,
}

impl Parser<'_> {
    fn peek(&self) -> Token {
        self.tokens.get(self.at).cloned().unwrap_or(Token::End)
    }

    fn next(&mut self) -> Token {
        let token = self.peek();
        self.at += 1;
        token
    }

    fn requirement(&mut self) -> Result<Requirement, String> {
        let mut negated = false;
        let key = match self.next() {
            Token::Not => {
                negated = true;
                self.next()
            }
            token => token,
        };
        let Token::Word(key) = key else {
            return Err(format!("found '{}', expected: identifier", key.text()));
        };
        if matches!(self.peek(), Token::End | Token::Comma) {
            let operator = if negated { Operator::DoesNotExist } else { Operator::Exists };
            return Requirement::new(&key, operator, Vec::new());
        }
        let (operator, exact) = match self.next() {
            _ if negated => (Operator::DoesNotExist, false),
            Token::Equals | Token::DoubleEquals => (Operator::In, true),
            Token::NotEquals => (Operator::NotIn, true),
            Token::Greater => (Operator::GreaterThan, true),
            Token::Less => (Operator::LessThan, true),
            Token::Word(word) if word == "in" => (Operator::In, false),
            Token::Word(word) if word == "notin" => (Operator::NotIn, false),
            other => {
                let expected = "in, notin, =, ==, !=, gt, lt";
                return Err(format!("found '{}', expected: {expected}", other.text()));
            }
        };
        if negated {
            return Requirement::new(&key, operator, Vec::new());
        }
        let values = if exact { vec![self.exact_value()] } else { self.values()? };
        Requirement::new(&key, operator, values)
    }

    /// A value after `=`: it may be empty.
    fn exact_value(&mut self) -> String {
        match self.peek() {
            Token::Word(word) => {
                self.at += 1;
                word
            }
            _ => String::new(),
        }
    }

    fn values(&mut self) -> Result<Vec<String>, String> {
        let open = self.next();
        if open != Token::Open {
            return Err(format!("found '{}' expected: '('", open.text()));
        }
        let mut values = Vec::new();
        loop {
            values.push(self.exact_value());
            match self.next() {
                Token::Comma => {}
                Token::Close => return Ok(values),
                other => return Err(format!("found '{}', expected: ',', or ')'", other.text())),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn selects(selector: &str, labels: &Value) -> bool {
        LabelSelector::parse(selector).unwrap().matches(labels)
    }

    #[test]
    fn the_grammar() {
        let labels = json!({ "app": "web", "tier": "front", "n": "5", "a.b/c": "" });
        for yes in [
            "",
            "app=web",
            "app==web",
            "app = web",
            "app!=db",
            "missing!=x",
            "app in (web,db)",
            "app notin (db)",
            "missing notin (x)",
            "app",
            "!missing",
            "app,tier=front",
            "n>4",
            "n<6",
            "a.b/c=",
            "a.b/c",
            "app in (web),!missing,n>1",
            "a.b/c in (,x)",
        ] {
            assert!(selects(yes, &labels), "{yes:?} selects");
        }
        for no in [
            "app=db",
            "app!=web",
            "app in (db)",
            "app notin (web)",
            "missing",
            "!app",
            "n>5",
            "n<5",
            "missing>1",
            "app>1",
        ] {
            assert!(!selects(no, &labels), "{no:?} does not select");
        }
    }

    #[test]
    fn what_does_not_parse() {
        for (text, expected) in [
            ("a=b,", "found '', expected: identifier after ','"),
            (",a", "found ',', expected: !, identifier, or 'end of string'"),
            ("a in b", "unable to parse requirement: found 'b' expected: '('"),
            ("a=b c", "found 'c', expected: ',' or 'end of string'"),
            ("a near (b)", "unable to parse requirement: found 'near', expected: in, notin, =, ==, !=, gt, lt"),
            (
                "n>x",
                "unable to parse requirement: values[0]: Invalid value: \"x\": for 'Gt', 'Lt' operators, the value must be an integer",
            ),
        ] {
            assert_eq!(LabelSelector::parse(text), Err(expected.to_owned()), "{text:?}");
        }
        assert!(
            LabelSelector::parse("-bad=x")
                .unwrap_err()
                .starts_with("unable to parse requirement: key: Invalid value: \"-bad\"")
        );
        assert!(LabelSelector::parse("a=b c=d e").is_err());
    }

    #[test]
    fn objects() {
        let selector = LabelSelector::from_object(&json!({
            "matchLabels": { "app": "web" },
            "matchExpressions": [{ "key": "tier", "operator": "NotIn", "values": ["back"] }, { "key": "x", "operator": "DoesNotExist" }],
        }))
        .unwrap();
        assert!(selector.matches(&json!({ "app": "web" })));
        assert!(!selector.matches(&json!({ "app": "web", "tier": "back" })));
        assert!(!LabelSelector::from_object(&Value::Null).unwrap().matches(&json!({})));
        assert!(LabelSelector::from_object(&json!({})).unwrap().is_everything());
        assert_eq!(
            LabelSelector::from_object(&json!({ "matchExpressions": [{ "key": "a", "operator": "Near" }] })),
            Err("\"Near\" is not a valid label selector operator".to_owned())
        );
    }

    #[test]
    fn printing_is_parsing_backwards() {
        for text in ["a=b,c!=d,e in (f,g),h,!i,n>3", "a notin (b,c)"] {
            let selector = LabelSelector::parse(text).unwrap();
            assert_eq!(LabelSelector::parse(&selector.to_string()), Ok(selector));
        }
    }
}
