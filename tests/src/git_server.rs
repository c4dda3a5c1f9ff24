//! A Git server over https: `git http-backend` behind Debian's lighttpd, with and without a password.

use std::{
    net::TcpStream,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use anyhow::{Context as _, Result};

use crate::{
    background::Background,
    kubectl::finish,
    servers::{Certificate, free_port},
    wait,
};

/// Serves the bare repositories of a directory at `https://localhost:PORT/open/NAME` and, to whoever has the password, at `/private/NAME`.
/// Ended when dropped.
pub struct GitServer {
    _server: Background,
    port: u16,
    /// The authority that signed its certificate, PEM.
    pub authority: PathBuf,
}

impl GitServer {
    /// Starts one whose files are in `directory`.
    ///
    /// # Errors
    /// Debian's lighttpd is not installed, or it does not start.
    pub fn start(directory: &Path, repositories: &Path, user: &str, password: &str) -> Result<Self> {
        let Certificate { certificate, key } = Certificate::new(directory)?;
        let port = free_port()?;
        let mut git = Command::new("git");
        git.arg("--exec-path");
        let backend = Path::new(finish(git)?.ok()?.trim()).join("git-http-backend");
        std::fs::write(directory.join("users"), format!("{user}:{password}\n"))?;
        let configuration = format!(
            r#"server.document-root = "{directory}"
server.bind = "127.0.0.1"
server.port = {port}
server.modules = ("mod_openssl", "mod_auth", "mod_authn_file", "mod_alias", "mod_setenv", "mod_cgi")
ssl.engine = "enable"
ssl.pemfile = "{certificate}"
ssl.privkey = "{key}"
alias.url = ("/open" => "{backend}", "/private" => "{backend}")
cgi.assign = ("" => "")
setenv.add-environment = ("GIT_PROJECT_ROOT" => "{repositories}", "GIT_HTTP_EXPORT_ALL" => "1")
auth.backend = "plain"
auth.backend.plain.userfile = "{directory}/users"
auth.require = ("/private" => ("method" => "basic", "realm" => "templates", "require" => "valid-user"))
"#,
            directory = directory.display(),
            certificate = certificate.display(),
            key = key.display(),
            backend = backend.display(),
            repositories = repositories.display(),
        );
        let file = directory.join("lighttpd.conf");
        std::fs::write(&file, configuration)?;
        let program = ["/usr/sbin/lighttpd", "/usr/bin/lighttpd"].into_iter().find(|path| Path::new(path).exists());
        let mut command = Command::new(program.context("lighttpd is needed: scripts/setup tools")?);
        command.arg("-D").arg("-f").arg(&file);
        let mut server = Background::start(command, "lighttpd", directory)?;
        wait::until("lighttpd serves", Duration::from_secs(30), || {
            if !server.runs().map_err(|e| e.to_string())? {
                return Ok(Err(anyhow::anyhow!("it ended: {}", server.printed().unwrap_or_default())));
            }
            TcpStream::connect(("127.0.0.1", port)).map(|_| Ok(())).map_err(|e| e.to_string())
        })??;
        Ok(Self { _server: server, port, authority: certificate })
    }

    /// The address of a repository that everybody may read.
    pub fn open(&self, repository: &str) -> String {
        format!("https://localhost:{}/open/{repository}", self.port)
    }

    /// The address of the same for who has the password.
    pub fn private(&self, repository: &str) -> String {
        format!("https://localhost:{}/private/{repository}", self.port)
    }
}
