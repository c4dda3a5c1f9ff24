//! Patches of each type, apart from apply.

use anyhow::{Result, ensure};

use crate::{api::Api, suite::Suite};

const JSON: &str = "RFC 6902; staging/src/k8s.io/apiserver/pkg/endpoints/handlers/patch.go jsonPatcher";
const MERGE: &str = "RFC 7386; staging/src/k8s.io/apiserver/pkg/endpoints/handlers/patch.go jsonPatcher";
const STRATEGIC: &str = "staging/src/k8s.io/apimachinery/pkg/util/strategicpatch/patch_test.go; k8s.io/docs/tasks/manage-kubernetes-objects/update-api-object-kubectl-patch";

fn config(api: &Api) -> Result<()> {
    api.post("v1~/configmaps", "{metadata: {name: a, labels: {l: x}}, data: {a: '1', b: '2'}}").is(201).map(drop)
}

fn deployment(api: &Api) -> Result<()> {
    api.post(
        "apps/v1~/deployments",
        "{metadata: {name: d}, spec: {replicas: 0, selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {
          containers: [{name: one, image: 'i:1', env: [{name: A, value: a}, {name: B, value: b}], ports: [{containerPort: 80}], args: [x, y]}, {name: two, image: 'i:2'}],
          tolerations: [{key: t, operator: Exists}], volumes: [{name: v, emptyDir: {}}]}}}}",
    )
    .is(201)
    .map(drop)
}

