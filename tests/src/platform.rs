//! A running platform.

mod ending;
mod starts;

use std::{
    ffi::OsString,
    fs::File,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

use anyhow::{Context, Result, bail};
use tempfile::TempDir;

use crate::{
    kubectl::{Kubectl, Output, finish},
    netns::{Netns, command_inside},
    wait,
};

use self::ending::{SERVER_LOG, signal, stop};

/// What runs the pods.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Workers {
    /// Real containers, in a network namespace without a default route.
    Podman,
    /// Pods become Ready without running.
    Simulated,
    /// None.
    None,
}

/// `vctl up` in a data directory of its own. Dropping it runs `vctl down`, and fails the test when something is left of it on the machine, or
/// when its server or its agent panicked.
pub struct Platform {
    dir: TempDir,
    workers: Workers,
    more: Vec<OsString>,
    /// Further environment variables of the server.
    variables: Vec<(String, String)>,
    /// Those that give it and its clients another time.
    clock: Vec<(String, String)>,
    netns: Option<Netns>,
    /// Whether the server and its clients are in that namespace too.
    inside: bool,
    /// What the server is started by.
    before: &'static [&'static str],
    server: Option<Child>,
    listen: String,
}

/// The `vctl` of this build: `VCTL_BIN`, or beside the test binary.
///
/// # Errors
/// It has not been built.
pub fn vctl_binary() -> Result<PathBuf> {
    if let Some(path) = std::env::var_os("VCTL_BIN") {
        return Ok(path.into());
    }
    let here = std::env::current_exe()?;
    let found = here.ancestors().skip(1).take(2).map(|dir| dir.join("vctl")).find(|p| p.is_file());
    found.context("the vctl binary is not built: cargo build -p vctl")
}

impl Platform {
    /// Starts one and waits until it serves.
    ///
    /// # Errors
    /// It does not start: with its log.
    pub fn start(workers: Workers) -> Result<Self> {
        Self::start_with(workers, &[])
    }

    /// Starts one with further templates (text of `template.yaml` and of a manifest, by name) and waits until it serves.
    ///
    /// # Errors
    /// It does not start: with its log.
    pub fn start_with(workers: Workers, templates: &[(&str, &str, &str)]) -> Result<Self> {
        let dir = directory()?;
        let mut more = Vec::new();
        if !templates.is_empty() {
            let all = dir.path().join("templates");
            for (name, template, manifest) in templates {
                let manifests = all.join(name).join("manifests");
                std::fs::create_dir_all(&manifests)?;
                std::fs::write(all.join(name).join("template.yaml"), template)?;
                std::fs::write(manifests.join("all.yaml"), manifest)?;
            }
            more = vec!["--templates".into(), all.into()];
        }
        Self::new(workers, dir, more, Vec::new(), false, &[])
    }

    /// Starts one that is in a network namespace as a whole, as one is on a machine of its own: with real containers, but without
    /// `--worker-netns`. `vctl` and kubectl run in there too.
    ///
    /// # Errors
    /// It does not start: with its log.
    pub fn start_inside(arguments: &[&str]) -> Result<Self> {
        let more = arguments.iter().map(Into::into).collect();
        Self::new(Workers::Podman, directory()?, more, Vec::new(), true, &[])
    }

    /// Starts one whose `vctl up` gets further arguments and environment variables, and waits until it serves.
    ///
    /// # Errors
    /// It does not start: with its log.
    pub fn start_configured(workers: Workers, arguments: &[&str], variables: &[(&str, &str)]) -> Result<Self> {
        let more = arguments.iter().map(Into::into).collect();
        let variables = variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        Self::new(workers, directory()?, more, variables, false, &[])
    }

