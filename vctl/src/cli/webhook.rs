//! `vctl webhook`.

use std::io::Read;

use clap::{Args, Subcommand};
use clap_complete::ArgValueCandidates;
use vctl_api::rest::{Delivery, Page, Webhook, WebhookSettings};

use super::{
    Client, Global,
    client::segment,
    completion,
    error::CliError,
    output::{Output, print, show, table},
};

/// Arguments of `vctl webhook`.
#[derive(Debug, Args)]
pub(crate) struct WebhookCommand {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// List webhooks with what came of their last delivery
    List(Output),
    /// Make a webhook, or say anew what it is; prints the secret that is made for a new one
    Set {
        /// Name: lower-case letters, digits and '-'
        #[arg(add = ArgValueCandidates::new(completion::webhooks))]
        name: String,
        /// Its address: https://HOST/PATH
        #[arg(long)]
        url: String,
        /// What it is told of, such as 'approval.*'; may be given several times [default: everything]
        #[arg(long = "event", value_name = "EVENT")]
        events: Vec<String>,
        /// Only of this project; may be given several times
        #[arg(long = "project", value_name = "PROJECT", add = ArgValueCandidates::new(completion::projects))]
        projects: Vec<String>,
        /// Read the secret that bodies are signed with from standard input
        #[arg(long)]
        secret_stdin: bool,
    },
    /// Send it something, to see whether it arrives
    Test {
        /// Its name
        #[arg(add = ArgValueCandidates::new(completion::webhooks))]
        name: String,
    },
    /// Delete a webhook
    Delete {
        /// Its name
        #[arg(add = ArgValueCandidates::new(completion::webhooks))]
        name: String,
    },
}

fn path(name: &str) -> String {
    format!("webhooks/{}", segment(name))
}

impl WebhookCommand {
    pub(super) async fn run(self, global: &Global) -> Result<(), CliError> {
        let client = Client::open(global)?;
        match self.action {
            Action::List(Output { output }) => {
                let page: Page<Webhook> = client.get("webhooks").await?;
                show(output, &page.items, || {
                    let row = |w: &Webhook| {
                        let last = w.deliveries.first();
                        let last = last.map(|d| format!("{:?} {} {}", d.state, d.event, d.message)).unwrap_or_default();
                        [w.name.clone(), w.settings.url.clone(), w.settings.events.join(","), last]
                    };
                    table(["NAME", "URL", "EVENTS", "LAST"], &page.items.iter().map(row).collect::<Vec<_>>())
                })
            }
            Action::Set { name, url, events, projects, secret_stdin } => {
                let secret = if secret_stdin {
                    let mut text = String::new();
                    std::io::stdin().lock().take(4096).read_to_string(&mut text)?;
                    Some(text.trim().to_owned())
                } else {
                    None
                };
                let settings = WebhookSettings { url, events, projects, secret };
                let webhook: Webhook = client.put(&path(&name), &settings).await?;
                match webhook.settings.secret {
                    Some(secret) => print(&format!("webhook {name} is set; it is shown once: {secret}\n")),
                    None => print(&format!("webhook {name} is set\n")),
                }
            }
            Action::Test { name } => {
                let delivery: Delivery = client.post(&format!("{}/test", path(&name)), &serde_json::json!({})).await?;
                print(&format!("delivery {} is on its way; `vctl webhook list` says whether it arrived\n", delivery.id))
            }
            Action::Delete { name } => {
                client.delete_nothing(&path(&name)).await?;
                print(&format!("webhook {name} is deleted\n"))
            }
        }
    }
}
