//! What a request is about, from its method, path and query: upstream's `RequestInfo`.

use std::num::IntErrorKind;

use http::Method;
use vctl_machinery::status::ApiError;

/// Query parameters in order, decoded.
#[derive(Debug, Clone, Default)]
pub(crate) struct Query(Vec<(String, String)>);

impl Query {
    pub(crate) fn parse(text: &str) -> Self {
        Self(
            text.split('&')
                .filter(|p| !p.is_empty())
                .map(|p| {
                    let (key, value) = p.split_once('=').unwrap_or((p, ""));
                    (percent(key), percent(value))
                })
                .collect(),
        )
    }

    /// The first value; empty when absent.
    pub(crate) fn get(&self, key: &str) -> &str {
        self.0.iter().find(|(k, _)| k == key).map_or("", |(_, v)| v)
    }

    pub(crate) fn has(&self, key: &str) -> bool {
        self.0.iter().any(|(k, _)| k == key)
    }

    pub(crate) fn all<'a>(&'a self, key: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(k, _)| k == key).map(|(_, v)| v.as_str())
    }

    /// A whole number, if there is one. Source: apimachinery `pkg/runtime/conversion.go`, Go's `strconv.ParseInt`.
    ///
    /// # Errors
    /// 400 in upstream's words when it is none.
    pub(crate) fn integer(&self, key: &str) -> Result<Option<i64>, ApiError> {
        let Some((_, text)) = self.0.iter().find(|(k, _)| k == key) else { return Ok(None) };
        text.parse::<i64>().map(Some).map_err(|why| {
            let range = matches!(why.kind(), IntErrorKind::PosOverflow | IntErrorKind::NegOverflow);
            let why = if range { "value out of range" } else { "invalid syntax" };
            ApiError::bad_request(format!("strconv.ParseInt: parsing {text:?}: {why}"))
        })
    }

    /// As apimachinery's string-to-bool conversion: absent, empty, `0` and `false` are false... and a bare key is true.
    pub(crate) fn flag(&self, key: &str) -> bool {
        self.0
            .iter()
            .find(|(k, _)| k == key)
            .is_some_and(|(_, v)| !matches!(v.to_ascii_lowercase().as_str(), "0" | "false"))
    }
}

