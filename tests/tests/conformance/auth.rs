//! Who may do what: accounts, tokens, reviews, roles, certificates; and what the server says of itself.

use anyhow::{Context as _, Result, ensure};
use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use serde_json::Value;

use crate::{api::Api, suite::Suite};

/// The claims of a token.
fn claims(token: &str) -> Result<Value> {
    let part = token.split('.').nth(1).context("a JWT")?;
    Ok(serde_json::from_slice(&BASE64_URL_SAFE_NO_PAD.decode(part)?)?)
}

fn token(api: &Api, spec: &str) -> Result<String> {
    let answer = api.post("v1~/serviceaccounts/default/token", format!("{{spec: {spec}}}")).is(201)?;
    Ok(answer
        .has("{kind: TokenRequest, status: {token: <any>, expirationTimestamp: <any>}}")?
        .text("/status/token")
        .to_owned())
}

fn access(api: &Api, spec: &str) -> Result<bool> {
    let answer = api.post("authorization.k8s.io/v1/subjectaccessreviews", format!("{{spec: {spec}}}")).is(201)?;
    Ok(answer.at("/status/allowed") == &Value::Bool(true))
}

pub(crate) fn checks(s: &mut Suite) {
    s.check(
        "a token names its account, audience and expiry",
        "[sig-auth] ServiceAccounts should mount an API token into pods (TokenRequest)",
        |api| {
            let claims = claims(&token(api, "{expirationSeconds: 3600}")?)?;
            ensure!(claims["sub"] == format!("system:serviceaccount:{}:default", api.ns), "{claims}");
            ensure!(claims["kubernetes.io"]["serviceaccount"]["name"] == "default", "{claims}");
            ensure!(claims["exp"].as_i64().unwrap_or(0) - claims["iat"].as_i64().unwrap_or(0) == 3600, "{claims}");
            Ok(())
        },
    );
    s.check("a token authenticates", "[sig-auth] ServiceAccounts should mount an API token into pods", |api| {
        let user = api.bearer(&token(api, "{}")?)?;
        user.get("v1~/configmaps").refused(403, "Forbidden", "User \"system:serviceaccount:{ns}:default\" cannot list resource \"configmaps\"")?;
        user.post("authentication.k8s.io/v1/selfsubjectreviews", "{}")
            .is(201)?
            .has("{status: {userInfo: {username: 'system:serviceaccount:{ns}:default', groups: [system:serviceaccounts, 'system:serviceaccounts:{ns}', system:authenticated]}}}")
            .map(drop)
    });
    s.check(
        "a token of another audience does not",
        "staging/src/k8s.io/apiserver/pkg/authentication (audiences)",
        |api| {
            let token = token(api, "{audiences: [elsewhere]}")?;
            ensure!(claims(&token)?["aud"] == serde_json::json!(["elsewhere"]), "audience");
            api.bearer(&token)?.get("v1~/configmaps").refused(401, "Unauthorized", "Unauthorized").map(drop)
        },
    );
    s.check(
        "a token bound to a pod ends with it",
        "test/integration/auth/svcaccttoken_test.go (bound to pod)",
        |api| {
            let pod = api
                .post(
                    "v1~/pods",
                    "{metadata: {name: p}, spec: {schedulerName: nobody, containers: [{name: c, image: i}]}}",
                )
                .is(201)?;
            let token = token(
                api,
                &format!(
                    "{{boundObjectRef: {{apiVersion: v1, kind: Pod, name: p, uid: {}}}}}",
                    pod.text("/metadata/uid")
                ),
            )?;
            let user = api.bearer(&token)?;
            user.post("authentication.k8s.io/v1/selfsubjectreviews", "{}").is(201)?;
            api.delete_with("v1~/pods/p", "{gracePeriodSeconds: 0}").ok()?;
            api.wait_gone("v1~/pods/p")?;
            user.post("authentication.k8s.io/v1/selfsubjectreviews", "{}")
                .refused(401, "Unauthorized", "Unauthorized")
                .map(drop)
        },
    );
    s.check(
        "a token that is none is 401",
        "staging/src/k8s.io/apiserver/pkg/endpoints/filters/authentication.go",
        |api| api.bearer("not.a.token")?.get("v1~/configmaps").refused(401, "Unauthorized", "Unauthorized").map(drop),
    );
    s.check(
        "no credentials are system:anonymous",
        "staging/src/k8s.io/apiserver/pkg/authentication/request/anonymous",
        |api| {
            api.anonymous()?
                .get("v1~/configmaps")
                .refused(403, "Forbidden", "User \"system:anonymous\" cannot list")
                .map(drop)
        },
    );
    s.check(
        "TokenReview knows a good token and a bad one",
        "test/e2e/auth (TokenReview); k8s.io/api/authentication/v1",
        |api| {
            let good = token(api, "{}")?;
            api.post("authentication.k8s.io/v1/tokenreviews", format!("{{spec: {{token: {good}}}}}"))
                .is(201)?
                .has("{status: {authenticated: true, user: {username: 'system:serviceaccount:{ns}:default'}}}")?;
            let bad = api.post("authentication.k8s.io/v1/tokenreviews", "{spec: {token: nonsense}}").is(201)?;
            ensure!(bad.at("/status/authenticated") != &Value::Bool(true), "{}", bad.body);
            Ok(())
        },
    );
    s.check("the issuer tells where its keys are", "[sig-auth] ServiceAccounts ServiceAccountIssuerDiscovery should support OIDC discovery of service account issuer", |api| {
        let discovery = api.get("/.well-known/openid-configuration").is(200)?.has("{issuer: <any>, jwks_uri: <any>, response_types_supported: [id_token], subject_types_supported: [public]}")?;
        let keys = api.get("/openid/v1/jwks").is(200)?;
        ensure!(keys.at("/keys").as_array().is_some_and(|k| !k.is_empty()), "{}", keys.body);
        let claims = claims(&token(api, "{}")?)?;
        ensure!(claims["iss"] == *discovery.at("/issuer"), "{claims} {}", discovery.body);
        Ok(())
    });
    s.check(
        "accounts by name, and their removal",
        "[sig-auth] ServiceAccounts should update a ServiceAccount; should run through the lifecycle",
        |api| {
            api.post("v1~/serviceaccounts", "{metadata: {name: sa}}")
                .is(201)?
                .has("{automountServiceAccountToken: null}")?;
            api.patch("strategic", "v1~/serviceaccounts/sa", "{automountServiceAccountToken: false}")
                .is(200)?
                .has("{automountServiceAccountToken: false}")?;
            api.delete("v1~/serviceaccounts/default").is(200)?;
            api.wait_for("v1~/serviceaccounts/default", "{metadata: {uid: <any>}}").map(drop)
        },
    );
    s.check("pods that want no token have none", "[sig-auth] ServiceAccounts should allow opting out of API token automount", |api| {
        let pod = |auto: &str| format!("{{metadata: {{generateName: p-}}, spec: {{schedulerName: nobody, automountServiceAccountToken: {auto}, containers: [{{name: c, image: i}}]}}}}");
        let without = api.post("v1~/pods", pod("false")).is(201)?;
        ensure!(without.at("/spec/containers/0/volumeMounts").as_array().is_none_or(Vec::is_empty), "{}", without.body);
        api.post("v1~/pods", pod("true"))
            .is(201)?
            .has("{spec: {containers: [{volumeMounts: [{mountPath: /var/run/secrets/kubernetes.io/serviceaccount, readOnly: true}]}]}}")
            .map(drop)
    });
    s.check("SubjectAccessReview answers by the roles", "[sig-auth] SubjectReview should support SubjectReview API operations", |api| {
        let who = "{user: e2e, resourceAttributes: {namespace: '{ns}', verb: list, resource: pods}}";
        ensure!(!access(api, who)?, "allowed without a role");
        api.post("rbac.authorization.k8s.io/v1~/rolebindings", "{metadata: {name: b}, roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: view}, subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: e2e}]}").is(201)?;
        ensure!(access(api, who)?, "not allowed with the role");
        ensure!(!access(api, "{user: e2e, resourceAttributes: {namespace: '{ns}', verb: list, resource: secrets}}")?, "view shows no secrets");
        let local = api
            .post("authorization.k8s.io/v1~/localsubjectaccessreviews", "{metadata: {namespace: '{ns}'}, spec: {user: e2e, resourceAttributes: {namespace: '{ns}', verb: list, resource: pods}}}")
            .is(201)?;
        ensure!(local.at("/status/allowed") == &Value::Bool(true), "{}", local.body);
        Ok(())
    });
    s.check(
        "SelfSubjectAccessReview and RulesReview answer for oneself",
        "[sig-auth] SubjectReview; test/e2e/auth/subjectreviews.go",
        |api| {
            let user = api.impersonate("e2e");
            user.post(
                "authorization.k8s.io/v1/selfsubjectaccessreviews",
                "{spec: {resourceAttributes: {namespace: '{ns}', verb: get, resource: pods}}}",
            )
            .is(201)?
            .has("{status: {allowed: false}}")?;
            user.post("authorization.k8s.io/v1/selfsubjectrulesreviews", "{spec: {namespace: '{ns}'}}")
                .is(201)?
                .has("{status: {incomplete: false, resourceRules: <any>, nonResourceRules: <any>}}")?;
            user.post(
                "authorization.k8s.io/v1/selfsubjectaccessreviews",
                "{spec: {nonResourceAttributes: {verb: get, path: /version}}}",
            )
            .is(201)?
            .has("{status: {allowed: true}}")
            .map(drop)
        },
    );
    s.check("a role gives what it says and no more", "[sig-auth] RBAC; test/integration/auth/rbac_test.go", |api| {
        api.post("rbac.authorization.k8s.io/v1~/roles", "{metadata: {name: r}, rules: [{apiGroups: [''], resources: [configmaps], resourceNames: [one], verbs: [get]}]}").is(201)?;
        api.post("rbac.authorization.k8s.io/v1~/rolebindings", "{metadata: {name: b}, roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: r}, subjects: [{kind: User, apiGroup: rbac.authorization.k8s.io, name: e2e}]}").is(201)?;
        for name in ["one", "two"] {
            api.post("v1~/configmaps", serde_json::json!({ "metadata": { "name": name } })).is(201)?;
        }
        let user = api.impersonate("e2e");
        user.get("v1~/configmaps/one").is(200)?;
        user.get("v1~/configmaps/two").refused(403, "Forbidden", "cannot get resource")?;
        user.get("v1~/configmaps").refused(403, "Forbidden", "cannot list resource").map(drop)
    });
    s.check("a CSR is approved and signed", "[sig-auth] Certificates API [Privileged:ClusterAdmin] should support building a client with a CSR", |api| {
        let body = format!("{{metadata: {{name: '{{ns}}'}}, spec: {{signerName: kubernetes.io/kube-apiserver-client, usages: [client auth], request: {}}}}}", include_str!("csr.txt").trim());
        let path = "certificates.k8s.io/v1/certificatesigningrequests";
        let mut csr = api.post(path, body).is(201)?.body;
        csr["status"]["conditions"] = serde_json::json!([{ "type": "Approved", "status": "True", "reason": "E2E", "message": "approved" }]);
        api.put(&format!("{path}/{{ns}}/approval"), &csr).is(200)?.has("{status: {conditions: [{type: Approved, lastUpdateTime: <any>}]}}")?;
        api.wait_for(&format!("{path}/{{ns}}"), "{status: {certificate: <any>}}").map(drop)
    });
    s.check(
        "/version names major, minor and platform",
        "[sig-api-machinery] server version should find the server version",
        |api| {
            let version = api.get("/version").is(200)?.has("{gitVersion: <any>, platform: <any>, goVersion: <any>}")?;
            ensure!(
                version.text("/major").parse::<u32>().is_ok() && version.text("/minor").parse::<u32>().is_ok(),
                "{}",
                version.body
            );
            Ok(())
        },
    );
    s.check(
        "health is told, also in parts",
        "[sig-api-machinery] health handlers should contain necessary checks",
        |api| {
            for path in ["/healthz", "/livez", "/readyz"] {
                let answer = api.get(path).is(200)?;
                ensure!(answer.bytes == b"ok", "{path}: {:?}", String::from_utf8_lossy(&answer.bytes));
                let parts = api.get(&format!("{path}?verbose=1")).is(200)?;
                ensure!(
                    String::from_utf8_lossy(&parts.bytes).contains("[+]ping ok"),
                    "{path}: {:?}",
                    String::from_utf8_lossy(&parts.bytes)
                );
            }
            Ok(())
        },
    );
    s.check("each group's preferred version and resources are there", "[sig-api-machinery] Discovery should validate PreferredVersion for each APIGroup; should locate the groupVersion and a resource within each APIGroup", |api| {
        let groups = api.get("/apis").is(200)?.has("{kind: APIGroupList}")?;
        for group in groups.at("/groups").as_array().context("groups")? {
            let preferred = group["preferredVersion"]["groupVersion"].as_str().context("a preferred version")?;
            let versions = group["versions"].as_array().context("versions")?;
            ensure!(versions.iter().any(|v| v["groupVersion"] == preferred), "{group}");
            let list = api.get(&format!("/apis/{preferred}")).is(200)?;
            ensure!(list.text("/groupVersion") == preferred && list.at("/resources").as_array().is_some_and(|r| !r.is_empty()), "{}", list.body);
            api.get(&format!("/apis/{}", group["name"].as_str().unwrap_or_default())).is(200)?.has("{kind: APIGroup}")?;
        }
        Ok(())
    });
    s.check(
        "a document of discovery that has not changed is 304",
        "staging/src/k8s.io/apiserver/pkg/endpoints/discovery/aggregated (ETag)",
        |api| {
            let api = api.with("Accept", "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList");
            let first = api.get("/api").is(200)?;
            let tag = first.header("etag").to_owned();
            ensure!(
                !tag.is_empty() && first.header("content-type").contains("as=APIGroupDiscoveryList"),
                "{:?}",
                first.headers
            );
            api.with("If-None-Match", &tag).get("/api").is(304).map(drop)
        },
    );
    s.check(
        "OpenAPI v3 lists its documents, and each knows its kinds",
        "[sig-api-machinery] OpenAPIV3 should round trip OpenAPI V3 for all built-in group versions",
        |api| {
            let root = api.get("/openapi/v3").is(200)?;
            let paths = root.at("/paths").as_object().context("paths")?.clone();
            ensure!(paths.contains_key("api/v1") && paths.contains_key("apis/apps/v1"), "{:?}", paths.keys());
            for (path, entry) in paths.iter().filter(|(p, _)| p.contains("v1")) {
                let document = api.get(&format!("/openapi/v3/{path}")).is(200)?;
                ensure!(document.text("/openapi").starts_with("3."), "{path}");
                ensure!(entry["serverRelativeURL"].as_str().is_some_and(|u| u.contains("hash=")), "{entry}");
            }
            Ok(())
        },
    );
    s.check(
        "OpenAPI v2 has the definitions",
        "[sig-api-machinery] CustomResourcePublishOpenAPI (/openapi/v2)",
        |api| {
            let document = api.get("/openapi/v2").is(200)?;
            ensure!(
                document.text("/swagger") == "2.0"
                    && document.at("/definitions/io.k8s.api.core.v1.Pod/properties/spec").is_object(),
                "v2"
            );
            Ok(())
        },
    );
    s.check(
        "a path that nobody serves is 404 in plain text",
        "net/http (page not found); staging/src/k8s.io/apiserver/pkg/server/routes",
        |api| {
            let answer = api.get("/apis/none.example.com/v1/things").is(404)?;
            ensure!(answer.bytes == b"404 page not found\n", "{:?}", String::from_utf8_lossy(&answer.bytes));
            Ok(())
        },
    );
    s.check("events of both groups are one", "[sig-instrumentation] Events API should delete a collection of events (events.k8s.io)", |api| {
        api.post("v1~/events", "{metadata: {name: e}, reason: R, message: m, type: Normal, involvedObject: {kind: Pod, name: p, namespace: '{ns}'}}").is(201)?;
        api.get("events.k8s.io/v1~/events/e").is(200)?.has("{kind: Event, apiVersion: events.k8s.io/v1, note: m, regarding: {kind: Pod, name: p}}")?;
        api.delete("events.k8s.io/v1~/events").is(200)?;
        api.wait_gone("v1~/events/e")
    });
    s.check("an autoscaler is the same in v1 and v2", "pkg/apis/autoscaling/v1/conversion.go", |api| {
        api.post("autoscaling/v1~/horizontalpodautoscalers", "{metadata: {name: h}, spec: {maxReplicas: 3, targetCPUUtilizationPercentage: 60, scaleTargetRef: {kind: Deployment, name: d, apiVersion: apps/v1}}}").is(201)?;
        api.get("autoscaling/v2~/horizontalpodautoscalers/h")
            .is(200)?
            .has("{apiVersion: autoscaling/v2, spec: {maxReplicas: 3, metrics: [{type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 60}}}]}}")?;
        api.patch("merge", "autoscaling/v2~/horizontalpodautoscalers/h", "{spec: {metrics: [{type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 70}}}]}}").is(200)?;
        api.get("autoscaling/v1~/horizontalpodautoscalers/h").is(200)?.has("{apiVersion: autoscaling/v1, spec: {targetCPUUtilizationPercentage: 70}}").map(drop)
    });
}
