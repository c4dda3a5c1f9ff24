//! `vctl audit`.

use std::{fs::File, io::Write as _, path::PathBuf};

use clap::{Args, Subcommand, ValueEnum};
use clap_complete::ArgValueCandidates;
use jiff::Timestamp;
use vctl_api::rest::{AuditBreak, AuditEntry, AuditPolicy, AuditVerification, Page};

use super::{
    Client, Global,
    client::segment,
    completion,
    error::CliError,
    output::{Format, Pieces, print, show, table},
};

/// Arguments of `vctl audit`.
#[derive(Debug, Args)]
pub(crate) struct Audit {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Show entries, newest first
    List {
        #[command(flatten)]
        filter: Filter,
        /// Most entries
        #[arg(long, default_value_t = 50)]
        limit: usize,
        /// How to print them
        #[arg(long, short, value_enum, default_value_t)]
        output: Format,
    },
    /// Write entries to a file, or to standard output
    Export {
        #[command(flatten)]
        filter: Filter,
        /// How to write them
        #[arg(long, value_enum, default_value_t)]
        format: ExportFormat,
        /// The file
        #[arg(long, short = 'f', value_name = "FILE")]
        file: Option<PathBuf>,
    },
    /// Show or set what is recorded of the requests to an environment
    Policy {
        /// Name of the environment
        #[arg(add = ArgValueCandidates::new(completion::environments))]
        name: String,
        /// File (YAML) with a Policy of audit.k8s.io/v1 that is to count
        #[arg(long, short = 'f', value_name = "FILE", conflicts_with = "default")]
        file: Option<PathBuf>,
        /// The server's own policy is to count
        #[arg(long)]
        default: bool,
    },
    /// Check that nobody has changed what was written; fails with the first broken entry
    Verify {
        /// How to print what was found
        #[arg(long, short, value_enum, default_value_t)]
        output: Format,
    },
}

#[derive(Debug, Clone, Copy, Default, ValueEnum)]
enum ExportFormat {
    /// A JSON object on each line
    #[default]
    Jsonl,
    /// Comma-separated values for spreadsheets
    Csv,
}

#[derive(Debug, Args)]
struct Filter {
    /// By this actor
    #[arg(long)]
    actor: Option<String>,
    /// Of this action: environment.create, or environment.* for all of environments
    #[arg(long)]
    action: Option<String>,
    /// In this project
    #[arg(long, add = ArgValueCandidates::new(completion::projects))]
    project: Option<String>,
    /// About this
    #[arg(long)]
    subject: Option<String>,
    /// From then on, such as 2026-01-31T12:00:00Z
    #[arg(long, value_name = "TIME")]
    since: Option<Timestamp>,
    /// Before then
    #[arg(long, value_name = "TIME")]
    until: Option<Timestamp>,
    /// With this text anywhere
    #[arg(long, short = 's', value_name = "TEXT")]
    search: Option<String>,
}

impl Filter {
    /// As a query, each with an ampersand before it.
    fn query(&self) -> String {
        let (since, until) = (self.since.map(|t| t.to_string()), self.until.map(|t| t.to_string()));
        let fields = [
            ("actor", &self.actor),
            ("action", &self.action),
            ("project", &self.project),
            ("subject", &self.subject),
            ("since", &since),
            ("until", &until),
            ("q", &self.search),
        ];
        let given = fields.iter().filter_map(|(name, value)| value.as_ref().map(|value| (name, value)));
        given.fold(String::new(), |query, (name, value)| query + "&" + name + "=" + &segment(value))
    }
}

impl Audit {
    pub(super) async fn run(self, global: &Global) -> Result<(), CliError> {
        let client = Client::open(global)?;
        match self.action {
            Action::List { filter, limit, output } => list(&client, &filter, limit, output).await,
            Action::Export { filter, format, file } => export(&client, &filter, format, file).await,
            Action::Policy { name, file, default } => policy(&client, &name, file, default).await,
            Action::Verify { output } => verify(&client, output).await,
        }
    }
}

