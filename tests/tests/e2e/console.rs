//! The web console in a real browser: `portal/web/e2e/console.mjs` drives it, this starts what it drives and looks at what it took along.

use std::{path::PathBuf, process::Command};

use anyhow::{Context as _, Result, ensure};
use vctl_tests::platform::{Platform, Workers};

/// Sign-in by link, an environment made and seen to become ready, the resource explorer, an edit, the kubeconfig as a file; every page at two
/// widths in two colour schemes without a serious finding of axe-core or a violation of the page's policy; 10,000 environments.
/// Screenshots and figures are in `target/console`.
#[test]
fn a_person_works_with_the_console() -> Result<()> {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("..");
    let out = std::env::current_exe()?.ancestors().nth(3).context("the target directory")?.join("console");
    let platform = Platform::start(Workers::Simulated)?;
    let link = platform.vctl(&["login-link"])?.ok()?;
    let driven = Command::new("node")
        .arg("portal/web/e2e/console.mjs")
        .current_dir(&root)
        .env("VCTL_LINK", link.trim())
        .env("VCTL_OUT", &out)
        .output()
        .context("running node: `scripts/setup tools` installs it")?;
    let said = format!("{}{}", String::from_utf8_lossy(&driven.stdout), String::from_utf8_lossy(&driven.stderr));
    ensure!(
        driven.status.success(),
        "the console does not do what it should (is it part of this build? `make web`, then build vctl again); screenshots are in {}\n{said}",
        out.display()
    );
    println!("{said}");
    let kubeconfig = std::fs::read_to_string(out.join("console-test.kubeconfig"))?;
    ensure!(
        kubeconfig.contains("vctl_console-test"),
        "the downloaded file is no kubeconfig of the environment: {kubeconfig}"
    );
    let (audit, log) = (platform.data_dir(), platform.log());
    ensure!(!log.contains("panicked"), "{}: {log}", audit.display());
    Ok(())
}
