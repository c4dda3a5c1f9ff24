//! `vctl template`: making templates, and publishing them.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use clap::{Args, Subcommand};
use clap_complete::{ArgValueCandidates, ArgValueCompleter};
use jiff::Timestamp;
use serde::Serialize;
use vctl_api::rest::{ChangeTemplateVersion, EnvironmentKind, Page, PublishTemplate, TemplateVersion};
use vctl_portal::templates::{
    TemplateError, catalog, inspect, parameters,
    render::{self, Input},
    renderer::Renderer,
    schema,
    source::{self, Files},
};

use super::{
    Client, Global,
    client::segment,
    completion,
    create::pair,
    error::CliError,
    output::{Format, age, print, show, table},
    template_source,
};

/// Arguments of `vctl template`.
#[derive(Debug, Args)]
pub(crate) struct Template {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Tell everything that is wrong with a template's directory; needs no server
    Lint(Lint),
    /// Print the manifests that a template's directory makes; needs no server
    Render(Render),
    /// Publish a template's directory as a version, which stays as it is for ever
    Publish(Publish),
    /// Register Git repositories that templates come from
    Source(template_source::Source),
    /// Look at the Git repositories that templates come from, and publish what is new
    Sync(template_source::Sync),
    /// List the versions of a template
    List(List),
    /// Offer a version no more: nothing new is made from it, and what was made from it goes on
    Yank(Yank),
    /// Print the JSON schema of template.yaml, for editors
    Schema,
}

#[derive(Debug, Args)]
struct Lint {
    /// Directory with template.yaml
    directory: PathBuf,
    /// How to print it
    #[arg(long, short, value_enum, default_value_t)]
    output: Format,
}

#[derive(Debug, Args)]
struct Render {
    /// Directory with template.yaml
    directory: PathBuf,
    /// Name of the environment that it is rendered for
    #[arg(long, default_value = "example")]
    name: String,
    /// A parameter of the template; may be given several times
    #[arg(long = "set", value_name = "NAME=VALUE", value_parser = pair)]
    set: Vec<(String, String)>,
}

#[derive(Debug, Args)]
struct Publish {
    /// Directory with template.yaml
    directory: PathBuf,
    /// The channel it goes to: environments of `NAME@CHANNEL` get its newest version
    #[arg(long, default_value = "stable")]
    channel: String,
    /// How to print it
    #[arg(long, short, value_enum, default_value_t)]
    output: Format,
}

#[derive(Debug, Args)]
struct List {
    /// Name of the template
    #[arg(add = ArgValueCompleter::new(completion::templates))]
    name: String,
    /// How to print them
    #[arg(long, short, value_enum, default_value_t)]
    output: Format,
}

#[derive(Debug, Args)]
struct Yank {
    /// Name of the template
    #[arg(add = ArgValueCompleter::new(completion::templates))]
    name: String,
    /// Its version
    // Not `version`: that is the flag which every command has.
    #[arg(value_name = "VERSION", add = ArgValueCandidates::new(completion::versions))]
    of_version: String,
    /// Why, for whoever asks for it
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true, conflicts_with = "undo")]
    reason: String,
    /// Offer it again
    #[arg(long)]
    undo: bool,
    /// How to print it
    #[arg(long, short, value_enum, default_value_t)]
    output: Format,
}

/// One problem, for programs.
#[derive(Debug, Serialize)]
struct Finding {
    severity: &'static str,
    file: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    column: Option<usize>,
    message: String,
}

impl Finding {
    fn new(severity: &'static str, error: &TemplateError) -> Self {
        let (file, line, column, message) = match error {
            TemplateError::Syntax { file, line, column, message, .. } => (file, Some(*line), Some(*column), message),
            TemplateError::File { file, message, .. } => (file, None, None, message),
        };
        Self { severity, file: file.clone(), line, column, message: message.clone() }
    }

    /// As compilers write it, so that editors find the place.
    fn line(&self, directory: &Path) -> String {
        let place = match (self.line, self.column) {
            (Some(line), Some(column)) => format!(":{line}:{column}"),
            (Some(line), None) => format!(":{line}"),
            (None, _) => String::new(),
        };
        format!("{}{place}: {}: {}\n", directory.join(&self.file).display(), self.severity, self.message)
    }
}

/// What renders: a process with limits, as for the server, where limits can be set.
fn renderer() -> Renderer {
    #[cfg(target_os = "linux")]
    return crate::server::renderer();
    #[cfg(not(target_os = "linux"))]
    Renderer::new(None)
}

fn read(directory: &Path) -> Result<(String, Files), CliError> {
    let shown = directory.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let files = source::read_directory(&shown, directory).map_err(|e| CliError::Usage(e.to_string()))?;
    Ok((catalog::name_of(&files), files))
}

impl Template {
    pub(super) async fn run(self, global: &Global) -> Result<(), CliError> {
        match self.command {
            Command::Lint(lint) => lint.run().await,
            Command::Render(render) => render.run().await,
            Command::Publish(publish) => publish.run(global).await,
            Command::Source(source) => source.run(global).await,
            Command::Sync(sync) => sync.run(global).await,
            Command::List(list) => list.run(global).await,
            Command::Yank(yank) => yank.run(global).await,
            Command::Schema => print(&schema::text()),
        }
    }
}

