//! The environment that is looked at: its kinds, what its pods use, and the table that is shown.

use std::time::Duration;

use serde_json::Value;
use tokio::sync::watch;
use vctl_machinery::quantity;
use vctl_tui::model::{Data, Kind, Object, View};

use super::{
    feed::{News, RETRY, Shown},
    tables,
};
use crate::cli::{Client, Global, error::CliError};

/// How often it is asked what pods use: workers measure no more often.
const MEASURE: Duration = Duration::from_secs(5);
/// The document of all resources of all groups (KEP-3352).
const DISCOVERY: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
/// Looked at after so long without news: a connection may have died without a word.
const UNTIL: Duration = Duration::from_mins(4);

/// A kind of a cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Resource {
    /// How it is shown and asked for.
    pub(super) kind: Kind,
    pub(super) plural: String,
    group_version: String,
    pub(super) namespaced: bool,
}

impl Resource {
    /// Path of all its objects.
    pub(super) fn all(&self) -> String {
        if self.group_version.contains('/') {
            format!("/apis/{}/{}", self.group_version, self.plural)
        } else {
            format!("/api/{}/{}", self.group_version, self.plural)
        }
    }

    fn one(&self, object: &Object) -> String {
        let all = self.all();
        match (self.namespaced, all.rsplit_once('/')) {
            (true, Some((base, plural))) => format!("{base}/namespaces/{}/{plural}/{}", object.namespace, object.name),
            _ => format!("{all}/{}", object.name),
        }
    }
}

/// A connection to the Kubernetes API of an environment.
#[derive(Clone)]
pub(super) struct Cluster {
    pub(super) client: kube::Client,
    resources: Vec<Resource>,
}

pub(super) fn failed(e: impl std::fmt::Display) -> CliError {
    CliError::Failed(e.to_string())
}

/// What the server says without what kube says around it.
fn refused(e: kube::Error) -> CliError {
    match e {
        kube::Error::Api(status) => CliError::Failed(status.message),
        e => failed(e),
    }
}

/// Connects, and asks which kinds there are.
pub(super) async fn connect(global: &Global, environment: &str) -> Result<Cluster, CliError> {
    let kubeconfig = crate::cli::kubeconfig::fetch(&Client::open(global)?, environment).await?;
    let kubeconfig = kube::config::Kubeconfig::from_yaml(&kubeconfig).map_err(failed)?;
    let options = kube::config::KubeConfigOptions::default();
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &options).await.map_err(failed)?;
    let client = kube::Client::try_from(config).map_err(failed)?;
    let mut cluster = Cluster { client, resources: Vec::new() };
    let (core, groups) = tokio::try_join!(cluster.get_as("/api", DISCOVERY), cluster.get_as("/apis", DISCOVERY))?;
    cluster.resources = resources(&[core, groups]);
    Ok(cluster)
}

impl Cluster {
    pub(super) async fn get_as(&self, path: &str, accept: &str) -> Result<Value, CliError> {
        self.send(http::Method::GET, path, accept, Vec::new()).await.map_err(refused)
    }

    async fn send(&self, method: http::Method, path: &str, accept: &str, body: Vec<u8>) -> Result<Value, kube::Error> {
        let request = http::Request::builder().method(method).uri(path).header("accept", accept);
        let request = request.header("content-type", "application/json").body(body);
        self.client.request(request.map_err(kube::Error::HttpError)?).await
    }

    /// The kind of this name.
    pub(super) fn resource(&self, name: &str) -> Result<&Resource, CliError> {
        let found = self.resources.iter().find(|resource| resource.kind.name == name);
        found.ok_or_else(|| CliError::Failed(format!("the environment has no {name} any more")))
    }

    /// An object as it is stored.
    pub(super) async fn get(&self, object: &Object) -> Result<Value, CliError> {
        self.get_as(&self.resource(&object.resource)?.one(object), "application/json").await
    }