async fn list(client: &Client, filter: &Filter, limit: usize, output: Format) -> Result<(), CliError> {
    let mut entries: Vec<AuditEntry> = Vec::new();
    let mut after = String::new();
    while entries.len() < limit {
        let path = format!("audit?limit={}{}{after}", (limit - entries.len()).min(500), filter.query());
        let page: Page<AuditEntry> = client.get(&path).await?;
        entries.extend(page.items);
        match page.next {
            Some(next) => after = format!("&after={}", segment(&next)),
            None => break,
        }
    }
    show(output, &entries, || {
        let row = |e: &AuditEntry| {
            let who =
                if e.on_behalf_of.is_empty() { e.actor.clone() } else { format!("{} for {}", e.actor, e.on_behalf_of) };
            [
                e.at.strftime("%Y-%m-%d %H:%M:%S").to_string(),
                who,
                e.action.clone(),
                e.project.clone(),
                e.subject.clone(),
                e.source.clone(),
            ]
        };
        table(
            ["TIME (UTC)", "ACTOR", "ACTION", "PROJECT", "SUBJECT", "SOURCE"],
            &entries.iter().map(row).collect::<Vec<_>>(),
        )
    })
}

async fn export(client: &Client, filter: &Filter, format: ExportFormat, file: Option<PathBuf>) -> Result<(), CliError> {
    let format = match format {
        ExportFormat::Jsonl => "jsonl",
        ExportFormat::Csv => "csv",
    };
    let path = format!("audit/export?format={format}{}", filter.query());
    match file {
        Some(file) => {
            let mut out = File::create(&file).map_err(CliError::file(&file))?;
            client.download(&path, |piece| out.write_all(piece).map_err(CliError::file(&file))).await?;
            out.sync_all().map_err(CliError::file(&file))
        }
        None => {
            let mut pieces = Pieces::default();
            client.download(&path, |piece| pieces.print(piece)).await?;
            pieces.end()
        }
    }
}

async fn policy(client: &Client, name: &str, file: Option<PathBuf>, default: bool) -> Result<(), CliError> {
    let path = format!("environments/{}/audit-policy", segment(name));
    let body: AuditPolicy = match file {
        Some(file) => {
            let text = std::fs::read_to_string(&file).map_err(CliError::file(&file))?;
            let policy = serde_yaml::from_str(&text)
                .map_err(|e| CliError::Usage(format!("{} does not parse: {e}", file.display())))?;
            client.put(&path, &AuditPolicy { policy: Some(policy) }).await?
        }
        None if default => client.put(&path, &AuditPolicy::default()).await?,
        None => client.get(&path).await?,
    };
    match body.policy {
        Some(policy) => print(&serde_yaml::to_string(&policy).map_err(|e| CliError::Failed(e.to_string()))?),
        None => print(&format!("for environment {name} the server's own audit policy counts\n")),
    }
}

async fn verify(client: &Client, output: Format) -> Result<(), CliError> {
    let found: AuditVerification = client.get("audit/verify").await?;
    show(output, &found, || {
        let AuditVerification { entries, chains, unchained, removed, .. } = found;
        let before =
            if unchained == 0 { String::new() } else { format!(", {unchained} from before there were chains") };
        let gone = if removed == 0 { String::new() } else { format!(", {removed} removed by --audit-retention") };
        format!("{entries} entries in {chains} chains{before}{gone}\n")
    })?;
    match &found.first {
        None => Ok(()),
        Some(first) => Err(CliError::Failed(format!(
            "the audit trail was changed at {} place{}; the first: {}",
            found.breaks,
            if found.breaks == 1 { "" } else { "s" },
            describe(first)
        ))),
    }
}

fn describe(first: &AuditBreak) -> String {
    let AuditBreak { key, at, actor, action, subject, why } = first;
    let at = at.map(|at| format!("{at} ")).unwrap_or_default();
    if key.is_empty() { why.clone() } else { format!("{at}{actor} {action} {subject} (key {key}): {why}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_becomes_a_query_that_nothing_can_break_out_of() {
        let filter = Filter {
            actor: Some("a&b=c".to_owned()),
            action: Some("environment.*".to_owned()),
            project: None,
            subject: None,
            since: Some(Timestamp::UNIX_EPOCH),
            until: None,
            search: Some("x y".to_owned()),
        };
        let query = filter.query();
        assert_eq!(
            query,
            "&actor=a%26b%3Dc&action=environment%2E%2A&since=1970%2D01%2D01T00%3A00%3A00Z&q=x%20y".replace("%2D", "-")
        );
    }
}
