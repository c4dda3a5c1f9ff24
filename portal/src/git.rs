//! Git, as a program: what a repository has, without ever making a work tree of it. So nothing of a repository is executed or followed:
//! no hooks, no filters, no submodules, no links.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    time::Duration,
};

use base64::{Engine, engine::general_purpose::STANDARD};

use crate::commands::{self, Commands};

/// Longest time for one command.
const TIME: Duration = Duration::from_mins(2);
/// Most bytes of a list of references or files.
const LIST_LIMIT: usize = 8 << 20;

/// Why something could not be had of a repository, for people.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct GitError(pub(crate) String);

/// The program. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Git {
    program: PathBuf,
    commands: Commands,
}

/// Where a repository is, and how to get in.
#[derive(Debug, Clone)]
pub(crate) struct Remote {
    pub(crate) url: String,
    pub(crate) user: String,
    pub(crate) password: Option<String>,
    /// Authorities that may vouch for its server (PEM); empty: those that this machine trusts.
    pub(crate) ca_bundle: String,
}

/// A repository, of which a copy without a work tree is in a directory that is gone with it.
pub(crate) struct Repository<'a> {
    git: &'a Git,
    home: tempfile::TempDir,
    url: String,
    has_password: bool,
}

/// What a file of a commit is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    File,
    Link,
    Submodule,
}

/// A file of a commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) path: String,
    pub(crate) mode: Mode,
    pub(crate) object: String,
    /// In bytes.
    pub(crate) size: usize,
}

impl Git {
    pub(crate) fn new(program: PathBuf, commands: Commands) -> Self {
        Self { program, commands }
    }

    /// An empty copy of a repository.
    ///
    /// # Errors
    /// There is no Git here, or the directory cannot be made.
    pub(crate) async fn open(&self, remote: &Remote) -> Result<Repository<'_>, GitError> {
        if !commands::is_there(&self.program) {
            return Err(GitError(format!(
                "there is no {} where the server runs: install Git there (Debian: git)",
                self.program.display()
            )));
        }
        let cannot = |e: std::io::Error| GitError(format!("a directory for the repository cannot be made: {e}"));
        let home = tempfile::Builder::new().prefix("vctl-git-").tempdir().map_err(cannot)?;
        // `safe.directory`: a repository that is named on purpose may belong to somebody else.
        let mut settings = "[core]\n\thooksPath = /dev/null\n\tfsmonitor = false\n\tsymlinks = false\n[safe]\n\tdirectory = *\n\
                            [protocol]\n\tallow = never\n[protocol \"https\"]\n\tallow = always\n[protocol \"file\"]\n\tallow = always\n\
                            [http]\n\tfollowRedirects = false\n\tlowSpeedLimit = 1000\n\tlowSpeedTime = 30\n\
                            [transfer]\n\tfsckObjects = true\n[fetch]\n\trecurseSubmodules = false\n[submodule]\n\trecurse = false\n\
                            [gc]\n\tauto = 0\n[credential]\n\thelper =\n[init]\n\tdefaultBranch = main\n"
            .to_owned();
        if let Some(password) = &remote.password {
            // In a file that only this user reads, not in arguments that everybody on the machine sees.
            let credentials = STANDARD.encode(format!("{}:{password}", remote.user));
            settings.push_str(&format!("[http]\n\textraHeader = \"Authorization: Basic {credentials}\"\n"));
        }
        if !remote.ca_bundle.is_empty() {
            let file = home.path().join("ca.pem");
            std::fs::write(&file, &remote.ca_bundle).map_err(cannot)?;
            settings.push_str(&format!("[http]\n\tsslCAInfo = \"{}\"\n", file.display()));
        }
        std::fs::write(home.path().join("gitconfig"), settings).map_err(cannot)?;
        let has_password = remote.password.is_some();
        let repository = Repository { git: self, home, url: remote.url.clone(), has_password };
        repository.run(&["init", "--quiet", "--bare", "--template=", "repository"], &[], LIST_LIMIT, false).await?;
        Ok(repository)
    }
}

