use super::*;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const GROUP: &str = "/apis/admissionregistration.k8s.io/v1";

fn policy(name: &str, spec: Value) -> Value {
    let mut spec = spec;
    spec["matchConstraints"] = json!({ "resourceRules": [
        { "operations": ["CREATE", "UPDATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"] }] });
    json!({ "metadata": { "name": name }, "spec": spec })
}

async fn bind(f: &Fixture, name: &str, spec: Value) {
    let mut spec = spec;
    spec["policyName"] = name.into();
    let binding = json!({ "metadata": { "name": format!("{name}-binding") }, "spec": spec });
    f.ok("POST", &format!("{GROUP}/validatingadmissionpolicybindings"), binding).await;
}

#[tokio::test]
async fn policies_refuse_and_warn_in_upstreams_words() {
    let f = Fixture::new().await;
    let spec = json!({
        "variables": [{ "name": "size", "expression": "object.data.size()" }],
        "matchConditions": [{ "name": "users", "expression": "!request.userInfo.username.startsWith('system:')" }],
        "validations": [
            { "expression": "variables.size < 2", "messageExpression": "'too many: ' + string(variables.size)", "reason": "Forbidden" },
            { "expression": "object.metadata.name != 'bad'" },
        ],
    });
    f.ok("POST", &format!("{GROUP}/validatingadmissionpolicies"), policy("maps", spec)).await;
    let stored = f.ok("GET", &format!("{GROUP}/validatingadmissionpolicies/maps"), Value::Null).await;
    assert_eq!(stored["status"], json!({ "observedGeneration": 1, "typeChecking": {} }));
    let mut changed = stored;
    changed["spec"]["failurePolicy"] = "Ignore".into();
    let changed = f.ok("PUT", &format!("{GROUP}/validatingadmissionpolicies/maps"), changed).await;
    assert_eq!(changed["status"]["observedGeneration"], 2);
    f.config_map("free", "1").await;
    bind(&f, "maps", json!({ "validationActions": ["Deny", "Audit"] })).await;
    f.config_map("good", "1").await;
    let response = f.raw(&f.admin, &[], "POST", MAPS, config_map("bad", "1")).await;
    assert_eq!(response.status(), StatusCode::UNPROCESSABLE_ENTITY);
    let mut big = config_map("big", "1");
    big["data"]["l"] = "2".into();
    let (status, refused) = f.send("POST", MAPS, big).await;
    assert_eq!(status, StatusCode::FORBIDDEN);
    assert_eq!(
        refused["message"],
        "configmaps \"big\" is forbidden: ValidatingAdmissionPolicy 'maps' with binding 'maps-binding' denied request: too many: 2"
    );
    let (_, refused) = f.send("POST", MAPS, config_map("bad", "1")).await;
    assert_eq!(refused["reason"], "Invalid");
    assert!(
        refused["message"].as_str().unwrap().ends_with("failed expression: object.metadata.name != 'bad'"),
        "{refused}"
    );
    f.ok("DELETE", &format!("{GROUP}/validatingadmissionpolicybindings/maps-binding"), Value::Null).await;
    f.config_map("bad", "1").await;
}

