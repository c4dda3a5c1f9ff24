//! `vctl authentication`, and the options of the same purpose of `vctl create`.

use std::{fs, path::PathBuf};

use clap::Args;
use clap_complete::ArgValueCandidates;
use serde_json::{Value, json};
use vctl_api::rest::Authentication as Body;

use super::{Client, Global, authorities, client::segment, completion, error::CliError, output::print};

/// Arguments of `vctl authentication`.
#[derive(Debug, Args)]
pub(crate) struct Authentication {
    /// Name of the environment
    #[arg(add = ArgValueCandidates::new(completion::environments))]
    name: String,
    /// No tokens but the environment's own
    #[arg(long, conflicts_with_all = ["authentication_config", "oidc_issuer_url"])]
    none: bool,
    #[command(flatten)]
    new: AuthenticationArgs,
}

/// Whose tokens count: as kube-apiserver takes it, a file or the options of one issuer.
#[derive(Debug, Args)]
pub(crate) struct AuthenticationArgs {
    /// File with an AuthenticationConfiguration of apiserver.config.k8s.io/v1: any number of issuers, claims mapped by CEL
    #[arg(long, value_name = "FILE", conflicts_with = "oidc_issuer_url")]
    authentication_config: Option<PathBuf>,
    /// Issuer of ID tokens that count (OpenID Connect): an https URL
    #[arg(long, value_name = "URL", requires = "oidc_client_id")]
    oidc_issuer_url: Option<String>,
    /// Client for which the tokens are issued: their audience
    #[arg(long, value_name = "ID", requires = "oidc_issuer_url")]
    oidc_client_id: Option<String>,
    /// Claim that is the user's name
    #[arg(long, value_name = "CLAIM", default_value = "sub")]
    oidc_username_claim: String,
    /// What goes before it; `-` for nothing [default: the issuer's URL and #, for the claim email nothing]
    #[arg(long, value_name = "PREFIX", requires = "oidc_issuer_url")]
    oidc_username_prefix: Option<String>,
    /// Claim that lists the user's groups
    #[arg(long, value_name = "CLAIM", requires = "oidc_issuer_url")]
    oidc_groups_claim: Option<String>,
    /// What goes before each of them
    #[arg(long, value_name = "PREFIX", requires = "oidc_groups_claim")]
    oidc_groups_prefix: Option<String>,
    /// Claim that must have this value; may be given several times
    #[arg(long, value_name = "CLAIM=VALUE", requires = "oidc_issuer_url", value_parser = super::create::pair)]
    oidc_required_claim: Vec<(String, String)>,
    /// File with the authorities of the issuer's certificate [default: those that the server's machine trusts]
    #[arg(long, value_name = "FILE", requires = "oidc_issuer_url")]
    oidc_ca_file: Option<PathBuf>,
}

impl AuthenticationArgs {
    /// The AuthenticationConfiguration that was asked for, if any.
    pub(crate) fn configuration(&self) -> Result<Option<Value>, CliError> {
        if let Some(file) = &self.authentication_config {
            let text = fs::read_to_string(file).map_err(CliError::file(file))?;
            let value: Value = serde_yaml::from_str(&text)
                .map_err(|e| CliError::Usage(format!("{} does not parse: {e}", file.display())))?;
            return Ok(Some(value));
        }
        let Some(url) = &self.oidc_issuer_url else { return Ok(None) };
        let authority = authorities::read("--oidc-ca-file", self.oidc_ca_file.as_deref())?.unwrap_or_default();
        Ok(Some(self.structured(url, &authority)))
    }

