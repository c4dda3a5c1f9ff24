//! `vctl project`.

use clap::{Args, Subcommand};
use clap_complete::ArgValueCandidates;
use vctl_api::rest::{CreateProject, Member, MemberKind, Page, Project, ProjectSettings, Quota, QuotaUsage};

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
        #[arg(long)]
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
    #[arg(long = "allow-template", value_name = "TEMPLATE")]
    templates: Vec<String>,
    /// Allow images like this, with * for any text; may be given several times [default: all]
    #[arg(long = "allow-image", value_name = "PATTERN")]
    images: Vec<String>,
    /// Most environments
    #[arg(long, value_name = "N")]
    environments: Option<u32>,
    /// Most environments that are awake
    #[arg(long, value_name = "N")]
    awake: Option<u32>,
    /// Most processors that templates request in environments that are awake
    #[arg(long, value_name = "QUANTITY")]
    cpu: Option<String>,
    /// Most memory
    #[arg(long, value_name = "QUANTITY")]
    memory: Option<String>,
    /// Most storage that templates claim, asleep or awake
    #[arg(long, value_name = "QUANTITY")]
    storage: Option<String>,
    /// Most environments of a template; may be given several times
    #[arg(long = "template-limit", value_name = "TEMPLATE=N", value_parser = limit)]
    template_limits: Vec<(String, u32)>,
    /// Most environments of each member
    #[arg(long, value_name = "N")]
    environments_per_member: Option<u32>,
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
        if !self.templates.is_empty() {
            settings.allowed_templates = self.templates;
        }
        if !self.images.is_empty() {
            settings.allowed_images = self.images;
        }
        let Quota { environments, awake, cpu, memory, storage, templates } = &mut settings.quota;
        *environments = self.environments.or(*environments);
        *awake = self.awake.or(*awake);
        for (given, limit) in [(self.cpu, cpu), (self.memory, memory), (self.storage, storage)] {
            *limit = given.or(limit.take());
        }
        templates.extend(self.template_limits);
        let per_member = &mut settings.member_quota.environments;
        *per_member = self.environments_per_member.or(*per_member);
    }
}

#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub(super) struct Who {
    /// A user, by email address or id
    #[arg(long)]
    user: Option<String>,
    /// Everybody in this group of the identity provider
    #[arg(long)]
    group: Option<String>,
    /// Everybody in this team
    #[arg(long)]
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
                        let quota = p.settings.quota.environments.map_or("-".to_owned(), |n| n.to_string());
                        [p.name.clone(), p.settings.members.len().to_string(), quota, p.settings.title.clone()]
                    };
                    table(["NAME", "MEMBERS", "QUOTA", "TITLE"], &page.items.iter().map(row).collect::<Vec<_>>())
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

fn render(project: &Project, usage: &QuotaUsage) -> String {
    let settings = &project.settings;
    let list = |items: &[String]| if items.is_empty() { "all".to_owned() } else { items.join(", ") };
    let of = |used: u32, limit: Option<u32>| match limit {
        Some(limit) => format!("{used} of {limit}"),
        None => used.to_string(),
    };
    let mut text = format!(
        "{}: {}\nenvironments: {}, awake: {}\ntemplates: {}\nimages: {}\n",
        project.name,
        settings.title,
        of(usage.used.environments, usage.quota.environments),
        of(usage.used.awake, usage.quota.awake),
        list(&settings.allowed_templates),
        list(&settings.allowed_images),
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
    for (template, limit) in &usage.quota.templates {
        let used = usage.used.templates.get(template).copied().unwrap_or_default();
        text.push_str(&format!("template {template}: {used} of {limit}\n"));
    }
    let row = |m: &Member| [format!("{:?}", m.kind).to_lowercase(), m.name.clone(), m.role.clone()];
    let rows: Vec<_> = settings.members.iter().map(row).collect();
    text.push_str(&format!("\n{}", table(["KIND", "MEMBER", "ROLE"], &rows)));
    text
}