#[tokio::test]
async fn parameters_and_failures_follow_the_binding() {
    let f = Fixture::new().await;
    let mut limits = policy(
        "limits",
        json!({
            "paramKind": { "apiVersion": "v1", "kind": "ConfigMap" },
            "validations": [{ "expression": "object.metadata.name == 'limit' || object.data.k == params.data.k" }],
        }),
    );
    limits["spec"]["failurePolicy"] = "Fail".into();
    f.ok("POST", &format!("{GROUP}/validatingadmissionpolicies"), limits).await;
    bind(
        &f,
        "limits",
        json!({ "validationActions": ["Deny"], "paramRef": { "name": "limit", "parameterNotFoundAction": "Deny" } }),
    )
    .await;
    let (_, refused) = f.send("POST", MAPS, config_map("limit", "1")).await;
    assert!(
        refused["message"].as_str().unwrap().ends_with(
            "failed to configure binding: no params found for policy binding with `Deny` parameterNotFoundAction"
        ),
        "{refused}"
    );
    let binding = format!("{GROUP}/validatingadmissionpolicybindings/limits-binding");
    let mut live = f.ok("GET", &binding, Value::Null).await;
    live["spec"]["paramRef"]["parameterNotFoundAction"] = "Allow".into();
    f.ok("PUT", &binding, live).await;
    f.config_map("limit", "7").await;
    f.config_map("same", "7").await;
    assert_eq!(f.send("POST", MAPS, config_map("other", "8")).await.0, StatusCode::UNPROCESSABLE_ENTITY);
    let broken =
        policy("broken", json!({ "validations": [{ "expression": "object.x +" }, { "expression": "1 + 1" }] }));
    let (status, refused) = f.send("POST", &format!("{GROUP}/validatingadmissionpolicies"), broken).await;
    assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY);
    let causes = refused["details"]["causes"].as_array().unwrap();
    assert_eq!(causes[0]["field"], "spec.validations[0].expression");
    assert!(causes[1]["message"].as_str().unwrap().ends_with("must evaluate to bool but got int"), "{refused}");
}

/// A MutatingAdmissionPolicy of config maps and its binding.
async fn mutating(f: &Fixture, name: &str, spec: Value, binding: Value) {
    let mut spec = spec;
    if spec.get("reinvocationPolicy").is_none() {
        spec["reinvocationPolicy"] = "Never".into();
    }
    f.ok("POST", &format!("{GROUP}/mutatingadmissionpolicies"), policy(name, spec)).await;
    let mut binding = binding;
    binding["policyName"] = name.into();
    let binding = json!({ "metadata": { "name": format!("{name}-binding") }, "spec": binding });
    f.ok("POST", &format!("{GROUP}/mutatingadmissionpolicybindings"), binding).await;
}

fn configures(expression: &str) -> Value {
    json!([{ "patchType": "ApplyConfiguration", "applyConfiguration": { "expression": expression } }])
}

fn patches(expression: &str) -> Value {
    json!([{ "patchType": "JSONPatch", "jsonPatch": { "expression": expression } }])
}

#[tokio::test]
async fn mutating_policies_configure_and_patch() {
    let f = Fixture::new().await;
    let spec = json!({
        "variables": [{ "name": "size", "expression": "string(object.data.size())" }],
        "matchConditions": [{ "name": "new", "expression": "!has(object.metadata.labels)" }],
        "mutations": [
            configures("Object{metadata: Object.metadata{labels: {'size': variables.size, 'by': request.userInfo.username}}}")[0],
            // The next one sees what the one before did.
            patches("[JSONPatch{op: 'test', path: '/metadata/labels/size', value: '1'}, \
                      JSONPatch{op: 'add', path: '/metadata/labels/' + jsonpatch.escapeKey('a/b'), value: object.metadata.labels.size}]")[0],
        ],
    });
    mutating(&f, "label", spec, json!({})).await;
    let made = f.config_map("one", "1").await;
    assert_eq!(made["metadata"]["labels"], json!({ "size": "1", "by": "kubernetes-admin", "a/b": "1" }));
    // Nobody owns what a policy sets.
    assert!(!made["metadata"]["managedFields"].to_string().contains("f:size"), "{made}");
    let mut two = config_map("two", "1");
    two["data"]["l"] = "2".into();
    let made = f.ok("POST", MAPS, two).await;
    let labels = json!({ "size": "2", "by": "kubernetes-admin" });
    assert_eq!(made["metadata"]["labels"], labels, "a test that fails leaves the object as it is");
    let mut labelled = config_map("three", "1");
    labelled["metadata"]["labels"] = json!({ "x": "y" });
    let made = f.ok("POST", MAPS, labelled).await;
    assert_eq!(made["metadata"]["labels"], json!({ "x": "y" }));
    // Updates are mutated, too; a dry run shows it and stores nothing.
    let mut live = made;
    live["metadata"].as_object_mut().unwrap().remove("labels");
    let shown = f.ok("PUT", &format!("{MAPS}/three?dryRun=All"), live).await;
    assert_eq!(shown["metadata"]["labels"]["size"], "1");
    let stored = f.ok("GET", &format!("{MAPS}/three"), Value::Null).await;
    assert_eq!(stored["metadata"]["labels"], json!({ "x": "y" }));
}

