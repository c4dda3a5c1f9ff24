//! Nobody grants rights by RBAC that they do not have themselves.

use serde_json::Value;
use vctl_machinery::status::ApiError;

use crate::{
    authorization::{
        RBAC,
        rules::{Attributes, Rule, compile, missing},
    },
    objects::{Call, Target},
    user::MASTERS,
};

/// 403 when a role or binding would grant more than its author holds, unless the author may `escalate` or `bind`.
pub(super) async fn no_escalation(call: &Call, target: &Target, object: &Value) -> Result<(), ApiError> {
    if call.user.is_internal() || call.user.in_group(MASTERS) {
        return Ok(());
    }
    let (resource, verb, name) = match &*target.descriptor.plural {
        "roles" | "clusterroles" => (target.descriptor.plural.clone(), "escalate", target.name.clone()),
        _ => {
            let role = &object["roleRef"];
            let resource = if role["kind"] == "Role" { "roles" } else { "clusterroles" };
            (resource.to_owned(), "bind", role["name"].as_str().unwrap_or_default().to_owned())
        }
    };
    let attributes = Attributes {
        verb: verb.into(),
        group: RBAC.into(),
        version: "v1".into(),
        namespace: target.namespace.clone(),
        name: name.clone(),
        resource: resource.clone(),
        ..Attributes::default()
    };
    if call.plane.decide(&call.user, &attributes).await?.allowed {
        return Ok(());
    }
    let index = call.plane.rbac().await?;
    let wanted: Vec<Rule> = if verb == "escalate" {
        let mut wanted = compile(&object["rules"]).to_vec();
        // An aggregated role may come to hold anything.
        if object.get("aggregationRule").is_some_and(|a| !a.is_null()) {
            let all = || vec![Box::from("*")];
            wanted.push(Rule { verbs: all(), groups: all(), resources: all(), ..Rule::default() });
            wanted.push(Rule { verbs: all(), urls: all(), ..Rule::default() });
        }
        wanted
    } else {
        match index.role(resource == "clusterroles", &target.namespace, &name) {
            Some(rules) => rules.to_vec(),
            None => return Err(ApiError::not_found(RBAC, &resource, &name)),
        }
    };
    let owned = index.rules(&call.user, &target.namespace);
    let missing = missing(&owned, &wanted);
    if missing.is_empty() {
        return Ok(());
    }
    let groups: Vec<String> = call.user.groups.iter().map(|g| format!("{g:?}")).collect();
    let why = format!(
        "user {:?} (groups=[{}]) is attempting to grant RBAC permissions not currently held:\n{}",
        call.user.name,
        groups.join(" "),
        missing.join("\n")
    );
    Err(target.forbidden(&target.name, &why))
}
