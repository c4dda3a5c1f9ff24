//! Type checking. Messages are those of cel-go's `checker`.

use super::{
    Environment, Issue,
    ast::{Comprehension, Expression, Loop, Node},
    declarations::{self, Overload, TYPE_NAMES},
    message,
    parser::dotted,
    types::{Bindings, Type, join},
    value::Value,
};

/// What checking finds out.
pub(super) struct Checked {
    pub(super) output: Type,
    pub(super) references: Vec<String>,
}

struct Checker<'e> {
    environment: &'e Environment,
    scope: Vec<(String, Type)>,
    issues: Vec<Issue>,
    references: Vec<String>,
}

/// Checks an expression; rewrites calls of functions whose names have dots.
pub(super) fn check(environment: &Environment, expression: &mut Expression) -> Result<Checked, Vec<Issue>> {
    let mut checker = Checker { environment, scope: Vec::new(), issues: Vec::new(), references: Vec::new() };
    let output = checker.check(expression);
    if checker.issues.is_empty() { Ok(Checked { output, references: checker.references }) } else { Err(checker.issues) }
}

impl Checker<'_> {
    fn fail(&mut self, at: usize, text: impl std::fmt::Display) -> Type {
        let issue = Issue::new(at, text);
        if !self.issues.contains(&issue) {
            self.issues.push(issue);
        }
        Type::Dyn
    }

    fn local(&self, name: &str) -> Option<&Type> {
        self.scope.iter().rev().find(|(n, _)| n == name).map(|(_, t)| t)
    }

    fn variable(&mut self, at: usize, name: &str) -> Type {
        if let Some(kind) = self.local(name) {
            return kind.clone();
        }
        if let Some(kind) = self.environment.variables.get(name) {
            if !self.references.iter().any(|r| r == name) {
                self.references.push(name.to_owned());
            }
            return kind.clone();
        }
        if TYPE_NAMES.contains(&name) {
            return Type::Type;
        }
        self.fail(at, format!("undeclared reference to '{name}' (in container '')"))
    }

    fn check(&mut self, expression: &mut Expression) -> Type {
        let at = expression.at;
        // `sets.contains(..)`: a function with a dot in its name, unless the first part is a variable.
        if let Node::Call { function, target: target @ Some(_), .. } = &mut expression.node
            && let Some(name) = target.as_deref().and_then(dotted)
            && let full = format!("{name}.{function}")
            && declarations::all().contains_key(&full)
            && self.local(&name).is_none()
            && !self.environment.variables.contains_key(&name)
        {
            *function = full;
            *target = None;
        }
        // A variable with a dot in its name: `authorizer.requestResource`.
        if let Node::Select { test: false, optional: false, .. } = &expression.node
            && let Some(name) = dotted(expression)
            && self.environment.variables.contains_key(&name)
            && self.local(name.split('.').next().unwrap_or_default()).is_none()
        {
            expression.node = Node::Variable(name);
        }
        match &mut expression.node {
            Node::Literal(value) => value.kind(),
            Node::Variable(name) => {
                let name = name.clone();
                self.variable(at, &name)
            }
            Node::Message { name, fields } => {
                let name = name.clone();
                self.message(at, &name, fields)
            }
            Node::Select { of, field, test, optional } => {
                let of = self.check(of);
                self.select(at, &of, field, *test, *optional)
            }
            Node::Call { function, target, arguments } => {
                let member = target.is_some();
                let mut types: Vec<Type> = target.iter_mut().map(|t| self.check(t)).collect();
                types.extend(arguments.iter_mut().map(|a| self.check(a)));
                let regex = match (function.as_str(), arguments.last().map(|a| &a.node)) {
                    ("matches", Some(Node::Literal(Value::String(text)))) => Some(text.clone()),
                    _ => None,
                };
                if let Some(why) = regex.and_then(|r| crate::crd::Pattern::new(&r).error()) {
                    let place = arguments.last().map_or(at, |a| a.at);
                    self.fail(place, format!("invalid matches argument: {why}"));
                }
                if let (true, [Expression { node: Node::Literal(Value::String(text)), at: place, .. }]) =
                    (matches!(function.as_str(), "duration" | "timestamp") && !member, arguments.as_slice())
                {
                    let wrong = if function == "duration" {
                        super::functions::duration(text).is_err()
                    } else {
                        text.parse::<jiff::Timestamp>().is_err()
                    };
                    if wrong {
                        let (text, place) = (format!("invalid {function} argument"), *place);
                        self.fail(place, text);
                    }
                }
                let function = function.clone();
                self.call(at, &function, member, &types)
            }
            Node::List(items) => {
                let mut of: Option<Type> = None;
                for (item, optional) in items {
                    let mut kind = self.check(item);
                    if *optional {
                        kind = self.unwrap(item.at, kind);
                    }
                    of = Some(self.same(item.at, of, kind));
                }
                Type::list(of.unwrap_or(Type::Dyn))
            }
            Node::Map(entries) => {
                let (mut keys, mut values): (Option<Type>, Option<Type>) = (None, None);
                for (key, value, optional) in entries {
                    let kind = self.check(key);
                    keys = Some(self.same(key.at, keys, kind));
                    let mut kind = self.check(value);
                    if *optional {
                        kind = self.unwrap(value.at, kind);
                    }
                    values = Some(self.same(value.at, values, kind));
                }
                Type::map(keys.unwrap_or(Type::Dyn), values.unwrap_or(Type::Dyn))
            }
            Node::Comprehension(comprehension) => self.comprehension(comprehension),
            Node::OptionalMap { target, variable, body, flat } => {
                let kind = self.check(target);
                let of = self.unwrap(target.at, kind);
                self.scope.push((variable.clone(), of));
                let result = self.check(body);
                self.scope.pop();
                if *flat { result } else { Type::optional(result) }
            }
        }
    }

    /// A message: `Object`, whose fields may be called anything, or `JSONPatch`.
    fn message(&mut self, at: usize, name: &str, fields: &mut [(String, Expression, bool)]) -> Type {
        if !self.environment.patch_types || !message::is_declared(name) {
            return self.fail(at, format!("undeclared reference to '{name}' (in container '')"));
        }
        for (field, value, optional) in fields {
            let mut kind = self.check(value);
            if *optional {
                kind = self.unwrap(value.at, kind);
            }
            match message::field_type(name, field) {
                None => {
                    self.fail(value.at, format!("undefined field '{field}'"));
                }
                Some(wanted) if !Bindings::default().accept(&wanted, &kind) => {
                    let text = format!("expected type of field '{field}' is '{wanted}' but provided type is '{kind}'");
                    self.fail(value.at, text);
                }
                Some(_) => {}
            }
        }
        Type::Message(name.into())
    }

    fn unwrap(&mut self, at: usize, kind: Type) -> Type {
        match kind {
            Type::Optional(of) => *of,
            Type::Dyn => Type::Dyn,
            other => self.fail(at, format!("expected type 'optional_type({other})' but found '{other}'")),
        }
    }

    /// Items of a literal are of one type.
    fn same(&mut self, at: usize, so_far: Option<Type>, kind: Type) -> Type {
        let Some(so_far) = so_far else { return kind };
        match join(&so_far, &kind) {
            Some(joined) => joined,
            None => {
                self.fail(at, format!("expected type '{so_far}' but found '{kind}'"));
                so_far
            }
        }
    }

    fn select(&mut self, at: usize, of: &Type, field: &str, test: bool, optional: bool) -> Type {
        let (inner, wrapped) = match of {
            Type::Optional(inner) => (&**inner, true),
            other => (other, false),
        };
        let found = match inner {
            Type::Dyn | Type::Null => Type::Dyn,
            Type::Map(_, values) => (**values).clone(),
            Type::Object(object) => match object.fields.get(field) {
                Some(kind) => kind.clone(),
                None => return self.fail(at, format!("undefined field '{field}'")),
            },
            Type::Message(name) => match message::field_type(name, field) {
                Some(kind) => kind,
                None => return self.fail(at, format!("undefined field '{field}'")),
            },
            // What is computed has fields that only it knows.
            Type::Opaque(_) if self.has_fields(inner) => Type::Dyn,
            other => return self.fail(at, format!("type '{other}' does not support field selection")),
        };
        match (test, wrapped || optional) {
            (true, _) => Type::Bool,
            (false, true) if matches!(found, Type::Optional(_)) => found,
            (false, true) => Type::optional(found),
            (false, false) => found,
        }
    }

    fn has_fields(&self, kind: &Type) -> bool {
        self.environment.methods.iter().any(|m| m.name == "." && m.arguments.first() == Some(kind))
    }

    fn call(&mut self, at: usize, function: &str, member: bool, types: &[Type]) -> Type {
        let standard = declarations::all().get(function).map(Vec::as_slice).unwrap_or_default();
        let own = self.environment.methods.iter().filter(|m| m.name == function);
        let overloads: Vec<&Overload> = standard.iter().chain(own).collect();
        if overloads.is_empty() {
            return self.fail(at, format!("undeclared reference to '{function}' (in container '')"));
        }
        let mut result: Option<Type> = None;
        for overload in overloads.iter().filter(|o| o.member == member && o.arguments.len() == types.len()) {
            let mut bindings = Bindings::default();
            if overload.arguments.iter().zip(types).all(|(wanted, given)| bindings.accept(wanted, given)) {
                let kind = bindings.fill(&overload.result);
                // Which overload it is may turn out at run time only.
                result = Some(match result {
                    None => kind,
                    Some(before) if before == kind => kind,
                    Some(_) => Type::Dyn,
                });
            }
        }
        if let Some(result) = result {
            return result;
        }
        let shown: Vec<String> = types.iter().map(ToString::to_string).collect();
        let applied = match (member, shown.split_first()) {
            (true, Some((target, rest))) => format!("{target}.({})", rest.join(", ")),
            _ => format!("({})", shown.join(", ")),
        };
        self.fail(at, format!("found no matching overload for '{function}' applied to '{applied}'"))
    }

    fn comprehension(&mut self, comprehension: &mut Comprehension) -> Type {
        let range = self.check(&mut comprehension.range);
        let two = comprehension.second.is_some();
        let (first, second) = match &range {
            Type::List(of) if two => (Type::Int, (**of).clone()),
            Type::List(of) => ((**of).clone(), Type::Dyn),
            Type::Map(keys, values) => ((**keys).clone(), (**values).clone()),
            Type::Dyn => (Type::Dyn, Type::Dyn),
            other => {
                let text = format!(
                    "expression of type '{other}' cannot be range of a comprehension (must be list, map, or dynamic)"
                );
                self.fail(comprehension.range.at, text);
                (Type::Dyn, Type::Dyn)
            }
        };
        let depth = self.scope.len();
        self.scope.push((comprehension.variable.clone(), first.clone()));
        if let Some(name) = &comprehension.second {
            self.scope.push((name.clone(), second));
        }
        if let Some(filter) = &mut comprehension.filter {
            let kind = self.check(filter);
            self.predicate(filter.at, &kind);
        }
        let body = self.check(&mut comprehension.body);
        let place = comprehension.body.at;
        let result = match comprehension.kind {
            Loop::All | Loop::Exists | Loop::ExistsOne => {
                self.predicate(place, &body);
                Type::Bool
            }
            Loop::Filter => {
                self.predicate(place, &body);
                Type::list(first)
            }
            Loop::Map | Loop::TransformList => Type::list(body),
            Loop::TransformMap => Type::map(first, body),
            Loop::TransformMapEntry => body,
        };
        self.scope.truncate(depth);
        result
    }

    fn predicate(&mut self, at: usize, kind: &Type) {
        if !matches!(kind, Type::Bool | Type::Dyn) {
            self.fail(at, format!("expected type 'bool' but found '{kind}'"));
        }
    }
}