#[tokio::test]
async fn lists_of_pods_are_merged_by_their_keys() {
    let f = Fixture::new().await;
    let rules = json!({ "resourceRules": [{ "operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"] }] });
    let spec =
        |mutations: Value| json!({ "matchConstraints": rules, "reinvocationPolicy": "Never", "mutations": mutations });
    let sidecar = "Object{spec: Object.spec{initContainers: [Object.spec.initContainers{name: 'mesh', image: 'mesh:1', restartPolicy: 'Always'}], \
                   containers: object.spec.containers.map(c, Object.spec.containers{name: c.name, env: [Object.spec.containers.env{name: 'A', value: 'b'}]})}}";
    f.ok(
        "POST",
        &format!("{GROUP}/mutatingadmissionpolicies"),
        json!({ "metadata": { "name": "p" }, "spec": spec(configures(sidecar)) }),
    )
    .await;
    f.ok(
        "POST",
        &format!("{GROUP}/mutatingadmissionpolicybindings"),
        json!({ "metadata": { "name": "b" }, "spec": { "policyName": "p" } }),
    )
    .await;
    let mut wanted = pod("a");
    wanted["spec"]["containers"][0]["env"] = json!([{ "name": "Z", "value": "z" }]);
    let made = f.ok("POST", "/api/v1/namespaces/default/pods", wanted).await;
    assert_eq!(made["spec"]["initContainers"][0]["image"], "mesh:1");
    assert_eq!(made["spec"]["initContainers"][0]["terminationMessagePolicy"], "File", "what is added is defaulted");
    assert_eq!(
        made["spec"]["containers"][0]["env"],
        json!([{ "name": "Z", "value": "z" }, { "name": "A", "value": "b" }])
    );
    assert_eq!(made["spec"]["containers"].as_array().unwrap().len(), 1);
    let refused = async |expression: &str| {
        let uri = format!("{GROUP}/mutatingadmissionpolicies/p");
        let mut live = f.ok("GET", &uri, Value::Null).await;
        live["spec"]["mutations"] = configures(expression);
        f.ok("PUT", &uri, live).await;
        let (status, answer) = f.send("POST", "/api/v1/namespaces/default/pods", pod("b")).await;
        assert_eq!(status, StatusCode::FORBIDDEN);
        assert_eq!(answer["reason"], "Invalid");
        let message = answer["message"].as_str().unwrap();
        let start = "policy 'p' with binding 'b' denied request: ";
        message.strip_prefix(start).expect(message).to_owned()
    };
    assert_eq!(
        refused("Object{spec: Object.spec{containers: [Object.spec.containers{name: 'c', args: ['x']}]}}").await,
        "error applying patch: invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: .spec.containers[0].args"
    );
    assert_eq!(
        refused("Object{spec: Object.wrong{}}").await,
        "type mismatch: unexpected type name \"Object.wrong\", expected \"Object.spec\", which matches field name path from root Object type"
    );
    assert_eq!(
        refused("Object{spec: Object.spec{replicas: 1}}").await,
        "error applying patch: failed to convert patch object to typed object: .spec.replicas: field not declared in schema"
    );
    assert_eq!(
        refused("Object{metadata: Object.metadata{name: object.nothing}}").await,
        "expression 'Object{metadata: Object.metadata{name: object.nothing}}' resulted in error: no such key: nothing"
    );
    let uri = format!("{GROUP}/mutatingadmissionpolicies/p");
    let mut live = f.ok("GET", &uri, Value::Null).await;
    live["spec"]["failurePolicy"] = "Ignore".into();
    f.ok("PUT", &uri, live).await;
    f.ok("POST", "/api/v1/namespaces/default/pods", pod("b")).await;
}

