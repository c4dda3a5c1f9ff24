//! `vctl kubeconfig`.

use std::{
    fs, io,
    io::Write,
    path::{Path, PathBuf},
    time::Duration,
};

use clap::Args;
use clap_complete::ArgValueCandidates;
use serde_yaml::{Mapping, Value};
use vctl_api::rest::{self, CreateEnvironmentToken, EnvironmentToken};

use super::{Client, Global, client::segment, completion, directories, error::CliError, output::print};

/// How often, and with what pause, a locked kubeconfig is tried.
const LOCK_TRIES: usize = 50;
const LOCK_PAUSE: Duration = Duration::from_millis(100);

/// Arguments of `vctl kubeconfig`.
#[derive(Debug, Args)]
pub(crate) struct Kubeconfig {
    /// Name of the environment
    #[arg(add = ArgValueCandidates::new(completion::environments))]
    name: String,
    /// Merge it into ~/.kube/config (or the first file of KUBECONFIG) and make it the current context
    #[arg(long)]
    merge: bool,
    /// With a fixed token instead of a program that gets one: for machines without vctl, such as CI
    #[arg(long = "static", requires = "ttl")]
    fixed: bool,
    /// How long the fixed token counts, such as 1h; at most 30d
    #[arg(long, value_name = "TIME", value_parser = super::rotate_ca::time, requires = "fixed")]
    ttl: Option<Duration>,
}

impl Kubeconfig {
    pub(super) async fn run(self, global: &Global) -> Result<(), CliError> {
        let client = Client::open(global)?;
        let mut kubeconfig = fetch(&client, &self.name).await?;
        if let Some(ttl) = self.ttl {
            let request = CreateEnvironmentToken { ttl_seconds: Some(ttl.as_secs()) };
            let path = format!("environments/{}/token", segment(&self.name));
            let token: EnvironmentToken = client.post(&path, &request).await?;
            kubeconfig = with_user(&kubeconfig, |user| {
                user.clear();
                user.insert("token".into(), token.token.clone().into());
            })?;
        }
        if !self.merge {
            return print(&kubeconfig);
        }
        let path = own_kubeconfig()?;
        let context = merge_into(&path, &kubeconfig, Current::New).await?;
        print(&format!("{} has context {context}, which is the current one\n", path.display()))
    }
}

/// The kubeconfig of an environment. Where it names `vctl` to get tokens, that is this program with the context that was used.
pub(super) async fn fetch(client: &Client, name: &str) -> Result<String, CliError> {
    let answer: rest::Kubeconfig = client.get(&format!("environments/{}/kubeconfig", segment(name))).await?;
    if !answer.kubeconfig.contains("exec:") {
        return Ok(answer.kubeconfig);
    }
    let in_path =
        std::env::var_os("PATH").is_some_and(|path| std::env::split_paths(&path).any(|dir| dir.join("vctl").is_file()));
    let own = std::env::current_exe().map_err(CliError::Output)?;
    let which = client.context().map_or(["--server", client.url()], |context| ["--context", context]);
    let arguments: Vec<Value> = ["token", "--environment", name].into_iter().chain(which).map(Value::from).collect();
    with_user(&answer.kubeconfig, |user| {
        if let Some(exec) = user.get_mut("exec").and_then(Value::as_mapping_mut) {
            if !in_path {
                exec.insert("command".into(), own.display().to_string().into());
            }
            exec.insert("args".into(), arguments.clone().into());
        }
    })
}

/// Changes the credentials in a kubeconfig.
fn with_user(kubeconfig: &str, change: impl Fn(&mut Mapping)) -> Result<String, CliError> {
    let broken = |e: serde_yaml::Error| CliError::Answer(e.to_string());
    let mut document: Value = serde_yaml::from_str(kubeconfig).map_err(broken)?;
    for entry in document.get_mut("users").and_then(Value::as_sequence_mut).into_iter().flatten() {
        if let Some(user) = entry.get_mut("user").and_then(Value::as_mapping_mut) {
            change(user);
        }
    }
    serde_yaml::to_string(&document).map_err(broken)
}

