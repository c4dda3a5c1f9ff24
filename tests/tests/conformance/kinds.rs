//! The same for every kind: what upstream's "API operations" and "lifecycle" tests do with one kind each.

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::{Value, json};

use crate::{
    api::{Api, Watch},
    suite::Suite,
};

/// A certificate signing request of `CN=e2e`, as PEM in base64.
const CSR: &str = include_str!("csr.txt");

/// One kind of `kinds.yaml`.
#[derive(Clone)]
struct Kind {
    /// `v1~/configmaps`.
    path: String,
    entry: Value,
}

impl Kind {
    fn read() -> Result<Vec<Self>> {
        let entries: Vec<Value> = serde_yaml::from_str(&include_str!("kinds.yaml").replace("{csr}", CSR.trim()))?;
        Ok(entries
            .into_iter()
            .map(|entry| Self { path: entry["kind"].as_str().unwrap_or_default().to_owned(), entry })
            .collect())
    }

    fn resource(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or_default()
    }

    /// `v1`, `apps/v1`.
    fn version(&self) -> &str {
        self.path.split_once('~').or_else(|| self.path.rsplit_once('/')).map_or("", |(version, _)| version)
    }

    /// The path of the collection in all namespaces.
    fn everywhere(&self) -> String {
        self.path.replace("~/", "/")
    }

    fn skips(&self, what: &str) -> bool {
        self.entry["skip"].as_array().is_some_and(|s| s.iter().any(|w| w == what))
    }

    /// The object and its name; objects with different numbers differ. Labelled `e2e: {ns}`.
    fn object(&self, api: &Api, number: u8) -> (String, Value) {
        let index = api.ns.rsplit('-').next().unwrap_or_default();
        let fill = |text: &str| text.replace("{ns}", &api.ns).replace("{n}", index).replace("{m}", &number.to_string());
        let name = fill(self.entry["name"].as_str().unwrap_or("{ns}-{m}"));
        let text = self.entry["object"].to_string();
        let mut object: Value = serde_json::from_str(&fill(&text)).unwrap_or_default();
        object["metadata"] = json!({ "name": name, "labels": { "e2e": api.ns } });
        (name, object)
    }
}

pub(crate) fn checks(suite: &mut Suite) -> Result<()> {
    for kind in Kind::read()? {
        let origin = kind.entry["origin"].as_str().context("an origin")?.to_owned();
        let title = format!("{} {}", kind.resource(), kind.version());
        let mut add = |what: &str, run: fn(&Kind, &Api) -> Result<()>| {
            let kind = kind.clone();
            suite.check(format!("{title}: {what}"), origin.clone(), move |api| run(&kind, api));
        };
        add("is in discovery, legacy and aggregated", discovery);
        add("create, get, list, watch, patch, update, delete", operations);
        add("delete of a collection by label", collection);
        add("dry runs leave nothing behind", dry_run);
        add("server-side apply creates, and does nothing the second time", apply);
        if kind.entry["status"].is_object() && !kind.skips("status") {
            add("the status is got, patched and updated by itself", status);
        }
    }
    Ok(())
}

fn discovery(kind: &Kind, api: &Api) -> Result<()> {
    let version = kind.version();
    let root = if version.contains('/') { format!("/apis/{version}") } else { format!("/api/{version}") };
    let legacy = api.get(&root).is(200)?;
    let resources = legacy.at("/resources").as_array().context("resources")?;
    let found = resources.iter().find(|r| r["name"] == kind.resource()).context("not in the legacy document")?;
    ensure!(found["namespaced"] == kind.path.contains('~'), "scope: {found}");
    for verb in ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"] {
        ensure!(found["verbs"].as_array().is_some_and(|v| v.iter().any(|v| v == verb)), "no {verb}: {found}");
    }
    if kind.entry["status"].is_object() {
        let name = format!("{}/status", kind.resource());
        ensure!(resources.iter().any(|r| r["name"] == name.as_str()), "no {name}");
    }
    let (group, number) = version.split_once('/').unwrap_or(("", version));
    let aggregated = api
        .with("Accept", "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList")
        .get(if group.is_empty() { "/api" } else { "/apis" })
        .is(200)?
        .has("{kind: APIGroupDiscoveryList, apiVersion: apidiscovery.k8s.io/v2}")?;
    let groups = aggregated.at("/items").as_array().context("items")?;
    let of_group = groups
        .iter()
        .find(|g| g["metadata"]["name"].as_str().unwrap_or_default() == group)
        .context("the group is not in the aggregated document")?;
    let of_version = of_group["versions"].as_array().into_iter().flatten().find(|v| v["version"] == number);
    let resource = of_version
        .and_then(|v| v["resources"].as_array())
        .and_then(|r| r.iter().find(|r| r["resource"] == kind.resource()))
        .context("the resource is not in the aggregated document")?;
    ensure!(resource["responseKind"]["kind"] == found["kind"], "{resource}");
    Ok(())
}

