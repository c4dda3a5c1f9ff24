//! `/version` and the health endpoints.

use axum::body::Body;
use http::{Response, StatusCode};
use serde_json::json;

use super::{Context, respond};

/// Answers health and version requests.
pub(crate) fn serve(context: &Context) -> Option<Response<Body>> {
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
    // A request that gets here has read the store: that is the check.
    let checks = ["ping", "etcd"];
    if !check.is_empty() {
        return Some(if checks.contains(&check) {
            respond::text(StatusCode::OK, "ok")
        } else {
            respond::page_not_found()
        });
    }
    if !context.query.flag("verbose") {
        return Some(respond::text(StatusCode::OK, "ok"));
    }
    let excluded: Vec<&str> = context.query.all("exclude").collect();
    let mut text: String = checks
        .iter()
        .map(|c| if excluded.contains(c) { format!("[+]{c} excluded: ok\n") } else { format!("[+]{c} ok\n") })
        .collect();
    text.push_str(&format!("{root} check passed\n"));
    Some(respond::text(StatusCode::OK, &text))
}

/// Go's name of the architecture.
fn platform() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}
