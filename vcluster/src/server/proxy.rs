//! The subresource `proxy`: HTTP to a port of a pod, through the worker's connection (`apimachinery/util/proxy` and
//! `registry/core/{pod,service,node}` upstream).
//!
//! What follows `/proxy` in the path is the path at the pod. Redirects are not followed; those to the server itself are made to lead
//! through here again.

use axum::body::Body;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode, Uri, header, uri::PathAndQuery};
use hyper::upgrade::OnUpgrade;
use serde_json::{Value, json};
use vctl_machinery::status::ApiError;

use super::{Context, pods};
use crate::{
    admission,
    aggregation::proxy::{pass_back, strip_for_passing},
    objects::Target,
    outbound::{Connection, OutboundError, PortOf, Trust, endpoint},
    streams::ContainerTarget,
};

/// A name as it stands in the path: `NAME`, `NAME:PORT` or `SCHEME:NAME:PORT`.
#[derive(Debug, PartialEq, Eq)]
struct Location<'a> {
    scheme: &'a str,
    name: &'a str,
    port: &'a str,
}

impl<'a> Location<'a> {
    fn parse(text: &'a str) -> Option<Self> {
        let parts: Vec<&str> = text.split(':').collect();
        let (scheme, name, port) = match parts[..] {
            [name] => ("", name, ""),
            [name, port] => ("", name, port),
            [scheme, name, port] => (scheme, name, port),
            _ => return None,
        };
        (!name.is_empty() && matches!(scheme, "" | "http" | "https")).then_some(Self { scheme, name, port })
    }
}

/// The path before what is the pod's, and the pod's.
fn split(path: &str, namespaced: bool) -> (&str, &str) {
    // Empty, api, v1, (namespaces, NAMESPACE,) RESOURCE, NAME, proxy
    let slashes = if namespaced { 8 } else { 6 };
    match path.match_indices('/').nth(slashes - 1) {
        Some((at, _)) => path.split_at(at),
        None => (path, ""),
    }
}

fn unavailable(message: String) -> ApiError {
    ApiError { code: 503, reason: "ServiceUnavailable", message, details: Value::Null }
}

fn unreachable(error: &OutboundError) -> ApiError {
    unavailable(format!("error trying to reach service: {error}"))
}

/// Answers with what the pod answers.
pub(crate) async fn serve(
    context: &Context,
    target: &Target,
    mut request: Request<Body>,
) -> Result<Response<Body>, ApiError> {
    let kind = match &*target.descriptor.plural {
        "services" => "ServiceProxyOptions",
        "nodes" => "NodeProxyOptions",
        _ => "PodProxyOptions",
    };
    let (before, path) = split(request.uri().path(), target.descriptor.namespaced);
    let (before, path) = (format!("{}{before}", context.prefix), path.to_owned());
    let options = json!({ "kind": kind, "apiVersion": "v1", "path": path });
    admission::admit_action(&context.call()?, target, admission::Operation::Connect, options).await?;
    if path.is_empty() && matches!(*request.method(), Method::GET | Method::HEAD) {
        return Ok(moved(&before, request.uri().query()));
    }
    let (scheme, place, port) = match kind {
        "ServiceProxyOptions" => service(context, target).await?,
        "NodeProxyOptions" => return Err(node(context, target).await?),
        _ => pod(context, target).await?,
    };
    let client = request.extensions_mut().remove::<OnUpgrade>();
    let (parts, body) = request.into_parts();
    let mut headers = parts.headers;
    strip_for_passing(&mut headers);
    forwarded(&mut headers, &before, &path);
    let path = if path.is_empty() { "/" } else { &path };
    let uri = match parts.uri.query() {
        Some(query) => format!("{path}?{query}"),
        None => path.to_owned(),
    };
    let mut passed = Request::new(body);
    *passed.method_mut() = parts.method;
    *passed.uri_mut() = uri.parse().map_err(|e| ApiError::bad_request(format!("{uri:?} is not a path: {e}")))?;
    let host = headers.get(header::HOST).cloned();
    *passed.headers_mut() = headers;
    let plane = &context.plane;
    // As upstream, nobody's certificate is checked: who may use this may also forward ports.
    let trust = Trust::anyone();
    let tls = (scheme == "https").then_some((&trust, "localhost"));
    let sent = async { Connection::to_pod(plane, place, port, tls).await?.send(passed).await }.await;
    let mut answer = sent.map_err(|e| unreachable(&e))?;
    redirect(answer.headers_mut(), host.as_ref(), &before);
    Ok(pass_back(plane, client, answer))
}

