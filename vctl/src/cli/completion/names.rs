//! Names that the server knows, asked for while somebody presses tab: at most for a second, and without a word when there is none.

use std::{
    ffi::{OsStr, OsString},
    future::Future,
    time::Duration,
};

use clap::Parser as _;
use clap_complete::CompletionCandidate;
use serde_json::Value;
use vctl_api::rest::Page;

use super::offer::{described, offer};
use crate::cli::{
    Client, Global,
    client::segment,
    contexts::{Contexts, config_file},
    error::CliError,
};

/// Nobody waits longer for a name.
const PATIENCE: Duration = Duration::from_secs(1);

/// Environments, with their phases.
pub(crate) fn environments() -> Vec<CompletionCandidate> {
    listed("environments", "name", &["phase", "template"])
}

/// Templates, with their titles; behind an `@` the versions and channels of the one before it.
pub(crate) fn templates(current: &OsStr) -> Vec<CompletionCandidate> {
    let current = current.to_string_lossy();
    let all = match current.split_once('@') {
        None => listed("templates", "name", &["title"]),
        Some((name, _)) => wait(async {
            let versions = items(&format!("templates/{}/versions?yanked=false", segment(name))).await?;
            let mut channels: Vec<String> = versions.iter().flat_map(|v| texts(&v["channels"])).collect();
            channels.sort();
            channels.dedup();
            let of_versions =
                versions.iter().map(|v| offer(format!("{name}@{}", text(v, "version")), help(v, &["title"])));
            let of_channels = channels.iter().map(|c| offer(format!("{name}@{c}"), Some("channel".to_owned())));
            Ok::<Vec<_>, CliError>(of_versions.chain(of_channels).flatten().collect())
        })
        .unwrap_or_default(),
    };
    beginning(all, &current)
}

/// Versions of the template that the line names behind `yank`.
pub(crate) fn versions() -> Vec<CompletionCandidate> {
    let words = words();
    let template = words.iter().skip_while(|word| *word != "yank").skip(1).find(|word| !word.starts_with('-'));
    let Some(template) = template else { return Vec::new() };
    listed(&format!("templates/{}/versions", segment(template)), "version", &["title"])
}

/// Projects.
pub(crate) fn projects() -> Vec<CompletionCandidate> {
    listed("projects", "name", &["title"])
}

/// Jobs, newest first.
pub(crate) fn jobs() -> Vec<CompletionCandidate> {
    listed("jobs?limit=50", "id", &["operation", "environment", "state"])
}

/// Teams.
pub(crate) fn teams() -> Vec<CompletionCandidate> {
    listed("teams", "name", &["title"])
}

/// Roles, also those that are built in.
pub(crate) fn roles() -> Vec<CompletionCandidate> {
    listed("roles", "name", &["title"])
}

/// Ids of the people who have signed in.
pub(crate) fn users() -> Vec<CompletionCandidate> {
    listed("users", "id", &["name", "email"])
}

/// The same by their email addresses, where they have one.
pub(crate) fn people() -> Vec<CompletionCandidate> {
    let asked = async {
        let users = items("users").await?;
        let named = |user: &Value| {
            let name = [text(user, "email"), text(user, "id")].into_iter().find(|name| !name.is_empty());
            name.and_then(|name| offer(name, help(user, &["name"])))
        };
        Ok::<Vec<_>, CliError>(users.iter().filter_map(named).collect())
    };
    wait(asked).unwrap_or_default()
}

/// Webhooks, with their addresses.
pub(crate) fn webhooks() -> Vec<CompletionCandidate> {
    listed("webhooks", "name", &["url"])
}

/// Registered databases and services.
pub(crate) fn resources() -> Vec<CompletionCandidate> {
    listed("resources", "name", &["kind", "host"])
}

/// Ids of one's own keys.
pub(crate) fn api_keys() -> Vec<CompletionCandidate> {
    listed("api-keys", "id", &["name"])
}

/// Ids of one's own logins, by their machines.
pub(crate) fn logins() -> Vec<CompletionCandidate> {
    listed("logins", "id", &["client"])
}

