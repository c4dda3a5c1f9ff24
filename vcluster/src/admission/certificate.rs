//! CertificateSigningRequests: well-formed requests, and who may approve and sign for which signer.
//! Source of rules and texts: upstream's `plugin/pkg/admission/certificates` and `pkg/apis/certificates/validation`.

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::Value;
use vctl_machinery::{status::ApiError, validate::FieldError};
use vctl_runtime::pki;

use crate::{
    authorization::rules::Attributes,
    objects::{Call, Target},
    user::MASTERS,
};

const GROUP: &str = "certificates.k8s.io";
const CLIENT: &str = "kubernetes.io/kube-apiserver-client";
const SHORTEST_SECONDS: i64 = 600;

pub(super) fn is_request(target: &Target) -> bool {
    target.is(GROUP, "certificatesigningrequests")
}

fn error(reason: &'static str, field: &str, body: String) -> FieldError {
    FieldError { reason, field: format!("spec.{field}"), body }
}

/// A request that can be read, for a signer, for something; nobody asks for the group that may do everything.
pub(super) fn create(target: &Target, object: &Value) -> Result<(), ApiError> {
    let spec = &object["spec"];
    let mut errors = Vec::new();
    let pem = STANDARD.decode(spec["request"].as_str().unwrap_or_default()).unwrap_or_default();
    let pem = String::from_utf8_lossy(&pem).into_owned();
    let requested = pki::requested(&pem);
    if !pem.contains("-----BEGIN CERTIFICATE REQUEST-----") {
        let why = "PEM block type must be CERTIFICATE REQUEST";
        errors.push(error("FieldValueInvalid", "request", format!("Invalid value: {}: {why}", spec["request"])));
    } else if let Err(why) = &requested {
        errors.push(error("FieldValueInvalid", "request", format!("Invalid value: {}: {why}", spec["request"])));
    }
    if spec["usages"].as_array().is_none_or(Vec::is_empty) {
        errors.push(error("FieldValueRequired", "usages", "Required value".into()));
    }
    for (i, usage) in spec["usages"].as_array().into_iter().flatten().enumerate() {
        if !usage.as_str().is_some_and(pki::is_usage) {
            let list: Vec<String> = pki::USAGES.iter().map(|u| format!("{u:?}")).collect();
            let body = format!("Unsupported value: {usage}: supported values: {}", list.join(", "));
            errors.push(error("FieldValueNotSupported", &format!("usages[{i}]"), body));
        }
    }
    let signer = spec["signerName"].as_str().unwrap_or_default();
    if signer.is_empty() {
        errors.push(error("FieldValueRequired", "signerName", "Required value".into()));
    } else if !signer.contains('/') {
        let why = "must be a fully qualified domain and path of the form 'example.com/signer-name'";
        errors.push(error("FieldValueInvalid", "signerName", format!("Invalid value: {signer:?}: {why}")));
    }
    if let Some(seconds) = spec["expirationSeconds"].as_i64().filter(|s| *s < SHORTEST_SECONDS) {
        let why = "may not specify a duration less than 600 seconds (10 minutes)";
        errors.push(error("FieldValueInvalid", "expirationSeconds", format!("Invalid value: {seconds}: {why}")));
    }
    if !errors.is_empty() {
        return Err(target.invalid(&errors));
    }
    if signer == CLIENT && requested.is_ok_and(|r| r.subject.organizations.iter().any(|o| o == MASTERS)) {
        let why = format!("use of {CLIENT} signer with {MASTERS} group is not allowed");
        return Err(target.forbidden(&target.name, &why));
    }
    Ok(())
}

/// Approving takes the right to `approve` for the signer, writing a certificate the right to `sign`.
pub(super) async fn update(call: &Call, target: &Target, old: &Value, new: &Value) -> Result<(), ApiError> {
    let signer = old["spec"]["signerName"].as_str().unwrap_or_default();
    let failed = |o: &Value| {
        let conditions = o["status"]["conditions"].as_array();
        conditions.into_iter().flatten().any(|c| c["type"] == "Failed")
    };
    let (verb, why) = match target.subresource.as_str() {
        "approval" => ("approve", format!("user not permitted to approve requests with signerName {signer:?}")),
        "status" if old["status"]["certificate"] != new["status"]["certificate"] || failed(old) != failed(new) => {
            ("sign", format!("user not permitted to sign requests with signerName {signer:?}"))
        }
        _ => return Ok(()),
    };
    let domain = signer.split('/').next().unwrap_or_default();
    for name in [signer.to_owned(), format!("{domain}/*")] {
        let attributes = Attributes {
            verb: verb.into(),
            group: GROUP.into(),
            version: "v1".into(),
            resource: "signers".into(),
            name,
            ..Attributes::default()
        };
        if call.plane.decide(&call.user, &attributes).await?.allowed {
            return Ok(());
        }
    }
    Err(target.forbidden(&target.name, &why))
}

/// Says when the conditions of a request that is approved or denied were set.
pub(super) fn stamp(old: &Value, new: &mut Value, now: &str) {
    let before = old["status"]["conditions"].as_array().cloned().unwrap_or_default();
    for condition in new["status"]["conditions"].as_array_mut().into_iter().flatten() {
        let same = before.iter().find(|c| c["type"] == condition["type"] && c["status"] == condition["status"]);
        if condition["lastTransitionTime"].is_null() {
            condition["lastTransitionTime"] = same.map_or_else(|| now.into(), |c| c["lastTransitionTime"].clone());
        }
        if condition["lastUpdateTime"].is_null() {
            condition["lastUpdateTime"] = now.into();
        }
    }
}
