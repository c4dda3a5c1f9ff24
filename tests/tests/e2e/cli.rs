//! The command line as scripts and people meet it: exit codes, formats, dry runs, completion, manual pages, `kubectl vctl`.

use std::{process::Command, time::Duration};

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;
use vctl_tests::{
    kubectl::{self, Output, finish},
    platform::{Platform, Workers, vctl_binary},
    tmux::Tmux,
    wait,
};

/// Runs a command that must end with this code; what it wrote.
fn code(platform: &Platform, args: &[&str], expected: i32) -> Result<Output> {
    let output = platform.vctl(args)?;
    ensure!(
        output.code == expected,
        "vctl {}: {} instead of {expected}: {}",
        args.join(" "),
        output.code,
        output.stderr
    );
    Ok(output)
}

/// Those of docs/rest-api.md.
#[test]
fn exit_codes() -> Result<()> {
    let mut platform = Platform::start(Workers::Simulated)?;
    platform.create("alpha", "blank", &[])?;
    code(&platform, &["list"], 0)?;
    code(&platform, &["create", "beta", "--template", "nonsense@9.9.9"], 3)?;
    code(&platform, &["create", "beta", "--template", "team-x", "--set", "nonsense=1"], 2)?;
    ensure!(code(&platform, &["lst"], 2)?.stderr.contains("similar subcommand"), "a command that is near is named");
    let missing = code(&platform, &["get", "alpa"], 3)?;
    ensure!(missing.stderr.contains("did you mean alpha?"), "{}", missing.stderr);
    let near = code(&platform, &["create", "beta", "--template", "blnk"], 3)?;
    ensure!(near.stderr.contains("did you mean blank"), "{}", near.stderr);
    code(&platform, &["create", "alpha", "--template", "blank"], 4)?;
    // The old authority of an environment still counts: that is a conflict, whoever finds it.
    code(&platform, &["rotate-ca", "alpha", "--overlap", "1h"], 0)?;
    let again = code(&platform, &["rotate-ca", "alpha"], 4)?;
    ensure!(again.stderr.contains("vctl rotate-ca alpha --now"), "{}", again.stderr);
    let mut stranger = Command::new(vctl_binary()?);
    stranger.arg("list").env("HOME", platform.scratch()).env_remove("VCTL_DATA_DIR").env("VCTL_TOKEN", "nonsense");
    stranger.env("VCTL_SERVER", format!("https://{}", platform.address()));
    stranger.env("VCTL_CA_FILE", platform.data_dir().join("pki/ca.crt"));
    let stranger = finish(stranger)?;
    ensure!(stranger.code == 5, "{}: {}", stranger.code, stranger.stderr);
    ensure!(code(&platform, &["connect", "alpha", "--", "sh", "-c", "exit 7"], 7).is_ok(), "that of the command");
    platform.stop_server()?;
    ensure!(code(&platform, &["list"], 6)?.stderr.contains("vctl up"), "it says what to do");
    Ok(())
}

/// Its pod becomes ready after three seconds.
const LATER: &str = "
apiVersion: vctl.dev/v1
kind: Template
name: later
version: 1.0.0
title: Ready later
description: One workload that takes its time.
";
const LATER_MANIFEST: &str = "
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}, annotations: {vctl.dev/sim-ready-after: 3s}}
    spec: {containers: [{name: web, image: registry.example/web}]}
";

