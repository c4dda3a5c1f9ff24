//! Who may do what.
//!
//! * [`permission`]: the closed list of permissions, `resource.verb`, and sets of them.
//! * [`role`]: named sets: those that are built in, and those that people write.
//! * [`decide`]: the pure decision: a subject, bindings, a permission and where it is asked for.
//! * [`policy`]: the bindings as they stand, read from the documents of projects, teams, roles and the platform.
//! * [`quota`]: what a project, a team or a user may have; counted in the transaction that creates.
//! * [`Access`]: changing projects, teams, roles and members, without escalation.
//!
//! Every endpoint declares its permission in the table of [`crate::http`]; docs/access.md has the list.

pub mod decide;
pub(crate) mod documents;
pub(crate) mod limits;
mod may_use;
mod members;
pub mod permission;
mod platform;
pub(crate) mod policy;
mod projects;
pub(crate) mod quota;
pub mod role;
mod roles;
pub mod rules;
mod teams;
pub(crate) mod turns;
mod users;

use std::{
    collections::BTreeSet,
    sync::{
        Arc, PoisonError, RwLock,
        atomic::{AtomicU64, Ordering},
    },
};

use vctl_api::{names::EnvironmentName, rest::Resource};
use vctl_runtime::{clock::Clock, tasks::Tasks};
use vctl_store::{Expect, Revision, StoreError, Write};

use crate::{
    access::{
        decide::{Scope, Subject},
        documents::ProjectDoc,
        permission::{Permission, PermissionSet},
        policy::{Limit, Permit, Policy},
        turns::Turns,
    },
    auth::UserDoc,
    documents::{ANY, Documents, EnvironmentDoc, Read, unchanged},
    error::Error,
    ports::ControlPlanes,
};

/// Projects, teams, roles and members. Cheap to clone.
#[derive(Clone)]
pub struct Access {
    pub(crate) documents: Documents,
    pub(crate) clock: Clock,
    policy: Arc<Cached>,
    /// What is requested in environments.
    planes: Arc<dyn ControlPlanes>,
    /// Of quotas.
    turns: Arc<Turns>,
    tasks: Tasks,
    pub(crate) environments: Arc<Read<EnvironmentDoc>>,
    users: Arc<Read<UserDoc>>,
}

/// Names of templates that somebody may see.
#[derive(Debug, Default)]
pub(crate) struct Templates {
    everything: bool,
    names: BTreeSet<String>,
}

impl Templates {
    /// Whether this one is among them.
    pub(crate) fn contains(&self, name: &str) -> bool {
        self.everything || self.names.contains(name)
    }
}

/// The policy as it was read last. One process owns the store (docs/decisions/0004), and every change of what the policy is made of goes through
/// [`Access::change`], so that it is read anew exactly when it has changed.
#[derive(Default)]
struct Cached {
    generation: AtomicU64,
    policy: RwLock<Option<Arc<Policy>>>,
}

impl Access {
    pub(crate) fn new(documents: Documents, clock: Clock, planes: Arc<dyn ControlPlanes>, tasks: Tasks) -> Self {
        let (policy, turns, environments, users) = Default::default();
        Self { documents, clock, policy, planes, turns, tasks, environments, users }
    }

    /// The bindings as they stand.
    pub(crate) async fn policy(&self) -> Result<Arc<Policy>, Error> {
        if let Some(policy) = self.policy.policy.read().unwrap_or_else(PoisonError::into_inner).clone() {
            return Ok(policy);
        }
        let generation = self.policy.generation.load(Ordering::SeqCst);
        let policy = Arc::new(Policy::read(&self.documents).await?);
        let mut cached = self.policy.policy.write().unwrap_or_else(PoisonError::into_inner);
        // What was read while something changed is good for this request, but not for later ones.
        if self.policy.generation.load(Ordering::SeqCst) == generation {
            *cached = Some(policy.clone());
        }
        Ok(policy)
    }

