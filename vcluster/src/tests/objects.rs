use super::*;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

#[tokio::test]
async fn create_get_update_delete() {
    let f = Fixture::new().await;
    let created = f.config_map("a", "1").await;
    assert_eq!(created["metadata"]["namespace"], "default");
    assert_eq!(created["metadata"]["creationTimestamp"], "2026-01-02T03:04:05Z");
    assert_eq!(f.ok("GET", &format!("{MAPS}/a"), Value::Null).await, created);

    let mut changed = created.clone();
    changed["data"]["k"] = "2".into();
    let updated = f.ok("PUT", &format!("{MAPS}/a"), changed.clone()).await;
    assert_ne!(updated["metadata"]["resourceVersion"], created["metadata"]["resourceVersion"]);
    assert_eq!(updated["metadata"]["uid"], created["metadata"]["uid"]);

    let (status, conflict) = f.send("PUT", &format!("{MAPS}/a"), changed).await;
    assert_eq!((status, &conflict["reason"]), (StatusCode::CONFLICT, &json!("Conflict")));
    assert_eq!(
        conflict["message"],
        "Operation cannot be fulfilled on configmaps \"a\": the object has been modified; please apply your changes to the latest version and try again"
    );
    let same = f.ok("PUT", &format!("{MAPS}/a"), updated.clone()).await;
    assert_eq!(same["metadata"]["resourceVersion"], updated["metadata"]["resourceVersion"], "nothing changed");

    let deleted = f.ok("DELETE", &format!("{MAPS}/a"), Value::Null).await;
    assert_eq!(deleted["status"], "Success");
    assert_eq!(deleted["details"], json!({ "name": "a", "kind": "configmaps", "uid": created["metadata"]["uid"] }));
    let (status, missing) = f.send("GET", &format!("{MAPS}/a"), Value::Null).await;
    assert_eq!(status, StatusCode::NOT_FOUND);
    assert_eq!(
        missing,
        json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": "configmaps \"a\" not found",
            "reason": "NotFound", "details": { "name": "a", "kind": "configmaps" }, "code": 404,
        })
    );
}

#[tokio::test]
async fn wrong_requests_are_refused_in_upstreams_words() {
    let f = Fixture::new().await;
    f.config_map("a", "1").await;
    let cases = [
        ("POST", MAPS.to_owned(), config_map("a", "1"), 409, "configmaps \"a\" already exists"),
        (
            "POST",
            "/api/v1/namespaces/nope/configmaps".into(),
            config_map("a", "1"),
            404,
            "namespaces \"nope\" not found",
        ),
        ("PUT", format!("{MAPS}/b"), config_map("b", "1"), 404, "configmaps \"b\" not found"),
        (
            "PUT",
            format!("{MAPS}/a"),
            config_map("b", "1"),
            400,
            "the name of the object (b) does not match the name on the URL (a)",
        ),
        (
            "POST",
            MAPS.into(),
            json!({ "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": "x" } }),
            400,
            "the API version in the data (apps/v1) does not match the expected API version (v1)",
        ),
        (
            "POST",
            MAPS.into(),
            json!({ "metadata": { "name": "x", "namespace": "kube-system" } }),
            400,
            "the namespace of the provided object does not match the namespace sent on the request",
        ),
        (
            "DELETE",
            "/api/v1/namespaces/default".into(),
            Value::Null,
            403,
            "namespaces \"default\" is forbidden: this namespace may not be deleted",
        ),
    ];
    for (method, uri, body, code, message) in cases {
        let (status, answer) = f.send(method, &uri, body).await;
        assert_eq!((status.as_u16(), answer["message"].as_str()), (code, Some(message)), "{method} {uri}");
    }
    let (status, answer) =
        f.send_as(&f.admin, &[("content-type", "text/plain")], "POST", MAPS, config_map("x", "1")).await;
    assert_eq!((status.as_u16(), &answer["reason"]), (415, &json!("UnsupportedMediaType")));
    let big = config_map("big", &"x".repeat(4 << 20));
    let (status, answer) = f.send("POST", MAPS, big).await;
    assert_eq!((status.as_u16(), &answer["reason"]), (413, &json!("RequestEntityTooLarge")));
}

#[tokio::test]
async fn generated_names_are_unique() {
    let f = Fixture::new().await;
    let body = json!({ "metadata": { "generateName": "x-" } });
    let (a, b) = (f.ok("POST", MAPS, body.clone()).await, f.ok("POST", MAPS, body).await);
    let name = |o: &Value| o["metadata"]["name"].as_str().unwrap().to_owned();
    assert_ne!(name(&a), name(&b));
    assert_eq!((name(&a).len(), a["metadata"]["generateName"].clone()), (7, json!("x-")));
}

