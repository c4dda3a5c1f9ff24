//! Templates: a directory with `template.yaml` and `manifests/*.yaml`.
//!
//! * [`catalog`]: the shipped ones, embedded, and those of a configured directory, read anew each time.
//! * [`source`]: templates as files, and the digest of their content.
//! * [`inspect`]: everything that is wrong with one.
//! * `registry`: published versions, and the content that environments are pinned to.
//! * [`parameters`]: checks what a person gives against what the template declares.
//! * [`render`]: makes documents of the manifests, with limits; [`renderer`] bounds the memory of that.

pub mod catalog;
pub mod charts;
pub(crate) mod diff;
pub mod inspect;
pub mod parameters;
pub(crate) mod registry;
pub mod render;
pub mod renderer;
mod scan;
pub mod schema;
pub mod source;

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use vctl_api::rest;
use vctl_machinery::version::MinorVersion;

/// A template that cannot be used, with the place in its files.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum TemplateError {
    /// A file does not parse.
    #[error("template {template:?}: {file}:{line}:{column}: {message}")]
    Syntax {
        /// The template.
        template: String,
        /// File inside its directory.
        file: String,
        /// Line, from 1.
        line: usize,
        /// Column, from 1.
        column: usize,
        /// What is wrong there.
        message: String,
    },
    /// Something is wrong with a file as a whole.
    #[error("template {template:?}: {file}: {message}")]
    File {
        /// The template.
        template: String,
        /// File inside its directory.
        file: String,
        /// What is wrong with it.
        message: String,
    },
}

/// `template.yaml`.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Manifest {
    /// Always `vctl.dev/v1`.
    pub api_version: String,
    /// Always `Template`.
    pub kind: String,
    /// Same as the directory's.
    pub name: String,
    /// Semantic version.
    pub version: String,
    /// One line for lists.
    pub title: String,
    /// What it gives, for people.
    #[serde(default)]
    pub description: String,
    /// What can be set.
    #[serde(default)]
    pub parameters: Vec<rest::Parameter>,
    /// Its dependencies.
    #[serde(default)]
    pub bindings: Vec<rest::Binding>,
    /// Helm charts that it installs, in their order, when its workloads are ready.
    #[serde(default)]
    pub charts: Vec<charts::Chart>,
    /// What holds in namespaces.
    #[serde(default)]
    pub policies: Vec<charts::Policy>,
    /// Minor version of Kubernetes that environments get unless another is asked for.
    #[serde(default)]
    pub kubernetes_version: Option<MinorVersion>,
    /// Whose tokens count in environments besides their own, unless something else is asked for: an AuthenticationConfiguration.
    #[serde(default)]
    pub authentication: Option<serde_json::Value>,
    /// What is recorded of requests to environments: a Policy of audit.k8s.io/v1; else the server's counts.
    #[serde(default)]
    pub audit_policy: Option<serde_json::Value>,
    /// When environments sleep by themselves.
    #[serde(default)]
    pub sleep: Option<rest::SleepPolicy>,
    /// When environments are deleted by themselves.
    #[serde(default)]
    pub expiry: Option<rest::ExpiryPolicy>,
    /// How long its workloads may take to become ready.
    #[serde(default)]
    pub ready_timeout_seconds: Option<u64>,
}

/// A template that has been read and checked.
#[derive(Debug, Clone, PartialEq)]
pub struct Template {
    /// Its `template.yaml`.
    pub manifest: Manifest,
    /// Its other files as (file inside the directory, text), by file name.
    pub files: Arc<[(String, String)]>,
    /// Text of its `template.yaml`.
    pub text: Arc<str>,
    /// SHA-256 of all its files, in hex.
    pub digest: String,
}

impl Template {
    /// What people see of it.
    pub fn describe(&self) -> rest::Template {
        let Manifest { name, version, title, description, parameters, bindings, .. } = self.manifest.clone();
        rest::Template { name, version, title, description, parameters, bindings }
    }
}
