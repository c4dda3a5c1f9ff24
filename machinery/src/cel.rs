//! The Common Expression Language (CEL) with Kubernetes' libraries: parsed, type-checked and evaluated with a bound on its cost.
//!
//! It is for validation rules of custom resources, admission policies and the match conditions of webhooks. An [`Environment`] names the
//! variables and their types; it compiles a text into a [`Program`], which is checked once and evaluated many times. Errors are worded
//! as cel-go words them, so that people find them where they search for them.
//!
//! ```
//! use vctl_machinery::cel::{Environment, PER_CALL_LIMIT, Type, Value, Variables};
//!
//! let environment = Environment::new().variable("object", Type::Dyn);
//! let program = environment.compile("object.spec.replicas <= 5").unwrap();
//! assert_eq!(program.output(), &Type::Bool);
//! let object = serde_json::json!({ "spec": { "replicas": 3 } });
//! let variables = Variables::new().with("object", Value::from_json(&object));
//! assert_eq!(program.evaluate(&variables, PER_CALL_LIMIT).result, Ok(Value::Bool(true)));
//! ```
//!
//! Things that only the caller knows (an authorizer, variables that are computed when they are first used) are [`Opaque`] values; their
//! methods are declared by [`Environment::method`].

pub mod admission;
mod ast;
mod check;
mod cost;
mod declarations;
mod evaluate;
mod functions;
mod lexer;
mod macros;
mod message;
mod parser;
mod resource;
mod schema;
mod types;
mod value;
mod words;

use std::{collections::BTreeMap, fmt, sync::Arc};

pub use cost::Shape;
pub use message::Message;
pub use resource::resource_type;
pub use schema::{escape, object_type, typed};
pub use types::{ObjectType, Type};
pub use value::{Key, List, Opaque, Value};
pub use words::is_identifier;

/// Cost that one evaluation may have: about a tenth of a second upstream.
pub const PER_CALL_LIMIT: u64 = 1_000_000;
/// Cost that all rules of one object (or all validations of one policy binding) may have together.
pub const BUDGET: u64 = 10_000_000;
/// Cost that all match conditions of one webhook (or policy binding) may have together.
pub const MATCH_CONDITIONS_BUDGET: u64 = 2_500_000;

/// What expressions may refer to.
#[derive(Debug, Clone, Default)]
pub struct Environment {
    variables: BTreeMap<String, Type>,
    methods: Vec<declarations::Overload>,
    patch_types: bool,
}

impl Environment {
    /// The standard library and Kubernetes' libraries, and no variables.
    pub fn new() -> Self {
        Self::default()
    }

    /// With a variable.
    #[must_use]
    pub fn variable(mut self, name: &str, kind: Type) -> Self {
        self.variables.insert(name.to_owned(), kind);
        self
    }

    /// With a method of an opaque type: `target` is its receiver, and [`Opaque::call`] answers it.
    #[must_use]
    pub fn method(mut self, name: &str, target: Type, arguments: Vec<Type>, result: Type) -> Self {
        let mut all = vec![target];
        all.extend(arguments);
        self.methods.push(declarations::Overload { name: name.to_owned(), member: true, arguments: all, result });
        self
    }

    /// With the messages that mutations are made of: `Object` and what is inside of it, and `JSONPatch`.
    #[must_use]
    pub fn patch_types(mut self) -> Self {
        self.patch_types = true;
        self
    }

    /// Parses and checks an expression.
    ///
    /// # Errors
    /// Everything that is wrong with it, as cel-go's `Issues.String()` prints it.
    pub fn compile(&self, text: &str) -> Result<Program, CompileError> {
        let source = Source::new(text);
        let failed = |issues: Vec<Issue>| CompileError { text: source.report(&issues) };
        let mut expression = parser::parse(text).map_err(failed)?;
        let checked = check::check(self, &mut expression).map_err(failed)?;
        Ok(Program { expression: Arc::new(expression), output: checked.output, references: checked.references })
    }
}

/// An expression that has been checked.
#[derive(Debug, Clone)]
pub struct Program {
    expression: Arc<ast::Expression>,
    output: Type,
    references: Vec<String>,
}

impl Program {
    /// The type of its value.
    pub fn output(&self) -> &Type {
        &self.output
    }

    /// Whether it refers to a variable.
    pub fn references(&self, variable: &str) -> bool {
        self.references.iter().any(|r| r == variable)
    }

    /// What it costs at most when `self` and `oldSelf` are of a shape.
    pub fn max_cost(&self, shape: &Shape) -> u64 {
        cost::estimate(&self.expression, shape)
    }

    /// Evaluates it. Stops when its cost is above `limit`; never panics and never recurses deeper than the expression is nested.
    pub fn evaluate(&self, variables: &Variables, limit: u64) -> Evaluation {
        evaluate::run(&self.expression, variables, limit)
    }
}

/// What came of an evaluation.
#[derive(Debug, Clone, PartialEq)]
pub struct Evaluation {
    /// The value, or why there is none: `no such key: x`, `index out of bounds: 3`, `division by zero`,
    /// `operation cancelled: actual cost limit exceeded`, ..
    pub result: Result<Value, String>,
    /// What it cost.
    pub cost: u64,
}

impl Evaluation {
    /// Whether it was stopped because of its cost.
    pub fn is_over_limit(&self) -> bool {
        self.result.as_ref().is_err_and(|e| e == evaluate::OVER_LIMIT)
    }
}

/// The values of variables.
#[derive(Debug, Clone, Default)]
pub struct Variables(BTreeMap<String, Value>);

impl Variables {
    /// None.
    pub fn new() -> Self {
        Self::default()
    }

    /// With one more, or another value for one.
    #[must_use]
    pub fn with(mut self, name: &str, value: Value) -> Self {
        self.set(name, value);
        self
    }

    /// Sets one.
    pub fn set(&mut self, name: &str, value: Value) {
        self.0.insert(name.to_owned(), value);
    }

    fn get(&self, name: &str) -> Option<&Value> {
        self.0.get(name)
    }
}

/// Why an expression does not compile. Its text has one part for each issue: `ERROR: <input>:1:6: undefined field 'x'`, then the line
/// and a mark under the place.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct CompileError {
    text: String,
}

/// One thing that is wrong, and where: an offset in characters.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Issue {
    at: usize,
    text: String,
}

impl Issue {
    fn new(at: usize, text: impl fmt::Display) -> Self {
        Self { at, text: text.to_string() }
    }
}

/// A text in which places are told by line and column.
struct Source<'t> {
    text: &'t str,
}

impl<'t> Source<'t> {
    fn new(text: &'t str) -> Self {
        Self { text }
    }

    fn report(&self, issues: &[Issue]) -> String {
        let mut issues = issues.to_vec();
        issues.sort_by_key(|i| i.at);
        let one = |issue: &Issue| {
            let before: String = self.text.chars().take(issue.at).collect();
            let line = before.matches('\n').count();
            let column = before.rsplit('\n').next().map_or(0, |l| l.chars().count());
            let shown = self.text.split('\n').nth(line).unwrap_or_default();
            format!(
                "ERROR: <input>:{}:{}: {}\n | {}\n | {}^",
                line + 1,
                column + 1,
                issue.text,
                shown.replace('\t', " "),
                ".".repeat(column)
            )
        };
        issues.iter().map(one).collect::<Vec<_>>().join("\n")
    }
}

#[cfg(test)]
mod tests;
