//! `vctl api-key`.

use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use clap_complete::ArgValueCandidates;
use jiff::{SignedDuration, Timestamp};
use vctl_api::rest::{self, CreateApiKey, KeyVerb, NewApiKey, Page, Scopes};

use super::{
    Client, Global,
    client::segment,
    completion,
    error::CliError,
    output::{Format, age, print, show, table},
    rotate_ca::time,
};

/// Arguments of `vctl api-key`.
#[derive(Debug, Args)]
pub(crate) struct ApiKey {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Verb {
    /// Requests that change nothing
    Read,
    /// Requests that change something
    Write,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Make a key; it is shown once
    Create {
        /// What to call it
        name: String,
        /// What it may do
        #[arg(long, value_enum, value_delimiter = ',', default_value = "read")]
        verbs: Vec<Verb>,
        /// Only with environments of this project
        #[arg(long, value_name = "NAME", add = ArgValueCandidates::new(completion::projects))]
        project: Option<String>,
        /// Only with this environment
        #[arg(long, value_name = "NAME", add = ArgValueCandidates::new(completion::environments))]
        environment: Option<String>,
        /// How long it counts, such as 12h or 90d; at most a year
        #[arg(long, value_name = "TIME", value_parser = time)]
        ttl: Duration,
        /// How to print it
        #[arg(long, short, value_enum, default_value_t)]
        output: Format,
    },
    /// List your keys
    #[command(visible_alias = "ls")]
    List {
        /// Those of everybody (administrator)
        #[arg(long)]
        all: bool,
        /// How to print them
        #[arg(long, short, value_enum, default_value_t)]
        output: Format,
    },
    /// End a key at once
    Delete {
        /// Its id
        #[arg(add = ArgValueCandidates::new(completion::api_keys))]
        id: String,
    },
}

impl ApiKey {
    pub(super) async fn run(self, global: &Global) -> Result<(), CliError> {
        let client = Client::open(global)?;
        match self.command {
            Command::Create { name, verbs, project, environment, ttl, output } => {
                let verb = |v: Verb| match v {
                    Verb::Read => KeyVerb::Read,
                    Verb::Write => KeyVerb::Write,
                };
                let ttl = SignedDuration::try_from(ttl).map_err(|e| CliError::Usage(e.to_string()))?;
                let expires_at = Timestamp::now().checked_add(ttl).map_err(|e| CliError::Usage(e.to_string()))?;
                let scopes = Scopes { verbs: verbs.into_iter().map(verb).collect(), project, environment };
                let key: NewApiKey = client.post("api-keys", &CreateApiKey { name, scopes, expires_at }).await?;
                show(output, &key, || format!("{}\n", key.token))
            }
            Command::List { all, output } => {
                let page: Page<rest::ApiKey> = client.get(if all { "api-keys?all" } else { "api-keys" }).await?;
                show(output, &page.items, || render(&page.items, Timestamp::now()))
            }
            Command::Delete { id } => {
                client.delete_nothing(&format!("api-keys/{}", segment(&id))).await?;
                print(&format!("API key {id} counts no more\n"))
            }
        }
    }
}

fn render(keys: &[rest::ApiKey], now: Timestamp) -> String {
    if keys.is_empty() {
        return "no API keys: make one with `vctl api-key create NAME --ttl 30d`\n".to_owned();
    }
    let row = |k: &rest::ApiKey| {
        let verbs: Vec<String> = k.scopes.verbs.iter().map(|v| format!("{v:?}").to_lowercase()).collect();
        let mut scopes = vec![verbs.join(",")];
        scopes.extend(k.scopes.project.iter().map(|p| format!("project={p}")));
        scopes.extend(k.scopes.environment.iter().map(|e| format!("environment={e}")));
        let used = k.last_used_at.map_or("never".to_owned(), |at| age(at, now));
        let left = if k.expires_at > now { age(now, k.expires_at) } else { "expired".to_owned() };
        [k.id.clone(), k.name.clone(), scopes.join(" "), left, used, k.user.clone()]
    };
    table(["ID", "NAME", "SCOPES", "ENDS IN", "LAST USED", "USER"], &keys.iter().map(row).collect::<Vec<_>>())
}