    pub(super) async fn delete(&self, object: &Object) -> Result<Value, CliError> {
        let path = self.resource(&object.resource)?.one(object);
        self.send(http::Method::DELETE, &path, "application/json", Vec::new()).await.map_err(refused)
    }

    /// Replaces an object, or with `dry_run` says what would come of it. The inner error is the server's message.
    pub(super) async fn put(
        &self,
        object: &Object,
        new: &Value,
        dry_run: bool,
    ) -> Result<Result<Value, Refusal>, CliError> {
        let path = self.resource(&object.resource)?.one(object);
        let query = if dry_run { "&dryRun=All" } else { "" };
        let path = format!("{path}?fieldManager=vctl-dash&fieldValidation=Strict{query}");
        match self.send(http::Method::PUT, &path, "application/json", serde_json::to_vec(new).map_err(failed)?).await {
            Ok(stored) => Ok(Ok(stored)),
            Err(kube::Error::Api(status)) => Ok(Err(Refusal { conflict: status.code == 409, message: status.message })),
            Err(e) => Err(failed(e)),
        }
    }
}

/// The server does not take a change.
pub(super) struct Refusal {
    /// The object was changed by somebody else.
    pub(super) conflict: bool,
    pub(super) message: String,
}

/// Kinds that can be listed, of the preferred version of each group; core first.
fn resources(documents: &[Value]) -> Vec<Resource> {
    let mut all: Vec<Resource> = Vec::new();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    for item in documents.iter().flat_map(|d| d["items"].as_array().into_iter().flatten()) {
        let group = text(&item["metadata"]["name"]);
        let version = &item["versions"][0];
        let group_version =
            if group.is_empty() { text(&version["version"]) } else { format!("{group}/{}", text(&version["version"])) };
        for resource in version["resources"].as_array().into_iter().flatten() {
            let verbs = resource["verbs"].as_array().cloned().unwrap_or_default();
            if !verbs.iter().any(|v| v == "list") {
                continue;
            }
            let plural = text(&resource["resource"]);
            let taken = all.iter().any(|other| other.kind.name == plural);
            let name = if taken { format!("{plural}.{group}") } else { plural.clone() };
            let short = resource["shortNames"].as_array().into_iter().flatten().map(text);
            let singular = text(&resource["singularResource"]);
            let kind = text(&resource["responseKind"]["kind"]).to_lowercase();
            let mut aliases: Vec<String> = if taken { Vec::new() } else { short.chain([singular, kind]).collect() };
            aliases.push(format!("{plural}.{group}"));
            aliases.retain(|alias| !alias.is_empty() && *alias != name);
            let namespaced = resource["scope"] == "Namespaced";
            all.push(Resource {
                kind: Kind { name, aliases },
                plural,
                group_version: group_version.clone(),
                namespaced,
            });
        }
    }
    all
}

/// Brings what is looked at in the chosen environment, until nobody listens any more.
pub(super) async fn follow(global: Global, mut shown: watch::Receiver<Shown>, news: News) {
    loop {
        let environment = shown.borrow_and_update().environment.clone();
        let inside = shown.clone();
        let follow = async {
            match &environment {
                Some(name) => one(&global, name, inside, &news).await,
                None => std::future::pending().await,
            }
        };
        let another = async {
            loop {
                if shown.changed().await.is_err() {
                    return false;
                }
                if shown.borrow_and_update().environment != environment {
                    return true;
                }
            }
        };
        tokio::select! {
            () = follow => return,
            more = another => if !more { return },
        }
    }
}

