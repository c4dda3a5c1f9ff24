//! What an expression costs at most, told from the sizes that a schema allows. Sources: cel-go `checker/cost.go`, apiserver
//! `pkg/cel/library/cost.go`. What is refused by its cost upstream is refused here; the two count alike.

mod calls;
mod shape;

use super::ast::{Comprehension, Expression, Loop, Node};
use super::value::Value;

pub use shape::Shape;

/// Cost of making a list, a map and a message.
const LIST: u64 = 10;
const MAP: u64 = 30;
const MESSAGE: u64 = 40;
/// Cost of walking through a character, and of one of a regular expression.
const STRING_FACTOR: f64 = 0.1;
const REGEX_FACTOR: f64 = 0.25;

/// How much there may be of something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Size {
    min: u64,
    max: u64,
}

impl Size {
    const UNKNOWN: Self = Self { min: 0, max: u64::MAX };

    fn exactly(n: u64) -> Self {
        Self { min: n, max: n }
    }

    fn plus(self, other: Self) -> Self {
        Self { min: self.min.saturating_add(other.min), max: self.max.saturating_add(other.max) }
    }

    fn times(self, other: Self) -> Self {
        Self { min: self.min.saturating_mul(other.min), max: self.max.saturating_mul(other.max) }
    }

    fn union(self, other: Self) -> Self {
        Self { min: self.min.min(other.min), max: self.max.max(other.max) }
    }

    /// The cost of walking through it.
    fn cost(self, factor: f64) -> u64 {
        by_factor(self.max, factor)
    }
}

/// A number times a factor, rounded up. Never more than there are numbers.
fn by_factor(n: u64, factor: f64) -> u64 {
    (n as f64 * factor).ceil() as u64
}

/// What is known of the kind of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Scalar,
    String,
    Bytes,
    List,
    Map,
    Object,
    Unknown,
}

/// What is known of a value.
#[derive(Debug, Clone, Copy)]
struct Known<'s> {
    kind: Kind,
    /// Where it comes from, if it is part of what the schema describes.
    shape: Option<&'s Shape>,
    /// Computed from the expression.
    size: Option<Size>,
    /// Of the items of a list or the values of a map that the expression makes.
    entries: Option<Size>,
}

impl<'s> Known<'s> {
    fn of(kind: Kind) -> Self {
        Self { kind, shape: None, size: None, entries: None }
    }

    fn sized(kind: Kind, size: Size) -> Self {
        Self { size: Some(size), ..Self::of(kind) }
    }

    fn at(shape: &'s Shape) -> Self {
        Self { shape: Some(shape), ..Self::of(shape.kind) }
    }

    /// Its size, or anything.
    fn size(&self) -> Size {
        self.size
            .or_else(|| self.shape.map(|s| Size { min: 0, max: s.max }))
            .or_else(|| (self.kind == Kind::Scalar).then(|| Size::exactly(1)))
            .unwrap_or(Size::UNKNOWN)
    }

    /// What its items or values are.
    fn entry(&self) -> Self {
        if let Some(of) = self.shape.and_then(|s| s.items.as_deref()) {
            return Self { size: self.entries, ..Self::at(of) };
        }
        Self { size: self.entries, ..Self::of(Kind::Unknown) }
    }

    /// What a loop with one variable goes through: items of a list, keys of a map.
    fn iterated(&self) -> Self {
        match self.kind {
            Kind::Map => Self::sized(Kind::String, Size { min: 0, max: 0 }),
            Kind::Object => Self::of(Kind::String),
            _ => self.entry(),
        }
    }

    fn field(&self, name: &str) -> Self {
        let Some(shape) = self.shape else { return Self::of(Kind::Unknown) };
        // Upstream does not look up the sizes of what is selected of a map as if it were a field; only its kind tells.
        match (shape.fields.get(name), &shape.items) {
            (Some(field), _) => Self::at(field),
            (None, Some(items)) if self.kind == Kind::Map => Self::of(items.kind),
            _ => Self::of(Kind::Unknown),
        }
    }
}