/// The root of a server has a path of its own, so that its relative links work.
fn moved(before: &str, query: Option<&str>) -> Response<Body> {
    let query = query.map(|q| format!("?{q}")).unwrap_or_default();
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::MOVED_PERMANENTLY;
    if let Ok(location) = HeaderValue::from_str(&format!("{before}/{query}")) {
        response.headers_mut().insert(header::LOCATION, location);
    }
    response
}

/// Takes out who asks, and says by which way.
fn forwarded(headers: &mut HeaderMap, before: &str, path: &str) {
    let secret: Vec<HeaderName> = headers
        .keys()
        .filter(|n| **n == header::AUTHORIZATION || n.as_str().starts_with("impersonate-"))
        .cloned()
        .collect();
    for name in secret {
        headers.remove(name);
    }
    let uri = HeaderValue::from_str(&format!("{before}{path}"));
    if let Ok(uri) = uri {
        headers.insert("x-forwarded-uri", uri);
    }
    if let Some(host) = headers.get(header::HOST).cloned() {
        headers.insert("x-forwarded-host", host);
    }
    headers.insert("x-forwarded-proto", HeaderValue::from_static("https"));
}

/// Leads a redirect to the server itself through here; those to others stay as they are.
fn redirect(headers: &mut HeaderMap, host: Option<&HeaderValue>, before: &str) {
    let Some(uri) = headers.get(header::LOCATION).and_then(|l| l.to_str().ok()?.parse::<Uri>().ok()) else { return };
    let own = uri.host().is_none() || uri.authority().map(|a| a.as_str()) == host.and_then(|h| h.to_str().ok());
    let path = uri.path_and_query().map_or("/", PathAndQuery::as_str);
    if !own || path.starts_with(before) || !path.starts_with('/') {
        return;
    }
    if let Ok(location) = HeaderValue::from_str(&format!("{before}{path}")) {
        headers.insert(header::LOCATION, location);
    }
}

type Found<'a> = (&'a str, ContainerTarget, u16);

async fn pod<'a>(context: &Context, target: &'a Target) -> Result<Found<'a>, ApiError> {
    let Some(location) = Location::parse(&target.name) else {
        return Err(ApiError::bad_request(format!("invalid pod request {:?}", target.name)));
    };
    let object = Target::new(target.descriptor.clone(), &target.namespace, location.name);
    let pod = context.call()?.get(&object).await?;
    if pod["status"]["podIP"].as_str().unwrap_or_default().is_empty() {
        return Err(ApiError::bad_request("address not allowed"));
    }
    let declared = || {
        let mut containers = pod["spec"]["containers"].as_array().into_iter().flatten();
        containers.find_map(|c| c["ports"][0]["containerPort"].as_u64()?.try_into().ok())
    };
    let port: u16 = match location.port {
        "" => declared().unwrap_or(if location.scheme == "https" { 443 } else { 80 }),
        text => text.parse().map_err(|_| {
            unavailable(format!("error trying to reach service: dial tcp: lookup tcp/{text}: unknown port"))
        })?,
    };
    Ok((location.scheme, pods::place(context, &pod, "")?, port))
}

