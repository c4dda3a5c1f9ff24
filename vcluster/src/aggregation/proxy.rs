//! Passing requests on.

use std::sync::Arc;

use axum::body::Body;
use http::{HeaderMap, HeaderName, Request, Response, StatusCode, header};
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;

use super::ApiService;
use crate::{plane::Plane, server::respond, user::User};

/// Headers about one connection, which are not passed on.
const HOP: [HeaderName; 8] = [
    header::CONNECTION,
    header::PROXY_AUTHENTICATE,
    header::PROXY_AUTHORIZATION,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
    HeaderName::from_static("keep-alive"),
];

fn strip(headers: &mut HeaderMap) {
    for name in HOP {
        headers.remove(name);
    }
}

/// Answers with what the API's server answers.
pub(crate) async fn serve(
    plane: &Arc<Plane>,
    service: &ApiService,
    user: &User,
    mut request: Request<Body>,
) -> Response<Body> {
    let unavailable = |why: &str| respond::text(StatusCode::SERVICE_UNAVAILABLE, &format!("{why}\n"));
    if !service.available {
        return unavailable("service unavailable");
    }
    let client = request.extensions_mut().remove::<OnUpgrade>();
    let (mut parts, body) = request.into_parts();
    let upgrade = parts.headers.get(header::UPGRADE).cloned();
    strip(&mut parts.headers);
    if let Some(upgrade) = &upgrade {
        parts.headers.insert(header::CONNECTION, http::HeaderValue::from_static("Upgrade"));
        parts.headers.insert(header::UPGRADE, upgrade.clone());
    }
    let Some(target) = parts.uri.path_and_query().map(ToString::to_string) else {
        return unavailable("service unavailable");
    };
    let Ok(target) = target.parse() else { return unavailable("service unavailable") };
    let mut passed = Request::new(body);
    *passed.method_mut() = parts.method;
    *passed.uri_mut() = target;
    *passed.headers_mut() = parts.headers;
    let mut answer = match service.send(plane, user, passed).await {
        Ok(answer) => answer,
        Err(error) => return unavailable(&format!("error trying to reach service: {error}")),
    };
    if answer.status() == StatusCode::SWITCHING_PROTOCOLS {
        let server = hyper::upgrade::on(&mut answer);
        if let Some(client) = client {
            plane.shared.tasks.spawn_until_stopped("aggregated API session", async move {
                let (Ok(client), Ok(server)) = (client.await, server.await) else { return };
                let (mut client, mut server) = (TokioIo::new(client), TokioIo::new(server));
                if let Err(error) = tokio::io::copy_bidirectional(&mut client, &mut server).await {
                    tracing::debug!(%error, "a session with an aggregated API ended");
                }
            });
        }
        return answer.map(|_| Body::empty());
    }
    let (mut parts, body) = answer.into_parts();
    strip(&mut parts.headers);
    let mut response = Response::new(Body::new(body));
    *response.status_mut() = parts.status;
    *response.headers_mut() = parts.headers;
    response
}
