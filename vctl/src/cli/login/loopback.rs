//! The port of this machine to which the browser brings the code.

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
};

use super::CliError;

/// Largest head of a request in bytes.
const MAX_HEAD: usize = 16 * 1024;
/// How long a browser may take to send a request.
const TIMEOUT: std::time::Duration = std::time::Duration::from_secs(10);

/// Listens on 127.0.0.1, on a port that the system chooses.
pub(super) struct Loopback {
    listener: TcpListener,
    address: String,
}

impl Loopback {
    pub(super) async fn bind() -> Result<Self, CliError> {
        let failed =
            |e: std::io::Error| CliError::Failed(format!("no port of 127.0.0.1 can be opened ({e}): use --device"));
        let listener = TcpListener::bind((core::net::Ipv4Addr::LOCALHOST, 0)).await.map_err(failed)?;
        let port = listener.local_addr().map_err(failed)?.port();
        Ok(Self { listener, address: format!("http://127.0.0.1:{port}/callback") })
    }

    /// Where the browser is to be sent.
    pub(super) fn address(&self) -> &str {
        &self.address
    }

    /// The code that comes with our state. Requests with another state are not ours: they are refused, and waiting goes on.
    pub(super) async fn answer(&self, state: &str) -> Result<String, CliError> {
        loop {
            let (mut stream, _) = self.listener.accept().await.map_err(CliError::Output)?;
            let Ok(Some(target)) = tokio::time::timeout(TIMEOUT, target(&mut stream)).await else { continue };
            match read(&target, state) {
                Some(Ok(code)) => {
                    respond(&mut stream, "200 OK", "You are signed in. You can close this window.").await;
                    return Ok(code);
                }
                Some(Err(why)) => {
                    respond(&mut stream, "200 OK", "You are not signed in. You can close this window.").await;
                    return Err(CliError::Failed(format!("the server did not let this machine in: {why}")));
                }
                None => respond(&mut stream, "404 Not Found", "There is nothing here.").await,
            }
        }
    }
}

/// The code, or the error, of a request that carries our state.
fn read(target: &str, state: &str) -> Option<Result<String, String>> {
    let query = target.strip_prefix("/callback?")?;
    let of = |name: &str| {
        url::form_urlencoded::parse(query.as_bytes()).find(|(n, _)| n == name).map(|(_, v)| v.into_owned())
    };
    if of("state").as_deref() != Some(state) {
        return None;
    }
    match of("error") {
        Some(error) => Some(Err(error)),
        None => of("code").map(Ok),
    }
}

/// Path and query of a GET request.
async fn target(stream: &mut TcpStream) -> Option<String> {
    let mut head = Vec::new();
    let mut piece = [0; 2048];
    while !head.windows(4).any(|w| w == b"\r\n\r\n") {
        let read = stream.read(&mut piece).await.ok()?;
        if read == 0 || head.len() > MAX_HEAD {
            return None;
        }
        head.extend_from_slice(&piece[..read]);
    }
    let head = String::from_utf8_lossy(&head);
    let mut words = head.lines().next()?.split(' ');
    (words.next() == Some("GET")).then(|| words.next().map(str::to_owned))?
}

async fn respond(stream: &mut TcpStream, status: &str, text: &str) {
    let body = format!("<!doctype html><meta charset=utf-8><title>vctl</title><p>{text}</p>");
    let head = format!(
        "HTTP/1.1 {status}\r\ncontent-type: text/html; charset=utf-8\r\ncontent-length: {}\r\ncontent-security-policy: default-src 'none'\r\n\
         cache-control: no-store\r\nreferrer-policy: no-referrer\r\nconnection: close\r\n\r\n{body}",
        body.len()
    );
    // The browser's page is for comfort: what counts has been read.
    let _ = stream.write_all(head.as_bytes()).await;
    let _ = stream.shutdown().await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_answer_with_our_state_counts() {
        assert_eq!(read("/callback?code=c&state=s", "s"), Some(Ok("c".to_owned())));
        assert_eq!(read("/callback?error=access_denied&state=s", "s"), Some(Err("access_denied".to_owned())));
        for other in
            ["/callback?code=c&state=x", "/callback?code=c", "/favicon.ico", "/callback?state=s", "/x?code=c&state=s"]
        {
            assert_eq!(read(other, "s"), None, "{other}");
        }
    }

    #[tokio::test]
    async fn strangers_are_turned_away_until_the_browser_comes() {
        let loopback = Loopback::bind().await.expect("bound");
        let port = loopback.listener.local_addr().expect("address").port();
        let ask = async |path: &str| {
            let mut stream = TcpStream::connect(("127.0.0.1", port)).await.expect("connected");
            stream.write_all(format!("GET {path} HTTP/1.1\r\nhost: x\r\n\r\n").as_bytes()).await.expect("sent");
            let mut answer = String::new();
            stream.read_to_string(&mut answer).await.expect("answer");
            answer
        };
        let asks = async {
            assert!(ask("/callback?code=stolen&state=guess").await.starts_with("HTTP/1.1 404"));
            ask("/callback?code=ours&state=s").await
        };
        let (code, page) = tokio::join!(loopback.answer("s"), asks);
        assert_eq!(code.expect("a code"), "ours");
        assert!(page.starts_with("HTTP/1.1 200") && page.contains("signed in"), "{page}");
    }
}