    /// What somebody may do, by the bindings as they stand and at most what their credential allows.
    pub(crate) async fn permit(&self, subject: Subject, limit: Limit) -> Result<Permit, Error> {
        let held = self.policy().await?.held(&subject, self.clock.now());
        Ok(Permit::new(subject, held, limit))
    }

    /// Whether something is allowed in some project, or everywhere.
    pub(crate) async fn allows_somewhere(&self, permit: &Permit, permission: Permission) -> Result<bool, Error> {
        let policy = self.policy().await?;
        Ok(policy.projects.keys().any(|name| permit.allows(permission, Scope::Project(name))))
    }

    /// The templates that somebody may see: those that their projects allow.
    pub(crate) async fn templates(&self, permit: &Permit, permission: Permission) -> Result<Templates, Error> {
        let policy = self.policy().await?;
        let mut seen = Templates::default();
        for project in policy.projects.values().filter(|p| permit.allows(permission, Scope::Project(&p.value.name))) {
            let allowed = &project.value.settings.allowed_templates;
            seen.everything |= allowed.is_empty();
            seen.names.extend(allowed.iter().cloned());
        }
        Ok(seen)
    }

    /// The resources that somebody may see: those that are for projects in which they may see templates, and that these allow; who registers
    /// them sees all.
    pub(crate) async fn resources(&self, permit: &Permit, mut all: Vec<Resource>) -> Result<Vec<Resource>, Error> {
        if permit.allows(Permission::PlatformUpdate, Scope::Platform) {
            return Ok(all);
        }
        let policy = self.policy().await?;
        let theirs = policy.projects.values().map(|p| &p.value);
        let theirs: Vec<&ProjectDoc> =
            theirs.filter(|p| permit.allows(Permission::TemplatesList, Scope::Project(&p.name))).collect();
        all.retain(|resource| theirs.iter().any(|project| limits::allows_resource(project, resource)));
        Ok(all)
    }

    /// Writes documents that the policy is made of.
    pub(crate) async fn change(&self, writes: Vec<Write>) -> Result<Vec<Revision>, StoreError> {
        let done = self.documents.transact(writes).await;
        let mut cached = self.policy.policy.write().unwrap_or_else(PoisonError::into_inner);
        self.policy.generation.fetch_add(1, Ordering::SeqCst);
        *cached = None;
        done
    }
}

/// Whether entries of the audit trail about a project (empty: the platform) are for somebody.
pub(crate) fn allows_audit(permit: &Permit, permission: Permission, project: &str) -> bool {
    permit.allows(permission, if project.is_empty() { Scope::Platform } else { Scope::Project(project) })
}

/// Nobody gives what they do not have, or have for a time only.
///
/// # Errors
/// [`Error::Forbidden`] with the permissions that are missing.
pub(crate) fn check_escalation(permit: &Permit, scope: Scope<'_>, given: PermissionSet) -> Result<(), Error> {
    let missing = given.without(permit.lasting_at(scope));
    if missing.is_empty() {
        return Ok(());
    }
    Err(Error::Forbidden(format!(
        "this would give what you do not have yourself ({}): ask somebody who has it",
        missing.to_text()
    )))
}

/// The name of a project, team or role: a DNS-1123 label.
pub(crate) fn check_name(name: &str) -> Result<(), Error> {
    EnvironmentName::new(name).map(|_| ()).map_err(|e| Error::Invalid {
        kind: "invalid-name",
        detail: e.to_string(),
        nearest: vec![e.suggestion],
    })
}

/// What a change that is based on one revision expects of the document that is there; 0 is that of one that is there without having been
/// written.
pub(crate) fn expected(current: Revision, wanted: Option<Revision>) -> Result<Expect, Error> {
    unchanged(current, wanted)?;
    Ok(if current == 0 { Expect::Absent } else { Expect::Revision(current) })
}

/// The same of one that may not be there, and is made then. Revision 0 asks for just that.
pub(crate) fn expected_or_new(current: Option<Revision>, wanted: Option<Revision>) -> Result<Expect, Error> {
    match current {
        None if wanted == Some(ANY) => Err(Error::Changed { current: 0 }),
        current => expected(current.unwrap_or_default(), wanted),
    }
}