/// `--no-wait` answers while the environment is being made, which simulated pods hold up as long as their annotation says; `vctl connect`
/// without a command is a shell.
#[test]
fn create_without_waiting_and_a_shell() -> Result<()> {
    let platform = Platform::start_with(Workers::Simulated, &[("later", LATER, LATER_MANIFEST)])?;
    let output = code(&platform, &["create", "e", "--template", "later", "--no-wait", "-o", "json"], 0)?;
    let asked: Value = serde_json::from_str(&output.stdout)?;
    ensure!(asked["name"] == "e" && asked["phase"] == "Creating", "{asked}");
    wait::until("it is ready", Duration::from_mins(1), || {
        let now = platform.vctl(&["get", "e", "-o", "json"]).and_then(Output::ok).map_err(|e| format!("{e:#}"))?;
        let now: Value = serde_json::from_str(&now).map_err(|e| e.to_string())?;
        if now["phase"] == "Ready" { Ok(()) } else { Err(now.to_string()) }
    })?;
    let pods: Value = serde_json::from_str(&platform.kubectl("1.33", "e")?.ok(&["get", "pods", "-o", "json"])?)?;
    let status = &pods["items"][0]["status"];
    let ready = status["conditions"].as_array().and_then(|all| all.iter().find(|c| c["type"] == "Ready"));
    let time = |value: &Value| -> Result<jiff::Timestamp> { Ok(value.as_str().context("a time")?.parse()?) };
    let took = time(&ready.context("a condition")?["lastTransitionTime"])? - time(&status["startTime"])?;
    ensure!(took.get_seconds() >= 3, "ready after {took}: {status}");
    let said = code(&platform, &["create", "f", "--template", "blank", "--no-wait"], 0)?;
    ensure!(said.stdout == "environment f is being created; see `vctl get f`\n", "{}", said.stdout);

    let shell = platform.scratch().join("shell");
    let kubectl = kubectl::binary("1.33")?;
    std::fs::write(
        &shell,
        format!(
            "#!/bin/sh\necho \"$# $VCTL_ENVIRONMENT $KUBECONFIG\"\n{} get deployments -o name\nexit 5\n",
            kubectl.display()
        ),
    )?;
    std::fs::set_permissions(&shell, std::os::unix::fs::PermissionsExt::from_mode(0o755))?;
    let mut command = platform.vctl_command(&["connect", "e"])?;
    command.env("SHELL", &shell);
    let output = finish(command)?;
    ensure!(output.code == 5, "that of the shell: {output:?}");
    ensure!(output.stderr == "KUBECONFIG is set to environment e; leave with `exit`\n", "{output:?}");
    let (first, rest) = output.stdout.split_once('\n').context("lines")?;
    let kubeconfig = first.strip_prefix("0 e ").with_context(|| first.to_owned())?;
    ensure!(rest == "deployment.apps/web\n", "{output:?}");
    ensure!(!std::path::Path::new(kubeconfig).exists(), "{kubeconfig} goes with the shell");
    // Without one of one's own it is /bin/sh, which reads what there is to read.
    let mut command = platform.vctl_command(&["connect", "e"])?;
    command.env_remove("SHELL").stdin(std::process::Stdio::from(std::fs::File::open("/dev/null")?));
    ensure!(finish(command)?.code == 0, "an empty session");
    let nothing = platform.vctl(&["connect", "nobody"])?.refused()?;
    ensure!(!nothing.contains("KUBECONFIG is set"), "{nothing}");
    Ok(())
}

/// What is listed can be had for people, for programs and as arguments of other commands.
#[test]
fn formats() -> Result<()> {
    let platform = Platform::start(Workers::Simulated)?;
    platform.create("alpha", "blank", &[])?;
    platform.create("beta", "blank", &[])?;
    ensure!(code(&platform, &["list", "-o", "name"], 0)?.stdout == "alpha\nbeta\n");
    let wide = code(&platform, &["list", "-o", "wide"], 0)?.stdout;
    ensure!(wide.lines().next().is_some_and(|head| head.contains("OWNER") && head.contains("KUBERNETES")), "{wide}");
    ensure!(!wide.contains('\u{1b}'), "what is piped has no colours");
    let lists: [&[&str]; 9] = [
        &["list"],
        &["jobs", "list"],
        &["templates"],
        &["template", "list", "team-x"],
        &["resource", "list"],
        &["project", "list"],
        &["team", "list"],
        &["role", "list"],
        &["audit", "list"],
    ];
    for list in lists {
        let of = |format: &str| code(&platform, &[list, &["-o", format]].concat(), 0).map(|o| o.stdout);
        let json: Vec<Value> = serde_json::from_str(&of("json")?).with_context(|| list.join(" "))?;
        let yaml: Vec<Value> = serde_yaml::from_str(&of("yaml")?).with_context(|| list.join(" "))?;
        ensure!(json == yaml, "{}", list.join(" "));
        ensure!(of("name")?.lines().count() == json.len(), "{}: a name for each", list.join(" "));
        of("wide")?;
    }
    // A name is what other commands take.
    let job = code(&platform, &["jobs", "list", "-o", "name"], 0)?.stdout;
    code(&platform, &["jobs", "get", job.lines().next().context("a job")?], 0)?;
    ensure!(code(&platform, &["sleep", "beta", "-o", "json"], 0)?.stdout.contains("\"sleep\""), "the job that does it");
    Ok(())
}

