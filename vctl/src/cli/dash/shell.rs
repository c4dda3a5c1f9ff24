//! A shell in a container, in this terminal.

use vctl_tui::model::Object;

use crate::cli::{Global, error::CliError};

/// Runs a shell until it ends; what to tell afterwards.
#[cfg(unix)]
pub(super) async fn run(global: &Global, pod: &Object, container: &str) -> Result<String, CliError> {
    use k8s_openapi::api::core::v1::Pod;
    use kube::api::{Api, AttachParams};

    use super::cluster::{connect, failed};

    /// The best shell that there is.
    const SHELL: [&str; 3] = ["sh", "-c", "command -v bash >/dev/null 2>&1 && exec bash; exec sh"];

    let first = pod.containers.first().map(String::as_str).unwrap_or_default();
    let container = if container.is_empty() { first } else { container };
    say(&format!("shell in {}/{} ({container}); leave with `exit`\r\n", pod.namespace, pod.name))?;
    let cluster = connect(global, &pod.environment).await?;
    let api: Api<Pod> = Api::namespaced(cluster.client.clone(), &pod.namespace);
    let parameters = AttachParams::interactive_tty().container(container);
    let mut process = api.exec(&pod.name, SHELL, &parameters).await.map_err(|e| match e {
        kube::Error::Api(status) => CliError::Failed(status.message),
        e => failed(e),
    })?;
    let status = process.take_status();
    {
        let _raw = terminal::Raw::enter()?;
        terminal::connect(&mut process).await?;
    }
    let status = match status {
        Some(status) => status.await,
        None => None,
    };
    // The code of the last command in it is of interest to nobody.
    let failed =
        status.filter(|s| s.status.as_deref() == Some("Failure") && s.reason.as_deref() != Some("NonZeroExitCode"));
    let why = failed.and_then(|s| s.message);
    Ok(why.unwrap_or_else(|| format!("the shell in {} has ended", pod.name)))
}

#[cfg(not(unix))]
pub(super) async fn run(_: &Global, _: &Object, _: &str) -> Result<String, CliError> {
    Err(CliError::Failed("a shell needs a terminal of Unix; use kubectl exec".to_owned()))
}

#[cfg(unix)]
fn say(text: &str) -> Result<(), CliError> {
    crate::cli::output::print(text)
}

#[cfg(unix)]
mod terminal {
    use std::{fs::File, io, os::unix::fs::OpenOptionsExt as _};

    use kube::api::{AttachedProcess, TerminalSize};
    use nix::{fcntl::OFlag, sys::termios};
    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _},
        net::unix::pipe,
        signal::unix::{SignalKind, signal},
    };

    /// The terminal passes everything on as it is typed, until this is dropped.
    pub(super) struct Raw(termios::Termios);

    impl Raw {
        pub(super) fn enter() -> io::Result<Self> {
            let before = termios::tcgetattr(io::stdin())?;
            let mut raw = before.clone();
            termios::cfmakeraw(&mut raw);
            termios::tcsetattr(io::stdin(), termios::SetArg::TCSANOW, &raw)?;
            Ok(Self(before))
        }
    }

    impl Drop for Raw {
        fn drop(&mut self) {
            // Who sees a broken terminal sees it.
            let _ = termios::tcsetattr(io::stdin(), termios::SetArg::TCSANOW, &self.0);
        }
    }

    /// Keys go in and output comes out until the process ends. Keys are read without a thread that would wait for one more.
    pub(super) async fn connect(process: &mut AttachedProcess) -> io::Result<()> {
        let tty = File::options().read(true).custom_flags(OFlag::O_NONBLOCK.bits()).open("/dev/tty")?;
        // Any file that can be waited for is read like a pipe.
        let mut tty = pipe::Receiver::from_file_unchecked(tty)?;
        let mut sizes = process.terminal_size();
        let mut changed = signal(SignalKind::window_change())?;
        let (Some(mut stdin), Some(mut stdout)) = (process.stdin(), process.stdout()) else {
            return Err(io::Error::other("the shell has no terminal"));
        };
        let mut out = tokio::io::stdout();
        let (mut keys, mut shown) = (vec![0; 1024], vec![0; 16 * 1024]);
        let mut tell_size = true;
        loop {
            if std::mem::take(&mut tell_size)
                && let (Some(sizes), Ok((width, height))) = (&mut sizes, crossterm_size())
            {
                // A process that ends does not need it any more.
                let _ = futures::SinkExt::send(sizes, TerminalSize { width, height }).await;
            }
            tokio::select! {
                read = stdout.read(&mut shown) => match read? {
                    0 => return Ok(()),
                    n => {
                        out.write_all(&shown[..n]).await?;
                        out.flush().await?;
                    }
                },
                read = tty.read(&mut keys) => match read? {
                    0 => return Ok(()),
                    n => stdin.write_all(&keys[..n]).await?,
                },
                _ = changed.recv() => tell_size = true,
            }
        }
    }

    fn crossterm_size() -> io::Result<(u16, u16)> {
        vctl_tui::terminal_size().ok_or_else(|| io::Error::other("the terminal has no size"))
    }
}
