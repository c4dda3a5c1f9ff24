//! Authorization by RBAC over an index of one cluster's roles and bindings, which is read when first needed, thrown away when
//! one of them changes, and forgotten with everything else of an idle cluster.

pub(crate) mod rules;

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use serde_json::Value;
use vctl_machinery::status::{ApiError, group_resource};
use vctl_store::{ListOptions, Scope, Store, Tenant};

use crate::{
    authentication::platform::{PLATFORM_ADMIN, PLATFORM_VIEWER},
    bootstrap, document,
    user::{MASTERS, User},
};
use rules::{Attributes, Rule, compile};

/// Group of the RBAC resources.
pub(crate) const RBAC: &str = "rbac.authorization.k8s.io";

/// `User`, `Group` or `ServiceAccount`, namespace, name.
type Subject = (Box<str>, Box<str>, Box<str>);
type NamespacedName = (Box<str>, Box<str>);

pub(crate) struct Binding {
    name: Box<str>,
    namespace: Box<str>,
    subjects: Vec<Subject>,
    /// Whether it refers to a ClusterRole.
    cluster_role: bool,
    role: Box<str>,
}

/// Through which binding, and as whom, a rule applies.
pub(crate) struct Grant<'a> {
    binding: &'a Binding,
    subject: &'a Subject,
}

impl std::fmt::Display for Grant<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Binding { name, namespace, cluster_role, role, .. } = self.binding;
        if namespace.is_empty() {
            write!(f, "ClusterRoleBinding {name:?}")?;
        } else {
            write!(f, "RoleBinding \"{name}/{namespace}\"")?;
        }
        write!(f, " of {} {role:?} to ", if *cluster_role { "ClusterRole" } else { "Role" })?;
        let (kind, namespace, name) = self.subject;
        if &**kind == "ServiceAccount" {
            write!(f, "{kind} \"{name}/{namespace}\"")
        } else {
            write!(f, "{kind} {name:?}")
        }
    }
}

/// Roles and bindings of a cluster.
#[derive(Default)]
pub(crate) struct Index {
    cluster_roles: HashMap<Box<str>, Arc<[Rule]>>,
    /// By namespace and name.
    roles: HashMap<NamespacedName, Arc<[Rule]>>,
    cluster_bindings: Vec<Binding>,
    bindings: HashMap<Box<str>, Vec<Binding>>,
}

/// The decision on a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Decision {
    pub allowed: bool,
    /// Why; for denials what could not be resolved.
    pub reason: String,
}

/// The lazily loaded index of a cluster.
#[derive(Default)]
pub(crate) struct Rbac {
    loaded: Mutex<Option<(u64, Arc<Index>)>>,
    generation: AtomicU64,
}

impl Rbac {
    /// Forgets the index: a role or binding has changed.
    pub(crate) fn invalidate(&self) {
        self.generation.fetch_add(1, Ordering::SeqCst);
        *self.loaded.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// The index, read from the store if need be.
    pub(crate) async fn index(&self, store: &dyn Store, tenant: Tenant) -> Result<Arc<Index>, ApiError> {
        let generation = self.generation.load(Ordering::SeqCst);
        if let Some((of, index)) = &*self.loaded.lock().unwrap_or_else(PoisonError::into_inner)
            && *of == generation
        {
            return Ok(index.clone());
        }
        let index = Arc::new(Index::load(store, tenant).await?);
        // What changed while reading counts as a change after it: the next request reads again.
        *self.loaded.lock().unwrap_or_else(PoisonError::into_inner) = Some((generation, index.clone()));
        Ok(index)
    }
}

impl Index {
    async fn load(store: &dyn Store, tenant: Tenant) -> Result<Self, ApiError> {
        let mut index = Self::default();
        let mut aggregated: Vec<(Box<str>, Value)> = Vec::new();
        let mut labelled: Vec<(Value, Box<str>)> = Vec::new();
        for plural in ["clusterroles", "roles", "clusterrolebindings", "rolebindings"] {
            let resource = group_resource(RBAC, plural);
            let options = ListOptions {
                scope: Scope { resource: resource.into(), namespace: None },
                at: None,
                after: None,
                limit: 0,
            };
            for entry in store.list(tenant, options).await.map_err(crate::storage::error)?.entries {
                let (namespace, name): (Box<str>, Box<str>) =
                    (Box::from(&*entry.key.namespace), Box::from(&*entry.key.name));
                if let Some(rules) = bootstrap::constants().rules(&entry.value) {
                    match plural {
                        "clusterroles" => index.cluster_roles.insert(name, rules),
                        _ => index.roles.insert((namespace, name), rules),
                    };
                    continue;
                }
                let object: Value = serde_json::from_slice(&entry.value).map_err(ApiError::internal)?;
                match plural {
                    "clusterroles" => {
                        if let Some(selectors) = object.pointer("/aggregationRule/clusterRoleSelectors") {
                            aggregated.push((name.clone(), selectors.clone()));
                        }
                        labelled.push((object.pointer("/metadata/labels").cloned().unwrap_or_default(), name.clone()));
                        index.cluster_roles.insert(name, compile(&object["rules"]));
                    }
                    "roles" => {
                        index.roles.insert((namespace, name), compile(&object["rules"]));
                    }
                    "clusterrolebindings" => index.cluster_bindings.push(binding(&object)),
                    _ => index.bindings.entry(namespace).or_default().push(binding(&object)),
                }
            }
        }
        index.aggregate(&aggregated, &labelled);
        index.cluster_bindings.extend(platform_bindings());
        Ok(index)
    }