/// As kubectl: the first file of KUBECONFIG, else `~/.kube/config`.
pub(super) fn own_kubeconfig() -> Result<PathBuf, CliError> {
    if let Some(list) = std::env::var_os("KUBECONFIG")
        && let Some(first) = std::env::split_paths(&list).find(|p| !p.as_os_str().is_empty())
    {
        return Ok(first);
    }
    let home = directories::home();
    let home = home.ok_or_else(|| CliError::Usage("HOME is not set: set it or KUBECONFIG".to_owned()))?;
    Ok(home.join(".kube").join("config"))
}

/// Which context is the current one after a merge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Current {
    /// That of the new kubeconfig.
    New,
    /// The same as before; that of the new kubeconfig when there was none.
    Kept,
}

/// Merges a kubeconfig into a file: same names are replaced, everything else stays as it is. The file is replaced at once or not
/// at all, under the lock that kubectl takes too. Returns the name of the new kubeconfig's context.
pub(super) async fn merge_into(path: &Path, new: &str, current: Current) -> Result<String, CliError> {
    // A link stays a link: what it points to is replaced.
    let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    if let Some(dir) = path.parent() {
        fs::create_dir_all(dir).map_err(CliError::file(dir))?;
    }
    let _lock = Lock::take(&path).await?;
    let old = match fs::read_to_string(&path) {
        Ok(text) => text,
        Err(e) if e.kind() == io::ErrorKind::NotFound => String::new(),
        Err(e) => return Err(CliError::file(path)(e)),
    };
    let (merged, context) = merge(&old, new, current).map_err(|why| {
        CliError::Failed(format!(
            "{}: {why}; nothing was changed. Mend it, or print with `vctl kubeconfig NAME`",
            path.display()
        ))
    })?;
    write_private(&path, merged.as_bytes())?;
    Ok(context)
}

/// Pure part of merging.
fn merge(old: &str, new: &str, current: Current) -> Result<(String, String), String> {
    let mapping = |text: &str| match serde_yaml::from_str::<Value>(text).map_err(|e| e.to_string())? {
        Value::Null => Ok(Mapping::new()),
        Value::Mapping(mapping) => Ok(mapping),
        _ => Err("is not a kubeconfig".to_owned()),
    };
    let (mut old, new) = (mapping(old)?, mapping(new)?);
    for (key, value) in [("apiVersion", "v1"), ("kind", "Config")] {
        match old.get(key) {
            None => {
                old.insert(key.into(), value.into());
            }
            Some(found) if found.as_str() == Some(value) => {}
            Some(_) => return Err(format!("its {key} is not {value}")),
        }
    }
    for list in ["clusters", "users", "contexts"] {
        let items = match old.get_mut(list) {
            None | Some(Value::Null) => {
                old.insert(list.into(), Value::Sequence(Vec::new()));
                old.get_mut(list)
            }
            found => found,
        };
        let items = items.and_then(Value::as_sequence_mut).ok_or_else(|| format!("its {list} is not a list"))?;
        for item in new.get(list).and_then(Value::as_sequence).into_iter().flatten() {
            let name = item.get("name");
            match items.iter_mut().find(|i| i.get("name") == name) {
                Some(same) => *same = item.clone(),
                None => items.push(item.clone()),
            }
        }
    }
    let context = new.get("current-context").and_then(Value::as_str).unwrap_or_default().to_owned();
    let before = old.get("current-context").and_then(Value::as_str).unwrap_or_default();
    if current == Current::New || before.is_empty() {
        old.insert("current-context".into(), context.clone().into());
    }
    serde_yaml::to_string(&old).map(|text| (text, context)).map_err(|e| e.to_string())
}

/// Writes a file that only its owner can read: beside it, then renamed over it.
pub(super) fn write_private(path: &Path, content: &[u8]) -> Result<(), CliError> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{:016x}", rand::random::<u64>()));
    let beside = path.with_file_name(name);
    let write = || -> io::Result<()> {
        let mut options = fs::OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let mut file = options.open(&beside)?;
        file.write_all(content)?;
        file.sync_all()?;
        fs::rename(&beside, path)
    };
    write().map_err(|e| {
        // The reason is what matters; the half-written file is removed as well as can be.
        let _ = fs::remove_file(&beside);
        CliError::file(path)(e)
    })
}

