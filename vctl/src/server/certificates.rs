//! The server's own certificates: the authority that all clients trust, which also signs the agents, and the serving certificate.

use std::{net::SocketAddr, path::Path, sync::Arc, time::Duration};

use anyhow::{Context as _, Result};
use jiff::Timestamp;
use vctl_runtime::pki::{Authority, Identity, PkiError, Validity};
use vctl_vcluster::config::IN_CLUSTER_NAMES;

use super::data_dir::{DataDir, write_private};

const AUTHORITY_LIFETIME: Duration = Duration::from_hours(87600);
/// Issued anew at every start, and at two thirds of this.
const SERVING_LIFETIME: Duration = Duration::from_hours(2160);

/// The authority of a data directory.
pub(crate) struct Certificates {
    /// Signs the serving certificate and the client certificates of agents.
    pub(crate) authority: Arc<Authority>,
    /// PEM file of the server's authority.
    pub(crate) server_ca_file: std::path::PathBuf,
}

impl Certificates {
    /// Reads the authority, or makes it in a new data directory.
    pub(crate) fn load_or_create(data: &DataDir, now: Timestamp) -> Result<Self> {
        let dir = data.pki();
        std::fs::create_dir_all(&dir).with_context(|| format!("cannot make {}", dir.display()))?;
        Ok(Self { authority: Arc::new(authority(&dir, "ca", "vctl CA", now)?), server_ca_file: dir.join("ca.crt") })
    }

    /// Makes serving certificates for the address listened on and the names that pods and people use.
    pub(crate) fn serving(
        &self,
        listen: SocketAddr,
        api_address: &str,
        public_host: Option<&str>,
    ) -> impl Fn(Timestamp) -> Result<Identity, PkiError> + Send + Sync + use<> {
        let mut names: Vec<String> = IN_CLUSTER_NAMES.iter().map(|&n| n.to_owned()).collect();
        names.extend(["127.0.0.1".to_owned(), "::1".to_owned(), api_address.to_owned()]);
        if listen.ip().is_unspecified() {
            names.extend(hostname());
        } else {
            names.push(listen.ip().to_string());
        }
        names.extend(public_host.map(str::to_owned));
        names.sort();
        names.dedup();
        let authority = self.authority.clone();
        move |now| authority.server(&names, Validity::from_now(now, SERVING_LIFETIME))
    }
}

fn hostname() -> Option<String> {
    std::fs::read_to_string("/proc/sys/kernel/hostname").ok().map(|name| name.trim().to_owned())
}

fn authority(dir: &Path, stem: &str, name: &str, now: Timestamp) -> Result<Authority> {
    let (certificate, key) = (dir.join(format!("{stem}.crt")), dir.join(format!("{stem}.key")));
    if key.exists() {
        let read =
            |path: &Path| std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()));
        return Authority::from_pem(&read(&certificate)?, &read(&key)?)
            .with_context(|| format!("{} or its key is damaged: restore it from a backup", certificate.display()));
    }
    let authority = Authority::generate(name, Validity::from_now(now, AUTHORITY_LIFETIME))?;
    // The key last: where it exists, the certificate does, too.
    write_private(&certificate, authority.certificate_pem().as_bytes())?;
    write_private(&key, authority.key_pem().as_bytes())?;
    Ok(authority)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_authority_outlives_a_restart() -> Result<()> {
        let dir = tempfile::tempdir()?;
        let data = DataDir::create(dir.path())?;
        let now = Timestamp::now();
        let first = Certificates::load_or_create(&data, now)?;
        let again = Certificates::load_or_create(&data, now)?;
        assert_eq!(first.authority.certificate_pem(), again.authority.certificate_pem());
        again.serving("127.0.0.1:8443".parse()?, "10.96.0.1", Some("vctl.example.com"))(now)?;
        Ok(())
    }
}