#[tokio::test]
async fn mutating_policies_run_before_webhooks_and_again_when_they_want_to() {
    use super::webhooks::*;
    use base64::{Engine, engine::general_purpose::STANDARD};

    let hook = Webhook::start().await;
    let f = fixture(&hook).await;
    let count = "Object{metadata: Object.metadata{annotations: {'count': \
                 has(object.metadata.annotations) ? string(int(object.metadata.annotations['count']) + 1) : '1'}}}";
    let spec = |policy: &str| json!({ "reinvocationPolicy": policy, "mutations": configures(count) });
    mutating(&f, "count", spec("IfNeeded"), json!({})).await;
    hook.on("/m", |request| {
        assert_eq!(request["object"]["metadata"]["annotations"]["count"], "1", "policies come first");
        let patch = json!([{ "op": "add", "path": "/data/hook", "value": "x" }]);
        json!({ "allowed": true, "patchType": "JSONPatch", "patch": STANDARD.encode(patch.to_string()) })
    });
    configure(&f, "mutating", "m", vec![hook.hook("m", "/m")]).await;
    let made = f.config_map("a", "1").await;
    assert_eq!(made["metadata"]["annotations"], json!({ "count": "2" }));
    let uri = format!("{GROUP}/mutatingadmissionpolicies/count");
    let mut live = f.ok("GET", &uri, Value::Null).await;
    live["spec"]["reinvocationPolicy"] = "Never".into();
    f.ok("PUT", &uri, live).await;
    assert_eq!(f.config_map("b", "1").await["metadata"]["annotations"], json!({ "count": "1" }));
}

#[tokio::test]
async fn mutating_policies_use_parameters_and_bindings() {
    let f = Fixture::new().await;
    f.config_map("settings", "blue").await;
    let mutations = configures("Object{metadata: Object.metadata{labels: {'color': params.data.k}}}");
    let spec = json!({ "paramKind": { "apiVersion": "v1", "kind": "ConfigMap" }, "mutations": mutations });
    let binding = json!({ "paramRef": { "name": "settings", "namespace": "default", "parameterNotFoundAction": "Deny" },
        "matchResources": { "objectSelector": { "matchLabels": { "paint": "yes" } } } });
    mutating(&f, "paint", spec, binding).await;
    assert!(f.config_map("plain", "1").await["metadata"].get("labels").is_none());
    let mut painted = config_map("painted", "1");
    painted["metadata"]["labels"] = json!({ "paint": "yes" });
    let made = f.ok("POST", MAPS, painted.clone()).await;
    assert_eq!(made["metadata"]["labels"], json!({ "paint": "yes", "color": "blue" }));
    f.ok("DELETE", &format!("{MAPS}/settings"), Value::Null).await;
    painted["metadata"]["name"] = "late".into();
    let (status, refused) = f.send("POST", MAPS, painted).await;
    assert_eq!((status, &refused["reason"]), (StatusCode::FORBIDDEN, &json!("Forbidden")));
    assert_eq!(
        refused["message"],
        "policy 'paint' with binding 'paint-binding' denied request: failed to configure binding: no params found for policy binding with `Deny` parameterNotFoundAction"
    );
}

