//! The REST API by its own OpenAPI document: schemathesis (PyPI) sends what fits it and what does not, as the administrator and as somebody
//! without any right, and holds every answer against it.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, ensure};
use reqwest::StatusCode;
use serde_json::Value;
use vctl_tests::platform::Workers;

use crate::{
    company::Company,
    sign_in::{Browser, api},
};

/// The same requests every time.
const SEED: &str = "20";
/// Requests that are made up for an operation, at most, besides those at the edges of what the document says.
const EXAMPLES: &str = "3";
/// Another number of them.
const EXAMPLES_VARIABLE: &str = "VCTL_SCHEMATHESIS_EXAMPLES";

fn schemathesis() -> Result<PathBuf> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scripts/schemathesis");
    let output = Command::new(script).output().context("running scripts/schemathesis")?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout)?.trim().into())
}

/// A portal to test.
struct Target<'a> {
    portal: &'a str,
    authority: &'a Path,
    scratch: &'a Path,
}

impl Target<'_> {
    /// Tests it with these headers; what is found is the error.
    #[expect(clippy::print_stdout, reason = "make soak shows it")]
    fn test_as(&self, who: &str, headers: &[String], more: &[&str]) -> Result<()> {
        let ours = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/e2e/schemathesis");
        let examples = std::env::var(EXAMPLES_VARIABLE).unwrap_or_else(|_| EXAMPLES.to_owned());
        let mut command = Command::new(schemathesis()?);
        command.env("SCHEMATHESIS_HOOKS", ours.join("hooks.py")).env("PYTHONDONTWRITEBYTECODE", "1");
        // Where it writes what it keeps.
        command
            .current_dir(self.scratch)
            .env("HOME", self.scratch)
            .arg("--config-file")
            .arg(ours.join("schemathesis.toml"));
        command.arg("run").arg(format!("{}/api/v1/openapi.json", self.portal)).arg("--tls-verify").arg(self.authority);
        command.args(["--seed", SEED, "--max-examples", &examples, "--generation-deterministic"]);
        command.args(["--phases", "examples,coverage,fuzzing"]);
        command.args(["--request-timeout", "60", "--continue-on-failure", "--no-shrink", "--no-color"]);
        command.args(["--suppress-health-check", "all", "--warnings", "off"]);
        // Pages are for people, the stream never ends, and the Kubernetes API of an environment has a document of its own.
        let left_out = "^/api/v1/(events$|environments/\\{name\\}/kube/)";
        command.args(["--include-path-regex", "^/api/v1/", "--exclude-path-regex", left_out]);
        for header in headers {
            command.args(["--header", header]);
        }
        let output = command.args(more).output().context("running schemathesis")?;
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        ensure!(output.status.success(), "as {who}:\n{said}\n{}", String::from_utf8_lossy(&output.stderr));
        ensure!(said.contains("passed"), "as {who}, nothing was tested:\n{said}");
        println!("as {who}:\n{said}");
        Ok(())
    }
}

#[test]
fn the_rest_api_is_what_its_document_says() -> Result<()> {
    let company = Company::start(Workers::Simulated, &[])?;
    let (platform, portal) = (&company.platform, &company.portal);
    let [portal_authority, provider_authority] = company.authorities();
    let address = portal.as_str().trim_end_matches('/');
    let target = Target { portal: address, authority: &portal_authority, scratch: platform.scratch() };
    platform.create("my-env", "blank", &[])?;

    // Somebody who is signed in by a browser, and has no rights.
    let mut bob = Browser::new(&[&portal_authority, &provider_authority])?;
    let callback = bob.up_to_callback(&portal.join("/auth/start?issuer=corp&next=/")?, "bob")?;
    ensure!(bob.get(&callback)?.status == StatusCode::OK, "bob signs in");
    let (_, session) = api(&mut bob, portal, "/api/v1/session")?;
    let csrf = session["csrfToken"].as_str().with_context(|| session.to_string())?;
    let mut cookies = bob.cookies.iter();
    let cookie = cookies.find(|((site, name), _)| site == portal.authority() && name.ends_with("vctl-session"));
    let ((_, name), value) = cookie.context("a session cookie")?;
    let headers = [format!("Cookie: {name}={value}"), format!("X-CSRF-Token: {csrf}")];
    target.test_as("a stranger", &headers, &[])?;
    let left: Value = serde_json::from_str(&platform.vctl(&["list", "-o", "json"])?.ok()?)?;
    ensure!(left.as_array().is_some_and(|all| all.len() == 1), "a stranger has changed something: {left}");

    let token = std::fs::read_to_string(platform.data_dir().join("admin.token"))?;
    let headers = [format!("Authorization: Bearer {}", token.trim())];
    target.test_as("the administrator", &headers, &[])
}
