//! What the cluster serves: legacy and aggregated discovery, and the index of its OpenAPI documents.

use axum::body::Body;
use http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use vctl_machinery::{
    catalog::{Catalog, Descriptor},
    openapi,
    status::ApiError,
};

use crate::aggregation;

use super::{
    Context,
    negotiate::{self, Accept},
    respond,
};

/// Answers discovery requests; none for paths that are none.
pub(crate) async fn serve(context: &Context) -> Result<Option<Response<Body>>, ApiError> {
    let catalog = context.plane.catalog().await?;
    let path = context.info.path.trim_matches('/');
    let parts: Vec<&str> = path.split('/').collect();
    let document = match parts.as_slice() {
        [""] => json!({ "paths": root_paths(&catalog) }),
        ["api"] => match aggregated_version(&context.headers) {
            Some(version) => return aggregated(context, &catalog, true, version).await.map(Some),
            None => json!({ "kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": [{
                "clientCIDR": "0.0.0.0/0", "serverAddress": context.headers.get(header::HOST).and_then(|h| h.to_str().ok()).unwrap_or_default(),
            }] }),
        },
        ["apis"] => match aggregated_version(&context.headers) {
            Some(version) => return aggregated(context, &catalog, false, version).await.map(Some),
            None => {
                let mut groups: Vec<Value> =
                    groups(&catalog).into_iter().filter(|g| !g.is_empty()).map(|g| group(&catalog, g)).collect();
                aggregation::merge_groups(&context.plane, &catalog, &mut groups).await?;
                json!({ "kind": "APIGroupList", "apiVersion": "v1", "groups": groups })
            }
        },
        ["apis", name] => {
            let mut found: Vec<Value> = groups(&catalog)
                .into_iter()
                .filter(|g| g == name && !g.is_empty())
                .map(|g| group(&catalog, g))
                .collect();
            aggregation::merge_groups(&context.plane, &catalog, &mut found).await?;
            let Some(mut document) = found.into_iter().find(|g| g["name"] == *name) else { return Ok(None) };
            document["kind"] = "APIGroup".into();
            document["apiVersion"] = "v1".into();
            document
        }
        ["api", version] => match resources(&catalog, "", version) {
            Some(list) => list,
            None => return Ok(None),
        },
        ["apis", group, version] => match resources(&catalog, group, version) {
            Some(list) => list,
            None => return Ok(None),
        },
        ["openapi", "v2"] => return super::openapi::v2(context, &catalog).await,
        ["openapi", "v3"] => {
            let mut paths: serde_json::Map<String, Value> = openapi::v3_index(&catalog)
                .iter()
                .map(|(path, hash)| {
                    let url = format!("/openapi/v3/{path}?hash={hash}");
                    (path.clone(), json!({ "serverRelativeURL": url }))
                })
                .collect();
            aggregation::merge_openapi(&context.plane, &catalog, &mut paths).await?;
            // An address under the server's own root: kubectl 1.27.0 and 1.27.1 put nothing before it, and later ones take it as it is.
            for entry in paths.values_mut() {
                if let Some(url) = entry["serverRelativeURL"].as_str().filter(|u| u.starts_with("/openapi/v3")) {
                    entry["serverRelativeURL"] = format!("{}{url}", context.prefix).into();
                }
            }
            json!({ "paths": paths })
        }
        ["openapi", "v3", rest @ ..] => return super::openapi::v3(context, &catalog, rest.join("/")).await,
        _ => return Ok(None),
    };
    let accept = Accept {
        pretty: negotiate::accept(&context.headers, &context.query).is_ok_and(|a| a.pretty),
        ..Accept::json()
    };
    respond::object(StatusCode::OK, &document, &accept, &context.headers, &[]).map(Some)
}

/// Groups in the order of the catalog.
fn groups(catalog: &Catalog) -> Vec<&str> {
    let mut groups: Vec<&str> = Vec::new();
    for row in catalog.rows() {
        if !groups.contains(&row.group.as_str()) {
            groups.push(&row.group);
        }
    }
    groups
}

/// Versions of a group, preferred first.
fn versions<'a>(catalog: &'a Catalog, group: &str) -> Vec<&'a str> {
    let mut versions: Vec<&str> = Vec::new();
    for row in catalog.rows().iter().filter(|r| r.group == group) {
        if !versions.contains(&row.version.as_str()) {
            versions.push(&row.version);
        }
    }
    versions
}

fn root_paths(catalog: &Catalog) -> Vec<String> {
    let mut paths = vec![
        "/.well-known/openid-configuration".to_owned(),
        "/api".to_owned(),
        "/api/v1".to_owned(),
        "/apis".to_owned(),
    ];
    for group in groups(catalog).into_iter().filter(|g| !g.is_empty()) {
        paths.push(format!("/apis/{group}"));
        paths.extend(versions(catalog, group).iter().map(|v| format!("/apis/{group}/{v}")));
    }
    paths.extend(
        ["/healthz", "/livez", "/metrics", "/openapi/v2", "/openapi/v3", "/openid/v1/jwks", "/readyz", "/version"]
            .map(String::from),
    );
    paths
}

fn group(catalog: &Catalog, name: &str) -> Value {
    let versions: Vec<Value> = versions(catalog, name)
        .into_iter()
        .map(|v| json!({ "groupVersion": format!("{name}/{v}"), "version": v }))
        .collect();
    json!({ "name": name, "preferredVersion": versions.first(), "versions": versions })
}

