//! A command that runs beside the test.

use std::{
    fs::File,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};

use crate::wait;

/// A running command whose output goes to a file. Killed when dropped.
#[derive(Debug)]
pub struct Background {
    child: Child,
    name: String,
    file: PathBuf,
}

impl Background {
    /// Starts a command; what it prints goes to a file `NAME.out` in `dir`.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn start(mut command: Command, name: &str, dir: &Path) -> Result<Self> {
        let file = dir.join(format!("{name}.out"));
        let out = File::create(&file).with_context(|| format!("making {}", file.display()))?;
        command.stdin(Stdio::null()).stdout(out.try_clone()?).stderr(out);
        let child = command.spawn().with_context(|| format!("starting {name}"))?;
        Ok(Self { child, name: name.to_owned(), file })
    }

    /// What it has printed so far, on standard output and standard error.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn printed(&self) -> Result<String> {
        std::fs::read_to_string(&self.file).with_context(|| format!("reading {}", self.file.display()))
    }

    /// Waits until it has printed a text; everything it has printed.
    ///
    /// # Errors
    /// It does not within the limit, or it ends without.
    pub fn until_printed(&mut self, text: &str, limit: Duration) -> Result<String> {
        let mut ended = None;
        wait::until(&format!("{} prints {text:?}", self.name), limit, || {
            let over = self.child.try_wait().map_err(|e| e.to_string())?;
            let printed = std::fs::read_to_string(&self.file).map_err(|e| e.to_string())?;
            if printed.contains(text) {
                return Ok(Some(printed));
            }
            if let Some(status) = over {
                ended = Some(format!("{status}: {printed}"));
                return Ok(None);
            }
            Err(printed)
        })?
        .with_context(|| format!("{} ended without {text:?}: {}", self.name, ended.unwrap_or_default()))
    }

    /// Whether it still runs.
    ///
    /// # Errors
    /// The system cannot say.
    pub fn runs(&mut self) -> Result<bool> {
        Ok(self.child.try_wait()?.is_none())
    }

    /// Waits for its end; its exit code (-1 after a signal) and what it has printed.
    ///
    /// # Errors
    /// It goes on for longer than the limit.
    pub fn end(&mut self, limit: Duration) -> Result<(i32, String)> {
        let status = wait::until(&format!("{} ends", self.name), limit, || match self.child.try_wait() {
            Ok(Some(status)) => Ok(status),
            Ok(None) => Err(std::fs::read_to_string(&self.file).unwrap_or_default()),
            Err(e) => Err(e.to_string()),
        })?;
        Ok((status.code().unwrap_or(-1), self.printed()?))
    }

    /// Ends it now.
    ///
    /// # Errors
    /// It has ended already.
    pub fn kill(mut self) -> Result<()> {
        ensure!(self.runs()?, "{} has ended: {}", self.name, self.printed()?);
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None))
            && let Err(e) = self.child.kill().and_then(|()| self.child.wait())
        {
            eprintln!("{} was left behind: {e}", self.name);
        }
    }
}
