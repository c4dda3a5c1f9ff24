//! `vctl create`.

use std::{
    collections::BTreeMap,
    io::{self, IsTerminal},
    time::Instant,
};

use clap::Args;
use clap_complete::{ArgValueCandidates, ArgValueCompleter};
use vctl_api::rest::{CreateEnvironment, CreatePreview, DEFAULT_PROJECT, Environment, EnvironmentKind, Period};
use vctl_machinery::version::MinorVersion;

use super::{
    Client, Global,
    approval::Asked,
    authentication::AuthenticationArgs,
    changes,
    client::segment,
    completion,
    error::CliError,
    output::{Format, show},
    progress,
};

/// Arguments of `vctl create`.
#[derive(Debug, Args)]
pub(crate) struct Create {
    /// Name: lower-case letters, digits and '-', at most 50
    name: String,
    /// What to make it from; see `vctl templates`
    #[arg(long, short, add = ArgValueCompleter::new(completion::templates))]
    template: String,
    /// Project that it is to belong to
    #[arg(long, value_name = "PROJECT", default_value = DEFAULT_PROJECT, add = ArgValueCandidates::new(completion::projects))]
    project: String,
    /// A parameter of the template; may be given several times
    #[arg(long = "set", value_name = "NAME=VALUE", value_parser = pair, add = ArgValueCompleter::new(completion::parameters))]
    set: Vec<(String, String)>,
    /// Minor version of Kubernetes: 1.33 to 1.37 [default: the template's, or 1.36]
    #[arg(long, value_name = "VERSION")]
    kubernetes_version: Option<MinorVersion>,
    /// What its dependencies are: stand-ins (mocked), or registered resources (real) [default: mocked]
    #[arg(long, value_name = "KIND", value_parser = kind)]
    kind: Option<EnvironmentKind>,
    /// A registered resource for a binding of the template; may be given several times
    #[arg(long = "bind", value_name = "BINDING=RESOURCE", value_parser = pair, add = ArgValueCompleter::new(completion::bindings))]
    bind: Vec<(String, String)>,
    /// Delete it so long from now, such as 8h or 7d [default: as the template says]
    #[arg(long, value_name = "TIME")]
    expires_after: Option<Period>,
    /// Why it is wanted: where a rule asks for approval, it is asked for with that
    #[arg(long, value_name = "TEXT", default_value = "")]
    reason: String,
    #[command(flatten)]
    authentication: AuthenticationArgs,
    /// Return as soon as it is asked for
    #[arg(long)]
    no_wait: bool,
    /// Let the server check everything, and make nothing
    #[arg(long, conflicts_with = "no_wait")]
    dry_run: bool,
    /// How to print it
    #[arg(long, short, value_enum, default_value_t)]
    output: Format,
}

pub(super) fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("write it as NAME=VALUE".to_owned()),
    }
}

pub(super) fn kind(text: &str) -> Result<EnvironmentKind, String> {
    match text {
        "mocked" => Ok(EnvironmentKind::Mocked),
        "real" => Ok(EnvironmentKind::Real),
        _ => Err("write mocked or real".to_owned()),
    }
}

impl Create {
    pub(super) async fn run(self, global: &Global) -> Result<(), CliError> {
        let begun = Instant::now();
        let client = Client::open(global)?;
        let mut parameters = BTreeMap::new();
        for (name, value) in self.set {
            if parameters.insert(name.clone(), value.into()).is_some() {
                return Err(CliError::Usage(format!("--set {name} is given twice: give it once")));
            }
        }
        let authentication = self.authentication.configuration()?;
        let kubernetes_version = self.kubernetes_version.map(|version| version.to_string());
        let request = CreateEnvironment {
            name: self.name,
            project: self.project,
            template: self.template,
            parameters,
            kubernetes_version,
            authentication,
            kind: self.kind.unwrap_or_default(),
            bindings: self.bind.into_iter().collect(),
            expires_after: self.expires_after,
            reason: self.reason,
        };
        if self.dry_run {
            let would: CreatePreview = client.post("preview", &request).await?;
            return show(self.output, &would, || dry(&would));
        }
        let asked: Asked<Environment> = client.post("environments", &request).await?;
        let mut environment = asked.done(self.output)?;
        let path = format!("environments/{}", segment(environment.name.as_str()));
        if self.no_wait {
            let hint = format!("environment {0} is being created; see `vctl get {0}`\n", environment.name);
            return show(self.output, &environment, || hint);
        }
        if let Some(job) = environment.job.clone() {
            progress::follow(&client, &job).await?;
            environment = client.get(&path).await?;
        }
        let seconds = begun.elapsed().as_secs_f64();
        show(self.output, &environment, || ready(&environment, seconds))
    }
}

fn dry(would: &CreatePreview) -> String {
    let e = &would.environment;
    let mut text = changes::diff(&would.changes);
    text.push_str(&format!(
        "environment {} would be made of {} {} with Kubernetes {} in project {}; nothing was changed\n",
        e.name, e.template, e.template_version, e.kubernetes_version, e.project
    ));
    for (name, value) in &e.parameters {
        let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        text.push_str(&format!("  {name}={value}\n"));
    }
    text
}

fn ready(environment: &Environment, seconds: f64) -> String {
    let name = &environment.name;
    let mut text = format!("environment {name} is ready after {seconds:.1} s: {}\n", environment.server);
    if io::stdout().is_terminal() {
        text.push_str(&format!(
            "\nNext:\n  vctl connect {name}                   a shell with kubectl set to it\n  \
             vctl connect {name} -- kubectl get all\n  vctl kubeconfig {name} --merge        into your kubeconfig\n"
        ));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_pairs() {
        assert_eq!(pair("a=b=c"), Ok(("a".to_owned(), "b=c".to_owned())));
        assert_eq!(pair("a="), Ok(("a".to_owned(), String::new())));
        assert!(pair("a").is_err() && pair("=b").is_err());
    }
}
