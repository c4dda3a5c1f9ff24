//! Evaluation, with its cost. What operations cost is as cel-go's `interpreter/runtimecost.go` and Kubernetes' `library/cost.go` count it:
//! a step is 1, reading or making text is a tenth of its length, a regular expression a quarter of its own length more, making a list 10
//! and a map 30.

use std::{collections::BTreeMap, sync::Arc};

use super::{
    Evaluation, Variables,
    ast::{Comprehension, Expression, Loop, Node},
    functions,
    message::Message,
    value::{Key, Value},
};

/// What a stopped evaluation says.
pub(super) const OVER_LIMIT: &str = "operation cancelled: actual cost limit exceeded";

struct Run<'v> {
    variables: &'v Variables,
    locals: Vec<(&'v str, Value)>,
    cost: u64,
    limit: u64,
}

/// Evaluates a checked expression.
pub(super) fn run(expression: &Expression, variables: &Variables, limit: u64) -> Evaluation {
    let mut run = Run { variables, locals: Vec::new(), cost: 0, limit };
    let result = run.evaluate(expression);
    Evaluation { result, cost: run.cost }
}

impl<'v> Run<'v> {
    fn spend(&mut self, cost: u64) -> Result<(), String> {
        self.cost = self.cost.saturating_add(cost);
        if self.cost > self.limit { Err(OVER_LIMIT.to_owned()) } else { Ok(()) }
    }

    fn evaluate(&mut self, e: &'v Expression) -> Result<Value, String> {
        match &e.node {
            Node::Literal(value) => Ok(value.clone()),
            Node::Variable(name) => {
                self.spend(1)?;
                if let Some((_, value)) = self.locals.iter().rev().find(|(n, _)| n == name) {
                    return Ok(value.clone());
                }
                match self.variables.get(name) {
                    Some(value) => Ok(value.clone()),
                    None if name == "null_type" => Ok(Value::Type("null_type".into())),
                    None if super::declarations::TYPE_NAMES.contains(&name.as_str()) => {
                        Ok(Value::Type(name.as_str().into()))
                    }
                    None => Err(format!("no such attribute(s): {name}")),
                }
            }
            Node::Message { name, fields } => {
                self.spend(40)?;
                let mut all = BTreeMap::new();
                for (field, value, optional) in fields {
                    let value = match (self.evaluate(value)?, optional) {
                        (Value::Optional(None), true) => continue,
                        (Value::Optional(Some(value)), true) => (*value).clone(),
                        (value, _) => value,
                    };
                    all.insert(Arc::from(field.as_str()), value);
                }
                Ok(Value::Message(Arc::new(Message { name: name.as_str().into(), fields: all })))
            }
            Node::Select { of, field, test, optional } => {
                let of = self.evaluate(of)?;
                if !*test {
                    self.spend(1)?;
                }
                select(&of, field, *test, *optional)
            }
            Node::Call { function, target, arguments } => self.call(function, target.as_deref(), arguments),
            Node::List(items) => {
                self.spend(10)?;
                let mut list = Vec::with_capacity(items.len());
                for (item, optional) in items {
                    match (self.evaluate(item)?, optional) {
                        (Value::Optional(None), true) => {}
                        (Value::Optional(Some(value)), true) => list.push((*value).clone()),
                        (value, _) => list.push(value),
                    }
                }
                Ok(Value::list(list))
            }
            Node::Map(entries) => {
                self.spend(30)?;
                let mut map = BTreeMap::new();
                for (key, value, optional) in entries {
                    let key = self.evaluate(key)?;
                    let key = Key::of(&key).ok_or_else(|| format!("unsupported key type: {}", key.type_name()))?;
                    let value = match (self.evaluate(value)?, optional) {
                        (Value::Optional(None), true) => continue,
                        (Value::Optional(Some(value)), true) => (*value).clone(),
                        (value, _) => value,
                    };
                    if map.contains_key(&key) {
                        return Err(format!("insert failed: key {} already exists", key.value()));
                    }
                    map.insert(key, value);
                }
                Ok(Value::Map(Arc::new(map)))
            }
            Node::Comprehension(comprehension) => self.comprehension(comprehension),
            Node::OptionalMap { target, variable, body, flat } => match self.evaluate(target)? {
                Value::Optional(None) => Ok(Value::none()),
                Value::Optional(Some(value)) => {
                    self.locals.push((variable, (*value).clone()));
                    let result = self.evaluate(body);
                    self.locals.pop();
                    result.map(|value| if *flat { value } else { Value::some(value) })
                }
                _ => Err("no such overload".to_owned()),
            },
        }
    }

    fn call(
        &mut self,
        function: &str,
        target: Option<&'v Expression>,
        arguments: &'v [Expression],
    ) -> Result<Value, String> {
        match (function, arguments) {
            ("_&&_", [a, b]) => return self.logic(a, b, false),
            ("_||_", [a, b]) => return self.logic(a, b, true),
            ("_?_:_", [condition, yes, no]) => {
                return match self.evaluate(condition)? {
                    Value::Bool(true) => self.evaluate(yes),
                    Value::Bool(false) => self.evaluate(no),
                    _ => Err("no such overload".to_owned()),
                };
            }
            _ => {}
        }
        let mut values = Vec::with_capacity(arguments.len() + 1);
        if let Some(target) = target {
            values.push(self.evaluate(target)?);
            // What a present optional is not asked for is not computed.
            if let (Some(Value::Optional(there)), "or" | "orValue") = (values.first(), function) {
                match there {
                    Some(value) if function == "orValue" => return Ok((**value).clone()),
                    Some(_) => return Ok(values.remove(0)),
                    None => {}
                }
            }
        }
        for argument in arguments {
            values.push(self.evaluate(argument)?);
        }
        self.spend(functions::cost(function, &values))?;
        let result = functions::call(function, target.is_some(), &values)?;
        self.spend(functions::result_cost(function, &result))?;
        Ok(result)
    }

