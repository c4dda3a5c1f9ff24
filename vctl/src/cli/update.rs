//! `vctl set`, `vctl upgrade`, `vctl rollback`: an environment brought to other parameters or another version, with the difference shown
//! beforehand.

use std::collections::BTreeMap;

use clap::Args;
use clap_complete::{ArgValueCandidates, ArgValueCompleter};
use vctl_api::rest::{Job, UpdateEnvironment, UpdatePreview};

use super::{
    Client, Global,
    approval::Asked,
    changes,
    client::segment,
    completion,
    create::pair,
    error::CliError,
    output::{Format, show},
    progress,
};

/// What all three take.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Only show what would change
    #[arg(long)]
    dry_run: bool,
    /// Why it is wanted: where a rule asks for approval, it is asked for with that
    #[arg(long, value_name = "TEXT", default_value = "")]
    reason: String,
    /// Return as soon as it is asked for
    #[arg(long)]
    no_wait: bool,
    /// How to print what changes
    #[arg(long, short, value_enum, default_value_t)]
    output: Format,
}

/// Arguments of `vctl set`.
#[derive(Debug, Args)]
pub(crate) struct Set {
    /// Name of the environment
    #[arg(add = ArgValueCandidates::new(completion::environments))]
    name: String,
    /// Parameters; NAME= without a value takes one back to the template's default
    #[arg(required = true, value_name = "NAME=VALUE", value_parser = pair, add = ArgValueCompleter::new(completion::parameters))]
    parameters: Vec<(String, String)>,
    #[command(flatten)]
    options: Options,
}

/// Arguments of `vctl upgrade`.
#[derive(Debug, Args)]
pub(crate) struct Upgrade {
    /// Name of the environment
    #[arg(add = ArgValueCandidates::new(completion::environments))]
    name: String,
    /// Version or channel of its template
    #[arg(long, value_name = "VERSION", default_value = "stable")]
    to: String,
    /// A parameter of the template; may be given several times
    #[arg(long = "set", value_name = "NAME=VALUE", value_parser = pair, add = ArgValueCompleter::new(completion::parameters))]
    set: Vec<(String, String)>,
    #[command(flatten)]
    options: Options,
}

/// Arguments of `vctl rollback`.
#[derive(Debug, Args)]
pub(crate) struct Rollback {
    /// Name of the environment
    #[arg(add = ArgValueCandidates::new(completion::environments))]
    name: String,
    #[command(flatten)]
    options: Options,
}

impl Set {
    pub(super) async fn run(self, global: &Global) -> Result<(), CliError> {
        let parameters = values(self.parameters)?;
        run(global, &self.name, UpdateEnvironment { parameters, ..UpdateEnvironment::default() }, self.options).await
    }
}

impl Upgrade {
    pub(super) async fn run(self, global: &Global) -> Result<(), CliError> {
        let parameters = values(self.set)?;
        let request = UpdateEnvironment { to: Some(self.to), parameters, ..UpdateEnvironment::default() };
        run(global, &self.name, request, self.options).await
    }
}

impl Rollback {
    pub(super) async fn run(self, global: &Global) -> Result<(), CliError> {
        let request = UpdateEnvironment { rollback: true, ..UpdateEnvironment::default() };
        run(global, &self.name, request, self.options).await
    }
}

/// Parameters as they are sent: nothing takes one back.
fn values(pairs: Vec<(String, String)>) -> Result<BTreeMap<String, serde_json::Value>, CliError> {
    let mut all = BTreeMap::new();
    for (name, value) in pairs {
        let value = if value.is_empty() { serde_json::Value::Null } else { value.into() };
        if all.insert(name.clone(), value).is_some() {
            return Err(CliError::Usage(format!("{name} is given twice: give it once")));
        }
    }
    Ok(all)
}

async fn run(global: &Global, name: &str, mut request: UpdateEnvironment, options: Options) -> Result<(), CliError> {
    let client = Client::open(global)?;
    let path = format!("environments/{}/update", segment(name));
    let preview: UpdatePreview = client.post(&format!("{path}/preview"), &request).await?;
    if options.dry_run {
        return show(options.output, &preview, || render(&preview));
    }
    request.reason = options.reason;
    let asked: Asked<Job> = client.post(&path, &request).await?;
    let job = asked.done(options.output)?;
    if options.no_wait {
        return show(options.output, &job, || format!("job {} is at it; see `vctl get {name}`\n", job.id));
    }
    progress::follow(&client, &job.id).await?;
    show(options.output, &preview, || {
        format!("environment {name} has {} now ({})\n", preview.to, changes::count(&preview.changes))
    })
}

fn render(preview: &UpdatePreview) -> String {
    let changes = &preview.changes;
    format!("{}from {} to {}: {}\n", changes::diff(changes), preview.from, preview.to, changes::count(changes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_value_takes_a_parameter_back() {
        let pairs = vec![("a".to_owned(), "1".to_owned()), ("b".to_owned(), String::new())];
        let all = values(pairs).expect("values");
        assert_eq!((&all["a"], &all["b"]), (&"1".into(), &serde_json::Value::Null));
        let twice = vec![("a".to_owned(), "1".to_owned()), ("a".to_owned(), "2".to_owned())];
        assert!(values(twice).is_err());
    }
}
