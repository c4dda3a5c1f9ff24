//! Who makes a request: client certificates of the cluster's own authority, service account tokens, tokens of configured issuers, or nobody
//! in particular; users of the platform by its own tokens ([`platform`]);
//! then whom they act for.

pub(crate) mod oidc;
pub(crate) mod platform;

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use http::{HeaderMap, HeaderValue, header};
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use vctl_machinery::status::ApiError;

use crate::{
    authorization::{forbidden, rules::Attributes},
    control_planes::Peer,
    document::{is_terminating, meta},
    keys::Known,
    objects::create::time,
    plane::Plane,
    user::{AUTHENTICATED, User},
};

const CLAIMS: &str = "kubernetes.io";
const SERVICE_ACCOUNT: &str = "system:serviceaccount:";
/// How long a deleted object's token still counts.
const DELETED_LEEWAY_SECONDS: i64 = 60;

/// The user of a request; 401 for credentials that are wrong, `system:anonymous` for none.
pub(crate) async fn authenticate(plane: &Arc<Plane>, headers: &HeaderMap, peer: &Peer) -> Result<Arc<User>, ApiError> {
    let mut refused = false;
    if !peer.certificates.is_empty() {
        match by_certificate(plane, &peer.certificates) {
            Some(user) => return Ok(user),
            None => refused = true,
        }
    }
    let authorization = headers.get(header::AUTHORIZATION).and_then(|v| v.to_str().ok()).unwrap_or_default();
    if let Some((scheme, token)) = authorization.split_once(' ')
        && scheme.eq_ignore_ascii_case("bearer")
        && !token.trim().is_empty()
    {
        let (mut user, _) = by_token(plane, token.trim(), &[]).await?;
        user.groups.push(AUTHENTICATED.to_owned());
        return Ok(Arc::new(user));
    }
    if refused { Err(ApiError::unauthorized()) } else { Ok(Arc::new(User::anonymous())) }
}

/// How long what was found out about a client certificate counts before it is verified again.
const VERIFIED_SECONDS: i64 = 10;
/// Certificates that are remembered of one cluster.
const MAX_VERIFIED: usize = 256;

/// Client certificates that were verified a moment ago: a signature takes longer to verify than a request to serve.
#[derive(Default)]
pub(crate) struct Verified(Mutex<ByDigest>);

/// Until when the verification of a certificate counts, in seconds since 1970, and whose it is; by its SHA-256.
type ByDigest = HashMap<[u8; 32], (i64, Arc<User>)>;

impl Verified {
    fn lock(&self) -> MutexGuard<'_, ByDigest> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn get(&self, digest: &[u8; 32], now: i64) -> Option<Arc<User>> {
        let (until, user) = self.lock().get(digest)?.clone();
        counts(until, now).then_some(user)
    }

    fn put(&self, digest: [u8; 32], now: i64, ends: i64, user: Arc<User>) {
        let mut all = self.lock();
        if all.len() >= MAX_VERIFIED {
            all.retain(|_, (until, _)| counts(*until, now));
        }
        if all.len() < MAX_VERIFIED {
            all.insert(digest, (ends.min(now + VERIFIED_SECONDS), user));
        }
    }
}

/// Before its end, by a clock that was not set back.
fn counts(until: i64, now: i64) -> bool {
    (1..=VERIFIED_SECONDS).contains(&(until - now))
}

/// The user of a chain whose leaf this cluster's authority has signed, and whose key the client holds.
fn by_certificate(plane: &Plane, chain: &[Vec<u8>]) -> Option<Arc<User>> {
    let now = plane.now();
    let digest: [u8; 32] = Sha256::digest(chain.first()?).into();
    if let Some(user) = plane.verified.get(&digest, now.as_second()) {
        return Some(user);
    }
    match plane.keys.subject(chain, now) {
        Ok(Known { subject, until }) if !subject.common_name.is_empty() => {
            let mut user = User::new(subject.common_name, subject.organizations);
            user.groups.push(AUTHENTICATED.to_owned());
            // As upstream since 1.32 (apiserver/pkg/authentication/request/x509), so that audit entries name the certificate.
            let id = format!("X509SHA256={}", hex::encode(digest));
            user.extra.insert("authentication.kubernetes.io/credential-id".to_owned(), vec![id]);
            let user = Arc::new(user);
            plane.verified.put(digest, now.as_second(), until.as_second(), user.clone());
            Some(user)
        }
        Ok(_) => None,
        Err(error) => {
            tracing::debug!(%error, "a client certificate was refused");
            None
        }
    }
}

