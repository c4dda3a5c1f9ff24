//! Open files of the process: every connection is one, and shells allow 1,024 where the system allows far more.

use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// As many as are asked for at most: beyond every connection that is served, and what the system has by itself.
const MOST: u64 = 1 << 20;
/// With fewer than this the server cannot have many clients.
const FEW: u64 = 4_096;

/// Raises the soft limit as far as the hard one allows.
pub(crate) fn raise() {
    match raised() {
        Ok(limit) if limit < FEW => {
            tracing::warn!(limit, "few files may be open: raise the hard limit (`ulimit -Hn`) for many connections");
        }
        Ok(limit) => tracing::debug!(limit, "limit of open files"),
        Err(error) => tracing::warn!(%error, "the limit of open files cannot be raised"),
    }
}

fn raised() -> nix::Result<u64> {
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
    let wanted = hard.min(MOST);
    if soft >= wanted {
        return Ok(soft);
    }
    setrlimit(Resource::RLIMIT_NOFILE, wanted, hard)?;
    Ok(wanted)
}
