//! Pods run as a service account and get its token.

use serde_json::{Value, json};
use vctl_machinery::status::ApiError;

use crate::objects::{Call, Target, create::random_suffix};

const MOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
/// An hour and a little, as upstream asks for; kubelets renew at 80 %.
const TOKEN_SECONDS: i64 = 3607;

/// Chooses the account, checks that it is there, mounts its token, adds its pull secrets.
pub(super) async fn admit(call: &Call, target: &Target, pod: &mut Value) -> Result<(), ApiError> {
    if pod.pointer("/metadata/annotations/kubernetes.io~1config.mirror").is_some() {
        return Ok(());
    }
    let spec = &mut pod["spec"];
    let mut account = spec["serviceAccountName"].as_str().unwrap_or_default().to_owned();
    if account.is_empty() {
        account = spec["serviceAccount"].as_str().filter(|a| !a.is_empty()).unwrap_or("default").to_owned();
    }
    spec["serviceAccountName"] = account.clone().into();
    spec["serviceAccount"] = account.clone().into();
    let namespace = &target.namespace;
    let Some(object) = call.plane.object("serviceaccounts", namespace, &account).await? else {
        let why =
            format!("error looking up service account {namespace}/{account}: serviceaccount {account:?} not found");
        return Err(target.forbidden(super::name_of(pod), &why));
    };
    let spec = &mut pod["spec"];
    let automount =
        spec["automountServiceAccountToken"].as_bool().or_else(|| object["automountServiceAccountToken"].as_bool());
    if automount.unwrap_or(true) {
        mount_token(spec);
    }
    let has_secrets = spec["imagePullSecrets"].as_array().is_some_and(|s| !s.is_empty());
    if !has_secrets && let Some(secrets) = object["imagePullSecrets"].as_array().filter(|s| !s.is_empty()) {
        spec["imagePullSecrets"] = json!(secrets);
    }
    Ok(())
}

/// Adds the projected volume and a mount in every container that mounts nothing there.
fn mount_token(spec: &mut Value) {
    const PREFIX: &str = "kube-api-access-";
    let existing = spec["volumes"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|v| v["name"].as_str())
        .find(|n| n.starts_with(PREFIX));
    let name = existing.map_or_else(|| format!("{PREFIX}{}", random_suffix()), ToOwned::to_owned);
    let had_volume = existing.is_some();
    let mut mounted = false;
    for field in ["initContainers", "containers"] {
        for container in spec[field].as_array_mut().into_iter().flatten() {
            let mounts = &mut container["volumeMounts"];
            if mounts
                .as_array()
                .into_iter()
                .flatten()
                .any(|m| m["mountPath"].as_str().map(|p| p.trim_end_matches('/')) == Some(MOUNT))
            {
                continue;
            }
            let mount = json!({ "name": name, "readOnly": true, "mountPath": MOUNT });
            match mounts.as_array_mut() {
                Some(list) => list.push(mount),
                None => *mounts = json!([mount]),
            }
            mounted = true;
        }
    }
    if !mounted || had_volume {
        return;
    }
    let volume = json!({ "name": name, "projected": { "defaultMode": 420, "sources": [
        { "serviceAccountToken": { "expirationSeconds": TOKEN_SECONDS, "path": "token" } },
        { "configMap": { "name": "kube-root-ca.crt", "items": [{ "key": "ca.crt", "path": "ca.crt" }] } },
        { "downwardAPI": { "items": [{ "path": "namespace", "fieldRef": { "apiVersion": "v1", "fieldPath": "metadata.namespace" } }] } },
    ] } });
    match spec["volumes"].as_array_mut() {
        Some(list) => list.push(volume),
        None => spec["volumes"] = json!([volume]),
    }
}