/// `APIResourceList` of a group version.
fn resources(catalog: &Catalog, group: &str, version: &str) -> Option<Value> {
    let rows: Vec<&Descriptor> =
        catalog.rows().iter().map(|r| &**r).filter(|r| r.group == group && r.version == version).collect();
    let first = rows.first()?;
    let mut list = Vec::new();
    for row in &rows {
        let mut entry = json!({
            "name": row.plural, "singularName": row.singular, "namespaced": row.namespaced, "kind": row.kind, "verbs": row.verbs,
        });
        if !row.short_names.is_empty() {
            entry["shortNames"] = row.short_names.clone().into();
        }
        if !row.categories.is_empty() {
            entry["categories"] = row.categories.clone().into();
        }
        if !row.verbs.is_empty() && row.verbs != ["create"] {
            entry["storageVersionHash"] =
                hash(format!("{}/{}/{}", row.group, row.storage_version, row.kind).as_bytes())[..12].into();
        }
        if !row.verbs.is_empty() {
            list.push(entry);
        }
        for sub in &row.subresources {
            let mut entry = json!({
                "name": format!("{}/{}", row.plural, sub.name), "singularName": "", "namespaced": row.namespaced, "kind": sub.kind,
                "verbs": sub.verbs,
            });
            if sub.group != row.group || sub.version != row.version {
                if !sub.group.is_empty() {
                    entry["group"] = sub.group.clone().into();
                }
                entry["version"] = sub.version.clone().into();
            }
            list.push(entry);
        }
    }
    let mut document = json!({ "kind": "APIResourceList", "groupVersion": first.api_version(), "resources": list });
    if !group.is_empty() {
        document["apiVersion"] = "v1".into();
    }
    Some(document)
}

/// Version of `apidiscovery.k8s.io` that the client prefers to plain JSON.
fn aggregated_version(headers: &HeaderMap) -> Option<&'static str> {
    for clause in negotiate::clauses(headers) {
        if !matches!(&*clause.media, "application/json" | "*/*" | "application/*") {
            continue;
        }
        if clause.parameter("as").is_empty() {
            return None;
        }
        if clause.parameter("g") == "apidiscovery.k8s.io" && clause.parameter("as") == "APIGroupDiscoveryList" {
            match clause.parameter("v") {
                "v2" => return Some("v2"),
                "v2beta1" => return Some("v2beta1"),
                _ => {}
            }
        }
    }
    None
}

async fn aggregated(
    context: &Context,
    catalog: &Catalog,
    core: bool,
    version: &str,
) -> Result<Response<Body>, ApiError> {
    let mut items: Vec<Value> = groups(catalog)
        .into_iter()
        .filter(|g| g.is_empty() == core)
        .map(|group| {
            let versions: Vec<Value> = versions(catalog, group)
                .into_iter()
                .map(|v| {
                    let rows = catalog.rows().iter().filter(|r| r.group == group && r.version == v);
                    json!({ "version": v, "resources": rows.map(|r| aggregated_resource(r)).collect::<Vec<_>>(), "freshness": "Current" })
                })
                .collect();
            let metadata = if group.is_empty() { json!({ "creationTimestamp": null }) } else { json!({ "name": group, "creationTimestamp": null }) };
            json!({ "metadata": metadata, "versions": versions })
        })
        .collect();
    if !core {
        aggregation::merge_aggregated(&context.plane, catalog, &mut items).await?;
    }
    let document = json!({
        "kind": "APIGroupDiscoveryList", "apiVersion": format!("apidiscovery.k8s.io/{version}"), "metadata": {}, "items": items,
    });
    let mut response = respond_hashed(context, &document)?;
    let media = format!("application/json;g=apidiscovery.k8s.io;v={version};as=APIGroupDiscoveryList");
    if let Ok(value) = HeaderValue::from_str(&media) {
        response.headers_mut().insert(header::CONTENT_TYPE, value);
    }
    response.headers_mut().insert(header::VARY, HeaderValue::from_static("Accept"));
    Ok(response)
}

fn aggregated_resource(row: &Descriptor) -> Value {
    let mut resource = json!({
        "resource": row.plural, "responseKind": { "group": row.group, "version": row.version, "kind": row.kind },
        "scope": if row.namespaced { "Namespaced" } else { "Cluster" }, "singularResource": row.singular, "verbs": row.verbs,
    });
    if !row.short_names.is_empty() {
        resource["shortNames"] = row.short_names.clone().into();
    }
    if !row.categories.is_empty() {
        resource["categories"] = row.categories.clone().into();
    }
    if !row.subresources.is_empty() {
        resource["subresources"] = row
            .subresources
            .iter()
            .map(|s| json!({
                "subresource": s.name, "responseKind": { "group": s.group, "version": s.version, "kind": s.kind }, "verbs": s.verbs,
            }))
            .collect();
    }
    resource
}

fn hash(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(64);
    for byte in Sha256::digest(bytes) {
        text.push_str(&format!("{byte:02X}"));
    }
    text
}

/// A document with its ETag, or 304 when the client has it.
fn respond_hashed(context: &Context, document: &Value) -> Result<Response<Body>, ApiError> {
    let etag = format!("\"{}\"", hash(document.to_string().as_bytes()));
    let known = context.headers.get(header::IF_NONE_MATCH).and_then(|v| v.to_str().ok());
    let mut response = if known.is_some_and(|k| k.split(',').any(|k| k.trim() == etag)) {
        respond::bytes(StatusCode::NOT_MODIFIED, "application/json", Vec::new())
    } else {
        respond::object(StatusCode::OK, document, &Accept::json(), &context.headers, &[])?
    };
    if let Ok(value) = HeaderValue::from_str(&etag) {
        response.headers_mut().insert(header::ETAG, value);
    }
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("public"));
    Ok(response)
}
