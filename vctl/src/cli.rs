//! The client commands: they find the running server by its data dir and talk REST to it as its local administrator, or talk to one that
//! somebody has signed in to (`contexts`).
//!
//! What they end with: [`error::Exit`]. `connect` gives the code of its command.

mod api_key;
mod approval;
mod audit;
mod authentication;
mod authorities;
mod backup;
mod break_glass;
mod changes;
mod client;
mod compact;
pub(crate) mod completion;
mod connect;
mod context;
mod contexts;
mod create;
mod dash;
mod delete;
mod directories;
mod error;
mod extend;
mod get;
mod jobs;
mod kubeconfig;
mod list;
mod login;
mod login_link;
mod man;
mod output;
mod password;
mod permissions;
mod platform;
mod progress;
mod project;
mod reencrypt;
mod resource;
mod restore;
mod rotate_ca;
mod share;
mod sleep;
mod snapshot;
mod status;
mod team;
mod template;
mod template_source;
mod templates;
mod token;
mod top;
mod update;
mod user;
mod version;
mod wake;
mod webhook;
mod whoami;
mod workers;

use std::{path::PathBuf, process::ExitCode};

use clap::{Args, Subcommand};
use clap_complete::ArgValueCandidates;

use crate::cli::{client::Client, error::CliError};

// Options of every command. No doc comment, for the same reason as below.
#[derive(Debug, Clone, Args)]
pub(crate) struct Global {
    /// Directory where the server keeps everything, and by which commands find it [default: vctl under the XDG data directory]
    #[arg(long, global = true, env = "VCTL_DATA_DIR", value_name = "DIR")]
    pub(crate) data_dir: Option<PathBuf>,
    /// Server to talk to, by the name of its context (`vctl context list`) [default: the current one, unless --data-dir is given]
    #[arg(long, global = true, env = "VCTL_CONTEXT", value_name = "NAME", add = ArgValueCandidates::new(completion::contexts))]
    pub(crate) context: Option<String>,
}

impl Global {
    /// The data directory: the given one, or `$XDG_DATA_HOME/vctl`, or `~/.local/share/vctl`.
    pub(crate) fn data_dir(&self) -> Result<PathBuf, CliError> {
        if let Some(dir) = &self.data_dir {
            return Ok(dir.clone());
        }
        directories::data()
            .map(|base| base.join("vctl"))
            .ok_or_else(|| CliError::Usage("neither HOME nor XDG_DATA_HOME is set: say --data-dir DIR".to_owned()))
    }
}

// The commands that talk to a running server. No doc comment: it would become the help text of whoever flattens them in.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Create an environment from a template and wait until it is ready
    Create(create::Create),
    /// List environments
    #[command(visible_alias = "ls")]
    List(list::List),
    /// Show one environment
    Get(get::Get),
    /// Show what environments use: processors, memory and requests to their APIs
    Top(top::Top),
    /// Delete an environment with everything in it
    Delete(delete::Delete),
    /// Stop what runs for an environment; its objects can be read, and a write wakes it
    Sleep(sleep::Sleep),
    /// Start an environment that sleeps
    Wake(wake::Wake),
    /// Let an environment live longer
    Extend(extend::Extend),
    /// Change parameters of an environment
    Set(update::Set),
    /// Bring an environment to another version of its template
    Upgrade(update::Upgrade),
    /// Bring an environment back to what it was before its last update
    Rollback(update::Rollback),
    /// List, follow, cancel and resume the work on environments
    Jobs(jobs::Jobs),
    /// Register databases and services that environments can be bound to
    Resource(resource::Resource),
    /// Check, render and publish templates
    Template(template::Template),
    /// List templates, or show one with its parameters
    Templates(templates::Templates),
    /// Print an environment's kubeconfig, or merge it into yours
    Kubeconfig(kubeconfig::Kubeconfig),
    /// Write an environment to a file, while it goes on
    Snapshot(snapshot::Snapshot),
    /// Put an environment back from a file: under the name it had, or another one
    Restore(restore::Restore),
    /// Write everything that the server keeps to a file, while it serves
    Backup(backup::Backup),
    /// Drop the history of an environment before this moment; clients that come back with an older revision list again
    Compact(compact::Compact),
    /// Encrypt everything that the server keeps with the first of its keys; afterwards it needs no other
    Reencrypt(reencrypt::Reencrypt),
    /// Show or set whose tokens count in an environment (OpenID Connect)
    Authentication(authentication::Authentication),
    /// Give an environment another certificate authority, while it goes on
    RotateCa(rotate_ca::RotateCa),
    /// Open a shell, or run a command, with KUBECONFIG set to an environment
    Connect(connect::Connect),
    /// Share an environment with a user, or no more
    Share(share::Share),
    /// Projects: who is in them, what is allowed, what may be used
    Project(project::ProjectCommand),
    /// Teams: users and groups that are named together
    Team(team::TeamCommand),
    /// Roles: named lists of permissions
    Role(team::RoleCommand),
    /// The platform as a whole: who has which role everywhere, what each user may have
    Platform(platform::PlatformCommand),
    /// Show what you may do, on the platform, in a project or with an environment
    Permissions(permissions::Show),
    /// Requests for approval: see them, decide, ask for a role for a time; and the rules for what needs approval
    Approval(approval::ApprovalCommand),
    /// Take a role in a project at once, in an emergency: it is told to everybody and reviewed afterwards
    BreakGlass(break_glass::BreakGlass),
    /// Addresses that are told of requests for approval
    Webhook(webhook::WebhookCommand),
    /// Read, export and verify the audit trail
    Audit(audit::Audit),
    /// Show the server, its workers and a sign-in link for the portal
    Status(status::Status),
    /// List workers
    Workers(workers::Workers),
    /// Print a sign-in link for the portal: it works once, within ten minutes
    LoginLink(login_link::LoginLink),
    /// Sign in to a server with a browser, and remember it as a context
    Login(login::Login),
    /// Sign out of a server
    Logout(login::Logout),
    /// Show who you are to the server
    Whoami(whoami::Whoami),
    /// List, choose and remove servers that you have signed in to
    Context(context::Context),
    /// Print a short-lived token for an environment: the credential plugin of kubectl
    Token(token::Token),
    /// Make, list and delete keys for programs
    ApiKey(api_key::ApiKey),
    /// List, disable, enable and delete the people who have signed in
    User(user::User),
    /// Watch environments, pods, workers and events in the terminal
    Dash(dash::Dash),
    /// Print the versions of this program and of the server
    Version(version::Version),
    /// Print a completion script for a shell, which completes live names too
    Completion(completion::Completion),
    /// Write the manual pages of all commands
    Man(man::Man),
}