/// An estimate on its way through an expression.
struct Estimate<'s> {
    root: &'s Shape,
    locals: Vec<(String, Known<'s>)>,
}

/// What an expression about `self` and `oldSelf` of a shape costs at most.
pub(super) fn estimate(expression: &Expression, root: &Shape) -> u64 {
    Estimate { root, locals: Vec::new() }.cost(expression).0
}

impl<'s> Estimate<'s> {
    /// The cost of an expression, and what is known of its value.
    fn cost(&mut self, e: &Expression) -> (u64, Known<'s>) {
        match &e.node {
            Node::Literal(value) => (0, literal(value)),
            Node::Variable(name) => {
                let local = self.locals.iter().rev().find(|(n, _)| n == name).map(|(_, known)| *known);
                let known = match (local, name.as_str()) {
                    (Some(known), _) => known,
                    (None, "self" | "oldSelf") => Known::at(self.root),
                    _ => Known::of(Kind::Unknown),
                };
                (1, known)
            }
            Node::Select { of, field, test, optional } => {
                let (cost, of) = self.cost(of);
                if *test {
                    // Presence is asked for nothing.
                    return (cost, Known::of(Kind::Scalar));
                }
                let selects = *optional || matches!(of.kind, Kind::Map | Kind::Object);
                (cost.saturating_add(u64::from(selects)), of.field(field))
            }
            Node::Call { function, target, arguments } => self.call(function, target.as_deref(), arguments),
            Node::List(items) => {
                let (mut cost, mut of) = (LIST, Size { min: u64::MAX, max: 0 });
                for (item, _) in items {
                    let (more, known) = self.cost(item);
                    cost = cost.saturating_add(more);
                    of = of.union(known.size());
                }
                of.min = if items.is_empty() { 0 } else { of.min };
                let known = Known::sized(Kind::List, Size::exactly(items.len() as u64));
                (cost, Known { entries: Some(of), ..known })
            }
            Node::Map(entries) => {
                let (mut cost, mut of) = (MAP, Size { min: u64::MAX, max: 0 });
                for (key, value, _) in entries {
                    let (more, (most, known)) = (self.cost(key).0, self.cost(value));
                    cost = cost.saturating_add(more).saturating_add(most);
                    of = of.union(known.size());
                }
                of.min = if entries.is_empty() { 0 } else { of.min };
                let known = Known::sized(Kind::Map, Size::exactly(entries.len() as u64));
                (cost, Known { entries: Some(of), ..known })
            }
            Node::Message { fields, .. } => {
                let cost = fields.iter().fold(MESSAGE, |cost, (_, e, _)| cost.saturating_add(self.cost(e).0));
                (cost, Known::of(Kind::Object))
            }
            Node::Comprehension(comprehension) => self.comprehension(comprehension),
            Node::OptionalMap { target, variable, body, flat } => {
                let (asked, value) = self.cost(target);
                self.locals.push((variable.clone(), value));
                let (made, known) = self.cost(body);
                self.locals.pop();
                // `target.hasValue() ? optional.of(bind(variable, target.value(), body)) : optional.none()`
                let some = asked.saturating_add(made).saturating_add(LIST + 1 + u64::from(!*flat));
                (asked.saturating_add(1).saturating_add(some), known)
            }
        }
    }

