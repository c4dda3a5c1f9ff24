//! `vctl dash`: the dashboard's data, by REST and by the Kubernetes API of the environment that is looked at.

mod change;
mod cluster;
mod describe;
mod documents;
mod edit;
mod feed;
mod platform;
mod settings;
mod shell;
mod tables;

use std::{path::PathBuf, time::Duration};

use clap::Args;
use vctl_api::rest::{Environment, Page};
use vctl_runtime::tasks::Tasks;
use vctl_tui::{
    Ends,
    model::{Data, HandOver, Outside},
};

use super::{Client, Global, error::CliError};

/// How long the source of data may take to end.
const END: Duration = Duration::from_secs(1);

/// Arguments of `vctl dash`.
#[derive(Debug, Args)]
pub(crate) struct Dash {
    /// Change nothing: no edit, no deletion, no shell
    #[arg(long = "readonly", visible_alias = "read-only")]
    read_only: bool,
    /// terminal, dark, light, contrast or mono [default: terminal; mono where NO_COLOR is set]
    #[arg(long, value_name = "NAME")]
    theme: Option<String>,
    /// Leave the mouse to the terminal
    #[arg(long)]
    no_mouse: bool,
    /// Theme and keys: `theme: dark`, `keys: {quit: [q, f10], delete: [D]}` [default: vctl/dash.yaml under the XDG configuration directory]
    #[arg(long, value_name = "FILE")]
    settings: Option<PathBuf>,
}

impl Dash {
    pub(super) async fn run(self, global: &Global) -> Result<(), CliError> {
        let settings = settings::read(self.settings.as_deref(), self.theme.as_deref(), self.read_only)?;
        let client = Client::open(global)?;
        // Whatever is wrong with the server is told before the screen is taken.
        let _: Page<Environment> = client.get("environments?limit=1").await?;
        let url = client.url().to_owned();
        let (ends, requests, data) = Ends::new();
        let tasks = Tasks::new();
        tasks.spawn_until_stopped("dash", feed::feed(global.clone(), requests, data));
        let outcome = vctl_tui::run(url, settings, !self.no_mouse, ends, &mut Terminal(global.clone())).await;
        tasks.shutdown(END).await;
        outcome.map_err(|e| CliError::Failed(e.to_string()))
    }
}

/// What needs the terminal for itself.
struct Terminal(Global);

#[async_trait::async_trait]
impl Outside for Terminal {
    async fn hand_over(&mut self, task: HandOver) -> Data {
        let done = match task {
            HandOver::Shell { pod, container } => shell::run(&self.0, &pod, &container).await.map(Data::Notice),
            HandOver::Edit(object) => edit::begin(&self.0, object).await,
            HandOver::EditAgain(draft) => edit::again(&self.0, draft).await,
        };
        done.unwrap_or_else(|e| Data::Notice(e.to_string()))
    }
}
