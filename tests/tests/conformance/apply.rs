//! Server-side apply: who owns what.

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use crate::{
    api::{Answer, Api},
    suite::Suite,
};

const ORIGIN: &str = "test/integration/apiserver/apply/apply_test.go";

fn config(api: &Api, manager: &str, data: &str) -> Answer {
    api.apply(
        &format!("v1~/configmaps/a?fieldManager={manager}"),
        format!("{{apiVersion: v1, kind: ConfigMap, metadata: {{name: a}}, data: {data}}}"),
    )
}

/// The fields that a manager owns.
fn owned<'a>(answer: &'a Answer, manager: &str, operation: &str) -> Result<&'a Value> {
    let entries = answer.at("/metadata/managedFields").as_array().context("managedFields")?;
    let entry = entries.iter().find(|e| e["manager"] == manager && e["operation"] == operation);
    Ok(&entry.with_context(|| format!("{manager} {operation} is not in {entries:?}"))?["fieldsV1"])
}

fn deployment(api: &Api, manager: &str, spec: &str) -> Answer {
    api.apply(
        &format!("apps/v1~/deployments/d?fieldManager={manager}"),
        format!("{{apiVersion: apps/v1, kind: Deployment, metadata: {{name: d}}, spec: {spec}}}"),
    )
}

const SPEC: &str = "{replicas: 0, selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: i}]}}}";

