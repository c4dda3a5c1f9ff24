//! What extends a cluster: conversion of custom resources, admission policies, expressions.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use crate::{api::Api, suite::Suite, webhook::Webhook};

const DEFINITIONS: &str = "apiextensions.k8s.io/v1/customresourcedefinitions";
const POLICIES: &str = "admissionregistration.k8s.io/v1";

/// A definition with two versions that a webhook converts; its group is the check's own.
fn converted(webhook: &Webhook, storage: &str) -> Value {
    let version = |name: &str, fields: &[&str]| {
        let fields: serde_json::Map<String, Value> =
            fields.iter().map(|f| ((*f).to_owned(), json!({ "type": "string" }))).collect();
        json!({ "name": name, "served": true, "storage": name == storage,
            "schema": { "openAPIV3Schema": { "type": "object", "properties": fields } } })
    };
    json!({
        "metadata": { "name": "hosts.{ns}.example.com" },
        "spec": { "group": "{ns}.example.com", "scope": "Namespaced",
            "names": { "plural": "hosts", "singular": "host", "kind": "Host", "listKind": "HostList" },
            "versions": [version("v1", &["hostPort"]), version("v2", &["host", "port"])],
            "conversion": { "strategy": "Webhook",
                "webhook": { "clientConfig": webhook.config, "conversionReviewVersions": ["v1", "v1beta1"] } } },
    })
}

/// A policy about the config maps of this check's namespace, with its binding.
fn policy(api: &Api, kind: &str, spec: Value, binding: Value) -> Result<()> {
    let mut spec = spec;
    spec["matchConstraints"] = json!({
        "namespaceSelector": { "matchLabels": { "kubernetes.io/metadata.name": "{ns}" } },
        "resourceRules": [{ "apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"], "resources": ["configmaps"] }],
    });
    let metadata = json!({ "name": "{ns}.example.com" });
    api.post(&format!("{POLICIES}/{kind}admissionpolicies"), json!({ "metadata": metadata, "spec": spec })).is(201)?;
    let mut binding = binding;
    binding["policyName"] = "{ns}.example.com".into();
    api.post(&format!("{POLICIES}/{kind}admissionpolicybindings"), json!({ "metadata": metadata, "spec": binding }))
        .is(201)
        .map(drop)
}

fn mutating(api: &Api, mutations: Value, more: Value) -> Result<()> {
    let mut spec = json!({ "reinvocationPolicy": "Never", "failurePolicy": "Fail", "mutations": mutations });
    for (key, value) in more.as_object().into_iter().flatten() {
        spec[key] = value.clone();
    }
    policy(api, "mutating", spec, json!({}))
}

pub(crate) fn checks(s: &mut Suite) {
    conversion(s);
    policies(s);
    expressions(s);
}

