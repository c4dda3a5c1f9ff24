//! The servers that somebody has signed in to: `vctl/config.yaml` under the XDG configuration directory, mode 0600.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use vctl_api::rest::TokenResponse;

use super::{
    directories,
    error::CliError,
    kubeconfig::{Lock, write_private},
};

/// All contexts.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Contexts {
    /// Used when none is named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) current_context: Option<String>,
    #[serde(default)]
    pub(crate) contexts: Vec<Entry>,
}

/// One server, and the credential for it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Entry {
    pub(crate) name: String,
    /// `https://HOST:PORT`.
    pub(crate) server: String,
    /// The authority (PEM) of its certificate; none: those of the machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) certificate_authority: Option<String>,
    /// Who is signed in, as the server says it.
    #[serde(default)]
    pub(crate) actor: String,
    /// Good for one refresh; empty after `vctl logout`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) refresh_token: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) access_token: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) expires_at: Option<Timestamp>,
}

/// Where the contexts are kept.
pub(crate) fn config_file() -> Result<PathBuf, CliError> {
    directories::config()
        .map(|base| base.join("vctl").join("config.yaml"))
        .ok_or_else(|| CliError::Usage("neither HOME nor XDG_CONFIG_HOME is set: set one of them".to_owned()))
}

impl Entry {
    /// Takes over what the server answered.
    pub(crate) fn take(&mut self, tokens: TokenResponse) {
        let life = SignedDuration::from_secs(i64::try_from(tokens.expires_in).unwrap_or_default());
        self.expires_at = Timestamp::now().checked_add(life).ok();
        self.access_token = tokens.access_token;
        self.actor = tokens.actor;
        if let Some(next) = tokens.refresh_token {
            self.refresh_token = next;
        }
    }
}

impl Contexts {
    /// What the file holds; nothing when there is none.
    pub(crate) fn load(path: &Path) -> Result<Self, CliError> {
        match fs::read_to_string(path) {
            Ok(text) if text.trim().is_empty() => Ok(Self::default()),
            Ok(text) => serde_yaml::from_str(&text).map_err(|e| {
                CliError::Failed(format!("{}: {e}; mend it, or remove it and sign in again", path.display()))
            }),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(Self::default()),
            Err(e) => Err(CliError::file(path)(e)),
        }
    }

    /// Changes the file, while no other command does.
    pub(crate) async fn change<T>(
        path: &Path,
        change: impl FnOnce(&mut Self) -> Result<T, CliError>,
    ) -> Result<T, CliError> {
        let _lock = Self::lock(path).await?;
        let mut contexts = Self::load(path)?;
        let done = change(&mut contexts)?;
        contexts.write(path)?;
        Ok(done)
    }

    /// Keeps other commands from changing the file.
    pub(crate) async fn lock(path: &Path) -> Result<Lock, CliError> {
        if let Some(dir) = path.parent() {
            fs::create_dir_all(dir).map_err(CliError::file(dir))?;
        }
        Lock::take(path).await
    }

    /// Replaces the file, under its lock.
    pub(crate) fn write(&self, path: &Path) -> Result<(), CliError> {
        let text = serde_yaml::to_string(self).map_err(|e| CliError::Failed(e.to_string()))?;
        write_private(path, text.as_bytes())
    }

    /// The context of this name.
    ///
    /// # Errors
    /// With the names there are.
    pub(crate) fn get(&self, name: &str) -> Result<&Entry, CliError> {
        self.contexts.iter().find(|c| c.name == name).ok_or_else(|| {
            let names: Vec<&str> = self.contexts.iter().map(|c| c.name.as_str()).collect();
            let there =
                if names.is_empty() { "there are none".to_owned() } else { format!("there are: {}", names.join(", ")) };
            CliError::Usage(format!("there is no context {name:?} ({there}): sign in with `vctl login --server URL`"))
        })
    }

    /// The context of a server.
    pub(crate) fn of_server(&self, server: &str) -> Option<&Entry> {
        let server = server.trim_end_matches('/');
        let current = self.current_context.as_deref();
        let fitting = || self.contexts.iter().filter(|c| c.server == server);
        fitting().find(|c| Some(c.name.as_str()) == current).or_else(|| fitting().next())
    }

    /// Adds a context, or replaces the one of its name.
    pub(crate) fn put(&mut self, entry: Entry) {
        match self.contexts.iter_mut().find(|c| c.name == entry.name) {
            Some(same) => *same = entry,
            None => self.contexts.push(entry),
        }
    }
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn entry(name: &str, server: &str) -> Entry {
        Entry {
            name: name.to_owned(),
            server: server.to_owned(),
            certificate_authority: None,
            actor: "a".to_owned(),
            refresh_token: "r".to_owned(),
            access_token: String::new(),
            expires_at: None,
        }
    }

    #[tokio::test]
    async fn the_file_is_private_and_keeps_what_it_is_told() {
        let dir = tempfile::tempdir().expect("dir");
        let path = dir.path().join("vctl").join("config.yaml");
        assert_eq!(Contexts::load(&path).expect("none"), Contexts::default());
        for (name, server) in [("a", "https://a"), ("b", "https://b"), ("a", "https://c")] {
            Contexts::change(&path, |all| {
                all.put(entry(name, server));
                Ok(())
            })
            .await
            .expect("changed");
        }
        let all = Contexts::load(&path).expect("read");
        assert_eq!(all.contexts, [entry("a", "https://c"), entry("b", "https://b")]);
        assert_eq!(all.of_server("https://b/").map(|c| c.name.as_str()), Some("b"));
        assert!(all.get("x").expect_err("none").to_string().contains("a, b"));
        assert_eq!(fs::metadata(&path).expect("metadata").permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(path.parent().expect("dir")).expect("dir").count(), 1, "no lock stays");
    }
}
