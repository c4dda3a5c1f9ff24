//! The Kubernetes API of an environment for who is signed in to the portal, so that a browser needs no credentials of the cluster.
//!
//! Requests under `/api/v1/environments/NAME/kube` go to the virtual cluster inside of this process, as the user. What comes back may have
//! been written by a tenant (aggregated APIs, logs), under the portal's own origin: a browser is kept from ever taking it for a page, a
//! script or a header of the portal.

use axum::{
    extract::{Path, Request, State},
    response::{IntoResponse, Response},
};
use http::{HeaderMap, HeaderName, HeaderValue, header};

use super::{guard, requester::Requester};
use crate::{Portal, auth::Credential, environments::KubernetesRequest, error::Error};

/// Headers of a request that the cluster does not get: they are the portal's own, or say who asks.
const DROPPED: [&str; 4] = ["authorization", "cookie", "x-csrf-token", "proxy-authorization"];

/// Headers of an answer that a browser gets; everything else could be meant for the portal's origin.
const PASSED: [HeaderName; 13] = [
    header::CONTENT_TYPE,
    header::CONTENT_LENGTH,
    header::CONTENT_ENCODING,
    header::CACHE_CONTROL,
    header::ETAG,
    header::VARY,
    header::WARNING,
    header::RETRY_AFTER,
    header::CONNECTION,
    header::UPGRADE,
    header::SEC_WEBSOCKET_ACCEPT,
    header::SEC_WEBSOCKET_PROTOCOL,
    HeaderName::from_static("audit-id"),
];

/// Marks an answer whose content is not the portal's own.
#[derive(Debug, Clone, Copy)]
pub(super) struct Foreign;

pub(super) async fn serve(
    State(portal): State<Portal>,
    requester: Requester,
    Path((name, path)): Path<(String, String)>,
    request: Request,
) -> Result<Response, Error> {
    if matches!(requester.identity.credential, Credential::ApiKey { .. }) {
        return Err(Error::Forbidden(
            "an API key is not for this address: get a kubeconfig with it and use that".to_owned(),
        ));
    }
    not_a_page(request.headers())?;
    if proxies(&path) {
        return Err(Error::Forbidden(
            "what pods, services and nodes serve is not shown through the portal: use `kubectl port-forward` or `kubectl proxy`".to_owned(),
        ));
    }
    let upgrade = request.headers().contains_key(header::UPGRADE);
    if upgrade && requester.identity.session.is_some() {
        // A websocket carries no token; its Origin tells who opened it.
        if !request.headers().contains_key(header::ORIGIN) {
            return Err(Error::Forbidden("a websocket of a browser must say its Origin".to_owned()));
        }
        guard::same_origin(request.headers())?;
    }
    let prefix = format!("/api/v1/environments/{name}/kube");
    let rest = request.uri().path_and_query().map_or("/", http::uri::PathAndQuery::as_str);
    let rest = rest.strip_prefix(&prefix).unwrap_or("/").to_owned();
    let mut request = request;
    *request.uri_mut() = rest.parse().map_err(|_| Error::BadRequest("the address cannot be read".to_owned()))?;
    let headers = request.headers_mut();
    for name in DROPPED {
        headers.remove(name);
    }
    let says_who: Vec<HeaderName> = headers
        .keys()
        .filter(|n| n.as_str().starts_with("impersonate-") || n.as_str().starts_with("x-remote-"))
        .cloned()
        .collect();
    for name in says_who {
        headers.remove(name);
    }
    // One id from here to the entry in the audit trail.
    if let Ok(id) = HeaderValue::from_str(requester.caller().request_id) {
        request.headers_mut().insert("audit-id", id);
    }
    let asked = KubernetesRequest { prefix, request };
    let mut response =
        portal.inner().environments.kubernetes(&portal.inner().auth, &requester.identity, &name, asked).await?;
    let kept: HeaderMap = PASSED
        .iter()
        .flat_map(|name| response.headers().get_all(name).iter().map(move |value| (name.clone(), value.clone())))
        .collect();
    *response.headers_mut() = kept;
    response.extensions_mut().insert(Foreign);
    Ok(response.into_response())
}

/// Scripts of the console ask for data. A browser that wants a page, a script, a frame or an image of an address is told no.
fn not_a_page(headers: &HeaderMap) -> Result<(), Error> {
    let wanted = headers.get("sec-fetch-dest").and_then(|v| v.to_str().ok()).unwrap_or("empty");
    if matches!(wanted, "empty" | "websocket") {
        return Ok(());
    }
    Err(Error::Forbidden("the Kubernetes API of an environment is no page: open it in the console".to_owned()))
}

/// Whether a path leads through the proxy of a pod, service or node.
fn proxies(path: &str) -> bool {
    let mut parts = path.split('/').map(|part| part.to_ascii_lowercase());
    // Some way on, so that objects may be called so: `api/v1/nodes/NAME/proxy` is the shortest.
    parts.any(|part| matches!(&*part, "pods" | "services" | "nodes")) && parts.skip(1).any(|part| part == "proxy")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_leads_to_a_proxy_is_known() {
        for path in [
            "api/v1/namespaces/a/pods/web/proxy",
            "api/v1/namespaces/a/pods/web/proxy/index.html",
            "api/v1/namespaces/a/services/https:web:1/proxy/",
            "api/v1/nodes/n/proxy/metrics",
        ] {
            assert!(proxies(path), "{path}");
        }
        for path in [
            "api/v1/namespaces/a/pods/proxy",
            "api/v1/namespaces/proxy/pods",
            "apis/apps/v1/deployments",
            "api/v1/pods",
        ] {
            assert!(!proxies(path), "{path}");
        }
    }

    #[test]
    fn a_browser_gets_data_only() {
        let wants = |dest: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert("sec-fetch-dest", HeaderValue::from_static(dest));
            not_a_page(&headers).is_ok()
        };
        assert!(wants("empty") && wants("websocket"));
        assert!(!wants("document") && !wants("script") && !wants("iframe") && !wants("image") && !wants("style"));
    }
}