async fn service<'a>(context: &Context, target: &'a Target) -> Result<Found<'a>, ApiError> {
    let Some(location) = Location::parse(&target.name) else {
        return Err(ApiError::bad_request(format!("invalid service request {:?}", target.name)));
    };
    let port = match (location.port, location.port.parse()) {
        ("", _) => PortOf::Only,
        (_, Ok(number)) => PortOf::Number(number),
        (name, Err(_)) => PortOf::Name(name.to_owned()),
    };
    match endpoint(&context.plane, &target.namespace, location.name, &port).await {
        Ok((place, port)) => Ok((location.scheme, place, port)),
        Err(OutboundError::NoService(name)) => Err(ApiError::not_found("", "services", &name)),
        Err(OutboundError::ServiceType(_) | OutboundError::NoEndpoints(_)) => {
            Err(unavailable(format!("no endpoints available for service {:?}", target.name)))
        }
        Err(OutboundError::Store(e)) => Err(e),
        Err(e) => Err(unavailable(e.to_string())),
    }
}

/// Workers have no kubelet that could be asked.
async fn node(context: &Context, target: &Target) -> Result<ApiError, ApiError> {
    let Some(location) = Location::parse(&target.name) else {
        return Ok(ApiError::bad_request(format!("invalid node request {:?}", target.name)));
    };
    let object = Target::new(target.descriptor.clone(), "", location.name);
    context.call()?.get(&object).await?;
    Ok(unavailable(format!(
        "error trying to reach service: node {:?} is a worker without a kubelet; its pods are reached by their own proxy and logs",
        location.name
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_carry_scheme_and_port() {
        let of = |text| Location::parse(text).map(|l| (l.scheme, l.name, l.port));
        assert_eq!(of("web"), Some(("", "web", "")));
        assert_eq!(of("web:80"), Some(("", "web", "80")));
        assert_eq!(of("https:web:tls"), Some(("https", "web", "tls")));
        assert_eq!(of("http:web:"), Some(("http", "web", "")));
        for wrong in ["", ":80", "ftp:web:80", "a:b:c:d"] {
            assert_eq!(of(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn the_path_is_what_follows() {
        let pods = "/api/v1/namespaces/n/pods/p/proxy";
        assert_eq!(split(pods, true), (pods, ""));
        assert_eq!(split(&format!("{pods}/"), true), (pods, "/"));
        assert_eq!(split(&format!("{pods}/a%2Fb/proxy/c"), true), (pods, "/a%2Fb/proxy/c"));
        assert_eq!(split("/api/v1/nodes/n/proxy/logs/", false), ("/api/v1/nodes/n/proxy", "/logs/"));
    }

    #[test]
    fn redirects_to_the_server_itself_come_back_here_and_others_stay() {
        let location = |to: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::LOCATION, HeaderValue::from_static(to));
            redirect(&mut headers, Some(&HeaderValue::from_static("api:6443")), "/p/proxy");
            headers[header::LOCATION].to_str().unwrap().to_owned()
        };
        assert_eq!(location("/login?x=1"), "/p/proxy/login?x=1");
        assert_eq!(location("https://api:6443/login"), "/p/proxy/login");
        assert_eq!(location("/p/proxy/login"), "/p/proxy/login");
        assert_eq!(location("http://elsewhere.example/login"), "http://elsewhere.example/login");
    }

    #[test]
    fn the_pod_does_not_learn_who_asks() {
        let mut headers = HeaderMap::new();
        for name in ["authorization", "impersonate-user", "accept", "host"] {
            headers.insert(name, HeaderValue::from_static("x"));
        }
        forwarded(&mut headers, "/c/proxy", "/a");
        assert!(!headers.contains_key("authorization") && !headers.contains_key("impersonate-user"));
        assert_eq!(
            (&headers["accept"], &headers["x-forwarded-uri"]),
            (&HeaderValue::from_static("x"), &HeaderValue::from_static("/c/proxy/a"))
        );
    }
}
