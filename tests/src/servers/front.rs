//! TLS in front of a server that does not speak it.

use std::{net::Ipv4Addr, sync::Arc};

use anyhow::{Context as _, Result};
use rustls::{
    ServerConfig,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
};
use tokio::{
    net::{TcpListener, TcpStream},
    runtime::{Handle, Runtime},
};
use tokio_rustls::TlsAcceptor;

use super::Certificate;

/// Ends TLS and passes what is in it to another port of this machine; gone when dropped.
pub struct TlsFront {
    _runtime: Runtime,
    /// Its port.
    pub port: u16,
}

impl TlsFront {
    /// Starts one in front of a port.
    ///
    /// # Errors
    /// The certificate cannot be used.
    pub fn start(certificate: &Certificate, behind: u16) -> Result<Self> {
        let chain = vec![CertificateDer::from_pem_file(&certificate.certificate)?];
        let key = PrivateKeyDer::from_pem_file(&certificate.key)?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(chain, key)?;
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        let listener = runtime.block_on(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))).context("binding")?;
        let port = listener.local_addr()?.port();
        // Ends with the runtime, which is dropped with this.
        runtime.handle().spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let acceptor = acceptor.clone();
                Handle::current().spawn(async move {
                    if let (Ok(mut secure), Ok(mut plain)) =
                        (acceptor.accept(stream).await, TcpStream::connect((Ipv4Addr::LOCALHOST, behind)).await)
                    {
                        // Who hangs up first does not matter.
                        let _ = tokio::io::copy_bidirectional(&mut secure, &mut plain).await;
                    }
                });
            }
        });
        Ok(Self { _runtime: runtime, port })
    }
}
