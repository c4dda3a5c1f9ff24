//! `vctl completion`.

use clap::Args;
use clap_complete::Shell;

use super::{error::CliError, output::print};

/// Arguments of `vctl completion`.
#[derive(Debug, Args)]
pub(crate) struct Completion {
    /// For which shell
    shell: Shell,
}

impl Completion {
    pub(super) fn run(self, mut root: clap::Command) -> Result<(), CliError> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut root, "vctl", &mut script);
        print(&String::from_utf8_lossy(&script))
    }
}
