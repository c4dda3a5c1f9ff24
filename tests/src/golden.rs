//! Golden texts: what a real cluster prints, each with the place upstream that decides it.
//!
//! A file holds lines of comment that begin with `# ` (the first says where upstream the text comes from), then the text as
//! [`normal`] leaves it. `NAME.MINOR.txt` stands for one version of kubectl, `NAME.txt` for the others. With `VCTL_GOLDEN=write`
//! the texts are written instead of compared, those of the newest version first: read them against their source before they are
//! committed.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail, ensure};

use crate::text::normal;

/// The version of kubectl that writes `NAME.txt`.
const NEWEST: &str = "1.33";

/// The golden texts of a directory, for one version of kubectl.
#[derive(Debug, Clone)]
pub struct Golden {
    dir: PathBuf,
    minor: String,
}

impl Golden {
    /// The texts in `dir`, for kubectl `minor` (such as `1.31`).
    pub fn new(dir: &Path, minor: &str) -> Self {
        Self { dir: dir.to_owned(), minor: minor.to_owned() }
    }

    /// Compares what was printed with a golden text.
    ///
    /// # Errors
    /// It differs: with both; or there is no such text, or it does not name its source.
    pub fn check(&self, name: &str, printed: &str) -> Result<()> {
        let own = self.dir.join(format!("{name}.{}.txt", self.minor));
        let file = if own.exists() { own.clone() } else { self.dir.join(format!("{name}.txt")) };
        let printed = normal(printed);
        let text = std::fs::read_to_string(&file).unwrap_or_default();
        let (comment, expected) = split(&text);
        if std::env::var_os("VCTL_GOLDEN").is_some_and(|v| v == "write") {
            let file = if self.minor == NEWEST || text.is_empty() || expected == printed { file } else { own };
            return std::fs::write(&file, format!("{comment}{printed}"))
                .with_context(|| format!("writing {}", file.display()));
        }
        ensure!(comment.starts_with("# kubernetes: "), "{} does not name its source upstream", file.display());
        if expected == printed {
            return Ok(());
        }
        let at = expected.lines().zip(printed.lines()).position(|(a, b)| a != b);
        let at = at.unwrap_or_else(|| expected.lines().count().min(printed.lines().count()));
        let line = |text: &str| text.lines().nth(at).unwrap_or("(end)").to_owned();
        bail!(
            "{} with kubectl {}, line {}:\nexpected: {}\nprinted:  {}\n--- all of it\n{printed}",
            file.display(),
            self.minor,
            at + 1,
            line(expected),
            line(&printed)
        )
    }
}

/// The comment at the beginning, and the text.
fn split(file: &str) -> (&str, &str) {
    let length: usize = file.split_inclusive('\n').take_while(|line| line.starts_with("# ")).map(str::len).sum();
    file.split_at(length)
}
