//! logs, exec, cp and port-forward, over SPDY and websockets.

use std::{io::Read as _, process::Stdio, time::Duration};

use anyhow::{Context as _, Result, ensure};
use vctl_tests::{background::Background, kubectl::Kubectl, platform::Platform, tmux::Tmux, wait};

use super::{LIMIT, platform, pod, ready};

#[test]
fn podman_streams_with_spdy_and_websocket() -> Result<()> {
    let platform = platform()?;
    platform.create("dev", "blank", &[])?;
    // 1.27 speaks SPDY only; 1.33 websockets.
    let k = platform.kubectl("1.33", "dev")?;
    k.apply(&pod("shell", "echo started; trap 'exit 0' TERM; mkdir -p /tmp/w; echo served > /tmp/w/index.html; httpd -p 8080 -h /tmp/w; while :; do sleep 1; done"))?;
    ready(&k, "shell")?;
    for minor in ["1.27", "1.28", "1.31", "1.33"] {
        let k = platform.kubectl(minor, "dev")?;
        streams(&platform, &k).with_context(|| format!("kubectl {minor}"))?;
        protocols(&platform, &k, minor).with_context(|| format!("kubectl {minor}"))?;
    }
    Ok(())
}

/// The protocol that was really spoken, in kubectl's own log: those that prefer websockets fall back to SPDY without a word.
fn protocols(platform: &Platform, k: &Kubectl, minor: &str) -> Result<()> {
    // kubernetes: staging/src/k8s.io/kubectl/pkg/cmd/util/env_file.go; on by default since 1.30 and 1.31.
    let websockets = ["KUBECTL_REMOTE_COMMAND_WEBSOCKETS", "KUBECTL_PORT_FORWARD_WEBSOCKETS"];
    let modern = !["1.27", "1.28"].contains(&minor);
    for (by_default, name) in [(true, "default"), (false, "spdy")] {
        let spoken = |args: &[&str]| -> Result<Background> {
            let mut command = k.command(&[&["-v=8"], args].concat());
            if !by_default {
                command.envs(websockets.map(|name| (name, "false")));
            }
            Background::start(command, &format!("{name}-{}", args[0]), platform.scratch())
        };
        let (code, exec) = spoken(&["exec", "shell", "--", "true"])?.end(LIMIT)?;
        ensure!(code == 0, "{exec}");
        let mut forward = spoken(&["port-forward", "pod/shell", ":8080", "--address=127.0.0.1"])?;
        let said = forward.until_printed("Forwarding from 127.0.0.1:", LIMIT)?;
        let port = said
            .split("Forwarding from 127.0.0.1:")
            .nth(1)
            .and_then(|rest| rest.split(' ').next())
            .context("a port")?;
        fetch(port.parse()?)?;
        let forward = forward.printed()?;
        for (log, path) in [(exec, "/pods/shell/exec?"), (forward, "/pods/shell/portforward")] {
            // A websocket is opened by GET, SPDY by POST.
            let requests: Vec<&str> = log.lines().filter(|line| line.contains(path)).collect();
            let (wanted, other) = if modern && by_default { ("GET", "POST") } else { ("POST", "GET") };
            let of = |verb: &str| {
                requests
                    .iter()
                    .any(|line| line.contains(&format!(" {verb} ")) || line.contains(&format!("verb=\"{verb}\"")))
            };
            ensure!(of(wanted) && !of(other), "{name}: {wanted} {path}, and no {other}:\n{log}");
            ensure!(!log.contains("fallback") || wanted == "POST", "{log}");
            ensure!(log.contains("101 Switching Protocols") || log.contains("status=\"101"), "{log}");
        }
    }
    Ok(())
}

