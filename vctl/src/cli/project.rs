//! `vctl project`.

use clap::{Args, Subcommand};
use clap_complete::{ArgValueCandidates, ArgValueCompleter};
use vctl_api::rest::{
    CreateProject, EnvironmentQuota, LimitHolder, LimitUnit, Member, MemberKind, Page, Project, ProjectSettings, Quota,
    QuotaUsage,
};

use super::{
    Client, Global,
    client::segment,
    completion,
    error::CliError,
    output::{Output, print, show, table},
};

/// Arguments of `vctl project`.
#[derive(Debug, Args)]
pub(crate) struct ProjectCommand {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// List projects
    List(Output),
    /// Show a project: who is in it, what is allowed, what is used
    Get {
        /// Its name
        #[arg(add = ArgValueCandidates::new(completion::projects))]
        name: String,
        #[command(flatten)]
        output: Output,
    },
    /// Make a project
    Create {
        /// Name: lower-case letters, digits and '-'
        name: String,
        #[command(flatten)]
        settings: Settings,
        #[command(flatten)]
        print: Output,
    },
    /// Change what is given; the rest stays
    Set {
        /// Its name
        #[arg(add = ArgValueCandidates::new(completion::projects))]
        name: String,
        #[command(flatten)]
        settings: Settings,
        #[command(flatten)]
        print: Output,
    },
    /// Give somebody a role in a project, instead of what they had
    Add {
        /// Its name
        #[arg(add = ArgValueCandidates::new(completion::projects))]
        name: String,
        #[command(flatten)]
        who: Who,
        /// viewer, developer, maintainer, admin, or a role of your own
        #[arg(long, add = ArgValueCandidates::new(completion::roles))]
        role: String,
        #[command(flatten)]
        print: Output,
    },
    /// Take somebody out of a project
    Remove {
        /// Its name
        #[arg(add = ArgValueCandidates::new(completion::projects))]
        name: String,
        #[command(flatten)]
        who: Who,
        #[command(flatten)]
        print: Output,
    },
    /// Delete a project that has no environments
    Delete {
        /// Its name
        #[arg(add = ArgValueCandidates::new(completion::projects))]
        name: String,
    },
}

#[derive(Debug, Args)]
struct Settings {
    /// One line for lists
    #[arg(long)]
    title: Option<String>,
    /// Allow this template; may be given several times [default: all]
    #[arg(long = "allow-template", value_name = "TEMPLATE", add = ArgValueCompleter::new(completion::templates))]
    templates: Vec<String>,
    /// Allow images like this in its environments, with * for any text, such as docker.io/library/*; may be given several times [default: all]
    #[arg(long = "allow-image", value_name = "PATTERN")]
    images: Vec<String>,
    /// Allow workers like this, with * for any text; may be given several times [default: all]
    #[arg(long = "allow-worker", value_name = "PATTERN")]
    workers: Vec<String>,
    /// Allow this registered resource; may be given several times [default: all]
    #[arg(long = "allow-resource", value_name = "RESOURCE", add = ArgValueCandidates::new(completion::resources))]
    resources: Vec<String>,
    /// Most environments
    #[arg(long, value_name = "N")]
    environments: Option<u32>,
    /// Most environments that are awake
    #[arg(long, value_name = "N")]
    awake: Option<u32>,
    /// Most processors that pods request in environments that are awake; none: no limit
    #[arg(long, value_name = "QUANTITY")]
    cpu: Option<String>,
    /// Most memory that they request; none: no limit
    #[arg(long, value_name = "QUANTITY")]
    memory: Option<String>,
    /// Most storage that is claimed, asleep or awake; none: no limit
    #[arg(long, value_name = "QUANTITY")]
    storage: Option<String>,
    /// Most environments of a template; may be given several times
    #[arg(long = "template-limit", value_name = "TEMPLATE=N", value_parser = limit)]
    template_limits: Vec<(String, u32)>,
    /// Most environments of each member
    #[arg(long, value_name = "N")]
    environments_per_member: Option<u32>,
    /// Most processors that pods request in those of each member; none: no limit
    #[arg(long, value_name = "QUANTITY")]
    cpu_per_member: Option<String>,
    /// Most memory; none: no limit
    #[arg(long, value_name = "QUANTITY")]
    memory_per_member: Option<String>,
    /// Most storage; none: no limit
    #[arg(long, value_name = "QUANTITY")]
    storage_per_member: Option<String>,
    /// Most processors that pods request in each environment; none: no limit
    #[arg(long, value_name = "QUANTITY")]
    cpu_per_environment: Option<String>,
    /// Most memory; none: no limit
    #[arg(long, value_name = "QUANTITY")]
    memory_per_environment: Option<String>,
    /// Most storage; none: no limit
    #[arg(long, value_name = "QUANTITY")]
    storage_per_environment: Option<String>,
}

