//! Lives and deaths: names, finalizers, owners, namespaces.

use anyhow::{Result, ensure};
use serde_json::json;

use crate::{api::Api, suite::Suite};

const GC: &str = "[sig-api-machinery] Garbage collector should";

fn owned(api: &Api, name: &str, owner: &str, block: bool) -> Result<()> {
    let uid = api.get(&format!("v1~/configmaps/{owner}")).is(200)?.text("/metadata/uid").to_owned();
    let body = json!({ "metadata": { "name": name, "ownerReferences": [{ "apiVersion": "v1", "kind": "ConfigMap", "name": owner, "uid": uid, "blockOwnerDeletion": block }] } });
    api.post("v1~/configmaps", body).is(201).map(drop)
}

fn workload(api: &Api) -> Result<()> {
    api.post("apps/v1~/deployments", "{metadata: {name: d}, spec: {replicas: 2, selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: 'registry.example/c:1'}]}}}}").is(201)?;
    api.wait_for("apps/v1~/deployments/d", "{status: {replicas: 2}}").map(drop)
}

fn count(api: &Api, path: &str, wanted: usize) -> Result<()> {
    api.until(path, |list| {
        ensure!(list.names().len() == wanted, "{path} has {:?}, not {wanted}", list.names());
        Ok(())
    })
    .map(drop)
}

/// The only slice of the service `db` shows this address, or there is none.
fn mirrored(api: &Api, address: Option<&str>) -> Result<()> {
    api.until("discovery.k8s.io/v1~/endpointslices?labelSelector=kubernetes.io/service-name%3Ddb", |list| {
        let shown = list.at("/items").as_array().map(Vec::as_slice).unwrap_or_default();
        let one = |a: &str| {
            let slice = shown.first();
            shown.len() == 1
                && slice
                    .is_some_and(|s| s["ports"].as_array().is_some_and(|p| p.len() == 1) && s["ports"][0]["port"] == 80)
                && slice.is_some_and(|s| s["endpoints"].as_array().is_some_and(|e| e.len() == 1))
                && slice.is_some_and(|s| s["endpoints"][0]["addresses"] == json!([a]))
        };
        ensure!(address.map_or(shown.is_empty(), one), "{}", list.body);
        Ok(())
    })
    .map(drop)
}