/// `FILE.lock`, as client-go takes it.
pub(super) struct Lock(PathBuf);

impl Lock {
    pub(super) async fn take(path: &Path) -> Result<Self, CliError> {
        let mut name = path.file_name().unwrap_or_default().to_owned();
        name.push(".lock");
        let lock = path.with_file_name(name);
        for _ in 0..LOCK_TRIES {
            match fs::OpenOptions::new().write(true).create_new(true).open(&lock) {
                Ok(_) => return Ok(Self(lock)),
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => tokio::time::sleep(LOCK_PAUSE).await,
                Err(e) => return Err(CliError::file(lock)(e)),
            }
        }
        Err(CliError::Failed(format!(
            "{} has been there for {} s: another program changes the file, or one has died doing so. Remove it and try again",
            lock.display(),
            (LOCK_PAUSE * LOCK_TRIES as u32).as_secs()
        )))
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // Whoever comes next is told about a lock that stays.
        let _ = fs::remove_file(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEW: &str = "apiVersion: v1\nkind: Config\ncurrent-context: vctl_one\nclusters: [{name: vctl_one, cluster: {server: https://b}}]\n\
                       users: [{name: vctl_one, user: {token: t}}]\ncontexts: [{name: vctl_one, context: {cluster: vctl_one, user: vctl_one}}]\n";
    const OLD: &str = "apiVersion: v1\nkind: Config\ncurrent-context: mine\npreferences: {colors: true}\n\
                       clusters: [{name: c, cluster: {server: https://a, x: 1}}]\nusers: [{name: u, user: {}}]\n\
                       contexts: [{name: mine, context: {cluster: c, user: u}}]\n";

    #[tokio::test]
    async fn merging_keeps_everything_and_replaces_its_own() {
        let dir = tempfile::tempdir().expect("dir");
        let path = dir.path().join("kube").join("config");
        assert_eq!(merge_into(&path, NEW, Current::New).await.expect("new file"), "vctl_one");
        fs::write(&path, OLD).expect("write");
        merge_into(&path, NEW, Current::New).await.expect("merged");
        merge_into(&path, &NEW.replace("https://b", "https://c"), Current::New).await.expect("merged again");
        let merged: Value = serde_yaml::from_str(&fs::read_to_string(&path).expect("read")).expect("yaml");
        let old: Value = serde_yaml::from_str(OLD).expect("yaml");
        for list in ["clusters", "users", "contexts"] {
            assert_eq!(merged[list][0], old[list][0], "{list}");
            assert_eq!(merged[list].as_sequence().map(Vec::len), Some(2), "{list}");
        }
        assert_eq!(merged["clusters"][1]["cluster"]["server"], "https://c");
        assert_eq!((&merged["current-context"], &merged["preferences"]), (&"vctl_one".into(), &old["preferences"]));
        for (old, current) in [(OLD, "mine"), ("", "vctl_one")] {
            let (text, context) = merge(old, NEW, Current::Kept).expect("merged");
            let merged: Value = serde_yaml::from_str(&text).expect("yaml");
            assert_eq!((&merged["current-context"], &*context), (&current.into(), "vctl_one"));
        }
        let left: Vec<_> = fs::read_dir(dir.path().join("kube")).expect("dir").collect();
        assert_eq!(left.len(), 1, "neither lock nor half-written file stays: {left:?}");
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            assert_eq!(fs::metadata(&path).expect("metadata").permissions().mode() & 0o777, 0o600);
        }
    }

    #[tokio::test]
    async fn a_file_that_is_no_kubeconfig_is_left_alone() {
        let dir = tempfile::tempdir().expect("dir");
        let path = dir.path().join("config");
        for broken in ["a: [", "- 1\n", "apiVersion: v2\n", "clusters: 5\n"] {
            fs::write(&path, broken).expect("write");
            let error = merge_into(&path, NEW, Current::New).await.expect_err(broken).to_string();
            assert!(error.contains("nothing was changed"), "{error}");
            assert_eq!(fs::read_to_string(&path).expect("read"), broken);
        }
    }
}
