//! `authorizer`: what expressions ask of the cluster's RBAC. Source: apiserver `pkg/cel/library/authz.go`.

use std::sync::Arc;

use vctl_machinery::{
    cel::{
        Opaque, Value,
        admission::{AUTHORIZER, DECISION, GROUP_CHECK, PATH_CHECK, RESOURCE_CHECK},
    },
    names,
};

use super::{Attributes, Invocation};
use crate::{
    authorization::{self, Decision, Index, rules},
    user::{AUTHENTICATED, User},
};

/// Cost of one decision: two of them are what one expression may have.
const CHECK_COST: u64 = 350_000;

/// Who asks whom.
#[derive(Clone)]
struct Who {
    index: Arc<Index>,
    user: Arc<User>,
}

#[derive(Clone)]
enum Check {
    Authorizer,
    Path(String),
    Group(String),
    Resource(Box<rules::Attributes>),
    Decision(Decision),
}

/// A value of one of the library's types.
struct Authorizer {
    who: Who,
    check: Check,
}

impl std::fmt::Debug for Authorizer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.type_name())
    }
}

/// `authorizer` and `authorizer.requestResource` of a request.
pub(super) fn of(request: &Attributes<'_>, invocation: &Invocation, index: &Arc<Index>) -> (Value, Value) {
    let who = Who { index: index.clone(), user: request.call.user.clone() };
    let (descriptor, target) = (&invocation.descriptor, request.target);
    let resource = rules::Attributes {
        group: descriptor.group.clone(),
        version: "*".into(),
        resource: descriptor.plural.clone(),
        subresource: target.subresource.clone(),
        namespace: request.namespace().to_owned(),
        name: target.name.clone(),
        ..rules::Attributes::default()
    };
    (value(&who, Check::Authorizer), value(&who, Check::Resource(Box::new(resource))))
}

fn value(who: &Who, check: Check) -> Value {
    Value::Opaque(Arc::new(Authorizer { who: who.clone(), check }))
}

impl Opaque for Authorizer {
    fn type_name(&self) -> &'static str {
        match self.check {
            Check::Authorizer => AUTHORIZER,
            Check::Path(_) => PATH_CHECK,
            Check::Group(_) => GROUP_CHECK,
            Check::Resource(_) => RESOURCE_CHECK,
            Check::Decision(_) => DECISION,
        }
    }

    fn cost(&self, method: &str) -> u64 {
        if method == "check" { CHECK_COST } else { 1 }
    }

    fn call(&self, method: &str, arguments: &[Value]) -> Result<Value, String> {
        let texts: Vec<&str> = arguments.iter().filter_map(Value::as_str).collect();
        let of = |check: Check| Ok(value(&self.who, check));
        let decide = |attributes: &rules::Attributes| {
            of(Check::Decision(authorization::decide_by(&self.who.index, &self.who.user, attributes)))
        };
        match (&self.check, method, texts.as_slice()) {
            (Check::Authorizer, "path", [path]) if path.trim().is_empty() => Err("path must not be empty".into()),
            (Check::Authorizer, "path", [path]) => of(Check::Path((*path).to_owned())),
            (Check::Authorizer, "group", [group]) => of(Check::Group((*group).to_owned())),
            (Check::Authorizer, "serviceAccount", [namespace, name]) => {
                if !names::dns_subdomain_errors(name).is_empty() {
                    return Err("Invalid service account name".into());
                }
                if !names::dns_label_errors(namespace).is_empty() {
                    return Err("Invalid service account namespace".into());
                }
                let groups = ["system:serviceaccounts", &format!("system:serviceaccounts:{namespace}"), AUTHENTICATED]
                    .map(str::to_owned);
                let user = User::new(format!("system:serviceaccount:{namespace}:{name}"), groups);
                let who = Who { index: self.who.index.clone(), user: Arc::new(user) };
                Ok(value(&who, Check::Authorizer))
            }
            (Check::Group(_), "resource", [resource]) if resource.trim().is_empty() => {
                Err("resource must not be empty".into())
            }
            (Check::Group(group), "resource", [resource]) => of(Check::Resource(Box::new(rules::Attributes {
                group: group.clone(),
                version: "*".into(),
                resource: (*resource).to_owned(),
                ..rules::Attributes::default()
            }))),
            // RBAC knows no selectors: it decides as if none were asked for.
            (Check::Resource(_), "fieldSelector" | "labelSelector", [_]) => of(self.check.clone()),
            (Check::Resource(resource), "subresource" | "namespace" | "name", [text]) => {
                let mut resource = resource.clone();
                let field = match method {
                    "subresource" => &mut resource.subresource,
                    "namespace" => &mut resource.namespace,
                    _ => &mut resource.name,
                };
                (*text).clone_into(field);
                of(Check::Resource(resource))
            }
            (Check::Resource(resource), "check", [verb]) => {
                decide(&rules::Attributes { verb: (*verb).to_owned(), ..(**resource).clone() })
            }
            (Check::Path(path), "check", [verb]) => decide(&rules::Attributes {
                verb: (*verb).to_owned(),
                path: Some(path.clone()),
                ..rules::Attributes::default()
            }),
            (Check::Decision(decision), "allowed", []) => Ok(Value::Bool(decision.allowed)),
            (Check::Decision(decision), "reason", []) => Ok(Value::string(&decision.reason)),
            // RBAC decides from memory: that does not fail.
            (Check::Decision(_), "errored", []) => Ok(Value::Bool(false)),
            (Check::Decision(_), "error", []) => Ok(Value::string("")),
            _ => Err("no such overload".into()),
        }
    }
}
