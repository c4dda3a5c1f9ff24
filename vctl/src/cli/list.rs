//! `vctl list`.

use clap::Args;
use jiff::Timestamp;
use vctl_api::rest::Environment;

use super::{
    Client, Global,
    error::CliError,
    output::{Format, age, show, table},
};

/// Arguments of `vctl list`.
#[derive(Debug, Args)]
pub(crate) struct List {
    /// How to print them
    #[arg(long, short, value_enum, default_value_t)]
    output: Format,
}

impl List {
    pub(super) async fn run(self, global: &Global) -> Result<(), CliError> {
        let items: Vec<Environment> = Client::open(global)?.all("environments").await?;
        show(self.output, &items, || render(&items, self.output, Timestamp::now()))
    }
}

fn render(environments: &[Environment], format: Format, now: Timestamp) -> String {
    if environments.is_empty() {
        return "no environments yet: make one with `vctl create NAME --template team-x`\n".to_owned();
    }
    if format == Format::Wide {
        let row = |e: &Environment| {
            [
                e.name.to_string(),
                format!("{:?}", e.phase),
                format!("{}/{}", e.pods.ready, e.pods.total),
                format!("{} {}", e.template, e.template_version),
                e.kubernetes_version.clone(),
                e.project.clone(),
                e.owner.clone(),
                age(e.created_at, now),
                e.lifecycle.expires_at.map(|at| format!("in {}", age(now, at))).unwrap_or_default(),
                e.server.clone(),
                e.message.clone(),
            ]
        };
        let head = [
            "NAME",
            "PHASE",
            "PODS",
            "TEMPLATE",
            "KUBERNETES",
            "PROJECT",
            "OWNER",
            "AGE",
            "EXPIRES",
            "SERVER",
            "MESSAGE",
        ];
        return table(head, &environments.iter().map(row).collect::<Vec<_>>());
    }
    let row = |e: &Environment| {
        [
            e.name.to_string(),
            format!("{:?}", e.phase),
            format!("{}/{}", e.pods.ready, e.pods.total),
            format!("{} {}", e.template, e.template_version),
            age(e.created_at, now),
            e.message.lines().next().unwrap_or_default().to_owned(),
        ]
    };
    let rows: Vec<_> = environments.iter().map(row).collect();
    table(["NAME", "PHASE", "PODS", "TEMPLATE", "AGE", "MESSAGE"], &rows)
}