/// The user of a token, and for which of the wanted audiences (none: this server's own) it is meant. 401 unless it is genuine, current,
/// and everything it is bound to still exists.
pub(crate) async fn by_token(
    plane: &Arc<Plane>,
    token: &str,
    audiences: &[String],
) -> Result<(User, Vec<String>), ApiError> {
    if let Some(known) = platform::authenticate(plane, token, audiences).await {
        return known;
    }
    let refused = match verify(plane, token, audiences).await? {
        Ok(known) => return Ok(known),
        Err(why) => why,
    };
    // Tokens of other issuers say nothing of this server's audiences: they are for its own.
    let own: Vec<String> = if audiences.is_empty() {
        vec![plane.keys.issuer.clone()]
    } else {
        audiences.iter().filter(|a| **a == plane.keys.issuer).cloned().collect()
    };
    if !own.is_empty() {
        match plane.issuers.authenticate(plane, token).await {
            Ok(user) => return Ok((user, own)),
            Err(why) => tracing::debug!(why, "a token of another issuer was refused"),
        }
    }
    tracing::debug!(why = refused, "a token was refused");
    Err(ApiError::unauthorized())
}

async fn verify(
    plane: &Plane,
    token: &str,
    audiences: &[String],
) -> Result<Result<(User, Vec<String>), &'static str>, ApiError> {
    let mut validation = jsonwebtoken::Validation::new(jsonwebtoken::Algorithm::ES256);
    // Times and audiences are checked below, by the cluster's clock.
    validation.validate_exp = false;
    validation.validate_aud = false;
    validation.required_spec_claims.clear();
    let id = jsonwebtoken::decode_header(token).ok().and_then(|header| header.kid).unwrap_or_default();
    let Some(decoded) = plane
        .keys
        .verifier(&id, plane.now())
        .and_then(|key| jsonwebtoken::decode::<Value>(token, key, &validation).ok())
    else {
        return Ok(Err("the signature is not this cluster's"));
    };
    let claims = decoded.claims;
    let now = plane.now().as_second();
    if claims["iss"] != plane.keys.issuer.as_str() {
        return Ok(Err("another issuer"));
    }
    if claims["exp"].as_i64().is_none_or(|e| e <= now) || claims["nbf"].as_i64().is_some_and(|n| n > now + 1) {
        return Ok(Err("expired, or not valid yet"));
    }
    let own = [plane.keys.issuer.clone()];
    let wanted = if audiences.is_empty() { &own[..] } else { audiences };
    let meant: Vec<&str> = match &claims["aud"] {
        Value::String(one) => vec![one],
        many => many.as_array().into_iter().flatten().filter_map(Value::as_str).collect(),
    };
    let matching: Vec<String> = wanted.iter().filter(|w| meant.contains(&w.as_str())).cloned().collect();
    if matching.is_empty() {
        return Ok(Err("meant for another audience"));
    }
    let private = &claims[CLAIMS];
    let namespace = private["namespace"].as_str().unwrap_or_default();
    let name = private["serviceaccount"]["name"].as_str().unwrap_or_default();
    if !bound(plane, "serviceaccounts", namespace, &private["serviceaccount"]).await? {
        return Ok(Err("its service account is gone"));
    }
    for (field, resource) in [("pod", "pods"), ("secret", "secrets")] {
        if !private[field].is_null() && !bound(plane, resource, namespace, &private[field]).await? {
            return Ok(Err("the object it is bound to is gone"));
        }
    }
    let mut user = service_account(namespace, name);
    private["serviceaccount"]["uid"].as_str().unwrap_or_default().clone_into(&mut user.uid);
    let mut extra = |key: &str, value: &Value| {
        if let Some(value) = value.as_str() {
            user.extra.insert(format!("authentication.kubernetes.io/{key}"), vec![value.to_owned()]);
        }
    };
    if let Some(id) = claims["jti"].as_str() {
        extra("credential-id", &format!("JTI={id}").into());
    }
    extra("pod-name", &private["pod"]["name"]);
    extra("pod-uid", &private["pod"]["uid"]);
    extra("node-name", &private["node"]["name"]);
    extra("node-uid", &private["node"]["uid"]);
    Ok(Ok((user, matching)))
}

/// The user of a service account.
pub(crate) fn service_account(namespace: &str, name: &str) -> User {
    User::new(
        format!("{SERVICE_ACCOUNT}{namespace}:{name}"),
        ["system:serviceaccounts".to_owned(), format!("system:serviceaccounts:{namespace}")],
    )
}

/// Whether an object of this name and uid is there and not long deleted.
async fn bound(plane: &Plane, resource: &str, namespace: &str, reference: &Value) -> Result<bool, ApiError> {
    let name = reference["name"].as_str().unwrap_or_default();
    let Some(object) = plane.object(resource, namespace, name).await? else { return Ok(false) };
    let deleted = is_terminating(&object)
        && time(meta(&object, "deletionTimestamp"))
            .is_some_and(|t| t.as_second() + DELETED_LEEWAY_SECONDS < plane.now().as_second());
    Ok(reference["uid"] == meta(&object, "uid") && !deleted)
}

