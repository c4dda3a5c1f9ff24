//! Clients that mean no good, on real TLS connections: what they are cut off for, and that others do not notice.

use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};
use tokio_rustls::{TlsConnector, client::TlsStream};

use super::*;
use crate::pki::{Authority, Validity};

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// How long a connection that is to be closed may take for that on a busy machine.
const PATIENCE: Duration = Duration::from_mins(1);

struct Fixture {
    address: SocketAddr,
    roots: rustls::RootCertStore,
    /// Requests that have reached the handler.
    handled: Arc<AtomicUsize>,
    /// Of those, how many are being worked on.
    working: Arc<AtomicUsize>,
    _tasks: Tasks,
}

/// Counts a request for as long as it is worked on.
struct Working(Arc<AtomicUsize>);

impl Drop for Working {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Fixture {
    /// A server that answers `/`, and on `/slow` never.
    async fn start(limits: TimeLimits) -> Self {
        install_crypto_provider();
        let validity = Validity::from_now(jiff::Timestamp::now(), Duration::from_hours(1));
        let authority = Authority::generate("test", validity).unwrap();
        let identity = authority.server(&["127.0.0.1".to_owned()], validity).unwrap();
        let tls = Tls::new(&identity.certificate_pem, &identity.key_pem).unwrap();
        let (handled, working) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let (counted, busy) = (handled.clone(), working.clone());
        let router = Router::new().fallback(move |request: axum::extract::Request| {
            counted.fetch_add(1, Ordering::SeqCst);
            busy.fetch_add(1, Ordering::SeqCst);
            let working = Working(busy.clone());
            async move {
                let _working = working;
                match request.uri().path() {
                    "/slow" => std::future::pending().await,
                    "/read" => {
                        let body = axum::body::to_bytes(request.into_body(), 1000).await;
                        if body.is_err() { "too much" } else { "here" }
                    }
                    _ => "here",
                }
            }
        });
        let tasks = Tasks::new();
        let listener = bind_tcp(([127, 0, 0, 1], 0).into()).await.unwrap();
        let address = listener.local_addr().unwrap();
        let mut server = Server::new(tls, router, tasks.clone());
        server.limits = limits;
        server.listen_tcp(listener);
        let mut roots = rustls::RootCertStore::empty();
        for certificate in crate::pki::chain_from_pem(authority.certificate_pem()).unwrap() {
            roots.add(certificate.into()).unwrap();
        }
        Self { address, roots, handled, working, _tasks: tasks }
    }

    async fn connect(&self, protocol: &[u8]) -> TlsStream<TcpStream> {
        let config = rustls::ClientConfig::builder_with_provider(crypto_provider());
        let config = config.with_safe_default_protocol_versions().unwrap();
        let mut config = config.with_root_certificates(self.roots.clone()).with_no_client_auth();
        config.alpn_protocols = vec![protocol.to_vec()];
        let stream = TcpStream::connect(self.address).await.unwrap();
        let name = rustls_pki_types::ServerName::IpAddress(self.address.ip().into());
        TlsConnector::from(Arc::new(config)).connect(name, stream).await.unwrap()
    }

