//! Service account tokens: issuing them, and what others need to verify them.

use axum::body::Body;
use http::{Response, StatusCode};
use jiff::ToSpan;
use serde_json::{Value, json};
use vctl_machinery::{status::ApiError, validate::FieldError};

use super::{Context, respond};
use crate::{
    document::meta,
    keys::seconds,
    objects::{Call, Target},
};

const DEFAULT_SECONDS: i64 = 3600;
const LEAST_SECONDS: i64 = 600;
const MOST_SECONDS: i64 = 1 << 32;

/// `/openid/v1/jwks` and `/.well-known/openid-configuration`.
pub(crate) fn discovery(context: &Context) -> Result<Option<Response<Body>>, ApiError> {
    let keys = &context.plane.keys;
    let (media, document) = match context.info.path.as_str() {
        "/openid/v1/jwks" => ("application/jwk-set+json", json!({ "keys": keys.token_jwks(context.plane.now()) })),
        "/.well-known/openid-configuration" => (
            "application/json",
            json!({
                "issuer": keys.issuer, "jwks_uri": format!("{}/openid/v1/jwks", keys.issuer),
                "response_types_supported": ["id_token"], "subject_types_supported": ["public"],
                "id_token_signing_alg_values_supported": ["ES256"],
            }),
        ),
        _ => return Ok(None),
    };
    Ok(Some(respond::bytes(StatusCode::OK, media, document.to_string().into_bytes())))
}

fn invalid(field: &str, text: String) -> ApiError {
    ApiError::invalid(
        "authentication.k8s.io",
        "TokenRequest",
        "",
        &[FieldError { reason: "FieldValueInvalid", field: field.into(), body: text }],
    )
}

/// Answers a `TokenRequest` for a service account.
pub(crate) async fn request(call: &Call, target: &Target, mut request: Value) -> Result<Value, ApiError> {
    let account = call.get(&Target::new(target.descriptor.clone(), &target.namespace, &target.name)).await?;
    let keys = &call.plane.keys;
    let lifetime = request["spec"]["expirationSeconds"].as_i64().unwrap_or(DEFAULT_SECONDS);
    if lifetime < LEAST_SECONDS {
        return Err(invalid(
            "spec.expirationSeconds",
            format!("Invalid value: {lifetime}: may not specify a duration less than 10 minutes"),
        ));
    }
    if lifetime > MOST_SECONDS {
        return Err(invalid(
            "spec.expirationSeconds",
            format!("Invalid value: {lifetime}: may not specify a duration larger than 2^32 seconds"),
        ));
    }
    let mut audiences: Vec<String> = request["spec"]["audiences"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .map(ToOwned::to_owned)
        .collect();
    if audiences.is_empty() {
        audiences.push(keys.issuer.clone());
    }
    let mut private = json!({
        "namespace": target.namespace, "serviceaccount": { "name": target.name, "uid": meta(&account, "uid") },
    });
    if request["spec"]["boundObjectRef"].is_object() {
        bind(call, target, &request["spec"]["boundObjectRef"], &mut private).await?;
    }
    let now = call.plane.now();
    if keys.must_change_before_token(lifetime, now) {
        // This one is signed with the key that is known here: it stays believed for as long as the token lives.
        let change = |document: &mut crate::keys::KeysDocument| document.before_token(lifetime, now);
        crate::keys::edit(call.plane.store(), call.plane.tenant, change).await?;
        call.plane.keys_changed();
    }
    let expires = now.checked_add(lifetime.seconds()).map_err(ApiError::internal)?;
    let claims = json!({
        "aud": audiences, "exp": expires.as_second(), "iat": now.as_second(), "nbf": now.as_second(), "iss": keys.issuer,
        "jti": uuid::Uuid::new_v4().to_string(), "kubernetes.io": private,
        "sub": format!("system:serviceaccount:{}:{}", target.namespace, target.name),
    });
    let mut header = jsonwebtoken::Header::new(jsonwebtoken::Algorithm::ES256);
    header.typ = None;
    header.kid = Some(keys.token_id().to_owned());
    let token = jsonwebtoken::encode(&header, &claims, &keys.sign).map_err(ApiError::internal)?;
    request["apiVersion"] = "authentication.k8s.io/v1".into();
    request["kind"] = "TokenRequest".into();
    request["metadata"] =
        json!({ "name": target.name, "namespace": target.namespace, "creationTimestamp": seconds(now) });
    request["spec"]["audiences"] = audiences.into();
    request["spec"]["expirationSeconds"] = lifetime.into();
    if request["spec"]["boundObjectRef"].is_null() {
        request["spec"]["boundObjectRef"] = Value::Null;
    }
    request["status"] = json!({ "token": token, "expirationTimestamp": seconds(expires) });
    Ok(request)
}

/// Binds the token to a pod or secret: it counts as long as that exists.
async fn bind(call: &Call, target: &Target, reference: &Value, private: &mut Value) -> Result<(), ApiError> {
    let (kind, name) = (reference["kind"].as_str().unwrap_or_default(), reference["name"].as_str().unwrap_or_default());
    let (resource, field) = match kind {
        "Pod" => ("pods", "pod"),
        "Secret" => ("secrets", "secret"),
        _ => {
            return Err(invalid(
                "spec.boundObjectRef",
                format!(
                    "Invalid value: {kind:?}: cannot bind token for serviceaccount {:?} to type {kind:?}",
                    target.name
                ),
            ));
        }
    };
    let Some(object) = call.plane.object(resource, &target.namespace, name).await? else {
        return Err(ApiError::not_found("", resource, name));
    };
    let uid = meta(&object, "uid");
    let wanted = reference["uid"].as_str().unwrap_or_default();
    if !wanted.is_empty() && wanted != uid {
        return Err(ApiError::conflict(
            "",
            resource,
            name,
            &format!(
                "the UID in the bound object reference ({wanted}) does not match the UID in record. The object might have been deleted and then recreated"
            ),
        ));
    }
    if field == "pod" {
        let own = object["spec"]["serviceAccountName"].as_str().unwrap_or_default();
        if own != target.name {
            return Err(ApiError::bad_request(format!(
                "cannot bind token for serviceaccount {:?} to pod running with different serviceaccount name.",
                target.name
            )));
        }
        let node = object["spec"]["nodeName"].as_str().unwrap_or_default();
        if !node.is_empty() {
            private["node"] = json!({ "name": node });
            if let Some(object) = call.plane.object("nodes", "", node).await? {
                private["node"]["uid"] = meta(&object, "uid").into();
            }
        }
    }
    private[field] = json!({ "name": name, "uid": uid });
    Ok(())
}
