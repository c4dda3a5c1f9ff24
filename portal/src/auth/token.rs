//! The local administrator's token: a file, mode 0600, in the data dir.

use std::{
    fs, io,
    io::Write,
    path::{Path, PathBuf},
};

use super::{digest, secret};

/// Marks our tokens, so that scanners for leaked secrets can recognise one.
const PREFIX: &str = "vctl_admin_";

/// The token file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    /// It cannot be read or written.
    #[error("the administrator's token {path} cannot be used: {source}; check the permissions of the data dir")]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It does not hold a token.
    #[error("{0} does not hold an administrator's token: delete it and start the server again, which makes a new one")]
    Malformed(PathBuf),
}

/// Checks the administrator's token; holds its digest only.
#[derive(Clone)]
pub struct AdminToken {
    digest: String,
}

impl AdminToken {
    /// Reads the token, or makes one in a new file that only its owner can read. An existing file that others can read is
    /// closed to them.
    ///
    /// # Errors
    /// When the file cannot be read, made or closed to others, or holds no token.
    pub fn load_or_create(path: &Path) -> Result<Self, TokenError> {
        let failed = |source| TokenError::Io { path: path.to_owned(), source };
        match fs::read_to_string(path) {
            Ok(text) => {
                close_to_others(path).map_err(failed)?;
                let token = text.trim();
                if !token.starts_with(PREFIX) || token.len() < PREFIX.len() + 32 {
                    return Err(TokenError::Malformed(path.to_owned()));
                }
                Ok(Self { digest: digest(token) })
            }
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                let token = format!("{PREFIX}{}", secret());
                create(path, &token).map_err(failed)?;
                Ok(Self { digest: digest(&token) })
            }
            Err(e) => Err(failed(e)),
        }
    }

    /// Whether this is the token.
    pub fn matches(&self, token: &str) -> bool {
        digest(token) == self.digest
    }
}

/// Writes beside and renames, so that a crash never leaves half a token.
fn create(path: &Path, token: &str) -> io::Result<()> {
    let beside = path.with_extension("token.new");
    match fs::remove_file(&beside) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
        _ => {}
    }
    let mut options = fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(&beside)?;
    writeln!(file, "{token}")?;
    file.sync_all()?;
    fs::rename(&beside, path)
}

fn close_to_others(path: &Path) -> io::Result<()> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let mode = fs::metadata(path)?.permissions().mode();
        if mode & 0o077 != 0 {
            tracing::warn!(path = %path.display(), "the administrator's token could be read by others; closing it to them");
            fs::set_permissions(path, fs::Permissions::from_mode(0o600))?;
        }
    }
    Ok(())
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn is_made_once_and_closed_to_others() {
        let dir = tempfile::tempdir().expect("dir");
        let path = dir.path().join("admin.token");
        AdminToken::load_or_create(&path).expect("made");
        let text = fs::read_to_string(&path).expect("text");
        let mode = || fs::metadata(&path).expect("metadata").permissions().mode() & 0o777;
        assert_eq!(mode(), 0o600);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).expect("chmod");
        let token = AdminToken::load_or_create(&path).expect("read");
        assert_eq!(mode(), 0o600);
        assert!(token.matches(text.trim()) && !token.matches("vctl_admin_other"));
    }

    #[test]
    fn a_file_without_a_token_is_refused() {
        let dir = tempfile::tempdir().expect("dir");
        let path = dir.path().join("admin.token");
        fs::write(&path, "").expect("write");
        assert!(matches!(AdminToken::load_or_create(&path), Err(TokenError::Malformed(_))));
    }
}