/// Sets a limit that is given; `none` takes it away.
pub(super) fn set(limit: &mut Option<String>, given: Option<String>) {
    if let Some(given) = given {
        *limit = Some(given).filter(|given| given != "none");
    }
}

/// Sets a list that is given; a single `*` allows all again.
fn allow(list: &mut Vec<String>, given: Vec<String>) {
    if !given.is_empty() {
        *list = if given == ["*"] { Vec::new() } else { given };
    }
}

fn limit(text: &str) -> Result<(String, u32), String> {
    let wrong = || "write it as TEMPLATE=N".to_owned();
    let (name, number) = text.split_once('=').filter(|(name, _)| !name.is_empty()).ok_or_else(wrong)?;
    Ok((name.to_owned(), number.parse().map_err(|_| wrong())?))
}

impl Settings {
    fn apply(self, settings: &mut ProjectSettings) {
        if let Some(title) = self.title {
            settings.title = title;
        }
        allow(&mut settings.allowed_templates, self.templates);
        allow(&mut settings.allowed_images, self.images);
        allow(&mut settings.allowed_workers, self.workers);
        allow(&mut settings.allowed_resources, self.resources);
        let Quota { environments, awake, cpu, memory, storage, templates } = &mut settings.quota;
        *environments = self.environments.or(*environments);
        *awake = self.awake.or(*awake);
        set(cpu, self.cpu);
        set(memory, self.memory);
        set(storage, self.storage);
        templates.extend(self.template_limits);
        let each = &mut settings.member_quota;
        each.environments = self.environments_per_member.or(each.environments);
        set(&mut each.cpu, self.cpu_per_member);
        set(&mut each.memory, self.memory_per_member);
        set(&mut each.storage, self.storage_per_member);
        let each = &mut settings.environment_quota;
        set(&mut each.cpu, self.cpu_per_environment);
        set(&mut each.memory, self.memory_per_environment);
        set(&mut each.storage, self.storage_per_environment);
    }
}

#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub(super) struct Who {
    /// A user, by email address or id
    #[arg(long, add = ArgValueCandidates::new(completion::people))]
    user: Option<String>,
    /// Everybody in this group of the identity provider
    #[arg(long)]
    group: Option<String>,
    /// Everybody in this team
    #[arg(long, add = ArgValueCandidates::new(completion::teams))]
    team: Option<String>,
}

impl Who {
    pub(super) fn member(self) -> Result<(MemberKind, String), CliError> {
        match (self.user, self.group, self.team) {
            (Some(user), ..) => Ok((MemberKind::User, user)),
            (_, Some(group), _) => Ok((MemberKind::Group, group)),
            (.., Some(team)) => Ok((MemberKind::Team, team)),
            _ => Err(CliError::Usage("say --user, --group or --team".to_owned())),
        }
    }
}

fn path(name: &str) -> String {
    format!("projects/{}", segment(name))
}

impl ProjectCommand {
    pub(super) async fn run(self, global: &Global) -> Result<(), CliError> {
        let client = Client::open(global)?;
        match self.action {
            Action::List(Output { output }) => {
                let page: Page<Project> = client.get("projects").await?;
                show(output, &page.items, || {
                    let row = |p: &Project| {
                        let quota = &p.settings.quota;
                        let environments = quota.environments.map(|n| n.to_string());
                        let limit = |limit: &Option<String>| limit.clone().unwrap_or_else(|| "-".to_owned());
                        [
                            p.name.clone(),
                            p.settings.members.len().to_string(),
                            limit(&environments),
                            limit(&quota.cpu),
                            limit(&quota.memory),
                            limit(&quota.storage),
                            p.settings.title.clone(),
                        ]
                    };
                    let head = ["NAME", "MEMBERS", "ENVIRONMENTS", "CPU", "MEMORY", "STORAGE", "TITLE"];
                    table(head, &page.items.iter().map(row).collect::<Vec<_>>())
                })
            }
            Action::Get { name, output: Output { output } } => {
                let project: Project = client.get(&path(&name)).await?;
                let usage: QuotaUsage = client.get(&format!("{}/usage", path(&name))).await?;
                show(output, &project, || render(&project, &usage))
            }
            Action::Create { name, settings, print } => {
                let mut request = CreateProject { name, ..CreateProject::default() };
                settings.apply(&mut request.settings);
                let project: Project = client.post("projects", &request).await?;
                show(print.output, &project, || format!("project {} is made\n", project.name))
            }
            Action::Set { name, settings, print } => change(&client, &name, print, |s| settings.apply(s)).await,
            Action::Add { name, who, role, print } => {
                let (kind, who) = who.member()?;
                change(&client, &name, print, |settings| {
                    settings.members.retain(|m| (m.kind, &m.name) != (kind, &who));
                    settings.members.push(Member { kind, name: who, role });
                })
                .await
            }
            Action::Remove { name, who, print } => {
                let (kind, who) = who.member()?;
                let mut found = false;
                let there = |m: &Member| m.kind == kind && m.name == who;
                change(&client, &name, print, |settings| {
                    found = settings.members.iter().any(there);
                    settings.members.retain(|m| !there(m));
                })
                .await?;
                if found { Ok(()) } else { Err(CliError::Failed(format!("{who:?} was no member of project {name:?}"))) }
            }
            Action::Delete { name } => {
                client.delete_nothing(&path(&name)).await?;
                print(&format!("project {name} is deleted\n"))
            }
        }
    }
}

