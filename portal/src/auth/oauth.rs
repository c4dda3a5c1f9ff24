//! The portal as authorization server of its command line: codes to a loopback address (RFC 8252, with PKCE) and devices (RFC 8628).

use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD as BASE64};
use jiff::{SignedDuration, Timestamp};
use rand::Rng as _;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use vctl_api::rest::{DeviceAuthorization, TokenResponse};
use vctl_store::{Expect, StoreError};

use super::{Auth, Identity, clients::Approval, digest, secret};
use crate::{
    documents::{Document, put, remove},
    error::Error,
};

/// Id of the command line as a client.
pub(crate) const CLIENT_ID: &str = "vctl";
/// How long a code waits to be exchanged.
const CODE_LIFE: SignedDuration = SignedDuration::from_mins(1);
/// How long somebody may take to type a code.
const DEVICE_LIFE: SignedDuration = SignedDuration::from_mins(10);
/// How often a device may ask.
const DEVICE_INTERVAL: SignedDuration = SignedDuration::from_secs(2);
/// Devices that wait. Strangers can begin one: the oldest makes room.
const MAX_DEVICES: usize = 1000;
/// Letters of user codes: no vowels and nothing that looks alike (RFC 8628, section 6.1).
const USER_CODE_LETTERS: &[u8] = b"BCDFGHJKLMNPQRSTVWXZ";

/// Refusals of the token endpoint (RFC 6749, section 5.2; RFC 8628, section 3.5).
#[derive(Debug, thiserror::Error)]
pub(crate) enum OauthRefusal {
    #[error("{0}")]
    InvalidRequest(String),
    #[error("it was used already, has ended, or is not yours: sign in again")]
    InvalidGrant,
    #[error("the client must be \"vctl\"")]
    InvalidClient,
    #[error("the grant type is none of authorization_code, refresh_token and the device code's")]
    UnsupportedGrantType,
    #[error("nobody has entered the code yet")]
    AuthorizationPending,
    #[error("asked too often: wait longer between questions")]
    SlowDown,
    #[error("the person has refused")]
    AccessDenied,
    #[error("the code was not entered in time: sign in again")]
    ExpiredToken,
    #[error(transparent)]
    Failed(#[from] Error),
}

impl From<StoreError> for OauthRefusal {
    fn from(e: StoreError) -> Self {
        Self::Failed(e.into())
    }
}

/// An authorization request of the command line, checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Request {
    pub(crate) redirect_uri: String,
    pub(crate) state: String,
    pub(crate) challenge: String,
    /// Name of the machine.
    pub(crate) client: String,
}

#[derive(Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct CodeDoc {
    /// SHA-256 of the code.
    digest: String,
    approval: Approval,
    client: String,
    redirect_uri: String,
    challenge: String,
    expires_at: Timestamp,
    /// The login that was made with it: a code that comes twice ends it (RFC 6749, section 4.1.2).
    login: Option<String>,
}

impl Document for CodeDoc {
    const RESOURCE: &'static str = "authorizationcodes.vctl.dev";
    fn name(&self) -> &str {
        &self.digest
    }
}

#[derive(Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct DeviceDoc {
    /// SHA-256 of the device code.
    digest: String,
    user_code: String,
    client: String,
    expires_at: Timestamp,
    asked_at: Option<Timestamp>,
    decision: Decision,
}

#[derive(Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
enum Decision {
    Pending,
    Denied,
    Approved(Approval),
}

impl Document for DeviceDoc {
    const RESOURCE: &'static str = "devices.vctl.dev";
    fn name(&self) -> &str {
        &self.digest
    }
}

impl Request {
    /// Checks what a browser brought.
    ///
    /// # Errors
    /// What is wrong; the browser is not sent anywhere then.
    pub(crate) fn check(
        client_id: &str,
        response_type: &str,
        redirect_uri: &str,
        state: &str,
        challenge: (&str, &str),
        client: &str,
    ) -> Result<Self, String> {
        if client_id != CLIENT_ID || response_type != "code" {
            return Err("it is not a request of vctl: client_id must be vctl, and response_type code".to_owned());
        }
        let loopback = url::Url::parse(redirect_uri).ok().filter(|uri| {
            let literal = match uri.host() {
                Some(url::Host::Ipv4(ip)) => ip.is_loopback(),
                Some(url::Host::Ipv6(ip)) => ip.is_loopback(),
                _ => false,
            };
            let bare = uri.query().is_none()
                && uri.fragment().is_none()
                && uri.username().is_empty()
                && uri.password().is_none();
            uri.scheme() == "http" && literal && bare && uri.port().is_some()
        });
        if loopback.is_none() {
            return Err("redirect_uri must be http://127.0.0.1:PORT/ or http://[::1]:PORT/ with some path".to_owned());
        }
        let plain = |text: &str, most: usize| {
            !text.is_empty() && text.len() <= most && text.bytes().all(|b| (0x20..=0x7e).contains(&b))
        };
        let (challenge, method) = challenge;
        if method != "S256" || BASE64.decode(challenge).map_or(true, |d| d.len() != 32) {
            return Err("code_challenge must be of the method S256".to_owned());
        }
        if !plain(state, 512) {
            return Err("state must be there".to_owned());
        }
        let client = client_name(client);
        Ok(Self {
            redirect_uri: redirect_uri.to_owned(),
            state: state.to_owned(),
            challenge: challenge.to_owned(),
            client,
        })
    }

