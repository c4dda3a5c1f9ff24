//! Macros: `has`, `all`, `exists`, `map`, `filter` and the like.

use super::{
    Issue,
    ast::{Comprehension, Expression, Loop, Node},
};

/// A call without a target, or what the macro of this name makes of it.
pub(super) fn global(at: usize, name: &str, mut arguments: Vec<Expression>) -> Result<Expression, Issue> {
    if name == "has" && arguments.len() == 1 {
        let argument = arguments.remove(0);
        return match argument.node {
            Node::Select { of, field, optional: false, .. } => {
                Ok(Expression::new(at, Node::Select { of, field, test: true, optional: false }))
            }
            _ => Err(Issue::new(argument.at, "invalid argument to has() macro")),
        };
    }
    Ok(Expression::call(at, name, arguments))
}

fn variable(e: &Expression) -> Result<String, Issue> {
    match &e.node {
        Node::Variable(name) => Ok(name.clone()),
        _ => Err(Issue::new(e.at, "argument must be a simple name")),
    }
}

/// A call with a target, or what the macro of this name makes of it.
pub(super) fn member(
    at: usize,
    target: Expression,
    name: &str,
    arguments: Vec<Expression>,
) -> Result<Expression, Issue> {
    let call = |target: Expression, arguments| {
        Expression::new(at, Node::Call { function: name.to_owned(), target: Some(Box::new(target)), arguments })
    };
    if matches!(name, "optMap" | "optFlatMap") && arguments.len() == 2 {
        let [of, body] = <[Expression; 2]>::try_from(arguments).map_err(|_| Issue::new(at, "invalid arguments"))?;
        return Ok(Expression::new(
            at,
            Node::OptionalMap {
                target: Box::new(target),
                variable: variable(&of)?,
                body: Box::new(body),
                flat: name == "optFlatMap",
            },
        ));
    }
    let kind = match (name, arguments.len()) {
        ("all", 2 | 3) => Loop::All,
        ("exists", 2 | 3) => Loop::Exists,
        ("exists_one" | "existsOne", 2) | ("existsOne", 3) => Loop::ExistsOne,
        ("map", 2 | 3) => Loop::Map,
        ("filter", 2) => Loop::Filter,
        ("transformList", 3 | 4) => Loop::TransformList,
        ("transformMap", 3 | 4) => Loop::TransformMap,
        ("transformMapEntry", 3 | 4) => Loop::TransformMapEntry,
        _ => return Ok(call(target, arguments)),
    };
    let mut rest = arguments.into_iter();
    let mut next = || rest.next().ok_or_else(|| Issue::new(at, "missing argument"));
    let first = variable(&next()?)?;
    let mut left: Vec<Expression> = Vec::new();
    let two = match kind {
        Loop::All
        | Loop::Exists
        | Loop::ExistsOne
        | Loop::TransformList
        | Loop::TransformMap
        | Loop::TransformMapEntry => true,
        Loop::Map | Loop::Filter => false,
    };
    left.extend(rest);
    let plain = matches!(kind, Loop::All | Loop::Exists | Loop::ExistsOne) && left.len() == 1;
    let second = if two && !plain { Some(variable(&left.remove(0))?) } else { None };
    let body = left.pop().ok_or_else(|| Issue::new(at, "missing argument"))?;
    let filter = left.pop();
    let comprehension = Comprehension { kind, range: target, variable: first, second, filter, body };
    Ok(Expression::new(at, Node::Comprehension(Box::new(comprehension))))
}
