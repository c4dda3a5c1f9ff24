//! Aggregated APIs: group-versions that a server in the tenant's pods serves, as its `APIService` says. Requests are passed on with the
//! user's name in headers, under a client certificate of the cluster's front-proxy authority.
//! Source of rules: `k8s.io/kube-aggregator`.

mod discovery;
pub(crate) mod proxy;

use std::{sync::Arc, time::Duration};

use axum::body::Body;
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response, header};
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use serde_json::Value;
use vctl_machinery::{catalog::Catalog, status::ApiError};

pub(crate) use discovery::{Discovered, merge_aggregated, merge_groups, merge_openapi};
pub(crate) use proxy::serve;

use crate::{
    outbound::{Connection, OutboundError, Place, Trust},
    plane::Plane,
    user::{MASTERS, User},
};

/// The store's resource of APIServices.
pub(crate) const API_SERVICES: &str = "apiservices.apiregistration.k8s.io";
/// How long a server gets to show that it is there.
const CHECK: Duration = Duration::from_secs(5);
/// Largest discovery document that is read, in bytes.
const MAX_DOCUMENT: usize = 8 << 20;

/// One group-version that a server of the tenant serves.
pub(crate) struct ApiService {
    /// Name of the object: `VERSION.GROUP`.
    pub(crate) name: String,
    pub(crate) group: String,
    pub(crate) version: String,
    /// `groupPriorityMinimum` and `versionPriority`.
    priority: (i64, i64),
    pub(crate) place: Place,
    trust: Result<Trust, String>,
    /// Its condition Available.
    pub(crate) available: bool,
}

/// The aggregated APIs of a cluster, the most important first.
#[derive(Default)]
pub(crate) struct ApiServices(Vec<Arc<ApiService>>);

impl ApiService {
    /// From the object; none for one without a Service: that is served here.
    pub(crate) fn new(object: &Value) -> Option<Self> {
        let spec = &object["spec"];
        let service = Some(&spec["service"]).filter(|s| s.is_object())?;
        let text = |v: &Value| v.as_str().unwrap_or_default().to_owned();
        let trust = if spec["insecureSkipTLSVerify"] == true {
            Ok(Trust::anyone())
        } else {
            Trust::bundle(spec["caBundle"].as_str().unwrap_or_default())
        };
        let conditions = object["status"]["conditions"].as_array();
        Some(Self {
            name: text(&object["metadata"]["name"]),
            group: text(&spec["group"]),
            version: text(&spec["version"]),
            priority: (
                spec["groupPriorityMinimum"].as_i64().unwrap_or(0),
                spec["versionPriority"].as_i64().unwrap_or(0),
            ),
            place: Place::Service {
                namespace: text(&service["namespace"]),
                name: text(&service["name"]),
                port: service["port"].as_u64().and_then(|p| p.try_into().ok()).unwrap_or(443),
            },
            trust: trust.map_err(|e| e.to_string()),
            available: conditions.into_iter().flatten().any(|c| c["type"] == "Available" && c["status"] == "True"),
        })
    }

    fn path(&self) -> String {
        format!("/apis/{}/{}", self.group, self.version)
    }

    async fn connect(&self, plane: &Arc<Plane>) -> Result<Connection, OutboundError> {
        let trust = self.trust.as_ref().map_err(|e| OutboundError::Trust(e.clone()))?;
        let identity = plane.front_proxy().await?;
        Connection::open(plane, &self.place, trust, Some(&identity)).await
    }

    /// Sends a request as a user.
    async fn send(
        &self,
        plane: &Arc<Plane>,
        user: &User,
        mut request: Request<Body>,
    ) -> Result<Response<Incoming>, OutboundError> {
        identify(request.headers_mut(), user);
        if let Ok(host) = HeaderValue::from_str(&self.place.host()) {
            request.headers_mut().insert(header::HOST, host);
        }
        self.connect(plane).await?.send(request).await
    }

    /// Reads a JSON document as the cluster itself.
    async fn read(&self, plane: &Arc<Plane>, path: &str) -> Result<Value, OutboundError> {
        let read = async {
            let request = Request::get(path)
                .header(header::ACCEPT, "application/json")
                .header(header::USER_AGENT, "kube-aggregator")
                .body(Body::empty())
                .map_err(|e| OutboundError::Http(e.to_string()))?;
            let aggregator = User::new("system:kube-aggregator", [MASTERS.to_owned()]);
            let answer = self.send(plane, &aggregator, request).await?;
            let status = answer.status();
            if !status.is_success() {
                let url = format!("https://{}{path}", self.place.host());
                return Err(OutboundError::Status(format!("bad status from {url}: {}", status.as_u16())));
            }
            let body = Limited::new(answer.into_body(), MAX_DOCUMENT).collect().await;
            let body = body.map_err(|e| OutboundError::Http(e.to_string()))?.to_bytes();
            serde_json::from_slice(&body).map_err(|e| OutboundError::Json(e.to_string()))
        };
        tokio::time::timeout(CHECK, read).await.unwrap_or(Err(OutboundError::Timeout))
    }

