//! `GET /metrics`, as Prometheus asks for it: by HTTP, without sign-in.

use std::{convert::Infallible, net::SocketAddr, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::Semaphore,
};
use vctl_runtime::metrics::MEDIA_TYPE;

use crate::{context::Context, error::AgentError, reconcile::Reconciler};

/// Connections at a time; further ones wait.
const CONNECTIONS: usize = 16;
/// How long a connection may take, from its beginning to the end of the answer.
const LIMIT: Duration = Duration::from_secs(10);

/// An address that is taken, on which nobody is answered yet.
pub(crate) struct Listener(TcpListener);

impl Listener {
    /// Takes the address.
    ///
    /// # Errors
    /// [`AgentError::Measurements`]: somebody else has it, or it is not this machine's.
    pub(crate) async fn bind(address: SocketAddr) -> Result<Self, AgentError> {
        let failed = |e: std::io::Error| AgentError::Measurements { address: address.to_string(), why: e.to_string() };
        let listener = TcpListener::bind(address).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        tracing::info!("measurements: http://{address}/metrics");
        if !address.ip().is_loopback() {
            tracing::warn!("whoever reaches {address} can read the measurements: they are served without sign-in");
        }
        Ok(Self(listener))
    }

    /// Answers until the tasks are stopped.
    pub(crate) fn serve(self, ctx: &Arc<Context>, reconciler: &Arc<Reconciler>) {
        let (own, reconciler) = (ctx.clone(), reconciler.clone());
        let places = Arc::new(Semaphore::new(CONNECTIONS));
        ctx.tasks.spawn_until_stopped("measurements", async move {
            while let Ok(place) = places.clone().acquire_owned().await {
                match self.0.accept().await {
                    Ok((connection, _)) => {
                        let (ctx, reconciler) = (own.clone(), reconciler.clone());
                        own.tasks.spawn_until_stopped("connection for measurements", async move {
                            let answered = answer_all(connection, |request| answer(&ctx, &reconciler, &request));
                            // Who is too slow gets no more.
                            let _ = tokio::time::timeout(LIMIT, answered).await;
                            drop(place);
                        });
                    }
                    Err(e) => {
                        tracing::warn!(error = %e, "accepting a connection for measurements");
                        tokio::time::sleep(Duration::from_millis(200)).await;
                    }
                }
            }
        });
    }
}

/// One request for each connection.
async fn answer_all(
    connection: TcpStream,
    answer: impl Fn(Request<Incoming>) -> Response<Full<Bytes>>,
) -> Result<(), hyper::Error> {
    let service = service_fn(|request| std::future::ready(Ok::<_, Infallible>(answer(request))));
    http1::Builder::new()
        .timer(TokioTimer::new())
        .keep_alive(false)
        .serve_connection(TokioIo::new(connection), service)
        .await
}

fn answer<B>(ctx: &Context, reconciler: &Reconciler, request: &Request<B>) -> Response<Full<Bytes>> {
    match route(request.method(), request.uri().path()) {
        Ok(()) => plain(StatusCode::OK, MEDIA_TYPE, super::text(ctx, reconciler)),
        Err((status, why)) => plain(status, "text/plain; charset=utf-8", why.to_owned()),
    }
}

fn route(method: &Method, path: &str) -> Result<(), (StatusCode, &'static str)> {
    match (path, method) {
        ("/metrics", &Method::GET | &Method::HEAD) => Ok(()),
        ("/metrics", _) => Err((StatusCode::METHOD_NOT_ALLOWED, "measurements can be read only: GET /metrics\n")),
        _ => Err((StatusCode::NOT_FOUND, "there is nothing here but the measurements: GET /metrics\n")),
    }
}

fn plain(status: StatusCode, media_type: &'static str, text: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(text.into()));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static(media_type));
    response
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    #[tokio::test]
    async fn one_path_answers_and_a_taken_address_is_said() {
        let listener = Listener::bind(([127, 0, 0, 1], 0).into()).await.unwrap();
        let address = listener.0.local_addr().unwrap();
        let taken = Listener::bind(address).await.err().unwrap().to_string();
        assert!(taken.contains(&address.to_string()) && taken.contains("--metrics-listen"), "{taken}");
        for (line, expected) in [
            ("GET /metrics", "HTTP/1.1 200 OK"),
            ("HEAD /metrics", "HTTP/1.1 200 OK"),
            ("POST /metrics", "HTTP/1.1 405 Method Not Allowed"),
            ("GET /", "HTTP/1.1 404 Not Found"),
        ] {
            let client = async {
                let mut stream = TcpStream::connect(address).await.unwrap();
                stream.write_all(format!("{line} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes()).await.unwrap();
                let mut answer = String::new();
                stream.read_to_string(&mut answer).await.unwrap();
                answer
            };
            let server = async {
                let (connection, _) = listener.0.accept().await.unwrap();
                answer_all(connection, |request| match route(request.method(), request.uri().path()) {
                    Ok(()) => plain(StatusCode::OK, MEDIA_TYPE, "up 1\n".into()),
                    Err((status, why)) => plain(status, "text/plain", why.into()),
                })
                .await
                .unwrap();
            };
            let (answer, ()) = tokio::join!(client, server);
            assert!(answer.starts_with(expected), "{line}: {answer}");
            assert_eq!(answer.ends_with("\r\n\r\nup 1\n"), line == "GET /metrics", "{answer}");
            assert!(answer.contains("connection: close"), "{answer}");
        }
    }
}
