//! `vctl connect`.

use std::{
    ffi::OsString,
    fs, io,
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::Args;
use clap_complete::ArgValueCandidates;

use super::{Client, Global, completion, error::CliError};

/// What shells give when a command is not there.
const NOT_FOUND: u8 = 127;

/// Arguments of `vctl connect`.
#[derive(Debug, Args)]
pub(crate) struct Connect {
    /// Name of the environment
    #[arg(add = ArgValueCandidates::new(completion::environments))]
    name: String,
    /// Command to run instead of a shell
    #[arg(last = true)]
    command: Vec<OsString>,
}

impl Connect {
    /// Gives the exit code of the command; 128 and the signal's number when a signal ended it.
    pub(super) async fn run(self, global: &Global) -> Result<ExitCode, CliError> {
        let client = Client::open(global)?;
        let kubeconfig = super::kubeconfig::fetch(&client, &self.name).await?;
        let private = PrivateDir::make()?;
        let path = private.0.join("kubeconfig");
        super::kubeconfig::write_private(&path, kubeconfig.as_bytes())?;
        let (program, arguments) = match self.command.split_first() {
            Some((program, arguments)) => (program.clone(), arguments.to_vec()),
            None => {
                let hint = format!("KUBECONFIG is set to environment {}; leave with `exit`\n", self.name);
                io::Write::write_all(&mut io::stderr(), hint.as_bytes())?;
                (shell(), Vec::new())
            }
        };
        let mut command = tokio::process::Command::new(&program);
        command.args(arguments).env("KUBECONFIG", &path).env("VCTL_ENVIRONMENT", &self.name);
        let mut child = match command.spawn() {
            Ok(child) => child,
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                let text = format!("error: there is no program {}\n", program.display());
                io::Write::write_all(&mut io::stderr(), text.as_bytes())?;
                return Ok(ExitCode::from(NOT_FOUND));
            }
            Err(e) => return Err(CliError::file(program)(e)),
        };
        let status = wait(&mut child).await?;
        Ok(ExitCode::from(code(status)))
    }
}

fn shell() -> OsString {
    let (variable, usual) = if cfg!(windows) { ("COMSPEC", "cmd.exe") } else { ("SHELL", "/bin/sh") };
    std::env::var_os(variable).filter(|s| !s.is_empty()).unwrap_or_else(|| usual.into())
}

/// Waits for the command. The terminal sends ctrl-c to it as well as to us: it decides what that means. A request to end is passed on.
#[cfg(unix)]
async fn wait(child: &mut tokio::process::Child) -> io::Result<std::process::ExitStatus> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut hang_up = signal(SignalKind::hangup())?;
    loop {
        tokio::select! {
            status = child.wait() => return status,
            _ = interrupt.recv() => {}
            _ = terminate.recv() => pass_on(child, nix::sys::signal::Signal::SIGTERM),
            _ = hang_up.recv() => pass_on(child, nix::sys::signal::Signal::SIGHUP),
        }
    }
}

#[cfg(unix)]
fn pass_on(child: &tokio::process::Child, signal: nix::sys::signal::Signal) {
    if let Some(pid) = child.id().and_then(|id| i32::try_from(id).ok()) {
        // It may have ended in this moment, which is what is wanted.
        let _ = nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), signal);
    }
}

#[cfg(not(unix))]
async fn wait(child: &mut tokio::process::Child) -> io::Result<std::process::ExitStatus> {
    child.wait().await
}

fn code(status: std::process::ExitStatus) -> u8 {
    #[cfg(unix)]
    if let Some(signal) = std::os::unix::process::ExitStatusExt::signal(&status) {
        return u8::try_from(128 + signal).unwrap_or(1);
    }
    status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1)
}

/// A directory that only we can enter, gone when we are done.
struct PrivateDir(PathBuf);

impl PrivateDir {
    fn make() -> Result<Self, CliError> {
        let base = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|p| p.is_dir());
        let path = base.unwrap_or_else(std::env::temp_dir).join(format!("vctl-{:032x}", rand::random::<u128>()));
        make_private_dir(&path).map_err(CliError::file(&path))?;
        Ok(Self(path))
    }
}

fn make_private_dir(path: &Path) -> io::Result<()> {
    #[cfg_attr(not(unix), expect(unused_mut, reason = "only Unix has a mode to set"))]
    let mut builder = fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path)
}

impl Drop for PrivateDir {
    fn drop(&mut self) {
        // Left over at worst: a file that only its owner can read, in a directory that is emptied at restart.
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[tokio::test]
    async fn exit_codes_are_passed_on() {
        for (script, expected) in [("exit 7", 7), ("kill -TERM $$", 143), ("true", 0)] {
            let mut child = tokio::process::Command::new("/bin/sh").args(["-c", script]).spawn().expect("sh");
            assert_eq!(code(wait(&mut child).await.expect("status")), expected, "{script}");
        }
    }

    #[test]
    fn the_directory_is_private_and_goes() {
        use std::os::unix::fs::PermissionsExt;
        let private = PrivateDir::make().expect("dir");
        let path = private.0.clone();
        assert_eq!(fs::metadata(&path).expect("metadata").permissions().mode() & 0o777, 0o700);
        drop(private);
        assert!(!path.exists());
    }
}
