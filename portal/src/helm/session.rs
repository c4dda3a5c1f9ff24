//! What is done with Helm in a directory of its own.

use std::{
    fs::OpenOptions,
    io::Write as _,
    path::{Path, PathBuf},
    time::Duration,
};

use serde::Deserialize;
use serde_json::Value;
use tokio::{process::Command, sync::mpsc};
use vctl_machinery::schema::{Budget, read_bounded};
use vctl_runtime::heavy;

use super::{At, HelmError, Release, Session};
use crate::{
    commands::{self, Line, Network},
    templates::charts::is_archive,
};

/// Longest time for one command, besides what the template allows for readiness.
const GRACE: Duration = Duration::from_secs(30);
/// Most lines of one command that are told.
const LINES: usize = 100;
/// Most bytes that rendered charts may have.
const RENDERED_LIMIT: usize = 8 << 20;
/// Most values in them.
const RENDERED_VALUES: usize = 500_000;

/// The objects of what a chart printed.
fn objects(text: &str, release: Release<'_>) -> Result<Vec<Value>, String> {
    let budget = Budget::new(RENDERED_VALUES, RENDERED_LIMIT);
    let mut documents = Vec::new();
    for document in serde_yaml::Deserializer::from_str(text) {
        let mut value = read_bounded(document, &budget).map_err(|e| e.to_string())?;
        if value.is_null() {
            continue;
        }
        if let Some(metadata) = value.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.entry("namespace").or_insert_with(|| release.namespace.into());
        }
        documents.push(value);
    }
    Ok(documents)
}

/// What may pass by itself.
const PASSING: [&str; 9] = [
    "connection refused",
    "connection reset",
    "timeout",
    "timed out",
    "deadline exceeded",
    "EOF",
    "Too Many Requests",
    "server is currently unable",
    "no matches for kind",
];

