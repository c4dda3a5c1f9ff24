//! `vctl template source` and `vctl template sync`: Git repositories that templates come from.

use std::{collections::BTreeMap, path::PathBuf};

use clap::{Args, Subcommand};
use clap_complete::ArgValueCandidates;
use jiff::Timestamp;
use vctl_api::rest::{AddTemplateSource, Page, Period, TemplateSource};

use super::{
    Client, Global, authorities,
    client::segment,
    completion,
    error::CliError,
    output::{Format, age, print, show, table},
    password,
};

/// Arguments of `vctl template source`.
#[derive(Debug, Args)]
pub(crate) struct Source {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Register a Git repository, or replace one
    Add(Add),
    /// List repositories
    #[command(visible_alias = "ls")]
    List(List),
    /// Forget a repository; what was published of it stays
    Remove(Remove),
}

#[derive(Debug, Args)]
struct Add {
    /// Name: lower-case letters, digits and '-'
    name: String,
    /// Where it is: https://HOST/PATH, or file:///PATH on the machine of the server
    #[arg(long)]
    url: String,
    /// A branch, and the channel that its templates go to [default channel: stable]; may be given several times
    #[arg(long = "branch", value_name = "BRANCH[=CHANNEL]", value_parser = pair)]
    branches: Vec<(String, String)>,
    /// Tags such as v* or NAME/v*, and the channel that their templates go to [default channel: stable]; may be given several times
    #[arg(long = "tags", value_name = "PATTERN[=CHANNEL]", value_parser = pair)]
    tags: Vec<(String, String)>,
    /// Directory inside it under which templates are
    #[arg(long, value_name = "DIR", default_value = "")]
    path: String,
    /// How often it is looked at, such as 15m [default: only by `vctl template sync`]
    #[arg(long, value_name = "TIME")]
    every: Option<Period>,
    /// A template that it may publish versions of although the server has it itself, or somebody else has published some; may be given
    /// several times
    #[arg(long, value_name = "TEMPLATE")]
    take_over: Vec<String>,
    /// User name for a repository that asks for one
    #[arg(long, default_value = "")]
    user: String,
    /// Read the password or token from the first line of standard input
    #[arg(long)]
    password_stdin: bool,
    /// Authority (PEM) that signed the certificate of its server [default: those of the server's machine]
    #[arg(long, value_name = "FILE")]
    ca_file: Option<PathBuf>,
}

#[derive(Debug, Args)]
struct List {
    /// How to print them
    #[arg(long, short, value_enum, default_value_t)]
    output: Format,
}

#[derive(Debug, Args)]
struct Remove {
    /// Name of the repository
    #[arg(add = ArgValueCandidates::new(completion::template_sources))]
    name: String,
}

/// Arguments of `vctl template sync`.
#[derive(Debug, Args)]
pub(crate) struct Sync {
    /// Name of the repository; all when nothing is said
    #[arg(add = ArgValueCandidates::new(completion::template_sources))]
    name: Option<String>,
    /// How to print it
    #[arg(long, short, value_enum, default_value_t)]
    output: Format,
}

fn pair(text: &str) -> Result<(String, String), String> {
    let (reference, channel) = text.split_once('=').unwrap_or((text, "stable"));
    Ok((reference.to_owned(), channel.to_owned()))
}

impl Source {
    pub(super) async fn run(self, global: &Global) -> Result<(), CliError> {
        let client = Client::open(global)?;
        match self.command {
            Command::Add(add) => add.run(&client).await,
            Command::List(list) => {
                let page: Page<TemplateSource> = client.get("template-sources").await?;
                show(list.output, &page.items, || rows(&page.items))
            }
            Command::Remove(Remove { name }) => {
                let removed: TemplateSource = client.delete(&format!("template-sources/{}", segment(&name))).await?;
                print(&format!("template source {} is removed; its versions stay\n", removed.name))
            }
        }
    }
}

