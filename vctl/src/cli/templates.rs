//! `vctl templates`.

use clap::Args;
use clap_complete::ArgValueCompleter;
use vctl_api::rest::{Page, Parameter, ParameterType, Template};

use super::{
    Client, Global,
    client::segment,
    completion,
    error::CliError,
    output::{Format, show, table},
};

/// Arguments of `vctl templates`.
#[derive(Debug, Args)]
pub(crate) struct Templates {
    /// Show this one with its parameters
    #[arg(add = ArgValueCompleter::new(completion::templates))]
    name: Option<String>,
    /// How to print them
    #[arg(long, short, value_enum, default_value_t)]
    output: Format,
}

impl Templates {
    pub(super) async fn run(self, global: &Global) -> Result<(), CliError> {
        let client = Client::open(global)?;
        if let Some(name) = self.name {
            let template: Template = client.get(&format!("templates/{}", segment(&name))).await?;
            return show(self.output, &template, || render(&template));
        }
        let page: Page<Template> = client.get("templates").await?;
        show(self.output, &page.items, || {
            let row = |t: &Template| {
                let broken =
                    if t.version.is_empty() { format!("{}: {}", t.title, t.description) } else { t.title.clone() };
                let parameters: Vec<&str> = t.parameters.iter().map(|p| p.name.as_str()).collect();
                [t.name.clone(), t.version.clone(), broken, parameters.join(",")]
            };
            table(["NAME", "VERSION", "TITLE", "PARAMETERS"], &page.items.iter().map(row).collect::<Vec<_>>())
        })
    }
}

fn render(t: &Template) -> String {
    let mut text = format!("{} {}: {}\n", t.name, t.version, t.title);
    if !t.description.is_empty() {
        text.push_str(&format!("\n{}\n", t.description.trim_end()));
    }
    if !t.parameters.is_empty() {
        let row = |p: &Parameter| [p.name.clone(), values(p), default(p), p.help.clone()];
        let rows: Vec<_> = t.parameters.iter().map(row).collect();
        text.push_str(&format!("\n{}", table(["PARAMETER", "TAKES", "DEFAULT", "HELP"], &rows)));
    }
    text
}

fn values(p: &Parameter) -> String {
    let kind = match p.kind {
        ParameterType::String => "text".to_owned(),
        ParameterType::Number => "number".to_owned(),
        ParameterType::Boolean => "true|false".to_owned(),
        ParameterType::Password => "password".to_owned(),
        ParameterType::Choice => p.choices.join("|"),
        ParameterType::Text => "text of several lines".to_owned(),
        ParameterType::Resource => {
            format!("a {}resource", p.resource_kind.map_or(String::new(), |k| format!("{} ", k.as_str())))
        }
    };
    match (p.minimum, p.maximum) {
        (Some(least), Some(most)) => format!("{kind} {least}..{most}"),
        (Some(least), None) => format!("{kind} >= {least}"),
        (None, Some(most)) => format!("{kind} <= {most}"),
        (None, None) => kind,
    }
}

fn default(p: &Parameter) -> String {
    match &p.default {
        Some(serde_json::Value::String(text)) => text.clone(),
        Some(value) => value.to_string(),
        None if p.required => "(required)".to_owned(),
        None => String::new(),
    }
}
