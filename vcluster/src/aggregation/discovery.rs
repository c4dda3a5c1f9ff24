//! What aggregated APIs serve, merged into the cluster's discovery.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use serde_json::{Map, Value, json};
use tokio::time::Instant;
use vctl_machinery::{catalog::Catalog, status::ApiError};

use super::ApiService;
use crate::plane::Plane;

/// How long what a server said of itself is believed.
const FRESH: Duration = Duration::from_secs(30);

/// What servers have said of themselves: `APIResourceList` by name of APIService. Can be thrown away at any time.
#[derive(Default)]
pub(crate) struct Discovered(Mutex<HashMap<String, (Instant, Value)>>);

impl Discovered {
    /// What a server serves; none when it does not say.
    async fn resources(&self, plane: &Arc<Plane>, service: &ApiService) -> Option<Value> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&service.name).cloned();
        if let Some((at, list)) = &known
            && at.elapsed() < FRESH
        {
            return Some(list.clone());
        }
        if !service.available {
            return None;
        }
        match service.read(plane, &service.path()).await {
            Ok(list) => {
                let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
                all.insert(service.name.clone(), (Instant::now(), list.clone()));
                Some(list)
            }
            Err(error) => {
                tracing::debug!(service = %service.name, %error, "an aggregated API does not say what it serves");
                None
            }
        }
    }
}

/// The aggregated APIs by group, in order.
async fn groups(plane: &Arc<Plane>, catalog: &Catalog) -> Result<Vec<(String, Vec<Arc<ApiService>>)>, ApiError> {
    let services = plane.api_services().await?;
    let mut groups: Vec<(String, Vec<Arc<ApiService>>)> = Vec::new();
    for service in services.beside(catalog) {
        match groups.iter_mut().find(|(group, _)| *group == service.group) {
            Some((_, versions)) => versions.push(service.clone()),
            None => groups.push((service.group.clone(), vec![service.clone()])),
        }
    }
    Ok(groups)
}

fn versions(group: &str, services: &[Arc<ApiService>]) -> Vec<Value> {
    let of = |s: &Arc<ApiService>| json!({ "groupVersion": format!("{group}/{}", s.version), "version": s.version });
    services.iter().map(of).collect()
}

/// Adds the aggregated versions to groups (`APIGroup`s) that are there, and further groups.
pub(crate) async fn merge_groups(plane: &Arc<Plane>, catalog: &Catalog, list: &mut Vec<Value>) -> Result<(), ApiError> {
    for (group, services) in groups(plane, catalog).await? {
        let more = versions(&group, &services);
        match list.iter_mut().find(|g| g["name"] == group.as_str()).and_then(|g| g["versions"].as_array_mut()) {
            Some(known) => known.extend(more),
            None => list.push(json!({ "name": group, "preferredVersion": more.first(), "versions": more })),
        }
    }
    Ok(())
}

/// Adds the aggregated APIs to an `APIGroupDiscoveryList`.
pub(crate) async fn merge_aggregated(
    plane: &Arc<Plane>,
    catalog: &Catalog,
    list: &mut Vec<Value>,
) -> Result<(), ApiError> {
    for (group, services) in groups(plane, catalog).await? {
        let asked =
            services.iter().map(|s| async move { (s.version.clone(), plane.discovered.resources(plane, s).await) });
        let more: Vec<Value> = futures::future::join_all(asked)
            .await
            .into_iter()
            .map(|(version, list)| match list {
                Some(list) => json!({ "version": version, "resources": resources(&group, &version, &list), "freshness": "Current" }),
                None => json!({ "version": version, "freshness": "Stale" }),
            })
            .collect();
        let known = list.iter_mut().find(|g| g["metadata"]["name"] == group.as_str());
        match known.and_then(|g| g["versions"].as_array_mut()) {
            Some(known) => known.extend(more),
            None => list.push(json!({ "metadata": { "name": group, "creationTimestamp": null }, "versions": more })),
        }
    }
    Ok(())
}

/// Adds the documents of aggregated APIs that say that they have one to the index of OpenAPI v3.
pub(crate) async fn merge_openapi(
    plane: &Arc<Plane>,
    catalog: &Catalog,
    paths: &mut Map<String, Value>,
) -> Result<(), ApiError> {
    let services = plane.api_services().await?;
    for service in services.beside(catalog).filter(|s| s.available) {
        let Ok(index) = service.read(plane, "/openapi/v3").await else { continue };
        let path = format!("apis/{}/{}", service.group, service.version);
        if let Some(entry) = index["paths"].get(&path).filter(|e| e["serverRelativeURL"].is_string()) {
            paths.insert(path, entry.clone());
        }
    }
    Ok(())
}

/// From an `APIResourceList` to the resources of a version of aggregated discovery.
fn resources(group: &str, version: &str, list: &Value) -> Vec<Value> {
    let all = list["resources"].as_array().map(Vec::as_slice).unwrap_or_default();
    let name = |r: &Value| r["name"].as_str().unwrap_or_default().to_owned();
    let kind = |r: &Value| {
        let or = |field: &str, own: &str| r[field].as_str().filter(|t| !t.is_empty()).unwrap_or(own).to_owned();
        json!({ "group": or("group", group), "version": or("version", version), "kind": r["kind"] })
    };
    let mut found = Vec::new();
    for resource in all.iter().filter(|r| !name(r).contains('/')) {
        let mut entry = json!({
            "resource": resource["name"], "responseKind": kind(resource), "verbs": resource["verbs"],
            "scope": if resource["namespaced"] == true { "Namespaced" } else { "Cluster" },
            "singularResource": resource["singularName"].as_str().unwrap_or_default(),
        });
        for field in ["shortNames", "categories"] {
            if resource[field].as_array().is_some_and(|l| !l.is_empty()) {
                entry[field] = resource[field].clone();
            }
        }
        let prefix = format!("{}/", name(resource));
        let parts: Vec<Value> = all
            .iter()
            .filter_map(|r| {
                let full = name(r);
                let own = full.strip_prefix(&prefix)?;
                Some(json!({ "subresource": own, "responseKind": kind(r), "verbs": r["verbs"] }))
            })
            .collect();
        if !parts.is_empty() {
            entry["subresources"] = parts.into();
        }
        found.push(entry);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_resources_become_aggregated_discovery() {
        let list = json!({ "resources": [
            { "name": "flunders", "singularName": "flunder", "namespaced": true, "kind": "Flunder", "verbs": ["get"], "shortNames": ["fl"] },
            { "name": "flunders/status", "singularName": "", "namespaced": true, "kind": "Flunder", "verbs": ["update"] },
        ] });
        assert_eq!(
            resources("wardle.example.com", "v1", &list),
            [json!({
                "resource": "flunders", "scope": "Namespaced", "singularResource": "flunder", "verbs": ["get"], "shortNames": ["fl"],
                "responseKind": { "group": "wardle.example.com", "version": "v1", "kind": "Flunder" },
                "subresources": [{ "subresource": "status", "verbs": ["update"],
                    "responseKind": { "group": "wardle.example.com", "version": "v1", "kind": "Flunder" } }],
            })]
        );
    }
}
