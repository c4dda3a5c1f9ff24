//! What kubectl prints of real containers.

use std::{io::Read as _, path::Path};

use anyhow::{Context as _, Result, ensure};
use vctl_tests::{background::Background, golden::Golden, kubectl::finish, wait};

use super::{LIMIT, Test};
use crate::containers_podman::{platform, ready};

/// One that serves, and one that has ended.
const PODS: &str = "
apiVersion: v1
kind: Pod
metadata: {name: shell, labels: {app: shell}}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - name: main
    image: localhost/vctl-busybox:latest
    imagePullPolicy: IfNotPresent
    command: [sh, -c, 'mkdir -p /tmp/w; echo served > /tmp/w/index.html; exec httpd -f -p 8080 -h /tmp/w']
    ports: [{containerPort: 8080, protocol: TCP}]
    env: [{name: IP, valueFrom: {fieldRef: {fieldPath: status.podIP}}}]
    livenessProbe: {httpGet: {path: /, port: 8080}, initialDelaySeconds: 5, periodSeconds: 20}
    volumeMounts: [{name: scratch, mountPath: /scratch}]
  volumes: [{name: scratch, emptyDir: {}}]
---
apiVersion: v1
kind: Pod
metadata: {name: ended, labels: {app: ended}}
spec:
  restartPolicy: Never
  containers:
  - name: main
    image: localhost/vctl-busybox:latest
    imagePullPolicy: IfNotPresent
    command: [sh, -c, 'echo one; echo two; exit 3']
";

#[test]
fn golden_podman() -> Result<()> {
    let platform = platform()?;
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/e2e/golden");
    for minor in ["1.33", "1.31", "1.28"] {
        let environment = format!("dev-{}", minor.replace('.', "-"));
        platform.create(&environment, "blank", &[])?;
        let k = platform.kubectl(minor, &environment)?;
        let t = Test { k, golden: Golden::new(&dir, minor), dir: platform.scratch().to_owned() };
        t.containers().with_context(|| format!("kubectl {minor}"))?;
    }
    Ok(())
}

impl Test {
    fn containers(&self) -> Result<()> {
        let k = &self.k;
        // A pod that is there before its node has an Event more.
        wait::until("the node is there", LIMIT, || {
            let ready = "jsonpath={.items[*].status.conditions[?(@.type=='Ready')].status}";
            let nodes = k.ok(&["get", "nodes", "-o", ready]).map_err(|e| format!("{e:#}"))?;
            if nodes == "True" { Ok(()) } else { Err(nodes) }
        })?;
        k.apply(PODS)?;
        ready(k, "shell")?;
        k.ok(&["wait", "--for=jsonpath={.status.phase}=Failed", "pod/ended", "--timeout=60s"])?;
        self.logs().context("logs")?;
        self.exec().context("exec")?;
        self.cp().context("cp")?;
        self.port_forward().context("port-forward")?;
        wait::until("the events", LIMIT, || {
            let events = k.ok(&["get", "events", "-o", "jsonpath={.items[*].reason}"]).map_err(|e| format!("{e:#}"))?;
            if events.matches("Started").count() == 2 { Ok(()) } else { Err(events) }
        })?;
        self.same("get-pods-podman", &["get", "pods", "-o", "wide"])?;
        self.same("describe-pod-podman", &["describe", "pod", "shell"])?;
        self.same("describe-pod-ended-podman", &["describe", "pod", "ended"])?;
        self.same("get-events-podman", &["get", "events", "--field-selector=involvedObject.name=shell"])
    }

    fn logs(&self) -> Result<()> {
        self.piped("logs", &["logs", "ended"], "", 0)?;
        self.piped("logs-follow", &["logs", "-f", "ended", "--timestamps"], "", 0)?;
        self.same("logs-prefix", &["logs", "-l", "app=ended", "--prefix"])?;
        self.refused("logs-previous-none", &["logs", "shell", "--previous"])?;
        self.refused("logs-no-container", &["logs", "shell", "-c", "nothing"])
    }