#[tokio::test]
async fn dry_runs_store_nothing() {
    let f = Fixture::new().await;
    f.ok("POST", &format!("{MAPS}?dryRun=All"), config_map("a", "1")).await;
    assert_eq!(f.send("GET", &format!("{MAPS}/a"), Value::Null).await.0, StatusCode::NOT_FOUND);
    f.config_map("a", "1").await;
    assert_eq!(f.send("POST", &format!("{MAPS}?dryRun=All"), config_map("a", "1")).await.0, StatusCode::CONFLICT);
    f.ok("DELETE", &format!("{MAPS}/a"), json!({ "dryRun": ["All"] })).await;
    f.ok("GET", &format!("{MAPS}/a"), Value::Null).await;
    assert_eq!(
        f.send("POST", &format!("{MAPS}?dryRun=Some"), config_map("c", "1")).await.0,
        StatusCode::UNPROCESSABLE_ENTITY
    );
}

#[tokio::test]
async fn finalizers_hold_an_object_until_they_are_removed() {
    let f = Fixture::new().await;
    let mut body = config_map("a", "1");
    body["metadata"]["finalizers"] = json!(["example.org/hold"]);
    f.ok("POST", MAPS, body).await;
    let marked = f.ok("DELETE", &format!("{MAPS}/a"), Value::Null).await;
    assert_eq!(marked["metadata"]["deletionTimestamp"], "2026-01-02T03:04:05Z");
    let still = f.ok("GET", &format!("{MAPS}/a"), Value::Null).await;
    assert_eq!(still["metadata"]["resourceVersion"], marked["metadata"]["resourceVersion"]);
    let mut free = still;
    free["metadata"]["finalizers"] = json!([]);
    f.ok("PUT", &format!("{MAPS}/a"), free).await;
    assert_eq!(f.send("GET", &format!("{MAPS}/a"), Value::Null).await.0, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn propagation_policies_leave_their_finalizers() {
    let f = Fixture::new().await;
    for (policy, finalizer) in [("Orphan", "orphan"), ("Foreground", "foregroundDeletion")] {
        let name = policy.to_lowercase();
        f.config_map(&name, "1").await;
        let marked = f.ok("DELETE", &format!("{MAPS}/{name}"), json!({ "propagationPolicy": policy })).await;
        assert_eq!(marked["metadata"]["finalizers"], json!([finalizer]));
    }
}

#[tokio::test]
async fn deletion_honours_preconditions() {
    let f = Fixture::new().await;
    f.config_map("a", "1").await;
    let (status, answer) = f.send("DELETE", &format!("{MAPS}/a"), json!({ "preconditions": { "uid": "other" } })).await;
    assert_eq!(status, StatusCode::CONFLICT);
    assert!(
        answer["message"]
            .as_str()
            .unwrap()
            .contains("the UID in the precondition (other) does not match the UID in record")
    );
}

#[tokio::test]
async fn leases_are_created_by_update() {
    let f = Fixture::new().await;
    let lease =
        json!({ "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": { "name": "l" }, "spec": {} });
    let (status, _) = f.send("PUT", "/apis/coordination.k8s.io/v1/namespaces/default/leases/l", lease.clone()).await;
    assert_eq!(status, StatusCode::CREATED);
    let (status, answer) = f.send("PUT", "/apis/coordination.k8s.io/v1/namespaces/default/leases/l", lease).await;
    assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY, "{answer}");
}

#[tokio::test]
async fn a_namespace_goes_when_it_is_finalized() {
    let f = Fixture::new().await;
    f.ok("POST", "/api/v1/namespaces", json!({ "metadata": { "name": "team" } })).await;
    let marked = f.ok("DELETE", "/api/v1/namespaces/team", Value::Null).await;
    assert_eq!(
        (&marked["status"]["phase"], &marked["spec"]["finalizers"]),
        (&json!("Terminating"), &json!(["kubernetes"]))
    );
    let (status, answer) = f.send("POST", "/api/v1/namespaces/team/configmaps", config_map("late", "1")).await;
    assert_eq!(status, StatusCode::FORBIDDEN);
    assert_eq!(answer["details"]["causes"][0]["reason"], "NamespaceTerminating");
    assert_eq!(
        answer["message"],
        "configmaps \"late\" is forbidden: unable to create new content in namespace team because it is being terminated"
    );
    let mut done = marked;
    done["spec"]["finalizers"] = json!([]);
    f.ok("PUT", "/api/v1/namespaces/team/finalize", done).await;
    assert_eq!(f.send("GET", "/api/v1/namespaces/team", Value::Null).await.0, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn status_and_spec_change_apart_and_generation_counts_the_spec() {
    let f = Fixture::new().await;
    let uri = "/apis/apps/v1/namespaces/default/deployments";
    let body = json!({ "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": "d" }, "status": { "replicas": 9 }, "spec": {
        "replicas": 1, "selector": { "matchLabels": { "app": "d" } },
        "template": { "metadata": { "labels": { "app": "d" } }, "spec": { "containers": [{ "name": "c", "image": "i" }] } },
    } });
    let created = f.ok("POST", uri, body).await;
    assert_eq!((&created["metadata"]["generation"], &created["status"]), (&json!(1), &json!({})));
    let mut both = created.clone();
    both["spec"]["replicas"] = 2.into();
    both["status"] = json!({ "replicas": 5 });
    let status = f.ok("PUT", &format!("{uri}/d/status"), both.clone()).await;
    assert_eq!(
        (&status["spec"]["replicas"], &status["status"]["replicas"], &status["metadata"]["generation"]),
        (&json!(1), &json!(5), &json!(1))
    );
    both["metadata"]["resourceVersion"] = Value::Null;
    both["status"] = json!({ "replicas": 7 });
    let spec = f.ok("PUT", &format!("{uri}/d"), both).await;
    assert_eq!(
        (&spec["spec"]["replicas"], &spec["status"]["replicas"], &spec["metadata"]["generation"]),
        (&json!(2), &json!(5), &json!(2))
    );
    let scale = f.ok("GET", &format!("{uri}/d/scale"), Value::Null).await;
    assert_eq!(
        (&scale["kind"], &scale["spec"]["replicas"], &scale["status"]["selector"]),
        (&json!("Scale"), &json!(2), &json!("app=d"))
    );
    let mut up = scale;
    up["spec"]["replicas"] = 4.into();
    assert_eq!(f.ok("PUT", &format!("{uri}/d/scale"), up).await["spec"]["replicas"], 4);
    let patched = f
        .send_as(
            &f.admin,
            &[("content-type", "application/merge-patch+json")],
            "PATCH",
            &format!("{uri}/d/scale"),
            json!({ "spec": { "replicas": 6 } }),
        )
        .await;
    assert_eq!((patched.0, &patched.1["spec"]["replicas"]), (StatusCode::OK, &json!(6)), "{}", patched.1);
}

#[tokio::test]
async fn concurrent_patches_all_count() {
    let f = Arc::new(Fixture::new().await);
    f.config_map("a", "1").await;
    let patches = (0..20).map(|i| {
        let f = f.clone();
        async move {
            let patch = json!({ "data": { format!("k{i}"): "v" } });
            f.send_as(
                &f.admin,
                &[("content-type", "application/merge-patch+json")],
                "PATCH",
                &format!("{MAPS}/a"),
                patch,
            )
            .await
            .0
        }
    });
    assert!(futures::future::join_all(patches).await.iter().all(|s| *s == StatusCode::OK));
    assert_eq!(f.ok("GET", &format!("{MAPS}/a"), Value::Null).await["data"].as_object().unwrap().len(), 21);
}

#[tokio::test]
async fn yaml_comes_and_goes() {
    let f = Fixture::new().await;
    let request = Request::post(MAPS).header("content-type", "application/yaml").header("accept", "application/yaml");
    let request = request.body(Body::from("metadata: {name: y}\ndata: {k: v}\n")).unwrap();
    let response = f.planes.handle(NAME, request, f.admin.clone()).await;
    assert_eq!(
        (response.status(), &response.headers()["content-type"]),
        (StatusCode::CREATED, &http::HeaderValue::from_static("application/yaml"))
    );
    let body = response.into_body().collect().await.unwrap().to_bytes();
    let value: Value = serde_yaml::from_slice(&body).unwrap();
    assert_eq!(value["data"]["k"], "v");
}

#[tokio::test]
async fn texts_of_a_secret_become_data() {
    let f = Fixture::new().await;
    let secret =
        json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "s" }, "stringData": { "a": "b" } });
    let secret = f.ok("POST", "/api/v1/namespaces/default/secrets", secret).await;
    assert_eq!((&secret["data"], secret.get("stringData")), (&json!({ "a": "Yg==" }), None));
}

#[tokio::test]
async fn an_object_cannot_grow_without_end_by_patches() {
    let f = Fixture::new().await;
    let uri = "/api/v1/namespaces/default/podtemplates";
    let long = |name: &str| json!([{ "name": name, "image": "i", "args": ["y".repeat(900_000)] }]);
    let template = json!({ "apiVersion": "v1", "kind": "PodTemplate", "metadata": { "name": "a" },
        "template": { "spec": { "containers": long("c") } } });
    f.ok("POST", uri, template).await;
    let merge = [("content-type", "application/merge-patch+json")];
    let change = json!({ "template": { "spec": { "initContainers": long("i") } } });
    let (status, answer) = f.send_as(&f.admin, &merge, "PATCH", &format!("{uri}/a"), change).await;
    assert_eq!((status, &answer["reason"]), (StatusCode::PAYLOAD_TOO_LARGE, &json!("RequestEntityTooLarge")));
}
