//! Secrets are nowhere in what the server writes for others to read: logs, traces, measurements, the audit trail and its export.

use std::{process::Command, time::Duration};

use anyhow::{Result, ensure};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use vctl_tests::{
    collector::Collector,
    kubectl::finish,
    platform::{Platform, Workers},
    wait,
};

const LIMIT: Duration = Duration::from_mins(1);
const POLICY: &str = "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: RequestResponse}]\n";

#[test]
fn no_secret_is_in_logs_traces_measurements_or_audit() -> Result<()> {
    let collector = Collector::start()?;
    let scratch = tempfile::tempdir()?;
    let policy = scratch.path().join("policy.yaml");
    std::fs::write(&policy, POLICY)?;
    let endpoint = collector.endpoint();
    let policy = policy.to_str().unwrap_or_default();
    // Everything that can be logged of our own code, everything recorded that can be recorded.
    let arguments = ["--otlp-endpoint", &endpoint, "--log", "info,vctl=trace", "--audit-policy-file", policy];
    let variables = [("OTEL_BSP_SCHEDULE_DELAY", "200")];
    let platform = Platform::start_configured(Workers::Simulated, &arguments, &variables)?;

    let mut secrets = vec!["parameterHunter2".to_owned(), "opaque-hunter2".to_owned(), "map-hunter2".to_owned()];
    secrets.extend(secrets.clone().iter().map(|s| BASE64_STANDARD.encode(s)));
    platform.create("dev", "team-x", &["redisPassword=parameterHunter2"])?;
    let k = platform.kubectl("1.33", "dev")?;
    k.ok(&["create", "secret", "generic", "s", "--from-literal=k=opaque-hunter2"])?;
    k.ok(&["create", "configmap", "c", "--from-literal=k=map-hunter2"])?;
    for kind in ["secret", "configmap"] {
        k.ok(&["get", kind, "-A", "-o", "yaml"])?;
        k.ok(&["label", kind, if kind == "secret" { "s" } else { "c" }, "a=b"])?;
    }
    // Refused: a message may quote what was sent.
    let wrong = "{\"apiVersion\": \"v1\", \"kind\": \"Secret\", \"metadata\": {\"name\": \"w\"}, \"stringData\": {\"k\": [\"opaque-hunter2\"]}}";
    ensure!(k.apply(wrong).is_err(), "a list is no text");
    secrets.push(k.ok(&["create", "token", "default"])?.trim().to_owned());
    let admin = std::fs::read_to_string(platform.data_dir().join("admin.token"))?.trim().to_owned();
    secrets.push(platform.vctl(&["api-key", "create", "ci", "--ttl", "1h"])?.ok()?.trim().to_owned());
    let link = platform.vctl(&["login-link"])?.ok()?;
    let one_time = link.trim().rsplit(['=', '/']).next().unwrap_or_default().to_owned();
    let kubeconfig: serde_json::Value = serde_yaml::from_str(&std::fs::read_to_string(platform.kubeconfig("dev")?)?)?;
    secrets.push(kubeconfig["users"][0]["user"]["client-key-data"].as_str().unwrap_or_default().to_owned());
    platform.vctl(&["set", "dev", "redisPassword=changedHunter2"])?.ok()?;
    secrets.push("changedHunter2".to_owned());
    secrets.push(admin.clone());

    let get = |path: &str| -> Result<String> {
        let mut command = Command::new("curl");
        command.args(["--silent", "--insecure", "--max-time", "20", "-H", &format!("authorization: Bearer {admin}")]);
        command.arg(format!("https://{}{path}", platform.address()));
        finish(command)?.ok()
    };
    // The link once signs in, so that it has been in a request too.
    get(&format!("/login?token={one_time}"))?;
    wait::until("the audit trail has them", LIMIT, || {
        let trail = get("/api/v1/audit/export?format=jsonl").map_err(|e| format!("{e:#}"))?;
        let there = trail.contains("\"resource\":\"secrets\"") && trail.contains("environment.ready");
        there.then_some(()).ok_or_else(|| format!("{} bytes", trail.len()))
    })?;
    wait::until("spans have come", LIMIT, || {
        let come = collector.spans().iter().any(|s| s.name.contains("secrets"));
        come.then_some(()).ok_or_else(|| "none".to_owned())
    })?;
    let written = [
        ("the log", platform.log().replace(&one_time_line(&platform.log()), "")),
        ("the audit trail", get("/api/v1/audit/export?format=jsonl")?),
        ("its CSV", get("/api/v1/audit/export?format=csv")?),
        ("the measurements", get("/metrics")?),
        ("those of the environment", k.ok(&["get", "--raw", "/clusters/dev/metrics"])?),
        ("the traces", format!("{:?}", collector.spans())),
        ("the jobs", get("/api/v1/jobs")?),
        ("the environments", get("/api/v1/environments")?),
    ];
    secrets.push(one_time);
    for (place, text) in &written {
        ensure!(text.len() > 100, "{place} is empty");
        for secret in &secrets {
            ensure!(secret.len() > 8, "{secret:?} is no secret");
            if let Some(at) = text.find(secret.as_str()) {
                let from = (0..=at.saturating_sub(200)).rev().find(|i| text.is_char_boundary(*i)).unwrap_or(0);
                let to = (at + secret.len() + 50..text.len()).find(|i| text.is_char_boundary(*i)).unwrap_or(text.len());
                anyhow::bail!("a secret is in {place}: ..{}..", &text[from..to]);
            }
        }
    }
    Ok(())
}

/// The line with which the server greets whoever has started it: a sign-in link that works once, within ten minutes.
fn one_time_line(log: &str) -> String {
    log.lines().find(|line| line.contains("sign in to the portal")).unwrap_or_default().to_owned()
}