/// Runs a command and reports its failure on standard error. `root` is the whole command line, for manual pages.
pub(crate) async fn run(global: &Global, command: Command, root: clap::Command) -> ExitCode {
    // Fails when it is installed already, which is as good.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let done = match command {
        Command::Create(c) => c.run(global).await,
        Command::List(c) => c.run(global).await,
        Command::Get(c) => c.run(global).await,
        Command::Top(c) => c.run(global).await,
        Command::Delete(c) => c.run(global).await,
        Command::Sleep(c) => c.run(global).await,
        Command::Wake(c) => c.run(global).await,
        Command::Extend(c) => c.run(global).await,
        Command::Set(c) => c.run(global).await,
        Command::Upgrade(c) => c.run(global).await,
        Command::Rollback(c) => c.run(global).await,
        Command::Jobs(c) => c.run(global).await,
        Command::Resource(c) => c.run(global).await,
        Command::Template(c) => c.run(global).await,
        Command::Templates(c) => c.run(global).await,
        Command::Kubeconfig(c) => c.run(global).await,
        Command::Snapshot(c) => c.run(global).await,
        Command::Restore(c) => c.run(global).await,
        Command::Backup(c) => c.run(global).await,
        Command::Compact(c) => c.run(global).await,
        Command::Reencrypt(c) => c.run(global).await,
        Command::Authentication(c) => c.run(global).await,
        Command::RotateCa(c) => c.run(global).await,
        Command::Connect(c) => return c.run(global).await.unwrap_or_else(|e| error::report(&e)),
        Command::Share(c) => c.run(global).await,
        Command::Project(c) => c.run(global).await,
        Command::Team(c) => c.run(global).await,
        Command::Role(c) => c.run(global).await,
        Command::Platform(c) => c.run(global).await,
        Command::Permissions(c) => c.run(global).await,
        Command::Approval(c) => c.run(global).await,
        Command::BreakGlass(c) => c.run(global).await,
        Command::Webhook(c) => c.run(global).await,
        Command::Audit(c) => c.run(global).await,
        Command::Status(c) => c.run(global).await,
        Command::Workers(c) => c.run(global).await,
        Command::LoginLink(c) => c.run(global).await,
        Command::Login(c) => c.run(global).await,
        Command::Logout(c) => c.run(global).await,
        Command::Whoami(c) => c.run(global).await,
        Command::Context(c) => c.run(global).await,
        Command::Token(c) => c.run(global).await,
        Command::ApiKey(c) => c.run(global).await,
        Command::User(c) => c.run(global).await,
        Command::Dash(c) => c.run(global).await,
        Command::Version(c) => c.run(global).await,
        Command::Completion(c) => c.run(),
        Command::Man(c) => c.run(root),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => error::report(&e),
    }
}