/// Requests for approval, newest first.
pub(crate) fn approvals() -> Vec<CompletionCandidate> {
    listed("approvals?limit=50", "id", APPROVAL)
}

/// Those that whoever asks can decide.
pub(crate) fn decidable() -> Vec<CompletionCandidate> {
    listed("approvals?limit=50&decidable=true", "id", APPROVAL)
}

/// One's own.
pub(crate) fn own_approvals() -> Vec<CompletionCandidate> {
    listed("approvals?limit=50&mine=true", "id", APPROVAL)
}

const APPROVAL: &[&str] = &["state", "kind", "environment", "project", "requestedBy"];

/// Rules for approval: those of the platform, or of the project that the line names.
pub(crate) fn approval_rules() -> Vec<CompletionCandidate> {
    let path = match value_of(&words(), &["--project"]) {
        Some(project) => format!("projects/{}/approval-rules", segment(&project)),
        None => "approval-rules".to_owned(),
    };
    listed(&path, "name", &["title"])
}

/// Git repositories that templates come from.
pub(crate) fn template_sources() -> Vec<CompletionCandidate> {
    listed("template-sources", "name", &["url"])
}

/// Servers that somebody has signed in to.
pub(crate) fn contexts() -> Vec<CompletionCandidate> {
    let all = config_file().and_then(|file| Contexts::load(&file)).unwrap_or_default();
    all.contexts.into_iter().filter_map(|c| offer(c.name, Some(c.server))).collect()
}

/// The same, and the server of the data directory.
pub(crate) fn contexts_and_local() -> Vec<CompletionCandidate> {
    let local = described("local", Some("the server of the data directory".to_owned()));
    contexts().into_iter().chain([local]).collect()
}

/// `BINDING=RESOURCE`: bindings of the template that the line names, then resources of the kind that the binding wants.
pub(crate) fn bindings(current: &OsStr) -> Vec<CompletionCandidate> {
    let current = current.to_string_lossy();
    let asked = async {
        let template = template_of_line().await?;
        let bindings = template["bindings"].as_array().cloned().unwrap_or_default();
        let Some((name, _)) = current.split_once('=') else {
            let candidate = |b: &Value| offer(text(b, "name") + "=", help(b, &["kind", "help"]));
            return Ok::<Vec<_>, CliError>(bindings.iter().filter_map(candidate).collect());
        };
        let kind = bindings.iter().find(|b| b["name"] == *name).map(|b| b["kind"].clone());
        let resources = items("resources").await?;
        let fitting = resources.iter().filter(|r| kind.as_ref().is_none_or(|kind| r["kind"] == *kind));
        Ok(fitting.filter_map(|r| offer(format!("{name}={}", text(r, "name")), help(r, &["kind", "host"]))).collect())
    };
    beginning(wait(asked).unwrap_or_default(), &current)
}

/// `NAME=VALUE`: parameters of the template that the line means, then the values where there are only some.
pub(crate) fn parameters(current: &OsStr) -> Vec<CompletionCandidate> {
    let current = current.to_string_lossy();
    let asked = async {
        let template = template_of_line().await?;
        let parameters = template["parameters"].as_array().cloned().unwrap_or_default();
        let Some((name, _)) = current.split_once('=') else {
            let candidate = |p: &Value| offer(text(p, "name") + "=", help(p, &["help"]));
            return Ok::<Vec<_>, CliError>(parameters.iter().filter_map(candidate).collect());
        };
        let values = match parameters.iter().find(|p| p["name"] == *name) {
            Some(p) if p["type"] == "resource" => {
                let resources = items("resources").await?;
                let fitting =
                    resources.iter().filter(|r| p["resourceKind"].is_null() || r["kind"] == p["resourceKind"]);
                fitting.map(|r| text(r, "name")).collect()
            }
            Some(p) if p["type"] == "boolean" => vec!["true".to_owned(), "false".to_owned()],
            Some(p) => texts(&p["choices"]),
            None => Vec::new(),
        };
        Ok(values.iter().filter_map(|value| offer(format!("{name}={value}"), None)).collect())
    };
    beginning(wait(asked).unwrap_or_default(), &current)
}

