//! The portal: REST API, sign-in, templates, audit trail and the durable jobs that create and delete environments.
//!
//! * [`ports`]: what it needs of the rest of the platform, as traits that `vctl/` implements.
//! * [`environments`]: what a person can do with an environment; every change is intent, audit entry and job in one transaction.
//! * [`access`]: projects, teams, roles: who may do what; every endpoint declares its permission.
//! * [`jobs`]: the durable queue and its runner: leases, fencing, order per environment, retries.
//! * `approvals`: what rules hold until somebody else has agreed; roles for a time, break-glass.
//! * `webhooks`: what is told to addresses outside.
//! * [`templates`]: what environments are made from: typed parameters and rendered manifests.
//! * `sleep`, `expiry`, `due`: what happens to environments by themselves at some time.
//! * `usage`: a day of one-minute samples of what environments use.
//! * [`auth`]: the local administrator's token, one-time sign-in links and browser sessions.
//! * [`http`]: the one table of endpoints and what surrounds every request.
//!
//! State is documents in the store's system tenant (docs/decisions/0002-platform-state-in-the-store.md); nothing is kept in
//! memory that a restart would lose. Layer L2.

pub mod access;
mod approvals;
mod audit;
pub mod auth;
mod bindings;
pub mod commands;
mod documents;
mod due;
pub mod environments;
pub mod error;
mod expiry;
#[cfg(fuzzing)]
pub mod fuzzing;
mod git;
mod helm;
pub mod http;
mod inventory;
pub mod jobs;
pub mod ports;
mod probes;
mod releases;
mod size;
mod sleep;
mod sources;
pub mod templates;
mod timetable;
mod update;
mod usage;
mod webhooks;

pub use access::rules::{ClusterRules, Taken};
pub use audit::requests::{AuditMode, RequestEvent};
pub use auth::{
    environment_tokens::EnvironmentUser,
    oidc::config::{OidcConfig, OidcConfigError},
};
pub use jobs::history::JobHistory;

#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;

use std::{path::PathBuf, sync::Arc, time::Duration};

use jiff::Timestamp;
use vctl_runtime::{clock::Clock, metrics::Exposition, tasks::Tasks};
use vctl_store::Store;

use crate::{
    access::Access,
    approvals::Approvals,
    audit::{Trail, requests::Recorder},
    auth::{Auth, Credential, Identity, Origin, oidc::Issuers, token::AdminToken},
    commands::Commands,
    documents::Documents,
    environments::Environments,
    git::Git,
    helm::Helm,
    http::metrics::HttpMetrics,
    jobs::{metrics::JobMetrics, runner::Runner},
    ports::{ControlPlanes, Workers},
    sources::Sources,
    templates::{catalog::Catalog, renderer::Renderer},
    usage::Usage,
    webhooks::Webhooks,
};

/// What a portal has to know about the server it is part of.
#[derive(Debug, Clone)]
pub struct PortalConfig {
    /// Base address people use, such as `https://127.0.0.1:8443`, without a slash at the end.
    pub public_url: String,
    /// Address the server listens on.
    pub listen: String,
    /// Version of the server.
    pub version: String,
    /// Where the local administrator's token is kept; made with mode 0600 when absent.
    pub token_file: PathBuf,
    /// Directory with further templates, one directory each; one of the same name replaces a shipped one.
    pub templates_dir: Option<PathBuf>,
    /// This program: called with [`templates::renderer::COMMAND`] it does what [`templates::renderer::serve`] does, and with
    /// [`commands::LIMITED`] it sets limits and becomes another program. None: templates are rendered in this process, and other
    /// programs have no limits.
    pub own_program: Option<PathBuf>,
    /// Helm: a path, or a name that `PATH` finds.
    pub helm: PathBuf,
    /// Git: the same.
    pub git: PathBuf,
    /// Where people sign in, besides by sign-in links.
    pub oidc: Option<OidcConfig>,
    /// Entries of the audit trail that are older are removed; none: they are kept for ever.
    pub audit_retention: Option<Duration>,
    /// When changes inside of environments are answered.
    pub audit_mode: AuditMode,
    /// Webhooks may be on addresses that are not public, and without TLS.
    pub private_webhooks: bool,
    /// So often a stream of changes in which nothing happens looks whether the credential that it was asked for with still counts.
    pub stream_check: Duration,
    /// How jobs are run.
    pub jobs: JobsConfig,
}

