//! The web console in a real browser: `portal/web/e2e/console.mjs` drives it, this starts what it drives and looks at what it took along.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result, ensure};
use vctl_tests::platform::{Platform, Workers};

/// Runs a drive of `portal/web/e2e` with these variables; where its screenshots, downloads and figures are.
pub(crate) fn drive(script: &str, variables: &[(&str, &str)], platform: &Platform) -> Result<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let out = std::env::current_exe()?.ancestors().nth(3).context("the target directory")?.join("console");
    let driven = Command::new("node")
        .arg(Path::new("portal/web/e2e").join(script))
        .current_dir(&root)
        .envs(variables.iter().copied())
        .env("VCTL_OUT", &out)
        .output()
        .context("running node: `scripts/setup tools` installs it")?;
    let said = format!("{}{}", String::from_utf8_lossy(&driven.stdout), String::from_utf8_lossy(&driven.stderr));
    ensure!(
        driven.status.success(),
        "the console does not do what it should (is it part of this build? `make web`, then build vctl again); screenshots are in {}\n{said}\n\
         --- server log\n{}",
        out.display(),
        platform.log()
    );
    Ok(out)
}

/// Sign-in by link, an environment made and seen to become ready, the resource explorer, an edit, the kubeconfig as a file; projects, teams, roles,
/// API keys; two who edit one thing; jobs, logs, rules; an update and the way back; releases of Helm; texts that would do harm as markup wherever people write; every page at two widths in two colour schemes without a serious finding of axe-core or a violation of the page's policy; 10,000 environments.
/// Screenshots and figures are in `target/console`.
#[test]
fn a_person_works_with_the_console() -> Result<()> {
    // A webhook that is tried is on this machine: nothing is looked up elsewhere.
    let platform = Platform::start_configured(Workers::Simulated, &["--allow-private-webhooks"], &[])?;
    let link = platform.vctl(&["login-link"])?.ok()?;
    let helm = vctl_tests::kubectl::binary("1.33")?.with_file_name("helm").display().to_string();
    let chart = Path::new(env!("CARGO_MANIFEST_DIR")).join("charts/app").display().to_string();
    let variables = [("VCTL_LINK", link.trim()), ("VCTL_HELM", &helm), ("VCTL_CHART", &chart)];
    let out = drive("console.mjs", &variables, &platform)?;
    let kubeconfig = std::fs::read_to_string(out.join("console-test.kubeconfig"))?;
    ensure!(
        kubeconfig.contains("vctl_console-test"),
        "the downloaded file is no kubeconfig of the environment: {kubeconfig}"
    );
    let (audit, log) = (platform.data_dir(), platform.log());
    ensure!(!log.contains("panicked"), "{}: {log}", audit.display());
    Ok(())
}
