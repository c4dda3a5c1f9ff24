//! nginx as a peer: the same bytes over TLS.

use std::{
    fs,
    path::Path,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use vctl_runtime::pki::{Authority, Validity};

use crate::{
    ports::free_port,
    target::{Ask, Target},
};

const START: Duration = Duration::from_secs(20);

/// A running nginx; it ends with this.
pub(crate) struct Nginx {
    child: Child,
    /// Where it serves.
    pub(crate) target: Target,
}

impl Drop for Nginx {
    fn drop(&mut self) {
        // Asked to end: killed, it would leave its workers behind.
        if let Ok(pid) = i32::try_from(self.child.id()) {
            let _ = nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), nix::sys::signal::Signal::SIGTERM);
        }
        let _ = self.child.wait();
    }
}

impl Nginx {
    /// The processes that serve.
    pub(crate) fn workers(&self) -> Result<Vec<u32>> {
        let pid = self.child.id();
        let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"))?;
        children.split_whitespace().map(|pid| Ok(pid.parse()?)).collect()
    }

    /// Starts Debian's nginx in `dir`, serving `body` at `/object`.
    pub(crate) async fn start(dir: &Path, body: &[u8]) -> Result<Self> {
        let validity = Validity::from_now(jiff::Timestamp::now(), Duration::from_hours(1));
        let authority = Authority::generate("bench", validity)?;
        let identity = authority.server(&["127.0.0.1".to_owned()], validity)?;
        let at = format!("127.0.0.1:{}", free_port()?);
        fs::write(dir.join("tls.crt"), &identity.certificate_pem)?;
        fs::write(dir.join("tls.key"), &identity.key_pem)?;
        fs::create_dir_all(dir.join("www"))?;
        fs::write(dir.join("www/object"), body)?;
        let dir_text = dir.display();
        let config = format!(
            "daemon off; user root; worker_processes auto; pid {dir_text}/nginx.pid; error_log {dir_text}/nginx.log error;\n\
             events {{ worker_connections 1024; }}\n\
             http {{ access_log off; default_type application/json; keepalive_requests 100000000; sendfile on; tcp_nodelay on;\n\
             client_body_temp_path {dir_text}/b; proxy_temp_path {dir_text}/p; fastcgi_temp_path {dir_text}/f;\n\
             uwsgi_temp_path {dir_text}/u; scgi_temp_path {dir_text}/s; open_file_cache max=16;\n\
             server {{ listen {at} ssl; ssl_certificate {dir_text}/tls.crt; ssl_certificate_key {dir_text}/tls.key;\n\
             root {dir_text}/www; }} }}\n"
        );
        fs::write(dir.join("nginx.conf"), config)?;
        let child = Command::new("nginx")
            .arg("-c")
            .arg(dir.join("nginx.conf"))
            .arg("-e")
            .arg(dir.join("nginx.log"))
            .stdout(Stdio::null())
            .stderr(fs::File::create(dir.join("nginx.err"))?)
            .spawn()
            .context("nginx does not start; install nginx-light")?;
        let nginx = Self { child, target: Target::open(&at, authority.certificate_pem())? };
        let begun = Instant::now();
        loop {
            let ready = async { nginx.target.connect().await?.ok(Ask::get("/object")).await };
            match ready.await {
                Ok(_) => return Ok(nginx),
                Err(e) if begun.elapsed() > START => bail!("nginx does not answer: {e:#}"),
                Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
            }
        }
    }
}