/// The template that is named on the line, or that of the environment that `set` or `upgrade` is to change.
async fn template_of_line() -> Result<Value, CliError> {
    let words = words();
    let client = Client::open(&global())?;
    let named = value_of(&words, &["--template", "-t"]);
    let environment = words.iter().skip_while(|word| *word != "set" && *word != "upgrade").nth(1);
    let name = match (named, environment) {
        (Some(name), _) => name,
        (None, Some(environment)) => {
            let environment: Value = client.get(&format!("environments/{}", segment(environment))).await?;
            text(&environment, "template")
        }
        (None, None) => return Ok(Value::Null),
    };
    let name = name.split('@').next().unwrap_or_default();
    client.get(&format!("templates/{}", segment(name))).await
}

fn listed(path: &str, name: &str, said: &[&str]) -> Vec<CompletionCandidate> {
    let candidate = |item: &Value| offer(text(item, name), help(item, said));
    wait(items(path)).unwrap_or_default().iter().filter_map(candidate).collect()
}

async fn items(path: &str) -> Result<Vec<Value>, CliError> {
    let page: Page<Value> = Client::open(&global())?.get(path).await?;
    Ok(page.items)
}

fn text(item: &Value, field: &str) -> String {
    item[field].as_str().unwrap_or_default().to_owned()
}

fn texts(list: &Value) -> Vec<String> {
    list.as_array().into_iter().flatten().filter_map(|item| item.as_str().map(str::to_owned)).collect()
}

fn help(item: &Value, fields: &[&str]) -> Option<String> {
    let said: Vec<String> = fields.iter().map(|field| text(item, field)).filter(|t| !t.is_empty()).collect();
    (!said.is_empty()).then(|| said.join(", "))
}

fn beginning(all: Vec<CompletionCandidate>, current: &str) -> Vec<CompletionCandidate> {
    all.into_iter().filter(|candidate| candidate.get_value().to_string_lossy().starts_with(current)).collect()
}

/// The words of the line behind the name of this program. Shells give the line after `--`, kubectl gives nothing else.
fn words() -> Vec<String> {
    let all: Vec<OsString> = std::env::args_os().collect();
    let begin = all.iter().position(|word| word == "--").map_or(1, |at| at + 2);
    all.iter().skip(begin).map(|word| word.to_string_lossy().into_owned()).collect()
}

/// The value that an option has on the line so far.
fn value_of(words: &[String], names: &[&str]) -> Option<String> {
    let at = words.iter().position(|word| {
        names.iter().any(|name| word == name || (word.starts_with("--") && word.starts_with(&format!("{name}="))))
    })?;
    let joined = words.get(at)?.split_once('=').map(|(_, value)| value.to_owned());
    joined.or_else(|| words.get(at + 1).cloned())
}

/// The server that the line so far means; what is not finished yet does not count.
fn global() -> Global {
    #[derive(clap::Parser)]
    #[command(ignore_errors = true, disable_help_flag = true, disable_version_flag = true, no_binary_name = true)]
    struct Line {
        #[command(flatten)]
        global: Global,
        #[arg(trailing_var_arg = true)]
        _rest: Vec<OsString>,
    }
    // Of the line only the options that say which server is meant are of interest.
    let words = words();
    let kept = ["--data-dir", "--context"].map(|name| value_of(&words, &[name]).map(|value| format!("{name}={value}")));
    match Line::try_parse_from(kept.into_iter().flatten()) {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_stand_behind_their_options_or_are_joined_to_them() {
        let of = |line: &str, names: &[&str]| value_of(&line.split(' ').map(str::to_owned).collect::<Vec<_>>(), names);
        assert_eq!(of("create x --template=app@beta --bind", &["--template", "-t"]).as_deref(), Some("app@beta"));
        assert_eq!(of("create x -t app --bind", &["--template", "-t"]).as_deref(), Some("app"));
        assert_eq!(of("create x --templates app", &["--template", "-t"]), None);
        assert_eq!(of("create x -t", &["--template", "-t"]), None);
    }
}
