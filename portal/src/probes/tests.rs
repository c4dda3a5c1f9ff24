//! Probes against servers that the test plays. Real ones: `tests/tests/e2e/resources.rs`.

use rustls::pki_types::PrivateKeyDer;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};
use vctl_runtime::tasks::Tasks;

use super::*;

fn target(kind: ResourceKind, port: u16) -> Target {
    let host = "127.0.0.1".to_owned();
    let now = "2026-01-02T03:04:05Z".parse().expect("time");
    let password = Some("right".into());
    Target {
        kind,
        host,
        port,
        user: "app".into(),
        database: "app".into(),
        tls: false,
        ca_bundle: String::new(),
        password,
        now,
    }
}

/// A server that answers what it reads with what `answer` makes of it; none hangs up.
async fn server(tasks: &Tasks, answer: impl Fn(&[u8]) -> Option<Vec<u8>> + Send + Sync + 'static) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("bind");
    let port = listener.local_addr().expect("address").port();
    tasks.spawn_until_stopped("played server", async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut bytes = vec![0; 4096];
            while let Ok(read @ 1..) = stream.read(&mut bytes).await {
                let Some(said) = answer(&bytes[..read]) else { break };
                if stream.write_all(&said).await.is_err() {
                    break;
                }
            }
        }
    });
    port
}

fn redis(request: &[u8]) -> Option<Vec<u8>> {
    let text = String::from_utf8_lossy(request);
    let answer = match () {
        () if text.contains("AUTH") && text.contains("right") => "+OK\r\n",
        () if text.contains("AUTH") => "-WRONGPASS invalid username-password pair or user is disabled.\r\n",
        () if text.contains("PING") => "+PONG\r\n",
        () => return None,
    };
    Some(answer.as_bytes().to_vec())
}

#[tokio::test]
async fn a_redis_is_told_from_a_wrong_password_and_from_others() {
    let tasks = Tasks::new();
    let port = server(&tasks, redis).await;
    let good = target(ResourceKind::Redis, port);
    assert_eq!(probe(&good).await, Ok(format!("Redis at 127.0.0.1:{port}")));
    let wrong = Target { password: Some("wrong".into()), ..good.clone() };
    assert!(probe(&wrong).await.expect_err("wrong").to_string().contains("refuses user \"app\""));
    let secure = Target { tls: true, ..good };
    assert!(matches!(probe(&secure).await, Err(ProbeError::NoTls(_) | ProbeError::TimeOut { .. })));
    let wants = server(&tasks, |_| Some(b"-NOAUTH Authentication required.\r\n".to_vec())).await;
    let none = Target { password: None, ..target(ResourceKind::Redis, wants) };
    assert!(matches!(probe(&none).await, Err(ProbeError::WantsPassword { .. })));
    let other = server(&tasks, |_| Some(b"220 mail ready\r\n".to_vec())).await;
    assert!(matches!(probe(&target(ResourceKind::Redis, other)).await, Err(ProbeError::Protocol { .. })));
    // A TLS server answers plain text with an alert.
    let tls = server(&tasks, |_| Some(vec![0x15, 3, 3, 0, 2, 2, 10, b'\n'])).await;
    assert!(matches!(probe(&target(ResourceKind::Redis, tls)).await, Err(ProbeError::WantsTls(_))));
    tasks.stop();
}

#[tokio::test]
async fn http_is_judged_by_its_status() {
    let tasks = Tasks::new();
    for (status, expected) in [
        ("200 OK", "answers 200"),
        ("404 Not Found", "answers 404"),
        ("401 Unauthorized", "the password or the user is wrong"),
        ("503 Service Unavailable", "says: HTTP/1.1 503"),
        ("400 Bad Request", "answers 400"),
    ] {
        let answer = format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n").into_bytes();
        let port = server(&tasks, move |_| Some(answer.clone())).await;
        let said = match probe(&target(ResourceKind::Http, port)).await {
            Ok(text) => text,
            Err(e) => e.to_string(),
        };
        assert!(said.contains(expected), "{status}: {said}");
    }
    tasks.stop();
}

