//! Passwords that are given on standard input, so that no list of processes and no history of a shell has them.

use std::io::{self, BufRead as _};

use super::error::CliError;

/// The first line of standard input, when it is `wanted`.
///
/// # Errors
/// Standard input cannot be read.
pub(super) fn from_stdin(wanted: bool) -> Result<Option<String>, CliError> {
    if !wanted {
        return Ok(None);
    }
    let mut line = String::new();
    io::stdin().lock().read_line(&mut line)?;
    Ok(Some(line.trim_end_matches(['\r', '\n']).to_owned()))
}
