//! OpenAPI v2 and v3 documents from the catalog and the schemas.
//!
//! Documents are made when asked for and not kept; hashes come from what they are made of, so that they need no document.

mod custom;
mod gnostic;
mod operations;
mod schemas;

use std::fmt::Write as _;

use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};

use crate::catalog::{Catalog, Descriptor};

/// Which of the two forms a document has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    V2,
    V3,
}

fn path_of(row: &Descriptor) -> String {
    if row.group.is_empty() { format!("api/{}", row.version) } else { format!("apis/{}/{}", row.group, row.version) }
}

fn info(catalog: &Catalog) -> Value {
    json!({ "title": "Kubernetes", "version": catalog.kubernetes().git_version() })
}

fn hex(hash: Sha256) -> String {
    let mut text = String::with_capacity(64);
    for byte in hash.finalize() {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02X}");
    }
    text
}

/// The index at `/openapi/v3`: path (`api/v1`, `apis/apps/v1`) to hash of what determines the document. Made once for a catalog.
pub fn v3_index(catalog: &Catalog) -> &[(String, String)] {
    catalog.openapi_index(|| {
        let mut start = Sha256::new();
        start.update(env!("CARGO_PKG_VERSION"));
        start.update([catalog.kubernetes().number()]);
        start.update(include_str!("../facts/schema.txt"));
        let mut hashes: Vec<(String, Sha256)> = Vec::new();
        for row in catalog.rows() {
            let path = path_of(row);
            let at = hashes.iter().position(|(p, _)| *p == path).unwrap_or_else(|| {
                hashes.push((path, start.clone()));
                hashes.len() - 1
            });
            hashes[at].1.update(format!("{row:?}"));
        }
        hashes.into_iter().map(|(path, hash)| (path, hex(hash))).collect()
    })
}

/// Hash of what determines the `/openapi/v2` document.
pub fn v2_hash(catalog: &Catalog) -> String {
    let mut hash = Sha256::new();
    for (path, of) in v3_index(catalog) {
        hash.update(path);
        hash.update([0]);
        hash.update(of);
    }
    hex(hash)
}

/// The rows that the document of a path of the index describes.
pub fn v3_rows<'c>(catalog: &'c Catalog, path: &'c str) -> impl Iterator<Item = &'c Descriptor> {
    catalog.rows().iter().map(|r| &**r).filter(move |r| path_of(r) == path)
}

/// The document of one path of the index.
pub fn v3(catalog: &Catalog, path: &str) -> Option<Value> {
    let rows: Vec<&Descriptor> = v3_rows(catalog, path).collect();
    if rows.is_empty() {
        return None;
    }
    let mut schemas = schemas::Schemas::new(Form::V3, catalog.kubernetes());
    let paths = paths(&rows, &mut schemas);
    Some(json!({
        "openapi": "3.0.0",
        "info": info(catalog),
        "paths": paths,
        "components": { "schemas": schemas.finish() },
    }))
}

/// The whole `/openapi/v2` document as JSON.
pub fn v2(catalog: &Catalog) -> Value {
    let rows: Vec<&Descriptor> = catalog.rows().iter().map(|r| &**r).collect();
    let mut schemas = schemas::Schemas::new(Form::V2, catalog.kubernetes());
    let paths = paths(&rows, &mut schemas);
    json!({ "swagger": "2.0", "info": info(catalog), "paths": paths, "definitions": schemas.finish() })
}

/// The definitions of [`v2`] in protobuf (`application/com.github.proto-openapi.spec.v2@v1.0+protobuf`), which kubectl before 1.29
/// insists on.
pub fn v2_protobuf(catalog: &Catalog) -> Vec<u8> {
    gnostic::document(&v2(catalog))
}