pub(crate) fn checks(s: &mut Suite) {
    for (name, patch, expected) in [
        ("add", "[{op: add, path: /data/c, value: '3'}]", "{data: {a: '1', b: '2', c: '3'}}"),
        ("remove", "[{op: remove, path: /data/a}]", "{data: {a: null, b: '2'}}"),
        ("replace", "[{op: replace, path: /data/a, value: '9'}]", "{data: {a: '9'}}"),
        ("move", "[{op: move, from: /data/a, path: /data/z}]", "{data: {a: null, z: '1'}}"),
        ("copy", "[{op: copy, from: /data/a, path: /data/z}]", "{data: {a: '1', z: '1'}}"),
        (
            "test that holds",
            "[{op: test, path: /data/a, value: '1'}, {op: replace, path: /data/a, value: '2'}]",
            "{data: {a: '2'}}",
        ),
        (
            "an escaped path",
            "[{op: add, path: /metadata/labels/example.com~1x, value: y}]",
            "{metadata: {labels: {example.com/x: y}}}",
        ),
    ] {
        s.check(format!("JSON patch: {name}"), JSON, move |api| {
            config(api)?;
            api.patch("json", "v1~/configmaps/a", patch).is(200)?.has(expected)?;
            api.get("v1~/configmaps/a").is(200)?.has(expected).map(drop)
        });
    }
    s.check("JSON patch: a test that fails is 422 and changes nothing", JSON, |api| {
        config(api)?;
        let answer = api.patch(
            "json",
            "v1~/configmaps/a",
            "[{op: replace, path: /data/b, value: '9'}, {op: test, path: /data/a, value: '2'}]",
        );
        answer.refused(422, "Invalid", "the server rejected our request due to an error in our request")?;
        api.get("v1~/configmaps/a").is(200)?.has("{data: {b: '2'}}").map(drop)
    });
    s.check("JSON patch: a path that is not there is 422", JSON, |api| {
        config(api)?;
        api.patch("json", "v1~/configmaps/a", "[{op: remove, path: /data/none}]").refused(422, "Invalid", "")?;
        api.patch("json", "v1~/configmaps/a", "[{op: replace, path: /none/none, value: 1}]")
            .refused(422, "Invalid", "")
            .map(drop)
    });
    s.check("JSON patch: what is no patch is 400", JSON, |api| {
        config(api)?;
        api.patch("json", "v1~/configmaps/a", "{op: remove}")
            .refused(400, "BadRequest", "error decoding patch")
            .map(drop)
    });
    s.check("JSON patch: lists by index and at the end", JSON, |api| {
        deployment(api)?;
        let at = "/spec/template/spec/containers/0/args";
        api.patch(
            "json",
            "apps/v1~/deployments/d",
            format!("[{{op: add, path: {at}/-, value: z}}, {{op: remove, path: {at}/0}}]"),
        )
        .is(200)?
        .has("{spec: {template: {spec: {containers: [{name: one, args: [y, z]}, {name: two}]}}}}")
        .map(drop)
    });
    s.check("merge patch: null removes, lists are replaced", MERGE, |api| {
        deployment(api)?;
        api.patch("merge", "apps/v1~/deployments/d", "{metadata: {labels: {new: l}}, spec: {replicas: 0, template: {spec: {volumes: null, containers: [{name: only, image: 'i:3'}]}}}}")
            .is(200)?
            .has("{metadata: {labels: {new: l}}, spec: {template: {spec: {volumes: null, containers: [{name: only, image: 'i:3'}]}}}}")
            .map(drop)
    });
    s.check(
        "merge patch of a service's data",
        "[sig-network] Services should complete a service status lifecycle",
        |api| {
            config(api)?;
            api.patch("merge", "v1~/configmaps/a", "{data: {a: null, c: '3'}}")
                .is(200)?
                .has("{data: {a: null, b: '2', c: '3'}}")
                .map(drop)
        },
    );
    s.check(
        "a patch with a version that is old is 409",
        "staging/src/k8s.io/apiserver/pkg/endpoints/handlers/patch.go (resourceVersion in a patch)",
        |api| {
            config(api)?;
            let old = api.get("v1~/configmaps/a").is(200)?.version().to_owned();
            api.patch("merge", "v1~/configmaps/a", "{data: {a: x}}").is(200)?;
            api.patch(
                "merge",
                "v1~/configmaps/a",
                format!("{{metadata: {{resourceVersion: '{old}'}}, data: {{a: y}}}}"),
            )
            .refused(409, "Conflict", "Operation cannot be fulfilled on configmaps \"a\": the object has been modified")
            .map(drop)
        },
    );
    s.check("a patch with another uid is 409", "staging/src/k8s.io/apiserver/pkg/registry/generic/registry/store.go Update (uid precondition)", |api| {
        config(api)?;
        api.patch("merge", "v1~/configmaps/a", "{metadata: {uid: '6c1c1a52-0000-4000-8000-000000000000'}}")
            .refused(409, "Conflict", "Precondition failed: UID in precondition: 6c1c1a52-0000-4000-8000-000000000000, UID in object meta: ")
            .map(drop)
    });
    s.check("a patch cannot rename", "staging/src/k8s.io/apiserver/pkg/endpoints/handlers/patch.go; rest.EnsureObjectNamespaceMatchesRequestNamespace", |api| {
        config(api)?;
        let answer = api.patch("merge", "v1~/configmaps/a", "{metadata: {name: b}}");
        ensure!(answer.code == 400 || answer.code == 422, "{answer:?}");
        Ok(())
    });
    s.check("patch of what is not there is 404", MERGE, |api| {
        for kind in ["json", "merge", "strategic"] {
            let body = if kind == "json" { "[]" } else { "{}" };
            api.patch(kind, "v1~/configmaps/none", body).refused(404, "NotFound", "configmaps \"none\" not found")?;
        }
        Ok(())
    });
    s.check("another media type is 415", "staging/src/k8s.io/apiserver/pkg/endpoints/handlers/negotiation/errors.go NewUnsupportedMediaTypeError", |api| {
        config(api)?;
        api.patch("application/json", "v1~/configmaps/a", "{}")
            .refused(415, "UnsupportedMediaType", "the body of the request was in an unknown format - accepted media types include: application/json-patch+json, application/merge-patch+json, application/strategic-merge-patch+json, application/apply-patch+yaml")
            .map(drop)
    });

    for (name, patch, expected) in [
        (
            "containers merge by name",
            "{spec: {template: {spec: {containers: [{name: two, image: 'i:9'}]}}}}",
            "{spec: {template: {spec: {containers: [{name: one, image: 'i:1'}, {name: two, image: 'i:9'}]}}}}",
        ),
        (
            "a new container comes with the old ones",
            "{spec: {template: {spec: {containers: [{name: three, image: 'i:3'}]}}}}",
            "{spec: {template: {spec: {containers: [{name: three}, {name: one}, {name: two}]}}}}",
        ),
        (
            "$patch: delete removes an item",
            "{spec: {template: {spec: {containers: [{name: two, $patch: delete}]}}}}",
            "{spec: {template: {spec: {containers: [{name: one}]}}}}",
        ),
        (
            "$patch: replace replaces a list",
            "{spec: {template: {spec: {containers: [{name: new, image: 'i:5'}, {$patch: replace}]}}}}",
            "{spec: {template: {spec: {containers: [{name: new}]}}}}",
        ),
        (
            "env merges by name",
            "{spec: {template: {spec: {containers: [{name: one, env: [{name: B, value: c}]}]}}}}",
            "{spec: {template: {spec: {containers: [{name: one, env: [{name: A, value: a}, {name: B, value: c}]}, {name: two}]}}}}",
        ),
        (
            "ports merge by containerPort",
            "{spec: {template: {spec: {containers: [{name: one, ports: [{containerPort: 80, name: http}]}]}}}}",
            "{spec: {template: {spec: {containers: [{name: one, ports: [{containerPort: 80, name: http, protocol: TCP}]}, {name: two}]}}}}",
        ),
        (
            "lists without a key are replaced",
            "{spec: {template: {spec: {tolerations: [{key: u, operator: Exists}], containers: [{name: one, args: [z]}]}}}}",
            "{spec: {template: {spec: {tolerations: [{key: u}], containers: [{name: one, args: [z]}, {name: two}]}}}}",
        ),
        (
            "$retainKeys of a strategy",
            "{spec: {strategy: {$retainKeys: [type], type: Recreate}}}",
            "{spec: {strategy: {type: Recreate, rollingUpdate: null}}}",
        ),
        (
            "$setElementOrder orders",
            "{spec: {template: {spec: {$setElementOrder/containers: [{name: two}, {name: one}], containers: [{name: two, image: 'i:7'}]}}}}",
            "{spec: {template: {spec: {containers: [{name: two, image: 'i:7'}, {name: one}]}}}}",
        ),
        (
            "null removes a map's field",
            "{spec: {template: {spec: {volumes: null}}}}",
            "{spec: {template: {spec: {volumes: null}}}}",
        ),
    ] {
        s.check(format!("strategic merge patch: {name}"), STRATEGIC, move |api| {
            deployment(api)?;
            api.patch("strategic", "apps/v1~/deployments/d", patch).is(200)?.has(expected).map(drop)
        });
    }
    s.check("strategic merge patch: $deleteFromPrimitiveList of finalizers", STRATEGIC, |api| {
        api.post("v1~/configmaps", "{metadata: {name: a, finalizers: [e2e.example/a, e2e.example/b]}}").is(201)?;
        api.patch(
            "strategic",
            "v1~/configmaps/a",
            "{metadata: {$deleteFromPrimitiveList/finalizers: [e2e.example/a]}}",
        )
        .is(200)?
        .has("{metadata: {finalizers: [e2e.example/b]}}")?;
        api.patch("strategic", "v1~/configmaps/a", "{metadata: {finalizers: [e2e.example/c]}}")
            .is(200)?
            .has("{metadata: {finalizers: [e2e.example/c, e2e.example/b]}}")?;
        api.patch("merge", "v1~/configmaps/a", "{metadata: {finalizers: null}}").is(200).map(drop)
    });
    s.check("strategic merge patch: an item without its key is refused", STRATEGIC, |api| {
        deployment(api)?;
        let answer = api.patch(
            "strategic",
            "apps/v1~/deployments/d",
            "{spec: {template: {spec: {containers: [{image: 'i:9'}]}}}}",
        );
        let answer = answer.is(500)?.has("{kind: Status, status: Failure, reason: null}")?;
        ensure!(
            answer.text("/message") == "map: map[image:i:9] does not contain declared merge key: name",
            "{}",
            answer.body
        );
        Ok(())
    });
    s.check("a patch's result is validated", STRATEGIC, |api| {
        deployment(api)?;
        api.patch("merge", "apps/v1~/deployments/d", "{spec: {replicas: -1}}").refused(
            422,
            "Invalid",
            "Deployment.apps \"d\" is invalid: spec.replicas: Invalid value: -1: must be greater than or equal to 0",
        )?;
        api.patch("merge", "apps/v1~/deployments/d", "{spec: {replicas: many}}")
            .refused(422, "Invalid", " \"\" is invalid: patch: Invalid value: ")?
            .has("{details: {name: null, kind: null, causes: [{reason: FieldValueInvalid, field: patch}]}}")
            .map(drop)
    });
    s.check(
        "a patch's result is pruned and warned of",
        "[sig-api-machinery] FieldValidation should detect unknown and duplicate fields of a typed object",
        |api| {
            deployment(api)?;
            let answer =
                api.patch("merge", "apps/v1~/deployments/d?fieldValidation=Warn", "{spec: {foo: bar}}").is(200)?;
            ensure!(answer.warnings() == ["299 - \"unknown field \\\"spec.foo\\\"\""], "{:?}", answer.warnings());
            ensure!(answer.at("/spec/foo").is_null(), "{}", answer.body);
            api.patch("merge", "apps/v1~/deployments/d?fieldValidation=Strict", "{spec: {foo: bar}}")
                .refused(422, "Invalid", "strict decoding error: unknown field \"spec.foo\"")
                .map(drop)
        },
    );
}