    /// Whether somebody else is answered.
    async fn serves(&self) -> bool {
        let mut stream = self.connect(b"http/1.1").await;
        stream.write_all(b"GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n").await.unwrap();
        read_all(&mut stream).await.ends_with(b"here")
    }
}

/// Everything until the server closes, which it must.
async fn read_all(stream: &mut TlsStream<TcpStream>) -> Vec<u8> {
    let mut bytes = Vec::new();
    let read = tokio::time::timeout(PATIENCE, async {
        let mut piece = [0; 4096];
        // Any end is an end: a reset, or TLS without its farewell.
        while let Ok(n @ 1..) = stream.read(&mut piece).await {
            bytes.extend_from_slice(&piece[..n]);
        }
    });
    read.await.expect("the server closes the connection");
    bytes
}

fn frame(kind: u8, flags: u8, stream: u32, body: &[u8]) -> Vec<u8> {
    let mut frame = u32::try_from(body.len()).unwrap().to_be_bytes()[1..].to_vec();
    frame.extend([kind, flags]);
    frame.extend(stream.to_be_bytes());
    frame.extend(body);
    frame
}

/// HEADERS of `GET /slow`, all of a request.
fn request(stream: u32) -> Vec<u8> {
    let mut block = vec![0x82, 0x87, 0x41, 1, b'a', 0x44, 5];
    block.extend(b"/slow");
    frame(1, 0x5, stream, &block)
}

/// Types of the frames in an answer.
fn kinds(mut bytes: &[u8]) -> Vec<u8> {
    let mut kinds = Vec::new();
    while let Some((&[a, b, c, kind, ..], rest)) = bytes.split_first_chunk::<9>() {
        kinds.push(kind);
        bytes = rest.get(u32::from_be_bytes([0, a, b, c]) as usize..).unwrap_or_default();
    }
    kinds
}

const GOAWAY: u8 = 7;

#[tokio::test]
async fn streams_that_are_reset_as_soon_as_they_are_opened_end_the_connection() {
    let fixture = Fixture::start(TimeLimits::default()).await;
    let mut stream = fixture.connect(b"h2").await;
    stream.write_all(&[PREFACE, &frame(4, 0, 0, &[])].concat()).await.unwrap();
    let (mut from_server, mut to_server) = tokio::io::split(stream);
    let flood = async {
        for i in 0..100_000_u32 {
            let id = 2 * i + 1;
            let both = [request(id), frame(3, 0, id, &8_u32.to_be_bytes())].concat();
            if to_server.write_all(&both).await.is_err() {
                return;
            }
        }
    };
    let answer = async {
        let mut bytes = Vec::new();
        let mut piece = [0; 4096];
        while let Ok(n @ 1..) = from_server.read(&mut piece).await {
            bytes.extend_from_slice(&piece[..n]);
            if kinds(&bytes).contains(&GOAWAY) {
                break;
            }
        }
        bytes
    };
    let answer = async {
        tokio::select! {
            bytes = answer => bytes,
            () = async { flood.await; std::future::pending().await } => Vec::new(),
        }
    };
    let bytes = tokio::time::timeout(PATIENCE, answer).await.expect("the server has enough");
    assert!(kinds(&bytes).contains(&GOAWAY), "{:?}", kinds(&bytes));
    assert!(fixture.handled.load(Ordering::SeqCst) < 50_000, "work for a fraction of them at most");
    drop((from_server, to_server));
    let idle = async {
        while fixture.working.load(Ordering::SeqCst) > 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(PATIENCE, idle).await.expect("nothing goes on for who has gone");
    assert!(fixture.serves().await);
}

#[tokio::test]
async fn a_header_that_is_too_large_is_refused() {
    let fixture = Fixture::start(TimeLimits::default()).await;
    let mut stream = fixture.connect(b"http/1.1").await;
    let head = format!("GET / HTTP/1.1\r\nhost: a\r\nx: {}\r\n\r\n", "y".repeat(1 << 20));
    // The server closes before it has read everything.
    let _ = stream.write_all(head.as_bytes()).await;
    let answer = read_all(&mut stream).await;
    assert!(answer.is_empty() || answer.starts_with(b"HTTP/1.1 431"), "{}", String::from_utf8_lossy(&answer));
    // A header that never ends, in frames of HTTP/2.
    let mut stream = fixture.connect(b"h2").await;
    stream.write_all(&[PREFACE, &frame(4, 0, 0, &[]), &frame(1, 0x1, 1, &[0x82, 0x87])].concat()).await.unwrap();
    let more =
        frame(9, 0, 1, &[0x40, 1, b'x', 0x7f, 0x81, 0x7d].iter().copied().chain([b'y'; 16_000]).collect::<Vec<u8>>());
    let mut written = 0;
    let flood = async {
        while written < 64 << 20 && stream.write_all(&more).await.is_ok() {
            written += more.len();
        }
    };
    tokio::time::timeout(PATIENCE, flood).await.expect("the server closes the connection");
    assert!(written < 64 << 20, "it takes everything");
    assert_eq!(fixture.handled.load(Ordering::SeqCst), 0);
    assert!(fixture.serves().await);
}

#[tokio::test]
async fn who_is_slow_to_say_what_it_wants_is_cut_off() {
    let soon = Duration::from_millis(200);
    let limits = TimeLimits { handshake: soon, header: soon, ..TimeLimits::default() };
    let fixture = Fixture::start(limits).await;
    // No handshake at all.
    let mut stream = TcpStream::connect(fixture.address).await.unwrap();
    let closed = tokio::time::timeout(PATIENCE, stream.read_u8()).await.expect("closed");
    assert!(closed.is_err());
    // A header of which a byte comes now and then: the time is for the whole of it.
    let mut stream = fixture.connect(b"http/1.1").await;
    stream.write_all(b"GET / HTTP/1.1\r\n").await.unwrap();
    let (mut from_server, mut to_server) = tokio::io::split(stream);
    let drip = async {
        while to_server.write_all(b"x: y\r\n").await.is_ok() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let end = async {
        let mut piece = [0; 1024];
        while let Ok(1..) = from_server.read(&mut piece).await {}
    };
    let cut = async {
        tokio::select! {
            () = drip => {}
            () = end => {}
        }
    };
    tokio::time::timeout(PATIENCE, cut).await.expect("cut off");
    assert_eq!(fixture.handled.load(Ordering::SeqCst), 0);
    assert!(fixture.serves().await);
}

#[tokio::test]
async fn between_requests_a_client_may_be_idle_for_a_time_of_its_own() {
    let idle = Duration::from_secs(1);
    let fixture = Fixture::start(TimeLimits { idle, ..TimeLimits::default() }).await;
    let mut stream = fixture.connect(b"http/1.1").await;
    stream.write_all(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n").await.unwrap();
    let begun = tokio::time::Instant::now();
    assert!(read_all(&mut stream).await.ends_with(b"here"));
    assert!(begun.elapsed() >= idle, "{:?}", begun.elapsed());
}

/// The next answer on a connection of HTTP/1 whose body ends so.
async fn answer(stream: &mut TlsStream<TcpStream>, end: &[u8]) -> String {
    let mut bytes = Vec::new();
    let read = tokio::time::timeout(PATIENCE, async {
        while !bytes.ends_with(end) {
            bytes.push(stream.read_u8().await.expect("an answer"));
        }
    });
    read.await.expect("answered");
    String::from_utf8_lossy(&bytes).to_ascii_lowercase()
}

#[tokio::test]
async fn a_connection_goes_on_after_a_short_body_that_nobody_read() {
    let fixture = Fixture::start(TimeLimits { rest: PATIENCE, ..TimeLimits::default() }).await;
    let mut stream = fixture.connect(b"http/1.1").await;
    let chunks = b"POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n".to_vec();
    for (path, length) in [("/", 10), ("/", 200_000), ("/read", 10), ("/read", 200_000), ("/", 0)] {
        let head = format!("POST {path} HTTP/1.1\r\nhost: a\r\ncontent-length: {length}\r\n\r\n");
        // The body comes after the head has been dealt with, most likely, or at once.
        for at_once in [true, false] {
            if at_once {
                stream.write_all(&[head.as_bytes(), &vec![b'x'; length]].concat()).await.unwrap();
            } else {
                stream.write_all(head.as_bytes()).await.unwrap();
                stream.flush().await.unwrap();
                tokio::task::yield_now().await;
                stream.write_all(&vec![b'x'; length]).await.unwrap();
            }
            let end: &[u8] = if path == "/read" && length > 1000 { b"too much" } else { b"here" };
            let answer = answer(&mut stream, end).await;
            assert!(answer.starts_with("http/1.1 200") && !answer.contains("connection: close"), "{answer}");
        }
        stream.write_all(&chunks).await.unwrap();
        assert!(!answer(&mut stream, b"here").await.contains("connection: close"));
    }
}

#[tokio::test]
async fn who_is_answered_before_a_long_body_is_told_that_the_connection_ends() {
    let fixture =
        Fixture::start(TimeLimits { rest: Duration::from_millis(200), linger: PATIENCE, ..TimeLimits::default() })
            .await;
    for (path, headers, sent, answer) in [
        ("/", "content-length: 3000000", 3_000_000, "here"),
        ("/", "content-length: 3000000", 10, "here"),
        ("/read", "content-length: 3000000", 3_000_000, "too much"),
        // It never comes.
        ("/", "content-length: 10", 1, "here"),
        // It is not asked for.
        ("/", "content-length: 10\r\nexpect: 100-continue", 0, "here"),
    ] {
        let mut stream = fixture.connect(b"http/1.1").await;
        let head = format!("POST {path} HTTP/1.1\r\nhost: a\r\n{headers}\r\n\r\n");
        stream.write_all(head.as_bytes()).await.unwrap();
        let (mut from_server, mut to_server) = tokio::io::split(stream);
        let send = async {
            // The server closes before it has read everything.
            let _ = to_server.write_all(&vec![b'x'; sent]).await;
            let _ = to_server.flush().await;
        };
        let ((), bytes) = tokio::join!(send, async {
            let mut bytes = Vec::new();
            let mut piece = [0; 4096];
            while let Ok(Ok(n @ 1..)) = tokio::time::timeout(PATIENCE, from_server.read(&mut piece)).await {
                bytes.extend_from_slice(&piece[..n]);
            }
            bytes
        });
        let text = String::from_utf8_lossy(&bytes).to_ascii_lowercase();
        assert!(text.starts_with("http/1.1 200"), "{headers}: {text}");
        assert!(text.contains("connection: close") && text.ends_with(answer), "{headers}: {text}");
    }
    assert!(fixture.serves().await);
}