/// How jobs are run.
#[derive(Debug, Clone)]
pub struct JobsConfig {
    /// Jobs worked on at a time.
    pub parallel: usize,
    /// How long a runner owns a job without renewing its lease.
    pub lease: Duration,
    /// No other runner can be alive (the store is held by this process alone), so leases of others are void.
    pub sole_runner: bool,
    /// Failures of a job that may pass by themselves are retried so often.
    pub retries: u32,
    /// Wait before the first retry; doubles each time.
    pub back_off: Duration,
    /// How long workloads may take to become ready unless the template says otherwise.
    pub ready_deadline: Duration,
    /// How long workers may take to stop everything of an environment that is deleted.
    pub drain_deadline: Duration,
    /// Longest wait between two looks at something that is waited for.
    pub poll: Duration,
    /// Which finished jobs are kept.
    pub history: JobHistory,
}

impl Default for JobsConfig {
    fn default() -> Self {
        Self {
            parallel: 64,
            lease: Duration::from_secs(30),
            sole_runner: true,
            retries: 6,
            back_off: Duration::from_secs(1),
            ready_deadline: Duration::from_mins(5),
            drain_deadline: Duration::from_mins(5),
            poll: Duration::from_millis(500),
            history: JobHistory::default(),
        }
    }
}

/// The portal could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum PortalError {
    /// The administrator's token cannot be read or made.
    #[error(transparent)]
    Token(#[from] auth::token::TokenError),
}

/// Everything behind the endpoints. Cheap to clone.
#[derive(Clone)]
pub struct Portal {
    inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) config: PortalConfig,
    pub(crate) clock: Clock,
    pub(crate) tasks: Tasks,
    pub(crate) started_at: Timestamp,
    pub(crate) access: Access,
    pub(crate) trail: Trail,
    pub(crate) environments: Environments,
    pub(crate) approvals: Approvals,
    pub(crate) webhooks: Webhooks,
    pub(crate) auth: Auth,
    pub(crate) sources: Sources,
    pub(crate) workers: Arc<dyn Workers>,
    pub(crate) usage: Usage,
    pub(crate) recorder: Recorder,
    pub(crate) jobs: Arc<JobMetrics>,
    pub(crate) http: HttpMetrics,
    pub(crate) once: http::Once,
    pub(crate) streams: http::Streams,
}

