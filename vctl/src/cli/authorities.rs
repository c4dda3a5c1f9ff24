//! Files with certificates of authorities, which options such as `--ca-file` name.

use std::{fs, io, path::Path};

use super::error::CliError;

/// What such a file holds (PEM), as the server is given it; nothing without one. `option` is what it was named by.
///
/// # Errors
/// [`CliError::File`] when it cannot be read.
pub(super) fn read(option: &str, file: Option<&Path>) -> Result<Option<String>, CliError> {
    let cannot = |e: io::Error| {
        let text = format!("it cannot be read ({e}): {option} wants a file with the certificates of authorities (PEM)");
        io::Error::new(e.kind(), text)
    };
    file.map(|file| fs::read_to_string(file).map_err(cannot).map_err(CliError::file(file))).transpose()
}
