//! What browsers are told with every answer, and addresses that try to lead out of where they belong.

use http::{HeaderMap, StatusCode, header};
use serde_json::Value;

use super::{sent, with};
use crate::{
    http::endpoints,
    testing::{World, as_somebody},
};

fn not_framed(headers: &HeaderMap, at: &str) {
    let text = |name: &str| headers.get(name).and_then(|v| v.to_str().ok()).unwrap_or_default();
    assert!(text("content-security-policy").contains("frame-ancestors 'none'"), "{at}: {headers:?}");
    assert_eq!(text("x-frame-options"), "DENY", "{at}");
    assert_eq!(text("x-content-type-options"), "nosniff", "{at}");
}

/// Clickjacking: no answer of the portal may be put into a frame, with a session or without, an error or not.
#[tokio::test]
async fn nothing_can_be_framed() {
    let world = World::new();
    world.create("env", "blank").await;
    let addresses: std::collections::BTreeSet<String> = endpoints()
        .iter()
        .filter(|e| e.method == "GET" && e.path != "/api/v1/events")
        .map(|e| e.path.replace("{*path}", "x").replace("{name}", "env").replace(['{', '}'], ""))
        .collect();
    for address in addresses.iter().map(String::as_str).chain(["/nothing/here", "/assets/x", "/%zz"]) {
        let (_, headers, _) = sent(&world, as_somebody(None, "GET", address, None)).await;
        not_framed(&headers, &format!("{address} for a stranger"));
        let (_, headers, _) = with(&world, "GET", address, &[], None).await;
        not_framed(&headers, &format!("{address} for the administrator"));
    }
}

/// Ways out of a directory, as they are written to get by those who look for them.
const OUT: [&str; 14] = [
    "..",
    "../index.html",
    "..%2findex.html",
    "%2e%2e/index.html",
    "%2e%2e%2f%2e%2e%2fetc%2fpasswd",
    "%252e%252e%252f%252e%252e%252fetc%252fpasswd",
    "....//....//etc/passwd",
    "..%5c..%5cetc%5cpasswd",
    "..%c0%af..%c0%afetc/passwd",
    "/etc/passwd",
    "%2fetc%2fpasswd",
    "pages.css%00.js",
    "pages.css/..",
    "./pages.css",
];

/// An answer to what is not there: a problem that is no file, and is not saved under a name that somebody has thought of.
fn refused(at: &str, status: StatusCode, headers: &HeaderMap, problem: &Value) {
    assert!(status.is_client_error(), "{at}: {status} {problem}");
    assert_eq!(headers.get(header::CONTENT_TYPE).map(|v| v.as_bytes()), Some(&b"application/problem+json"[..]), "{at}");
    assert!(!headers.contains_key(header::CONTENT_DISPOSITION), "{at}: {headers:?}");
    assert!(problem["detail"].is_string(), "{at}: {problem}");
}

#[tokio::test]
async fn names_lead_nowhere_but_to_what_they_name() {
    let world = World::new();
    world.create("env", "blank").await;
    for out in OUT {
        let asset = format!("/assets/{out}");
        let (status, headers, problem) = with(&world, "GET", &asset, &[], None).await;
        refused(&asset, status, &headers, &problem);
        for what in ["kubeconfig", "snapshot", "usage"] {
            let address = format!("/api/v1/environments/{out}/{what}");
            let (status, headers, problem) = with(&world, "GET", &address, &[], None).await;
            refused(&address, status, &headers, &problem);
        }
        let address = format!("/api/v1/templates/{out}");
        let (status, headers, problem) = with(&world, "GET", &address, &[], None).await;
        refused(&address, status, &headers, &problem);
    }
    // The name of an export is the server's, whatever is asked for.
    let (status, headers, _) =
        with(&world, "GET", "/api/v1/audit/export?format=csv&filename=..%2f..%2fx", &[], None).await;
    assert_eq!(status, StatusCode::OK);
    assert_eq!(headers[header::CONTENT_DISPOSITION], "attachment; filename=\"audit.csv\"");
    let (status, ..) = with(&world, "GET", "/api/v1/audit/export?format=..%2fx", &[], None).await;
    assert!(status.is_client_error(), "{status}");
    // A link in a request for a page stays what it is.
    let (status, ..) = sent(&world, as_somebody(None, "GET", "/environments/..%2f..%2fapi%2fv1%2fsession", None)).await;
    assert_eq!(status, StatusCode::UNAUTHORIZED, "it is a page for who is signed in, and nothing else");
}