    /// `&&` and `||`: one side may decide whatever the other one comes to.
    fn logic(&mut self, a: &'v Expression, b: &'v Expression, decides: bool) -> Result<Value, String> {
        let left = self.evaluate(a);
        if left == Ok(Value::Bool(decides)) {
            return left;
        }
        if self.cost > self.limit {
            return Err(OVER_LIMIT.to_owned());
        }
        let right = self.evaluate(b);
        if right == Ok(Value::Bool(decides)) {
            return right;
        }
        match (left, right) {
            (Ok(Value::Bool(_)), Ok(Value::Bool(b))) => Ok(Value::Bool(b)),
            (Err(e), _) | (_, Err(e)) => Err(e),
            _ => Err("no such overload".to_owned()),
        }
    }

    fn comprehension(&mut self, c: &'v Comprehension) -> Result<Value, String> {
        let range = self.evaluate(&c.range)?;
        let pairs: Vec<(Value, Value)> = match &range {
            Value::List(list) if c.second.is_some() => {
                list.items.iter().enumerate().map(|(i, item)| (Value::Int(i as i64), item.clone())).collect()
            }
            Value::List(list) => list.items.iter().map(|item| (item.clone(), Value::Null)).collect(),
            Value::Map(map) => map.iter().map(|(key, value)| (key.value(), value.clone())).collect(),
            _ => return Err("no such overload".to_owned()),
        };
        self.spend(match c.kind {
            Loop::Map | Loop::Filter | Loop::TransformList => 10,
            Loop::TransformMap | Loop::TransformMapEntry => 30,
            _ => 1,
        })?;
        let (mut error, mut count, mut list, mut map) = (None, 0, Vec::new(), BTreeMap::new());
        for (first, second) in pairs {
            // The step and the condition of the loop.
            self.spend(3)?;
            let depth = self.locals.len();
            self.locals.push((&c.variable, first.clone()));
            if let Some(name) = &c.second {
                self.locals.push((name, second));
            }
            let taken = match &c.filter {
                Some(filter) => match self.evaluate(filter) {
                    Ok(Value::Bool(taken)) => Ok(taken),
                    Ok(_) => Err("no such overload".to_owned()),
                    Err(e) => Err(e),
                },
                None => Ok(true),
            };
            let value = match taken {
                Ok(true) => self.evaluate(&c.body).map(Some),
                Ok(false) => Ok(None),
                Err(e) => Err(e),
            };
            self.locals.truncate(depth);
            match (c.kind, value) {
                (_, Err(e)) if e == OVER_LIMIT => return Err(e),
                // Another item may decide it.
                (Loop::All | Loop::Exists, Err(e)) => error = error.or(Some(e)),
                (Loop::All | Loop::Exists, Ok(Some(Value::Bool(b)))) => {
                    if b == (c.kind == Loop::Exists) {
                        return Ok(Value::Bool(b));
                    }
                }
                (_, Err(e)) => return Err(e),
                (_, Ok(None)) => {}
                (Loop::ExistsOne, Ok(Some(Value::Bool(b)))) => count += usize::from(b),
                (Loop::Filter, Ok(Some(Value::Bool(b)))) => list.extend(b.then_some(first)),
                (Loop::All | Loop::Exists | Loop::ExistsOne | Loop::Filter, Ok(Some(_))) => {
                    return Err("no such overload".to_owned());
                }
                (Loop::Map | Loop::TransformList, Ok(Some(value))) => list.push(value),
                (Loop::TransformMap, Ok(Some(value))) => {
                    map.extend(Key::of(&first).map(|key| (key, value)));
                }
                (Loop::TransformMapEntry, Ok(Some(Value::Map(entry)))) => {
                    for (key, value) in entry.iter() {
                        if map.insert(key.clone(), value.clone()).is_some() {
                            return Err(format!("insert failed: key {} already exists", key.value()));
                        }
                    }
                }
                (Loop::TransformMapEntry, Ok(Some(_))) => return Err("no such overload".to_owned()),
            }
        }
        match (c.kind, error) {
            (_, Some(e)) => Err(e),
            (Loop::All, _) => Ok(Value::Bool(true)),
            (Loop::Exists, _) => Ok(Value::Bool(false)),
            (Loop::ExistsOne, _) => Ok(Value::Bool(count == 1)),
            (Loop::Map | Loop::Filter | Loop::TransformList, _) => Ok(Value::list(list)),
            (Loop::TransformMap | Loop::TransformMapEntry, _) => Ok(Value::Map(Arc::new(map))),
        }
    }
}

fn select(of: &Value, field: &str, test: bool, optional: bool) -> Result<Value, String> {
    let found = match of {
        Value::Map(map) => map.get(&Key::String(field.into())).cloned().ok_or_else(|| format!("no such key: {field}")),
        Value::Opaque(o) => o.field(field),
        Value::Message(message) => message.fields.get(field).cloned().ok_or_else(|| format!("no such key: {field}")),
        Value::Optional(None) if test => return Ok(Value::Bool(false)),
        Value::Optional(None) => return Ok(Value::none()),
        Value::Optional(Some(inner)) => return select(inner, field, test, true),
        _ => return Err("no such overload".to_owned()),
    };
    match (test, optional) {
        (true, _) => Ok(Value::Bool(found.is_ok())),
        (false, true) => Ok(match found {
            Ok(value @ Value::Optional(_)) => value,
            Ok(value) => Value::some(value),
            Err(_) => Value::none(),
        }),
        (false, false) => found,
    }
}
