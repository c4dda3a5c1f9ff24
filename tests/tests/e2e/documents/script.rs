//! Commands of a document, and the shell that runs them.

use std::{
    fs::{self, File},
    io::Write as _,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

use anyhow::{Context as _, Result, bail, ensure};
use regex::Regex;
use vctl_tests::wait;

use super::person::Person;

/// A command may create an environment.
const LIMIT: Duration = Duration::from_mins(2);

/// A fenced block.
#[derive(Debug)]
pub(super) struct Block {
    line: usize,
    background: bool,
    person: Option<String>,
    file: Option<String>,
    pub(super) not_run: bool,
    commands: Vec<Step>,
    text: String,
}

/// A command with what the document says of it.
#[derive(Debug)]
struct Step {
    line: usize,
    command: String,
    code: i32,
    output: Vec<String>,
}

/// All blocks of commands and files. Other languages than these may say what they like.
pub(super) fn blocks(text: &str) -> Result<Vec<Block>> {
    let mut found = Vec::new();
    let mut open: Option<(usize, String, Vec<String>)> = None;
    for (at, line) in text.lines().enumerate() {
        match (line.strip_prefix("```"), &mut open) {
            (Some(info), None) => open = Some((at + 1, info.trim().to_owned(), Vec::new())),
            (Some(_), Some(_)) => {
                let Some((line, info, body)) = open.take() else { continue };
                found.extend(block(line, &info, &body)?);
            }
            (None, Some((_, _, body))) => body.push(line.to_owned()),
            (None, None) => {}
        }
    }
    ensure!(open.is_none(), "a block does not end");
    Ok(found)
}

fn block(line: usize, info: &str, body: &[String]) -> Result<Option<Block>> {
    let (language, words) = info.split_once(' ').unwrap_or((info, ""));
    let not_run = words.starts_with("not-run:");
    let word = |name: &str| words.split(' ').find_map(|w| w.strip_prefix(name).map(str::to_owned));
    let file = word("file=");
    if !["console", "sh"].contains(&language) && file.is_none() {
        return Ok(None);
    }
    ensure!(language == "console" || file.is_some() || not_run, "line {line}: commands stand in `console` blocks");
    let exit = Regex::new(r"\s+# exit (\d+)$")?;
    let mut commands: Vec<Step> = Vec::new();
    for (i, text) in body.iter().enumerate().filter(|_| file.is_none()) {
        match (text.strip_prefix("$ "), commands.last_mut()) {
            (Some(command), _) => {
                let code = exit.captures(command).map_or(Ok(0), |c| c[1].parse())?;
                let command = exit.replace(command, "").into_owned();
                commands.push(Step { line: line + i + 1, command, code, output: Vec::new() });
            }
            (None, Some(step)) => step.output.push(text.clone()),
            (None, None) => bail!("line {}: output of no command", line + i + 1),
        }
    }
    Ok(Some(Block {
        line,
        background: words.split(' ').any(|w| w == "background"),
        person: word("as="),
        file,
        not_run,
        commands,
        text: body.join("\n") + "\n",
    }))
}

/// A shell with a home of its own: what is exported stays for the next command.
pub(super) struct Session {
    root: tempfile::TempDir,
    path: String,
    replacements: Vec<(String, String)>,
    variables: Vec<(String, String)>,
    authorities: Vec<PathBuf>,
    server: Option<Child>,
    done: usize,
}

impl Session {
    pub(super) fn new(dirs: &[&Path]) -> Result<Self> {
        // Short: unix sockets allow 107 bytes.
        let root = tempfile::Builder::new().prefix("vd-").tempdir_in("/tmp")?;
        let own: Vec<String> = dirs.iter().map(|dir| dir.display().to_string()).collect();
        let path = format!("{}:{}", own.join(":"), std::env::var("PATH").unwrap_or_default());
        Ok(Self {
            root,
            path,
            replacements: Vec::new(),
            variables: Vec::new(),
            authorities: Vec::new(),
            server: None,
            done: 0,
        })
    }

    pub(super) fn root(&self) -> &Path {
        self.root.path()
    }

    /// What the document calls so is called otherwise here.
    pub(super) fn replace(&mut self, documented: &str, real: &str) {
        self.replacements.push((documented.to_owned(), real.to_owned()));
    }

    pub(super) fn set(&mut self, name: &str, value: &str) {
        self.variables.push((name.to_owned(), value.to_owned()));
    }

    /// People's browsers trust this authority besides the platform's.
    pub(super) fn signs_in_at(&mut self, authority: &Path) {
        self.authorities.push(authority.to_owned());
    }

    /// Runs everything; fewer commands than `least` mean that the document was not read.
    pub(super) fn run(&mut self, blocks: &[Block], least: usize) -> Result<()> {
        let before = self.done;
        for block in blocks.iter().filter(|block| !block.not_run) {
            if let Some(file) = &block.file {
                // A path that is not absolute is one in the operator's home.
                let path = self.home(None)?.join(self.real(file));
                fs::create_dir_all(path.parent().context("a directory")?)?;
                fs::write(path, self.real(&block.text))?;
                continue;
            }
            for step in &block.commands {
                let what = format!("line {}: {}", step.line, step.command);
                if block.background { self.background(step) } else { self.step(step, block.person.as_deref()) }
                    .with_context(|| format!("{what}\n--- server\n{}", self.log()))?;
                self.done += 1;
            }
            ensure!(!block.commands.is_empty(), "line {}: a block without commands", block.line);
        }
        ensure!(self.done - before >= least, "only {} commands", self.done - before);
        Ok(())
    }

    fn real(&self, text: &str) -> String {
        self.replacements.iter().fold(text.to_owned(), |text, (from, to)| text.replace(from, to))
    }

    fn log(&self) -> String {
        fs::read_to_string(self.root().join("server.log")).unwrap_or_default()
    }

    /// The home of whoever types; the operator's is where documents stand.
    fn home(&self, person: Option<&str>) -> Result<PathBuf> {
        let home = self.root().join(person.unwrap_or("operator"));
        fs::create_dir_all(&home)?;
        Ok(home)
    }

    fn shell(&self, person: Option<&str>, command: &str) -> Result<Command> {
        let home = self.home(person)?;
        let state = home.join(".exported");
        let command = self.real(command);
        // What a command exports is there for the next one.
        let script = format!(
            "[ -e {0} ] && . {0}\n{command}\ncode=$?\nexport -p > {0}.new && mv {0}.new {0}\nexit $code\n",
            state.display()
        );
        let mut bash = Command::new("bash");
        bash.args(["--norc", "-c", &script]).current_dir(&home).stdin(Stdio::null());
        for name in ["XDG_DATA_HOME", "XDG_CONFIG_HOME", "KUBECONFIG", "VCTL_DATA_DIR", "VCTL_CONTEXT", "VCTL_STORE"] {
            bash.env_remove(name);
        }
        bash.env("HOME", &home).env("PATH", &self.path).env("LC_ALL", "C.UTF-8");
        if person.is_none() {
            bash.envs(self.variables.iter().map(|(name, value)| (name, value)));
        }
        Ok(bash)
    }

    fn step(&mut self, step: &Step, person: Option<&str>) -> Result<()> {
        let written = self.root().join("output");
        let out = File::create(&written)?;
        let mut bash = self.shell(person, &step.command)?;
        let mut child = bash.stdout(out.try_clone()?).stderr(out).spawn()?;
        let read = || fs::read_to_string(&written).unwrap_or_default();
        let mut browser = match person {
            Some(name) if step.command.starts_with("vctl login ") => Some(self.person(name)?),
            _ => None,
        };
        let ended = wait::until("it ends", LIMIT, || {
            let said = read();
            let link = said.lines().map(str::trim).find(|l| l.contains("/oauth/authorize"));
            if let Some(link) = link
                && let Some(browser) = browser.take()
            {
                browser.allow(link).map_err(|e| format!("{e:#}"))?;
            }
            match child.try_wait() {
                Ok(Some(status)) => Ok(status.code().unwrap_or(-1)),
                Ok(None) => Err(said),
                Err(e) => Err(e.to_string()),
            }
        });
        if ended.is_err() {
            child.kill()?;
            child.wait()?;
        }
        let (code, said) = (ended?, read());
        ensure!(code == step.code, "it ended with {code} instead of {}:\n{said}", step.code);
        matches(&said, &step.output.iter().map(|line| self.real(line)).collect::<Vec<_>>())
    }

    fn person(&self, name: &str) -> Result<Person> {
        // People get the authority of the platform from its operator.
        let handed = self.home(None)?.join("vctl-ca.crt");
        fs::copy(&handed, self.home(Some(name))?.join("vctl-ca.crt")).context("vctl-ca.crt of the operator")?;
        let mut authorities = self.authorities.clone();
        authorities.push(handed);
        Person::new(name, &authorities)
    }

    /// Starts a server in the place of the one before, and waits until it serves.
    fn background(&mut self, step: &Step) -> Result<()> {
        self.stop()?;
        let out = File::options().create(true).append(true).open(self.root().join("server.log"))?;
        let mut bash = self.shell(None, &step.command)?;
        let mut child = bash.stdout(out.try_clone()?).stderr(out).spawn()?;
        let pid = child.id();
        let lib = self.real("/var/lib/vctl");
        let data = if lib == "/var/lib/vctl" { self.home(None)?.join(".local/share/vctl") } else { PathBuf::from(lib) };
        let mut status = self.shell(None, &format!("vctl status --data-dir {} -o json", data.display()))?;
        let ready = wait::until("the server serves", LIMIT, || {
            if let Ok(Some(status)) = child.try_wait() {
                return Err(format!("it ended with {status}"));
            }
            let output = status.output().map_err(|e| e.to_string())?;
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            let pids = [format!("\"pid\": {pid},"), format!("\"pid\": {},", child_of(pid))];
            if output.status.success() && pids.iter().any(|p| text.contains(p)) { Ok(()) } else { Err(text) }
        });
        self.server = Some(child);
        ready
    }

    fn stop(&mut self) -> Result<()> {
        let Some(mut server) = self.server.take() else { return Ok(()) };
        // The shell may have the server as its child.
        let pid = match child_of(server.id()) {
            0 => server.id(),
            child => child,
        };
        Command::new("kill").args(["-s", "TERM", &pid.to_string()]).status()?;
        wait::until("the server ends", LIMIT, || match server.try_wait() {
            Ok(Some(_)) => Ok(()),
            other => Err(format!("{other:?}")),
        })
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if let Err(e) = self.stop() {
            // Nothing is left to tell it to when standard error is gone.
            let _ = writeln!(std::io::stderr(), "a server was left behind: {e:#}");
        }
    }
}

/// The process that a shell runs; 0: none.
fn child_of(pid: u32) -> u32 {
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    children.split_whitespace().next().and_then(|child| child.parse().ok()).unwrap_or(0)
}

/// The documented lines are in the output, in their order.
fn matches(said: &str, documented: &[String]) -> Result<()> {
    let plain = Regex::new("\u{1b}\\[[0-9;]*m|\r")?;
    let said = plain.replace_all(said, "").into_owned();
    let mut lines = said.lines();
    for wanted in documented.iter().filter(|line| !line.trim().is_empty()) {
        let words: Vec<String> = wanted.split_whitespace().map(|word| regex::escape(word).replace('…', ".*")).collect();
        // A `…` of its own may be nothing at all, with the space before it.
        let pattern =
            format!(r"^\s*{}\s*$", words.join(r"\s+").replace(r"\s+.*", r"(?:\s.*)?").replace(r".*\s+", r"(?:.*\s)?"));
        let pattern = Regex::new(&pattern)?;
        ensure!(lines.any(|line| pattern.is_match(line)), "the output has no line {wanted:?} (any more):\n{said}");
    }
    Ok(())
}

#[test]
fn documents_are_read_as_they_are_written() -> Result<()> {
    let text = "a\n```console as=ann\n$ one     # exit 3\nout …\n$ two\n```\n```yaml file=x\na: 1\n```\n```ini\n[x]\n```\n```console not-run: why\n$ y\n```\n";
    let blocks = blocks(text)?;
    assert_eq!(blocks.len(), 3);
    assert_eq!((blocks[0].commands[0].code, blocks[0].commands[0].command.as_str()), (3, "one"));
    assert_eq!((blocks[0].person.as_deref(), blocks[0].commands[0].output.len()), (Some("ann"), 1));
    assert_eq!((blocks[1].file.as_deref(), blocks[1].text.as_str()), (Some("x"), "a: 1\n"));
    assert!(blocks[2].not_run);
    assert!(super::script::blocks("```sh\nls\n```\n").is_err(), "nothing is left out silently");
    let output = "NAME   PHASE\nalpha  Ready 5s\n";
    assert!(matches(output, &["NAME PHASE".to_owned(), "alpha Ready …".to_owned()]).is_ok());
    assert!(matches(output, &["alpha …".to_owned(), "NAME …".to_owned()]).is_err());
    assert!(matches(output, &["alpha".to_owned()]).is_err());
    Ok(())
}
