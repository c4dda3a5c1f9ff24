//! `vctl snapshot`.

use std::{
    fs::{self, File},
    io::Write as _,
    path::{Path, PathBuf},
};

use clap::Args;
use clap_complete::ArgValueCandidates;
use vctl_store::Backup;

use super::{Client, Global, client::segment, completion, error::CliError};

/// Arguments of `vctl snapshot`.
#[derive(Debug, Args)]
pub(crate) struct Snapshot {
    /// Name of the environment
    #[arg(add = ArgValueCandidates::new(completion::environments))]
    name: String,
    /// File to write; it holds the environment's Secrets and keys as they are
    #[arg(long, short, value_name = "FILE")]
    output: PathBuf,
}

impl Snapshot {
    pub(super) async fn run(self, global: &Global) -> Result<(), CliError> {
        let client = Client::open(global)?;
        let backup = save(&client, &format!("environments/{}/snapshot", segment(&self.name)), &self.output).await?;
        let documents: usize =
            backup.tenants.iter().filter(|t| !t.name.is_empty()).map(|t| t.export.entries.len()).sum();
        super::output::print(&format!(
            "environment {} is in {} ({documents} documents)\n",
            self.name,
            self.output.display()
        ))
    }
}

/// Downloads a backup into a file, which appears only when it is whole.
pub(super) async fn save(client: &Client, path: &str, file: &Path) -> Result<Backup, CliError> {
    let name = file.file_name().ok_or_else(|| CliError::Usage(format!("{} is not a file to write", file.display())))?;
    let directory = file.parent().filter(|d| !d.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if !directory.is_dir() {
        return Err(CliError::Usage(format!(
            "cannot write {}: there is no directory {}; make it (`mkdir -p {}`) or give another file with --output",
            file.display(),
            directory.display(),
            directory.display()
        )));
    }
    let partial = file.with_file_name(format!(".{}.{}.partial", name.to_string_lossy(), std::process::id()));
    let saved = download(client, path, &partial).await;
    let done = match saved {
        Ok(backup) => fs::rename(&partial, file).map(|()| backup).map_err(CliError::file(file)),
        Err(error) => Err(error),
    };
    if done.is_err() {
        // It may not be there at all.
        let _ = fs::remove_file(&partial);
    }
    done
}

async fn download(client: &Client, path: &str, partial: &Path) -> Result<Backup, CliError> {
    // Secrets are in it.
    let mut options = File::options();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(partial).map_err(CliError::file(partial))?;
    client.download(path, |piece| file.write_all(piece).map_err(CliError::file(partial))).await?;
    file.sync_all().map_err(CliError::file(partial))?;
    let bytes = fs::read(partial).map_err(CliError::file(partial))?;
    Backup::decode(&bytes.into()).map_err(|e| CliError::Answer(e.to_string()))
}