pub(crate) fn checks(s: &mut Suite) {
    s.check("an apply of what is not there creates it: 201", format!("{ORIGIN} TestApplyAlsoCreates"), |api| {
        config(api, "one", "{k: v}").is(201)?.has("{data: {k: v}, metadata: {generation: null}}")?;
        config(api, "one", "{k: w}").is(200)?.has("{data: {k: w}}").map(drop)
    });
    s.check(
        "an apply that changes nothing keeps version and time",
        format!("{ORIGIN} TestNoOpUpdateSameResourceVersion, TestNoSemanticUpdateApplySameResourceVersion"),
        |api| {
            let first = config(api, "one", "{k: v}").is(201)?;
            let second = config(api, "one", "{k: v}").is(200)?;
            ensure!(first.version() == second.version(), "{} {}", first.version(), second.version());
            ensure!(
                first.at("/metadata/managedFields") == second.at("/metadata/managedFields"),
                "managedFields differ"
            );
            Ok(())
        },
    );
    s.check(
        "a field that is applied no more goes",
        format!("{ORIGIN} TestApplyRemovesFieldsNotInTheConfiguration"),
        |api| {
            config(api, "one", "{k: v, l: w}").is(201)?;
            config(api, "one", "{k: v}").is(200)?.has("{data: {k: v, l: null}}").map(drop)
        },
    );
    s.check("a field that another applies too stays", format!("{ORIGIN} TestApplyGroupsManySeparateUpdates"), |api| {
        config(api, "one", "{k: v, l: w}").is(201)?;
        config(api, "two", "{l: w}").is(200)?;
        config(api, "one", "{k: v}").is(200)?.has("{data: {k: v, l: w}}").map(drop)
    });
    s.check("force takes a field over", format!("{ORIGIN} TestApplyManagedFields (force)"), |api| {
        config(api, "one", "{k: v}").is(201)?;
        config(api, "two", "{k: w}").refused(409, "Conflict", "conflict with \"one\"")?;
        let forced = api
            .apply(
                "v1~/configmaps/a?fieldManager=two&force=true",
                "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {k: w}}",
            )
            .is(200)?;
        ensure!(!owned(&forced, "two", "Apply")?["f:data"]["f:k"].is_null(), "two does not own it");
        ensure!(owned(&forced, "one", "Apply").is_err(), "one still owns something");
        Ok(())
    });
    s.check("an update makes its manager an owner", format!("{ORIGIN} TestApplyUpdateApplyConflictForced"), |api| {
        config(api, "one", "{k: v}").is(201)?;
        let patched = api.patch("merge", "v1~/configmaps/a?fieldManager=hand", "{data: {k: x}}").is(200)?;
        ensure!(!owned(&patched, "hand", "Update")?["f:data"]["f:k"].is_null(), "hand does not own it");
        config(api, "one", "{k: v}").refused(409, "Conflict", "conflict with \"hand\" using v1: .data.k").map(drop)
    });
    s.check(
        "the first apply of what was created shares with its creator",
        format!("{ORIGIN} TestApplyConvertsManagedFieldsVersion (before-first-apply)"),
        |api| {
            api.post("v1~/configmaps?fieldManager=hand", "{metadata: {name: a}, data: {k: v}}").is(201)?;
            let applied = config(api, "one", "{k: v}").is(200)?;
            ensure!(!owned(&applied, "hand", "Update")?["f:data"]["f:k"].is_null(), "hand lost it");
            ensure!(!owned(&applied, "one", "Apply")?["f:data"]["f:k"].is_null(), "one has it not");
            Ok(())
        },
    );
    s.check(
        "managedFields of nothing but an empty entry are cleared",
        format!("{ORIGIN} TestClearManagedFieldsWithMergePatch"),
        |api| {
            config(api, "one", "{k: v}").is(201)?;
            let cleared = api.patch("merge", "v1~/configmaps/a", "{metadata: {managedFields: [{}]}}").is(200)?;
            ensure!(cleared.at("/metadata/managedFields").as_array().is_none_or(Vec::is_empty), "{}", cleared.body);
            Ok(())
        },
    );
    s.check("containers merge by name, ports by port and protocol", format!("{ORIGIN} TestApplyWithDuplicate..; KEP 555 (list types)"), |api| {
        deployment(api, "one", SPEC).is(201)?;
        deployment(api, "two", "{template: {spec: {containers: [{name: c, ports: [{containerPort: 80}]}]}}}").is(200)?;
        deployment(api, "three", "{template: {spec: {containers: [{name: c, ports: [{containerPort: 80, protocol: UDP}]}, {name: side, image: s}]}}}")
            .is(200)?
            .has("{spec: {template: {spec: {containers: [{name: c, image: i, ports: [{containerPort: 80, protocol: TCP}, {containerPort: 80, protocol: UDP}]}, {name: side}]}}}}")
            .map(drop)
    });
    s.check(
        "an item that is applied no more goes, the rest stays",
        format!("{ORIGIN} TestApplyRemoveContainerPort"),
        |api| {
            deployment(api, "one", SPEC).is(201)?;
            deployment(
                api,
                "two",
                "{template: {spec: {containers: [{name: c, ports: [{containerPort: 80}, {containerPort: 81}]}]}}}",
            )
            .is(200)?;
            deployment(api, "two", "{template: {spec: {containers: [{name: c, ports: [{containerPort: 81}]}]}}}")
                .is(200)?
                .has("{spec: {template: {spec: {containers: [{name: c, image: i, ports: [{containerPort: 81}]}]}}}}")
                .map(drop)
        },
    );
    s.check(
        "scale owns the replicas",
        "test/integration/apiserver/apply/apply_test.go TestApplyScale..; scale_test.go",
        |api| {
            deployment(api, "one", SPEC).is(201)?;
            let path = "apps/v1~/deployments/d/scale?fieldManager=scaler";
            api.patch("merge", path, "{spec: {replicas: 1}}").is(200)?.has("{kind: Scale, spec: {replicas: 1}}")?;
            let now = api.get("apps/v1~/deployments/d").is(200)?;
            let entries = now.at("/metadata/managedFields").as_array().cloned().unwrap_or_default();
            let entry = entries.iter().find(|e| e["manager"] == "scaler").context("no entry of the scaler")?;
            ensure!(entry["subresource"] == "scale" && !entry["fieldsV1"]["f:spec"]["f:replicas"].is_null(), "{entry}");
            deployment(api, "one", SPEC).refused(409, "Conflict", ".spec.replicas").map(drop)
        },
    );
    s.check("status is applied by itself", format!("{ORIGIN} TestApplyStatus"), |api| {
        api.post("batch/v1~/cronjobs", "{metadata: {name: c}, spec: {schedule: '* * * * *', suspend: true, jobTemplate: {spec: {template: {spec: {restartPolicy: Never, containers: [{name: c, image: i}]}}}}}}").is(201)?;
        let applied = api
            .apply("batch/v1~/cronjobs/c/status?fieldManager=one&force=true", "{apiVersion: batch/v1, kind: CronJob, metadata: {name: c}, spec: {schedule: '1 * * * *'}, status: {lastScheduleTime: '2026-01-01T00:00:00Z'}}")
            .is(200)?
            .has("{spec: {schedule: '* * * * *'}, status: {lastScheduleTime: '2026-01-01T00:00:00Z'}}")?;
        ensure!(owned(&applied, "one", "Apply")?["f:spec"].is_null(), "the spec is owned through the status");
        Ok(())
    });
    s.check("an apply as a dry run leaves nothing", format!("{ORIGIN} TestApplyCreateDryRun"), |api| {
        api.apply(
            "v1~/configmaps/a?fieldManager=one&dryRun=All",
            "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {k: v}}",
        )
        .is(201)?;
        api.get("v1~/configmaps/a").is(404).map(drop)
    });
    s.check(
        "an unknown field is refused strictly, warned of, or passed over",
        "[sig-api-machinery] FieldValidation should detect unknown and duplicate fields of a typed object",
        |api| {
            let body = "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {k: v}, unknown: 1}";
            let path = |mode: &str| format!("v1~/configmaps/a?fieldManager=one&fieldValidation={mode}");
            let strict = api.apply(&path("Strict"), body);
            ensure!(strict.code == 400 || strict.code == 422 || strict.code == 500, "{strict:?}");
            ensure!(strict.text("/message").contains("unknown"), "{}", strict.body);
            Ok(())
        },
    );
    s.check(
        "an old version in an apply is a conflict",
        format!("{ORIGIN} TestApplyWithOutdatedResourceVersion"),
        |api| {
            let first = config(api, "one", "{k: v}").is(201)?;
            config(api, "one", "{k: w}").is(200)?;
            api.apply(
                "v1~/configmaps/a?fieldManager=one",
                format!(
                    "{{apiVersion: v1, kind: ConfigMap, metadata: {{name: a, resourceVersion: '{}'}}, data: {{k: x}}}}",
                    first.version()
                ),
            )
            .refused(409, "Conflict", "the object has been modified")
            .map(drop)
        },
    );
}
