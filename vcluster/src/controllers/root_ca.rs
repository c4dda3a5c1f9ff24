//! Every namespace has a ConfigMap `kube-root-ca.crt` with the certificate that pods trust.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{
    context::{Context, Failure, is_namespace_terminating},
    object::annotation,
    service_account::is_active,
};

/// Name of the ConfigMap.
pub(super) const NAME: &str = "kube-root-ca.crt";
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

pub(super) async fn reconcile(cx: &Context<'_>, namespace: &str) -> Result<Option<Timestamp>, Failure> {
    let Some(owner) = cx.find("namespaces", "", namespace).await? else { return Ok(None) };
    if !is_active(&owner) {
        return Ok(None);
    }
    let live = cx.find("configmaps", namespace, NAME).await?;
    let certificate = cx.clients.root_certificate(cx.tenant).await?;
    let Some(wanted) = plan(live.as_ref(), namespace, &certificate) else { return Ok(None) };
    let written = if live.is_some() {
        cx.client.update("configmaps", namespace, NAME, "", wanted).await
    } else {
        cx.client.create("configmaps", namespace, wanted).await
    };
    match written {
        Err(e) if e.reason != "AlreadyExists" && !is_namespace_terminating(&e) => Err(e.into()),
        _ => Ok(None),
    }
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
