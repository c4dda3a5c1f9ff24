//! Projects.

use vctl_api::rest::{CreateProject, DEFAULT_PROJECT, Project, ProjectSettings, Quota};
use vctl_store::{Expect, Revision, StoreError};

use super::{
    Access, check_name,
    decide::Scope,
    documents::{ProjectDoc, project},
    expected, members,
    permission::Permission,
    policy::{Permit, Policy},
    quota,
};
use crate::{
    audit::{Subject, entry, record::changes},
    documents::{EnvironmentDoc, Stored, put, remove},
    environments::Caller,
    error::{Error, nearest},
};

/// Most characters of a pattern or name in a list.
const PATTERN_LIMIT: usize = 256;

impl Access {
    /// The projects that somebody may see, by name.
    pub(crate) async fn projects(&self, permit: &Permit) -> Result<Vec<Project>, Error> {
        let policy = self.policy().await?;
        let seen = policy
            .projects
            .values()
            .filter(|p| permit.allows(Permission::ProjectsList, Scope::Project(&p.value.name)))
            .cloned();
        Ok(seen.map(project).collect())
    }

    /// One project, if there is one and it may be seen.
    ///
    /// # Errors
    /// [`Error::NotFound`] with near names of those that may be seen.
    pub(crate) async fn project(&self, permit: &Permit, name: &str) -> Result<Stored<ProjectDoc>, Error> {
        let policy = self.policy().await?;
        let seen = |name: &str| permit.allows(Permission::ProjectsGet, Scope::Project(name));
        policy.projects.get(name).filter(|_| seen(name)).cloned().ok_or_else(|| Error::NotFound {
            what: "project",
            name: name.to_owned(),
            nearest: nearest(name, policy.projects.keys().map(String::as_str).filter(|name| seen(name))),
        })
    }

    /// Makes a project.
    ///
    /// # Errors
    /// [`Error::Invalid`], [`Error::AlreadyExists`], [`Error::Forbidden`] for members with more than the caller has.
    pub(crate) async fn create_project(
        &self,
        caller: Caller<'_>,
        permit: &Permit,
        request: CreateProject,
    ) -> Result<Project, Error> {
        let CreateProject { name, mut settings } = request;
        check_name(&name)?;
        self.name_by_id(&mut settings.members).await?;
        let policy = self.policy().await?;
        check(permit, &policy, &name, &ProjectSettings::default(), &settings)?;
        let now = self.clock.now();
        let document = ProjectDoc { name: name.clone(), settings, created_at: Some(now) };
        let detail = changes(&ProjectSettings::default(), &document.settings)?;
        let writes = vec![
            put(&document, Expect::Absent)?,
            entry(now, caller, "project.create", Subject::project(&name), detail)?,
        ];
        let taken = || Error::AlreadyExists(format!("project {name:?} exists already: take another name"));
        if name == DEFAULT_PROJECT {
            return Err(taken());
        }
        let revision = self.change(writes).await.map_err(|e| match e {
            StoreError::Conflict { .. } => taken(),
            other => other.into(),
        })?;
        let revision = revision.first().copied().unwrap_or_default();
        Ok(project(Stored { value: document, revision, created: revision }))
    }

    /// Changes a project.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::Invalid`], [`Error::Forbidden`], [`Error::Changed`] when `if_revision` is another one.
    pub(crate) async fn update_project(
        &self,
        caller: Caller<'_>,
        permit: &Permit,
        name: &str,
        mut settings: ProjectSettings,
        if_revision: Option<Revision>,
    ) -> Result<Project, Error> {
        self.name_by_id(&mut settings.members).await?;
        let stored = self.project(permit, name).await?;
        let expect = expected(stored.revision, if_revision)?;
        let policy = self.policy().await?;
        check(permit, &policy, name, &stored.value.settings, &settings)?;
        let now = self.clock.now();
        let detail = changes(&stored.value.settings, &settings)?;
        let document =
            ProjectDoc { settings, created_at: stored.value.created_at.or(Some(now)), name: name.to_owned() };
        let writes =
            vec![put(&document, expect)?, entry(now, caller, "project.update", Subject::project(name), detail)?];
        let revision = self.change(writes).await?;
        let revision = revision.first().copied().unwrap_or_default();
        if stored.value.settings.allowed_workers != document.settings.allowed_workers {
            // After a crash here all of them are looked at anyway.
            for environment in self.environments.list(&self.documents).await? {
                if environment.value.project == name {
                    self.planes.placement_changed(&environment.value.name).await;
                }
            }
        }
        Ok(project(Stored { value: document, revision, created: stored.created }))
    }

    /// Deletes a project that has no environments.
    ///
    /// # Errors
    /// [`Error::NotFound`]; [`Error::Conflict`] for the default project, and while there are environments; [`Error::Changed`].
    pub(crate) async fn delete_project(
        &self,
        caller: Caller<'_>,
        permit: &Permit,
        name: &str,
        if_revision: Option<Revision>,
    ) -> Result<(), Error> {
        let stored = self.project(permit, name).await?;
        expected(stored.revision, if_revision)?;
        if name == DEFAULT_PROJECT {
            return Err(Error::Conflict(
                "the project `default` always exists: delete its environments instead".to_owned(),
            ));
        }
        let (environments, _) = self.documents.list::<EnvironmentDoc>().await?;
        let left: Vec<&str> =
            environments.iter().filter(|e| e.value.project == name).map(|e| e.value.name.as_str()).take(5).collect();
        if !left.is_empty() {
            return Err(Error::Conflict(format!(
                "project {name:?} still has environments ({}): delete them first",
                left.join(", ")
            )));
        }
        let detail = changes(&stored.value.settings, &ProjectSettings::default())?;
        let writes = vec![
            remove::<ProjectDoc>(name, Expect::Revision(stored.revision)),
            entry(self.clock.now(), caller, "project.delete", Subject::project(name), detail)?,
        ];
        self.change(writes).await?;
        Ok(())
    }
}

fn check(
    permit: &Permit,
    policy: &Policy,
    name: &str,
    before: &ProjectSettings,
    after: &ProjectSettings,
) -> Result<(), Error> {
    members::check(permit, policy, Scope::Project(name), &before.members, &after.members)?;
    quota::check(&after.quota)?;
    quota::check(&after.member_quota)?;
    quota::check(&Quota::from(&after.environment_quota))?;
    if before.quota != after.quota && !permit.allows(Permission::ProjectsQuota, Scope::Project(name)) {
        return Err(Error::Forbidden(format!(
            "the quota of project {name:?} is set by whoever has {}: ask an administrator of the platform",
            Permission::ProjectsQuota
        )));
    }
    let names = after.allowed_templates.iter().chain(&after.allowed_resources);
    for text in names.chain(&after.allowed_images).chain(&after.allowed_workers) {
        if text.is_empty() || text.chars().count() > PATTERN_LIMIT {
            return Err(Error::invalid(
                "invalid-project",
                format!(
                    "names of templates and resources, and patterns of images and workers have 1 to {PATTERN_LIMIT} characters"
                ),
            ));
        }
    }
    Ok(())
}
