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
    bind(&f, "maps", json!({ "validationActions": ["Deny", "Warn"] })).await;
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
    assert!(causes[1]["message"].as_str().unwrap().ends_with("must evaluate to bool"), "{refused}");
}