impl Session<'_> {
    /// Its directory.
    pub(crate) fn home(&self) -> &Path {
        self.home.path()
    }

    /// Writes a file that nobody else can read.
    pub(crate) fn write(&self, name: &str, bytes: &[u8]) -> std::io::Result<PathBuf> {
        let path = self.home.path().join(name);
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        options.open(&path)?.write_all(bytes)?;
        Ok(path)
    }

    /// Installs a release, or brings it to this chart and these values. One that an earlier attempt left unfinished is put right first.
    ///
    /// # Errors
    /// What Helm says.
    pub(crate) async fn install(
        &self,
        release: Release<'_>,
        at: At<'_>,
        limit: Duration,
        news: &mpsc::Sender<String>,
    ) -> Result<(), HelmError> {
        match self.status(release).await?.as_deref() {
            Some("pending-install") => {
                let _ = news.send("an installation was interrupted: it is removed first".to_owned()).await;
                self.uninstall(release, limit, news).await?;
            }
            Some("pending-upgrade" | "pending-rollback") => {
                let _ = news.send("an upgrade was interrupted: it is rolled back first".to_owned()).await;
                self.run(&["rollback", release.name, "--namespace", release.namespace], limit, news).await?;
            }
            _ => {}
        }
        let timeout = format!("{}s", limit.as_secs().max(1));
        let (chart, values) = (at.chart.display().to_string(), at.values.display().to_string());
        let arguments = [
            "upgrade",
            "--install",
            release.name,
            &chart,
            "--namespace",
            release.namespace,
            "--create-namespace",
            "--values",
            &values,
            "--reset-values",
            "--history-max",
            "10",
            "--timeout",
            &timeout,
        ];
        self.run(&arguments, limit, news).await
    }

    /// Removes a release, if it is there.
    ///
    /// # Errors
    /// What Helm says.
    pub(crate) async fn uninstall(
        &self,
        release: Release<'_>,
        limit: Duration,
        news: &mpsc::Sender<String>,
    ) -> Result<(), HelmError> {
        let timeout = format!("{}s", limit.as_secs().max(1));
        let arguments = ["uninstall", release.name, "--namespace", release.namespace, "--timeout", &timeout];
        match self.run(&arguments, limit, news).await {
            Err(HelmError::Refused { why, .. }) if why.contains("not found") => Ok(()),
            other => other,
        }
    }

    /// `deployed`, `failed`, `pending-install` ..; none when there is no such release.
    async fn status(&self, release: Release<'_>) -> Result<Option<String>, HelmError> {
        #[derive(Deserialize)]
        struct Status {
            info: Info,
        }
        #[derive(Deserialize)]
        struct Info {
            status: String,
        }
        let arguments = ["status", release.name, "--namespace", release.namespace, "--output", "json"];
        match self.ask(Network::Full, &arguments).await {
            Ok(text) => {
                let status: Status = serde_json::from_str(&text).map_err(|e| HelmError::Refused {
                    command: "helm status".to_owned(),
                    why: format!("it answers what cannot be read ({e}): install Helm 3 or 4"),
                })?;
                Ok(Some(status.info.status))
            }
            Err(HelmError::Refused { why, .. }) if why.contains("not found") => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// The objects that a chart makes, without asking any cluster.
    ///
    /// # Errors
    /// What Helm says; [`HelmError::Online`] for an archive where Helm cannot be kept from asking anybody.
    pub(crate) async fn render(
        &self,
        release: Release<'_>,
        at: At<'_>,
        kubernetes: &str,
    ) -> Result<Vec<Value>, HelmError> {
        // What the schemas in a directory refer to has been looked at when the template was read (`templates::charts`).
        let network = if is_archive(at.name) { Network::None } else { Network::NoneIfPossible };
        if network == Network::None {
            let online = |why| HelmError::Online { chart: at.name.to_owned(), why };
            self.helm.commands.without_network().await.map_err(online)?;
        }
        let (chart, values) = (at.chart.display().to_string(), at.values.display().to_string());
        let arguments = [
            "template",
            release.name,
            &chart,
            "--namespace",
            release.namespace,
            "--values",
            &values,
            "--kube-version",
            kubernetes,
            "--include-crds",
        ];
        let text = self.ask(network, &arguments).await?;
        let broken = |why: String| HelmError::Refused { command: format!("helm template {}", release.name), why };
        // A chart can print what takes long to read.
        heavy::sized(text.len(), || objects(&text, release)).await.map_err(broken)
    }

    fn command(&self, network: Network, arguments: &[&str]) -> (Command, String) {
        let program = &self.helm.program;
        let mut command = self.helm.commands.with(network, program, self.home.path());
        command.args(arguments);
        for (name, place) in [
            ("KUBECONFIG", "kubeconfig"),
            ("HELM_CACHE_HOME", "cache"),
            ("HELM_CONFIG_HOME", "config"),
            ("HELM_DATA_HOME", "data"),
            ("HELM_PLUGINS", "plugins"),
            ("HELM_REPOSITORY_CONFIG", "repositories.yaml"),
            ("TMPDIR", "."),
        ] {
            command.env(name, self.home.path().join(place));
        }
        command.env("HELM_DRIVER", "secret").env("GOMEMLIMIT", "400MiB");
        // Not the paths of a directory that is gone by the time somebody reads it.
        let visible: Vec<&str> = arguments.iter().take(3).copied().collect();
        (command, self.redacted(&commands::shown(program, &visible)))
    }

    /// What it prints on standard output.
    async fn ask(&self, network: Network, arguments: &[&str]) -> Result<String, HelmError> {
        let (command, shown) = self.command(network, arguments);
        match commands::output(command, &[], RENDERED_LIMIT, GRACE).await {
            Ok(bytes) => Ok(String::from_utf8_lossy(&bytes).into_owned()),
            Err(why) => Err(self.refusal(shown, &why)),
        }
    }

    /// Runs it; `news` gets the lines for people as they come.
    async fn run(&self, arguments: &[&str], limit: Duration, news: &mpsc::Sender<String>) -> Result<(), HelmError> {
        let (mut command, shown) = self.command(Network::Full, arguments);
        let temporary = |why: String| HelmError::Temporary { command: shown.clone(), why };
        let mut child = command.spawn().map_err(|e| temporary(format!("it does not run: {e}")))?;
        let (out, err) = (child.stdout.take(), child.stderr.take());
        let (send, mut lines) = mpsc::channel(64);
        let read = async {
            let out = async {
                if let Some(out) = out {
                    commands::lines(out, Line::Out, &send).await;
                }
            };
            let err = async {
                if let Some(err) = err {
                    commands::lines(err, Line::Err, &send).await;
                }
            };
            tokio::join!(out, err);
            drop(send);
        };
        let mut why = String::new();
        let tell = async {
            let (mut told, mut notes) = (0, false);
            while let Some(line) = lines.recv().await {
                let (text, is_error) = match line {
                    Line::Out(text) => (text, false),
                    Line::Err(text) => (text, true),
                };
                // What a chart says to whoever installs it by hand: often how to read a password.
                notes |= !is_error && text.starts_with("NOTES:");
                if text.trim().is_empty() || !is_error && notes {
                    continue;
                }
                let text = self.redacted(&text);
                if is_error && (why.is_empty() || text.starts_with("Error:")) {
                    why.clone_from(&text);
                }
                if told < LINES {
                    told += 1;
                    // Nobody listens when the job is somebody else's by now: its future is dropped then.
                    let _ = news.send(text).await;
                }
            }
        };
        let all = async { tokio::join!(read, tell) };
        if tokio::time::timeout(limit + GRACE, all).await.is_err() {
            return Err(temporary(format!("it did not end within {} s", (limit + GRACE).as_secs())));
        }
        let status = child.wait().await.map_err(|e| temporary(e.to_string()))?;
        if status.success() {
            return Ok(());
        }
        if why.is_empty() {
            why = format!("it ended with {status}: does the chart take too much memory?");
        }
        Err(self.refusal(shown, &why))
    }

    /// Its error: one that may pass by itself, or not.
    fn refusal(&self, command: String, why: &str) -> HelmError {
        let why = self.redacted(why.trim_start_matches("Error: "));
        if PASSING.iter().any(|text| why.contains(text)) {
            HelmError::Temporary { command, why }
        } else {
            HelmError::Refused { command, why }
        }
    }

    fn redacted(&self, line: &str) -> String {
        let home = self.home.path().display().to_string();
        let line = line.replace(&format!("{home}/"), "");
        self.hidden
            .iter()
            .filter(|secret| !secret.is_empty())
            .fold(line, |line, secret| line.replace(secret.as_str(), "***"))
    }
}
