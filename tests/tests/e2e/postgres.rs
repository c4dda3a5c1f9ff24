//! A server whose documents are in Postgres.

use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use vctl_tests::{
    burst,
    kubectl::finish,
    platform::{Platform, Workers, vctl_binary},
    postgres::Postgres,
};

use crate::crash::nothing_is_lost;

const PASSWORD: &str = "not-to-be-seen";

#[test]
fn a_server_on_postgres_survives_kills_and_shares_with_no_other() -> Result<()> {
    let postgres = Postgres::start()?;
    let url = postgres.url(PASSWORD);
    let mut platform = Platform::start_configured(Workers::Simulated, &[], &[("VCTL_STORE", &url)])?;
    platform.create("dev", "blank", &[])?;
    let kubeconfig = platform.kubeconfig("dev")?;
    let k = platform.kubectl("1.33", "dev")?;
    k.ok(&["create", "deployment", "web", "--image=web", "--replicas=2"])?;
    k.ok(&["rollout", "status", "deployment/web", "--timeout=60s"])?;

    // Another server with another data directory, and the same database.
    let other = tempfile::tempdir()?;
    let mut second = Command::new(vctl_binary()?);
    second.args(["up", "--workers", "none", "--listen", "127.0.0.1:0", "--data-dir"]).arg(other.path());
    let refused = finish({
        second.env("VCTL_STORE", &url);
        second
    })?;
    let said = format!("{}{}", refused.stdout, refused.stderr);
    ensure!(refused.code != 0 && said.contains("is in use by") && !said.contains(PASSWORD), "{refused:?}");

    let burst = burst::creates_until(&kubeconfig, "first", 100, 100, || platform.kill_server())?;
    platform.start_server()?;
    nothing_is_lost(&k, &burst)?;
    // Its connections are cut: it connects again by itself.
    postgres.sql(
        "vctl",
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = 'vctl' AND pid <> pg_backend_pid()",
    )?;
    k.ok(&["create", "configmap", "after-the-cut"])?;
    // Another server takes over: this one ends, with a reason, and writes nothing more.
    postgres.sql("vctl", "UPDATE vctl.owner SET epoch = epoch + 1; NOTIFY vctl_owner")?;
    let ended = vctl_tests::wait::until("the replaced server ends", std::time::Duration::from_secs(30), || {
        let status = platform.vctl(&["status"]).map_err(|e| format!("{e:#}"))?;
        if status.code == 6 { Ok(()) } else { Err(format!("{status:?}")) }
    });
    ended.with_context(|| platform.log())?;
    ensure!(platform.log().contains("another server has taken"), "{}", platform.log());
    ensure!(!platform.log().contains(PASSWORD), "{}", platform.log());
    Ok(())
}
