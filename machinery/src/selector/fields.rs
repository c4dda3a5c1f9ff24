//! Field selectors. Source: apimachinery `pkg/fields/selector.go`; the supported fields are those of each resource's registry strategy.

use serde_json::Value;

use crate::catalog::Descriptor;

/// A parsed field selector.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FieldSelector {
    requirements: Vec<Requirement>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Requirement {
    field: String,
    equals: bool,
    value: String,
}

/// Fields that can be selected besides `metadata.name` and `metadata.namespace`, by group-resource.
const SUPPORTED: &[(&str, &[&str])] = &[
    (
        "pods",
        &[
            "spec.nodeName",
            "spec.restartPolicy",
            "spec.schedulerName",
            "spec.serviceAccountName",
            "spec.hostNetwork",
            "status.phase",
            "status.podIP",
            "status.podIPs",
            "status.nominatedNodeName",
        ],
    ),
    ("nodes", &["spec.unschedulable"]),
    ("events", EVENT),
    ("events.events.k8s.io", EVENT),
    ("namespaces", &["status.phase"]),
    ("secrets", &["type"]),
    ("services", &["spec.clusterIP", "spec.type"]),
    ("replicationcontrollers", &["status.replicas"]),
    ("replicasets.apps", &["status.replicas"]),
    ("jobs.batch", &["status.successful"]),
    ("certificatesigningrequests.certificates.k8s.io", &["spec.signerName"]),
    ("podcertificaterequests.certificates.k8s.io", &["spec.signerName"]),
];

const EVENT: &[&str] = &[
    "involvedObject.kind",
    "involvedObject.namespace",
    "involvedObject.name",
    "involvedObject.uid",
    "involvedObject.apiVersion",
    "involvedObject.resourceVersion",
    "involvedObject.fieldPath",
    "reason",
    "reportingComponent",
    "source",
    "type",
];

/// Whether the kind registers fields of its own upstream (`AddFieldLabelConversionsFor..`).
fn has_own(descriptor: &Descriptor) -> bool {
    matches!(
        (descriptor.group.as_str(), descriptor.plural.as_str()),
        ("", "pods" | "nodes" | "replicationcontrollers" | "events" | "namespaces" | "secrets" | "services")
            | ("events.k8s.io", "events")
            | ("batch", "jobs")
            | ("certificates.k8s.io", "certificatesigningrequests")
    )
}

impl FieldSelector {
    /// Parses `a=b,c!=d` and checks that the resource supports the fields.
    ///
    /// # Errors
    /// `field label not supported: x` and upstream's other messages.
    pub fn parse(descriptor: &Descriptor, text: &str) -> Result<Self, String> {
        let mut requirements = Vec::new();
        for term in split(text) {
            if term.is_empty() {
                continue;
            }
            let (field, equals, value) =
                operator(term).ok_or_else(|| format!("invalid selector: '{text}'; can't understand '{term}'"))?;
            if !supported(descriptor, field) {
                return Err(if has_own(descriptor) {
                    format!("field label not supported: {field}")
                } else {
                    format!("{field:?} is not a known field selector: only \"metadata.name\", \"metadata.namespace\"")
                });
            }
            let value =
                unescape(value).ok_or_else(|| format!("invalid field selector: invalid escape sequence in {value}"))?;
            requirements.push(Requirement { field: field.to_owned(), equals, value });
        }
        Ok(Self { requirements })
    }

    /// Whether it selects everything.
    pub fn is_everything(&self) -> bool {
        self.requirements.is_empty()
    }

    /// The value that `metadata.name` must equal, if it says so.
    pub fn name(&self) -> Option<&str> {
        self.exact("metadata.name")
    }

    /// The value that a field must equal, if it says so.
    pub fn exact(&self, field: &str) -> Option<&str> {
        self.requirements.iter().find(|r| r.field == field && r.equals).map(|r| &*r.value)
    }

    /// Whether objects of this name match, where nothing but `metadata.name` and `metadata.namespace` is selected; none where more of
    /// an object must be seen.
    pub fn matches_name(&self, namespace: &str, name: &str) -> Option<bool> {
        let mut matches = true;
        for requirement in &self.requirements {
            let value = match requirement.field.as_str() {
                "metadata.name" => name,
                "metadata.namespace" => namespace,
                _ => return None,
            };
            matches &= (value == requirement.value) == requirement.equals;
        }
        Some(matches)
    }

    /// Whether an object matches.
    pub fn matches(&self, descriptor: &Descriptor, object: &Value) -> bool {
        self.requirements.iter().all(|r| (value(descriptor, object, &r.field) == r.value) == r.equals)
    }
}

fn supported(descriptor: &Descriptor, field: &str) -> bool {
    if matches!(field, "metadata.name" | "metadata.namespace") {
        return true;
    }
    if let Some(definition) = &descriptor.definition {
        return definition.selectable().any(|name| name == field);
    }
    let resource = descriptor.group_resource();
    SUPPORTED.iter().any(|(r, fields)| *r == resource && fields.contains(&field))
}

