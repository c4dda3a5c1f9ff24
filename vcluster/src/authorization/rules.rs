//! RBAC policy rules, compiled.

use std::sync::Arc;

use serde_json::Value;

/// What a request wants to do: upstream's authorizer attributes without the user.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Attributes {
    pub verb: String,
    /// Set for requests that are not about resources.
    pub path: Option<String>,
    pub group: String,
    pub version: String,
    pub resource: String,
    pub subresource: String,
    pub namespace: String,
    pub name: String,
}

/// One `PolicyRule`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Rule {
    pub verbs: Vec<Box<str>>,
    pub groups: Vec<Box<str>>,
    pub resources: Vec<Box<str>>,
    pub names: Vec<Box<str>>,
    pub urls: Vec<Box<str>>,
}

fn has(list: &[Box<str>], value: &str) -> bool {
    list.iter().any(|v| &**v == value || &**v == "*")
}

fn url_matches(rule: &str, path: &str) -> bool {
    rule == "*" || rule == path || rule.strip_suffix('*').is_some_and(|prefix| path.starts_with(prefix))
}

impl Rule {
    /// Whether the rule allows it.
    pub(crate) fn allows(&self, a: &Attributes) -> bool {
        if !has(&self.verbs, &a.verb) {
            return false;
        }
        if let Some(path) = &a.path {
            return self.urls.iter().any(|u| url_matches(u, path));
        }
        has(&self.groups, &a.group)
            && self.allows_resource(&a.resource, &a.subresource)
            && (self.names.is_empty() || self.names.iter().any(|n| **n == *a.name))
    }

    fn allows_resource(&self, resource: &str, subresource: &str) -> bool {
        self.resources.iter().any(|r| {
            if &**r == "*" {
                return true;
            }
            match r.split_once('/') {
                None => subresource.is_empty() && &**r == resource,
                Some(("*", sub)) => sub == subresource && !subresource.is_empty(),
                Some((main, sub)) => main == resource && sub == subresource,
            }
        })
    }

    /// Split into rules of one verb, group, resource (or URL) and name each.
    fn atoms(&self) -> Vec<Self> {
        let mut atoms = Vec::new();
        for verb in &self.verbs {
            for url in &self.urls {
                atoms.push(Self { verbs: vec![verb.clone()], urls: vec![url.clone()], ..Self::default() });
            }
            for group in &self.groups {
                for resource in &self.resources {
                    let atom = Self {
                        verbs: vec![verb.clone()],
                        groups: vec![group.clone()],
                        resources: vec![resource.clone()],
                        ..Self::default()
                    };
                    if self.names.is_empty() {
                        atoms.push(atom);
                    } else {
                        atoms.extend(self.names.iter().map(|n| Self { names: vec![n.clone()], ..atom.clone() }));
                    }
                }
            }
        }
        atoms
    }

    /// Whether this rule alone covers an atom.
    fn covers(&self, atom: &Self) -> bool {
        let all = |own: &[Box<str>], wanted: &[Box<str>]| wanted.iter().all(|w| has(own, w));
        let resources = || {
            atom.resources.iter().all(|w| {
                has(&self.resources, w)
                    || w.split_once('/')
                        .is_some_and(|(_, sub)| self.resources.iter().any(|r| r.strip_prefix("*/") == Some(sub)))
            })
        };
        let names =
            || self.names.is_empty() || (!atom.names.is_empty() && atom.names.iter().all(|n| self.names.contains(n)));
        all(&self.verbs, &atom.verbs)
            && all(&self.groups, &atom.groups)
            && resources()
            && names()
            && atom.urls.iter().all(|u| self.urls.iter().any(|own| url_matches(own, u)))
    }

    fn to_text(&self) -> String {
        let part = |name: &str, list: &[Box<str>]| {
            (!list.is_empty())
                .then(|| format!("{name}:[{}]", list.iter().map(|v| format!("{v:?}")).collect::<Vec<_>>().join(" ")))
        };
        let parts: Vec<String> = [
            part("APIGroups", &self.groups),
            part("Resources", &self.resources),
            part("NonResourceURLs", &self.urls),
            part("ResourceNames", &self.names),
            part("Verbs", &self.verbs),
        ]
        .into_iter()
        .flatten()
        .collect();
        format!("{{{}}}", parts.join(", "))
    }