    fn comprehension(&mut self, c: &Comprehension) -> (u64, Known<'s>) {
        let (range, of) = self.cost(&c.range);
        let depth = self.locals.len();
        if let Some(second) = &c.second {
            let key = if of.kind == Kind::List { Known::of(Kind::Scalar) } else { of.iterated() };
            self.locals.push((c.variable.clone(), key));
            self.locals.push((second.clone(), of.entry()));
        } else {
            self.locals.push((c.variable.clone(), of.iterated()));
        }
        let filter = c.filter.as_ref().map(|f| self.cost(f).0);
        let (body, made) = self.cost(&c.body);
        self.locals.truncate(depth);
        // What the macros expand to: the condition and the step of the loop, the accumulator and the result.
        let taken = |cost: u64| match filter {
            Some(filter) => filter.saturating_add(cost),
            None => cost,
        };
        let (start, step, end) = match c.kind {
            Loop::All => (0, body.saturating_add(3), 1),
            Loop::Exists => (0, body.saturating_add(4), 1),
            Loop::ExistsOne => (0, body.saturating_add(2), 2),
            Loop::Filter => (LIST, body.saturating_add(3 + LIST), 1),
            Loop::Map | Loop::TransformList => (LIST, taken(body.saturating_add(2 + LIST)), 1),
            Loop::TransformMap => (MAP, taken(body.saturating_add(3)), 1),
            Loop::TransformMapEntry => (MAP, taken(body.saturating_add(2)), 1),
        };
        let count = of.size();
        let cost = range.saturating_add(start + end).saturating_add(count.max.saturating_mul(step));
        let list = |entries: Size| Known { entries: Some(entries), ..Known::sized(Kind::List, count) };
        let known = match c.kind {
            Loop::All | Loop::Exists | Loop::ExistsOne => Known::of(Kind::Scalar),
            Loop::Filter => list(of.iterated().size().union(Size::exactly(0))),
            Loop::Map | Loop::TransformList => list(made.size().union(Size::exactly(0))),
            Loop::TransformMap | Loop::TransformMapEntry => Known::sized(Kind::Map, count),
        };
        (cost, known)
    }
}

