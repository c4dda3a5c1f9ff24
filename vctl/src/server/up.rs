//! `vctl up`: the embedded platform: store, virtual control planes, syncer, portal and a local worker, in the foreground.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use anyhow::{Context as _, Result, anyhow, bail};
use clap::{Args, ValueEnum};
use tokio_util::sync::CancellationToken;
use vctl_agent::PodCidr;
use vctl_api::rest::{self, ServerFile};
use vctl_portal::{JobsConfig, OidcConfig, Portal, PortalConfig, ports};
use vctl_runtime::{
    clock::Clock,
    renewal::Renewing,
    serve::{self, Server, Tls},
    tasks::Tasks,
    telemetry::{self, LogFormat},
};
use vctl_store::Store;
use vctl_syncer::hub::{self, Hub};
use vctl_vcluster::{
    Config as ClusterConfig, ControlPlanes,
    audit::AuditPolicy,
    config::{KUBERNETES_IP, OutboundAddresses},
    controllers::Controllers,
};

use super::{
    addresses::{listen_address, public_url, reachable},
    audit::{self, AuditMode, ToPortal},
    certificates::Certificates,
    data_dir::{DataDir, write_private},
    file_limit,
    job_history::JobHistoryArgs,
    limits::Limits,
    local_worker::{self, LocalWorker},
    measured::Measured,
    planes::Planes,
    platform_tokens::PlatformTokens,
    pod_streams::Streams,
    renderer, router, signals,
    store::StoreArgs,
    traces::TracesArgs,
    virtual_api::NodeApi,
};
use crate::cli::Global;

/// Name of the local worker and of its Node.
const WORKER: &str = "local";
/// How long everything that runs gets to end.
const SHUTDOWN_LIMIT: Duration = Duration::from_secs(20);
/// How long the audit trail gets for what is still to be written.
const FINISH_LIMIT: Duration = Duration::from_secs(10);
/// So often a stream of changes looks whether its credential still counts (docs/security.md).
const STREAM_CHECK: Duration = Duration::from_secs(15);
/// How long an agent's certificate is valid; it renews itself.
const AGENT_CERTIFICATE: Duration = Duration::from_hours(24);

/// What runs the pods.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum WorkersKind {
    /// Containers on this machine, by Podman
    Podman,
    /// Pods become Ready without running
    Simulated,
    /// Nothing: pods stay Pending
    None,
}

/// Arguments of `vctl up`.
#[derive(Debug, Args)]
pub(crate) struct Up {
    /// Address and port to serve on
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:8443", value_parser = listen_address)]
    listen: SocketAddr,
    /// What runs the pods
    #[arg(long, value_enum, default_value_t = WorkersKind::Podman)]
    workers: WorkersKind,
    /// Network namespace (`ip netns`) in which the local worker and its containers live [default: the machine's own]
    #[arg(long, value_name = "NS")]
    worker_netns: Option<String>,
    /// Address and port on which the local worker's agent answers `GET /metrics`, by HTTP and without sign-in [default: nowhere]
    #[arg(long, value_name = "ADDR")]
    worker_metrics_listen: Option<SocketAddr>,
    /// Range of the local worker's pod addresses
    #[arg(long, value_name = "CIDR", default_value = "10.200.1.0/24")]
    pod_cidr: PodCidr,
    #[command(flatten)]
    store: StoreArgs,
    /// Directory with further templates
    #[arg(long, value_name = "DIR")]
    templates: Option<PathBuf>,
    /// Helm, which installs the charts of templates: a file, or a name that PATH finds
    #[arg(long, value_name = "FILE", default_value = "helm")]
    helm: PathBuf,
    /// Git, which brings templates from repositories: a file, or a name that PATH finds
    #[arg(long, value_name = "FILE", default_value = "git")]
    git: PathBuf,
    /// File (YAML) that says where people sign in: issuers of OpenID Connect
    #[arg(long, value_name = "FILE")]
    oidc_config: Option<PathBuf>,
    /// Address under which people reach the server, such as https://vctl.example.com [default: the one it listens on]
    #[arg(long, value_name = "URL", value_parser = public_url)]
    public_url: Option<url::Url>,
    /// Remove entries of the audit trail that are older, such as 365d [default: keep them for ever]
    #[arg(long, value_name = "TIME")]
    audit_retention: Option<rest::Period>,
    #[command(flatten)]
    job_history: JobHistoryArgs,
    /// File (YAML) with a Policy of audit.k8s.io/v1: what is recorded of requests to environments that have no policy of their own [default:
    /// sessions in pods, and what people who have signed in change, at Metadata]
    #[arg(long, value_name = "FILE")]
    audit_policy_file: Option<PathBuf>,
    /// When a change inside of an environment is answered: at once, its entry being written within a moment, or when its entry is written
    #[arg(long, value_enum, default_value_t = AuditMode::Batch)]
    audit_mode: AuditMode,
    /// Let webhooks of environments, and those that `vctl webhook` sets, be on any address by URL, also loopback and private ones: for a
    /// server whose tenants are its operators
    #[arg(long)]
    allow_private_webhooks: bool,
    /// What to log, such as `info` or `info,vctl_store=debug`
    #[arg(long, env = "VCTL_LOG", value_name = "FILTER", default_value = "info")]
    log: String,
    /// Log one JSON object per line
    #[arg(long)]
    log_json: bool,
    #[command(flatten)]
    traces: TracesArgs,
}

