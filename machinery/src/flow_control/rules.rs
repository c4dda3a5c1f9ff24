//! Which requests a schema is for.

use serde_json::Value;

use super::{Request, Target};

const SERVICE_ACCOUNT: &str = "system:serviceaccount:";

/// One of `spec.rules`: subjects and what they do.
#[derive(Debug)]
pub(super) struct Rule {
    subjects: Vec<Subject>,
    resources: Vec<ResourceRule>,
    paths: Vec<PathRule>,
}

#[derive(Debug)]
enum Subject {
    Anyone,
    User(String),
    Group(String),
    /// All service accounts whose user name begins so.
    ServiceAccounts(String),
}

/// A list in which a lone `*` stands for everything.
#[derive(Debug)]
enum Words {
    All,
    These(Vec<String>),
}

#[derive(Debug)]
struct ResourceRule {
    verbs: Words,
    groups: Words,
    resources: Words,
    namespaces: Words,
    cluster: bool,
}

#[derive(Debug)]
struct PathRule {
    verbs: Words,
    paths: Vec<String>,
}

impl Words {
    fn new(list: &Value) -> Self {
        let words: Vec<String> =
            list.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect();
        if matches!(&words[..], [one] if one == "*") { Self::All } else { Self::These(words) }
    }

    fn has(&self, word: &str) -> bool {
        match self {
            Self::All => true,
            Self::These(words) => words.iter().any(|w| w == word),
        }
    }

    /// Whether `resource` or `resource/subresource` is among them.
    fn has_resource(&self, resource: &str, subresource: &str) -> bool {
        match self {
            Self::These(words) if !subresource.is_empty() => words.iter().any(|w| {
                w.strip_prefix(resource).and_then(|rest| rest.strip_prefix('/')).is_some_and(|rest| rest == subresource)
            }),
            words => words.has(resource),
        }
    }
}

impl Subject {
    fn new(subject: &Value) -> Option<Self> {
        let text = |of: &str, field: &str| subject[of][field].as_str().map(str::to_owned);
        Some(match subject["kind"].as_str()? {
            "User" => match text("user", "name")? {
                name if name == "*" => Self::Anyone,
                name => Self::User(name),
            },
            "Group" => match text("group", "name")? {
                name if name == "*" => Self::Anyone,
                name => Self::Group(name),
            },
            "ServiceAccount" => {
                let prefix = format!("{SERVICE_ACCOUNT}{}:", text("serviceAccount", "namespace")?);
                match text("serviceAccount", "name")? {
                    name if name == "*" => Self::ServiceAccounts(prefix),
                    name => Self::User(prefix + &name),
                }
            }
            _ => return None,
        })
    }

    fn is(&self, request: &Request<'_>) -> bool {
        match self {
            Self::Anyone => true,
            Self::User(name) => request.user == name,
            Self::Group(name) => request.groups.iter().any(|g| g == name),
            Self::ServiceAccounts(prefix) => request.user.starts_with(prefix),
        }
    }
}

impl Rule {
    pub(super) fn new(rule: &Value) -> Self {
        let list = |field: &str| rule[field].as_array().into_iter().flatten();
        let resources = list("resourceRules").map(|rule| ResourceRule {
            verbs: Words::new(&rule["verbs"]),
            groups: Words::new(&rule["apiGroups"]),
            resources: Words::new(&rule["resources"]),
            namespaces: Words::new(&rule["namespaces"]),
            cluster: rule["clusterScope"] == true,
        });
        let paths = list("nonResourceRules").map(|rule| PathRule {
            verbs: Words::new(&rule["verbs"]),
            paths: rule["nonResourceURLs"]
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(Value::as_str)
                .map(Into::into)
                .collect(),
        });
        let (resources, paths) = (resources.collect(), paths.collect());
        Self { subjects: list("subjects").filter_map(Subject::new).collect(), resources, paths }
    }

    pub(super) fn matches(&self, request: &Request<'_>) -> bool {
        if !self.subjects.iter().any(|s| s.is(request)) {
            return false;
        }
        match request.target {
            Target::Resource { group, resource, subresource, namespace } => self.resources.iter().any(|rule| {
                rule.verbs.has(request.verb)
                    && rule.resources.has_resource(resource, subresource)
                    && rule.groups.has(group)
                    && if namespace.is_empty() { rule.cluster } else { rule.namespaces.has(namespace) }
            }),
            Target::Path(path) => {
                self.paths.iter().any(|rule| rule.verbs.has(request.verb) && rule.paths.iter().any(|p| below(p, path)))
            }
        }
    }
}

/// Whether a path is the one of the rule, or below it.
fn below(rule: &str, path: &str) -> bool {
    if rule == "*" || rule == path {
        return true;
    }
    let prefix = rule.trim_end_matches('*').trim_end_matches('/');
    path.strip_prefix(prefix).is_some_and(|rest| rest.starts_with('/'))
}
