use super::*;

const PODS: &str = "/api/v1/namespaces/n/pods";
const MERGE: (&str, &str) = ("content-type", "application/merge-patch+json");

async fn namespace(f: &Fixture, labels: Value) {
    f.ok("POST", "/api/v1/namespaces", json!({ "metadata": { "name": "n", "labels": labels } })).await;
    f.ok("POST", "/api/v1/namespaces/n/serviceaccounts", json!({ "metadata": { "name": "default" } })).await;
}

async fn warnings(f: &Fixture, method: &str, uri: &str, body: Value, headers: &[(&str, &str)]) -> Vec<String> {
    let response = f.raw(&f.admin, headers, method, uri, body).await;
    assert!(response.status().is_success(), "{}", response.status());
    let values = response.headers().get_all("warning").iter();
    values.map(|v| v.to_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn what_violates_the_enforced_level_is_refused_in_upstreams_words() {
    let f = Fixture::new().await;
    namespace(&f, json!({ "pod-security.kubernetes.io/enforce": "restricted" })).await;
    let (status, refused) = f.send("POST", PODS, pod("p")).await;
    assert_eq!(status, StatusCode::FORBIDDEN);
    assert_eq!(
        refused["message"],
        "pods \"p\" is forbidden: violates PodSecurity \"restricted:latest\": allowPrivilegeEscalation != false (container \"c\" must set \
         securityContext.allowPrivilegeEscalation=false), unrestricted capabilities (container \"c\" must set \
         securityContext.capabilities.drop=[\"ALL\"]), runAsNonRoot != true (pod or container \"c\" must set \
         securityContext.runAsNonRoot=true), seccompProfile (pod or container \"c\" must set securityContext.seccompProfile.type to \
         \"RuntimeDefault\" or \"Localhost\")"
    );
    let mut good = pod("good");
    good["spec"]["securityContext"] = json!({ "runAsNonRoot": true, "seccompProfile": { "type": "RuntimeDefault" } });
    good["spec"]["containers"][0]["securityContext"] =
        json!({ "allowPrivilegeEscalation": false, "capabilities": { "drop": ["ALL"] } });
    f.ok("POST", PODS, good).await;
    // A template is only warned of.
    let deployment = json!({ "metadata": { "name": "d" }, "spec": {
        "selector": { "matchLabels": { "a": "b" } },
        "template": { "metadata": { "labels": { "a": "b" } }, "spec": { "containers": [{ "name": "c", "image": "i", "securityContext": { "privileged": true } }] } } } });
    let found = warnings(&f, "POST", "/apis/apps/v1/namespaces/n/deployments", deployment, &[]).await;
    assert!(found[0].contains("would violate PodSecurity"), "{found:?}");
    assert!(
        found[0].contains("privileged (container \\\"c\\\" must not set securityContext.privileged=true)"),
        "{found:?}"
    );
}

#[tokio::test]
async fn baseline_lists_every_reason_and_versions_choose_the_rules() {
    let f = Fixture::new().await;
    namespace(&f, json!({ "pod-security.kubernetes.io/enforce": "baseline", "pod-security.kubernetes.io/enforce-version": "v1.25" })).await;
    let mut bad = pod("p");
    bad["spec"]["hostNetwork"] = true.into();
    bad["spec"]["hostPID"] = true.into();
    bad["spec"]["volumes"] = json!([{ "name": "v", "hostPath": { "path": "/" } }]);
    bad["spec"]["containers"][0]["ports"] = json!([{ "containerPort": 80, "hostPort": 80 }]);
    bad["spec"]["containers"][0]["securityContext"] = json!({ "capabilities": { "add": ["SYS_ADMIN", "CHOWN"] } });
    bad["spec"]["securityContext"] =
        json!({ "sysctls": [{ "name": "net.ipv4.ip_local_reserved_ports", "value": "1" }] });
    let (_, refused) = f.send("POST", PODS, bad).await;
    assert_eq!(
        refused["message"],
        "pods \"p\" is forbidden: violates PodSecurity \"baseline:v1.25\": non-default capabilities (container \"c\" must not include \
         \"SYS_ADMIN\" in securityContext.capabilities.add), host namespaces (hostNetwork=true, hostPID=true), hostPath volumes (volume \
         \"v\"), hostPort (container \"c\" uses hostPort 80), forbidden sysctls (net.ipv4.ip_local_reserved_ports)"
    );
}

#[tokio::test]
async fn labels_of_a_namespace_are_checked_and_its_pods_are_looked_at() {
    let f = Fixture::new().await;
    let wrong = json!({ "metadata": { "name": "w", "labels": { "pod-security.kubernetes.io/enforce": "strict" } } });
    let (status, refused) = f.send("POST", "/api/v1/namespaces", wrong).await;
    assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY);
    assert_eq!(
        refused["message"],
        "Namespace \"w\" is invalid: metadata.labels[pod-security.kubernetes.io/enforce]: Invalid value: \"strict\": must be one of privileged, baseline, restricted"
    );
    namespace(&f, json!({})).await;
    for name in ["b", "a"] {
        let mut one = pod(name);
        one["spec"]["containers"][0]["securityContext"] = json!({ "privileged": true });
        f.ok("POST", PODS, one).await;
    }
    let patch = json!({ "metadata": { "labels": { "pod-security.kubernetes.io/enforce": "baseline" } } });
    let found = warnings(&f, "PATCH", "/api/v1/namespaces/n", patch, &[MERGE]).await;
    assert_eq!(
        found,
        [
            "299 - \"existing pods in namespace \\\"n\\\" violate the new PodSecurity enforce level \\\"baseline:latest\\\"\"",
            "299 - \"a (and 1 other pod): privileged\"",
        ]
    );
}

#[tokio::test]
async fn classes_decide_priority_overhead_and_storage() {
    let f = Fixture::new().await;
    let class =
        json!({ "metadata": { "name": "high" }, "value": 1000, "preemptionPolicy": "Never", "globalDefault": true });
    f.ok("POST", "/apis/scheduling.k8s.io/v1/priorityclasses", class.clone()).await;
    let mut second = class;
    second["metadata"]["name"] = "higher".into();
    let (_, refused) = f.send("POST", "/apis/scheduling.k8s.io/v1/priorityclasses", second).await;
    assert_eq!(
        refused["message"],
        "priorityclasses.scheduling.k8s.io \"higher\" is forbidden: PriorityClass high is already marked as default. Only one default can exist"
    );
    let uri = "/api/v1/namespaces/default/pods";
    let made = f.ok("POST", uri, pod("p")).await;
    assert_eq!(
        (&made["spec"]["priorityClassName"], &made["spec"]["priority"], &made["spec"]["preemptionPolicy"]),
        (&json!("high"), &json!(1000), &json!("Never"))
    );
    let runtime = json!({ "metadata": { "name": "kata" }, "handler": "kata", "overhead": { "podFixed": { "cpu": "100m" } },
        "scheduling": { "nodeSelector": { "kata": "yes" }, "tolerations": [{ "key": "kata", "operator": "Exists" }] } });
    f.ok("POST", "/apis/node.k8s.io/v1/runtimeclasses", runtime).await;
    let mut sandboxed = pod("s");
    sandboxed["spec"]["runtimeClassName"] = "kata".into();
    let made = f.ok("POST", uri, sandboxed.clone()).await;
    assert_eq!(
        (&made["spec"]["overhead"], &made["spec"]["nodeSelector"]),
        (&json!({ "cpu": "100m" }), &json!({ "kata": "yes" }))
    );
    sandboxed["spec"]["runtimeClassName"] = "none".into();
    sandboxed["metadata"]["name"] = "t".into();
    let (_, refused) = f.send("POST", uri, sandboxed).await;
    assert_eq!(refused["message"], "pods \"t\" is forbidden: pod rejected: RuntimeClass \"none\" not found");
    let storage = json!({ "metadata": { "name": "fast", "annotations": { "storageclass.kubernetes.io/is-default-class": "true" } }, "provisioner": "p" });
    f.ok("POST", "/apis/storage.k8s.io/v1/storageclasses", storage).await;
    let claim = json!({ "metadata": { "name": "c" }, "spec": {
        "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Gi" } } } });
    let made = f.ok("POST", "/api/v1/namespaces/default/persistentvolumeclaims", claim).await;
    assert_eq!(made["spec"]["storageClassName"], "fast");
}