#[tokio::test]
async fn a_postgres_says_what_is_wrong() {
    let tasks = Tasks::new();
    let error = |code: &str, message: &str| {
        let body = format!("SFATAL\0C{code}\0M{message}\0\0");
        let mut answer = vec![b'E'];
        answer.extend(i32::try_from(body.len() + 4).expect("short").to_be_bytes());
        answer.extend(body.bytes());
        answer
    };
    for (answer, expected) in [
        (error("28P01", "password authentication failed"), "refuses user \"app\""),
        (error("28000", "no pg_hba.conf entry for host, no encryption"), "wants TLS"),
        (error("3D000", "database \"app\" does not exist"), "database \"app\" does not exist"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec(), "does not speak Postgres"),
    ] {
        let port = server(&tasks, move |_| Some(answer.clone())).await;
        let said = probe(&target(ResourceKind::Postgres, port)).await.expect_err("refused").to_string();
        assert!(said.contains(expected), "{said}");
    }
    // `N` to the question whether it speaks TLS.
    let port = server(&tasks, |_| Some(b"N".to_vec())).await;
    let secure = Target { tls: true, ..target(ResourceKind::Postgres, port) };
    assert_eq!(probe(&secure).await, Err(ProbeError::NoTls(format!("127.0.0.1:{port}"))));
    tasks.stop();
}

/// An answer of Kafka to the first request: one API, the metadata request.
fn kafka_apis(request: &[u8]) -> Option<Vec<u8>> {
    let correlation = request.get(8..12)?;
    let body = [&[0, 0, 0, 0, 0, 1, 0, 3, 0, 0, 0, 12][..]].concat();
    let mut answer = i32::try_from(body.len() + 4).ok()?.to_be_bytes().to_vec();
    answer.extend(correlation);
    answer.extend(body);
    Some(answer)
}

/// What a request to the played Kafka is answered with.
fn kafka(request: &[u8]) -> Option<Vec<u8>> {
    let api = i16::from_be_bytes(*request.get(4..)?.first_chunk()?);
    let body: Vec<u8> = match api {
        18 => return kafka_apis(request),
        // PLAIN and nothing else.
        17 if !request.ends_with(b"PLAIN") => [&[0, 33, 0, 0, 0, 1, 0, 5][..], b"PLAIN"].concat(),
        17 => [&[0, 0, 0, 0, 0, 1, 0, 5][..], b"PLAIN"].concat(),
        36 if request.ends_with(b"\0app\0right") => vec![0, 0, 0xff, 0xff, 0, 0, 0, 0],
        36 => [&[0, 58, 0, 2][..], b"no", &[0, 0, 0, 0]].concat(),
        // Version 1: two brokers.
        3 => vec![0, 0, 0, 2],
        _ => return None,
    };
    let mut answer = i32::try_from(body.len() + 4).ok()?.to_be_bytes().to_vec();
    answer.extend(request.get(8..12)?);
    answer.extend(body);
    Some(answer)
}

#[tokio::test]
async fn a_kafka_is_signed_in_to_by_a_mechanism_that_it_has() {
    let tasks = Tasks::new();
    let port = server(&tasks, kafka).await;
    let good = target(ResourceKind::Kafka, port);
    assert_eq!(probe(&good).await, Ok(format!("Kafka at 127.0.0.1:{port}, 2 brokers")));
    let wrong = Target { password: Some("wrong".into()), ..good.clone() };
    assert!(matches!(probe(&wrong).await, Err(ProbeError::Password { .. })));
    let open = Target { password: None, ..good };
    assert!(probe(&open).await.is_ok());
    // Who speaks TLS may send an alert.
    let alerts = server(&tasks, |_| Some(vec![0x15, 3, 3, 0, 2, 2, 10])).await;
    assert!(matches!(probe(&target(ResourceKind::Kafka, alerts)).await, Err(ProbeError::WantsTls(_))));
    let other = server(&tasks, |_| Some(b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec())).await;
    assert!(matches!(probe(&target(ResourceKind::Kafka, other)).await, Err(ProbeError::Protocol { .. })));
    tasks.stop();
}

