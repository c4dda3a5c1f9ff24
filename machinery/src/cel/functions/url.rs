//! Kubernetes' URLs: absolute URIs and absolute paths.

use std::{collections::BTreeMap, fmt, sync::Arc};

use crate::{
    cel::value::{Key, Value},
    crd::is_request_uri,
};

/// The parts of a URL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Url {
    text: String,
    scheme: String,
    host: String,
    path: String,
    query: String,
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

fn parse(text: &str) -> Option<Url> {
    if !is_request_uri(text) {
        return None;
    }
    let (before, query) = text.split_once('?').unwrap_or((text, ""));
    let (scheme, rest) = match before.split_once(':') {
        Some((scheme, rest)) if !before.starts_with('/') => (scheme, rest),
        _ => ("", before),
    };
    let (authority, path) = match rest.strip_prefix("//") {
        Some(rest) => rest.split_at(rest.find('/').unwrap_or(rest.len())),
        None => ("", rest),
    };
    Some(Url {
        text: text.to_owned(),
        scheme: scheme.to_ascii_lowercase(),
        host: authority.rsplit('@').next().unwrap_or_default().to_owned(),
        path: path.to_owned(),
        query: query.to_owned(),
    })
}

/// Name and port of a host.
fn host_port(host: &str) -> (&str, &str) {
    if let Some((name, rest)) = host.strip_prefix('[').and_then(|h| h.split_once(']')) {
        return (name, rest.strip_prefix(':').unwrap_or_default());
    }
    host.rsplit_once(':').unwrap_or((host, ""))
}

fn percent(text: &str) -> String {
    let bytes = text.as_bytes();
    let (mut out, mut i) = (Vec::with_capacity(bytes.len()), 0);
    while let Some(&b) = bytes.get(i) {
        let hex = bytes.get(i + 1..i + 3).and_then(|h| std::str::from_utf8(h).ok());
        match (b, hex.and_then(|h| u8::from_str_radix(h, 16).ok())) {
            (b'%', Some(code)) => {
                out.push(code);
                i += 2;
            }
            (b'+', _) => out.push(b' '),
            _ => out.push(b),
        }
        i += 1;
    }
    String::from_utf8_lossy(&out).into_owned()
}

pub(in crate::cel) fn call(function: &str, member: bool, values: &[Value]) -> Option<Result<Value, String>> {
    Some(match (function, values) {
        ("url", [Value::String(text)]) => parse(text).map(|u| Value::Url(Arc::new(u))).ok_or_else(|| {
            format!("URL parse error during conversion from string: parse {text:?}: invalid URI for request")
        }),
        ("isURL", [Value::String(text)]) => Ok(Value::Bool(parse(text).is_some())),
        (_, [Value::Url(url)]) if member => match function {
            "getScheme" => Ok(Value::string(&url.scheme)),
            "getHost" => Ok(Value::string(&url.host)),
            "getHostname" => Ok(Value::string(host_port(&url.host).0)),
            "getPort" => Ok(Value::string(host_port(&url.host).1)),
            "getEscapedPath" => Ok(Value::string(&url.path)),
            "getQuery" => {
                let mut query: BTreeMap<Key, Vec<Value>> = BTreeMap::new();
                for pair in url.query.split('&').filter(|p| !p.is_empty()) {
                    let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
                    query
                        .entry(Key::String(percent(key).into()))
                        .or_default()
                        .push(Value::String(percent(value).into()));
                }
                Ok(Value::Map(Arc::new(query.into_iter().map(|(k, v)| (k, Value::list(v))).collect())))
            }
            _ => return None,
        },
        _ => return None,
    })
}