#[test]
fn dry_runs_change_nothing() -> Result<()> {
    let platform = Platform::start(Workers::Simulated)?;
    platform.create("alpha", "team-x", &[])?;
    let before = code(&platform, &["audit", "list", "-o", "json"], 0)?.stdout;
    let would = code(&platform, &["create", "beta", "--template", "team-x", "--dry-run"], 0)?.stdout;
    ensure!(would.contains("beta would be made of team-x") && would.contains("nothing was changed"), "{would}");
    ensure!(would.contains("+++ deployment web\n") && would.contains("+kind: Deployment\n"), "{would}");
    code(&platform, &["create", "alpha", "--template", "team-x", "--dry-run"], 4)?;
    code(&platform, &["create", "beta", "--template", "team-x", "--set", "nonsense=1", "--dry-run"], 2)?;
    let would = code(&platform, &["delete", "alpha", "--dry-run"], 0)?.stdout;
    ensure!(would.contains("alpha would be deleted"), "{would}");
    code(&platform, &["delete", "nobody", "--dry-run"], 3)?;
    code(&platform, &["set", "alpha", "nonsense=1", "--dry-run"], 2)?;
    code(&platform, &["upgrade", "alpha", "--dry-run"], 0)?;
    ensure!(code(&platform, &["list", "-o", "name"], 0)?.stdout == "alpha\n");
    ensure!(code(&platform, &["audit", "list", "-o", "json"], 0)?.stdout == before, "nothing was changed");
    Ok(())
}

/// A link `kubectl-vctl` in the path makes it a part of kubectl.
#[cfg(unix)]
#[test]
fn it_is_a_plugin_of_kubectl() -> Result<()> {
    let platform = Platform::start(Workers::None)?;
    let bin = platform.scratch().join("bin");
    std::fs::create_dir(&bin)?;
    std::os::unix::fs::symlink(vctl_binary()?, bin.join("kubectl-vctl"))?;
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap_or_default());
    let run = |args: &[&str]| -> Result<Output> {
        let mut command = Command::new(kubectl::binary("1.33")?);
        command.args(args).env("PATH", &path).env("HOME", platform.scratch()).env("VCTL_DATA_DIR", platform.data_dir());
        finish(command)
    };
    ensure!(run(&["plugin", "list"])?.ok()?.contains("kubectl-vctl"));
    ensure!(run(&["vctl", "list"])?.ok()?.contains("no environments yet"));
    let help = run(&["vctl", "create", "--help"])?.ok()?;
    ensure!(help.contains("Usage: kubectl vctl create "), "{help}");
    let wrong = run(&["vctl", "create"])?;
    ensure!(wrong.code == 2 && wrong.stderr.contains("Usage: kubectl vctl create"), "{}", wrong.stderr);
    // Completion, as kubectl asks for it.
    std::os::unix::fs::symlink(vctl_binary()?, bin.join("kubectl_complete-vctl"))?;
    let asked = run(&["__complete", "vctl", "rotate"])?.ok()?;
    ensure!(asked.starts_with("rotate-ca\t") && asked.contains("\n:4"), "{asked}");
    Ok(())
}

#[test]
fn every_command_has_a_manual_page() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let mut man = Command::new(vctl_binary()?);
    man.arg("man").arg(dir.path());
    finish(man)?.ok()?;
    let mut help = Command::new(vctl_binary()?);
    help.arg("--help");
    let help = finish(help)?.ok()?;
    let commands =
        help.lines().skip_while(|l| !l.starts_with("Commands:")).skip(1).take_while(|l| !l.trim().is_empty());
    let mut pages = 0;
    for name in commands.filter_map(|line| line.split_whitespace().next()).filter(|name| *name != "help") {
        let page =
            std::fs::read_to_string(dir.path().join(format!("vctl-{name}.1"))).with_context(|| name.to_owned())?;
        ensure!(page.contains(".SH SYNOPSIS") && page.contains("EXIT STATUS"), "{name}: {page}");
        pages += 1;
    }
    ensure!(pages > 30, "only {pages}");
    Ok(())
}

/// On a terminal tables are as wide as it is, and have colours unless nobody wants them.
#[test]
fn tables_fit_the_terminal() -> Result<()> {
    let platform = Platform::start(Workers::Simulated)?;
    let long = "a-name-that-has-fifty-letters-and-not-one-fewer-ab";
    platform.create(long, "blank", &[])?;
    let data = platform.data_dir().display().to_string();
    let home = platform.scratch().display().to_string();
    let tmux = Tmux::start(platform.scratch(), &[("VCTL_DATA_DIR", &data), ("HOME", &home)])?;
    tmux.resize(60, 20)?;
    tmux.line(&format!("clear; {} list; echo it ends here", vctl_binary()?.display()))?;
    let screen = tmux.until("the table", |s| s.contains("\nit ends here"))?;
    let rows: Vec<&str> =
        screen.lines().skip_while(|l| !l.starts_with("NAME")).take_while(|l| *l != "it ends here").collect();
    ensure!(rows.len() == 2 && rows[1].contains('…') && rows[1].contains("Ready"), "a row is a line:\n{screen}");
    let coloured = tmux.coloured()?;
    ensure!(coloured.contains("\u{1b}[32mReady"), "{coloured:?}");
    Ok(())
}