    /// What the options of kube-apiserver mean in the structured form.
    fn structured(&self, url: &str, authority: &str) -> Value {
        let claim = &self.oidc_username_claim;
        let prefix = match self.oidc_username_prefix.as_deref() {
            Some("-") => String::new(),
            Some(prefix) => prefix.to_owned(),
            None if claim == "email" => String::new(),
            None => format!("{url}#"),
        };
        let mut mappings = json!({ "username": { "claim": claim, "prefix": prefix } });
        if let Some(groups) = &self.oidc_groups_claim {
            let prefix = self.oidc_groups_prefix.clone().unwrap_or_default();
            mappings["groups"] = json!({ "claim": groups, "prefix": prefix });
        }
        let required: Vec<Value> = self
            .oidc_required_claim
            .iter()
            .map(|(claim, value)| json!({ "claim": claim, "requiredValue": value }))
            .collect();
        let mut issuer = json!({ "url": url, "audiences": self.oidc_client_id.iter().collect::<Vec<_>>() });
        if !authority.is_empty() {
            issuer["certificateAuthority"] = authority.into();
        }
        json!({
            "apiVersion": "apiserver.config.k8s.io/v1", "kind": "AuthenticationConfiguration",
            "jwt": [{ "issuer": issuer, "claimMappings": mappings, "claimValidationRules": required }],
        })
    }
}

impl Authentication {
    pub(super) async fn run(self, global: &Global) -> Result<(), CliError> {
        let new = self.new.configuration()?;
        let client = Client::open(global)?;
        let path = format!("environments/{}/authentication", segment(&self.name));
        if new.is_none() && !self.none {
            let body: Body = client.get(&path).await?;
            return match body.authentication {
                Some(configuration) => {
                    let text = serde_yaml::to_string(&configuration).map_err(|e| CliError::Failed(e.to_string()))?;
                    print(&text)
                }
                None => print(&format!("environment {} takes no tokens but its own\n", self.name)),
            };
        }
        let body: Body = client.put(&path, &Body { authentication: new }).await?;
        let issuers = body.authentication.iter().flat_map(|c| c["jwt"].as_array().into_iter().flatten());
        let issuers: Vec<&str> = issuers.filter_map(|jwt| jwt["issuer"]["url"].as_str()).collect();
        let text = match issuers.as_slice() {
            [] => format!("environment {} takes no tokens but its own\n", self.name),
            issuers => format!("environment {} takes tokens of {}\n", self.name, issuers.join(", ")),
        };
        print(&text)
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: AuthenticationArgs,
    }

    fn configuration(arguments: &str) -> Value {
        let line = Line::try_parse_from(std::iter::once("x").chain(arguments.split(' '))).expect("arguments");
        line.args.configuration().expect("a configuration").expect("one")
    }

    #[test]
    fn options_mean_what_they_mean_to_kube_apiserver() {
        let made = configuration(
            "--oidc-issuer-url https://i --oidc-client-id k8s --oidc-groups-claim groups --oidc-groups-prefix oidc: \
             --oidc-required-claim hd=example.com",
        );
        let jwt = &made["jwt"][0];
        assert_eq!(jwt["issuer"], json!({ "url": "https://i", "audiences": ["k8s"] }));
        assert_eq!(jwt["claimMappings"]["username"], json!({ "claim": "sub", "prefix": "https://i#" }));
        assert_eq!(jwt["claimMappings"]["groups"], json!({ "claim": "groups", "prefix": "oidc:" }));
        assert_eq!(jwt["claimValidationRules"], json!([{ "claim": "hd", "requiredValue": "example.com" }]));
        let name = |more: &str| {
            let made = configuration(&format!("--oidc-issuer-url https://i --oidc-client-id k8s {more}"));
            made["jwt"][0]["claimMappings"]["username"]["prefix"].clone()
        };
        assert_eq!(name("--oidc-username-claim email"), "");
        assert_eq!(name("--oidc-username-claim email --oidc-username-prefix oidc:"), "oidc:");
        assert_eq!(name("--oidc-username-prefix -"), "");
        assert!(Line::try_parse_from(["x", "--oidc-issuer-url", "https://i"]).is_err(), "a client is needed");
    }
}
