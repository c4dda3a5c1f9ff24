//! One try: signed, to public addresses only, and nothing of the answer but its status.

use std::{
    net::{IpAddr, SocketAddr},
    sync::{Arc, OnceLock},
    time::Duration,
};

use base64::{Engine, engine::general_purpose::STANDARD};
use jiff::Timestamp;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use ring::hmac;
use vctl_runtime::address::is_public;

/// A receiver has so long to answer.
const LIMIT: Duration = Duration::from_secs(10);

/// Sends. Cheap to clone.
#[derive(Clone)]
pub(super) struct Sender {
    /// Made when it is first needed. Why there is none would be told at each try.
    http: Arc<OnceLock<Result<reqwest::Client, String>>>,
    private: bool,
}

impl Sender {
    /// `private`: to any address, and without TLS where the address says so.
    pub(super) fn new(private: bool) -> Self {
        Self { http: Arc::default(), private }
    }

    fn http(&self) -> Result<&reqwest::Client, String> {
        let made = self.http.get_or_init(|| {
            let http = reqwest::Client::builder()
                .https_only(!self.private)
                .no_proxy()
                .redirect(reqwest::redirect::Policy::none())
                .dns_resolver(Arc::new(Checked { private: self.private }))
                .connect_timeout(LIMIT)
                .timeout(LIMIT)
                .pool_max_idle_per_host(0)
                .user_agent(concat!("vctl/", env!("CARGO_PKG_VERSION")))
                .build();
            http.map_err(|e| innermost(&e))
        });
        made.as_ref().map_err(Clone::clone)
    }

    /// Sends a body; what came of it, for people.
    ///
    /// # Errors
    /// With why the receiver has not got it.
    pub(super) async fn send(
        &self,
        url: &str,
        key: &[u8],
        id: &str,
        at: Timestamp,
        body: &str,
    ) -> Result<String, String> {
        let http = self.http()?;
        let url = url::Url::parse(url).map_err(|e| e.to_string())?;
        // A name is looked at when it is resolved.
        let literal = url.host_str().and_then(|host| host.trim_matches(['[', ']']).parse::<IpAddr>().ok());
        if literal.is_some_and(|ip| !self.private && !is_public(ip)) {
            return Err(FORBIDDEN.to_owned());
        }
        let request = http
            .post(url)
            .header("content-type", "application/json")
            .header("webhook-id", id)
            .header("webhook-timestamp", at.as_second().to_string())
            .header("webhook-signature", sign(key, id, at.as_second(), body))
            .body(body.to_owned());
        let answer = request.send().await.map_err(|e| innermost(&e.without_url()))?;
        let status = answer.status();
        if status.is_success() { Ok(format!("answered {status}")) } else { Err(format!("answered {status}")) }
    }
}

const FORBIDDEN: &str =
    "its address is not public: the server dials those only with `vctl up --allow-private-webhooks`";

/// A signature. Source: Standard Webhooks, symmetric signatures.
pub(super) fn sign(key: &[u8], id: &str, at: i64, body: &str) -> String {
    let key = hmac::Key::new(hmac::HMAC_SHA256, key);
    format!("v1,{}", STANDARD.encode(hmac::sign(&key, format!("{id}.{at}.{body}").as_bytes())))
}

/// Resolves names to addresses that may be dialled: the address that was checked is the one that is dialled.
struct Checked {
    private: bool,
}

impl Resolve for Checked {
    fn resolve(&self, name: Name) -> Resolving {
        let private = self.private;
        Box::pin(async move {
            let found: Vec<SocketAddr> = tokio::net::lookup_host((name.as_str(), 0)).await?.collect();
            let allowed: Vec<SocketAddr> =
                found.into_iter().filter(|address| private || is_public(address.ip())).collect();
            if allowed.is_empty() {
                return Err(FORBIDDEN.into());
            }
            Ok(Box::new(allowed.into_iter()) as Addrs)
        })
    }
}

/// The innermost cause is the one that helps: `Connection refused`.
fn innermost(e: &reqwest::Error) -> String {
    let mut cause: &dyn std::error::Error = e;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    cause.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signature_is_that_of_the_standard() {
        // The example of the Standard Webhooks specification's reference libraries.
        let key = STANDARD.decode("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").expect("base64");
        let signed = sign(&key, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, "{\"test\": 2432232314}");
        assert_eq!(signed, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    }

    #[tokio::test]
    async fn addresses_that_are_not_public_are_not_dialled() {
        // Fails when it is installed already, which is as good.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let sender = Sender::new(false);
        for url in ["https://127.0.0.1:1/", "https://[::1]:1/", "https://localhost:1/", "https://169.254.169.254/"] {
            let refused = sender.send(url, b"key", "id", Timestamp::UNIX_EPOCH, "{}").await.expect_err(url);
            assert!(refused.contains("not public"), "{url}: {refused}");
        }
    }
}
