//! Signs approved CertificateSigningRequests of the built-in signers, and removes old ones.
//! Source of rules: upstream's `pkg/controller/certificates` (signer, cleaner).

use std::time::Duration;

use base64::{Engine, engine::general_purpose::STANDARD};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use vctl_runtime::pki::{self, Requested};

use super::{
    context::{Context, Failure},
    object::{condition, list, rfc3339, text, time},
};

const REQUESTS: &str = "certificatesigningrequests.certificates.k8s.io";
/// How long a certificate is valid at most.
const LONGEST: Duration = Duration::from_hours(365 * 24);
const SHORTEST_SECONDS: i64 = 600;
/// Clocks of clients may be behind.
const BACKDATE: SignedDuration = SignedDuration::from_mins(5);
/// What is decided, and what nobody decides on, is kept so long.
const DECIDED: SignedDuration = SignedDuration::from_hours(1);
const PENDING: SignedDuration = SignedDuration::from_hours(24);

/// Why a signer does not sign a request; none when it does.
fn refusal(signer: &str, requested: &Requested, usages: &[&str]) -> Option<&'static str> {
    let only =
        |allowed: &[&str], required: &str| usages.contains(&required) && usages.iter().all(|u| allowed.contains(u));
    let node = requested.subject.organizations == ["system:nodes"]
        && requested.subject.common_name.starts_with("system:node:");
    let named = !requested.dns.is_empty() || !requested.ips.is_empty();
    let other = !requested.emails.is_empty() || !requested.uris.is_empty();
    const CLIENT: [&str; 3] = ["digital signature", "key encipherment", "client auth"];
    const SERVER: [&str; 3] = ["digital signature", "key encipherment", "server auth"];
    match signer {
        "kubernetes.io/kube-apiserver-client" if !only(&CLIENT, "client auth") => {
            Some("usages did not match [client auth] and optionally [digital signature, key encipherment]")
        }
        "kubernetes.io/kube-apiserver-client-kubelet" if !node => {
            Some("subject organization is not system:nodes, or the common name does not begin with system:node:")
        }
        "kubernetes.io/kube-apiserver-client-kubelet" if named || other => {
            Some("DNS, IP, email and URI subjectAltNames are not allowed")
        }
        "kubernetes.io/kube-apiserver-client-kubelet" if !only(&CLIENT, "client auth") => {
            Some("usages did not match [digital signature, client auth] and optionally [key encipherment]")
        }
        "kubernetes.io/kubelet-serving" if !node => {
            Some("subject organization is not system:nodes, or the common name does not begin with system:node:")
        }
        "kubernetes.io/kubelet-serving" if !named => Some("DNS or IP subjectAltName is required"),
        "kubernetes.io/kubelet-serving" if other => Some("email and URI subjectAltNames are not allowed"),
        "kubernetes.io/kubelet-serving" if !only(&SERVER, "server auth") => {
            Some("usages did not match [digital signature, server auth] and optionally [key encipherment]")
        }
        _ => None,
    }
}

fn is_ours(signer: &str) -> bool {
    matches!(
        signer,
        "kubernetes.io/kube-apiserver-client"
            | "kubernetes.io/kube-apiserver-client-kubelet"
            | "kubernetes.io/kubelet-serving"
            | "kubernetes.io/legacy-unknown"
    )
}

fn is_true(request: &Value, kind: &str) -> bool {
    condition(request, kind).is_some_and(|c| text(c, "/status") != "False")
}

/// When the request is removed.
fn expiry(request: &Value) -> Option<Timestamp> {
    let decided = ["Approved", "Denied", "Failed"].into_iter().find(|k| is_true(request, k));
    let since = match decided.and_then(|kind| condition(request, kind)) {
        Some(condition) => (time(condition, "/lastUpdateTime")?, DECIDED),
        None => (time(request, "/metadata/creationTimestamp")?, PENDING),
    };
    since.0.checked_add(since.1).ok()
}

/// How long the certificate is to be valid.
fn lifetime(request: &Value) -> Duration {
    match super::object::int(request, "/spec/expirationSeconds") {
        Some(seconds) => Duration::from_secs(seconds.max(SHORTEST_SECONDS).unsigned_abs()).min(LONGEST),
        None => LONGEST,
    }
}

