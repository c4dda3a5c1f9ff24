//! `vctl approval`, and what other commands do when something waits for approval.

mod rule;

use clap::{Args, Subcommand};
use clap_complete::ArgValueCandidates;
use jiff::Timestamp;
use serde::Deserialize;
use vctl_api::rest::{Approval, ApprovalKind, ApprovalState, Decide, Page, Period, RequestRole};

use super::{
    Client, Global,
    client::segment,
    completion,
    error::CliError,
    output::{Format, Output, age, print, show, table},
};

/// Arguments of `vctl approval`.
#[derive(Debug, Args)]
pub(crate) struct ApprovalCommand {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// List open requests: your own, and those of projects where you may see them
    List(List),
    /// Show one request
    Get {
        /// Its id
        #[arg(add = ArgValueCandidates::new(completion::approvals))]
        id: String,
        #[command(flatten)]
        output: Output,
    },
    /// Agree to a request: what was asked for is done by itself
    Approve {
        /// Its id
        #[arg(add = ArgValueCandidates::new(completion::decidable))]
        id: String,
        /// What you say to it
        #[arg(long, default_value = "")]
        comment: String,
        /// For so long only, such as 2h
        #[arg(long = "for", value_name = "TIME")]
        period: Option<Period>,
        #[command(flatten)]
        output: Output,
    },
    /// Refuse a request
    Deny(Step),
    /// Ask for a role in a project for a time
    Request {
        /// The project
        #[arg(long, add = ArgValueCandidates::new(completion::projects))]
        project: String,
        /// The role: developer, maintainer, admin, or a role of your own
        #[arg(long, add = ArgValueCandidates::new(completion::roles))]
        role: String,
        /// For how long, such as 4h; 30 days at most
        #[arg(long = "for", value_name = "TIME")]
        period: Period,
        /// Why
        #[arg(long, value_name = "TEXT")]
        reason: String,
        #[command(flatten)]
        output: Output,
    },
    /// Take back a request of your own, or give a role back
    Withdraw {
        /// Its id
        #[arg(add = ArgValueCandidates::new(completion::own_approvals))]
        id: String,
        /// Why
        #[arg(long, default_value = "")]
        comment: String,
        #[command(flatten)]
        output: Output,
    },
    /// Take a role away before its time is over
    Revoke(Step),
    /// Say that you have looked at what was done under break-glass
    Review(Step),
    /// Rules for what needs approval
    Rule(rule::RuleCommand),
}

#[derive(Debug, Args)]
struct List {
    /// All of them, also those that have come to their end
    #[arg(long)]
    all: bool,
    /// Your own
    #[arg(long)]
    mine: bool,
    /// Those that wait for you
    #[arg(long)]
    decidable: bool,
    /// Break-glass that nobody has looked at
    #[arg(long)]
    unreviewed: bool,
    /// Of this project
    #[arg(long, add = ArgValueCandidates::new(completion::projects))]
    project: Option<String>,
    #[command(flatten)]
    output: Output,
}

#[derive(Debug, Args)]
struct Step {
    /// Its id
    #[arg(add = ArgValueCandidates::new(completion::approvals))]
    id: String,
    /// Why
    #[arg(long)]
    comment: String,
    #[command(flatten)]
    output: Output,
}

/// What came of asking for something: it, or a request that waits.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum Asked<T> {
    /// Rules hold it.
    Waits(Box<Approval>),
    /// Nothing does.
    Done(T),
}

impl<T> Asked<T> {
    /// It, when nothing holds it.
    ///
    /// # Errors
    /// [`CliError::Waits`] with the next command.
    pub(super) fn done(self, format: Format) -> Result<T, CliError> {
        match self {
            Self::Done(done) => Ok(done),
            Self::Waits(approval) => {
                if format != Format::Table {
                    show(format, &approval, String::new)?;
                }
                Err(CliError::Waits(waits(&approval)))
            }
        }
    }
}

fn waits(approval: &Approval) -> String {
    let rules: Vec<String> = approval.rules.iter().map(|r| format!("{}: {}", r.rule, r.why)).collect();
    let id = &approval.id;
    format!(
        "{} waits for approval ({}). It is made by itself when somebody has approved it.\n\nNext:\n  \
         vctl approval get {id}         what has become of it\n  vctl approval withdraw {id}    you do not want it any more",
        about(approval),
        rules.join("; ")
    )
}

/// What it is about.
fn about(approval: &Approval) -> String {
    match (&approval.environment, &approval.role) {
        (Some(environment), _) if approval.kind == ApprovalKind::Update => format!("update of {environment}"),
        (Some(environment), _) => format!("environment {environment}"),
        (None, Some(role)) => format!("role {role} in {}", approval.project),
        (None, None) => approval.project.clone(),
    }
}

fn path(id: &str) -> String {
    format!("approvals/{}", segment(id))
}