impl Repository<'_> {
    async fn run(&self, arguments: &[&str], input: &[u8], limit: usize, inside: bool) -> Result<Vec<u8>, GitError> {
        let home = self.home.path();
        let mut command = self.git.commands.command(&self.git.program, home);
        if inside {
            command.arg("--git-dir").arg(home.join("repository"));
        }
        command.args(arguments);
        command.env("GIT_CONFIG_NOSYSTEM", "1").env("GIT_CONFIG_GLOBAL", home.join("gitconfig"));
        command
            .env("GIT_TERMINAL_PROMPT", "0")
            .env("GIT_ASKPASS", "/bin/false")
            .env("GIT_ALLOW_PROTOCOL", "https:file");
        command.env("GIT_NO_REPLACE_OBJECTS", "1").env("GIT_OPTIONAL_LOCKS", "0").env("GIT_ATTR_NOSYSTEM", "1");
        let what = arguments.first().copied().unwrap_or_default();
        commands::output(command, input, limit, TIME).await.map_err(|why| {
            let home = home.display().to_string();
            let why = explained(&why.trim_start_matches("fatal: ").replace(&home, ""), self.has_password);
            GitError(format!("git {what}: {why}"))
        })
    }

    /// Branches and tags with their commits: `refs/heads/main`, `refs/tags/v1.0.0`.
    ///
    /// # Errors
    /// What Git says.
    pub(crate) async fn references(&self) -> Result<BTreeMap<String, String>, GitError> {
        let arguments = ["ls-remote", "--quiet", "--", &self.url, "refs/heads/*", "refs/tags/*"];
        let listed = self.run(&arguments, &[], LIST_LIMIT, true).await?;
        let mut references = BTreeMap::new();
        for line in String::from_utf8_lossy(&listed).lines() {
            if let Some((commit, name)) = line.split_once('\t') {
                // A tag that is an object of its own comes twice; what it names comes second.
                let name = name.strip_suffix("^{}").unwrap_or(name);
                references.insert(name.to_owned(), commit.to_owned());
            }
        }
        Ok(references)
    }

    /// Brings what references name.
    ///
    /// # Errors
    /// What Git says.
    pub(crate) async fn fetch(&self, references: &[String]) -> Result<(), GitError> {
        let specs: Vec<String> = references.iter().map(|name| format!("+{name}:{name}")).collect();
        let mut arguments =
            vec!["fetch", "--quiet", "--depth=1", "--no-tags", "--no-write-fetch-head", "--", &self.url];
        arguments.extend(specs.iter().map(String::as_str));
        self.run(&arguments, &[], LIST_LIMIT, true).await.map(drop)
    }

    /// All files of what a reference names, under a directory (empty for all).
    ///
    /// # Errors
    /// What Git says.
    pub(crate) async fn files(&self, reference: &str, directory: &str) -> Result<Vec<Entry>, GitError> {
        let commit = format!("{reference}^{{commit}}");
        let mut arguments = vec!["ls-tree", "-r", "-z", "-l", "--full-tree", &commit];
        if !directory.is_empty() {
            arguments.extend(["--", directory]);
        }
        let listed = self.run(&arguments, &[], LIST_LIMIT, true).await?;
        let mut entries = Vec::new();
        for line in listed.split(|b| *b == 0).filter(|line| !line.is_empty()) {
            let line = std::str::from_utf8(line)
                .map_err(|_| GitError("the repository has a file whose name is not UTF-8: rename it".to_owned()))?;
            let Some((head, path)) = line.split_once('\t') else { continue };
            let mut head = head.split_ascii_whitespace();
            let mode = match head.next() {
                Some("120000") => Mode::Link,
                Some("160000") => Mode::Submodule,
                _ => Mode::File,
            };
            let object = head.nth(1).unwrap_or_default().to_owned();
            let size = head.next().and_then(|size| size.parse().ok()).unwrap_or_default();
            entries.push(Entry { path: path.to_owned(), mode, object, size });
        }
        Ok(entries)
    }

    /// The content of files, which together have at most `limit` bytes.
    ///
    /// # Errors
    /// What Git says; that they have more.
    pub(crate) async fn read(&self, entries: &[&Entry], limit: usize) -> Result<Vec<Vec<u8>>, GitError> {
        let total: usize = entries.iter().map(|entry| entry.size).sum();
        if total > limit {
            return Err(GitError(format!("the files have {total} bytes; at most {limit} are allowed")));
        }
        let asked = entries.iter().fold(String::new(), |asked, entry| asked + &entry.object + "\n");
        let printed = total + entries.len() * 200;
        let output = self.run(&["cat-file", "--batch"], asked.as_bytes(), printed, true).await?;
        let odd = || GitError("git cat-file: it answers something else".to_owned());
        let mut left = output.as_slice();
        let mut files = Vec::new();
        for entry in entries {
            let end = left.iter().position(|b| *b == b'\n').ok_or_else(odd)?;
            let head = std::str::from_utf8(&left[..end]).map_err(|_| odd())?;
            if head != format!("{} blob {}", entry.object, entry.size) {
                return Err(odd());
            }
            let content = left.get(end + 1..end + 1 + entry.size).ok_or_else(odd)?;
            files.push(content.to_vec());
            left = left.get(end + 2 + entry.size..).ok_or_else(odd)?;
        }
        Ok(files)
    }
}

