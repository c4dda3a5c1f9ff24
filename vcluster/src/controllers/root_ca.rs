//! Every namespace has a ConfigMap `kube-root-ca.crt` with the certificate that pods trust.

use jiff::Timestamp;
use serde_json::{Value, json};
use vctl_machinery::status::ApiError;

use super::{
    context::{Context, Failure, is_namespace_terminating},
    object::annotation,
    queue::Controller,
    service_account::is_active,
};
use crate::{client::Client, storage};

/// Name of the ConfigMap.
pub(super) const NAME: &str = "kube-root-ca.crt";
/// How often a change that met another one at the same moment is tried anew.
const TRIES: usize = 8;
const DESCRIPTION: &str = "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such as \
the internal service IP or kubernetes.default.svc. No other usage is guaranteed across distributions of Kubernetes clusters.";

/// What the ConfigMap must hold; none when the live one is as it should be.
fn plan(live: Option<&Value>, namespace: &str, certificate: &str) -> Option<Value> {
    let data = json!({ "ca.crt": certificate });
    match live {
        Some(map) if map["data"] == data && annotation(map, "kubernetes.io/description").is_some() => None,
        Some(map) => {
            let mut map = map.clone();
            map["data"] = data;
            super::object::set_annotation(&mut map, "kubernetes.io/description", DESCRIPTION);
            Some(map)
        }
        None => Some(json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": { "name": NAME, "namespace": namespace, "annotations": { "kubernetes.io/description": DESCRIPTION } },
            "data": data,
        })),
    }
}

/// Whether a stored ConfigMap of that name holds these certificates.
pub(super) fn holds(stored: &[u8], certificates: &str) -> bool {
    serde_json::from_slice::<Value>(stored).is_ok_and(|map| map["data"]["ca.crt"] == certificates)
}

/// All namespaces, after the certificates have changed. Comes again when they change by themselves.
async fn all(cx: &Context<'_>) -> Result<Option<Timestamp>, Failure> {
    let roots = cx.clients.roots(cx.tenant).await?;
    for namespace in cx.stored("namespaces", None).await? {
        let key = vctl_store::Key::new("configmaps", &namespace.key.name, NAME);
        let map = cx.store.get(cx.tenant, &key).await?.0;
        if !map.is_some_and(|map| holds(&map.value, &roots.pem)) {
            cx.wake(Controller::RootCa, &namespace.key.name, "");
        }
    }
    Ok(roots.changes_at)
}

/// One namespace, or (no name) all.
pub(super) async fn reconcile(cx: &Context<'_>, namespace: &str) -> Result<Option<Timestamp>, Failure> {
    if namespace.is_empty() {
        return all(cx).await;
    }
    let Some(owner) = cx.find("namespaces", "", namespace).await? else { return Ok(None) };
    let roots = cx.clients.roots(cx.tenant).await?;
    publish(&*cx.client, &owner, &roots.pem).await?;
    Ok(None)
}

/// Has the ConfigMap of a namespace hold these certificates.
pub(crate) async fn publish(client: &dyn Client, namespace: &Value, certificates: &str) -> Result<(), ApiError> {
    if !is_active(namespace) {
        return Ok(());
    }
    let name = namespace["metadata"]["name"].as_str().unwrap_or_default();
    for _ in 0..TRIES {
        let live = match client.get("configmaps", name, NAME).await {
            Ok(map) => Some(map),
            Err(e) if e.code == 404 => None,
            Err(e) => return Err(e),
        };
        let Some(wanted) = plan(live.as_ref(), name, certificates) else { return Ok(()) };
        let written = if live.is_some() {
            client.update("configmaps", name, NAME, "", wanted).await
        } else {
            client.create("configmaps", name, wanted).await
        };
        match written {
            Err(e) if is_namespace_terminating(&e) => return Ok(()),
            // The controller and a rotation may be at it together.
            Err(e) if e.code == 409 || e.code == 404 => {}
            done => return done.map(drop),
        }
    }
    Err(storage::unavailable("the certificates of a namespace are being changed; try again"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_tenants_change_is_put_back() {
        let made = plan(None, "ns", "PEM").unwrap();
        assert_eq!(plan(Some(&made), "ns", "PEM"), None);
        let mut edited = made.clone();
        edited["data"]["ca.crt"] = "evil".into();
        edited["metadata"]["resourceVersion"] = "5".into();
        let fixed = plan(Some(&edited), "ns", "PEM").unwrap();
        assert_eq!(fixed["data"], made["data"]);
        assert_eq!(fixed["metadata"]["resourceVersion"], "5");
    }
}
