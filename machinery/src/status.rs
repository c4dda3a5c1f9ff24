//! API errors: one enum-free type that knows its HTTP code and prints itself as `meta/v1 Status`.
//! Texts and shapes follow apimachinery's `pkg/api/errors/errors.go`.

use serde_json::{Map, Value, json};

use crate::validate::FieldError;

/// Largest object that is stored in bytes of JSON, as etcd's default for one request. Bodies have a limit of their own, but patches and
/// defaults add up.
pub const MAX_OBJECT_BYTES: usize = 3 << 19;

/// An error of the Kubernetes API.
#[derive(Debug, Clone, PartialEq)]
pub struct ApiError {
    /// HTTP status code.
    pub code: u16,
    /// Machine-readable reason (`metav1.StatusReason`); empty for none.
    pub reason: &'static str,
    /// For people.
    pub message: String,
    /// `details` of the Status; null for none.
    pub details: Value,
}

impl std::fmt::Display for ApiError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for ApiError {}

/// `resource` or `resource.group`, as Go's `GroupResource.String()` prints it.
pub fn group_resource(group: &str, resource: &str) -> String {
    if group.is_empty() { resource.to_owned() } else { format!("{resource}.{group}") }
}

impl ApiError {
    fn of(code: u16, reason: &'static str, message: String, details: Value) -> Self {
        Self { code, reason, message, details }
    }

    fn object(group: &str, resource: &str, name: &str) -> Value {
        // `StatusDetails` leaves out what is empty.
        let fields = [("name", name), ("kind", resource), ("group", group)];
        fields
            .into_iter()
            .filter(|(_, v)| !v.is_empty())
            .map(|(k, v)| (k.to_owned(), v.into()))
            .collect::<Map<_, _>>()
            .into()
    }

    /// 404 NotFound for an object.
    pub fn not_found(group: &str, resource: &str, name: &str) -> Self {
        let message = format!("{} \"{name}\" not found", group_resource(group, resource));
        Self::of(404, "NotFound", message, Self::object(group, resource, name))
    }

    /// 409 AlreadyExists.
    pub fn already_exists(group: &str, resource: &str, name: &str) -> Self {
        let message = format!("{} \"{name}\" already exists", group_resource(group, resource));
        Self::of(409, "AlreadyExists", message, Self::object(group, resource, name))
    }

    /// 409 Conflict: `why` completes "Operation cannot be fulfilled on ..".
    pub fn conflict(group: &str, resource: &str, name: &str, why: &str) -> Self {
        let message = format!("Operation cannot be fulfilled on {} \"{name}\": {why}", group_resource(group, resource));
        Self::of(409, "Conflict", message, Self::object(group, resource, name))
    }

    /// 409 Conflict of an optimistic lock.
    pub fn modified(group: &str, resource: &str, name: &str) -> Self {
        Self::conflict(
            group,
            resource,
            name,
            "the object has been modified; please apply your changes to the latest version and try again",
        )
    }

    /// 403 Forbidden: `why` comes after `pods "x" is forbidden: `.
    pub fn forbidden(group: &str, resource: &str, name: &str, why: &str) -> Self {
        let gr = group_resource(group, resource);
        let message = match (resource.is_empty(), name.is_empty()) {
            (true, _) => format!("forbidden: {why}"),
            (false, true) => format!("{gr} is forbidden: {why}"),
            (false, false) => format!("{gr} \"{name}\" is forbidden: {why}"),
        };
        let details = if name.is_empty() {
            let mut d = json!({ "kind": resource });
            if !group.is_empty() {
                d["group"] = group.into();
            }
            d
        } else {
            Self::object(group, resource, name)
        };
        Self::of(403, "Forbidden", message, details)
    }

    /// 422 Invalid with its field errors. `kind` is the Kind, not the resource.
    pub fn invalid(group: &str, kind: &str, name: &str, errors: &[FieldError]) -> Self {
        let gk = group_resource(group, kind);
        let list: Vec<String> = errors.iter().map(ToString::to_string).collect();
        let text = match list.as_slice() {
            [one] => one.clone(),
            many => format!("[{}]", many.join(", ")),
        };
        let causes: Vec<Value> =
            errors.iter().map(|e| json!({ "reason": e.reason, "message": e.body(), "field": e.field })).collect();
        let mut details = Self::object(group, kind, name);
        details["causes"] = causes.into();
        Self::of(422, "Invalid", format!("{gk} \"{name}\" is invalid: {text}"), details)
    }

    /// 400 BadRequest.
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::of(400, "BadRequest", message.into(), Value::Null)
    }

    /// 401 Unauthorized.
    pub fn unauthorized() -> Self {
        Self::of(401, "Unauthorized", "Unauthorized".into(), Value::Null)
    }

    /// 405 MethodNotAllowed.
    pub fn method_not_allowed(group: &str, resource: &str, action: &str) -> Self {
        let gr = group_resource(group, resource);
        let message = format!("{action} is not supported on resources of kind \"{gr}\"");
        let mut details = json!({ "kind": resource });
        if !group.is_empty() {
            details["group"] = group.into();
        }
        Self::of(405, "MethodNotAllowed", message, details)
    }

    /// 410 Expired: a resourceVersion or continue token that is too old.
    pub fn expired(message: impl Into<String>) -> Self {
        Self::of(410, "Expired", message.into(), Value::Null)
    }

    /// 413 for an object that is too large to be stored: larger than [`MAX_OBJECT_BYTES`].
    pub fn object_too_large() -> Self {
        Self::too_large(format!("Request entity too large: limit is {MAX_OBJECT_BYTES}"))
    }

    /// 413 RequestEntityTooLarge.
    pub fn too_large(message: impl Into<String>) -> Self {
        Self::of(413, "RequestEntityTooLarge", message.into(), Value::Null)
    }

    /// 415 UnsupportedMediaType.
    pub fn unsupported_media_type(message: impl Into<String>) -> Self {
        Self::of(415, "UnsupportedMediaType", message.into(), Value::Null)
    }

    /// 406 NotAcceptable.
    pub fn not_acceptable(message: impl Into<String>) -> Self {
        Self::of(406, "NotAcceptable", message.into(), Value::Null)
    }

    /// 429 TooManyRequests, with seconds to wait.
    pub fn too_many_requests(message: impl Into<String>, retry_after_seconds: u32) -> Self {
        Self::of(429, "TooManyRequests", message.into(), json!({ "retryAfterSeconds": retry_after_seconds }))
    }

    /// 500 InternalError.
    pub fn internal(why: impl std::fmt::Display) -> Self {
        let message = format!("Internal error occurred: {why}");
        Self::of(500, "InternalError", message, json!({ "causes": [{ "message": why.to_string() }] }))
    }

    /// 504 Timeout: a resourceVersion that has not been reached.
    pub fn resource_version_too_large(requested: u64, current: u64) -> Self {
        Self::of(
            504,
            "Timeout",
            format!("Timeout: Too large resource version: {requested}, current: {current}"),
            json!({
                "retryAfterSeconds": 1,
                "causes": [{ "reason": "ResourceVersionTooLarge", "message": "Too large resource version" }],
            }),
        )
    }

    /// The `meta/v1 Status` object that clients read.
    pub fn status(&self) -> Value {
        let mut status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {},
            "status": "Failure", "message": self.message, "code": self.code,
        });
        if !self.reason.is_empty() {
            status["reason"] = self.reason.into();
        }
        if !self.details.is_null() {
            status["details"] = self.details.clone();
        }
        status
    }
}
