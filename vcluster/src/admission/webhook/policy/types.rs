//! Checking the expressions of a ValidatingAdmissionPolicy against the types of what they will see: warnings in its status. Source:
//! apiserver's `pkg/admission/plugin/policy/validating/typechecking.go`.

use std::sync::Arc;

use serde_json::json;
use vctl_machinery::{catalog::Descriptor, cel::resource_type};

use super::{ApiError, Declared, Value, admission, list, text};
use crate::objects::Call;

/// Most kinds that one rule is checked for.
const MAX_KINDS: usize = 10;

/// Fills in the status of a policy that is about to be stored.
pub(in crate::admission) async fn check(call: &Call, policy: &mut Value) -> Result<(), ApiError> {
    let catalog = call.plane.catalog().await?;
    let warnings = warnings(catalog.rows(), &policy["spec"]);
    let checked = if warnings.is_empty() { json!({}) } else { json!({ "expressionWarnings": warnings }) };
    policy["status"]["observedGeneration"] = policy["metadata"]["generation"].clone();
    policy["status"]["typeChecking"] = checked;
    Ok(())
}

fn warnings(rows: &[Arc<Descriptor>], spec: &Value) -> Vec<Value> {
    let params = &spec["paramKind"];
    let (version, kind) = (text(&params["apiVersion"]), text(&params["kind"]));
    let params_type = rows.iter().find(|d| d.kind == kind && d.api_version() == version).and_then(|d| resource_type(d));
    let checked: Vec<(String, Declared)> = kinds(rows, spec)
        .into_iter()
        .filter_map(|d| {
            let mut declared = Declared {
                params: params.is_object(),
                params_type: params_type.clone(),
                authorizer: true,
                object: Some(resource_type(d)?),
                ..Declared::default()
            };
            for variable in list(&spec["variables"]) {
                // What is wrong with a variable is told where it is used.
                let _ = declared.add_variable(&text(&variable["name"]), &text(&variable["expression"]));
            }
            Some((format!("{}, Kind={}", d.api_version(), d.kind), declared))
        })
        .collect();
    let mut warnings = Vec::new();
    for (i, validation) in list(&spec["validations"]).enumerate() {
        for field in ["expression", "messageExpression"] {
            let expression = text(&validation[field]);
            if expression.is_empty() {
                continue;
            }
            let wrong: Vec<String> = checked
                .iter()
                .filter_map(|(kind, declared)| {
                    let why = admission::compile(&declared.environment(), &expression, &[]).err()?;
                    Some(format!("{kind}: {why}\n"))
                })
                .collect();
            if !wrong.is_empty() {
                warnings
                    .push(json!({ "fieldRef": format!("spec.validations[{i}].{field}"), "warning": wrong.join("\n") }));
            }
        }
    }
    warnings
}

/// The kinds that the rules name without wildcards, sorted.
fn kinds<'r>(rows: &'r [Arc<Descriptor>], spec: &Value) -> Vec<&'r Descriptor> {
    let mut found: Vec<&Descriptor> = Vec::new();
    for rule in list(&spec["matchConstraints"]["resourceRules"]) {
        let of = |field: &str| list(&rule[field]).map(text).collect::<Vec<_>>();
        let (groups, versions, resources) = (of("apiGroups"), of("apiVersions"), of("resources"));
        if groups.iter().chain(&versions).any(|t| t.contains('*')) {
            continue;
        }
        let named = rows
            .iter()
            .filter(|d| groups.contains(&d.group) && versions.contains(&d.version) && resources.contains(&d.plural));
        for descriptor in named.take(MAX_KINDS) {
            if !found.iter().any(|f| f.kind == descriptor.kind && f.api_version() == descriptor.api_version()) {
                found.push(descriptor);
            }
        }
    }
    found.sort_by(|a, b| (&a.group, &a.version, &a.kind).cmp(&(&b.group, &b.version, &b.kind)));
    found
}
