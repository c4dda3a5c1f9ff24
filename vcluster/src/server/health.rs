//! `/version` and the health endpoints.

use axum::body::Body;
use http::{Response, StatusCode};
use serde_json::json;

use super::{Context, respond};

/// Answers health and version requests.
pub(crate) async fn serve(context: &Context) -> Option<Response<Body>> {
    let path = context.info.path.trim_end_matches('/');
    if path == "/version" {
        let kubernetes = context.plane.keys.kubernetes;
        let minor = kubernetes.number();
        return Some(respond::json(
            StatusCode::OK,
            &json!({
                "major": "1", "minor": minor.to_string(), "emulationMajor": "1", "emulationMinor": minor.to_string(),
                "minCompatibilityMajor": "1", "minCompatibilityMinor": (minor - 1).to_string(),
                "gitVersion": kubernetes.git_version(), "gitCommit": "", "gitTreeState": "clean", "buildDate": "1970-01-01T00:00:00Z",
                "goVersion": "", "compiler": "rustc", "platform": format!("{}/{}", std::env::consts::OS, platform()),
            }),
        ));
    }
    let (root, check) = path.strip_prefix('/')?.split_once('/').unwrap_or((path.strip_prefix('/')?, ""));
    if !matches!(root, "healthz" | "livez" | "readyz") {
        return None;
    }
    let checks = CHECKS.iter().filter(|c| c.concerns(root));
    if check.is_empty() {
        let mut results = Vec::new();
        let excluded: Vec<&str> = context.query.all("exclude").collect();
        for check in checks {
            let failure = if excluded.contains(&check.name()) { None } else { check.failure(context).await };
            results.push((check.name(), failure));
        }
        let (healthy, text) = report(root, &results, &excluded, context.query.has("verbose"));
        let status = if healthy { StatusCode::OK } else { StatusCode::INTERNAL_SERVER_ERROR };
        return Some(respond::text(status, &text));
    }
    let Some(check) = CHECKS.iter().find(|c| c.concerns(root) && c.name() == check) else {
        return Some(respond::page_not_found());
    };
    Some(match check.failure(context).await {
        None => respond::text(StatusCode::OK, "ok"),
        Some(why) => respond::text(StatusCode::INTERNAL_SERVER_ERROR, &format!("internal server error: {why}\n")),
    })
}

/// One thing that must be well.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Check {
    Ping,
    Log,
    Etcd,
    EtcdReadiness,
    InformerSync,
    Shutdown,
}

/// In the order in which they are told.
const CHECKS: [Check; 6] =
    [Check::Ping, Check::Log, Check::Etcd, Check::EtcdReadiness, Check::InformerSync, Check::Shutdown];

impl Check {
    /// As upstream calls it; `etcd` is what an API server stores in.
    fn name(self) -> &'static str {
        match self {
            Self::Ping => "ping",
            Self::Log => "log",
            Self::Etcd => "etcd",
            Self::EtcdReadiness => "etcd-readiness",
            Self::InformerSync => "informer-sync",
            Self::Shutdown => "shutdown",
        }
    }

    /// Whether it is part of `healthz`, `livez` or `readyz`.
    fn concerns(self, root: &str) -> bool {
        root == "readyz" || matches!(self, Self::Ping | Self::Log | Self::Etcd)
    }

    /// Why it is not well.
    async fn failure(self, context: &Context) -> Option<String> {
        let plane = &context.plane;
        match self {
            Self::Ping | Self::Log => None,
            Self::Etcd | Self::EtcdReadiness => plane.store().revision(plane.tenant).await.err().map(|e| e.to_string()),
            // What is kept of the store instead of informers is read anew when it is not there.
            Self::InformerSync => plane.rbac().await.err().map(|e| e.to_string()),
            Self::Shutdown => plane.shared.tasks.is_stopping().then(|| "process is shutting down".to_owned()),
        }
    }
}

/// What a root path answers, and whether all is well. Why something is not stays untold: everybody may ask.
fn report(root: &str, results: &[(&'static str, Option<String>)], excluded: &[&str], verbose: bool) -> (bool, String) {
    let mut text = String::new();
    let mut healthy = true;
    for (name, failure) in results {
        text.push_str(&match failure {
            _ if excluded.contains(name) => format!("[+]{name} excluded: ok\n"),
            None => format!("[+]{name} ok\n"),
            Some(why) => {
                tracing::warn!(check = name, why, "{root} check failed");
                healthy = false;
                format!("[-]{name} failed: reason withheld\n")
            }
        });
    }
    let mut unknown: Vec<String> =
        excluded.iter().filter(|e| !results.iter().any(|(n, _)| n == *e)).map(|e| format!("{e:?}")).collect();
    if !unknown.is_empty() {
        unknown.sort();
        unknown.dedup();
        let names = unknown.join(",");
        text.push_str(&format!("warn: some health checks cannot be excluded: no matches for {names}\n"));
    }
    if !healthy {
        return (false, format!("{text}{root} check failed\n"));
    }
    if verbose { (true, format!("{text}{root} check passed\n")) } else { (true, "ok".to_owned()) }
}

/// Go's name of the architecture.
fn platform() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checks_are_told_as_upstream_tells_them() {
        let results = [("ping", None), ("etcd", Some("secret".to_owned()))];
        assert_eq!(report("livez", &results[..1], &[], false), (true, "ok".to_owned()));
        assert_eq!(report("livez", &results[..1], &[], true), (true, "[+]ping ok\nlivez check passed\n".to_owned()));
        let failed = "[+]ping ok\n[-]etcd failed: reason withheld\nreadyz check failed\n";
        assert_eq!(report("readyz", &results, &[], false), (false, failed.to_owned()));
        let excluded = [("ping", None), ("etcd", None)];
        let text = "[+]ping ok\n[+]etcd excluded: ok\nwarn: some health checks cannot be excluded: no matches for \"a\",\"b\"\nlivez check passed\n";
        assert_eq!(report("livez", &excluded, &["b", "etcd", "a"], true), (true, text.to_owned()));
    }
}