    fn new(
        workers: Workers,
        dir: TempDir,
        more: Vec<OsString>,
        variables: Vec<(String, String)>,
        inside: bool,
        before: &'static [&'static str],
    ) -> Result<Self> {
        let netns = if workers == Workers::Podman { Some(Netns::create()?) } else { None };
        let listen = "127.0.0.1:0".to_owned();
        let mut platform =
            Self { dir, workers, more, variables, clock: Vec::new(), netns, inside, before, server: None, listen };
        platform.start_server()?;
        Ok(platform)
    }

    /// The data directory.
    pub fn data_dir(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    /// A scratch directory that goes with the platform.
    pub fn scratch(&self) -> &Path {
        self.dir.path()
    }

    /// The network namespace of the worker.
    pub fn netns(&self) -> Option<&str> {
        self.netns.as_ref().map(Netns::name)
    }

    /// Process id of the server.
    pub fn server_pid(&self) -> Option<u32> {
        self.server.as_ref().map(Child::id)
    }

    /// The address it listens on.
    pub fn address(&self) -> &str {
        &self.listen
    }

    /// Starts the process of the server; it listens where it did before.
    fn spawn(&self) -> Result<Child> {
        let log = self.dir.path().join(SERVER_LOG);
        let mut command = match self.before {
            [] => self.program()?,
            [first, rest @ ..] => {
                let mut command = Command::new(first);
                command.args(rest).arg(vctl_binary()?);
                command
            }
        };
        command.arg("up").arg("--data-dir").arg(self.data_dir()).args(["--listen", &self.listen]);
        command.args(&self.more).args([
            "--workers",
            match self.workers {
                Workers::Podman => "podman",
                Workers::Simulated => "simulated",
                Workers::None => "none",
            },
        ]);
        if let Some(netns) = self.netns.as_ref().filter(|_| !self.inside) {
            command.args(["--worker-netns", netns.name()]);
        }
        let out = File::options().create(true).append(true).open(&log)?;
        command.stdin(Stdio::null()).stdout(out.try_clone()?).stderr(out);
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        command.spawn().context("starting vctl up")
    }

    /// Starts the server (again); it listens where it did before.
    ///
    /// # Errors
    /// It does not serve within 60 s.
    pub fn start_server(&mut self) -> Result<()> {
        let mut child = self.spawn()?;
        let ready = wait::until("vctl up serves", Duration::from_mins(1), || {
            if let Ok(Some(status)) = child.try_wait() {
                return Err(format!("it ended with {status}"));
            }
            let status = self.vctl(&["status", "-o", "json"]).map_err(|e| format!("{e:#}"))?;
            if status.code != 0 {
                return Err(status.stderr);
            }
            let status: serde_json::Value = serde_json::from_str(&status.stdout).map_err(|e| e.to_string())?;
            if status["pid"] != child.id() {
                return Err("another server answers".into());
            }
            Ok(status["listen"].as_str().unwrap_or_default().to_owned())
        });
        match ready {
            Ok(listen) => {
                self.listen = listen;
                self.server = Some(child);
                Ok(())
            }
            Err(e) => {
                stop(&mut child);
                bail!("{e:#}\n--- server log\n{}", self.log());
            }
        }
    }

    /// Ends the server at once, as a power cut would.
    ///
    /// # Errors
    /// It was not running.
    pub fn kill_server(&mut self) -> Result<()> {
        let mut child = self.server.take().context("the server is not running")?;
        child.kill()?;
        child.wait()?;
        Ok(())
    }

    /// Ends the server with SIGTERM and waits for it; its exit code.
    ///
    /// # Errors
    /// It was not running or does not end within 30 s.
    pub fn stop_server(&mut self) -> Result<i32> {
        let mut child = self.server.take().context("the server is not running")?;
        signal(child.id(), "TERM")?;
        wait::until("the server ends", Duration::from_secs(30), || match child.try_wait() {
            Ok(Some(status)) => Ok(status.code().unwrap_or(-1)),
            Ok(None) => Err("running".into()),
            Err(e) => Err(e.to_string()),
        })
    }

    /// What the server has logged.
    pub fn log(&self) -> String {
        let read = |name: &str| std::fs::read_to_string(self.dir.path().join(name)).unwrap_or_default();
        let agent = std::fs::read_to_string(self.data_dir().join("worker/agent.log")).unwrap_or_default();
        format!("{}\n--- agent log\n{agent}", read(SERVER_LOG))
    }

    /// The program, where the platform is.
    fn program(&self) -> Result<Command> {
        let mut command = command_inside(self.netns().filter(|_| self.inside), vctl_binary()?);
        command.envs(self.clock.iter().map(|(name, value)| (name, value)));
        Ok(command)
    }

    /// Runs `vctl` as a client of this platform.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn vctl(&self, args: &[&str]) -> Result<Output> {
        finish(self.vctl_command(args)?)
    }

    /// A `vctl` command as a client of this platform, ready to be changed and run.
    ///
    /// # Errors
    /// The binary has not been built.
    pub fn vctl_command(&self, args: &[&str]) -> Result<Command> {
        if args.contains(&"down") {
            self.keep_agent_log()?;
        }
        let mut command = self.program()?;
        command
            .args(args)
            .env("VCTL_DATA_DIR", self.data_dir())
            .env("HOME", self.dir.path())
            .env_remove("KUBECONFIG")
            .stdin(Stdio::null());
        Ok(command)
    }

    /// Creates an environment and waits until it is ready.
    ///
    /// # Errors
    /// It does not become ready: with the server's log.
    pub fn create(&self, name: &str, template: &str, set: &[&str]) -> Result<()> {
        let mut args = vec!["create", name, "--template", template];
        for value in set {
            args.extend(["--set", value]);
        }
        self.vctl(&args)?.ok().with_context(|| format!("vctl create {name}\n--- server log\n{}", self.log()))?;
        Ok(())
    }

    /// Writes the kubeconfig of an environment to a file.
    ///
    /// # Errors
    /// There is none.
    pub fn kubeconfig(&self, environment: &str) -> Result<PathBuf> {
        let path = self.dir.path().join(format!("{environment}.kubeconfig"));
        std::fs::write(&path, self.vctl(&["kubeconfig", environment])?.ok()?)?;
        Ok(path)
    }

    /// kubectl `minor` for an environment.
    ///
    /// # Errors
    /// kubectl or the kubeconfig cannot be had.
    pub fn kubectl(&self, minor: &str, environment: &str) -> Result<Kubectl> {
        let kubectl = Kubectl::new(minor, &self.kubeconfig(environment)?, self.dir.path())?;
        Ok(kubectl.inside(self.netns().filter(|_| self.inside)))
    }

    /// The state directory of the worker.
    pub fn worker(&self) -> PathBuf {
        self.data_dir().join("worker")
    }

    /// Where the worker keeps its containers: arguments for `podman`.
    pub fn podman_args(&self) -> Vec<String> {
        crate::image::podman_args(&self.worker())
    }

    /// Process id of the worker's agent: of the one that runs, else of the one that ran last.
    ///
    /// # Errors
    /// None has run.
    pub fn agent_pid(&self) -> Result<u32> {
        let lock = self.worker().join("agent.lock");
        let text = std::fs::read_to_string(&lock).with_context(|| format!("reading {}", lock.display()))?;
        text.trim().parse().with_context(|| format!("{} holds {text:?}", lock.display()))
    }

    /// Ends the agent at once, as the kernel does when memory is short; containers are none of its children.
    ///
    /// # Errors
    /// None runs.
    pub fn kill_agent(&self) -> Result<u32> {
        let pid = self.agent_pid()?;
        signal(pid, "KILL")?;
        Ok(pid)
    }

    /// Asks the agent to end, with SIGTERM.
    ///
    /// # Errors
    /// None runs.
    pub fn stop_agent(&self) -> Result<()> {
        signal(self.agent_pid()?, "TERM")
    }
}

/// A short path: unix sockets allow 107 bytes.
fn directory() -> Result<TempDir> {
    Ok(tempfile::Builder::new().prefix("vt-").tempdir_in("/tmp")?)
}