#[tokio::test]
async fn an_object_store_of_another_region_is_asked_again() {
    let tasks = Tasks::new();
    let port = server(&tasks, |request| {
        let request = String::from_utf8_lossy(request);
        let (status, body) = match () {
            () if request.contains("/eu-west-1/s3/") => ("200 OK", "<ListBucketResult></ListBucketResult>"),
            () => (
                "400 Bad Request",
                "<Error><Code>AuthorizationHeaderMalformed</Code><Region>eu-west-1</Region></Error>",
            ),
        };
        Some(format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n{body}", body.len()).into_bytes())
    })
    .await;
    // The played server does not close.
    assert_eq!(probe(&target(ResourceKind::S3, port)).await, Ok(format!("S3 at 127.0.0.1:{port}, bucket app")));
    tasks.stop();
}

#[tokio::test]
async fn who_does_not_answer_is_told_from_who_is_not_there() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("bind");
    let port = listener.local_addr().expect("address").port();
    let limit = Duration::from_millis(200);
    let silent = probe_within(&target(ResourceKind::Redis, port), limit).await.expect_err("silent").to_string();
    assert!(silent.contains("does not answer within 0.2 s"), "{silent}");
    drop(listener);
    let gone = probe(&target(ResourceKind::Redis, port)).await.expect_err("gone").to_string();
    assert!(gone.contains("cannot be reached"), "{gone}");
}

/// A server of TLS; `plain` is what it answers to anything else before it hangs up.
async fn tls_server(tasks: &Tasks, plain: &'static [u8]) -> u16 {
    let made = rcgen::generate_simple_self_signed(vec!["other".to_owned()]).expect("certificate");
    let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).expect("key");
    let config = rustls::ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)
        .expect("config");
    let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("bind");
    let port = listener.local_addr().expect("address").port();
    tasks.spawn_until_stopped("played server", async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut first = [0; 1];
            if matches!(stream.peek(&mut first).await, Ok(1)) && first[0] == 0x16 {
                // Its certificate is believed by nobody.
                let _ = acceptor.accept(stream).await;
            } else {
                let _ = stream.write_all(plain).await;
            }
        }
    });
    port
}

#[tokio::test]
async fn who_wants_tls_is_told_from_who_hangs_up() {
    let tasks = Tasks::new();
    let closes = server(&tasks, |_| None).await;
    // Nobody is behind it: it takes a connection and resets it.
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("bind");
    let resets = listener.local_addr().expect("address").port();
    tasks.spawn_until_stopped("played load balancer", async move {
        while let Ok((stream, _)) = listener.accept().await {
            let _ = stream.set_zero_linger();
        }
    });
    let secure = tls_server(&tasks, b"").await;
    let kinds = [ResourceKind::Http, ResourceKind::Redis, ResourceKind::S3, ResourceKind::Kafka];
    for kind in kinds {
        for port in [closes, resets] {
            let said = probe(&target(kind, port)).await.expect_err("nobody answers");
            // The reset may come before anything was sent.
            let broken = matches!(said, ProbeError::HungUp { .. })
                || port == resets && matches!(said, ProbeError::Unreachable { .. });
            assert!(broken, "{kind:?}: {said}");
        }
        let said = probe(&target(kind, secure)).await;
        assert_eq!(said, Err(ProbeError::WantsTls(format!("127.0.0.1:{secure}"))), "{kind:?}");
    }
    let says_so = tls_server(&tasks, b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n").await;
    for kind in [ResourceKind::Http, ResourceKind::S3] {
        let said = probe(&target(kind, says_so)).await;
        assert_eq!(said, Err(ProbeError::WantsTls(format!("127.0.0.1:{says_so}"))), "{kind:?}");
    }
    tasks.stop();
}