    /// Adds to roles with an aggregation rule what the roles they select allow. The default roles admin, edit and view also take
    /// from roles that are added later.
    fn aggregate(&mut self, aggregated: &[(Box<str>, Value)], labelled: &[(Value, Box<str>)]) {
        use vctl_machinery::selector::LabelSelector;

        let mut targets: Vec<(Box<str>, Vec<LabelSelector>)> = aggregated
            .iter()
            .map(|(name, selectors)| {
                let parsed = selectors
                    .as_array()
                    .into_iter()
                    .flatten()
                    .filter_map(|s| LabelSelector::from_object(s).ok())
                    .collect();
                (name.clone(), parsed)
            })
            .collect();
        for name in ["view", "edit", "admin"] {
            let selector = LabelSelector::parse(&format!("rbac.authorization.k8s.io/aggregate-to-{name}=true"));
            if !targets.iter().any(|t| &*t.0 == name)
                && let Ok(selector) = selector
            {
                targets.push((name.into(), vec![selector]));
            }
        }
        for (target, selectors) in targets {
            let mut rules: Vec<Rule> = self.cluster_roles.get(&target).map(|r| r.to_vec()).unwrap_or_default();
            let before = rules.len();
            for (labels, name) in labelled {
                if *name != target
                    && selectors.iter().any(|s| !s.is_everything() && s.matches(labels))
                    && let Some(more) = self.cluster_roles.get(name)
                {
                    let more: Vec<Rule> = more.iter().filter(|r| !rules.contains(r)).cloned().collect();
                    rules.extend(more);
                }
            }
            if rules.len() != before {
                self.cluster_roles.insert(target, rules.into());
            }
        }
    }