/// The field's value as text; what is absent is empty (or Go's zero value).
fn value(descriptor: &Descriptor, object: &Value, field: &str) -> String {
    if let Some(definition) = &descriptor.definition
        && !field.starts_with("metadata.")
    {
        return definition.selected(object, field);
    }
    let at = |path: &str| -> Value {
        path.split('.').try_fold(object, |value, part| value.get(part)).cloned().unwrap_or(Value::Null)
    };
    let found = match field {
        "spec.unschedulable" | "spec.hostNetwork" => return at(field).as_bool().unwrap_or_default().to_string(),
        "status.successful" => at("status.succeeded"),
        "status.podIPs" => {
            let ips = at(field);
            let ips = ips.as_array().into_iter().flatten().filter_map(|ip| ip.get("ip")?.as_str());
            return ips.collect::<Vec<_>>().join(",");
        }
        "reportingComponent" => match at("reportingComponent") {
            Value::Null => at("reportingController"),
            found => found,
        },
        "source" => match at("source.component") {
            Value::Null => at("deprecatedSource.component"),
            found => found,
        },
        _ if field.starts_with("involvedObject.") && descriptor.group == "events.k8s.io" => {
            at(&field.replacen("involvedObject", "regarding", 1))
        }
        _ => at(field),
    };
    match found {
        Value::Null => {
            if matches!(field, "status.successful" | "status.replicas") {
                "0".to_owned()
            } else {
                String::new()
            }
        }
        Value::String(text) => text,
        other => other.to_string(),
    }
}

/// Terms at commas that are not escaped.
fn split(text: &str) -> Vec<&str> {
    let (mut terms, mut start, mut escaped) = (Vec::new(), 0, false);
    for (index, c) in text.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            ',' => {
                terms.push(&text[start..index]);
                start = index + 1;
            }
            _ => {}
        }
    }
    terms.push(&text[start..]);
    terms
}

/// Field, whether it must equal, value.
fn operator(term: &str) -> Option<(&str, bool, &str)> {
    let at = term.find(['!', '='])?;
    let (field, rest) = term.split_at(at);
    let (equals, value) = if let Some(value) = rest.strip_prefix("!=") {
        (false, value)
    } else if let Some(value) = rest.strip_prefix("==") {
        (true, value)
    } else {
        (true, rest.strip_prefix('=')?)
    };
    Some((field, equals, value))
}

/// `\\`, `\,` and `\=` stand for themselves; other escapes, and a bare `,` or `=`, are none.
fn unescape(value: &str) -> Option<String> {
    let mut out = String::with_capacity(value.len());
    let mut chars = value.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => out.push(chars.next().filter(|c| matches!(c, '\\' | ',' | '='))?),
            ',' | '=' => return None,
            other => out.push(other),
        }
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::selector::testing::descriptor;

    fn selects(resource: &str, selector: &str, object: &Value) -> bool {
        let descriptor = descriptor(resource);
        FieldSelector::parse(&descriptor, selector).unwrap().matches(&descriptor, object)
    }

    #[test]
    fn pods_by_node_phase_and_name() {
        let pod = json!({ "metadata": { "name": "p", "namespace": "d" }, "spec": { "nodeName": "n" }, "status": { "phase": "Running" } });
        for yes in [
            "spec.nodeName=n",
            "status.phase!=Failed",
            "metadata.name==p,metadata.namespace=d",
            "spec.hostNetwork=false",
            "",
        ] {
            assert!(selects("pods", yes, &pod), "{yes}");
        }
        for no in ["spec.nodeName=", "metadata.name!=p", "status.podIP=1.2.3.4"] {
            assert!(!selects("pods", no, &pod), "{no}");
        }
    }

    #[test]
    fn names_need_no_object() {
        let by_name = |text: &str| FieldSelector::parse(&descriptor("pods"), text).unwrap().matches_name("d", "p");
        assert_eq!(by_name(""), Some(true));
        assert_eq!(by_name("metadata.name=p,metadata.namespace!=e"), Some(true));
        assert_eq!(by_name("metadata.name=q"), Some(false));
        assert_eq!(by_name("metadata.name=q,spec.nodeName=n"), None);
    }

    #[test]
    fn events_by_what_they_are_about() {
        let event = json!({ "involvedObject": { "name": "p" }, "source": { "component": "kubelet" } });
        assert!(selects("events", "involvedObject.name=p,source=kubelet", &event));
        let event = json!({ "regarding": { "name": "p" } });
        assert!(selects("events.events.k8s.io", "involvedObject.name=p", &event));
    }

    #[test]
    fn what_is_refused() {
        let pods = descriptor("pods");
        let refused = |text| FieldSelector::parse(&pods, text).unwrap_err();
        assert_eq!(refused("spec.foo=x"), "field label not supported: spec.foo");
        assert_eq!(refused("nonsense"), "invalid selector: 'nonsense'; can't understand 'nonsense'");
        assert_eq!(FieldSelector::parse(&pods, "metadata.name=a").unwrap().name(), Some("a"));
    }
}