impl ApprovalCommand {
    pub(super) async fn run(self, global: &Global) -> Result<(), CliError> {
        let client = Client::open(global)?;
        let (id, verb, decide, output) = match self.action {
            Action::List(list) => return list.run(&client).await,
            Action::Get { id, output: Output { output } } => {
                let approval: Approval = client.get(&path(&id)).await?;
                return show(output, &approval, || render(&approval));
            }
            Action::Request { project, role, period, reason, output: Output { output } } => {
                let request = RequestRole { project, role: Some(role), period: Some(period), reason };
                let approval: Approval = client.post("approvals", &request).await?;
                return show(output, &approval, || {
                    format!("{} waits for approval: request {}\n", about(&approval), approval.id)
                });
            }
            Action::Rule(rule) => return rule.run(&client).await,
            Action::Approve { id, comment, period, output } => (id, "approve", Decide { comment, period }, output),
            Action::Withdraw { id, comment, output } => (id, "withdraw", Decide { comment, period: None }, output),
            Action::Deny(Step { id, comment, output }) => (id, "deny", Decide { comment, period: None }, output),
            Action::Revoke(Step { id, comment, output }) => (id, "revoke", Decide { comment, period: None }, output),
            Action::Review(Step { id, comment, output }) => (id, "review", Decide { comment, period: None }, output),
        };
        let approval: Approval = client.post(&format!("{}/{verb}", path(&id)), &decide).await?;
        show(output.output, &approval, || done(&approval))
    }
}

impl List {
    async fn run(self, client: &Client) -> Result<(), CliError> {
        let mut query = url::form_urlencoded::Serializer::new(String::new());
        if !self.all && !self.unreviewed {
            query.append_pair("state", "Pending,Approved,Active");
        }
        for (name, wanted) in [("mine", self.mine), ("decidable", self.decidable), ("unreviewed", self.unreviewed)] {
            if wanted {
                query.append_pair(name, "true");
            }
        }
        if let Some(project) = &self.project {
            query.append_pair("project", project);
        }
        let page: Page<Approval> = client.get(&format!("approvals?{}", query.finish())).await?;
        let now = Timestamp::now();
        show(self.output.output, &page.items, || {
            let row = |a: &Approval| {
                [
                    a.id.clone(),
                    format!("{:?}", a.state),
                    about(a),
                    a.requested_by.clone(),
                    age(a.created_at, now),
                    a.reason.lines().next().unwrap_or_default().to_owned(),
                ]
            };
            table(["ID", "STATE", "WHAT", "BY", "AGE", "REASON"], &page.items.iter().map(row).collect::<Vec<_>>())
        })
    }
}

/// What a step has come to.
fn done(approval: &Approval) -> String {
    let until = approval.granted_until.map(|at| format!(" until {at}")).unwrap_or_default();
    let what = about(approval);
    match approval.state {
        ApprovalState::Pending => format!("{what} still waits: {} approvals are needed\n", approval.approvals_needed),
        ApprovalState::Approved => {
            format!("{what} is approved, and made by itself; see `vctl approval get {}`\n", approval.id)
        }
        ApprovalState::Active => format!("{what} counts{until}\n"),
        state => format!("{what} is {}\n", format!("{state:?}").to_lowercase()),
    }
}

fn render(approval: &Approval) -> String {
    let mut lines = vec![
        ("request", approval.id.clone()),
        ("what", about(approval)),
        ("state", format!("{:?}", approval.state)),
        ("message", approval.message.clone()),
        ("project", approval.project.clone()),
        ("by", approval.requested_by.clone()),
        ("reason", approval.reason.clone()),
        ("template", approval.template_version.clone().unwrap_or_default()),
        ("asked at", approval.created_at.to_string()),
        ("answer by", approval.expires_at.map(|at| at.to_string()).unwrap_or_default()),
        ("until", approval.granted_until.map(|at| at.to_string()).unwrap_or_default()),
        ("job", approval.job.clone().unwrap_or_default()),
    ];
    if let Some(size) = &approval.size {
        let amounts = [("cpu", &size.cpu), ("memory", &size.memory), ("storage", &size.storage)];
        let amounts = amounts.iter().filter_map(|(name, text)| text.as_ref().map(|text| format!("{name} {text}")));
        lines.push(("requests", amounts.collect::<Vec<_>>().join(", ")));
    }
    lines.extend(approval.rules.iter().map(|rule| ("held by", format!("{}: {}", rule.rule, rule.why))));
    for decision in &approval.decisions {
        let verdict = format!("{:?}", decision.verdict).to_lowercase();
        lines.push((
            if verdict == "deny" { "denied by" } else { "approved by" },
            format!("{} {}", decision.by, decision.comment),
        ));
    }
    if let Some(review) = &approval.review {
        lines.push(("reviewed by", format!("{}: {}", review.by, review.comment)));
    }
    let shown = lines.iter().filter(|(_, text)| !text.is_empty());
    // What somebody wrote in several lines is not taken for other fields.
    let inside = format!("\n{:<13}", "");
    shown.fold(String::new(), |all, (name, text)| {
        all + &format!("{name:<12} {}\n", text.trim_end().replace(['\n', '\r'], &inside))
    })
}

/// Prints one line.
pub(super) fn said(text: &str) -> Result<(), CliError> {
    print(&format!("{text}\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_not_taken_for_other_fields() {
        let approval: Approval = serde_json::from_value(serde_json::json!({
            "id": "1", "kind": "create", "state": "Pending", "project": "web", "requestedBy": "ann", "requestedById": "corp:ann",
            "reason": "a test\nrequests     cpu 1", "createdAt": "2026-01-01T00:00:00Z", "approvalsNeeded": 1,
            "size": {"cpu": "64"}, "revision": 1,
        }))
        .expect("an approval");
        let text = render(&approval);
        let fields: Vec<&str> = text.lines().filter(|line| line.starts_with("requests ")).collect();
        assert_eq!(fields, ["requests     cpu 64"], "{text}");
        assert!(text.contains("reason       a test\n             requests     cpu 1\n"), "{text}");
    }
}