fn operations(kind: &Kind, api: &Api) -> Result<()> {
    let (name, object) = kind.object(api, 1);
    let one = format!("{}/{name}", kind.path);
    let mut watch = api.watch(&format!("{}?labelSelector=e2e={{ns}}&resourceVersion=0", kind.path))?;
    let created = api.post(&kind.path, &object).is(201).context("create")?;
    for field in ["uid", "creationTimestamp", "resourceVersion"] {
        ensure!(!created.at(&format!("/metadata/{field}")).is_null(), "no {field}: {}", created.body);
    }
    let got = api.get(&one).is(200).context("get")?;
    ensure!(got.text("/metadata/uid") == created.text("/metadata/uid"), "another object");
    api.post(&kind.path, &object).refused(409, "AlreadyExists", &format!("{:?} already exists", name))?;
    for path in [kind.path.clone(), kind.everywhere()] {
        let list = api.get(&format!("{path}?labelSelector=e2e={{ns}}")).is(200).context("list")?;
        ensure!(list.names() == [name.as_str()], "list {path}: {:?}", list.names());
    }
    event(&mut watch, "ADDED", &json!({ "metadata": { "name": name } }))?;

    let patch = &kind.entry["patch"];
    let patched = api.patch("merge", &one, patch).is(200).context("patch")?;
    crate::api::subset(&patched.body, &serde_json::from_str(&patch.to_string().replace("{ns}", &api.ns))?, "patched")?;
    event(&mut watch, "MODIFIED", patch)?;

    // Others may write too (a controller's status): upstream updates with a retry on conflict.
    let updated = retry(|| {
        let mut body = api.get(&one).is(200)?.body;
        body["metadata"]["annotations"]["updated"] = "true".into();
        api.put(&one, &body).is(200)
    })
    .context("update")?;
    updated.has("{metadata: {annotations: {updated: 'true'}}}")?;
    event(&mut watch, "MODIFIED", &json!({ "metadata": { "annotations": { "updated": "true" } } }))?;

    let stale = {
        let mut body = created.body.clone();
        body["metadata"]["annotations"]["stale"] = "true".into();
        api.put(&one, &body)
    };
    stale.refused(
        409,
        "Conflict",
        "the object has been modified; please apply your changes to the latest version and try again",
    )?;

    api.delete(&one).ok().context("delete")?;
    api.wait_gone(&one)?;
    event(&mut watch, "DELETED", &json!({ "metadata": { "name": name } }))?;
    api.delete(&one).refused(404, "NotFound", &format!("{name:?} not found"))?;
    Ok(())
}

fn event(watch: &mut Watch, kind: &str, expected: &Value) -> Result<()> {
    watch.find(kind, &expected.to_string()).map(drop)
}

/// Again on 409, as `retry.RetryOnConflict` of client-go does.
pub(crate) fn retry<T>(mut attempt: impl FnMut() -> Result<T>) -> Result<T> {
    let mut last = None;
    for _ in 0..10 {
        match attempt() {
            Ok(value) => return Ok(value),
            Err(e) if format!("{e:#}").contains("the object has been modified") => last = Some(e),
            Err(e) => return Err(e),
        }
    }
    match last {
        Some(e) => Err(e.context("ten conflicts")),
        None => bail!("never tried"),
    }
}

