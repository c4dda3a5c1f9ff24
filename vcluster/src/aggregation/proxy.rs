//! Passing requests on.

use std::sync::Arc;

use axum::body::Body;
use http::{HeaderMap, HeaderName, Request, Response, StatusCode, header};
use hyper::{body::Incoming, upgrade::OnUpgrade};
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

/// Takes them out.
pub(crate) fn strip(headers: &mut HeaderMap) {
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
    strip_for_passing(&mut parts.headers);
    let Some(target) = parts.uri.path_and_query().map(ToString::to_string) else {
        return unavailable("service unavailable");
    };
    let Ok(target) = target.parse() else { return unavailable("service unavailable") };
    let mut passed = Request::new(body);
    *passed.method_mut() = parts.method;
    *passed.uri_mut() = target;
    *passed.headers_mut() = parts.headers;
    match service.send(plane, user, passed).await {
        Ok(answer) => pass_back(plane, client, answer),
        Err(error) => unavailable(&format!("error trying to reach service: {error}")),
    }
}

/// Makes a request's headers those of the next connection. A change of protocol stays asked for.
pub(crate) fn strip_for_passing(headers: &mut HeaderMap) {
    let upgrade = headers.get(header::UPGRADE).cloned();
    strip(headers);
    if let Some(upgrade) = upgrade {
        headers.insert(header::CONNECTION, http::HeaderValue::from_static("Upgrade"));
        headers.insert(header::UPGRADE, upgrade);
    }
}

/// Gives the client the answer; when it changes the protocol, whatever both sides say from then on.
pub(crate) fn pass_back(
    plane: &Arc<Plane>,
    client: Option<OnUpgrade>,
    mut answer: Response<Incoming>,
) -> Response<Body> {
    if answer.status() == StatusCode::SWITCHING_PROTOCOLS {
        let server = hyper::upgrade::on(&mut answer);
        if let Some(client) = client {
            plane.shared.tasks.spawn_until_stopped("passed-on session", async move {
                let (Ok(client), Ok(server)) = (client.await, server.await) else { return };
                let (mut client, mut server) = (TokioIo::new(client), TokioIo::new(server));
                if let Err(error) = tokio::io::copy_bidirectional(&mut client, &mut server).await {
                    tracing::debug!(%error, "a session that was passed on ended");
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