    /// Whether the server answers to what it must answer to; else why not, as the condition says.
    pub(crate) async fn check(&self, plane: &Arc<Plane>) -> Result<(), String> {
        let path = self.path();
        self.read(plane, &path)
            .await
            .map(|_| ())
            .map_err(|e| format!("failing or missing response from https://{}{path}: {e}", self.place.host()))
    }
}

impl ApiServices {
    /// From the objects.
    pub(crate) fn new(objects: &[Value]) -> Self {
        let mut all: Vec<Arc<ApiService>> = objects.iter().filter_map(ApiService::new).map(Arc::new).collect();
        all.sort_by(|a, b| b.priority.cmp(&a.priority).then_with(|| a.name.cmp(&b.name)));
        Self(all)
    }

    /// Those that serve what the cluster does not serve itself.
    pub(crate) fn beside<'a>(&'a self, catalog: &'a Catalog) -> impl Iterator<Item = &'a Arc<ApiService>> {
        let own = |s: &ApiService| catalog.rows().iter().any(|r| r.group == s.group && r.version == s.version);
        self.0.iter().filter(move |s| !own(s))
    }
}

/// Says who the user is, and takes out whatever the client said of that.
fn identify(headers: &mut HeaderMap, user: &User) {
    let spoofed: Vec<HeaderName> = headers
        .keys()
        .filter(|name| {
            let name = name.as_str();
            name.starts_with("x-remote-") || name.starts_with("impersonate-") || name == "authorization"
        })
        .cloned()
        .collect();
    for name in spoofed {
        headers.remove(name);
    }
    let mut add = |name: &str, value: &str| {
        if let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::from_str(value)) {
            headers.append(name, value);
        }
    };
    add("x-remote-user", &user.name);
    if !user.uid.is_empty() {
        add("x-remote-uid", &user.uid);
    }
    for group in &user.groups {
        add("x-remote-group", group);
    }
    for (key, values) in &user.extra {
        let name = format!("x-remote-extra-{}", escaped(&key.to_ascii_lowercase()));
        for value in values {
            add(&name, value);
        }
    }
}

/// Header names cannot hold everything that keys of extras can.
fn escaped(key: &str) -> String {
    let token = |b: u8| b.is_ascii_alphanumeric() || b"!#$&'*+-.^_`|~".contains(&b);
    key.bytes().map(|b| if token(b) { char::from(b).to_string() } else { format!("%{b:02X}") }).collect()
}

/// The server of a path, if that is one of an aggregated API.
pub(crate) async fn serving(plane: &Arc<Plane>, path: &str) -> Result<Option<Arc<ApiService>>, ApiError> {
    let mut parts = path.trim_start_matches('/').split('/');
    let first = parts.next();
    let mut of = || Some((parts.next()?, parts.next()?));
    let found = match first {
        Some("apis") => of(),
        Some("openapi") => match (of(), parts.next()) {
            (Some(("v3", "apis")), Some(group)) => parts.next().map(|version| (group, version)),
            _ => None,
        },
        _ => None,
    };
    let Some((group, version)) = found else { return Ok(None) };
    let services = plane.api_services().await?;
    if services.0.is_empty() {
        return Ok(None);
    }
    let catalog = plane.catalog().await?;
    let found = services.beside(&catalog).find(|s| s.group == group && s.version == version).cloned();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_says_themselves_who_they_are() {
        let mut headers = HeaderMap::new();
        for name in ["x-remote-user", "x-remote-group", "x-remote-extra-scopes", "authorization", "impersonate-user"] {
            headers.insert(name, HeaderValue::from_static("root"));
        }
        headers.insert("accept", HeaderValue::from_static("a/b"));
        let mut user = User::new("jane", ["g".to_owned(), "h".to_owned()]);
        user.extra.insert("example.com/a b".into(), vec!["x".into()]);
        identify(&mut headers, &user);
        assert_eq!(headers["x-remote-user"], "jane");
        let groups: Vec<_> = headers.get_all("x-remote-group").iter().collect();
        assert_eq!(groups, ["g", "h"]);
        assert_eq!(headers["x-remote-extra-example.com%2fa%20b"], "x");
        assert_eq!(headers["accept"], "a/b");
        assert!(!headers.contains_key("x-remote-extra-scopes") && !headers.contains_key("authorization"));
    }
}