impl Up {
    /// Serves until SIGINT or SIGTERM; at the next one nothing more is finished.
    pub(crate) async fn run(self, global: &Global) -> Result<()> {
        let format = if self.log_json { LogFormat::Json } else { LogFormat::Text };
        let traces = self.traces.config("vctl", "");
        let traces = telemetry::init(&self.log, format, traces.as_ref()).map_err(|e| anyhow!(e))?;
        let stop = CancellationToken::new();
        // From here on a request to end is heard, also while everything starts and ends.
        signals::until_ended(&stop, async {
            let done = self.run_logged(global, &stop).await;
            traces.close().await;
            done
        })
        .await
    }

    async fn run_logged(self, global: &Global, stop: &CancellationToken) -> Result<()> {
        serve::install_crypto_provider();
        // Whatever is wrong with the settings is told before anything is made or bound.
        if self.workers == WorkersKind::Podman {
            local_worker::check(self.worker_netns.as_deref())?;
        } else if self.worker_netns.is_some() {
            bail!("--worker-netns is for --workers podman");
        } else if self.worker_metrics_listen.is_some() {
            bail!("--worker-metrics-listen is for --workers podman");
        }
        if let Some(directory) = &self.templates {
            check_templates(directory)?;
        }
        let oidc = self.oidc_config.as_deref().map(OidcConfig::load).transpose()?;
        if let Some(oidc) = &oidc {
            for (name, issuer) in &oidc.issuers {
                tracing::info!(name, url = issuer.url, client_id = issuer.client_id, "people sign in at this issuer");
            }
        }
        let audit_policy = self.audit_policy_file.as_deref().map(audit::policy).transpose()?;
        let tasks = Tasks::new();
        // It may wait for whoever gives the keys, and then for a database; nothing has been made that others see.
        let opening = async {
            let settings = self.store.settings().await?;
            file_limit::raise();
            let data = DataDir::create(&global.data_dir()?)?;
            // The store first: its lock says whether another server has this directory.
            let opened = settings.open(&data, &tasks).await?;
            Ok::<_, anyhow::Error>((data, opened))
        };
        let Some(opened) = stop.run_until_cancelled(opening).await else {
            tracing::info!("stopping before anything was served");
            tasks.shutdown(SHUTDOWN_LIMIT).await;
            return Ok(());
        };
        let (data, opened) = opened?;
        let mut started = None;
        let serving = self.serve(&data, opened.store.clone(), oidc, audit_policy, &tasks, &mut started);
        let ended = match stop.run_until_cancelled(serving).await {
            Some(Ok(())) => tokio::select! {
                () = stop.cancelled() => Ok(()),
                // Another server has taken the database over: nothing here is true any more.
                ended = opened.store.ended() => ended.map_err(Into::into),
            },
            Some(Err(error)) => Err(error),
            None => Ok(()),
        };
        if let Some(portal) = started {
            tracing::info!("stopping; workloads keep running until `vctl down`");
            // Before the tasks, and with them the store: what was done is in the audit trail.
            if tokio::time::timeout(FINISH_LIMIT, portal.finish()).await.is_err() {
                tracing::error!("the audit trail could not be finished within {FINISH_LIMIT:?}");
            }
        }
        let all = tasks.shutdown(SHUTDOWN_LIMIT).await;
        if !all {
            tracing::warn!("some tasks did not end within {SHUTDOWN_LIMIT:?}");
        }
        // Before the store's lock goes: afterwards these files may be another server's.
        let withdrawn = data.withdraw();
        let closed = opened.close().await;
        ended.and(withdrawn).and(closed)
    }