    /// Where the browser goes with an answer.
    pub(crate) fn answer(&self, name: &str, value: &str, issuer: &str) -> String {
        let mut query = url::form_urlencoded::Serializer::new(String::new());
        query.append_pair(name, value).append_pair("state", &self.state).append_pair("iss", issuer);
        format!("{}?{}", self.redirect_uri, query.finish())
    }
}

/// The name of a machine as it can be shown.
fn client_name(given: &str) -> String {
    let shown: String = given.chars().filter(|c| c.is_ascii_graphic()).take(64).collect();
    if shown.is_empty() { "a machine without a name".to_owned() } else { shown }
}

/// As people may type it: small letters, without the hyphen.
fn normalized(user_code: &str) -> String {
    let letters: String = user_code.chars().filter(char::is_ascii_alphabetic).map(|c| c.to_ascii_uppercase()).collect();
    if letters.len() == 8 { format!("{}-{}", &letters[..4], &letters[4..]) } else { letters }
}

impl Auth {
    /// A code for a login of whoever is signed in.
    pub(crate) async fn authorize_client(&self, identity: &Identity, request: &Request) -> Result<String, Error> {
        let now = self.clock.now();
        let code = secret();
        let document = CodeDoc {
            digest: digest(&code),
            approval: self.approval(identity).await?,
            client: request.client.clone(),
            redirect_uri: request.redirect_uri.clone(),
            challenge: request.challenge.clone(),
            expires_at: now + CODE_LIFE,
            login: None,
        };
        self.make_room::<CodeDoc>(now, MAX_DEVICES, |c| c.expires_at).await?;
        self.documents.transact(vec![put(&document, Expect::Absent)?]).await?;
        Ok(code)
    }

    /// Exchanges a code.
    pub(crate) async fn exchange_code(
        &self,
        code: &str,
        verifier: &str,
        redirect_uri: &str,
        request_id: &str,
    ) -> Result<TokenResponse, OauthRefusal> {
        let stored = self.documents.get::<CodeDoc>(&digest(code)).await?.ok_or(OauthRefusal::InvalidGrant)?;
        let code = stored.value;
        if let Some(login) = &code.login {
            tracing::warn!("an authorization code came twice: the login made with it was ended");
            self.end_login(login).await?;
            return Err(OauthRefusal::InvalidGrant);
        }
        let proven = BASE64.encode(Sha256::digest(verifier.as_bytes())) == code.challenge;
        if self.clock.now() >= code.expires_at || !proven || code.redirect_uri != redirect_uri {
            return Err(OauthRefusal::InvalidGrant);
        }
        let (response, login, mut writes) =
            self.new_client_login(code.approval.clone(), &code.client, request_id).await?;
        writes.push(put(&CodeDoc { login: Some(login), ..code }, Expect::Revision(stored.revision))?);
        match self.documents.transact(writes).await {
            Ok(_) => Ok(response),
            Err(StoreError::Conflict { .. }) => Err(OauthRefusal::InvalidGrant),
            Err(e) => Err(e.into()),
        }
    }

    /// Begins a login of a machine that has no browser.
    pub(crate) async fn begin_device(&self, client: &str) -> Result<DeviceAuthorization, OauthRefusal> {
        let now = self.clock.now();
        let device_code = secret();
        let letters: String = {
            let mut random = rand::rng();
            (0..8).map(|_| char::from(USER_CODE_LETTERS[random.random_range(0..USER_CODE_LETTERS.len())])).collect()
        };
        let user_code = normalized(&letters);
        let document = DeviceDoc {
            digest: digest(&device_code),
            user_code: user_code.clone(),
            client: client_name(client),
            expires_at: now + DEVICE_LIFE,
            asked_at: None,
            decision: Decision::Pending,
        };
        self.make_room::<DeviceDoc>(now, MAX_DEVICES, |d| d.expires_at).await?;
        self.documents.transact(vec![put(&document, Expect::Absent).map_err(OauthRefusal::Failed)?]).await?;
        let verification_uri = format!("{}/device", self.public_url);
        Ok(DeviceAuthorization {
            device_code,
            verification_uri_complete: format!("{verification_uri}?user_code={user_code}"),
            verification_uri,
            user_code,
            expires_in: DEVICE_LIFE.as_secs().unsigned_abs(),
            interval: DEVICE_INTERVAL.as_secs().unsigned_abs(),
        })
    }

