//! The real kubectl, of a named minor version.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::{Mutex, OnceLock},
};

use anyhow::{Context, Result, bail, ensure};

use crate::netns::command_inside;

/// kubectl of one version with one kubeconfig. Nothing of the person's own configuration is read.
#[derive(Debug, Clone)]
pub struct Kubectl {
    binary: PathBuf,
    kubeconfig: PathBuf,
    home: PathBuf,
    /// Network namespace it runs in.
    netns: Option<String>,
}

/// What a command printed, and how it ended.
#[derive(Debug, Clone)]
pub struct Output {
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
    /// Exit code; -1 when ended by a signal.
    pub code: i32,
}

impl Output {
    /// Standard output of a command that must succeed.
    ///
    /// # Errors
    /// It did not: with everything it printed.
    pub fn ok(self) -> Result<String> {
        ensure!(self.code == 0, "exit code {}\nstdout: {}\nstderr: {}", self.code, self.stdout, self.stderr);
        Ok(self.stdout)
    }

    /// Standard error of a command that must fail.
    ///
    /// # Errors
    /// It succeeded.
    pub fn refused(self) -> Result<String> {
        ensure!(self.code != 0, "succeeded but should not have\nstdout: {}\nstderr: {}", self.stdout, self.stderr);
        Ok(self.stderr)
    }
}

/// Path of kubectl `minor` (such as `1.31`), fetched by `scripts/kubectl` when it is not there yet.
///
/// # Errors
/// It cannot be fetched.
pub fn binary(minor: &str) -> Result<PathBuf> {
    static FOUND: OnceLock<Mutex<BTreeMap<String, PathBuf>>> = OnceLock::new();
    let mut found = FOUND
        .get_or_init(Mutex::default)
        .lock()
        .map_err(|_| anyhow::anyhow!("another test failed while fetching kubectl"))?;
    if let Some(path) = found.get(minor) {
        return Ok(path.clone());
    }
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scripts/kubectl");
    let output = Command::new(script).arg(minor).output().context("running scripts/kubectl")?;
    if !output.status.success() {
        bail!("kubectl {minor} cannot be had: {}", String::from_utf8_lossy(&output.stderr));
    }
    let path = PathBuf::from(String::from_utf8(output.stdout)?.trim());
    found.insert(minor.to_owned(), path.clone());
    Ok(path)
}

impl Kubectl {
    /// kubectl `minor` with a kubeconfig file; its caches go into `home`.
    ///
    /// # Errors
    /// It cannot be fetched.
    pub fn new(minor: &str, kubeconfig: &Path, home: &Path) -> Result<Self> {
        Ok(Self { binary: binary(minor)?, kubeconfig: kubeconfig.to_owned(), home: home.to_owned(), netns: None })
    }

    /// The same kubectl in a network namespace (of `ip netns`).
    #[must_use]
    pub fn inside(mut self, netns: Option<&str>) -> Self {
        self.netns = netns.map(ToOwned::to_owned);
        self
    }

    /// A command with these arguments, ready to be changed and run.
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = command_inside(self.netns.as_deref(), &self.binary);
        command
            .args(args)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", &self.home)
            .env("KUBECONFIG", &self.kubeconfig)
            .env("TZ", "UTC")
            .stdin(Stdio::null());
        command
    }

    /// Runs it to its end.
    ///
    /// # Errors
    /// It cannot be started; a command that fails is an [`Output`] with its code.
    pub fn run(&self, args: &[&str]) -> Result<Output> {
        finish(self.command(args))
    }

    /// Runs it with `input` on its standard input.
    ///
    /// # Errors
    /// As [`Kubectl::run`].
    pub fn pipe(&self, args: &[&str], input: &str) -> Result<Output> {
        use std::io::Write as _;
        let mut command = self.command(args);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().context("starting kubectl")?;
        child.stdin.take().context("standard input is piped")?.write_all(input.as_bytes())?;
        let output = child.wait_with_output()?;
        Ok(collected(&output))
    }

    /// Runs it and wants success; standard output.
    ///
    /// # Errors
    /// It failed: with everything it printed.
    pub fn ok(&self, args: &[&str]) -> Result<String> {
        self.run(args)?.ok().with_context(|| format!("kubectl {}", args.join(" ")))
    }

    /// Applies a manifest and wants success; standard output.
    ///
    /// # Errors
    /// It failed: with everything it printed.
    pub fn apply(&self, manifest: &str) -> Result<String> {
        self.pipe(&["apply", "-f", "-"], manifest)?.ok().context("kubectl apply")
    }
}

/// Runs a command to its end and collects what it printed.
///
/// # Errors
/// It cannot be started.
pub fn finish(mut command: Command) -> Result<Output> {
    let output = command.output().with_context(|| format!("running {}", command.get_program().to_string_lossy()))?;
    Ok(collected(&output))
}

fn collected(output: &std::process::Output) -> Output {
    Output {
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        code: output.status.code().unwrap_or(-1),
    }
}