#[tokio::test]
async fn policies_are_validated_in_upstreams_words() {
    let f = Fixture::new().await;
    let refused = async |kind: &str, spec: Value| {
        let body = json!({ "metadata": { "name": "v" }, "spec": spec });
        let (status, answer) = f.send("POST", &format!("{GROUP}/{kind}"), body).await;
        assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY, "{answer}");
        let causes = answer["details"]["causes"].as_array().unwrap().clone();
        let one = |c: &Value| format!("{}: {}", c["field"].as_str().unwrap(), c["message"].as_str().unwrap());
        causes.iter().map(one).collect::<Vec<_>>()
    };
    let rules = json!([{ "operations": ["CREATE", "DELETE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"] }]);
    assert_eq!(
        refused(
            "mutatingadmissionpolicies",
            json!({ "matchConstraints": { "resourceRules": rules }, "mutations": [
                { "patchType": "JSONPatch" },
                { "patchType": "Merge" },
                { "patchType": "ApplyConfiguration", "applyConfiguration": { "expression": "[]" }, "jsonPatch": {} },
                { "patchType": "JSONPatch", "jsonPatch": { "expression": "variables.x" } },
            ] })
        )
        .await,
        [
            "spec.matchConstraints.resourceRules.operations: Unsupported value: \"DELETE\": supported values: \"CREATE\", \"UPDATE\"",
            "spec.mutations[0].jsonPatch: Required value: must be specified when patchType is JSONPatch",
            "spec.mutations[1].patchType: Unsupported value: \"Merge\": supported values: \"ApplyConfiguration\", \"JSONPatch\"",
            "spec.mutations[2].applyConfiguration.expression: Invalid value: \"[]\": must evaluate to Object but got list(dyn)",
            "spec.mutations[2].jsonPatch: Invalid value: \"{jsonPatch}\": must not be specified when patchType is ApplyConfiguration",
            "spec.mutations[3].jsonPatch.expression: Invalid value: \"variables.x\": compilation failed: ERROR: <input>:1:1: undeclared reference to 'variables' (in container '')\n | variables.x\n | ^",
            "spec.reinvocationPolicy: Required value",
        ]
    );
    assert_eq!(
        refused("mutatingadmissionpolicies", json!({})).await,
        [
            "spec.matchConstraints: Required value",
            "spec.mutations: Required value: mutations must contain at least one item",
            "spec.reinvocationPolicy: Required value",
        ]
    );
    assert_eq!(
        refused(
            "validatingadmissionpolicybindings",
            json!({ "validationActions": ["Deny", "Warn", "Warn"], "paramRef": {} })
        )
        .await,
        [
            "spec.policyName: Required value",
            "spec.paramRef: Required value: one of name or selector must be specified",
            "spec.paramRef.parameterNotFoundAction: Required value",
            "spec.validationActions[2]: Duplicate value: \"Warn\"",
            "spec.validationActions: Invalid value: [\"Deny\",\"Warn\",\"Warn\"]: must not contain both Deny and Warn (repeating the same validation failure information in the API response and headers serves no purpose)",
        ]
    );
    let hook = json!({ "name": "a.b.c", "clientConfig": { "url": "https://x/y" }, "sideEffects": "None", "admissionReviewVersions": ["v1"],
        "matchConditions": [{ "name": "x", "expression": "object.x +" }, { "name": "y", "expression": "1" }, { "name": "z", "expression": "params.z" }] });
    let body = json!({ "metadata": { "name": "v" }, "webhooks": [hook] });
    for kind in ["mutating", "validating"] {
        let (status, answer) = f.send("POST", &format!("{GROUP}/{kind}webhookconfigurations"), body.clone()).await;
        assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY);
        let causes = answer["details"]["causes"].as_array().unwrap();
        assert_eq!(causes.len(), 3, "{answer}");
        assert_eq!(causes[0]["field"], "webhooks[0].matchConditions[0].expression");
        assert!(
            causes[0]["message"]
                .as_str()
                .unwrap()
                .starts_with("Invalid value: \"object.x +\": compilation failed: ERROR: <input>:1:11: Syntax error"),
            "{answer}"
        );
        assert_eq!(causes[1]["message"], "Invalid value: \"1\": must evaluate to bool but got int");
    }
}