fn conversion(s: &mut Suite) {
    s.check(
        "a custom resource is converted by a webhook",
        "[sig-api-machinery] CustomResourceConversionWebhook [Privileged:ClusterAdmin] should be able to convert from CR v1 to CR v2",
        |api| {
            let webhook = Webhook::start()?;
            api.post(DEFINITIONS, converted(&webhook, "v1")).is(201)?;
            api.wait_for(&format!("{DEFINITIONS}/hosts.{{ns}}.example.com"), "{status: {storedVersions: [v1]}}")?;
            api.post("{ns}.example.com/v1~/hosts", "{apiVersion: '{ns}.example.com/v1', kind: Host, metadata: {name: a}, hostPort: 'localhost:8080'}")
                .is(201)?;
            let read = api.get("{ns}.example.com/v2~/hosts/a").is(200)?;
            read.has("{apiVersion: '{ns}.example.com/v2', host: localhost, port: '8080'}")?;
            api.patch("merge", "{ns}.example.com/v2~/hosts/a", "{port: '9090'}").is(200)?.has("{port: '9090'}")?;
            api.get("{ns}.example.com/v1~/hosts/a").is(200)?.has("{hostPort: 'localhost:9090'}")?;
            Ok(())
        },
    );
    s.check(
        "objects that are stored in several versions are listed in one",
        "[sig-api-machinery] CustomResourceConversionWebhook [Privileged:ClusterAdmin] should be able to convert a non homogeneous list of CRs",
        |api| {
            let webhook = Webhook::start()?;
            let definition = format!("{DEFINITIONS}/hosts.{{ns}}.example.com");
            api.post(DEFINITIONS, converted(&webhook, "v1")).is(201)?;
            api.post("{ns}.example.com/v1~/hosts", "{apiVersion: '{ns}.example.com/v1', kind: Host, metadata: {name: a}, hostPort: 'h:1'}")
                .is(201)?;
            let spec = converted(&webhook, "v2")["spec"]["versions"].clone();
            api.patch("merge", &definition, json!({ "spec": { "versions": spec } })).is(200)?;
            api.wait_for(&definition, "{status: {storedVersions: [v1, v2]}}")?;
            api.post("{ns}.example.com/v2~/hosts", "{apiVersion: '{ns}.example.com/v2', kind: Host, metadata: {name: b}, host: h, port: '2'}")
                .is(201)?;
            let second = api.get("{ns}.example.com/v2~/hosts").is(200)?;
            second.has("{items: [{apiVersion: '{ns}.example.com/v2', host: h, port: '1'}, {apiVersion: '{ns}.example.com/v2', host: h, port: '2'}]}")?;
            let first = api.get("{ns}.example.com/v1~/hosts").is(200)?;
            first.has("{items: [{apiVersion: '{ns}.example.com/v1', hostPort: 'h:1'}, {apiVersion: '{ns}.example.com/v1', hostPort: 'h:2'}]}")?;
            // Watchers see one version, too.
            let mut watch = api.watch("{ns}.example.com/v1~/hosts?resourceVersion=0")?;
            watch.expect("ADDED", "{metadata: {name: a}, hostPort: 'h:1'}")?;
            watch.expect("ADDED", "{metadata: {name: b}, hostPort: 'h:2'}").map(drop)
        },
    );
    s.check(
        "a webhook that cannot be asked fails the request, not the storage version",
        "apiextensions-apiserver test/integration/conversion TestWebhookConverterWithoutWatchCache expectConversionFailureMessage",
        |api| {
            let mut definition = converted(&Webhook { config: json!({ "url": "https://127.0.0.1:1/convert" }) }, "v1");
            definition["spec"]["conversion"]["webhook"]["clientConfig"]["caBundle"] = Value::Null;
            api.post(DEFINITIONS, definition).is(201)?;
            api.post("{ns}.example.com/v1~/hosts", "{apiVersion: '{ns}.example.com/v1', kind: Host, metadata: {name: a}, hostPort: 'h:1'}")
                .is(201)?;
            let failed = api.get("{ns}.example.com/v2~/hosts/a").is(500)?;
            let start = format!("conversion webhook for {}.example.com/v1, Kind=Host failed: Post \"https://127.0.0.1:1/convert?timeout=30s\": ", api.ns);
            ensure!(failed.text("/message").starts_with(&start), "{}", failed.body);
            api.get("{ns}.example.com/v1~/hosts/a").is(200).map(drop)
        },
    );
}