    /// Calls `see` with every rule that applies to the user in a namespace (empty: cluster-wide only) until it returns false;
    /// returns what could not be resolved.
    pub(crate) fn visit(
        &self,
        user: &User,
        namespace: &str,
        mut see: impl FnMut(&Rule, &Grant<'_>) -> bool,
    ) -> Vec<String> {
        let mut errors = Vec::new();
        let local = self.bindings.get(namespace).map(Vec::as_slice).unwrap_or_default();
        for (binding, inside) in
            self.cluster_bindings.iter().map(|b| (b, "")).chain(local.iter().map(|b| (b, namespace)))
        {
            let Some(subject) = binding.subjects.iter().find(|s| applies(s, user, inside)) else { continue };
            let grant = Grant { binding, subject };
            match self.role(binding.cluster_role, inside, &binding.role) {
                Some(rules) => {
                    for rule in rules.iter() {
                        if !see(rule, &grant) {
                            return errors;
                        }
                    }
                }
                None => {
                    let kind = if binding.cluster_role { "clusterrole" } else { "role" };
                    errors.push(format!("{kind}.{RBAC} {:?} not found", binding.role));
                }
            }
        }
        errors
    }

    /// The rules of a role.
    pub(crate) fn role(&self, cluster_role: bool, namespace: &str, name: &str) -> Option<&Arc<[Rule]>> {
        if cluster_role { self.cluster_roles.get(name) } else { self.roles.get(&(namespace.into(), name.into())) }
    }

    /// All rules that apply to the user in a namespace.
    pub(crate) fn rules(&self, user: &User, namespace: &str) -> Vec<Rule> {
        let mut all = Vec::new();
        self.visit(user, namespace, |rule, _| {
            all.push(rule.clone());
            true
        });
        all
    }

    fn decide(&self, user: &User, attributes: &Attributes) -> Decision {
        let mut by = None;
        let errors = self.visit(user, &attributes.namespace, |rule, grant| {
            if rule.allows(attributes) {
                by = Some(grant.to_string());
            }
            by.is_none()
        });
        let allowed = by.is_some();
        let reason = if let Some(by) = by {
            format!("RBAC: allowed by {by}")
        } else if errors.is_empty() {
            String::new()
        } else {
            let mut errors = errors;
            errors.dedup();
            let text = if let [one] = errors.as_slice() { one.clone() } else { format!("[{}]", errors.join(", ")) };
            format!("RBAC: {text}")
        };
        Decision { allowed, reason }
    }
}

/// What users of the platform may: not objects, so that every cluster has them, also one from before, and nobody inside locks them out.
fn platform_bindings() -> impl Iterator<Item = Binding> {
    [(PLATFORM_ADMIN, "cluster-admin"), (PLATFORM_VIEWER, "view")].into_iter().map(|(group, role)| Binding {
        name: group.into(),
        namespace: "".into(),
        subjects: vec![("Group".into(), "".into(), group.into())],
        cluster_role: true,
        role: role.into(),
    })
}

fn binding(object: &Value) -> Binding {
    let text = |v: &Value, field: &str| -> Box<str> { v.get(field).and_then(Value::as_str).unwrap_or_default().into() };
    Binding {
        name: document::meta(object, "name").into(),
        namespace: document::meta(object, "namespace").into(),
        subjects: object["subjects"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|s| (text(s, "kind"), text(s, "namespace"), text(s, "name")))
            .collect(),
        cluster_role: object["roleRef"]["kind"] == "ClusterRole",
        role: text(&object["roleRef"], "name"),
    }
}

fn applies((kind, namespace, name): &Subject, user: &User, inside: &str) -> bool {
    match &**kind {
        "User" => user.name == **name,
        "Group" => user.in_group(name),
        "ServiceAccount" => {
            let namespace = if namespace.is_empty() { inside } else { namespace };
            !namespace.is_empty()
                && user
                    .name
                    .strip_prefix("system:serviceaccount:")
                    .and_then(|rest| rest.split_once(':'))
                    .is_some_and(|(ns, n)| ns == namespace && n == &**name)
        }
        _ => false,
    }
}

/// Decides on a request of a user by roles and bindings that have been read.
pub(crate) fn decide_by(index: &Index, user: &User, attributes: &Attributes) -> Decision {
    if user.is_internal() || user.in_group(MASTERS) {
        return Decision { allowed: true, reason: String::new() };
    }
    index.decide(user, attributes)
}

/// Decides on a request of a user.
pub(crate) async fn decide(
    rbac: &Rbac,
    store: &dyn Store,
    tenant: Tenant,
    user: &User,
    attributes: &Attributes,
) -> Result<Decision, ApiError> {
    if user.is_internal() || user.in_group(MASTERS) {
        return Ok(Decision { allowed: true, reason: String::new() });
    }
    Ok(rbac.index(store, tenant).await?.decide(user, attributes))
}

/// The 403 of a denied request, in upstream's words.
pub(crate) fn forbidden(user: &User, attributes: &Attributes, reason: &str) -> ApiError {
    let Attributes { verb, group, resource, subresource, namespace, name, .. } = attributes;
    let who = &user.name;
    let mut why = match &attributes.path {
        Some(path) => format!("User {who:?} cannot {verb} path {path:?}"),
        None => {
            let resource = if subresource.is_empty() { resource.clone() } else { format!("{resource}/{subresource}") };
            let place = if namespace.is_empty() {
                "at the cluster scope".to_owned()
            } else {
                format!("in the namespace {namespace:?}")
            };
            format!("User {who:?} cannot {verb} resource {resource:?} in API group {group:?} {place}")
        }
    };
    if !reason.is_empty() {
        why = format!("{why}: {reason}");
    }
    ApiError::forbidden(group, resource, name, &why)
}