#[tokio::test]
async fn expressions_ask_what_somebody_may_do() {
    let f = Fixture::new().await;
    let may = "authorizer.group('').resource('secrets').namespace(request.namespace).check('create').allowed()";
    let own = "authorizer.requestResource.check('create').allowed() && authorizer.path('/metrics').check('get').reason() != 'x'";
    let other =
        "!authorizer.serviceAccount('default', 'default').group('').resource('configmaps').check('delete').allowed()";
    let spec = json!({ "validations": [
        { "expression": may, "message": "only who may create secrets", "reason": "Forbidden" },
        { "expression": own }, { "expression": other },
    ] });
    f.ok("POST", &format!("{GROUP}/validatingadmissionpolicies"), policy("asks", spec)).await;
    bind(&f, "asks", json!({ "validationActions": ["Deny"] })).await;
    f.config_map("by-admin", "1").await;
    let role = json!({ "metadata": { "name": "maps" }, "rules": [{ "apiGroups": [""], "resources": ["configmaps"], "verbs": ["*"] }] });
    f.ok("POST", "/apis/rbac.authorization.k8s.io/v1/clusterroles", role).await;
    let binding = json!({ "metadata": { "name": "maps" }, "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "maps" },
        "subjects": [{ "kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "jane" }] });
    f.ok("POST", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", binding).await;
    let as_jane = [("impersonate-user", "jane")];
    let (status, refused) = f.send_as(&f.admin, &as_jane, "POST", MAPS, config_map("by-jane", "1")).await;
    assert_eq!(status, StatusCode::FORBIDDEN, "{refused}");
    assert!(refused["message"].as_str().unwrap().ends_with("denied request: only who may create secrets"), "{refused}");
    let role = json!({ "metadata": { "name": "maps" }, "rules": [{ "apiGroups": [""], "resources": ["configmaps", "secrets"], "verbs": ["*"] }] });
    f.ok("PUT", "/apis/rbac.authorization.k8s.io/v1/clusterroles/maps", role).await;
    let (status, made) = f.send_as(&f.admin, &as_jane, "POST", MAPS, config_map("by-jane", "1")).await;
    assert_eq!(status, StatusCode::CREATED, "{made}");
}

#[tokio::test]
async fn expressions_are_checked_against_the_types_they_will_see() {
    let f = Fixture::new().await;
    let spec = json!({
        "matchConstraints": { "resourceRules": [{ "operations": ["CREATE"], "apiGroups": ["apps"], "apiVersions": ["v1"], "resources": ["deployments", "replicasets"] }] },
        "variables": [{ "name": "n", "expression": "object.spec.replicas" }],
        "validations": [
            { "expression": "variables.n > 1 && object.spec.paused", "messageExpression": "'no ' + object.metadata.nme" },
            { "expression": "object.spec.replicas > '1'" },
            { "expression": "object.spec.template.spec.containers.all(c, c.image != '') && namespaceObject.metadata.name != 'x'" },
        ],
    });
    let body = json!({ "metadata": { "name": "typed" }, "spec": spec });
    let made = f.ok("POST", &format!("{GROUP}/validatingadmissionpolicies"), body).await;
    let warnings = made["status"]["typeChecking"]["expressionWarnings"].as_array().unwrap();
    let fields: Vec<&str> = warnings.iter().map(|w| w["fieldRef"].as_str().unwrap()).collect();
    assert_eq!(
        fields,
        ["spec.validations[0].expression", "spec.validations[0].messageExpression", "spec.validations[1].expression"]
    );
    let text = warnings[0]["warning"].as_str().unwrap();
    assert!(
        text.starts_with("apps/v1, Kind=ReplicaSet: compilation failed: ERROR: <input>:1:31: undefined field 'paused'"),
        "{text}"
    );
    let text = warnings[1]["warning"].as_str().unwrap();
    assert!(text.contains("apps/v1, Kind=Deployment: ") && text.contains("apps/v1, Kind=ReplicaSet: "), "{text}");
}