/// Changes what is there, unless somebody else does at the same moment.
async fn change(
    client: &Client,
    name: &str,
    print: Output,
    change: impl FnOnce(&mut ProjectSettings),
) -> Result<(), CliError> {
    let mut project: Project = client.get(&path(name)).await?;
    change(&mut project.settings);
    let project: Project = client.put_if(&path(name), project.revision, &project.settings).await?;
    show(print.output, &project, || format!("project {name} is changed\n"))
}

/// An amount as Kubernetes writes it.
fn amount(unit: LimitUnit, amount: u64) -> String {
    const SUFFIXES: [(u64, &str); 4] = [(1 << 40, "Ti"), (1 << 30, "Gi"), (1 << 20, "Mi"), (1 << 10, "Ki")];
    match unit {
        LimitUnit::Millicores if !amount.is_multiple_of(1000) => format!("{amount}m"),
        LimitUnit::Millicores => (amount / 1000).to_string(),
        LimitUnit::Bytes => {
            let exact = SUFFIXES.iter().find(|(size, _)| amount >= *size && amount.is_multiple_of(*size));
            exact.map_or_else(|| amount.to_string(), |(size, suffix)| format!("{}{suffix}", amount / size))
        }
        LimitUnit::Count => amount.to_string(),
    }
}

fn render(project: &Project, usage: &QuotaUsage) -> String {
    let settings = &project.settings;
    let list = |items: &[String]| if items.is_empty() { "all".to_owned() } else { items.join(", ") };
    let of = |used: u32, limit: Option<u32>| match limit {
        Some(limit) => format!("{used} of {limit}"),
        None => used.to_string(),
    };
    let mut text = format!(
        "{}: {}\nenvironments: {}, awake: {}\ntemplates: {}\nimages: {}\nworkers: {}\nresources: {}\n",
        project.name,
        settings.title,
        of(usage.used.environments, usage.quota.environments),
        of(usage.used.awake, usage.quota.awake),
        list(&settings.allowed_templates),
        list(&settings.allowed_images),
        list(&settings.allowed_workers),
        list(&settings.allowed_resources),
    );
    let amounts = [
        ("cpu", &usage.used.cpu, &usage.quota.cpu),
        ("memory", &usage.used.memory, &usage.quota.memory),
        ("storage", &usage.used.storage, &usage.quota.storage),
    ];
    for (name, used, limit) in amounts {
        let limit = limit.as_ref().map(|limit| format!(" of {limit}")).unwrap_or_default();
        text.push_str(&format!("{name}: {used}{limit}\n"));
    }
    let EnvironmentQuota { cpu, memory, storage } = &settings.environment_quota;
    for (name, limit) in [("cpu", cpu), ("memory", memory), ("storage", storage)] {
        if let Some(limit) = limit {
            text.push_str(&format!("{name} of each environment: at most {limit}\n"));
        }
    }
    for (template, limit) in &usage.quota.templates {
        let used = usage.used.templates.get(template).copied().unwrap_or_default();
        text.push_str(&format!("template {template}: {used} of {limit}\n"));
    }
    for limit in usage.limits.iter().filter(|limit| limit.holder != LimitHolder::Project) {
        let whose = match limit.holder {
            LimitHolder::Team => format!("team {}", limit.name),
            LimitHolder::User => "you, in all projects".to_owned(),
            _ => "you".to_owned(),
        };
        let (used, most) = (amount(limit.unit, limit.used), amount(limit.unit, limit.limit));
        text.push_str(&format!("{whose}: {}: {used} of {most}\n", limit.what));
    }
    let row = |m: &Member| [format!("{:?}", m.kind).to_lowercase(), m.name.clone(), m.role.clone()];
    let rows: Vec<_> = settings.members.iter().map(row).collect();
    text.push_str(&format!("\n{}", table(["KIND", "MEMBER", "ROLE"], &rows)));
    text
}
