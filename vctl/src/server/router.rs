//! One TLS port for everything: clusters, agents, REST and portal.

use axum::{
    Router,
    body::Body,
    extract::Request,
    response::{IntoResponse as _, Response},
};
use http::StatusCode;
use vctl_machinery::{catalog::Catalog, status::ApiError};
use vctl_runtime::serve::{Peer, PeerCertificates};
use vctl_vcluster::control_planes::{ControlPlanes, Peer as ClusterPeer, Prefix};

/// Requests under `/clusters/NAME` go to that cluster, those from a pod's tunnel to the cluster of its environment, those with the credentials of
/// a cluster to it, all others to `rest`: the agents' service and the portal.
pub(crate) fn router(planes: ControlPlanes, rest: Router) -> Router {
    Router::new().fallback(move |request: Request| {
        let (planes, rest) = (planes.clone(), rest.clone());
        async move { dispatch(planes, rest, request).await }
    })
}

async fn dispatch(planes: ControlPlanes, rest: Router, mut request: Request) -> Response {
    let peer = request.extensions().get::<Peer>().cloned();
    if let Some(Peer::Tunnel { environment, .. }) = &peer {
        let environment = environment.clone();
        return cluster(&planes, &environment, request, peer).await;
    }
    if let Some((name, stripped)) = strip(request.uri()) {
        match stripped {
            Some(uri) => {
                *request.uri_mut() = uri;
                request.extensions_mut().insert(Prefix(format!("/clusters/{name}")));
            }
            None => return StatusCode::BAD_REQUEST.into_response(),
        }
        return cluster(&planes, &name, request, peer).await;
    }
    if let Some(name) = planes.of_credentials(request.headers(), &cluster_peer(&request, peer.as_ref())) {
        return cluster(&planes, name.as_str(), request, peer).await;
    }
    if is_kubernetes(request.uri().path()) {
        return no_cluster(request.uri().path());
    }
    match tower::ServiceExt::oneshot(rest, request).await {
        Ok(response) => response,
        Err(never) => match never {},
    }
}

/// Whether a path can only mean the Kubernetes API of a cluster: nothing else of this port is there.
fn is_kubernetes(path: &str) -> bool {
    let mut parts = path.split('/').skip(1);
    match (parts.next(), parts.next(), parts.next()) {
        (Some("apis" | "openapi" | "livez" | "readyz" | "healthz" | "version"), ..) => true,
        (Some("api"), None | Some(""), None) => true,
        // `events` is also an address of the portal.
        (Some("api"), Some("v1"), Some(plural)) if plural != "events" => {
            Catalog::builtin().resource("", "v1", plural).is_some()
        }
        _ => false,
    }
}

/// A Status, so that Kubernetes' clients show what it says.
fn no_cluster(path: &str) -> Response {
    let status = ApiError {
        code: StatusCode::NOT_FOUND.as_u16(),
        reason: "NotFound",
        message: format!(
            "there is no Kubernetes API at {path}: that of an environment begins with /clusters/NAME, here \
             /clusters/NAME{path}; `vctl kubeconfig NAME` has its address"
        ),
        details: serde_json::Value::Null,
    };
    (StatusCode::NOT_FOUND, axum::Json(status.status())).into_response()
}

async fn cluster(planes: &ControlPlanes, name: &str, request: Request<Body>, peer: Option<Peer>) -> Response {
    let peer = cluster_peer(&request, peer.as_ref());
    planes.handle(name, request, peer).await
}

fn cluster_peer(request: &Request<Body>, peer: Option<&Peer>) -> ClusterPeer {
    let certificates = request.extensions().get::<PeerCertificates>().cloned().unwrap_or_default().0;
    let pod = matches!(peer, Some(Peer::Tunnel { .. }));
    ClusterPeer { certificates, address: peer.map(ToString::to_string).unwrap_or_default(), pod }
}

/// `/clusters/NAME/REST?QUERY` as NAME and `/REST?QUERY`; none for other paths.
fn strip(uri: &http::Uri) -> Option<(String, Option<http::Uri>)> {
    let rest = uri.path().strip_prefix("/clusters/")?;
    let (name, path) = match rest.split_once('/') {
        Some((name, path)) => (name, format!("/{path}")),
        None => (rest, "/".to_owned()),
    };
    let stripped = match uri.query() {
        Some(query) => format!("{path}?{query}"),
        None => path,
    };
    Some((name.to_owned(), stripped.parse().ok()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_prefix_of_a_cluster_is_stripped() {
        let cases = [
            ("/clusters/dev/api/v1/pods?watch=1", Some(("dev", "/api/v1/pods?watch=1"))),
            ("/clusters/dev", Some(("dev", "/"))),
            ("/clusters/dev/", Some(("dev", "/"))),
            ("/clusters/dev/api/v1/namespaces/a%2Fb", Some(("dev", "/api/v1/namespaces/a%2Fb"))),
            ("/api/v1/environments", None),
            ("/clustersx/dev", None),
        ];
        for (path, wanted) in cases {
            let uri: http::Uri = path.parse().expect("a path");
            let found = strip(&uri).map(|(name, uri)| (name, uri.map(|u| u.to_string()).unwrap_or_default()));
            assert_eq!(found, wanted.map(|(n, u)| (n.to_owned(), u.to_owned())), "{path}");
        }
    }

    #[test]
    fn paths_of_kubernetes_without_a_cluster_are_told_from_those_of_the_portal() {
        for path in
            ["/livez", "/version", "/apis/apps/v1/deployments", "/api", "/api/v1/namespaces/a/pods", "/openapi/v3"]
        {
            assert!(is_kubernetes(path), "{path}");
        }
        for path in
            ["/", "/api/v1/environments", "/api/v1/events", "/api/v1", "/login", "/assets/app.css", "/v1.Agent/x"]
        {
            assert!(!is_kubernetes(path), "{path}");
        }
        assert_eq!(no_cluster("/livez").status(), 404);
    }
}