fn policies(s: &mut Suite) {
    s.check(
        "a policy configures what is created",
        "test/integration/apiserver/cel/mutatingadmissionpolicy_test.go TestMutatingAdmissionPolicy",
        |api| {
            let expression =
                "Object{metadata: Object.metadata{labels: {'env': 'test'}}, data: {'extra': object.metadata.name}}";
            mutating(
                api,
                json!([{ "patchType": "ApplyConfiguration", "applyConfiguration": { "expression": expression } }]),
                json!({}),
            )?;
            let made = api.post("v1~/configmaps", "{metadata: {name: a}, data: {k: v}}").is(201)?;
            made.has("{metadata: {labels: {env: test}}, data: {k: v, extra: a}}").map(drop)
        },
    );
    s.check(
        "a policy patches what is created",
        "test/integration/apiserver/cel/mutatingadmissionpolicy_test.go TestMutatingAdmissionPolicy (json patch)",
        |api| {
            let expression = "has(object.data) ? [JSONPatch{op: 'test', path: '/data/k', value: 'v'}, JSONPatch{op: 'add', path: '/data/l', value: variables.text}] : []";
            let mutations = json!([{ "patchType": "JSONPatch", "jsonPatch": { "expression": expression } }]);
            mutating(api, mutations, json!({ "variables": [{ "name": "text", "expression": "object.data.k + '!'" }] }))?;
            api.post("v1~/configmaps", "{metadata: {name: a}, data: {k: v}}").is(201)?.has("{data: {k: v, l: 'v!'}}")?;
            let other = api.post("v1~/configmaps", "{metadata: {name: b}, data: {k: w}}").is(201)?;
            ensure!(other.at("/data/l").is_null(), "a failed test leaves the object alone: {}", other.body);
            Ok(())
        },
    );
    s.check(
        "a policy that fails refuses the request, unless it says otherwise",
        "staging/src/k8s.io/apiserver/pkg/admission/plugin/policy/generic/policy_dispatcher.go",
        |api| {
            let mutations = json!([{ "patchType": "JSONPatch", "jsonPatch": { "expression": "[JSONPatch{op: 'remove', path: '/data/none'}]" } }]);
            mutating(api, mutations, json!({}))?;
            let refused = api.post("v1~/configmaps", "{metadata: {name: a}, data: {k: v}}").is(403)?;
            let start = format!("policy '{0}.example.com' with binding '{0}.example.com' denied request: JSON Patch: ", api.ns);
            ensure!(refused.text("/message").starts_with(&start), "{}", refused.body);
            api.patch("merge", &format!("{POLICIES}/mutatingadmissionpolicies/{{ns}}.example.com"), "{spec: {failurePolicy: Ignore}}").is(200)?;
            api.post("v1~/configmaps", "{metadata: {name: a}, data: {k: v}}").is(201).map(drop)
        },
    );
    s.check(
        "a policy refuses by variables and messages of its own",
        "[sig-api-machinery] ValidatingAdmissionPolicy [Privileged:ClusterAdmin] should allow expressions to refer variables.",
        |api| {
            let spec = json!({
                "variables": [{ "name": "size", "expression": "object.data.size()" }, { "name": "odd", "expression": "variables.size % 2 == 1" }],
                "validations": [{ "expression": "variables.odd", "messageExpression": "'not odd: ' + string(variables.size)" }],
            });
            policy(api, "validating", spec, json!({ "validationActions": ["Deny"] }))?;
            api.post("v1~/configmaps", "{metadata: {name: a}, data: {k: v}}").is(201)?;
            let message = format!(
                "configmaps \"b\" is forbidden: ValidatingAdmissionPolicy '{0}.example.com' with binding '{0}.example.com' denied request: not odd: 2",
                api.ns
            );
            api.post("v1~/configmaps", "{metadata: {name: b}, data: {k: v, l: v}}").refused(422, "Invalid", &message).map(drop)
        },
    );
    s.check(
        "a policy may warn instead",
        "test/integration/apiserver/cel/validatingadmissionpolicy_test.go Test_ValidateAnnotationsAndWarnings",
        |api| {
            let spec = json!({ "validations": [{ "expression": "object.metadata.name != 'bad'", "message": "not that name" }] });
            policy(api, "validating", spec, json!({ "validationActions": ["Warn", "Audit"] }))?;
            let made = api.post("v1~/configmaps", "{metadata: {name: bad}}").is(201)?;
            let warning = format!(
                "Validation failed for ValidatingAdmissionPolicy '{0}.example.com' with binding '{0}.example.com': not that name",
                api.ns
            );
            ensure!(made.warnings().iter().any(|w| w.contains(&warning)), "{:?}", made.warnings());
            Ok(())
        },
    );
    s.check(
        "a policy asks what the user may do",
        "test/integration/apiserver/cel/validatingadmissionpolicy_test.go TestAuthorizationDecisionCaching",
        |api| {
            let expression = "authorizer.group('').resource('secrets').namespace(request.namespace).check('delete').allowed()";
            policy(api, "validating", json!({ "validations": [{ "expression": expression, "reason": "Forbidden" }] }), json!({ "validationActions": ["Deny"] }))?;
            api.post("v1~/configmaps", "{metadata: {name: a}}").is(201)?;
            api.post("rbac.authorization.k8s.io/v1~/roles", "{metadata: {name: maps}, rules: [{apiGroups: [''], resources: [configmaps], verbs: [create]}]}").is(201)?;
            api.post("rbac.authorization.k8s.io/v1~/rolebindings", "{metadata: {name: maps}, roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: maps}, subjects: [{kind: User, apiGroup: rbac.authorization.k8s.io, name: jane}]}")
                .is(201)?;
            api.impersonate("jane").post("v1~/configmaps", "{metadata: {name: b}}").is(403)?.has("{reason: Forbidden}").map(drop)
        },
    );
    s.check(
        "expressions are checked against the types they will see",
        "[sig-api-machinery] ValidatingAdmissionPolicy [Privileged:ClusterAdmin] should type check validation expressions",
        |api| {
            let body = json!({ "metadata": { "name": "{ns}.example.com" }, "spec": {
                "matchConstraints": { "resourceRules": [{ "apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["deployments"] }] },
                "validations": [{ "expression": "object.spec.replicas > '1'" }, { "expression": "object.spec.replicas > 1" }] } });
            let path = format!("{POLICIES}/validatingadmissionpolicies");
            api.post(&path, body).is(201)?;
            let checked = api.wait_for(&format!("{path}/{{ns}}.example.com"), "{status: {observedGeneration: 1}}")?;
            let warnings = checked.at("/status/typeChecking/expressionWarnings");
            ensure!(warnings.as_array().is_some_and(|w| w.len() == 1), "{}", checked.body);
            ensure!(warnings[0]["fieldRef"] == "spec.validations[0].expression", "{warnings}");
            let text = warnings[0]["warning"].as_str().unwrap_or_default();
            ensure!(text.contains("found no matching overload for '_>_' applied to '(int, string)'"), "{text}");
            Ok(())
        },
    );
}

fn expressions(s: &mut Suite) {
    s.check(
        "rules that cost too much are refused",
        "[sig-api-machinery] CustomResourceValidationRules [Privileged:ClusterAdmin] MUST fail create of a custom resource definition that contains an x-kubernetes-validations rule that exceeds the estimated cost limit",
        |api| {
            let definition = |max: Value| {
                json!({ "metadata": { "name": "things.{ns}.example.com" }, "spec": { "group": "{ns}.example.com", "scope": "Namespaced",
                    "names": { "plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList" },
                    "versions": [{ "name": "v1", "served": true, "storage": true, "schema": { "openAPIV3Schema": { "type": "object", "properties": {
                        "list": { "type": "array", "maxItems": max, "items": { "type": "string", "maxLength": 20 },
                            "x-kubernetes-validations": [{ "rule": "self.all(x, self.all(y, x != y))" }] } } } } }] } })
            };
            let refused = api.post(DEFINITIONS, definition(Value::Null)).is(422)?;
            let message = refused.text("/message");
            ensure!(
                message.contains("x-kubernetes-validations[0].rule: Forbidden: estimated rule cost exceeds budget by factor of more than 100x (try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and strings are declared)"),
                "{message}"
            );
            api.post(DEFINITIONS, definition(json!(50))).is(201).map(drop)
        },
    );
}
