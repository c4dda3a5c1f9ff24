//! Who asks, and by what.

use serde::{Deserialize, Serialize};
pub use vctl_api::rest::{KeyVerb, Scopes};

use super::ADMIN;

/// Somebody who is signed in. Found anew for every request: what was taken from a user counts at the next one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// Stable id: `local-admin`, or `ISSUER-NAME:SUB`. What rights hang on.
    pub user: String,
    /// Who, as the audit trail says it: email address or user name, else the id. Not unique: no right may hang on it.
    pub actor: String,
    /// Name for people.
    pub name: String,
    /// Email address that the issuer calls verified.
    pub email: Option<String>,
    /// Groups that the issuer said last.
    pub groups: Vec<String>,
    /// The browser session it came by; none for a bearer token.
    pub session: Option<Session>,
    /// By what.
    pub credential: Credential,
    /// What it was derived from, for what is derived from it.
    pub(crate) origin: Origin,
}

/// By what somebody is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Credential {
    /// The token in the data dir of the server.
    Administrator,
    /// A browser session.
    Session,
    /// A token of the command line.
    AccessToken,
    /// A key for programs.
    ApiKey {
        /// Its id.
        id: String,
        /// What may be done with it, within what its owner may.
        scopes: Scopes,
    },
}

/// What a request needs to know of its session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Session {
    /// SHA-256 of the cookie, in hex.
    pub digest: String,
    /// Must come with every change, in `X-CSRF-Token`.
    pub csrf: String,
}

/// What a credential hangs on: it ends with it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "by", content = "id")]
pub(crate) enum Origin {
    /// The token in the data dir.
    Administrator,
    /// A browser session, by the SHA-256 of its cookie.
    Session(String),
    /// A login of the command line.
    ClientLogin(String),
    /// A key for programs.
    ApiKey(String),
    /// A sign-in at an issuer alone: it outlives the session or login it was made with.
    SignIn(String),
    /// Its user alone.
    User,
}

impl Identity {
    /// The local administrator.
    pub(crate) fn local_admin(credential: Credential, session: Option<Session>, origin: Origin) -> Self {
        Self {
            user: ADMIN.to_owned(),
            actor: ADMIN.to_owned(),
            name: "Local administrator".to_owned(),
            email: None,
            groups: Vec::new(),
            session,
            credential,
            origin,
        }
    }

    /// Whether this is the local administrator, by whatever credential.
    pub fn is_local_admin(&self) -> bool {
        self.user == ADMIN
    }

    /// Name inside of environments: the email address, else the id.
    pub fn user_name(&self) -> &str {
        self.email.as_deref().unwrap_or(&self.user)
    }
}