pub(crate) fn checks(s: &mut Suite) {
    s.check(
        "Endpoints written by hand are mirrored",
        "[sig-network] EndpointSliceMirroring should mirror a custom Endpoints resource through create update and delete",
        |api| {
            api.post("v1~/services", "{metadata: {name: db}, spec: {ports: [{name: example, port: 80, protocol: TCP}]}}")
                .is(201)?;
            let endpoints = |ip: &str| {
                json!({ "metadata": { "name": "db" }, "subsets": [{ "ports": [{ "port": 80 }], "addresses": [{ "ip": ip }] }] })
            };
            api.post("v1~/endpoints", endpoints("10.1.2.3")).is(201)?;
            mirrored(api, Some("10.1.2.3"))?;
            api.put("v1~/endpoints/db", endpoints("10.2.3.4")).is(200)?;
            mirrored(api, Some("10.2.3.4"))?;
            api.delete("v1~/endpoints/db").is(200)?;
            mirrored(api, None)
        },
    );
    s.check(
        "a generated name has five more characters",
        "staging/src/k8s.io/apiserver/pkg/storage/names/generate.go",
        |api| {
            let made = api.post("v1~/configmaps", "{metadata: {generateName: base-}}").is(201)?;
            let name = made.text("/metadata/name");
            ensure!(name.len() == 10 && name.starts_with("base-"), "{name}");
            ensure!(name[5..].chars().all(|c| "bcdfghjklmnpqrstvwxz2456789".contains(c)), "{name}");
            Ok(())
        },
    );
    s.check("a long base of a name is cut", "staging/src/k8s.io/apiserver/pkg/storage/names/generate.go", |api| {
        let made = api.post("v1~/configmaps", json!({ "metadata": { "generateName": "x".repeat(80) } })).is(201)?;
        ensure!(made.text("/metadata/name").len() == 63, "{}", made.text("/metadata/name"));
        Ok(())
    });
    s.check(
        "a finalizer keeps what is deleted",
        "[sig-api-machinery] Namespaces should apply a finalizer to a Namespace",
        |api| {
            api.post("v1~/configmaps", "{metadata: {name: a, finalizers: [e2e.example/f]}}").is(201)?;
            api.delete("v1~/configmaps/a")
                .is(200)?
                .has("{kind: ConfigMap, metadata: {deletionTimestamp: <any>, deletionGracePeriodSeconds: 0}}")?;
            api.get("v1~/configmaps/a").is(200)?;
            api.patch("merge", "v1~/configmaps/a", "{metadata: {finalizers: null}}").is(200)?;
            api.wait_gone("v1~/configmaps/a")
        },
    );
    s.check("a delete tells what is gone", "staging/src/k8s.io/apiserver/pkg/endpoints/handlers/delete.go", |api| {
        let made = api.post("v1~/configmaps", "{metadata: {name: a}}").is(201)?;
        let gone = api
            .delete("v1~/configmaps/a")
            .is(200)?
            .has("{kind: Status, status: Success, details: {name: a, kind: configmaps}}")?;
        ensure!(gone.text("/details/uid") == made.text("/metadata/uid"), "{}", gone.body);
        Ok(())
    });
    s.check(
        "dependents go in the background",
        format!("{GC} delete RS created by deployment when not orphaning"),
        |api| {
            workload(api)?;
            api.delete_with("apps/v1~/deployments/d", "{propagationPolicy: Background}").is(200)?;
            count(api, "apps/v1~/replicasets", 0)?;
            count(api, "v1~/pods", 0)
        },
    );
    s.check(
        "orphans stay and lose their owner",
        format!("{GC} orphan RS created by deployment when deleteOptions.PropagationPolicy is Orphan"),
        |api| {
            workload(api)?;
            api.delete_with("apps/v1~/deployments/d", "{propagationPolicy: Orphan}").is(200)?;
            api.wait_gone("apps/v1~/deployments/d")?;
            api.until("apps/v1~/replicasets", |list| {
                ensure!(
                    list.names().len() == 1 && list.at("/items/0/metadata/ownerReferences").is_null(),
                    "{}",
                    list.body
                );
                Ok(())
            })?;
            count(api, "v1~/pods", 2)
        },
    );
    s.check(
        "in the foreground the owner goes last",
        format!("{GC} keep the rc around until all its pods are deleted if the deleteOptions says so"),
        |api| {
            api.post("v1~/configmaps", "{metadata: {name: owner}}").is(201)?;
            owned(api, "child", "owner", true)?;
            api.patch("merge", "v1~/configmaps/child", "{metadata: {finalizers: [e2e.example/f]}}").is(200)?;
            api.delete_with("v1~/configmaps/owner", "{propagationPolicy: Foreground}")
                .is(200)?
                .has("{metadata: {finalizers: [foregroundDeletion], deletionTimestamp: <any>}}")?;
            api.wait_for("v1~/configmaps/child", "{metadata: {deletionTimestamp: <any>}}")?;
            api.get("v1~/configmaps/owner").is(200)?;
            api.patch("merge", "v1~/configmaps/child", "{metadata: {finalizers: null}}").is(200)?;
            api.wait_gone("v1~/configmaps/child")?;
            api.wait_gone("v1~/configmaps/owner")
        },
    );
    s.check("what has another owner stays", format!("{GC} not delete dependents that have both valid owner and owner that's waiting for dependents to be deleted"), |api| {
        for name in ["one", "two"] {
            api.post("v1~/configmaps", json!({ "metadata": { "name": name } })).is(201)?;
        }
        owned(api, "child", "one", true)?;
        let uid = api.get("v1~/configmaps/two").is(200)?.text("/metadata/uid").to_owned();
        api.patch("strategic", "v1~/configmaps/child", json!({ "metadata": { "ownerReferences": [{ "apiVersion": "v1", "kind": "ConfigMap", "name": "two", "uid": uid }] } })).is(200)?;
        api.delete_with("v1~/configmaps/one", "{propagationPolicy: Foreground}").is(200)?;
        api.wait_gone("v1~/configmaps/one")?;
        let child = api.get("v1~/configmaps/child").is(200)?.has("{metadata: {deletionTimestamp: null}}")?;
        ensure!(child.at("/metadata/ownerReferences").as_array().is_some_and(|o| o.len() == 1), "{}", child.body);
        Ok(())
    });
    s.check("a circle of owners does not block", format!("{GC} not be blocked by dependency circle"), |api| {
        for name in ["a", "b", "c"] {
            api.post("v1~/configmaps", json!({ "metadata": { "name": name } })).is(201)?;
        }
        for (name, owner) in [("a", "c"), ("b", "a"), ("c", "b")] {
            let uid = api.get(&format!("v1~/configmaps/{owner}")).is(200)?.text("/metadata/uid").to_owned();
            api.patch("merge", &format!("v1~/configmaps/{name}"), json!({ "metadata": { "ownerReferences": [{ "apiVersion": "v1", "kind": "ConfigMap", "name": owner, "uid": uid, "controller": true, "blockOwnerDeletion": true }] } })).is(200)?;
        }
        api.delete_with("v1~/configmaps/a", "{propagationPolicy: Foreground}").is(200)?;
        for name in ["a", "b", "c"] {
            api.wait_gone(&format!("v1~/configmaps/{name}"))?;
        }
        Ok(())
    });
    s.check("an owner that is not there has no dependents", format!("{GC} (absent owners; pkg/controller/garbagecollector)"), |api| {
        api.post("v1~/configmaps", "{metadata: {name: child, ownerReferences: [{apiVersion: v1, kind: ConfigMap, name: none, uid: 6c1c1a52-0000-4000-8000-000000000000}]}}").is(201)?;
        api.wait_gone("v1~/configmaps/child")
    });

    s.check("a namespace begins with its account, certificates and label", "[sig-auth] ServiceAccounts should guarantee kube-root-ca.crt exist in any namespace", |api| {
        api.wait_for("v1~/configmaps/kube-root-ca.crt", "{data: {ca.crt: <any>}}")?;
        api.get("v1/namespaces/{ns}").is(200)?.has("{metadata: {labels: {kubernetes.io/metadata.name: '{ns}'}}, spec: {finalizers: [kubernetes]}, status: {phase: Active}}")?;
        api.delete("v1~/configmaps/kube-root-ca.crt").is(200)?;
        api.wait_for("v1~/configmaps/kube-root-ca.crt", "{data: {ca.crt: <any>}}")?;
        api.patch("merge", "v1~/configmaps/kube-root-ca.crt", "{data: {ca.crt: null, a: b}}").is(200)?;
        api.wait_for("v1~/configmaps/kube-root-ca.crt", "{data: {ca.crt: <any>, a: null}}").map(drop)
    });
    s.check("a namespace takes its pods with it", "[sig-api-machinery] Namespaces [Serial] should ensure that all pods are removed when a namespace is deleted", |api| {
        let inner = api.within(&format!("{}-inner", api.ns));
        inner.post("v1/namespaces", "{metadata: {name: '{ns}'}}").is(201)?;
        inner.wait_for("v1~/serviceaccounts/default", "{}")?;
        inner.post("v1~/pods", "{metadata: {name: p}, spec: {terminationGracePeriodSeconds: 0, containers: [{name: c, image: 'registry.example/c:1'}]}}").is(201)?;
        inner.delete("v1/namespaces/{ns}").is(200)?.has("{kind: Namespace, status: {phase: Terminating}}")?;
        inner.wait_gone("v1/namespaces/{ns}")?;
        inner.post("v1/namespaces", "{metadata: {name: '{ns}'}}").is(201)?;
        count(&inner, "v1~/pods", 0)
    });
    s.check("a namespace takes its services with it", "[sig-api-machinery] Namespaces [Serial] should ensure that all services are removed when a namespace is deleted", |api| {
        let inner = api.within(&format!("{}-inner", api.ns));
        inner.post("v1/namespaces", "{metadata: {name: '{ns}'}}").is(201)?;
        inner.post("v1~/services", "{metadata: {name: s}, spec: {ports: [{port: 80}]}}").is(201)?;
        inner.delete("v1/namespaces/{ns}").is(200)?;
        inner.wait_gone("v1/namespaces/{ns}")?;
        inner.post("v1/namespaces", "{metadata: {name: '{ns}'}}").is(201)?;
        count(&inner, "v1~/services", 0)
    });
    s.check(
        "a namespace is patched and updated",
        "[sig-api-machinery] Namespaces [Serial] should patch a Namespace; should apply an update to a Namespace",
        |api| {
            api.patch("strategic", "v1/namespaces/{ns}", "{metadata: {labels: {testLabel: testValue}}}")
                .is(200)?
                .has("{metadata: {labels: {testLabel: testValue}}}")?;
            crate::kinds::retry(|| {
                let mut body = api.get("v1/namespaces/{ns}").is(200)?.body;
                body["metadata"]["labels"]["updated"] = "yes".into();
                api.put("v1/namespaces/{ns}", &body).is(200)
            })?
            .has("{metadata: {labels: {updated: 'yes'}}}")
            .map(drop)
        },
    );
    s.check("a namespace's status is patched and updated", "[sig-api-machinery] Namespaces [Serial] should apply changes to a namespace status", |api| {
        api.patch("merge", "v1/namespaces/{ns}/status", "{metadata: {annotations: {e: patched}}, status: {conditions: [{type: StatusPatch, status: 'True', reason: E2E, message: Set by an e2e test}]}}").is(200)?;
        api.get("v1/namespaces/{ns}/status").is(200)?.has("{status: {phase: Active, conditions: [{type: StatusPatch}]}}").map(drop)
    });
    s.check(
        "a namespace's finalizer is set and taken through finalize",
        "[sig-api-machinery] Namespaces [Serial] should apply a finalizer to a Namespace",
        |api| {
            let mut body = api.get("v1/namespaces/{ns}").is(200)?.body;
            body["spec"]["finalizers"] = json!(["kubernetes", "e2e.example/fakeFinalizer"]);
            api.put("v1/namespaces/{ns}/finalize", &body)
                .is(200)?
                .has("{spec: {finalizers: [kubernetes, e2e.example/fakeFinalizer]}}")?;
            let mut body = api.get("v1/namespaces/{ns}").is(200)?.body;
            body["spec"]["finalizers"] = json!(["kubernetes"]);
            api.put("v1/namespaces/{ns}/finalize", &body).is(200)?.has("{spec: {finalizers: [kubernetes]}}").map(drop)
        },
    );
    s.check(
        "what cannot go is told in the namespace's conditions",
        "[sig-api-machinery] OrderedNamespaceDeletion namespace deletion should delete pod first",
        |api| {
            let inner = api.within(&format!("{}-inner", api.ns));
            inner.post("v1/namespaces", "{metadata: {name: '{ns}'}}").is(201)?;
            inner.post("v1~/configmaps", "{metadata: {name: a, finalizers: [e2e.example/f]}}").is(201)?;
            inner.delete("v1/namespaces/{ns}").is(200)?;
            inner.until("v1/namespaces/{ns}", |ns| {
                let conditions = ns.at("/status/conditions").as_array().cloned().unwrap_or_default();
                ensure!(
                    conditions.iter().any(|c| c["type"] == "NamespaceFinalizersRemaining" && c["status"] == "True"),
                    "{conditions:?}"
                );
                Ok(())
            })?;
            inner.patch("merge", "v1~/configmaps/a", "{metadata: {finalizers: null}}").is(200)?;
            inner.wait_gone("v1/namespaces/{ns}")
        },
    );
}