/// What Git says of a server, with what to do about it.
fn explained(why: &str, has_password: bool) -> String {
    // It asks somebody for what is missing or wrong, and there is nobody.
    if ["askpass", "could not read Username", "Authentication failed"].iter().any(|text| why.contains(text)) {
        let said = if has_password {
            "the server does not take the user and the password: register the source again with the right ones"
        } else {
            "the server wants a password: register the source again with --user NAME --password-stdin"
        };
        return said.to_owned();
    }
    if why.contains("certificate") {
        return format!(
            "{why}; where an authority of your own signed it, register the source again with --ca-file FILE"
        );
    }
    why.to_owned()
}

/// Whether this is an address that templates may come from: https, or a repository on the machine of the server.
pub(crate) fn is_url(url: &str) -> bool {
    let plain = !url.chars().any(|c| c.is_control() || c.is_whitespace() || c == '"') && url.chars().count() <= 2000;
    let Ok(parsed) = url::Url::parse(url) else { return false };
    let bare = parsed.username().is_empty() && parsed.password().is_none() && parsed.query().is_none();
    let place = match parsed.scheme() {
        "https" => parsed.has_host(),
        "file" => !parsed.has_host() && Path::new(parsed.path()).is_absolute(),
        _ => false,
    };
    plain && bare && place
}

/// Whether this can be a branch, or a pattern of tags (with `*`).
pub(crate) fn is_reference(name: &str) -> bool {
    let inner = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '/' | '-' | '*' | '+');
    !name.is_empty()
        && name.len() <= 200
        && name.chars().all(inner)
        && !name.starts_with(['-', '/', '.'])
        && !name.ends_with(['/', '.'])
        && !name.contains("..")
        && !name.contains("//")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_names_are_checked() {
        for good in ["https://git.example.com/team/templates.git", "file:///srv/git/templates.git"] {
            assert!(is_url(good), "{good}");
        }
        for bad in [
            "http://git.example.com/a",
            "ssh://git@example.com/a",
            "git@example.com:a",
            "ext::sh -c touch% /tmp/x",
            "https://user:secret@example.com/a",
            "--upload-pack=x",
            "file://host/a",
            "https://example.com/a\n",
        ] {
            assert!(!is_url(bad), "{bad}");
        }
        assert!(is_reference("main") && is_reference("release/1.x") && is_reference("v*"));
        for bad in ["", "-x", "a..b", "/a", "a b", "a:b", "a^", "+a~", "a//b"] {
            assert!(!is_reference(bad), "{bad}");
        }
    }
}
