//! Other programs that the server runs: without its environment, with limits, and ended with whoever waits for them.

use std::{
    ffi::OsStr,
    path::{Path, PathBuf},
    process::Stdio,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tokio::{
    io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWriteExt, BufReader},
    process::Command,
};

/// Argument of this program that makes it set limits and become another one.
pub const LIMITED: &str = "limited";
/// Option of [`LIMITED`]: the other program has no network; where it cannot be taken away nothing is run.
pub const OFFLINE: &str = "--offline";
/// Option of [`LIMITED`]: the other program has no network, as far as the kernel lets this user take it away.
pub const OFFLINE_IF_POSSIBLE: &str = "--offline-if-possible";
/// Longest time in which this program finds out whether it can take the network away.
const LOOK: Duration = Duration::from_secs(30);
/// Longest line of output that is kept, in bytes.
const LINE_LIMIT: usize = 2000;

/// Runs other programs. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Commands {
    own: Option<PathBuf>,
    /// The network has been taken away from one.
    isolates: Arc<AtomicBool>,
}

/// What network another program has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Network {
    /// That of the machine.
    Full,
    /// None where the kernel lets this user take it away, else that of the machine.
    NoneIfPossible,
    /// None: where it cannot be taken away the program does not run.
    None,
}

/// A line that a program has printed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Line {
    Out(String),
    Err(String),
}

impl Commands {
    /// With this program, which called with [`LIMITED`] sets limits before it becomes what it is told. Without it there are none.
    pub(crate) fn new(own: Option<PathBuf>) -> Self {
        Self { own, isolates: Arc::default() }
    }

    /// A program with nothing but a path to find others by, and a home of its own.
    pub(crate) fn command(&self, program: &Path, home: &Path) -> Command {
        self.with(Network::Full, program, home)
    }

    /// Whether other programs can run without a network here.
    ///
    /// # Errors
    /// Why not. It is looked at anew each time, for an administrator may have changed it.
    pub(crate) async fn without_network(&self) -> Result<(), String> {
        let Some(own) = &self.own else { return Err("this program does not know its own file".to_owned()) };
        if !self.isolates.load(Ordering::Relaxed) {
            // What is run does nothing.
            let mut command = self.with(Network::None, own, &std::env::temp_dir());
            command.arg("--version");
            output(command, &[], LINE_LIMIT, LOOK).await.map_err(|why| why.trim_start_matches("error: ").to_owned())?;
            self.isolates.store(true, Ordering::Relaxed);
        }
        Ok(())
    }

    /// As [`Commands::command`], with this network.
    pub(crate) fn with(&self, network: Network, program: &Path, home: &Path) -> Command {
        let options: &[&str] = match network {
            Network::Full => &[],
            Network::NoneIfPossible => &[OFFLINE_IF_POSSIBLE],
            Network::None => &[OFFLINE],
        };
        let mut command = match &self.own {
            Some(own) => {
                let mut limited = Command::new(own);
                limited.arg(LIMITED).args(options).arg("--").arg(program);
                limited
            }
            None => Command::new(program),
        };
        let path = std::env::var_os("PATH").unwrap_or_else(|| "/usr/local/bin:/usr/bin:/bin".into());
        command.env_clear().env("PATH", path).env("HOME", home).env("LC_ALL", "C.UTF-8").current_dir(home);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        command
    }
}

/// Whether there is such a program: a path, or a name that `PATH` finds.
pub(crate) fn is_there(program: &Path) -> bool {
    if program.components().count() > 1 {
        return program.is_file();
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|directory| directory.join(program).is_file())
}

/// Reads lines for people until the end, each cut to a bounded length, and sends them as they come.
pub(crate) async fn lines(
    from: impl AsyncRead + Unpin,
    make: impl Fn(String) -> Line,
    lines: &tokio::sync::mpsc::Sender<Line>,
) {
    let mut from = BufReader::new(from);
    let mut line = Vec::new();
    loop {
        let (used, ended) = match from.fill_buf().await {
            Ok([]) | Err(_) => break,
            Ok(bytes) => {
                let end = bytes.iter().position(|b| *b == b'\n');
                let text = &bytes[..end.unwrap_or(bytes.len())];
                let room = LINE_LIMIT.saturating_sub(line.len());
                line.extend(&text[..text.len().min(room)]);
                (end.map_or(bytes.len(), |end| end + 1), end.is_some())
            }
        };
        from.consume(used);
        if ended && lines.send(make(String::from_utf8_lossy(&std::mem::take(&mut line)).into_owned())).await.is_err() {
            return;
        }
    }
    if !line.is_empty() {
        let _ = lines.send(make(String::from_utf8_lossy(&line).into_owned())).await;
    }
}

/// As it would be typed, for logs.
pub(crate) fn shown<S: AsRef<OsStr>>(program: &Path, arguments: &[S]) -> String {
    let name = program.file_name().unwrap_or_default().to_string_lossy();
    let arguments: Vec<_> = arguments.iter().map(|a| a.as_ref().to_string_lossy()).collect();
    format!("{name} {}", arguments.join(" "))
}

/// Runs a program to its end; what it printed on standard output.
///
/// # Errors
/// That it does not run, takes too long or prints too much; else the last line that it printed on standard error.
pub(crate) async fn output(
    mut command: Command,
    input: &[u8],
    limit: usize,
    time: Duration,
) -> Result<Vec<u8>, String> {
    let mut child = command.stdin(Stdio::piped()).spawn().map_err(|e| format!("it does not run: {e}"))?;
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let (send, mut errors) = tokio::sync::mpsc::channel(16);
    let write = async {
        if let Some(mut stdin) = stdin {
            // It may end before it has read everything: its status says why.
            let _ = stdin.write_all(input).await;
        }
    };
    let read = async {
        let mut bytes = Vec::new();
        if let Some(stdout) = stdout {
            stdout.take(limit as u64 + 1).read_to_end(&mut bytes).await.map_err(|e| e.to_string())?;
        }
        if bytes.len() > limit { Err(format!("it prints more than {limit} bytes")) } else { Ok(bytes) }
    };
    let complain = async {
        if let Some(stderr) = stderr {
            lines(stderr, Line::Err, &send).await;
        }
        drop(send);
    };
    let last = async {
        let mut said = String::new();
        while let Some(Line::Out(line) | Line::Err(line)) = errors.recv().await {
            // The first error says why; what follows is advice.
            let is_error = |line: &str| ["fatal:", "error:", "Error:"].iter().any(|word| line.starts_with(word));
            if !line.trim().is_empty() && (said.is_empty() || is_error(&line) && !is_error(&said)) {
                said = line;
            }
        }
        said
    };
    let all = async {
        // Too much output ends it: nobody waits for the rest.
        let read = async {
            let bytes = read.await;
            if bytes.is_err() {
                let _ = child.start_kill();
            }
            let status = child.wait().await.map_err(|e| e.to_string())?;
            Ok::<_, String>((bytes?, status))
        };
        tokio::join!(write, read, complain, last)
    };
    match tokio::time::timeout(time, all).await {
        Ok((_, Ok((bytes, status)), _, _)) if status.success() => Ok(bytes),
        Ok((_, Ok((_, status)), _, said)) => {
            Err(if said.is_empty() { format!("it ended with {status}") } else { said })
        }
        Ok((_, Err(why), ..)) => Err(why),
        Err(_) => Err(format!("it did not end within {} s", time.as_secs())),
    }
}
