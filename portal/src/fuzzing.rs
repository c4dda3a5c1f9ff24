//! What `fuzz/` reaches: templates. Only compiled by cargo-fuzz.

use std::collections::BTreeMap;

use serde_json::json;

use crate::templates::{catalog, render};

/// Reads and renders a template with this text as its manifest.
pub fn template(manifest: &str) {
    let head = "apiVersion: vctl.dev/v1\nkind: Template\nname: t\nversion: 1.0.0\ntitle: T\n";
    let files =
        vec![("template.yaml".to_owned(), head.to_owned()), ("manifests/a.yaml".to_owned(), manifest.to_owned())];
    let Ok(template) = catalog::read("t", files) else { return };
    let parameters = BTreeMap::from([
        ("name".to_owned(), json!("web")),
        ("replicas".to_owned(), json!(3)),
        ("debug".to_owned(), json!(true)),
    ]);
    let _ = render::render(&template, "dev", &parameters);
}
