//! One TLS port for everything: clusters, agents, REST and portal.

use axum::{
    Router,
    body::Body,
    extract::Request,
    response::{IntoResponse as _, Response},
};
use http::StatusCode;
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
    match tower::ServiceExt::oneshot(rest, request).await {
        Ok(response) => response,
        Err(never) => match never {},
    }
}

async fn cluster(planes: &ControlPlanes, name: &str, request: Request<Body>, peer: Option<Peer>) -> Response {
    let peer = cluster_peer(&request, peer.as_ref());
    planes.handle(name, request, peer).await
}

fn cluster_peer(request: &Request<Body>, peer: Option<&Peer>) -> ClusterPeer {
    let certificates = request.extensions().get::<PeerCertificates>().cloned().unwrap_or_default().0;
    ClusterPeer { certificates, address: peer.map(ToString::to_string).unwrap_or_default() }
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
}