fn literal(value: &Value) -> Known<'static> {
    match value {
        Value::String(text) => Known::sized(Kind::String, Size::exactly(text.chars().count() as u64)),
        Value::Bytes(bytes) => Known::sized(Kind::Bytes, Size::exactly(bytes.len() as u64)),
        _ => Known::sized(Kind::Scalar, Size::exactly(1)),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value as Json, json};

    use super::*;
    use crate::{
        cel::{Environment, object_type},
        crd::schema::Schema,
    };

    fn cost(schema: &Json, rule: &str) -> u64 {
        let schema = Schema::parse(schema);
        let kind = object_type(&schema, false, "selfType").unwrap();
        let environment = Environment::new().variable("self", kind.clone()).variable("oldSelf", kind);
        let program = environment.compile(rule).unwrap();
        program.max_cost(&Shape::of(&schema, false).unwrap())
    }

    /// A schema without and with a limit, and what a rule costs of both.
    type Case = (fn(Option<i64>) -> Json, &'static str, u64, i64, u64);

    fn with(mut schema: Json, limit: &str, max: Option<i64>) -> Json {
        if let Some(max) = max {
            schema[limit] = max.into();
        }
        schema
    }

    fn text(max: Option<i64>) -> Json {
        with(json!({ "type": "string" }), "maxLength", max)
    }

    fn list(of: &Json, max: Option<i64>) -> Json {
        with(json!({ "type": "array", "items": of }), "maxItems", max)
    }

    fn map(of: &Json, max: Option<i64>) -> Json {
        with(json!({ "type": "object", "additionalProperties": of }), "maxProperties", max)
    }

    fn formatted(format: &str) -> Json {
        json!({ "type": "string", "format": format })
    }

    fn number() -> Json {
        json!({ "type": "number" })
    }

    fn int_or_string() -> Json {
        json!({ "x-kubernetes-int-or-string": true })
    }

    #[test]
    fn costs_are_those_of_upstream() {
        // Numbers of upstream's TestCostEstimation (apiextensions-apiserver `pkg/apiserver/schema/cel/compilation_test.go`).
        let cases: &[Case] = &[
            (|max| list(&number(), max), "self.all(x, true)", 4_718_591, 10, 32),
            (|max| list(&json!({ "type": "string" }), max), "self.all(x, true)", 3_145_727, 20, 62),
            (|max| list(&json!({ "type": "boolean" }), max), "self.all(x, true)", 1_887_437, 5, 17),
            (|max| list(&list(&number(), None), max), "self.all(x, true)", 3_145_727, 100, 302),
            (|max| map(&number(), max), "self.all(x, true)", 1_348_169, 10, 32),
            (|max| map(&json!({ "type": "string" }), max), "self.all(x, true)", 1_179_647, 3, 11),
            (text, "self.contains('test')", 314_574, 10, 5),
            (text, "self.startsWith('test')", 2, 15, 2),
            (text, "size(self + \"hello\") > size(\"hello\")", 314_578, 4, 7),
            (|max| list(&number(), max), "self[1] == 0.0", 2, 5000, 2),
            (|max| list(&json!({ "type": "string" }), max), "self[1] == self[1]", 314_577, 8, 314_577),
            (text, "self.matches(\"x\")", 314_574, 50, 22),
            (text, "\"\".matches(\"(((((((((())))))))))[0-9]\")", 7, 10, 7),
            (text, "self.matches(\"\")", 1, 100, 1),
            (|max| map(&json!({ "type": "string" }), max), "self.all(x, x.contains(self[x]))", 2_752_507, 10, 72),
            (|max| map(&number(), max), "self[\"x\"] == 0.0", 2, 0, 2),
            (text, "self == \"x\"", 2, 0, 1),
            (|max| list(&number(), max), "self.all(x, x == 0.0)", 6_291_454, 10, 42),
            (|max| list(&int_or_string(), max), "self[0] == 5", 3, 10, 3),
            (|max| list(&list(&number(), None), max), "self[0][0] == -1.0", 3, 51, 3),
            (|max| list(&map(&number(), None), max), "self.all(x, x.y == 25.2)", 6_291_452, 12, 74),
            (|max| list(&map(&number(), None), max), "self[0].x > 2.0", 4, 3000, 4),
            (|max| list(&formatted("duration"), max), "self.all(x, true)", 2_359_295, 5, 17),
            (|max| list(&formatted("duration"), max), "self[0].getHours() == 2", 4, 525, 4),
            (|max| list(&formatted("date"), max), "self.all(x, true)", 725_936, 15, 47),
            (|max| list(&formatted("date-time"), max), "self.all(x, true)", 428_963, 25, 77),
            (|max| map(&json!({ "type": "integer" }), max), "oldSelf.size() == self.size()", 5, 10, 5),
            (|max| map(&formatted("date-time"), max), "self[\"a\"] == self[\"b\"]", 8, 7, 8),
            (|max| with(int_or_string(), "maxLength", max), "isQuantity(self)", 314_574, 20, 9),
            (
                |max| with(json!({ "type": "string", "enum": ["A", "B", "LongValue"] }), "maxLength", max),
                "self.contains('A')",
                2,
                1000,
                401,
            ),
        ];
        for (schema, rule, calculated, max, set) in cases {
            assert_eq!(cost(&schema(None), rule), *calculated, "{rule}");
            assert_eq!(cost(&schema(Some(*max)), rule), *set, "{rule} with a limit of {max}");
        }
        assert_eq!(cost(&list(&number(), Some(10)), "self.all(x, self.all(y, true))"), 352);
        assert_eq!(cost(&list(&number(), Some(10)), "self.all(x, self.all(y, self.all(z, true)))"), 3552);
        assert!(cost(&list(&number(), None), "self.all(x, self.all(y, true))") > 10_000_000);
    }

    #[test]
    fn nested_loops_multiply() {
        let inner = list(&text(Some(10)), Some(100));
        let schema = json!({ "type": "object", "properties": { "a": inner, "b": inner } });
        let one = cost(&schema, "self.a.all(x, x != '')");
        let two = cost(&schema, "self.a.all(x, self.b.all(y, x != y))");
        assert!(two > one * 100, "{one} {two}");
        assert_eq!(
            cost(&schema, "has(self.a) ? size(self.a) == 1 : true"),
            cost(&schema, "!has(self.a) || size(self.a) == 1") - 1
        );
    }
}
