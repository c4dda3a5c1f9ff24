//! `vctl restore`.

use std::path::PathBuf;

use clap::Args;
use vctl_api::rest::Environment;
use vctl_store::Backup;

use super::{
    Client, Global,
    client::segment,
    error::CliError,
    output::{Format, show},
};

/// Arguments of `vctl restore`.
#[derive(Debug, Args)]
pub(crate) struct Restore {
    /// A file that `vctl snapshot` or `vctl backup` wrote
    file: PathBuf,
    /// Name for it, with keys of its own [default: the name it had, whose kubeconfigs go on working; what has that name now is
    /// replaced]
    #[arg(long = "as", value_name = "NAME")]
    name: Option<String>,
    /// Replace the environment that has the name given with --as
    #[arg(long)]
    replace: bool,
    /// Which environment of a file that has several
    #[arg(long, value_name = "NAME")]
    from: Option<String>,
    /// How to print the environment
    #[arg(long, short, value_enum, default_value_t)]
    output: Format,
}

impl Restore {
    pub(super) async fn run(self, global: &Global) -> Result<(), CliError> {
        let bytes = std::fs::read(&self.file).map_err(CliError::file(&self.file))?;
        let wrong = |why: String| CliError::Usage(format!("{}: {why}", self.file.display()));
        let backup = Backup::decode(&bytes.into()).map_err(|e| wrong(e.to_string()))?;
        let names = backup.names();
        let from = match (&self.from, &names[..]) {
            (Some(from), _) if names.contains(&from.as_str()) => from.clone(),
            (Some(from), _) => {
                return Err(wrong(format!("there is no environment {from:?} in it, only {}", names.join(", "))));
            }
            (None, [one]) => (*one).to_owned(),
            (None, []) => return Err(wrong("there is no environment in it".to_owned())),
            (None, several) => {
                return Err(wrong(format!(
                    "there are several environments in it: say --from with one of {}",
                    several.join(", ")
                )));
            }
        };
        let name = self.name.clone().unwrap_or_else(|| from.clone());
        let replace = self.replace || self.name.is_none();
        let client = Client::open(global)?;
        let path = format!("environments/{}/restore?replace={replace}", segment(&name));
        let environment: Environment = client.upload(&path, backup.only(&from).encode()).await?;
        show(self.output, &environment, || format!("environment {name} is restored from {}\n", self.file.display()))
    }
}