/// A page through a port-forward.
fn fetch(port: u16) -> Result<()> {
    use std::io::Write as _;
    let mut stream = std::net::TcpStream::connect(("127.0.0.1", port))?;
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    stream.write_all(b"GET /index.html HTTP/1.0\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    ensure!(answer.ends_with("served\n"), "{answer}");
    Ok(())
}

fn streams(platform: &Platform, k: &Kubectl) -> Result<()> {
    // As many times as this has run.
    ensure!(k.ok(&["logs", "shell"])?.lines().all(|line| line == "started"), "logs");
    assert_eq!(k.ok(&["logs", "shell", "--tail=1"])?, "started\n");
    // -f goes on with what comes.
    let mut follow = Background::start(k.command(&["logs", "-f", "shell", "--tail=1"]), "follow", platform.scratch())?;
    follow.until_printed("\n", LIMIT)?;
    k.ok(&["exec", "shell", "--", "sh", "-c", "echo started > /proc/1/fd/1"])?;
    wait::until("the new line", LIMIT, || match follow.printed() {
        Ok(text) if text == "started\nstarted\n" => Ok(()),
        other => Err(format!("{other:?}")),
    })?;
    follow.kill()?;
    assert_eq!(k.ok(&["exec", "shell", "--", "echo", "hello"])?, "hello\n");
    // kubernetes: staging/src/k8s.io/kubectl/pkg/cmd/util/helpers.go (an ExitError: its text and its code).
    let failed = k.run(&["exec", "shell", "--", "sh", "-c", "echo oops >&2; exit 3"])?;
    assert_eq!((failed.code, failed.stderr.as_str()), (3, "oops\ncommand terminated with exit code 3\n"));
    let mut command = k.command(&["exec", "-i", "shell", "--", "wc", "-c"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn()?;
    let sent = vec![b'x'; 300_000];
    std::io::Write::write_all(&mut child.stdin.take().context("piped")?, &sent)?;
    let output = child.wait_with_output()?;
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "300000", "{}", String::from_utf8_lossy(&output.stderr));
    // A terminal: `script` gives kubectl one.
    let mut command = std::process::Command::new("script");
    let inner = k.command(&["exec", "-it", "shell", "--", "sh", "-c", "tty && stty size"]);
    let line: Vec<String> = std::iter::once(inner.get_program().to_string_lossy().into_owned())
        .chain(inner.get_args().map(|a| format!("'{}'", a.to_string_lossy())))
        .collect();
    command.args(["-qec", &line.join(" "), "/dev/null"]).stdin(Stdio::null());
    for (key, value) in inner.get_envs() {
        if let Some(value) = value {
            command.env(key, value);
        }
    }
    let terminal = vctl_tests::kubectl::finish(command)?;
    ensure!(terminal.code == 0 && terminal.stdout.contains("/dev/pts/"), "{terminal:?}");
    // cp goes through exec and tar.
    let file = platform.scratch().join("copied");
    std::fs::write(&file, "copied text")?;
    k.ok(&["cp", file.to_str().unwrap_or_default(), "shell:/tmp/copied"])?;
    assert_eq!(k.ok(&["exec", "shell", "--", "cat", "/tmp/copied"])?, "copied text");
    let back = platform.scratch().join("back");
    k.ok(&["cp", "shell:/tmp/copied", back.to_str().unwrap_or_default()])?;
    assert_eq!(std::fs::read_to_string(&back)?, "copied text");
    interactive(platform, k)?;
    port_forward(k)
}

/// A shell in the pod from a real terminal: what is typed is answered, the size follows, and its exit code is kubectl's.
fn interactive(platform: &Platform, k: &Kubectl) -> Result<()> {
    let command = k.command(&["exec", "-it", "shell", "--", "sh"]);
    let line: Vec<_> =
        std::iter::once(command.get_program()).chain(command.get_args()).map(|a| a.to_string_lossy()).collect();
    let value = |name: &str| {
        let of = command.get_envs().find(|(key, _)| *key == name).and_then(|(_, value)| value);
        of.map(|v| v.to_string_lossy().into_owned()).unwrap_or_default()
    };
    let (home, kubeconfig) = (value("HOME"), value("KUBECONFIG"));
    let tmux = Tmux::start(platform.scratch(), &[("HOME", &home), ("KUBECONFIG", &kubeconfig)])?;
    tmux.line(&line.join(" "))?;
    tmux.until("the prompt", |s| s.contains(" #\n"))?;
    tmux.line("tty; echo $((6 * 7)) is the answer; stty size")?;
    tmux.until("the answers", |s| {
        s.contains("/dev/pts/") && s.contains("\n42 is the answer") && s.contains("\n30 120")
    })?;
    tmux.resize(100, 20)?;
    // The new size may come after the first look at it.
    tmux.line("while [ \"$(stty size)\" != '20 100' ]; do :; done; echo smaller now")?;
    tmux.until("the new size", |s| s.contains("\nsmaller now"))?;
    tmux.line("exit 5")?;
    // kubernetes: staging/src/k8s.io/kubectl/pkg/cmd/util/helpers.go.
    tmux.until("the end", |s| s.contains("\ncommand terminated with exit code 5\n$"))?;
    tmux.line("echo code $?")?;
    tmux.until("the code", |s| s.contains("\ncode 5\n")).map(drop)
}

fn port_forward(k: &Kubectl) -> Result<()> {
    use std::io::{BufRead as _, BufReader};
    let mut child =
        k.command(&["port-forward", "pod/shell", ":8080", "--address=127.0.0.1"]).stdout(Stdio::piped()).spawn()?;
    let mut line = String::new();
    // Kept open: kubectl ends when it cannot print.
    let mut said = BufReader::new(child.stdout.take().context("piped")?);
    said.read_line(&mut line)?;
    let port: u16 = line
        .split("127.0.0.1:")
        .nth(1)
        .and_then(|rest| rest.split(' ').next())
        .and_then(|port| port.parse().ok())
        .with_context(|| format!("port-forward said {line:?}"))?;
    // kubernetes: staging/src/k8s.io/client-go/tools/portforward/portforward.go (listenOnPortAndAddress).
    assert_eq!(line, format!("Forwarding from 127.0.0.1:{port} -> 8080\n"));
    for _ in 0..3 {
        fetch(port)?;
    }
    child.kill()?;
    child.wait()?;
    Ok(())
}
