//! OpenAPI v2 and v3 documents from the catalog and the schemas.

use serde_json::Value;

use crate::catalog::Catalog;

/// The index at `/openapi/v3`: path (`api/v1`, `apis/apps/v1`) to content hash.
pub fn v3_index(catalog: &Catalog) -> Vec<(String, String)> {
    let _ = catalog;
    Vec::new()
}

/// The document of one path of the index.
pub fn v3(catalog: &Catalog, path: &str) -> Option<Value> {
    let _ = (catalog, path);
    None
}

/// The whole `/openapi/v2` document as JSON.
pub fn v2(catalog: &Catalog) -> Value {
    let _ = catalog;
    Value::Null
}
