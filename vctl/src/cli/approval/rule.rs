//! `vctl approval rule`.

use clap::{Args, Subcommand};
use clap_complete::{ArgValueCandidates, ArgValueCompleter};
use vctl_api::rest::{
    ApprovalOperation, ApprovalRule, ApprovalRuleSettings, Approvers, EnvironmentKind, LargerThan, Page, Period,
};

use super::said;
use crate::cli::{
    client::{Client, segment},
    completion,
    create::kind,
    error::CliError,
    output::{Output, show, table},
};

/// Arguments of `vctl approval rule`.
#[derive(Debug, Args)]
pub(super) struct RuleCommand {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// List the platform's rules, or those of a project
    List {
        #[command(flatten)]
        of: Of,
        #[command(flatten)]
        output: Output,
    },
    /// Make a rule, or say anew what it asks for
    Set(Box<Set>),
    /// Delete a rule
    Delete {
        /// Its name
        #[arg(add = ArgValueCandidates::new(completion::approval_rules))]
        name: String,
        #[command(flatten)]
        of: Of,
    },
}

#[derive(Debug, Args)]
struct Of {
    /// A rule of this project, which its administrators set [default: a rule of the platform]
    #[arg(long, value_name = "PROJECT", add = ArgValueCandidates::new(completion::projects))]
    project: Option<String>,
}

impl Of {
    fn path(&self, name: Option<&str>) -> String {
        let base = match &self.project {
            Some(project) => format!("projects/{}/approval-rules", segment(project)),
            None => "approval-rules".to_owned(),
        };
        name.map_or(base.clone(), |name| format!("{base}/{}", segment(name)))
    }
}

#[derive(Debug, Args)]
struct Set {
    /// Name: lower-case letters, digits and '-'
    name: String,
    #[command(flatten)]
    of: Of,
    /// One line for those who have to wait
    #[arg(long, default_value = "")]
    title: String,
    /// Only in this project; may be given several times
    #[arg(long = "in", value_name = "PROJECT", conflicts_with = "project", add = ArgValueCandidates::new(completion::projects))]
    projects: Vec<String>,
    /// Only of this template; may be given several times
    #[arg(long = "template", value_name = "TEMPLATE", add = ArgValueCompleter::new(completion::templates))]
    templates: Vec<String>,
    /// Only environments of this kind: mocked or real
    #[arg(long, value_parser = kind)]
    kind: Option<EnvironmentKind>,
    /// Only when environments are created, or only when they are updated
    #[arg(long, value_name = "create|update", value_parser = operation)]
    operation: Option<ApprovalOperation>,
    /// Only if more processors are requested
    #[arg(long, value_name = "QUANTITY")]
    cpu: Option<String>,
    /// Only if more memory is requested
    #[arg(long, value_name = "QUANTITY")]
    memory: Option<String>,
    /// Only if more storage is requested
    #[arg(long, value_name = "QUANTITY")]
    storage: Option<String>,
    /// Only if whoever asks would have more environments in the project
    #[arg(long, value_name = "N")]
    environments: Option<u32>,
    /// Administrators of the platform decide, not those of the project
    #[arg(long)]
    by_platform: bool,
    /// So many people have to approve
    #[arg(long, value_name = "N", default_value_t = 1)]
    approvals: u32,
    /// Who asks may approve it themselves, if they are among those who decide
    #[arg(long)]
    allow_own: bool,
    /// A request ends that is not answered for so long [default: 7d]
    #[arg(long, value_name = "TIME")]
    answer_within: Option<Period>,
    /// What was approved can be carried out for so long [default: 1d]
    #[arg(long, value_name = "TIME")]
    grant: Option<Period>,
}

fn operation(text: &str) -> Result<ApprovalOperation, String> {
    match text {
        "create" => Ok(ApprovalOperation::Create),
        "update" => Ok(ApprovalOperation::Update),
        _ => Err("write create or update".to_owned()),
    }
}

impl Set {
    fn settings(self) -> ApprovalRuleSettings {
        let Self { cpu, memory, storage, environments, .. } = self;
        let larger_than = LargerThan { cpu, memory, storage, environments };
        ApprovalRuleSettings {
            title: self.title,
            projects: self.projects,
            templates: self.templates,
            kind: self.kind,
            operations: self.operation.into_iter().collect(),
            larger_than: (larger_than != LargerThan::default()).then_some(larger_than),
            approvers: if self.by_platform { Approvers::Platform } else { Approvers::Project },
            approvals: self.approvals,
            allow_own: self.allow_own,
            answer_within: self.answer_within,
            grant: self.grant,
        }
    }
}

impl RuleCommand {
    pub(super) async fn run(self, client: &Client) -> Result<(), CliError> {
        match self.action {
            Action::List { of, output: Output { output } } => {
                let page: Page<ApprovalRule> = client.get(&of.path(None)).await?;
                show(output, &page.items, || {
                    let row = |r: &ApprovalRule| [r.name.clone(), when(&r.settings), r.settings.title.clone()];
                    table(["NAME", "WHEN", "TITLE"], &page.items.iter().map(row).collect::<Vec<_>>())
                })
            }
            Action::Set(set) => {
                let (name, path) = (set.name.clone(), set.of.path(Some(&set.name)));
                let _: ApprovalRule = client.put(&path, &set.settings()).await?;
                said(&format!("approval rule {name} is set"))
            }
            Action::Delete { name, of } => {
                client.delete_nothing(&of.path(Some(&name))).await?;
                said(&format!("approval rule {name} is deleted"))
            }
        }
    }
}

/// When a rule counts, for lists.
fn when(settings: &ApprovalRuleSettings) -> String {
    let mut parts = Vec::new();
    if !settings.projects.is_empty() {
        parts.push(format!("in {}", settings.projects.join(",")));
    }
    if !settings.templates.is_empty() {
        parts.push(format!("template {}", settings.templates.join(",")));
    }
    parts.extend(settings.kind.map(|kind| format!("{kind:?}").to_lowercase()));
    parts.extend(settings.operations.iter().map(|operation| format!("{operation:?}").to_lowercase()));
    if let Some(larger) = &settings.larger_than {
        let amounts = [("cpu", &larger.cpu), ("memory", &larger.memory), ("storage", &larger.storage)];
        parts.extend(amounts.iter().filter_map(|(name, text)| text.as_ref().map(|text| format!("{name}>{text}"))));
        parts.extend(larger.environments.map(|n| format!("environments>{n}")));
    }
    if parts.is_empty() { "always".to_owned() } else { parts.join(" ") }
}
