//! AdmissionReview: what a webhook is asked, and what it answered.

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::{Value, json};
use vctl_machinery::{catalog::Descriptor, status::ApiError};

use super::{Attributes, Invocation, Operation};
use crate::{objects::FieldValidation, user::User};

/// What a webhook answered.
pub(super) struct Verdict {
    pub(super) allowed: bool,
    /// A JSON patch with operations in it.
    pub(super) patch: Option<Value>,
    pub(super) result: Value,
    pub(super) warnings: Vec<String>,
    pub(super) audit: Vec<(String, String)>,
}

/// Who asks. Controllers are service accounts here as they are upstream, though they need no rights in this process.
fn user(user: &User) -> Value {
    let mut info = user.info();
    if user.is_internal()
        && let Some((namespace, _)) =
            user.name.strip_prefix("system:serviceaccount:").and_then(|rest| rest.split_once(':'))
    {
        info["groups"] =
            json!(["system:serviceaccounts", format!("system:serviceaccounts:{namespace}"), "system:authenticated"]);
    }
    info
}

/// Kind of what is sent: the object's, or the subresource's own.
fn kind(descriptor: &Descriptor, subresource: &str) -> Value {
    match descriptor.subresource(subresource).filter(|s| !s.kind.is_empty()) {
        Some(own) => json!({ "group": own.group, "version": own.version, "kind": own.kind }),
        None => json!({ "group": descriptor.group, "version": descriptor.version, "kind": descriptor.kind }),
    }
}

fn resource(descriptor: &Descriptor) -> Value {
    json!({ "group": descriptor.group, "version": descriptor.version, "resource": descriptor.plural })
}

/// `CreateOptions` and its like.
fn options(request: &Attributes<'_>) -> Value {
    let call = request.call;
    let kind = match request.operation {
        Operation::Create => "CreateOptions",
        Operation::Update => "UpdateOptions",
        Operation::Delete => "DeleteOptions",
        Operation::Connect => return Value::Null,
    };
    let mut options = json!({ "kind": kind, "apiVersion": "meta.k8s.io/v1" });
    if call.dry_run {
        options["dryRun"] = json!(["All"]);
    }
    if request.operation != Operation::Delete {
        options["fieldManager"] = call.manager.clone().into();
        if call.validation != FieldValidation::default() {
            options["fieldValidation"] =
                if call.validation == FieldValidation::Strict { "Strict" } else { "Ignore" }.into();
        }
    }
    options
}

/// The document to post.
pub(super) fn request(
    request: &Attributes<'_>,
    invocation: &Invocation,
    version: &str,
    uid: &str,
    object: &Value,
    old: Option<&Value>,
) -> Value {
    let (target, own) = (request.target, &invocation.descriptor);
    let mut body = json!({
        "uid": uid,
        "kind": kind(own, &target.subresource), "resource": resource(own),
        "requestKind": kind(&target.descriptor, &target.subresource), "requestResource": resource(&target.descriptor),
        "operation": request.operation.as_str(),
        "userInfo": user(&request.call.user),
        "object": object, "oldObject": old,
        "dryRun": request.call.dry_run,
        "options": options(request),
    });
    let name = if target.name.is_empty() { super::super::name_of_existing(object) } else { &target.name };
    for (field, value) in [
        ("name", name),
        ("namespace", request.namespace()),
        ("subResource", &target.subresource),
        ("requestSubResource", &target.subresource),
    ] {
        if !value.is_empty() {
            body[field] = value.into();
        }
    }
    json!({ "kind": "AdmissionReview", "apiVersion": format!("admission.k8s.io/{version}"), "request": body })
}

