//! Whether a rule counts: pure.

use serde::{Deserialize, Serialize};
use vctl_api::rest::{ApprovalOperation, EnvironmentKind, HoldingRule, LargerThan};

use super::documents::RuleDoc;
use crate::{documents::Stored, size};
use vctl_machinery::requests::Requests;

/// What a rule is asked about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Facts {
    pub(crate) operation: ApprovalOperation,
    pub(crate) template: String,
    pub(crate) kind: EnvironmentKind,
    /// What it would request.
    pub(crate) size: Requests,
    /// Of an update: what it requests now.
    pub(crate) before: Option<Requests>,
}

/// The rules that hold something, with why. `environments`: how many whoever asks would have in the project.
pub(crate) fn holding<'r>(
    rules: impl IntoIterator<Item = &'r Stored<RuleDoc>>,
    project: &str,
    facts: &Facts,
    environments: u32,
) -> Vec<HoldingRule> {
    let held = |stored: &Stored<RuleDoc>| {
        let why = why(&stored.value, project, facts, environments)?;
        Some(HoldingRule { rule: stored.value.key.clone(), revision: stored.revision, why })
    };
    rules.into_iter().filter_map(held).collect()
}

/// Whether how many environments somebody has matters.
pub(crate) fn counts_environments<'r>(
    rules: impl IntoIterator<Item = &'r Stored<RuleDoc>>,
    project: &str,
    facts: &Facts,
) -> bool {
    let counts = |rule: &RuleDoc| rule.settings.larger_than.as_ref().is_some_and(|l| l.environments.is_some());
    facts.operation == ApprovalOperation::Create
        && rules.into_iter().any(|rule| counts(&rule.value) && concerns(&rule.value, project, facts))
}

/// Everything but its size.
fn concerns(rule: &RuleDoc, project: &str, facts: &Facts) -> bool {
    let settings = &rule.settings;
    let among = |names: &[String], name: &str| names.is_empty() || names.iter().any(|n| n == name);
    rule.project.as_deref().is_none_or(|own| own == project)
        && among(&settings.projects, project)
        && among(&settings.templates, &facts.template)
        && settings.kind.is_none_or(|kind| kind == facts.kind)
        && (settings.operations.is_empty() || settings.operations.contains(&facts.operation))
}

/// Why a rule counts; none when it does not.
fn why(rule: &RuleDoc, project: &str, facts: &Facts, environments: u32) -> Option<String> {
    if !concerns(rule, project, facts) {
        return None;
    }
    let settings = &rule.settings;
    let Some(larger_than) = &settings.larger_than else {
        let mut what = Vec::new();
        if !settings.templates.is_empty() {
            what.push(format!("it is of template {:?}", facts.template));
        }
        if let Some(kind) = settings.kind {
            what.push(format!("it is {}", if kind == EnvironmentKind::Real { "real" } else { "mocked" }));
        }
        if what.is_empty() {
            what.push(format!("it is in project {project:?}"));
        }
        return Some(what.join(" and "));
    };
    let reasons = larger(larger_than, facts, environments);
    (!reasons.is_empty()).then(|| reasons.join(", "))
}

fn larger(limits: &LargerThan, facts: &Facts, environments: u32) -> Vec<String> {
    let (size, before) = (facts.size, facts.before);
    let mut reasons = Vec::new();
    // They were read when the rule was set.
    let millis = |text: &Option<String>| text.as_deref().and_then(size::parse_millis);
    let bytes = |text: &Option<String>| text.as_deref().and_then(size::parse_bytes);
    let mut compare = |name: &str, limit: Option<u64>, now: u64, was: Option<u64>, shown: fn(u64) -> String| {
        if let Some(limit) = limit.filter(|limit| now > *limit && was.is_none_or(|was| now > was)) {
            reasons.push(format!("{name} {} is more than {}", shown(now), shown(limit)));
        }
    };
    compare("cpu", millis(&limits.cpu), size.cpu, before.map(|s| s.cpu), size::millis);
    compare("memory", bytes(&limits.memory), size.memory, before.map(|s| s.memory), size::bytes);
    compare("storage", bytes(&limits.storage), size.storage, before.map(|s| s.storage), size::bytes);
    if facts.operation == ApprovalOperation::Create
        && let Some(limit) = limits.environments.filter(|limit| environments > *limit)
    {
        reasons.push(format!("{environments} environments are more than {limit}"));
    }
    reasons
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn rule(project: Option<&str>, settings: Value) -> Stored<RuleDoc> {
        let settings = serde_json::from_value(settings).expect("settings");
        let (name, project) = ("r".to_owned(), project.map(str::to_owned));
        let value = RuleDoc { key: RuleDoc::key(project.as_deref(), &name), name, project, settings };
        Stored { value, revision: 1, created: 1 }
    }

    fn facts(cpu: u64, before: Option<u64>) -> Facts {
        let size = |cpu| Requests { cpu, memory: 1 << 30, storage: 0 };
        let operation = if before.is_some() { ApprovalOperation::Update } else { ApprovalOperation::Create };
        Facts {
            operation,
            template: "app".to_owned(),
            kind: EnvironmentKind::Mocked,
            size: size(cpu),
            before: before.map(size),
        }
    }

    fn held(rule: &Stored<RuleDoc>, facts: &Facts, environments: u32) -> Option<String> {
        holding([rule], "web", facts, environments).pop().map(|held| held.why)
    }

    #[test]
    fn everything_that_a_rule_says_must_hold() {
        for (settings, expected) in [
            (json!({}), true),
            (json!({"projects": ["web"]}), true),
            (json!({"projects": ["other"]}), false),
            (json!({"templates": ["app", "b"], "kind": "mocked"}), true),
            (json!({"templates": ["app"], "kind": "real"}), false),
            (json!({"templates": ["b"]}), false),
            (json!({"operations": ["create"]}), true),
            (json!({"operations": ["update"]}), false),
            (json!({"largerThan": {}}), false),
            (json!({"largerThan": {"cpu": "1"}}), true),
            (json!({"largerThan": {"cpu": "2"}}), false),
            (json!({"largerThan": {"cpu": "2", "memory": "512Mi"}}), true),
            (json!({"largerThan": {"cpu": "1"}, "templates": ["b"]}), false),
            (json!({"largerThan": {"environments": 2}}), true),
            (json!({"largerThan": {"environments": 3}}), false),
        ] {
            assert_eq!(held(&rule(None, settings.clone()), &facts(2000, None), 3).is_some(), expected, "{settings}");
        }
        assert!(held(&rule(Some("web"), json!({})), &facts(1, None), 1).is_some());
        assert!(held(&rule(Some("other"), json!({})), &facts(1, None), 1).is_none());
    }

    #[test]
    fn an_update_counts_where_it_makes_something_larger() {
        let large = rule(None, json!({"largerThan": {"cpu": "1", "environments": 0}}));
        assert_eq!(held(&large, &facts(2500, Some(2000)), 9).as_deref(), Some("cpu 2500m is more than 1"));
        assert_eq!(held(&large, &facts(2000, Some(2000)), 9), None);
        assert_eq!(held(&large, &facts(1500, Some(2000)), 9), None);
        assert_eq!(
            held(&rule(None, json!({"templates": ["app"]})), &facts(1, Some(1)), 9).as_deref(),
            Some("it is of template \"app\"")
        );
    }
}
