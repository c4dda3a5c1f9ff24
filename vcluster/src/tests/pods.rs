use super::*;

const PODS: &str = "/api/v1/namespaces/default/pods";
const SERVICES: &str = "/api/v1/namespaces/default/services";

#[tokio::test]
async fn a_new_pod_is_admitted() {
    let f = Fixture::new().await;
    let pod = f.ok("POST", PODS, pod("p")).await;
    assert_eq!(pod["status"], json!({ "phase": "Pending", "qosClass": "BestEffort" }));
    assert_eq!(pod["spec"]["serviceAccountName"], "default");
    assert_eq!(
        (&pod["spec"]["priority"], &pod["spec"]["preemptionPolicy"]),
        (&json!(0), &json!("PreemptLowerPriority"))
    );
    assert_eq!(pod["spec"]["tolerations"].as_array().unwrap().len(), 2);
    let volume = &pod["spec"]["volumes"][0];
    assert!(volume["name"].as_str().unwrap().starts_with("kube-api-access-"));
    assert_eq!(
        pod["spec"]["containers"][0]["volumeMounts"][0]["mountPath"],
        "/var/run/secrets/kubernetes.io/serviceaccount"
    );
    let mut stray = super::pod("stray");
    stray["spec"]["serviceAccountName"] = "nope".into();
    let (status, answer) = f.send("POST", PODS, stray).await;
    assert_eq!(status, StatusCode::FORBIDDEN);
    assert_eq!(
        answer["message"],
        "pods \"stray\" is forbidden: error looking up service account default/nope: serviceaccount \"nope\" not found"
    );
}

#[tokio::test]
async fn a_bound_pod_gets_its_grace() {
    let f = Fixture::new().await;
    f.ok("POST", PODS, pod("p")).await;
    let binding = json!({ "apiVersion": "v1", "kind": "Binding", "metadata": { "name": "p" }, "target": { "kind": "Node", "name": "n1" } });
    f.ok("POST", &format!("{PODS}/p/binding"), binding.clone()).await;
    let (status, answer) = f.send("POST", &format!("{PODS}/p/binding"), binding).await;
    assert_eq!(
        (status, answer["message"].as_str().unwrap()),
        (
            StatusCode::CONFLICT,
            "Operation cannot be fulfilled on pods/binding \"p\": pod p is already assigned to node \"n1\""
        )
    );
    let log = f.ok("GET", &format!("{PODS}/p/log?tailLines=3"), Value::Null).await;
    assert_eq!(log, "p c Some(3)\n");
    let marked = f.ok("DELETE", &format!("{PODS}/p"), json!({ "gracePeriodSeconds": 20 })).await;
    assert_eq!(marked["metadata"]["deletionGracePeriodSeconds"], 20);
    assert_eq!(marked["metadata"]["deletionTimestamp"], "2026-01-02T03:04:25Z");
    let sooner = f.ok("DELETE", &format!("{PODS}/p"), json!({ "gracePeriodSeconds": 5 })).await;
    assert_eq!(sooner["metadata"]["deletionTimestamp"], "2026-01-02T03:04:10Z");
    f.ok("DELETE", &format!("{PODS}/p"), json!({ "gracePeriodSeconds": 0 })).await;
    assert_eq!(f.send("GET", &format!("{PODS}/p"), Value::Null).await.0, StatusCode::NOT_FOUND);
}

fn service(name: &str, spec: Value) -> Value {
    let mut spec = spec;
    spec["ports"] = json!([{ "port": 80, "protocol": "TCP" }]);
    json!({ "apiVersion": "v1", "kind": "Service", "metadata": { "name": name }, "spec": spec })
}

#[tokio::test]
async fn addresses_and_ports_are_given_once() {
    let f = Arc::new(Fixture::new().await);
    let all = futures::future::join_all((0..30).map(|i| {
        let f = f.clone();
        async move { f.ok("POST", SERVICES, service(&format!("s{i}"), json!({ "type": "NodePort" }))).await }
    }))
    .await;
    let ips: std::collections::HashSet<_> = all.iter().map(|s| s["spec"]["clusterIP"].as_str().unwrap()).collect();
    let ports: std::collections::HashSet<_> =
        all.iter().map(|s| s["spec"]["ports"][0]["nodePort"].as_u64().unwrap()).collect();
    assert_eq!((ips.len(), ports.len()), (30, 30));

    let ip = all[0]["spec"]["clusterIP"].as_str().unwrap();
    let (status, answer) = f.send("POST", SERVICES, service("same", json!({ "clusterIP": ip }))).await;
    assert_eq!(
        (status, &answer["details"]["causes"][0]["field"]),
        (StatusCode::UNPROCESSABLE_ENTITY, &json!("spec.clusterIPs"))
    );
    f.ok("DELETE", &format!("{SERVICES}/s0"), Value::Null).await;
    f.ok("POST", SERVICES, service("same", json!({ "clusterIP": ip }))).await;

    let headless = f.ok("POST", SERVICES, service("headless", json!({ "clusterIP": "None" }))).await;
    assert_eq!(headless["spec"]["clusterIPs"], json!(["None"]));
    let mut kept = service("s1", json!({ "type": "NodePort" }));
    kept["metadata"]["labels"] = json!({ "a": "b" });
    let updated = f.ok("PUT", &format!("{SERVICES}/s1"), kept).await;
    assert_eq!(updated["spec"]["clusterIP"], all[1]["spec"]["clusterIP"]);
    assert_eq!(updated["spec"]["ports"][0]["nodePort"], all[1]["spec"]["ports"][0]["nodePort"]);
}

#[tokio::test]
async fn an_eviction_asks_the_budget() {
    let f = Fixture::new().await;
    f.ok("POST", PODS, pod("p")).await;
    let mut running = f.ok("GET", &format!("{PODS}/p"), Value::Null).await;
    running["status"]["phase"] = "Running".into();
    running["status"]["conditions"] = json!([{ "type": "Ready", "status": "True" }]);
    f.ok("PUT", &format!("{PODS}/p/status"), running).await;
    let budgets = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";
    let budget = json!({ "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": { "name": "b" },
        "spec": { "minAvailable": 1, "selector": { "matchLabels": { "app": "p" } } } });
    let mut budget = f.ok("POST", budgets, budget).await;
    budget["status"] = json!({ "observedGeneration": 1, "disruptionsAllowed": 0, "desiredHealthy": 1, "currentHealthy": 1, "expectedPods": 1 });
    let mut budget = f.ok("PUT", &format!("{budgets}/b/status"), budget).await;
    let eviction = json!({ "apiVersion": "policy/v1", "kind": "Eviction", "metadata": { "name": "p" } });
    let (status, answer) = f.send("POST", &format!("{PODS}/p/eviction"), eviction.clone()).await;
    assert_eq!(status, StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(
        answer["details"]["causes"][0]["message"],
        "The disruption budget b needs 1 healthy pods and has 1 currently"
    );
    budget["status"]["disruptionsAllowed"] = 1.into();
    f.ok("PUT", &format!("{budgets}/b/status"), budget).await;
    f.ok("POST", &format!("{PODS}/p/eviction"), eviction).await;
    assert_eq!(f.send("GET", &format!("{PODS}/p"), Value::Null).await.0, StatusCode::NOT_FOUND);
}
