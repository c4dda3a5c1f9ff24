//! Expressions.

use super::value::Value;

/// An expression and where it is: the offset, in characters, of what marks it (an operator, a dot, an opening bracket).
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Expression {
    pub(super) at: usize,
    /// How deep it is nested: everything that walks through it recurses as deep.
    pub(super) depth: usize,
    pub(super) node: Node,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Node {
    Literal(Value),
    Variable(String),
    /// `a.b`, `a.?b`, or `has(a.b)`
    Select {
        of: Box<Expression>,
        field: String,
        test: bool,
        optional: bool,
    },
    /// Operators are calls of functions such as `_+_`.
    Call {
        function: String,
        target: Option<Box<Expression>>,
        arguments: Vec<Expression>,
    },
    /// Items; true for those that are left out when they are none (`?x`).
    List(Vec<(Expression, bool)>),
    /// Entries; true for those that are left out when they are none.
    Map(Vec<(Expression, Expression, bool)>),
    /// A message of a type, with its fields; true for those that are left out when they are none.
    Message {
        name: String,
        fields: Vec<(String, Expression, bool)>,
    },
    Comprehension(Box<Comprehension>),
    /// `x.optMap(v, e)`, `x.optFlatMap(v, e)`
    OptionalMap {
        target: Box<Expression>,
        variable: String,
        body: Box<Expression>,
        flat: bool,
    },
}

/// What a macro does with each item of a list or key of a map.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Loop {
    All,
    Exists,
    ExistsOne,
    Map,
    Filter,
    TransformList,
    TransformMap,
    TransformMapEntry,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Comprehension {
    pub(super) kind: Loop,
    pub(super) range: Expression,
    pub(super) variable: String,
    /// The value beside the index or key, for the forms with two variables.
    pub(super) second: Option<String>,
    pub(super) filter: Option<Expression>,
    pub(super) body: Expression,
}

impl Expression {
    pub(super) fn new(at: usize, node: Node) -> Self {
        let one = |e: &Self| e.depth;
        let all = |list: &[Self]| list.iter().map(one).max().unwrap_or(0);
        let below = match &node {
            Node::Literal(_) | Node::Variable(_) => 0,
            Node::Message { fields, .. } => fields.iter().map(|(_, e, _)| e.depth).max().unwrap_or(0),
            Node::Select { of, .. } => of.depth,
            Node::Call { target, arguments, .. } => target.as_deref().map_or(0, one).max(all(arguments)),
            Node::List(items) => items.iter().map(|(e, _)| e.depth).max().unwrap_or(0),
            Node::Map(entries) => entries.iter().map(|(k, v, _)| k.depth.max(v.depth)).max().unwrap_or(0),
            Node::Comprehension(c) => c.range.depth.max(c.body.depth).max(c.filter.as_ref().map_or(0, one)),
            Node::OptionalMap { target, body, .. } => target.depth.max(body.depth),
        };
        Self { at, depth: below + 1, node }
    }

    pub(super) fn call(at: usize, function: &str, arguments: Vec<Self>) -> Self {
        Self::new(at, Node::Call { function: function.to_owned(), target: None, arguments })
    }
}
