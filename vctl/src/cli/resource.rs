//! `vctl resource`: databases and services that environments can be bound to.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use clap_complete::ArgValueCandidates;
use vctl_api::rest::{self, ALL_PROJECTS, AddResource, Page, ProbeResult, ResourceKind};

use super::{
    Client, Global, authorities,
    client::segment,
    completion,
    error::CliError,
    output::{Format, print, show, table},
    password,
};

/// Arguments of `vctl resource`.
#[derive(Debug, Args)]
pub(crate) struct Resource {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Register a resource, or replace one
    Add(Add),
    /// List resources
    #[command(visible_alias = "ls")]
    List(List),
    /// Ask a resource whether it can be used as it was registered
    Probe(Name),
    /// Forget a resource that no environment uses
    Remove(Name),
}

#[derive(Debug, Args)]
struct Add {
    /// Name: lower-case letters, digits and '-'
    name: String,
    /// What it speaks: postgres, mysql, redis, kafka, s3 or http
    #[arg(long, value_name = "KIND")]
    kind: ResourceKind,
    /// Host name or address
    #[arg(long)]
    host: String,
    /// Port [default: the usual one of the kind]
    #[arg(long)]
    port: Option<u16>,
    /// User; of s3 the id of the access key, whose secret is the password
    #[arg(long, default_value = "")]
    user: String,
    /// Database; of s3 the bucket
    #[arg(long, default_value = "")]
    database: String,
    /// Speak TLS
    #[arg(long)]
    tls: bool,
    /// Certificates of authorities (PEM) that may vouch for it, with --tls [default: those that the server's machine trusts]
    #[arg(long, value_name = "FILE", requires = "tls")]
    ca_file: Option<PathBuf>,
    /// A project that it is for; may be given several times [default: `default`, and of one that is replaced those that it was for]
    #[arg(long = "project", value_name = "NAME", conflicts_with = "all_projects", add = ArgValueCandidates::new(completion::projects))]
    projects: Vec<String>,
    /// It is for all projects
    #[arg(long)]
    all_projects: bool,
    /// Read the password from the first line of standard input
    #[arg(long)]
    password_stdin: bool,
}

#[derive(Debug, Args)]
struct List {
    /// How to print them
    #[arg(long, short, value_enum, default_value_t)]
    output: Format,
}

#[derive(Debug, Args)]
struct Name {
    /// Name of the resource
    #[arg(add = ArgValueCandidates::new(completion::resources))]
    name: String,
}

impl Resource {
    pub(super) async fn run(self, global: &Global) -> Result<(), CliError> {
        let client = Client::open(global)?;
        match self.command {
            Command::Add(add) => add.run(&client).await,
            Command::List(list) => {
                let page: Page<rest::Resource> = client.get("resources").await?;
                show(list.output, &page.items, || rows(&page.items))
            }
            Command::Probe(Name { name }) => {
                let path = format!("resources/{}/probe", segment(&name));
                let answer: ProbeResult = client.post(&path, &serde_json::json!({})).await?;
                if answer.ok {
                    print(&format!("{} ({} ms)\n", answer.message, answer.millis))
                } else {
                    Err(CliError::Failed(answer.message))
                }
            }
            Command::Remove(Name { name }) => {
                let removed: rest::Resource = client.delete(&format!("resources/{}", segment(&name))).await?;
                print(&format!("resource {} is removed\n", removed.name))
            }
        }
    }
}

impl Add {
    async fn run(self, client: &Client) -> Result<(), CliError> {
        let password = password::from_stdin(self.password_stdin)?;
        let Self { name, kind, host, port, user, database, tls, ca_file, projects, all_projects, .. } = self;
        let projects = if all_projects { vec![ALL_PROJECTS.to_owned()] } else { projects };
        let projects = Some(projects).filter(|projects| !projects.is_empty());
        let ca_bundle = authorities::read("--ca-file", ca_file.as_deref())?.unwrap_or_default();
        let request = AddResource { name, kind, host, port, user, database, tls, ca_bundle, projects, password };
        let added: rest::Resource = client.post("resources", &request).await?;
        print(&format!("resource {0} is registered; {1}; ask it: vctl resource probe {0}\n", added.name, whose(&added)))
    }
}

fn whose(resource: &rest::Resource) -> String {
    match resource.projects.as_slice() {
        all if all.iter().any(|p| p == ALL_PROJECTS) => "all projects may use it".to_owned(),
        [one] => format!("only project {one} may use it"),
        several => format!("only projects {} may use it", several.join(", ")),
    }
}

fn rows(resources: &[rest::Resource]) -> String {
    let row = |r: &rest::Resource| {
        let tls = match (r.tls, r.ca_bundle.is_empty()) {
            (false, _) => "no",
            (true, true) => "yes",
            (true, false) => "own CA",
        };
        [
            r.name.clone(),
            r.kind.as_str().to_owned(),
            format!("{}:{}", r.host, r.port),
            r.user.clone(),
            r.database.clone(),
            tls.to_owned(),
            r.projects.join(","),
        ]
    };
    table(
        ["NAME", "KIND", "ADDRESS", "USER", "DATABASE", "TLS", "PROJECTS"],
        &resources.iter().map(row).collect::<Vec<_>>(),
    )
}
