//! Tables as the API server prints them, live.

use std::collections::BTreeMap;

use futures::{AsyncBufReadExt as _, StreamExt as _};
use jiff::Timestamp;
use serde_json::Value;
use vctl_tui::{
    model::{Cell, Column, Data, Object, Row, Subject, Tone, View},
    rows,
};

use super::{
    cluster::{Cluster, Resource, failed},
    feed::{GATHER, News},
};
use crate::cli::error::CliError;

const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";
/// Events that are shown.
const EVENTS: usize = 1000;

/// What is known of a kind: rows in the order of their keys.
#[derive(Default)]
struct Known {
    columns: Vec<Column>,
    rows: BTreeMap<(String, String), (Option<Timestamp>, Row)>,
    version: String,
}

/// Lists and watches a kind and shows every change. Ends without error when nobody listens any more.
pub(super) async fn follow(
    cluster: &Cluster,
    environment: &str,
    view: &View,
    resource: &str,
    news: &News,
) -> Result<(), CliError> {
    let resource = cluster.resource(resource)?;
    // Containers of pods and times of events are not in what is printed.
    let include = if matches!(view, View::Pods | View::Events) { "Object" } else { "Metadata" };
    loop {
        let mut known = Known::default();
        let list = cluster.get_as(&format!("{}?includeObject={include}", resource.all()), TABLE).await?;
        known.version = list["metadata"]["resourceVersion"].as_str().unwrap_or_default().to_owned();
        known.take(&list, environment, resource);
        if !known.show(environment, view, news).await {
            return Ok(());
        }
        let path = format!("{}?includeObject={include}&watch=1&resourceVersion={}", resource.all(), known.version);
        let request = http::Request::get(path).header("accept", TABLE).body(Vec::new()).map_err(failed)?;
        let stream = cluster.client.request_stream(request).await.map_err(failed)?;
        let mut lines = std::pin::pin!(stream.lines());
        let mut pending = false;
        loop {
            let next = if pending {
                match tokio::time::timeout(GATHER, lines.next()).await {
                    Ok(next) => next,
                    Err(_) => {
                        pending = false;
                        if !known.show(environment, view, news).await {
                            return Ok(());
                        }
                        continue;
                    }
                }
            } else {
                lines.next().await
            };
            // The server ends watches now and then: everything is listed again.
            let Some(line) = next else { break };
            let event: Value = serde_json::from_str(&line.map_err(failed)?).map_err(failed)?;
            match event["type"].as_str() {
                Some("ADDED" | "MODIFIED") => known.take(&event["object"], environment, resource),
                Some("DELETED") => known.remove(&event["object"]),
                Some("BOOKMARK") => continue,
                _ => break,
            }
            pending = true;
        }
        if pending && !known.show(environment, view, news).await {
            return Ok(());
        }
    }
}

fn key(row: &Value) -> (String, String) {
    let meta = &row["object"]["metadata"];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    (text(&meta["namespace"]), text(&meta["name"]))
}

impl Known {
    fn take(&mut self, table: &Value, environment: &str, resource: &Resource) {
        let definitions = table["columnDefinitions"].as_array();
        if let Some(definitions) = definitions.filter(|d| !d.is_empty()) {
            self.columns = columns(definitions, resource.namespaced);
        }
        for row in table["rows"].as_array().into_iter().flatten() {
            self.rows.insert(key(row), one(row, &self.columns, environment, resource));
        }
    }

    fn remove(&mut self, table: &Value) {
        for row in table["rows"].as_array().into_iter().flatten() {
            self.rows.remove(&key(row));
        }
    }

    async fn show(&self, environment: &str, view: &View, news: &News) -> bool {
        let mut rows: Vec<(Option<Timestamp>, Row)> = self.rows.values().cloned().collect();
        if *view == View::Events {
            rows.sort_by_key(|(at, _)| std::cmp::Reverse(*at));
            rows.truncate(EVENTS);
        }
        let rows = rows.into_iter().map(|(_, row)| row).collect();
        let environment = Some(environment.to_owned());
        news.send(Data::Table { view: view.clone(), environment, columns: self.columns.clone(), rows }).await.is_ok()
    }
}

/// Columns by their definitions, after the namespace; the first that says how an object is doing has the colour of it.
fn columns(definitions: &[Value], namespaced: bool) -> Vec<Column> {
    let mut columns: Vec<Column> = Vec::new();
    if namespaced {
        columns.push(Column::new("NAMESPACE"));
    }
    for definition in definitions {
        let title = definition["name"].as_str().unwrap_or_default().to_uppercase();
        let wide = definition["priority"].as_i64().unwrap_or_default() > 0;
        columns.push(if wide { Column::wide(&title) } else { Column::new(&title) });
    }
    let tells = ["STATUS", "PHASE", "READY", "COMPLETIONS", "TYPE"];
    let telling = tells.into_iter().find_map(|title| columns.iter().position(|c| c.title == title && !c.wide));
    if let Some(at) = telling {
        columns[at].tells = true;
    }
    columns
}

/// A row, and when it happened, for events.
fn one(row: &Value, columns: &[Column], environment: &str, resource: &Resource) -> (Option<Timestamp>, Row) {
    let object = &row["object"];
    let (namespace, name) = key(row);
    let created = time(&object["metadata"]["creationTimestamp"]);
    let event = [&object["series"]["lastObservedTime"], &object["lastTimestamp"], &object["eventTime"]];
    let at = event.into_iter().find_map(time).or(created);
    let printed = row["cells"].as_array().into_iter().flatten();
    let namespace_cell = resource.namespaced.then(|| Cell::Text(namespace.clone()));
    let mut cells: Vec<Cell> = namespace_cell.into_iter().collect();
    let mut tone = Tone::Plain;
    for value in printed {
        let Some(column) = columns.get(cells.len()) else { break };
        let text = match value {
            Value::String(text) => text.lines().next().unwrap_or_default().to_owned(),
            Value::Null => String::new(),
            other => other.to_string(),
        };
        if column.tells {
            tone = rows::tone(&column.title, &text);
        }
        cells.push(match column.title.as_str() {
            "AGE" => Cell::Age(created),
            "LAST SEEN" => Cell::Age(at),
            _ => Cell::Text(text),
        });
    }
    let names = |list: &Value| {
        let all = list.as_array().into_iter().flatten();
        all.filter_map(|c| c["name"].as_str().map(str::to_owned)).collect::<Vec<_>>()
    };
    let mut containers = names(&object["spec"]["containers"]);
    if resource.plural == "pods" {
        containers.extend(names(&object["spec"]["initContainers"]));
    } else {
        containers.clear();
    }
    let subject = Object {
        environment: environment.to_owned(),
        resource: resource.kind.name.clone(),
        namespace,
        name,
        containers,
    };
    (at, Row::new(Subject::Object(subject), cells, tone, rows::labels(&object["metadata"])))
}

fn time(value: &Value) -> Option<Timestamp> {
    value.as_str().and_then(|text| text.parse().ok())
}
