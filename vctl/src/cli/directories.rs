//! Where a person's files are: in the base directories of XDG (<https://specifications.freedesktop.org/basedir-spec/latest/>), on macOS
//! too, as kubectl's and Helm's users expect; on Windows in the folders of applications, when XDG's are not set.

use std::path::PathBuf;

/// What programs keep for their user: `$XDG_DATA_HOME`, else `~/.local/share`.
pub(super) fn data() -> Option<PathBuf> {
    base("XDG_DATA_HOME", ".local/share", "LOCALAPPDATA")
}

/// Settings: `$XDG_CONFIG_HOME`, else `~/.config`.
pub(super) fn config() -> Option<PathBuf> {
    base("XDG_CONFIG_HOME", ".config", "APPDATA")
}

/// What can be got again: `$XDG_CACHE_HOME`, else `~/.cache`.
pub(super) fn cache() -> Option<PathBuf> {
    base("XDG_CACHE_HOME", ".cache", "LOCALAPPDATA")
}

/// The person's own directory.
pub(super) fn home() -> Option<PathBuf> {
    absolute("HOME").or_else(|| if cfg!(windows) { absolute("USERPROFILE") } else { None })
}

fn base(variable: &str, in_home: &str, folder: &str) -> Option<PathBuf> {
    absolute(variable)
        .or_else(|| if cfg!(windows) { absolute(folder) } else { None })
        .or_else(|| home().map(|home| home.join(in_home)))
}

/// XDG wants relative ones ignored.
fn absolute(variable: &str) -> Option<PathBuf> {
    std::env::var_os(variable).map(PathBuf::from).filter(|path| path.is_absolute())
}