    fn exec(&self) -> Result<()> {
        self.piped("exec", &["exec", "shell", "--", "sh", "-c", "echo out; echo err >&2"], "", 0)?;
        self.piped("exec-fails", &["exec", "shell", "--", "sh", "-c", "echo oops >&2; exit 3"], "", 3)?;
        self.piped("exec-input", &["exec", "-i", "shell", "--", "tr", "a-z", "A-Z"], "typed\n", 0)?;
        self.piped("exec-no-terminal", &["exec", "-it", "shell", "--", "echo", "here"], "", 0)?;
        self.refused("exec-no-container", &["exec", "shell", "-c", "nothing", "--", "true"])?;
        self.refused("exec-ended", &["exec", "ended", "--", "true"])?;
        // With a terminal of its own, which `script` gives it.
        let inner = self.k.command(&["exec", "-it", "shell", "--", "sh", "-c", "tty; echo here; exit 4"]);
        let line: Vec<String> = std::iter::once(inner.get_program().to_string_lossy().into_owned())
            .chain(inner.get_args().map(|a| format!("'{}'", a.to_string_lossy())))
            .collect();
        let mut command = std::process::Command::new("script");
        command.args(["-qec", &line.join(" "), "/dev/null"]).stdin(std::process::Stdio::null());
        command.envs(inner.get_envs().filter_map(|(key, value)| Some((key, value?))));
        let terminal = finish(command)?;
        ensure!(terminal.code == 4, "{terminal:?}");
        // The end of what `script` reads is typed into the terminal, which may show it.
        self.golden.check("exec-terminal", &terminal.stdout.replace("^@", ""))?;
        // A command that ends before its input does: what it said is there, and nothing else is said in its name.
        let input = self.dir.join("input");
        std::fs::write(&input, "first\n".repeat(20_000))?;
        for _ in 0..5 {
            let mut command = self.k.command(&["exec", "-i", "shell", "--", "head", "-n1"]);
            command.stdin(std::fs::File::open(&input)?);
            let early = finish(command)?;
            ensure!(early.code == 0 && early.stdout == "first\n" && !early.stderr.contains("unixpacket"), "{early:?}");
        }
        Ok(())
    }

    fn cp(&self) -> Result<()> {
        let (there, back) = (self.dir.join("there"), self.dir.join("back"));
        std::fs::write(&there, "copied")?;
        let path = |path: &Path| path.display().to_string();
        self.piped("cp", &["cp", &path(&there), "shell:/tmp/there"], "", 0)?;
        // What the container's tar warns of is printed, too, if it comes before kubectl's end.
        let printed = self.k.ok(&["cp", "shell:/tmp/there", &path(&back)])?;
        let own: String = printed.lines().filter(|line| !line.starts_with("tar: ")).collect();
        self.golden.check("cp-back", &own)?;
        ensure!(std::fs::read_to_string(&back)? == "copied", "what came back");
        self.refused("cp-no-pod", &["cp", &path(&there), "nobody:/tmp/there"])
    }

    fn port_forward(&self) -> Result<()> {
        let command = self.k.command(&["port-forward", "pod/shell", ":8080", "--address=127.0.0.1"]);
        let mut forward = Background::start(command, "forward", &self.dir)?;
        let said = forward.until_printed("Forwarding from 127.0.0.1:", LIMIT)?;
        let port = said.split("127.0.0.1:").nth(1).and_then(|rest| rest.split(' ').next()).context("a port")?;
        let mut stream = std::net::TcpStream::connect(("127.0.0.1", port.parse::<u16>()?))?;
        stream.set_read_timeout(Some(LIMIT))?;
        std::io::Write::write_all(&mut stream, b"GET /index.html HTTP/1.0\r\n\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        ensure!(answer.ends_with("served\n"), "{answer}");
        let said = forward.until_printed("Handling connection", LIMIT)?;
        forward.kill()?;
        self.golden.check("port-forward", &said)
    }
}
