//! What a token says, once its signature, times and audience are right: the rules it must keep, and the user it makes.

use serde_json::{Value, json};
use vctl_machinery::cel::{self, PER_CALL_LIMIT, Program, Variables};

use super::config::{Issuer, Rule, Source};
use crate::user::User;

/// Cost that all expressions for one token may have together.
const BUDGET: u64 = 10 * PER_CALL_LIMIT;

/// The user, or why there is none.
pub(super) fn user(issuer: &Issuer, claims: Value) -> Result<User, String> {
    for (claim, wanted) in &issuer.required {
        match &claims[claim] {
            Value::Null => return Err(format!("required claim {claim} not present in ID token")),
            Value::String(found) if found == wanted => {}
            Value::String(found) => {
                return Err(format!("required claim {claim} value does not match. Got = {found}, want = {wanted}"));
            }
            _ => return Err(format!("required claim {claim} is not a string")),
        }
    }
    let mut evaluator = Evaluator { left: BUDGET };
    let variables = Variables::new().with("claims", cel::Value::from_json(&claims));
    evaluator.hold(&issuer.claim_rules, &variables)?;

    let name = username(&issuer.username, &claims, &variables, &mut evaluator)?;
    if name.is_empty() {
        return Err("the username is empty".to_owned());
    }
    let groups = match &issuer.groups {
        None => Vec::new(),
        Some(Source::Claim { claim, prefix }) => {
            let groups = strings(&claims[claim]).ok_or_else(|| format!("parse groups claim {claim:?}: not strings"))?;
            groups.into_iter().map(|group| format!("{prefix}{group}")).collect()
        }
        Some(Source::Expression(program)) => strings(&evaluator.json(program, &variables)?)
            .ok_or("the expression for groups gives something else than strings")?,
    };
    let mut user = User::new(name, groups.into_iter().filter(|group| !group.is_empty()));
    let uid = match &issuer.uid {
        None => Value::Null,
        Some(Source::Claim { claim, .. }) => claims[claim].clone(),
        Some(Source::Expression(program)) => evaluator.json(program, &variables)?,
    };
    match uid {
        Value::String(uid) => user.uid = uid,
        Value::Null if issuer.uid.is_none() => {}
        _ => return Err("the uid is no string".to_owned()),
    }
    if let Some(id) = claims["jti"].as_str().filter(|id| !id.is_empty()) {
        user.extra.insert("authentication.kubernetes.io/credential-id".to_owned(), vec![format!("JTI={id}")]);
    }
    for (key, program) in &issuer.extra {
        let values = strings(&evaluator.json(program, &variables)?);
        let values =
            values.ok_or_else(|| format!("the expression for extra {key:?} gives something else than strings"))?;
        let values: Vec<String> = values.into_iter().filter(|value| !value.is_empty()).collect();
        if !values.is_empty() {
            user.extra.insert(key.clone(), values);
        }
    }
    if !issuer.user_rules.is_empty() {
        let info = json!({ "username": user.name, "uid": user.uid, "groups": user.groups, "extra": user.extra });
        let variables = Variables::new().with("user", cel::Value::from_json(&info));
        evaluator.hold(&issuer.user_rules, &variables)?;
    }
    Ok(user)
}

fn username(
    source: &Source,
    claims: &Value,
    variables: &Variables,
    evaluator: &mut Evaluator,
) -> Result<String, String> {
    match source {
        Source::Expression(program) => match evaluator.json(program, variables)? {
            Value::String(name) => Ok(name),
            _ => Err("the expression for the username gives something else than a string".to_owned()),
        },
        Source::Claim { claim, prefix } => {
            let name =
                claims[claim].as_str().ok_or_else(|| format!("parse username claims {claim:?}: claim not present"))?;
            // An address that is said not to be verified is nobody's.
            if claim == "email" {
                match &claims["email_verified"] {
                    Value::Null | Value::Bool(true) => {}
                    Value::Bool(false) => return Err("email not verified".to_owned()),
                    _ => return Err("parse 'email_verified' claim: not a boolean".to_owned()),
                }
            }
            Ok(if name.is_empty() { String::new() } else { format!("{prefix}{name}") })
        }
    }
}

/// One string, or a list of strings; nothing is none of them.
fn strings(value: &Value) -> Option<Vec<String>> {
    match value {
        Value::Null => Some(Vec::new()),
        Value::String(one) => Some(vec![one.clone()]),
        Value::Array(many) => many.iter().map(|v| v.as_str().map(ToOwned::to_owned)).collect(),
        _ => None,
    }
}

struct Evaluator {
    left: u64,
}

impl Evaluator {
    fn run(&mut self, program: &Program, variables: &Variables) -> Result<cel::Value, String> {
        let evaluation = program.evaluate(variables, self.left.min(PER_CALL_LIMIT));
        self.left = self.left.saturating_sub(evaluation.cost);
        evaluation.result
    }

    fn json(&mut self, program: &Program, variables: &Variables) -> Result<Value, String> {
        let value = self.run(program, variables)?;
        if value == cel::Value::Null {
            return Ok(Value::Null);
        }
        value.to_json().ok_or_else(|| "an expression gives something that is no JSON".to_owned())
    }

    fn hold(&mut self, rules: &[Rule], variables: &Variables) -> Result<(), String> {
        for rule in rules {
            match self.run(&rule.program, variables)? {
                cel::Value::Bool(true) => {}
                _ if rule.message.is_empty() => {
                    return Err(format!("validation expression {:?} failed", rule.expression));
                }
                _ => return Err(format!("validation expression {:?} failed: {}", rule.expression, rule.message)),
            }
        }
        Ok(())
    }
}
