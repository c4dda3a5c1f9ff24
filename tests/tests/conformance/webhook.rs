//! A webhook server on loopback that converts custom resources: version 1 has `hostPort`, version 2 has `host` and `port`, as upstream's
//! test image has them.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{TcpListener, TcpStream},
    sync::Arc,
    thread,
    time::Duration,
};

use anyhow::{Context as _, Result};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use rustls::{
    ServerConfig, ServerConnection, StreamOwned,
    pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer},
};
use serde_json::{Value, json};

/// Where a server is, as a `clientConfig`.
pub(crate) struct Webhook {
    pub(crate) config: Value,
}

impl Webhook {
    /// Starts one. It serves until the process ends.
    pub(crate) fn start() -> Result<Self> {
        let own = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()])?;
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(own.signing_key.serialize_der()));
        let config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(vec![own.cert.der().clone()], key)?;
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let url = format!("https://{}/convert", listener.local_addr()?);
        let bundle = BASE64_STANDARD.encode(own.cert.pem());
        let config = Arc::new(config);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let config = config.clone();
                // A client that goes away ends its connection only.
                thread::spawn(move || serve(stream, config));
            }
        });
        Ok(Self { config: json!({ "url": url, "caBundle": bundle }) })
    }
}

fn serve(stream: TcpStream, config: Arc<ServerConfig>) -> Result<()> {
    stream.set_read_timeout(Some(Duration::from_secs(30)))?;
    let mut tls = BufReader::new(StreamOwned::new(ServerConnection::new(config)?, stream));
    let (mut length, mut line) = (0, String::new());
    loop {
        line.clear();
        tls.read_line(&mut line)?;
        let header = line.trim_end().to_ascii_lowercase();
        if let Some(text) = header.strip_prefix("content-length:") {
            length = text.trim().parse()?;
        }
        if header.is_empty() {
            break;
        }
    }
    let mut body = vec![0; length];
    tls.read_exact(&mut body)?;
    let review: Value = serde_json::from_slice(&body)?;
    let answer = convert(&review).context("a review")?.to_string();
    let tls = tls.get_mut();
    write!(
        tls,
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{answer}",
        answer.len()
    )?;
    tls.flush()?;
    tls.conn.send_close_notify();
    tls.flush()?;
    Ok(())
}

fn convert(review: &Value) -> Option<Value> {
    let request = &review["request"];
    let wanted = request["desiredAPIVersion"].as_str()?;
    let one = |object: &Value| {
        let mut new = object.clone();
        new["apiVersion"] = wanted.into();
        let fields = new.as_object_mut()?;
        if wanted.ends_with("/v2") {
            let both = fields.remove("hostPort")?;
            let (host, port) = both.as_str()?.split_once(':')?;
            fields.insert("host".into(), host.into());
            fields.insert("port".into(), port.into());
        } else {
            let (host, port) = (fields.remove("host")?, fields.remove("port")?);
            fields.insert("hostPort".into(), format!("{}:{}", host.as_str()?, port.as_str()?).into());
        }
        Some(new)
    };
    let objects: Option<Vec<Value>> = request["objects"].as_array()?.iter().map(one).collect();
    let result = match &objects {
        Some(_) => json!({ "status": "Success" }),
        None => json!({ "status": "Failure", "message": "what was sent is no object of either version" }),
    };
    Some(json!({
        "kind": review["kind"], "apiVersion": review["apiVersion"],
        "response": { "uid": request["uid"], "convertedObjects": objects, "result": result },
    }))
}