impl Lint {
    async fn run(self) -> Result<(), CliError> {
        let (said, files) = read(&self.directory)?;
        let name = std::fs::canonicalize(&self.directory).map_err(CliError::file(&self.directory))?;
        let name = name.file_name().and_then(|n| n.to_str()).map_or(said, str::to_owned);
        let found = inspect::lint(&name, files, &renderer()).await;
        let of =
            |severity, errors: &[TemplateError]| errors.iter().map(|e| Finding::new(severity, e)).collect::<Vec<_>>();
        let mut findings = of("error", &found.errors);
        findings.extend(of("warning", &found.warnings));
        findings.sort_by(|a, b| (&a.file, a.line, a.column).cmp(&(&b.file, b.line, b.column)));
        show(self.output, &findings, || findings.iter().map(|f| f.line(&self.directory)).collect())?;
        match found.errors.len() {
            0 => Ok(()),
            1 => Err(CliError::Usage("the template has 1 error".to_owned())),
            n => Err(CliError::Usage(format!("the template has {n} errors"))),
        }
    }
}

impl Render {
    async fn run(self) -> Result<(), CliError> {
        let (name, files) = read(&self.directory)?;
        let found = inspect::inspect(&name, files);
        if let Some(error) = found.errors.first() {
            return Err(CliError::Usage(format!("{error}; see `vctl template lint {}`", self.directory.display())));
        }
        let template = found.template.ok_or_else(|| CliError::Usage("there is no template".to_owned()))?;
        let given = self.set.into_iter().map(|(name, value)| (name, value.into())).collect();
        let wrong = |e: &dyn std::error::Error| CliError::Usage(e.to_string());
        let resolved = parameters::resolve(&template.manifest.parameters, &given).map_err(|e| wrong(&e))?;
        let secrets = resolved.secret.into_iter().map(|(name, text)| (name, text.into()));
        let all: BTreeMap<String, serde_json::Value> = resolved.public.into_iter().chain(secrets).collect();
        let bindings = render::stand_ins(&template, &all);
        let input = Input {
            environment: &self.name,
            kind: EnvironmentKind::Mocked,
            parameters: &all,
            bindings: &bindings,
            values: None,
        };
        let rendered = renderer().render(&template, &input).await;
        let documents = rendered.map_err(|mut errors| wrong(&errors.swap_remove(0)))?;
        let mut text = String::new();
        for document in documents {
            text.push_str("---\n");
            text.push_str(&serde_yaml::to_string(&document).map_err(|e| CliError::Answer(e.to_string()))?);
        }
        print(&text)
    }
}

impl Publish {
    async fn run(self, global: &Global) -> Result<(), CliError> {
        let (_, files) = read(&self.directory)?;
        let request = PublishTemplate { files: files.into_iter().collect(), channel: Some(self.channel) };
        let version: TemplateVersion = Client::open(global)?.post("templates", &request).await?;
        show(self.output, &version, || {
            format!(
                "{} {} is published ({}); its digest is {}\n",
                version.name,
                version.version,
                version.channels.join(", "),
                version.digest
            )
        })
    }
}

impl List {
    async fn run(self, global: &Global) -> Result<(), CliError> {
        let client = Client::open(global)?;
        let page: Page<TemplateVersion> = client.get(&format!("templates/{}/versions", segment(&self.name))).await?;
        let now = Timestamp::now();
        show(self.output, &page.items, || {
            let row = |v: &TemplateVersion| {
                let published =
                    v.published_at.map_or("part of the server".to_owned(), |at| format!("{} ago", age(at, now)));
                let digest = v.digest.chars().take(12).collect();
                let origin: String = v.origin.split_once('@').map_or(String::new(), |(source, commit)| {
                    format!("{source}@{}", commit.chars().take(12).collect::<String>())
                });
                let by = if origin.is_empty() { v.published_by.clone() } else { origin };
                let channels = if v.yanked { "(yanked)".to_owned() } else { v.channels.join(",") };
                [v.version.clone(), channels, published, by, digest, v.title.clone()]
            };
            let rows: Vec<_> = page.items.iter().map(row).collect();
            table(["VERSION", "CHANNELS", "PUBLISHED", "BY", "DIGEST", "TITLE"], &rows)
        })
    }
}

impl Yank {
    async fn run(self, global: &Global) -> Result<(), CliError> {
        let request = ChangeTemplateVersion { yanked: !self.undo, yank_reason: self.reason };
        let path = format!("templates/{}/versions/{}", segment(&self.name), segment(&self.of_version));
        let version: TemplateVersion = Client::open(global)?.patch(&path, &request).await?;
        show(self.output, &version, || {
            let TemplateVersion { name, version, channels, .. } = &version;
            if self.undo {
                return format!("{name} {version} is offered again ({})\n", channels.join(", "));
            }
            format!("{name} {version} is yanked: nothing new is made from it; what was made from it goes on\n")
        })
    }
}