    /// Starts everything. What has to be finished in the end is in `started` from when it is: this may be dropped while it waits.
    async fn serve(
        &self,
        data: &DataDir,
        store: Arc<dyn Store>,
        oidc: Option<OidcConfig>,
        audit_policy: Option<AuditPolicy>,
        tasks: &Tasks,
        started: &mut Option<Portal>,
    ) -> Result<()> {
        let clock = Clock::system();
        let tcp = serve::bind_tcp(self.listen).await.map_err(|e| anyhow!(e))?;
        let listen = tcp.local_addr()?;
        let socket = data.socket();
        let unix = serve::bind_unix(&socket).map_err(|e| anyhow!(e))?;
        let certificates = Certificates::load_or_create(data, clock.now())?;
        let host = self.public_url.as_ref().and_then(|u| u.host_str()).map(|h| h.trim_matches(['[', ']']));
        let renewing = Renewing::new(clock.clone(), certificates.serving(listen, KUBERNETES_IP, host))?;
        let tls = Tls::with_resolver(Arc::new(renewing)).map_err(|e| anyhow!(e))?;
        let local = format!("https://{}", reachable(listen));
        let url = self.public_url.as_ref().map_or(local.clone(), |u| u.as_str().trim_end_matches('/').to_owned());

        let streams = Arc::new(Streams::new(tasks.clone()));
        let ca_pem = certificates.authority.certificate_pem();
        let mut clusters = ClusterConfig::new(ca_pem, &url);
        if self.allow_private_webhooks {
            clusters.outbound = OutboundAddresses::Any;
        }
        let platform_tokens = Arc::new(PlatformTokens::default());
        clusters.platform_tokens = Some(platform_tokens.clone());
        let limits = Arc::new(Limits::default());
        clusters.limits = Some(limits.clone());
        let audit = Arc::new(ToPortal::default());
        clusters.audit = Some(audit.clone());
        if let Some(policy) = audit_policy {
            clusters.audit_policy = Arc::new(policy);
        }
        let planes = ControlPlanes::new(store.clone(), clusters, streams.clone(), tasks.clone());
        let hub = Hub::new(
            hub::Config {
                away_after: hub::AWAY_AFTER,
                server_version: env!("CARGO_PKG_VERSION").to_owned(),
                authority: certificates.authority.clone(),
                certificate_lifetime: AGENT_CERTIFICATE,
                allow_host_access: false,
                simulated: if self.workers == WorkersKind::Simulated { vec![WORKER.to_owned()] } else { Vec::new() },
                parallel: 8,
            },
            store.clone(),
            clock.clone(),
            tasks.clone(),
        )
        .await?;
        streams.connect(hub.clone());
        let controllers =
            Arc::new(Controllers::new(store.clone(), Arc::new(planes.clone()), clock.clone(), tasks.clone()));
        let portal = Portal::new(
            PortalConfig {
                public_url: url.clone(),
                listen: listen.to_string(),
                version: env!("CARGO_PKG_VERSION").to_owned(),
                token_file: data.token_file(),
                templates_dir: self.templates.clone(),
                own_program: renderer::program(),
                helm: self.helm.clone(),
                git: self.git.clone(),
                oidc,
                audit_retention: self.audit_retention.map(|period| Duration::from_secs(period.seconds())),
                audit_mode: match self.audit_mode {
                    AuditMode::Batch => vctl_portal::AuditMode::Batch,
                    AuditMode::Blocking => vctl_portal::AuditMode::Blocking,
                },
                private_webhooks: self.allow_private_webhooks,
                stream_check: STREAM_CHECK,
                jobs: JobsConfig { history: self.job_history.config(), ..JobsConfig::default() },
            },
            clock.clone(),
            tasks.clone(),
            store.clone(),
            Arc::new(Planes {
                planes: planes.clone(),
                controllers: controllers.clone(),
                hub: hub.clone(),
                url: url.clone(),
                local: local.clone(),
            }),
            Arc::new(Workers(hub.clone())),
        )?;
        platform_tokens.connect(portal.clone());
        limits.connect(portal.clone());
        audit.connect(portal.clone());
        let agents = tonic::service::Routes::new(hub.service()).prepare().into_axum_router();
        let measured = Measured {
            planes: planes.clone(),
            controllers: controllers.clone(),
            hub: hub.clone(),
            portal: portal.clone(),
        };
        let measured = portal.for_administrator(measured.router());
        let rest = portal
            .router()
            .merge(measured)
            .route("/vctl.agent.v1.AgentService/{method}", axum::routing::any_service(agents));
        let server = Server::new(tls, router::router(planes.clone(), rest), tasks.clone());

        hub.start(Arc::new(NodeApi { planes: planes.clone(), server: server.clone() }));
        controllers.run();
        portal.start();
        *started = Some(portal.clone());
        server.listen_unix(unix);
        server.listen_tcp(tcp);
        announce(data, &certificates.server_ca_file, listen, &local)?;
        if self.workers == WorkersKind::Podman {
            LocalWorker {
                state_dir: data.worker(),
                socket,
                ca_file: certificates.server_ca_file.clone(),
                netns: self.worker_netns.clone(),
                pod_cidr: self.pod_cidr,
                name: WORKER.to_owned(),
                otlp_endpoint: self.traces.otlp_endpoint.clone(),
                metrics_listen: self.worker_metrics_listen,
                hub,
            }
            .keep_running(tasks);
        }
        let link = portal.login_link().await?;
        tracing::info!(%url, data_dir = %data.root().display(), "serving");
        tracing::info!("sign in to the portal (once, within 10 minutes): {}", link.url);
        Ok(())
    }
}

/// A directory with templates is there and can be read.
fn check_templates(directory: &Path) -> Result<()> {
    std::fs::read_dir(directory).map(drop).with_context(|| {
        format!(
            "--templates {}: give a directory that has one directory for each template, or leave the option out",
            directory.display()
        )
    })
}

/// Writes the file by which local commands find the server.
fn announce(data: &DataDir, ca_file: &Path, listen: SocketAddr, url: &str) -> Result<()> {
    let file = ServerFile {
        url: url.to_owned(),
        listen: listen.to_string(),
        pid: std::process::id(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        ca_file: ca_file.display().to_string(),
        token_file: data.token_file().display().to_string(),
    };
    write_private(&data.server_file(), &serde_json::to_vec_pretty(&file)?)
}

/// The workers as the portal shows them.
struct Workers(Hub);

#[async_trait::async_trait]
impl ports::Workers for Workers {
    async fn list(&self) -> Result<Vec<rest::Worker>, ports::PortError> {
        Ok(self.0.workers())
    }
}
