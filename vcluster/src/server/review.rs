//! Questions about identity and rights: reviews are created, answered and not stored.

use serde_json::{Value, json};
use vctl_machinery::status::ApiError;

use super::Context;
use crate::{
    authentication,
    authorization::rules::Attributes,
    objects::Target,
    user::{AUTHENTICATED, User},
};

/// The review with its status.
pub(crate) async fn answer(context: &Context, target: &Target, mut review: Value) -> Result<Value, ApiError> {
    let spec = review["spec"].clone();
    review["status"] = match &*target.descriptor.plural {
        "selfsubjectreviews" => json!({ "userInfo": context.user.info() }),
        "tokenreviews" => token(context, &spec).await?,
        "selfsubjectaccessreviews" => access(context, &context.user, &spec).await?,
        "subjectaccessreviews" => access(context, &subject(&spec), &spec).await?,
        "localsubjectaccessreviews" => {
            if spec["resourceAttributes"]["namespace"] != target.namespace.as_str() {
                return Err(ApiError::bad_request(format!(
                    "spec.resourceAttributes.namespace must match namespace: {}",
                    target.namespace
                )));
            }
            access(context, &subject(&spec), &spec).await?
        }
        "selfsubjectrulesreviews" => rules(context, &spec).await?,
        other => return Err(ApiError::method_not_allowed(&target.descriptor.group, other, "create")),
    };
    if !review["metadata"].is_object() {
        review["metadata"] = json!({});
    }
    review["metadata"]["creationTimestamp"] = Value::Null;
    Ok(review)
}

fn subject(spec: &Value) -> User {
    let text = |v: &Value| v.as_str().unwrap_or_default().to_owned();
    let list = |v: &Value| -> Vec<String> { v.as_array().into_iter().flatten().map(text).collect() };
    let mut user = User::new(text(&spec["user"]), list(&spec["groups"]));
    user.uid = text(&spec["uid"]);
    for (key, values) in spec["extra"].as_object().into_iter().flatten() {
        user.extra.insert(key.clone(), list(values));
    }
    user
}

async fn access(context: &Context, user: &User, spec: &Value) -> Result<Value, ApiError> {
    let text = |v: &Value| v.as_str().unwrap_or_default().to_owned();
    let (resource, path) = (&spec["resourceAttributes"], &spec["nonResourceAttributes"]);
    let attributes = match (resource.is_object(), path.is_object()) {
        (true, false) => Attributes {
            verb: text(&resource["verb"]),
            path: None,
            group: text(&resource["group"]),
            version: text(&resource["version"]),
            resource: text(&resource["resource"]),
            subresource: text(&resource["subresource"]),
            namespace: text(&resource["namespace"]),
            name: text(&resource["name"]),
        },
        (false, true) => {
            Attributes { verb: text(&path["verb"]), path: Some(text(&path["path"])), ..Attributes::default() }
        }
        _ => {
            return Err(ApiError::invalid("authorization.k8s.io", "SubjectAccessReview", "", &[vctl_machinery::validate::FieldError {
                reason: "FieldValueInvalid",
                field: "spec.resourceAttributes".into(),
                body: "Invalid value: null: exactly one of nonResourceAttributes or resourceAttributes must be specified".into(),
            }]));
        }
    };
    let decision = context.plane.decide(user, &attributes).await?;
    let mut status = json!({ "allowed": decision.allowed });
    if !decision.reason.is_empty() {
        status["reason"] = decision.reason.into();
    }
    Ok(status)
}

async fn rules(context: &Context, spec: &Value) -> Result<Value, ApiError> {
    let namespace = spec["namespace"].as_str().unwrap_or_default();
    if namespace.is_empty() {
        return Err(ApiError::bad_request("no namespace on request"));
    }
    let user = &context.user;
    // Administrators have theirs from the role cluster-admin, beside what everyone has: only who skips RBAC has none.
    if user.is_internal() {
        return Ok(json!({
            "resourceRules": [{ "verbs": ["*"], "apiGroups": ["*"], "resources": ["*"] }],
            "nonResourceRules": [{ "verbs": ["*"], "nonResourceURLs": ["*"] }], "incomplete": false,
        }));
    }
    let all = context.plane.rbac().await?.rules(user, namespace);
    let (urls, resources): (Vec<_>, Vec<_>) = all.iter().partition(|r| !r.urls.is_empty());
    let json =
        |rules: Vec<&crate::authorization::rules::Rule>| -> Vec<Value> { rules.iter().map(|r| r.to_json()).collect() };
    Ok(json!({ "resourceRules": json(resources), "nonResourceRules": json(urls), "incomplete": false }))
}

async fn token(context: &Context, spec: &Value) -> Result<Value, ApiError> {
    let token = spec["token"].as_str().unwrap_or_default();
    if token.is_empty() {
        return Err(ApiError::bad_request("token is required for TokenReview in authentication"));
    }
    let audiences: Vec<String> =
        spec["audiences"].as_array().into_iter().flatten().filter_map(Value::as_str).map(ToOwned::to_owned).collect();
    match authentication::by_token(&context.plane, token, &audiences).await {
        Ok((mut user, matching)) => {
            user.groups.push(AUTHENTICATED.to_owned());
            Ok(json!({ "authenticated": true, "user": user.info(), "audiences": matching }))
        }
        Err(e) if e.code == 401 => Ok(json!({ "user": {}, "error": "invalid bearer token" })),
        Err(e) => Err(e),
    }
}
