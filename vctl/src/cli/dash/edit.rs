//! Changing an object in the person's editor: what the server would store is shown before it is stored, and what somebody else has
//! changed meanwhile is never overwritten.

use std::{
    ffi::{OsStr, OsString},
    fs, io,
    path::Path,
    process::Stdio,
};

use serde_json::Value;
use vctl_tui::model::{Data, Draft, Object, Review};

use super::{
    change,
    cluster::{Cluster, connect, failed},
};
use crate::cli::{Global, error::CliError};

/// Opens an object in the editor.
pub(super) async fn begin(global: &Global, object: Object) -> Result<Data, CliError> {
    let cluster = connect(global, &object.environment).await?;
    let base = readable(cluster.get(&object).await?);
    let text = yaml(&base)?;
    let edited = edit(&text).await?;
    if edited == text {
        return Ok(Data::Notice("nothing was changed".to_owned()));
    }
    review(&cluster, Draft { object, base, edited }).await
}

/// Opens what was written before once more.
pub(super) async fn again(global: &Global, draft: Draft) -> Result<Data, CliError> {
    let cluster = connect(global, &draft.object.environment).await?;
    let edited = edit(&draft.edited).await?;
    review(&cluster, Draft { edited, ..draft }).await
}

/// Stores a change, if nobody else has changed the object.
pub(super) async fn apply(global: &Global, draft: Draft) -> Result<Data, CliError> {
    let cluster = connect(global, &draft.object.environment).await?;
    let Ok(new) = parse(&draft.edited) else { return review(&cluster, draft).await };
    match cluster.put(&draft.object, &new, false).await? {
        Ok(_) => Ok(Data::Notice(format!("{} {} is changed", draft.object.resource, draft.object.name))),
        Err(refusal) if refusal.conflict => conflict(&cluster, draft, &new).await,
        Err(refusal) => Ok(refused(draft, &refusal.message)),
    }
}

/// What the server would make of a change.
async fn review(cluster: &Cluster, draft: Draft) -> Result<Data, CliError> {
    let new = match parse(&draft.edited) {
        Ok(new) => new,
        Err(why) => return Ok(refused(draft, &why)),
    };
    match cluster.put(&draft.object, &new, true).await? {
        Ok(stored) => {
            let diff = change::diff(&yaml(&draft.base)?, &yaml(&readable(stored))?);
            if diff.is_empty() {
                return Ok(Data::Notice("the server would store nothing else than there is".to_owned()));
            }
            let text = format!("The server would store this change (dry run):\n\n{diff}");
            Ok(Data::Review(Review { draft, text, accepted: true }))
        }
        Err(refusal) if refusal.conflict => conflict(cluster, draft, &new).await,
        Err(refusal) => Ok(refused(draft, &refusal.message)),
    }
}

/// Somebody else was faster: shows what they have changed, and the change on top of it.
async fn conflict(cluster: &Cluster, draft: Draft, new: &Value) -> Result<Data, CliError> {
    let live = readable(cluster.get(&draft.object).await?);
    let theirs = change::diff(&yaml(&draft.base)?, &yaml(&live)?);
    let mut merged = live.clone();
    change::apply(&mut merged, &change::patch(&draft.base, new));
    // The change is of the state that is there now.
    merged["metadata"]["resourceVersion"] = live["metadata"]["resourceVersion"].clone();
    let head = format!("Somebody else has changed it meanwhile:\n\n{theirs}\n");
    let next = Draft { object: draft.object, edited: yaml(&merged)?, base: live };
    Ok(match cluster.put(&next.object, &merged, true).await? {
        Ok(stored) => {
            let mine = change::diff(&yaml(&next.base)?, &yaml(&readable(stored))?);
            let text = format!("{head}With your change on top, the server would store (dry run):\n\n{mine}");
            Data::Review(Review { draft: next, text, accepted: true })
        }
        Err(refusal) => {
            let text = format!("{head}Your change on top of it is refused: {}\n", refusal.message);
            Data::Review(Review { draft: next, text, accepted: false })
        }
    })
}

fn refused(draft: Draft, why: &str) -> Data {
    let text = format!("The server does not take this change:\n\n{why}\n");
    Data::Review(Review { draft, text, accepted: false })
}

/// Without what nobody edits.
fn readable(mut object: Value) -> Value {
    if let Some(metadata) = object["metadata"].as_object_mut() {
        metadata.remove("managedFields");
    }
    object
}

fn yaml(value: &Value) -> Result<String, CliError> {
    serde_yaml::to_string(value).map_err(failed)
}

fn parse(text: &str) -> Result<Value, String> {
    let value: Value = serde_yaml::from_str(text).map_err(|e| e.to_string())?;
    if value.is_object() { Ok(value) } else { Err("it is no object".to_owned()) }
}

const USUAL_EDITOR: &str = if cfg!(windows) { "notepad" } else { "vi" };

/// Runs an editor on a file. As for git and kubectl, it may be a command with arguments.
#[cfg(unix)]
fn editor_of(editor: &OsStr, file: &Path) -> tokio::process::Command {
    let mut script = editor.to_owned();
    script.push(" \"$1\"");
    let mut command = tokio::process::Command::new("/bin/sh");
    command.arg("-c").arg(script).arg("sh").arg(file);
    command
}

#[cfg(not(unix))]
fn editor_of(editor: &OsStr, file: &Path) -> tokio::process::Command {
    // A program whose path has spaces is one word.
    let text = editor.to_string_lossy();
    let mut words = if Path::new(editor).is_file() { vec![&*text] } else { text.split_whitespace().collect() };
    let program = if words.is_empty() { USUAL_EDITOR } else { words.remove(0) };
    let mut command = tokio::process::Command::new(program);
    command.args(words).arg(file);
    command
}

/// Runs the editor on a text; what it has become.
async fn edit(text: &str) -> Result<String, CliError> {
    let mut file = tempfile(text)?;
    let variable = |name: &str| std::env::var_os(name).filter(|v| !v.is_empty());
    let editor = variable("VISUAL").or_else(|| variable("EDITOR")).unwrap_or_else(|| OsString::from(USUAL_EDITOR));
    let mut command = editor_of(&editor, &file.0);
    command.stdin(Stdio::inherit()).stdout(Stdio::inherit()).stderr(Stdio::inherit());
    let status = command.status().await.map_err(CliError::file(&editor))?;
    if !status.success() {
        return Err(CliError::Failed(format!("{} ended with {status}: nothing was changed", editor.display())));
    }
    let edited = fs::read_to_string(&file.0).map_err(CliError::file(&file.0))?;
    file.remove();
    Ok(edited)
}

/// A file that only its owner can read, gone afterwards.
struct Temporary(std::path::PathBuf);

impl Temporary {
    fn remove(&mut self) {
        // At worst a file that only its owner can read is left.
        let _ = fs::remove_file(&self.0);
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        self.remove();
    }
}

fn tempfile(text: &str) -> Result<Temporary, CliError> {
    let path = std::env::temp_dir().join(format!("vctl-edit-{:016x}.yaml", rand::random::<u64>()));
    let write = || -> io::Result<()> {
        let mut options = fs::OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        io::Write::write_all(&mut options.open(&path)?, text.as_bytes())
    };
    write().map_err(CliError::file(&path))?;
    Ok(Temporary(path))
}