    /// As JSON, for rules reviews.
    pub(crate) fn to_json(&self) -> Value {
        let mut rule = serde_json::json!({ "verbs": self.verbs });
        for (field, list) in [
            ("apiGroups", &self.groups),
            ("resources", &self.resources),
            ("resourceNames", &self.names),
            ("nonResourceURLs", &self.urls),
        ] {
            if !list.is_empty() {
                rule[field] = serde_json::json!(list);
            }
        }
        rule
    }
}

/// Compiles the `rules` of a role; what is not well-formed allows nothing.
pub(crate) fn compile(rules: &Value) -> Arc<[Rule]> {
    let list = |rule: &Value, field: &str| -> Vec<Box<str>> {
        rule.get(field)
            .and_then(Value::as_array)
            .map(|l| l.iter().filter_map(Value::as_str).map(Box::from).collect())
            .unwrap_or_default()
    };
    rules
        .as_array()
        .into_iter()
        .flatten()
        .map(|r| Rule {
            verbs: list(r, "verbs"),
            groups: list(r, "apiGroups"),
            resources: list(r, "resources"),
            names: list(r, "resourceNames"),
            urls: list(r, "nonResourceURLs"),
        })
        .collect()
}

/// What of `wanted` is not covered by `owned`, as upstream prints it: one text per group and resource, sorted.
pub(crate) fn missing(owned: &[Rule], wanted: &[Rule]) -> Vec<String> {
    let mut missing: Vec<Rule> = Vec::new();
    for atom in wanted.iter().flat_map(Rule::atoms) {
        if owned.iter().any(|o| o.covers(&atom)) {
            continue;
        }
        let same = missing.iter_mut().find(|m| {
            m.groups == atom.groups
                && m.resources == atom.resources
                && m.names == atom.names
                && m.urls == atom.urls
                && m.urls.is_empty()
        });
        match same {
            Some(same) => {
                for verb in atom.verbs {
                    if !same.verbs.contains(&verb) {
                        same.verbs.push(verb);
                    }
                }
            }
            None => missing.push(atom),
        }
    }
    let mut texts: Vec<String> = missing.iter().map(Rule::to_text).collect();
    texts.sort();
    texts.dedup();
    texts
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn attributes(verb: &str, group: &str, resource: &str, subresource: &str, name: &str) -> Attributes {
        Attributes {
            verb: verb.into(),
            group: group.into(),
            resource: resource.into(),
            subresource: subresource.into(),
            name: name.into(),
            ..Attributes::default()
        }
    }

    #[test]
    fn rules_match_as_upstream() {
        let rules = compile(&json!([
            { "apiGroups": [""], "resources": ["pods", "*/scale"], "verbs": ["get"] },
            { "apiGroups": ["apps"], "resources": ["*"], "verbs": ["*"], "resourceNames": ["a"] },
            { "nonResourceURLs": ["/healthz/*", "/x"], "verbs": ["get"] },
        ]));
        let allowed = |a: &Attributes| rules.iter().any(|r| r.allows(a));
        assert!(allowed(&attributes("get", "", "pods", "", "p")));
        assert!(!allowed(&attributes("get", "", "pods", "log", "p")));
        assert!(allowed(&attributes("get", "", "replicationcontrollers", "scale", "p")));
        assert!(!allowed(&attributes("get", "apps", "deployments", "", "")));
        assert!(allowed(&attributes("delete", "apps", "deployments", "status", "a")));
        for (path, expected) in [("/healthz/ping", true), ("/healthz", false), ("/x", true), ("/x/y", false)] {
            let a = Attributes { verb: "get".into(), path: Some(path.into()), ..Attributes::default() };
            assert_eq!(allowed(&a), expected, "{path}");
        }
    }

    #[test]
    fn missing_rights_are_listed_per_resource() {
        let owned = compile(&json!([{ "apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"] }]));
        let wanted =
            compile(&json!([{ "apiGroups": [""], "resources": ["pods", "secrets"], "verbs": ["get", "delete"] }]));
        assert_eq!(
            missing(&owned, &wanted),
            [
                r#"{APIGroups:[""], Resources:["pods"], Verbs:["delete"]}"#,
                r#"{APIGroups:[""], Resources:["secrets"], Verbs:["get" "delete"]}"#,
            ]
        );
        assert!(missing(&owned, &owned).is_empty());
    }
}
