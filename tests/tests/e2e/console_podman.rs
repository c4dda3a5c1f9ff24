//! People of a company in a real browser: `portal/web/e2e/company.mjs` drives it, this starts what it drives and uses what it took along.

use std::{fs, time::Duration};

use anyhow::{Result, ensure};
use vctl_tests::{
    image,
    kubectl::Kubectl,
    platform::{Workers, vctl_binary},
};

use crate::{
    company::{Company, origin},
    console::drive,
};

/// Sign-in at the company's provider, an environment from team-x whose pods are real, a terminal and logs, the audit trail, approvals, and a
/// kubeconfig that kubectl uses with the login that the browser has allowed. Screenshots are in `target/console`.
#[test]
fn people_of_a_company_work_with_the_console_podman() -> Result<()> {
    let company = Company::start(Workers::Podman, &[])?;
    let platform = &company.platform;
    image::build(&platform.worker(), &["vctl-demo-web", "vctl-demo-redis"])?;
    platform.vctl(&["project", "add", "default", "--group", "developers", "--role", "developer"])?.ok()?;
    platform.vctl(&["project", "add", "default", "--group", "leads", "--role", "maintainer"])?.ok()?;
    platform.vctl(&["approval", "rule", "set", "second", "--environments", "1", "--title", "ask your lead"])?.ok()?;
    let (mut login, address) = company.begin_login()?;
    let out = drive(
        "company.mjs",
        &[
            ("VCTL_PORTAL", origin(&company.portal)),
            ("VCTL_ISSUER", &company.provider.issuer),
            ("VCTL_LOGIN", address.as_str()),
        ],
        platform,
    )?;
    let (code, said) = login.end(Duration::from_mins(1))?;
    ensure!(code == 0, "vctl login: {said}");

    let kubeconfig = out.join("shop.kubeconfig");
    let text = fs::read_to_string(&kubeconfig)?;
    ensure!(!text.contains("client-key-data") && !text.contains("token:"), "credentials: {text}");
    let kubectl = Kubectl::new("1.33", &kubeconfig, platform.scratch())?;
    // The credential plugin is found as people have it: in PATH.
    let binary = vctl_binary()?;
    let own = binary.parent().map(ToOwned::to_owned);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let path = std::env::join_paths(own.into_iter().chain(std::env::split_paths(&path)))?;
    let ask = |args: &[&str]| {
        let mut command = kubectl.command(args);
        command.env("PATH", &path);
        vctl_tests::kubectl::finish(command)?.ok()
    };
    let who = ask(&["auth", "whoami", "-o", "jsonpath={.status.userInfo.username}"])?;
    ensure!(who == "alice@example.com", "{who}");
    let pods = ask(&["get", "pods", "-o", "jsonpath={.items[*].status.phase}"])?;
    ensure!(pods == "Running Running", "{pods}");
    Ok(())
}