/// Ends when nobody listens any more; everything that breaks is begun anew, with a new connection.
async fn one(global: &Global, name: &str, mut shown: watch::Receiver<Shown>, news: &News) {
    loop {
        let broken = match connect(global, name).await {
            Ok(cluster) => {
                let kinds = cluster.resources.iter().map(|r| r.kind.clone()).collect();
                if news.send(Data::Kinds { environment: name.to_owned(), kinds }).await.is_err() {
                    return;
                }
                tokio::select! {
                    broken = table(&cluster, name, &mut shown, news) => broken,
                    () = usage(&cluster, name, news) => return,
                }
            }
            // The control plane of a new environment is not there at once.
            Err(e) => Some(e),
        };
        let Some(why) = broken else { return };
        let view = shown.borrow().view.clone();
        if view.resource().is_some() {
            let environment = Some(name.to_owned());
            if news.send(Data::Unreachable { view, environment, why: why.to_string() }).await.is_err() {
                return;
            }
        }
        tokio::time::sleep(RETRY).await;
    }
}

/// Brings the table that is shown; why that cannot go on, or none when nobody listens any more.
async fn table(cluster: &Cluster, name: &str, shown: &mut watch::Receiver<Shown>, news: &News) -> Option<CliError> {
    loop {
        let view: View = shown.borrow_and_update().view.clone();
        let follow = async {
            match view.resource() {
                Some(resource) => tables::follow(cluster, name, &view, resource, news).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            done = tokio::time::timeout(UNTIL, follow) => match done {
                Ok(Ok(())) => return None,
                Ok(Err(e)) => return Some(e),
                Err(_) => {}
            },
            changed = shown.changed() => if changed.is_err() { return None },
        }
    }
}

/// Ends when nobody listens any more.
async fn usage(cluster: &Cluster, name: &str, news: &News) {
    loop {
        // Nothing is measured where no worker measures: then there is no curve.
        if let Ok(list) = cluster.get_as("/apis/metrics.k8s.io/v1beta1/pods", "application/json").await {
            let pods = list["items"].as_array().into_iter().flatten();
            let containers = pods.flat_map(|pod| pod["containers"].as_array().into_iter().flatten());
            let (mut cpu_millis, mut memory_bytes) = (0, 0);
            for container in containers {
                let usage = &container["usage"];
                cpu_millis +=
                    quantity::thousandths(&usage["cpu"]).and_then(|v| u64::try_from(v).ok()).unwrap_or_default();
                memory_bytes +=
                    quantity::units(&usage["memory"]).and_then(|v| u64::try_from(v).ok()).unwrap_or_default();
            }
            let usage = Data::Usage { environment: name.to_owned(), cpu_millis, memory_bytes };
            if news.send(usage).await.is_err() {
                return;
            }
        }
        tokio::time::sleep(MEASURE).await;
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn kinds_have_names_that_say_which() {
        let resource = |plural: &str, kind: &str, scope: &str, verbs: Value| {
            json!({"resource": plural, "responseKind": {"kind": kind}, "scope": scope, "singularResource": kind.to_lowercase(),
                   "shortNames": ["s"], "verbs": verbs})
        };
        let core = json!({"items": [{"metadata": {"name": ""}, "versions": [{"version": "v1", "resources": [
            resource("events", "Event", "Namespaced", json!(["list", "get"])),
            resource("nodes", "Node", "Cluster", json!(["list"])),
            resource("bindings", "Binding", "Namespaced", json!(["create"])),
        ]}]}]});
        let groups = json!({"items": [{"metadata": {"name": "events.k8s.io"}, "versions": [{"version": "v1", "resources": [
            resource("events", "Event", "Namespaced", json!(["list"])),
        ]}]}]});
        let all = resources(&[core, groups]);
        let names: Vec<&str> = all.iter().map(|r| r.kind.name.as_str()).collect();
        assert_eq!(names, ["events", "nodes", "events.events.k8s.io"]);
        let object = |namespace: &str| Object {
            environment: "e".to_owned(),
            resource: String::new(),
            namespace: namespace.to_owned(),
            name: "x".to_owned(),
            containers: Vec::new(),
        };
        assert_eq!(all[0].one(&object("default")), "/api/v1/namespaces/default/events/x");
        assert_eq!(all[1].one(&object("")), "/api/v1/nodes/x");
        assert_eq!(all[2].one(&object("a")), "/apis/events.k8s.io/v1/namespaces/a/events/x");
    }
}
