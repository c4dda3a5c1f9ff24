//! How projects, teams, roles and the platform's members are kept.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use vctl_api::rest::{DEFAULT_PROJECT, PlatformSettings, Project, ProjectSettings, RoleSettings, Team, TeamSettings};

use crate::documents::{Document, Stored};

/// A project.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ProjectDoc {
    pub(crate) name: String,
    pub(crate) settings: ProjectSettings,
    pub(crate) created_at: Option<Timestamp>,
}

impl ProjectDoc {
    /// The project `default` before anybody has changed it: nobody is in it, nothing is limited.
    pub(crate) fn untouched_default() -> Self {
        let settings = ProjectSettings {
            title: "environments that belong to no other project".to_owned(),
            ..ProjectSettings::default()
        };
        Self { name: DEFAULT_PROJECT.to_owned(), settings, created_at: None }
    }
}

/// A team.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TeamDoc {
    pub(crate) name: String,
    pub(crate) settings: TeamSettings,
}

/// A role that people wrote.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RoleDoc {
    pub(crate) name: String,
    pub(crate) settings: RoleSettings,
}

/// The members and limits of the platform: one document.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PlatformDoc {
    pub(crate) settings: PlatformSettings,
}

/// A role in a project that somebody has for a time; named by the request that it came of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct GrantDoc {
    /// Id of the request.
    pub(crate) id: String,
    /// Id of the user.
    pub(crate) user: String,
    pub(crate) project: String,
    pub(crate) role: String,
    /// It counts until then, whether or not this document has been removed.
    pub(crate) until: Timestamp,
    /// It was taken, not given.
    pub(crate) break_glass: bool,
}

/// Name of the one [`PlatformDoc`].
pub(crate) const PLATFORM: &str = "platform";

impl Document for ProjectDoc {
    const RESOURCE: &'static str = "projects.vctl.dev";
    fn name(&self) -> &str {
        &self.name
    }
}

impl Document for TeamDoc {
    const RESOURCE: &'static str = "teams.vctl.dev";
    fn name(&self) -> &str {
        &self.name
    }
}

impl Document for RoleDoc {
    const RESOURCE: &'static str = "roles.vctl.dev";
    fn name(&self) -> &str {
        &self.name
    }
}

impl Document for GrantDoc {
    const RESOURCE: &'static str = "rolegrants.vctl.dev";
    fn name(&self) -> &str {
        &self.id
    }
}

impl Document for PlatformDoc {
    const RESOURCE: &'static str = "platform.vctl.dev";
    fn name(&self) -> &str {
        PLATFORM
    }
}

/// What people see of a project.
pub(crate) fn project(stored: Stored<ProjectDoc>) -> Project {
    let ProjectDoc { name, settings, created_at } = stored.value;
    Project { name, settings, created_at, revision: stored.revision }
}

/// What people see of a team.
pub(crate) fn team(stored: Stored<TeamDoc>) -> Team {
    Team { name: stored.value.name, settings: stored.value.settings, revision: stored.revision }
}
