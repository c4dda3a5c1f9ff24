//! Serving certificates that renew themselves.
//!
//! A certificate is issued anew when two thirds of its life are over, by the first handshake after that moment: there is no task and no
//! timer, so that a server that nobody connects to does nothing. Connections that are open keep what they were opened with.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use jiff::Timestamp;
use rustls::{
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    server::{ClientHello, ResolvesServerCert},
    sign::CertifiedKey,
};

use crate::{
    clock::Clock,
    pki::{Identity, PkiError, renew_at},
    serve::crypto_provider,
};

/// How long a failed renewal is not tried again.
const RETRY: Duration = Duration::from_mins(1);

type Issue = Box<dyn Fn(Timestamp) -> Result<Identity, PkiError> + Send + Sync>;

/// A serving certificate that renews itself.
pub struct Renewing {
    clock: Clock,
    issue: Issue,
    current: Mutex<Current>,
}

struct Current {
    key: Arc<CertifiedKey>,
    /// When the next one is issued.
    due: Timestamp,
}

impl std::fmt::Debug for Renewing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Renewing").finish_non_exhaustive()
    }
}

impl Renewing {
    /// Serves what `issue` makes, which is called now and for every renewal.
    ///
    /// # Errors
    /// When the first certificate cannot be made.
    pub fn new(
        clock: Clock,
        issue: impl Fn(Timestamp) -> Result<Identity, PkiError> + Send + Sync + 'static,
    ) -> Result<Self, PkiError> {
        let current = Current::of(&issue(clock.now())?)?;
        Ok(Self { clock, issue: Box::new(issue), current: Mutex::new(current) })
    }

    /// The certificate to serve now: the one there is, or a new one when it is time.
    fn certificate(&self) -> Arc<CertifiedKey> {
        let now = self.clock.now();
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        if now >= current.due {
            match (self.issue)(now).and_then(|identity| Current::of(&identity)) {
                Ok(renewed) => {
                    tracing::info!(next = %renewed.due, "the serving certificate was renewed");
                    *current = renewed;
                }
                Err(error) => {
                    tracing::error!(%error, "the serving certificate could not be renewed; the old one goes on for now");
                    current.due = now.checked_add(RETRY).unwrap_or(Timestamp::MAX);
                }
            }
        }
        current.key.clone()
    }
}

impl Current {
    fn of(identity: &Identity) -> Result<Self, PkiError> {
        let unreadable =
            |what: &'static str| move |e: &dyn std::fmt::Display| PkiError::Unreadable { what, why: e.to_string() };
        let chain = CertificateDer::pem_slice_iter(identity.certificate_pem.as_bytes())
            .collect::<Result<Vec<_>, _>>()
            .map_err(|e| unreadable("the serving certificate")(&e))?;
        let key = PrivateKeyDer::from_pem_slice(identity.key_pem.as_bytes())
            .map_err(|e| unreadable("the serving key")(&e))?;
        let key =
            CertifiedKey::from_der(chain, key, &crypto_provider()).map_err(|e| unreadable("the serving key")(&e))?;
        Ok(Self { key: Arc::new(key), due: renew_at(&identity.certificate_pem)? })
    }
}

impl ResolvesServerCert for Renewing {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.certificate())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use axum::{Router, routing::get};
    use rustls::{ClientConfig, RootCertStore, pki_types::ServerName};
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};
    use tokio_rustls::{TlsConnector, client::TlsStream};

    use super::*;
    use crate::{
        pki::{Authority, Validity},
        serve::{Peer, Server, Tls},
        tasks::Tasks,
    };

    const DAY: Duration = Duration::from_hours(24);

    async fn connect(server: &Server, tasks: &Tasks, authority: &Authority) -> TlsStream<DuplexStream> {
        let (near, far) = tokio::io::duplex(1 << 16);
        let server = server.clone();
        tasks.spawn("serve", async move { server.serve(far, Peer::Unix).await });
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(authority.certificate_pem().as_bytes()).unwrap()).unwrap();
        // The machine's clock decides on the client's side: certificates here are valid by it.
        let config = ClientConfig::builder_with_provider(crypto_provider())
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let name = ServerName::try_from("localhost").unwrap();
        TlsConnector::from(Arc::new(config)).connect(name, near).await.unwrap()
    }

    fn served(stream: &TlsStream<DuplexStream>) -> Vec<u8> {
        stream.get_ref().1.peer_certificates().unwrap()[0].to_vec()
    }

    async fn ask(stream: &mut TlsStream<DuplexStream>) -> String {
        stream.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
        let mut text = String::new();
        while !text.ends_with("hello") {
            let mut piece = [0; 256];
            let read = stream.read(&mut piece).await.unwrap();
            assert!(read > 0, "closed after {text:?}");
            text.push_str(&String::from_utf8_lossy(&piece[..read]));
        }
        text
    }

    #[tokio::test]
    async fn new_connections_get_the_renewed_certificate_and_old_ones_go_on() {
        let start = Timestamp::now();
        let clock = Clock::fixed(start);
        let authority = Arc::new(Authority::generate("ca", Validity::from_now(start, DAY * 365)).unwrap());
        let fails = Arc::new(AtomicBool::new(false));
        let renewing = {
            let (authority, fails) = (authority.clone(), fails.clone());
            Renewing::new(clock.clone(), move |now| {
                if fails.load(Ordering::SeqCst) {
                    return Err(PkiError::Issue("no randomness".into()));
                }
                authority.server(&["localhost".into()], Validity::from_now(now.min(start), DAY * 90))
            })
            .unwrap()
        };
        let tasks = Tasks::new();
        let router = Router::new().route("/", get(|| async { "hello" }));
        let server = Server::new(Tls::with_resolver(Arc::new(renewing)).unwrap(), router, tasks.clone());

        let mut old = connect(&server, &tasks, &authority).await;
        let first = served(&old);
        clock.advance(59 * 24 * 3600);
        assert_eq!(served(&connect(&server, &tasks, &authority).await), first, "not before two thirds");
        clock.advance(2 * 24 * 3600);
        fails.store(true, Ordering::SeqCst);
        assert_eq!(served(&connect(&server, &tasks, &authority).await), first, "a failure leaves the old one");
        fails.store(false, Ordering::SeqCst);
        assert_eq!(served(&connect(&server, &tasks, &authority).await), first, "not tried again at once");
        clock.advance(61);
        let mut new = connect(&server, &tasks, &authority).await;
        assert_ne!(served(&new), first);
        assert!(ask(&mut new).await.starts_with("HTTP/1.1 200"));
        assert!(ask(&mut old).await.starts_with("HTTP/1.1 200"), "the old connection goes on");
        drop((old, new));
        assert!(tasks.shutdown(Duration::from_secs(10)).await);
    }
}