impl Portal {
    /// Joins the parts. Reads or makes the administrator's token; runs nothing yet.
    ///
    /// # Errors
    /// When the token file can neither be read nor made.
    pub fn new(
        config: PortalConfig,
        clock: Clock,
        tasks: Tasks,
        store: Arc<dyn Store>,
        planes: Arc<dyn ControlPlanes>,
        workers: Arc<dyn Workers>,
    ) -> Result<Self, PortalError> {
        let token = AdminToken::load_or_create(&config.token_file)?;
        let documents = Documents::new(store);
        let catalog = Catalog::new(config.templates_dir.clone());
        let access = Access::new(documents.clone(), clock.clone(), planes.clone(), tasks.clone());
        let usage = Usage::new(documents.clone(), planes.clone(), clock.clone());
        let renderer = Renderer::new(config.own_program.clone());
        let helm = Helm::new(config.helm.clone(), Commands::new(config.own_program.clone()));
        let environments =
            Environments::new(documents.clone(), catalog, planes, clock.clone(), access.clone(), renderer, helm);
        let issuers = Issuers::new(config.oidc.clone(), &config.public_url);
        let auth = Auth::new(
            documents,
            clock.clone(),
            token,
            tasks.clone(),
            config.public_url.clone(),
            issuers,
            Arc::new(access.clone()),
        );
        let recorder = Recorder::new(environments.documents.clone(), config.audit_mode);
        let trail = Trail::new(environments.documents.clone(), clock.clone());
        let git = Git::new(config.git.clone(), Commands::new(config.own_program.clone()));
        let sources = Sources::new(environments.clone(), git);
        let started_at = clock.now();
        let documents = environments.documents.clone();
        let webhooks = Webhooks::new(documents, clock.clone(), config.private_webhooks, config.jobs.back_off);
        let approvals = Approvals::new(environments.clone(), webhooks.clone());
        let inner = Inner {
            config,
            clock,
            tasks,
            started_at,
            access,
            trail,
            environments,
            approvals,
            webhooks,
            auth,
            sources,
            workers,
            usage,
            recorder,
            jobs: Arc::default(),
            http: HttpMetrics::default(),
            once: http::Once::new(),
            streams: http::Streams::default(),
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Starts working on jobs, those left over from before first, and on what is due at a time.
    pub fn start(&self) {
        let inner = &self.inner;
        if let Some(retention) = inner.config.audit_retention {
            let (trail, tasks) = (inner.trail.clone(), inner.tasks.clone());
            inner.tasks.spawn("audit retention", async move { trail.keep(retention, &tasks).await });
        }
        inner.usage.start(&inner.tasks);
        inner.recorder.start(&inner.tasks);
        let environments = inner.environments.clone();
        inner.tasks.spawn_until_stopped("interrupted restorations", async move {
            environments.end_interrupted().await;
        });
        inner.sources.start(&inner.tasks);
        let helm = inner.environments.helm.clone();
        inner.tasks.spawn_until_stopped("look at Helm", async move { helm.warn().await });
        due::start(inner.environments.clone(), &inner.tasks);
        inner.approvals.start(&inner.tasks);
        inner.webhooks.start(&inner.tasks);
        let (config, clock) = (inner.config.jobs.clone(), inner.clock.clone());
        Runner::new(config, clock, inner.environments.clone(), inner.jobs.clone()).start(&inner.tasks);
    }

    /// The endpoints under `/`, `/login`, `/assets` and `/api/v1`, with authentication, limits and headers around them.
    pub fn router(&self) -> axum::Router {
        http::router(self.clone())
    }

    /// Lets only the administrator through to these endpoints, which belong to somebody else.
    pub fn for_administrator(&self, endpoints: axum::Router) -> axum::Router {
        http::for_administrator(self.clone(), endpoints)
    }

    /// Makes a sign-in link for the local administrator: what `vctl up` prints.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn login_link(&self) -> Result<vctl_api::rest::LoginLink, error::Error> {
        let administrator = Identity::local_admin(Credential::Administrator, None, Origin::Administrator);
        self.inner.auth.mint_link(&administrator, "").await
    }

    /// Whether a bearer token says that it is for the Kubernetes API of an environment.
    pub fn is_environment_token(token: &str) -> bool {
        token.starts_with(auth::environment_tokens::PREFIX)
    }

    /// Who has a token for the Kubernetes API of this environment, and what they may there at this moment.
    ///
    /// # Errors
    /// [`error::Error::Unauthorized`] with the reason; [`error::Error::Unavailable`] when their issuer has not been heard of for too long.
    pub async fn environment_user(&self, environment: &str, token: &str) -> Result<EnvironmentUser, error::Error> {
        self.inner.auth.by_environment_token(environment, token).await
    }

    /// Takes what is recorded of a request inside of an environment. Waits for room if it changes something; else it is dropped, and
    /// counted, when there is none.
    pub async fn record_request(&self, event: RequestEvent) {
        self.inner.recorder.record(event).await;
    }

    /// The same for something that cannot wait.
    pub fn offer_request(&self, event: RequestEvent) {
        self.inner.recorder.offer(event);
    }

    /// Writes what waits to be written: before the tasks are stopped, with which the store ends.
    pub async fn finish(&self) {
        self.inner.recorder.finish().await;
    }

    /// Writes the measurements of the portal.
    pub fn measurements(&self, text: &mut Exposition) {
        self.inner.http.write(text);
        self.inner.jobs.write(text);
        self.inner.recorder.measurements(text);
    }

    pub(crate) fn inner(&self) -> &Inner {
        &self.inner
    }
}