pub(super) async fn reconcile(cx: &Context<'_>, name: &str) -> Result<Option<Timestamp>, Failure> {
    let Some(mut request) = cx.find(REQUESTS, "", name).await? else { return Ok(None) };
    let expiry = expiry(&request);
    if expiry.is_some_and(|at| at <= cx.now) {
        let options = super::object::uid_precondition(super::object::uid(&request));
        cx.delete(REQUESTS, "", name, options).await?;
        return Ok(None);
    }
    let signer = text(&request, "/spec/signerName").to_owned();
    let undecided = !is_true(&request, "Approved") || is_true(&request, "Denied") || is_true(&request, "Failed");
    if undecided || !text(&request, "/status/certificate").is_empty() || !is_ours(&signer) {
        return Ok(expiry);
    }
    let pem = STANDARD.decode(text(&request, "/spec/request")).unwrap_or_default();
    let pem = String::from_utf8_lossy(&pem).into_owned();
    let usages: Vec<&str> = list(&request, "/spec/usages").iter().filter_map(Value::as_str).collect();
    let requested = pki::requested(&pem).map_err(|e| e.to_string());
    let refused = match &requested {
        Ok(requested) => refusal(&signer, requested, &usages).map(ToOwned::to_owned),
        Err(why) => Some(why.clone()),
    };
    let signed = match refused {
        Some(why) => Err(why),
        None => {
            let from = cx.now.checked_sub(BACKDATE).unwrap_or(cx.now);
            let until = cx.now.checked_add(lifetime(&request)).unwrap_or(cx.now);
            let validity = pki::Validity { from, until };
            match cx.clients.sign_certificate(cx.tenant, &pem, &usages, validity).await {
                Ok(certificate) => Ok(certificate),
                Err(e) if e.code == 400 => Err(e.message),
                Err(e) => return Err(e.into()),
            }
        }
    };
    match signed {
        Ok(certificate) => request["status"]["certificate"] = STANDARD.encode(certificate).into(),
        Err(why) => {
            let now = rfc3339(cx.now);
            let failed = json!({
                "type": "Failed", "status": "True", "reason": "SignerValidationFailure", "message": why,
                "lastUpdateTime": now, "lastTransitionTime": now,
            });
            match request["status"]["conditions"].as_array_mut() {
                Some(conditions) => conditions.push(failed),
                None => request["status"]["conditions"] = json!([failed]),
            }
        }
    }
    cx.client.update(REQUESTS, "", name, "status", request).await?;
    Ok(expiry)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn requested(user: &str, groups: &[&str], dns: &[&str]) -> Requested {
        let organizations = groups.iter().map(|g| (*g).to_owned()).collect();
        Requested {
            subject: pki::Subject { common_name: user.into(), organizations },
            dns: dns.iter().map(|d| (*d).to_owned()).collect(),
            ..Requested::default()
        }
    }

    #[test]
    fn each_signer_has_its_rules() {
        let client = ["client auth", "digital signature"];
        let server = ["server auth", "digital signature"];
        let jane = requested("jane", &[], &[]);
        let node = requested("system:node:a", &["system:nodes"], &["a.example"]);
        let agent = requested("system:node:a", &["system:nodes"], &[]);
        for (signer, request, usages, signs) in [
            ("kubernetes.io/kube-apiserver-client", &jane, &client[..], true),
            ("kubernetes.io/kube-apiserver-client", &jane, &server[..], false),
            ("kubernetes.io/kube-apiserver-client-kubelet", &agent, &client[..], true),
            ("kubernetes.io/kube-apiserver-client-kubelet", &node, &client[..], false),
            ("kubernetes.io/kube-apiserver-client-kubelet", &jane, &client[..], false),
            ("kubernetes.io/kubelet-serving", &node, &server[..], true),
            ("kubernetes.io/kubelet-serving", &agent, &server[..], false),
            ("kubernetes.io/kubelet-serving", &node, &client[..], false),
            ("kubernetes.io/legacy-unknown", &jane, &server[..], true),
        ] {
            assert_eq!(refusal(signer, request, usages).is_none(), signs, "{signer} {usages:?}");
        }
    }

    #[test]
    fn lifetimes_are_bounded() {
        let of = |seconds: i64| lifetime(&json!({ "spec": { "expirationSeconds": seconds } })).as_secs();
        assert_eq!((of(3600), of(1), of(i64::MAX)), (3600, 600, LONGEST.as_secs()));
        assert_eq!(lifetime(&json!({ "spec": {} })), LONGEST);
    }
}
