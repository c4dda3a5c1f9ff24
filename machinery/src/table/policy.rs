//! RBAC, admission and priority.

use serde_json::Value;

use super::{
    AGE, NAME, Printer, UNSET, age, bool_at, boolean, int_at, integer, len_at, list_at, name, str_at, str_or, text,
    wide,
};

const CREATED: super::Column = super::Column { name: "Created At", kind: "string", format: "date-time", priority: 0 };
const BINDING: &[super::Column] = &[NAME, text("Role"), AGE, wide("Users"), wide("Groups"), wide("ServiceAccounts")];
const WEBHOOKS: &[super::Column] = &[NAME, integer("Webhooks"), AGE];
const POLICY_BINDING: &[super::Column] = &[NAME, text("PolicyName"), text("ParamRef"), AGE];

pub(super) const PRINTERS: &[Printer] = &[
    Printer { resource: "roles.rbac.authorization.k8s.io", columns: &[NAME, CREATED], cells: |o, _| role(o) },
    Printer { resource: "clusterroles.rbac.authorization.k8s.io", columns: &[NAME, CREATED], cells: |o, _| role(o) },
    Printer { resource: "rolebindings.rbac.authorization.k8s.io", columns: BINDING, cells: binding },
    Printer { resource: "clusterrolebindings.rbac.authorization.k8s.io", columns: BINDING, cells: binding },
    Printer {
        resource: "priorityclasses.scheduling.k8s.io",
        columns: &[NAME, integer("Value"), boolean("Global-Default"), AGE, text("PreemptionPolicy")],
        cells: |o, now| {
            vec![
                name(o),
                int_at(o, "/value").into(),
                bool_at(o, "/globalDefault").into(),
                age::of(o, now),
                str_or(o, "/preemptionPolicy", "PreemptLowerPriority").into(),
            ]
        },
    },
    Printer {
        resource: "runtimeclasses.node.k8s.io",
        columns: &[NAME, text("Handler"), AGE],
        cells: |o, now| vec![name(o), str_at(o, "/handler").into(), age::of(o, now)],
    },
    Printer {
        resource: "mutatingwebhookconfigurations.admissionregistration.k8s.io",
        columns: WEBHOOKS,
        cells: |o, now| vec![name(o), len_at(o, "/webhooks").into(), age::of(o, now)],
    },
    Printer {
        resource: "validatingwebhookconfigurations.admissionregistration.k8s.io",
        columns: WEBHOOKS,
        cells: |o, now| vec![name(o), len_at(o, "/webhooks").into(), age::of(o, now)],
    },
    Printer {
        resource: "validatingadmissionpolicies.admissionregistration.k8s.io",
        columns: &[NAME, integer("Validations"), text("ParamKind"), AGE],
        cells: |o, now| vec![name(o), len_at(o, "/spec/validations").into(), param_kind(o).into(), age::of(o, now)],
    },
    Printer {
        resource: "mutatingadmissionpolicies.admissionregistration.k8s.io",
        columns: &[NAME, integer("Mutations"), text("ParamKind"), AGE],
        cells: |o, now| vec![name(o), len_at(o, "/spec/mutations").into(), param_kind(o).into(), age::of(o, now)],
    },
    Printer {
        resource: "validatingadmissionpolicybindings.admissionregistration.k8s.io",
        columns: POLICY_BINDING,
        cells: policy_binding,
    },
    Printer {
        resource: "mutatingadmissionpolicybindings.admissionregistration.k8s.io",
        columns: POLICY_BINDING,
        cells: policy_binding,
    },
];

fn role(o: &Value) -> Vec<Value> {
    vec![name(o), o.pointer("/metadata/creationTimestamp").cloned().unwrap_or(Value::Null)]
}

fn binding(o: &Value, now: jiff::Timestamp) -> Vec<Value> {
    let subjects = |kind: &str| {
        let of_kind = list_at(o, "/subjects").iter().filter(|s| str_at(s, "/kind") == kind);
        let named = of_kind.map(|s| match kind {
            "ServiceAccount" => format!("{}/{}", str_at(s, "/namespace"), str_at(s, "/name")),
            _ => str_at(s, "/name").to_owned(),
        });
        named.collect::<Vec<_>>().join(", ")
    };
    vec![
        name(o),
        format!("{}/{}", str_at(o, "/roleRef/kind"), str_at(o, "/roleRef/name")).into(),
        age::of(o, now),
        subjects("User").into(),
        subjects("Group").into(),
        subjects("ServiceAccount").into(),
    ]
}

fn param_kind(o: &Value) -> String {
    o.pointer("/spec/paramKind")
        .map_or_else(|| UNSET.to_owned(), |p| format!("{}/{}", str_at(p, "/apiVersion"), str_at(p, "/kind")))
}

fn policy_binding(o: &Value, now: jiff::Timestamp) -> Vec<Value> {
    let reference = o.pointer("/spec/paramRef").map_or_else(
        || UNSET.to_owned(),
        |p| match (str_at(p, "/namespace"), str_at(p, "/name")) {
            (_, "") => "*".to_owned(),
            ("", name) => name.to_owned(),
            (namespace, name) => format!("{namespace}/{name}"),
        },
    );
    vec![name(o), str_at(o, "/spec/policyName").into(), reference.into(), age::of(o, now)]
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::table::testing::row;

    #[test]
    fn bindings_and_classes() {
        let meta = json!({ "name": "x", "creationTimestamp": "2025-12-31T23:59:55Z" });
        let binding = json!({ "metadata": meta, "roleRef": { "kind": "ClusterRole", "name": "view" }, "subjects": [
            { "kind": "User", "name": "u" }, { "kind": "Group", "name": "g" }, { "kind": "ServiceAccount", "namespace": "n", "name": "s" }] });
        assert_eq!(row("rolebindings.rbac.authorization.k8s.io", &binding), "x | ClusterRole/view | 5s | u | g | n/s");
        assert_eq!(row("roles.rbac.authorization.k8s.io", &json!({ "metadata": meta })), "x | 2025-12-31T23:59:55Z");
        let class = json!({ "metadata": meta, "value": 5 });
        assert_eq!(row("priorityclasses.scheduling.k8s.io", &class), "x | 5 | false | 5s | PreemptLowerPriority");
    }
}
