//! Names that the server knows, asked for while somebody presses tab: at most for a second, and without a word when there is none.

use std::{future::Future, time::Duration};

use clap::Parser as _;
use clap_complete::CompletionCandidate;
use serde_json::Value;
use vctl_api::rest::Page;

use crate::cli::{
    Client, Global,
    contexts::{Contexts, config_file},
    error::CliError,
};

/// Nobody waits longer for a name.
const PATIENCE: Duration = Duration::from_secs(1);

/// Environments, with their phases.
pub(crate) fn environments() -> Vec<CompletionCandidate> {
    listed("environments", "name", &["phase", "template"])
}

/// Templates, with their titles.
pub(crate) fn templates() -> Vec<CompletionCandidate> {
    listed("templates", "name", &["title"])
}

/// Projects.
pub(crate) fn projects() -> Vec<CompletionCandidate> {
    listed("projects", "name", &["title"])
}

/// Jobs, newest first.
pub(crate) fn jobs() -> Vec<CompletionCandidate> {
    listed("jobs?limit=50", "id", &["operation", "environment", "state"])
}

/// Servers that somebody has signed in to.
pub(crate) fn contexts() -> Vec<CompletionCandidate> {
    let all = config_file().and_then(|file| Contexts::load(&file)).unwrap_or_default();
    all.contexts.into_iter().map(|c| CompletionCandidate::new(c.name).help(Some(c.server.into()))).collect()
}

fn listed(path: &str, name: &str, help: &[&str]) -> Vec<CompletionCandidate> {
    let asked = async {
        let page: Page<Value> = Client::open(&global())?.get(path).await?;
        Ok::<_, CliError>(page.items)
    };
    let text = |item: &Value, field: &str| item[field].as_str().unwrap_or_default().to_owned();
    let candidate = |item: &Value| {
        let said: Vec<String> = help.iter().map(|field| text(item, field)).filter(|t| !t.is_empty()).collect();
        CompletionCandidate::new(text(item, name)).help((!said.is_empty()).then(|| said.join(", ").into()))
    };
    wait(asked).unwrap_or_default().iter().map(candidate).collect()
}

/// The server that the line so far means; what is not finished yet does not count.
fn global() -> Global {
    #[derive(clap::Parser)]
    #[command(ignore_errors = true, disable_help_flag = true, disable_version_flag = true, no_binary_name = true)]
    struct Line {
        #[command(flatten)]
        global: Global,
        #[arg(trailing_var_arg = true)]
        _rest: Vec<std::ffi::OsString>,
    }
    // The line stands after `--`; of it only the options that say which server is meant are of interest.
    let mut words = std::env::args_os().skip_while(|word| word != "--").skip(2).peekable();
    let mut kept = Vec::new();
    while let Some(word) = words.next() {
        let text = word.to_string_lossy().into_owned();
        if text == "--data-dir" || text == "--context" {
            kept.push(word);
            kept.extend(words.next());
        } else if text.starts_with("--data-dir=") || text.starts_with("--context=") {
            kept.push(word);
        }
    }
    match Line::try_parse_from(kept) {
        Ok(line) => line.global,
        Err(_) => Global { data_dir: std::env::var_os("VCTL_DATA_DIR").map(Into::into), context: None },
    }
}

fn wait<T>(asked: impl Future<Output = Result<T, CliError>>) -> Option<T> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().ok()?;
    // Fails when it is installed already, which is as good.
    let _ = rustls::crypto::ring::default_provider().install_default();
    runtime.block_on(async { tokio::time::timeout(PATIENCE, asked).await.ok()?.ok() })
}