    /// Name of the machine that waits for this code.
    pub(crate) async fn device(&self, user_code: &str) -> Result<Option<String>, Error> {
        Ok(self.waiting_device(user_code).await?.map(|(device, _)| device.client))
    }

    async fn waiting_device(&self, user_code: &str) -> Result<Option<(DeviceDoc, u64)>, Error> {
        let (wanted, now) = (normalized(user_code), self.clock.now());
        let (all, _) = self.documents.list::<DeviceDoc>().await?;
        let waiting = all.into_iter().find(|d| {
            d.value.user_code == wanted && now < d.value.expires_at && matches!(d.value.decision, Decision::Pending)
        });
        Ok(waiting.map(|d| (d.value, d.revision)))
    }

    /// Lets a machine in, or not. False: no machine waits for this code.
    pub(crate) async fn decide_device(&self, identity: &Identity, user_code: &str, allow: bool) -> Result<bool, Error> {
        // Its question at the same moment changes the document as well.
        for _ in 0..20 {
            let Some((device, revision)) = self.waiting_device(user_code).await? else { return Ok(false) };
            let decision = if allow { Decision::Approved(self.approval(identity).await?) } else { Decision::Denied };
            let decided = DeviceDoc { decision, ..device };
            match self.documents.transact(vec![put(&decided, Expect::Revision(revision))?]).await {
                Ok(_) => return Ok(true),
                Err(StoreError::Conflict { .. }) => {}
                Err(e) => return Err(e.into()),
            }
        }
        Err(Error::Unavailable("the machine asks all the time".to_owned()))
    }

    /// What a machine gets that asks whether it was let in.
    pub(crate) async fn ask_device(&self, device_code: &str, request_id: &str) -> Result<TokenResponse, OauthRefusal> {
        let now = self.clock.now();
        let stored = self.documents.get::<DeviceDoc>(&digest(device_code)).await?.ok_or(OauthRefusal::InvalidGrant)?;
        let device = stored.value;
        let expect = Expect::Revision(stored.revision);
        if now >= device.expires_at {
            return Err(OauthRefusal::ExpiredToken);
        }
        let gone = remove::<DeviceDoc>(&device.digest, expect);
        match device.decision {
            Decision::Pending => {
                let often = device.asked_at.is_some_and(|at| now.duration_since(at) < DEVICE_INTERVAL);
                self.settle(vec![put(&DeviceDoc { asked_at: Some(now), ..device }, expect)?]).await?;
                Err(if often { OauthRefusal::SlowDown } else { OauthRefusal::AuthorizationPending })
            }
            Decision::Denied => {
                self.settle(vec![gone]).await?;
                Err(OauthRefusal::AccessDenied)
            }
            Decision::Approved(approval) => {
                let (response, _, mut writes) = self.new_client_login(approval, &device.client, request_id).await?;
                writes.push(gone);
                match self.documents.transact(writes).await {
                    Ok(_) => Ok(response),
                    Err(StoreError::Conflict { .. }) => Err(OauthRefusal::InvalidGrant),
                    Err(e) => Err(e.into()),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHALLENGE: &str = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM";

    #[test]
    fn only_loopback_addresses_get_codes() {
        let check = |uri: &str| Request::check("vctl", "code", uri, "s", (CHALLENGE, "S256"), "m");
        for good in ["http://127.0.0.1:4711/callback", "http://[::1]:4711/"] {
            assert!(check(good).is_ok(), "{good}");
        }
        for bad in [
            "https://evil.example/callback",
            "http://localhost:1/",
            "http://127.0.0.1.evil.example:1/",
            "http://127.0.0.1/",
            "http://127.0.0.1:1/?x=1",
            "http://127.0.0.1:1/#f",
            "http://a@127.0.0.1:1/",
            "javascript:alert(1)",
            "",
            "//127.0.0.1:1/",
        ] {
            assert!(check(bad).is_err(), "{bad}");
        }
        assert!(Request::check("other", "code", "http://127.0.0.1:1/", "s", (CHALLENGE, "S256"), "m").is_err());
        assert!(Request::check("vctl", "code", "http://127.0.0.1:1/", "s", (CHALLENGE, "plain"), "m").is_err());
        assert!(Request::check("vctl", "code", "http://127.0.0.1:1/", "s", ("", "S256"), "m").is_err());
    }

    #[test]
    fn codes_are_read_as_people_type_them() {
        for typed in ["BCDF-GHJK", "bcdfghjk", " bcdf ghjk "] {
            assert_eq!(normalized(typed), "BCDF-GHJK", "{typed}");
        }
        assert_eq!(client_name("my <b>box</b>"), "my<b>box</b>");
        assert_eq!(client_name("\u{7f}"), "a machine without a name");
    }
}