fn paths(rows: &[&Descriptor], schemas: &mut schemas::Schemas) -> Map<String, Value> {
    let mut paths = Map::new();
    for row in rows {
        operations::add(row, schemas, &mut paths);
    }
    paths
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::version::MinorVersion;

    fn refs(value: &Value, found: &mut Vec<String>) {
        match value {
            Value::Object(map) => {
                if let Some(Value::String(name)) = map.get("$ref") {
                    found.push(name.clone());
                }
                map.values().for_each(|v| refs(v, found));
            }
            Value::Array(items) => items.iter().for_each(|v| refs(v, found)),
            _ => {}
        }
    }

    #[test]
    fn every_reference_leads_somewhere() {
        let of = |version| {
            let catalog = Catalog::of(version);
            let documents = v3_index(catalog).iter().map(|(path, _)| v3(catalog, path).unwrap());
            documents.chain([v2(catalog)]).collect::<Vec<_>>()
        };
        for document in MinorVersion::all().flat_map(of) {
            let mut found = Vec::new();
            refs(&document, &mut found);
            assert!(!found.is_empty());
            for name in found {
                assert!(document.pointer(name.trim_start_matches('#')).is_some(), "{name}");
            }
        }
    }

    /// kubectl looks for a PATCH with the kind and this parameter before it creates anything.
    #[test]
    fn kubectl_finds_field_validation() {
        let catalog = Catalog::builtin();
        let document = v3(catalog, "apis/apps/v1").unwrap();
        let patch = &document["paths"]["/apis/apps/v1/namespaces/{namespace}/deployments/{name}"]["patch"];
        assert_eq!(
            patch["x-kubernetes-group-version-kind"],
            json!({ "group": "apps", "version": "v1", "kind": "Deployment" })
        );
        let parameters = patch["parameters"].as_array().unwrap();
        for name in ["fieldValidation", "dryRun", "fieldManager", "force"] {
            assert!(parameters.iter().any(|p| p["name"] == name && p["in"] == "query"), "{name}");
        }
        assert_eq!(patch["x-kubernetes-action"], "patch");
        let spec = &document["components"]["schemas"]["io.k8s.api.apps.v1.DeploymentSpec"];
        assert_eq!(spec["required"], json!(["selector", "template"]));
        assert_eq!(spec["properties"]["replicas"]["format"], "int32");
        assert_eq!(spec["properties"]["strategy"]["x-kubernetes-patch-strategy"], "retainKeys");
    }

    #[test]
    fn every_version_has_its_own_fields() {
        let spec = |version: MinorVersion| {
            let document = v3(Catalog::of(version), "api/v1").unwrap();
            assert_eq!(document["info"]["version"], version.git_version());
            document["components"]["schemas"]["io.k8s.api.core.v1.PodSpec"]["properties"].clone()
        };
        assert!(spec(MinorVersion::OLDEST)["hostnameOverride"].is_null());
        assert!(spec(MinorVersion::DEFAULT)["hostnameOverride"].is_object());
        assert!(spec(MinorVersion::DEFAULT)["evictionResponders"].is_null());
        assert!(spec(MinorVersion::NEWEST)["evictionResponders"].is_object());
        let hashes: std::collections::BTreeSet<String> =
            MinorVersion::all().map(|v| v3_index(Catalog::of(v))[0].1.clone()).collect();
        assert_eq!(hashes.len(), MinorVersion::all().count());
    }

    #[test]
    fn explanations_are_there() {
        let document = v3(Catalog::builtin(), "api/v1").unwrap();
        let pod = &document["components"]["schemas"]["io.k8s.api.core.v1.Pod"];
        assert!(
            pod["description"].as_str().is_some_and(|d| d.starts_with("Pod is a collection of containers")),
            "{pod}"
        );
        let containers = &document["components"]["schemas"]["io.k8s.api.core.v1.PodSpec"]["properties"]["containers"];
        assert!(containers["description"].as_str().is_some_and(|d| d.contains("containers belonging to the pod")));
    }

    #[test]
    fn protobuf_has_every_definition() {
        let catalog = Catalog::builtin();
        let json = v2(catalog);
        let bytes = v2_protobuf(catalog);
        let fields: Vec<_> = crate::protobuf::wire::entries(&bytes).map(Result::unwrap).collect();
        let definitions = fields.iter().find(|(number, _)| *number == 9).unwrap().1.bytes().unwrap();
        let count = crate::protobuf::wire::entries(definitions).map(Result::unwrap).count();
        assert_eq!(count, json["definitions"].as_object().unwrap().len());
    }

    #[test]
    fn hashes_are_stable_and_follow_the_rows() {
        let catalog = Catalog::builtin();
        assert_eq!(v3_index(catalog), v3_index(catalog));
        assert_eq!(v3_index(catalog)[0].0, "api/v1");
        let mut row = (**catalog.resource("apps", "v1", "deployments").unwrap()).clone();
        row.group = "example.com".into();
        row.custom = true;
        let more = catalog.with([std::sync::Arc::new(row)]);
        let index = v3_index(&more);
        assert!(index.iter().any(|(path, _)| path == "apis/example.com/v1"));
        assert!(v3_index(catalog).iter().all(|entry| index.contains(entry)));
        assert!(v3(&more, "apis/example.com/v1").is_some());
        assert!(v3_rows(&more, "apis/example.com/v1").all(|r| r.custom));
        assert_ne!(v2_hash(catalog), v2_hash(&more));
        assert!(v3(&more, "apis/nobody/v1").is_none());
    }
}