/// Decodes `%41` and `+`; invalid escapes stay as they are.
fn percent(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut i = 0;
    while let Some(&b) = bytes.get(i) {
        let escaped = (b == b'%')
            .then(|| bytes.get(i + 1..i + 3))
            .flatten()
            .and_then(|h| std::str::from_utf8(h).ok())
            .and_then(|h| u8::from_str_radix(h, 16).ok());
        match escaped {
            Some(decoded) => {
                out.push(decoded);
                i += 3;
            }
            None => {
                out.push(if b == b'+' { b' ' } else { b });
                i += 1;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// What a request is about.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct RequestInfo {
    /// Whether it is about a resource of an API group; else only `path` and `verb` count.
    pub is_resource: bool,
    pub path: String,
    /// Kubernetes' verb (`get`, `list`, ..) or the lower-case method.
    pub verb: String,
    pub group: String,
    pub version: String,
    pub namespace: String,
    pub resource: String,
    pub subresource: String,
    pub name: String,
    /// What follows the subresource (`proxy/a/b`).
    pub rest: Vec<String>,
}

impl RequestInfo {
    pub(crate) fn new(method: &Method, path: &str, query: &Query) -> Self {
        let mut info = Self { path: path.to_owned(), verb: method.as_str().to_ascii_lowercase(), ..Self::default() };
        let parts: Vec<String> =
            path.trim_matches('/').split('/').filter(|p| !p.is_empty()).map(percent_path).collect();
        let mut parts = parts.as_slice();
        match parts.first().map(String::as_str) {
            Some("api") if parts.len() >= 3 => parts = &parts[1..],
            Some("apis") if parts.len() >= 4 => {
                info.group.clone_from(&parts[1]);
                parts = &parts[2..];
            }
            _ => return info,
        }
        info.is_resource = true;
        info.version.clone_from(&parts[0]);
        parts = &parts[1..];
        if matches!(parts.first().map(String::as_str), Some("watch" | "proxy")) && parts.len() >= 2 {
            info.verb.clone_from(&parts[0]);
            parts = &parts[1..];
        } else {
            let verb = match *method {
                Method::POST => "create",
                Method::GET | Method::HEAD => "get",
                Method::PUT => "update",
                Method::PATCH => "patch",
                Method::DELETE => "delete",
                _ => "",
            };
            verb.clone_into(&mut info.verb);
        }
        if parts.first().is_some_and(|p| p == "namespaces")
            && let Some(namespace) = parts.get(1)
        {
            info.namespace.clone_from(namespace);
            if parts.get(2).is_some_and(|s| s != "status" && s != "finalize") {
                parts = &parts[2..];
            }
        }
        let part = |i: usize| parts.get(i).cloned().unwrap_or_default();
        info.resource = part(0);
        info.name = part(1);
        info.subresource = part(2);
        info.rest = parts.get(3..).unwrap_or_default().to_vec();
        if info.name.is_empty() {
            if info.verb == "get" {
                if query.flag("watch") { "watch" } else { "list" }.clone_into(&mut info.verb);
            } else if info.verb == "delete" {
                "deletecollection".clone_into(&mut info.verb);
            }
            // A list of one name is authorized as that name.
            if matches!(info.verb.as_str(), "list" | "watch" | "deletecollection")
                && let Some(name) = query.get("fieldSelector").split(',').find_map(|r| r.strip_prefix("metadata.name="))
            {
                name.trim_start_matches('=').clone_into(&mut info.name);
            }
        }
        info
    }
}

fn percent_path(part: &str) -> String {
    percent(&part.replace('+', "%2B"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(method: &Method, uri: &str) -> RequestInfo {
        let (path, query) = uri.split_once('?').unwrap_or((uri, ""));
        RequestInfo::new(method, path, &Query::parse(query))
    }

    #[test]
    fn paths_say_verb_resource_and_name() {
        let cases = [
            (Method::GET, "/api/v1/pods", "list", "", "", "pods", "", ""),
            (Method::GET, "/api/v1/pods?watch=1", "watch", "", "", "pods", "", ""),
            (Method::GET, "/api/v1/namespaces/a/pods/b/log", "get", "", "a", "pods", "b", "log"),
            (Method::GET, "/api/v1/namespaces/a", "get", "", "a", "namespaces", "a", ""),
            (Method::PUT, "/api/v1/namespaces/a/finalize", "update", "", "a", "namespaces", "a", "finalize"),
            (
                Method::DELETE,
                "/apis/apps/v1/namespaces/a/deployments",
                "deletecollection",
                "apps",
                "a",
                "deployments",
                "",
                "",
            ),
            (
                Method::PATCH,
                "/apis/apps/v1/namespaces/a/deployments/b/scale",
                "patch",
                "apps",
                "a",
                "deployments",
                "b",
                "scale",
            ),
            (Method::GET, "/api/v1/watch/namespaces/a/pods", "watch", "", "a", "pods", "", ""),
            (Method::GET, "/api/v1/nodes?fieldSelector=metadata.name%3Dn1", "list", "", "", "nodes", "n1", ""),
        ];
        for (method, uri, verb, group, namespace, resource, name, subresource) in cases {
            let i = info(&method, uri);
            let got = (i.is_resource, &*i.verb, &*i.group, &*i.namespace, &*i.resource, &*i.name, &*i.subresource);
            assert_eq!(got, (true, verb, group, namespace, resource, name, subresource), "{uri}");
        }
        for uri in ["/", "/api", "/apis/apps/v1", "/version", "/api/v1"] {
            assert!(!info(&Method::GET, uri).is_resource, "{uri}");
        }
    }

    #[test]
    fn escapes_are_decoded() {
        let query = Query::parse("a=x%2Cy+z&b&c=%zz");
        assert_eq!((query.get("a"), query.flag("b"), query.get("c")), ("x,y z", true, "%zz"));
    }
}
