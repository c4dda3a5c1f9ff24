//! Addresses that options of `vctl up` name.

use std::net::SocketAddr;

/// What `--listen` takes; its error says what would be right.
pub(super) fn listen_address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| {
        let port = text.rsplit(':').next().and_then(|p| p.parse::<u16>().ok()).unwrap_or(8443);
        format!(
            "an IP address and a port are wanted, such as 127.0.0.1:{port} (this machine only), 0.0.0.0:{port} (every IPv4 \
             address) or [::]:{port}"
        )
    })
}

/// What `--public-url` takes: where this server is at the root.
pub(super) fn public_url(text: &str) -> Result<url::Url, String> {
    let wrong = || "an address such as https://vctl.example.com is wanted, without path".to_owned();
    let url: url::Url = text.parse().map_err(|_| wrong())?;
    let bare = url.path() == "/" && url.query().is_none() && url.fragment().is_none() && url.username().is_empty();
    if url.scheme() == "https" && url.host().is_some() && bare { Ok(url) } else { Err(wrong()) }
}

/// The address that clients on this machine use.
pub(super) fn reachable(listen: SocketAddr) -> SocketAddr {
    let mut address = listen;
    if listen.ip().is_unspecified() {
        address.set_ip(if listen.is_ipv4() { [127, 0, 0, 1].into() } else { std::net::Ipv6Addr::LOCALHOST.into() });
    }
    address
}