fn collection(kind: &Kind, api: &Api) -> Result<()> {
    for number in 1..=3 {
        api.post(&kind.path, &kind.object(api, number).1).is(201)?;
    }
    let (other, mut object) = kind.object(api, 4);
    object["metadata"]["labels"] = json!({ "e2e": "other" });
    api.post(&kind.path, &object).is(201)?;
    let selected = format!("{}?labelSelector=e2e={{ns}}", kind.path);
    let listed = api.get(&selected).is(200)?;
    ensure!(listed.names().len() == 3, "{:?}", listed.names());
    api.delete(&selected).is(200)?;
    api.until(&selected, |list| {
        ensure!(list.clone().is(200)?.names().is_empty(), "left: {:?}", list.names());
        Ok(())
    })?;
    let other = format!("{}/{other}", kind.path);
    api.get(&other).is(200).context("the one with another label")?;
    api.delete(&other).ok().map(drop)
}

fn dry_run(kind: &Kind, api: &Api) -> Result<()> {
    let (name, object) = kind.object(api, 1);
    let one = format!("{}/{name}", kind.path);
    api.post(&format!("{}?dryRun=All", kind.path), &object).is(201)?.has("{metadata: {uid: <any>}}")?;
    api.get(&one).is(404)?;
    api.post(&kind.path, &object).is(201)?;
    api.patch("merge", &format!("{one}?dryRun=All"), "{metadata: {annotations: {dry: run}}}")
        .is(200)?
        .has("{metadata: {annotations: {dry: run}}}")?;
    api.delete(&format!("{one}?dryRun=All")).ok()?;
    api.get(&one).is(200)?.has("{metadata: {annotations: {dry: null}, deletionTimestamp: null}}")?;
    api.delete(&one).ok()?;
    api.wait_gone(&one)
}

fn apply(kind: &Kind, api: &Api) -> Result<()> {
    let (name, mut object) = kind.object(api, 1);
    let one = format!("{}/{name}", kind.path);
    let version = kind.version();
    let root = if version.contains('/') { format!("/apis/{version}") } else { format!("/api/{version}") };
    let resources = api.get(&root).is(200)?;
    let found = resources.at("/resources").as_array().into_iter().flatten().find(|r| r["name"] == kind.resource());
    object["apiVersion"] = version.into();
    object["kind"] = found.context("the resource")?["kind"].clone();
    let path = format!("{one}?fieldManager=e2e&force=true");
    let created = api.apply(&path, &object).is(201)?;
    let managers = created.at("/metadata/managedFields").as_array().context("managedFields")?;
    ensure!(managers.iter().any(|m| m["manager"] == "e2e" && m["operation"] == "Apply"), "{managers:?}");
    // A controller may write in between: the second apply is compared with what was read right before it.
    for _ in 0..10 {
        let before = api.get(&one).is(200)?;
        let again = api.apply(&path, &object).is(200)?;
        if before.version() == again.version() {
            api.delete(&one).ok()?;
            return api.wait_gone(&one);
        }
    }
    bail!("an apply that changes nothing writes a new version")
}

fn status(kind: &Kind, api: &Api) -> Result<()> {
    let (name, object) = kind.object(api, 1);
    let one = format!("{}/{name}", kind.path);
    let part = format!("{one}/status");
    api.post(&kind.path, &object).is(201)?;
    api.get(&part).is(200)?.has(&format!("{{metadata: {{name: {name:?}}}}}"))?;
    let patch = json!({ "metadata": { "annotations": { "patchedstatus": "true" } }, "status": kind.entry["status"] });
    let patched = api.patch("merge", &part, &patch).is(200)?;
    crate::api::subset(patched.at("/status"), &kind.entry["status"], "status")?;
    let before = patched.at("/spec").clone();
    let updated = retry(|| {
        let mut body = api.get(&part).is(200)?.body;
        body["status"] = kind.entry["status"].clone();
        // What is not status does not come through this way.
        if body["spec"].is_object() {
            body["spec"]["suspend"] = Value::Null;
        }
        api.put(&part, &body).is(200)
    })?;
    crate::api::subset(updated.at("/status"), &kind.entry["status"], "status")?;
    ensure!(updated.at("/spec") == &before, "the spec changed: {} was {before}", updated.at("/spec"));
    // The other way round: a status that comes with the object is not taken.
    let replaced = retry(|| {
        let mut body = api.get(&one).is(200)?.body;
        body["status"] = Value::Null;
        api.put(&one, &body).is(200)
    })?;
    ensure!(!replaced.at("/status").is_null(), "the status went: {}", replaced.body);
    api.delete(&one).ok().map(drop)
}