impl Add {
    async fn run(self, client: &Client) -> Result<(), CliError> {
        let password = password::from_stdin(self.password_stdin)?;
        let ca_bundle = authorities::read("--ca-file", self.ca_file.as_deref())?.unwrap_or_default();
        let Self { name, url, branches, tags, path, every, take_over, user, .. } = self;
        let all = |pairs: Vec<(String, String)>| pairs.into_iter().collect::<BTreeMap<_, _>>();
        let (branches, tags) = (all(branches), all(tags));
        let request =
            AddTemplateSource { name, url, path, branches, tags, every, take_over, user, password, ca_bundle };
        let added: TemplateSource = client.post("template-sources", &request).await?;
        print(&format!("template source {0} is registered; look at it: vctl template sync {0}\n", added.name))
    }
}

impl Sync {
    pub(super) async fn run(self, global: &Global) -> Result<(), CliError> {
        let client = Client::open(global)?;
        let names = match self.name {
            Some(name) => vec![name],
            None => {
                let page: Page<TemplateSource> = client.get("template-sources").await?;
                page.items.into_iter().map(|source| source.name).collect()
            }
        };
        if names.is_empty() {
            return Err(CliError::Usage("there is no template source: `vctl template source add`".to_owned()));
        }
        let mut sources: Vec<TemplateSource> = Vec::new();
        for name in names {
            let path = format!("template-sources/{}/sync", segment(&name));
            sources.push(client.post(&path, &serde_json::json!({})).await?);
        }
        show(self.output, &sources, || synced(&sources))?;
        let problems: Vec<String> = sources
            .iter()
            .flat_map(|s| s.last_sync.iter().flat_map(|l| l.problems()).map(|p| format!("{}: {p}", s.name)))
            .collect();
        if problems.is_empty() { Ok(()) } else { Err(CliError::Failed(problems.join("\n"))) }
    }
}

fn synced(sources: &[TemplateSource]) -> String {
    let mut rows = Vec::new();
    for source in sources {
        for reference in source.last_sync.iter().flat_map(|last| &last.references) {
            let name = reference.name.trim_start_matches("refs/").to_owned();
            let commit: String = reference.commit.chars().take(12).collect();
            let mut row = |template: String, state: String| {
                rows.push([
                    source.name.clone(),
                    name.clone(),
                    commit.clone(),
                    reference.channel.clone(),
                    template,
                    state,
                ]);
            };
            if reference.templates.is_empty() {
                row(String::new(), "nothing".to_owned());
            }
            for template in &reference.templates {
                let version = template.version.clone();
                row(template.name.clone(), version.unwrap_or_else(|| "not published".to_owned()));
            }
        }
    }
    table(["SOURCE", "REFERENCE", "COMMIT", "CHANNEL", "TEMPLATE", "VERSION"], &rows)
}

fn rows(sources: &[TemplateSource]) -> String {
    let now = Timestamp::now();
    let row = |s: &TemplateSource| {
        let list = |pairs: &BTreeMap<String, String>| {
            pairs.iter().map(|(reference, channel)| format!("{reference}={channel}")).collect::<Vec<_>>().join(",")
        };
        let last = s.last_sync.as_ref();
        let looked = last.map_or("never".to_owned(), |l| format!("{} ago", age(l.at, now)));
        let state = match last.map(|l| l.problems().len()) {
            None => String::new(),
            Some(0) => "good".to_owned(),
            Some(1) => "1 problem".to_owned(),
            Some(n) => format!("{n} problems"),
        };
        let every = s.every.map_or("by command".to_owned(), |every| every.to_string());
        [s.name.clone(), s.url.clone(), list(&s.branches), list(&s.tags), every, looked, state]
    };
    let rows: Vec<_> = sources.iter().map(row).collect();
    table(["NAME", "URL", "BRANCHES", "TAGS", "EVERY", "LOOKED AT", "STATE"], &rows)
}