/// Reads an answer; what is wrong with it otherwise.
pub(super) fn verdict(answer: &Value, version: &str, uid: &str, mutating: bool) -> Result<Verdict, String> {
    let response = &answer["response"];
    if !response.is_object() {
        return Err("webhook response was absent".into());
    }
    let text = |v: &Value| v.as_str().unwrap_or_default().to_owned();
    let mut patch = text(&response["patch"]);
    if version == "v1" {
        if response["uid"] != uid {
            return Err(format!("expected response.uid={uid:?}, got {:?}", text(&response["uid"])));
        }
        let (group_version, kind) = (text(&answer["apiVersion"]), text(&answer["kind"]));
        if group_version != "admission.k8s.io/v1" || kind != "AdmissionReview" {
            return Err(format!(
                "expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview, got {group_version}, Kind={kind}"
            ));
        }
        let typed = response["patchType"].as_str();
        if mutating {
            match (patch.is_empty(), typed) {
                (false, None) => return Err("webhook returned response.patch but not response.patchType".into()),
                (true, Some(_)) => return Err("webhook returned response.patchType but not response.patch".into()),
                (false, Some("")) => return Err("webhook returned invalid response.patchType of \"\"".into()),
                (false, Some(other)) if other != "JSONPatch" => {
                    return Err(format!("unsupported patch type {other:?}"));
                }
                _ => {}
            }
        } else if !patch.is_empty() {
            return Err("validating webhook may not return response.patch".into());
        } else if typed.is_some() {
            return Err("validating webhook may not return response.patchType".into());
        }
    } else if !mutating {
        patch.clear();
    }
    let patch = if patch.is_empty() {
        None
    } else {
        let unreadable = |e: &dyn std::fmt::Display| format!("received undecodable patch in webhook response: {e}");
        let bytes = STANDARD.decode(&patch).map_err(|e| unreadable(&e))?;
        let patch: Value = serde_json::from_slice(&bytes).map_err(|e| unreadable(&e))?;
        Some(patch).filter(|p| p.as_array().is_none_or(|operations| !operations.is_empty()))
    };
    let audit = response["auditAnnotations"].as_object().into_iter().flatten();
    Ok(Verdict {
        allowed: response["allowed"] == true,
        patch,
        result: response["status"].clone(),
        warnings: response["warnings"].as_array().into_iter().flatten().map(text).collect(),
        audit: audit.map(|(k, v)| (k.clone(), text(v))).collect(),
    })
}

/// The reasons that a Status can have.
const REASONS: [&str; 22] = [
    "Unauthorized",
    "Forbidden",
    "NotFound",
    "AlreadyExists",
    "Conflict",
    "Gone",
    "Invalid",
    "ServerTimeout",
    "StoreReadError",
    "Timeout",
    "TooManyRequests",
    "BadRequest",
    "MethodNotAllowed",
    "NotAcceptable",
    "RequestEntityTooLarge",
    "UnsupportedMediaType",
    "InternalError",
    "Expired",
    "ServiceUnavailable",
    "Unknown",
    "NotImplemented",
    "Denied",
];

/// The error of a request that a webhook refuses, from the Status in its answer.
pub(super) fn denied(webhook: &str, result: &Value) -> ApiError {
    let code = result["code"].as_u64().and_then(|c| u16::try_from(c).ok()).filter(|c| (400..600).contains(c));
    let reason = result["reason"].as_str().unwrap_or_default();
    let by = format!("admission webhook {webhook:?} denied the request");
    let message = match (result["message"].as_str().unwrap_or_default(), reason) {
        ("", "") => format!("{by} without explanation"),
        ("", reason) => format!("{by}: {reason}"),
        (message, _) => format!("{by}: {message}"),
    };
    ApiError {
        code: code.unwrap_or(400),
        reason: REASONS.into_iter().find(|r| *r == reason).unwrap_or_default(),
        message,
        details: result["details"].clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(response: Value) -> Value {
        json!({ "kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "response": response })
    }

    #[test]
    fn answers_are_checked_as_upstream_does() {
        let wrong =
            |response: Value, mutating: bool| verdict(&answer(response), "v1", "u", mutating).err().unwrap_or_default();
        assert_eq!(wrong(Value::Null, true), "webhook response was absent");
        assert_eq!(wrong(json!({ "uid": "v", "allowed": true }), true), "expected response.uid=\"u\", got \"v\"");
        let patch = STANDARD.encode("[]");
        assert_eq!(
            wrong(json!({ "uid": "u", "patch": patch }), true),
            "webhook returned response.patch but not response.patchType"
        );
        assert_eq!(
            wrong(json!({ "uid": "u", "patch": patch, "patchType": "JSONPatch" }), false),
            "validating webhook may not return response.patch"
        );
        assert_eq!(
            verdict(&json!({ "kind": "Pod", "apiVersion": "v1", "response": { "uid": "u" } }), "v1", "u", true)
                .err()
                .unwrap(),
            "expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview, got v1, Kind=Pod"
        );
        assert!(
            verdict(&answer(json!({ "uid": "u", "patch": patch, "patchType": "JSONPatch" })), "v1", "u", true)
                .unwrap()
                .patch
                .is_none()
        );
    }

    #[test]
    fn refusals_keep_the_webhooks_status() {
        let error = denied("w.x.io", &json!({ "code": 403, "reason": "Forbidden", "message": "no" }));
        assert_eq!((error.code, error.reason), (403, "Forbidden"));
        assert_eq!(error.message, "admission webhook \"w.x.io\" denied the request: no");
        let silent = denied("w.x.io", &Value::Null);
        assert_eq!(
            (silent.code, &*silent.message),
            (400, "admission webhook \"w.x.io\" denied the request without explanation")
        );
    }
}