/// The user to act for, if the request says so and its user may.
pub(crate) async fn impersonate(plane: &Plane, user: Arc<User>, headers: &HeaderMap) -> Result<Arc<User>, ApiError> {
    if !headers.keys().any(|name| name.as_str().starts_with("impersonate-")) {
        return Ok(user);
    }
    // A value that cannot be read must not count as none: the request would be carried out with all rights of its own user.
    let text = |value: &HeaderValue| {
        std::str::from_utf8(value.as_bytes())
            .map(ToOwned::to_owned)
            .map_err(|_| ApiError::bad_request("the headers for impersonation must be UTF-8"))
    };
    let name = headers.get("impersonate-user").map(text).transpose()?.unwrap_or_default();
    let uid = headers.get("impersonate-uid").map(text).transpose()?.unwrap_or_default();
    let groups = headers.get_all("impersonate-group").iter().map(text).collect::<Result<Vec<_>, _>>()?;
    let mut extra = Vec::new();
    for (header, value) in headers {
        if let Some(key) = header.as_str().strip_prefix("impersonate-extra-") {
            extra.push((unescape(key), text(value)?));
        }
    }
    if name.is_empty() {
        if uid.is_empty() && groups.is_empty() && extra.is_empty() {
            return Ok(user);
        }
        return Err(ApiError::internal(
            "requested impersonation of groups, a uid or extras without impersonating a user",
        ));
    }
    let check = |group: &str, resource: &str, subresource: &str, namespace: &str, name: &str| Attributes {
        verb: "impersonate".into(),
        path: None,
        group: group.into(),
        version: "v1".into(),
        resource: resource.into(),
        subresource: subresource.into(),
        namespace: namespace.into(),
        name: name.into(),
    };
    const AUTHENTICATION: &str = "authentication.k8s.io";
    let mut wanted = Vec::new();
    let account = name
        .strip_prefix(SERVICE_ACCOUNT)
        .and_then(|rest| rest.split_once(':'))
        .map(|(ns, n)| (ns.to_owned(), n.to_owned()));
    match &account {
        Some((namespace, account)) => wanted.push(check("", "serviceaccounts", "", namespace, account)),
        None => wanted.push(check("", "users", "", "", &name)),
    }
    wanted.extend(groups.iter().map(|g| check("", "groups", "", "", g)));
    wanted.extend(extra.iter().map(|(k, v)| check(AUTHENTICATION, "userextras", k, "", v)));
    if !uid.is_empty() {
        wanted.push(check(AUTHENTICATION, "uids", "", "", &uid));
    }
    for attributes in &wanted {
        let decision = plane.decide(&user, attributes).await?;
        if !decision.allowed {
            return Err(forbidden(&user, attributes, &decision.reason));
        }
    }
    let mut other = match &account {
        Some((namespace, account)) if groups.is_empty() => service_account(namespace, account),
        _ => User::new(name, groups),
    };
    other.uid = uid;
    for (key, value) in extra {
        other.extra.entry(key).or_default().push(value);
    }
    let anonymous = other.name == "system:anonymous" || other.in_group("system:unauthenticated");
    let extra_group = if anonymous { "system:unauthenticated" } else { AUTHENTICATED };
    if !other.in_group(extra_group) {
        other.groups.push(extra_group.to_owned());
    }
    Ok(Arc::new(other))
}

/// Keys of extras are percent-encoded in header names.
fn unescape(key: &str) -> String {
    crate::request::Query::parse(&format!("k={}", key.replace('+', "%2B"))).get("k").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_verified_counts_for_a_moment_only() {
        let verified = Verified::default();
        let user = Arc::new(User::anonymous());
        verified.put([1; 32], 100, 1000, user.clone());
        assert!(verified.get(&[1; 32], 100 + VERIFIED_SECONDS - 1).is_some());
        assert!(verified.get(&[1; 32], 100 + VERIFIED_SECONDS).is_none());
        assert!(verified.get(&[1; 32], 99).is_none(), "the clock was set back");
        assert!(verified.get(&[2; 32], 100).is_none(), "another certificate");
        verified.put([3; 32], 100, 102, Arc::new(User::anonymous()));
        assert!(verified.get(&[3; 32], 101).is_some());
        assert!(verified.get(&[3; 32], 102).is_none(), "it has ended");
    }

    #[test]
    fn few_certificates_are_remembered() {
        let verified = Verified::default();
        let user = Arc::new(User::anonymous());
        let digest = |n: usize| {
            let mut digest = [0; 32];
            digest[..8].copy_from_slice(&(n as u64).to_le_bytes());
            digest
        };
        for n in 0..MAX_VERIFIED + 9 {
            verified.put(digest(n), 100, 1000, user.clone());
        }
        assert_eq!(verified.lock().len(), MAX_VERIFIED);
        verified.put(digest(1 << 20), 100 + VERIFIED_SECONDS, 1000, user);
        assert_eq!(verified.lock().len(), 1, "those that do not count any more make room");
    }
}
