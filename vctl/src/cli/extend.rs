//! `vctl extend`.

use clap::Args;
use clap_complete::ArgValueCandidates;
use jiff::Timestamp;
use vctl_api::rest::{Environment, Extend as Request, Period};

use super::{
    Client, Global,
    client::segment,
    completion,
    error::CliError,
    output::{Format, show},
};

/// Arguments of `vctl extend`.
#[derive(Debug, Args)]
pub(crate) struct Extend {
    /// Name of the environment
    #[arg(add = ArgValueCandidates::new(completion::environments))]
    name: String,
    /// It is deleted so long from now, such as 4h or 7d; at most as far as its template allows
    #[arg(value_name = "TIME")]
    period: Period,
    /// How to print it
    #[arg(long, short, value_enum, default_value_t)]
    output: Format,
}

impl Extend {
    pub(super) async fn run(self, global: &Global) -> Result<(), CliError> {
        let client = Client::open(global)?;
        let path = format!("environments/{}/extend", segment(&self.name));
        let environment: Environment = client.post(&path, &Request { period: self.period }).await?;
        let expires = environment.lifecycle.expires_at.unwrap_or(Timestamp::MAX);
        let expires = Timestamp::from_second(expires.as_second()).unwrap_or(expires);
        show(self.output, &environment, || format!("environment {} is deleted at {expires}\n", environment.name))
    }
}
