//! `meta.k8s.io/v1 Table`: the columns and cells that `kubectl get` prints, as upstream's
//! `pkg/printers/internalversion/printers.go`.

pub mod age;
mod cluster;
mod config;
mod network;
mod pod;
mod policy;
mod storage;
mod workload;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::catalog::Descriptor;

/// A column.
struct Column {
    name: &'static str,
    kind: &'static str,
    format: &'static str,
    /// 0: always shown; 1: with `-o wide`.
    priority: u8,
}

/// A text column.
const fn text(name: &'static str) -> Column {
    Column { name, kind: "string", format: "", priority: 0 }
}

/// A number.
const fn integer(name: &'static str) -> Column {
    Column { name, kind: "integer", format: "", priority: 0 }
}

/// A truth value.
const fn boolean(name: &'static str) -> Column {
    Column { name, kind: "boolean", format: "", priority: 0 }
}

/// A text column of `-o wide`.
const fn wide(name: &'static str) -> Column {
    Column { name, kind: "string", format: "", priority: 1 }
}

/// The object's name.
const NAME: Column = Column { name: "Name", kind: "string", format: "name", priority: 0 };
const AGE: Column = text("Age");

/// How objects of a resource are printed.
struct Printer {
    /// Group-resource.
    resource: &'static str,
    columns: &'static [Column],
    cells: fn(&Value, Timestamp) -> Vec<Value>,
}

/// All printers but the default one.
const PRINTERS: &[&[Printer]] = &[
    pod::PRINTERS,
    workload::PRINTERS,
    network::PRINTERS,
    storage::PRINTERS,
    config::PRINTERS,
    policy::PRINTERS,
    cluster::PRINTERS,
];

const DEFAULT: &[Column] = &[NAME, Column { name: "Created At", kind: "string", format: "date-time", priority: 0 }];

fn printer(descriptor: &Descriptor) -> Option<&'static Printer> {
    if descriptor.custom {
        return None;
    }
    let resource = descriptor.group_resource();
    PRINTERS.iter().flat_map(|p| p.iter()).find(|p| p.resource == resource)
}

/// `columnDefinitions` of a resource.
pub fn columns(descriptor: &Descriptor) -> Value {
    if let Some(definition) = &descriptor.definition {
        let name = json!({
            "name": NAME.name, "type": NAME.kind, "format": NAME.format, "description": describe(NAME.name), "priority": 0,
        });
        return std::iter::once(name).chain(definition.columns()).collect();
    }
    let columns = match printer(descriptor) {
        Some(printer) => printer.columns,
        None if descriptor.custom => &[NAME, AGE],
        None => DEFAULT,
    };
    let definition = |column: &Column| {
        json!({
            "name": column.name, "type": column.kind, "format": column.format,
            "description": describe(column.name), "priority": column.priority,
        })
    };
    columns.iter().map(definition).collect()
}

fn describe(column: &str) -> &'static str {
    match column {
        "Name" => {
            "Name must be unique within a namespace. It is required when creating a resource and cannot be updated."
        }
        "Age" | "Created At" => "When the object was created, by the clock of the server.",
        _ => "",
    }
}

/// The `cells` of one object.
pub fn cells(descriptor: &Descriptor, object: &Value, now: Timestamp) -> Vec<Value> {
    if let Some(definition) = &descriptor.definition {
        return std::iter::once(name(object)).chain(definition.cells(object, now)).collect();
    }
    match printer(descriptor) {
        Some(printer) => (printer.cells)(object, now),
        None if descriptor.custom => vec![name(object), age::of(object, now)],
        None => vec![name(object), object.pointer("/metadata/creationTimestamp").cloned().unwrap_or(Value::Null)],
    }
}

// What the printers share.

const NONE: &str = "<none>";
const UNKNOWN: &str = "<unknown>";
const UNSET: &str = "<unset>";

fn name(object: &Value) -> Value {
    str_at(object, "/metadata/name").into()
}

fn str_at<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// A text, or another one where it is absent or empty.
fn str_or<'a>(object: &'a Value, pointer: &str, otherwise: &'a str) -> &'a str {
    match str_at(object, pointer) {
        "" => otherwise,
        found => found,
    }
}

fn int_at(object: &Value, pointer: &str) -> i64 {
    object.pointer(pointer).and_then(Value::as_i64).unwrap_or_default()
}

fn bool_at(object: &Value, pointer: &str) -> bool {
    object.pointer(pointer).and_then(Value::as_bool).unwrap_or_default()
}

fn list_at<'a>(object: &'a Value, pointer: &str) -> &'a [Value] {
    object.pointer(pointer).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

fn len_at(object: &Value, pointer: &str) -> usize {
    object
        .pointer(pointer)
        .map_or(0, |v| v.as_array().map_or_else(|| v.as_object().map_or(0, serde_json::Map::len), Vec::len))
}

/// A number or a percentage.
fn int_or_string(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// `a=b,c=d`, or `<none>`.
fn map_text(map: Option<&Value>) -> String {
    let pairs: Vec<String> = map
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
        .map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()))
        .collect();
    if pairs.is_empty() { NONE.to_owned() } else { pairs.join(",") }
}

/// A LabelSelector as text, or `<none>` where it selects everything.
fn selector_text(selector: Option<&Value>) -> String {
    match selector.map(crate::selector::LabelSelector::from_object) {
        None => NONE.to_owned(),
        Some(Err(_)) => "<error>".to_owned(),
        Some(Ok(selector)) if selector.is_everything() => NONE.to_owned(),
        Some(Ok(selector)) => selector.to_string(),
    }
}

/// Names and images of the containers of a pod template, joined by commas.
fn containers(spec: Option<&Value>) -> [Value; 2] {
    let containers = spec.map(|s| list_at(s, "/containers")).unwrap_or_default();
    ["/name", "/image"].map(|field| containers.iter().map(|c| str_at(c, field)).collect::<Vec<_>>().join(",").into())
}

#[cfg(test)]
mod testing {
    use super::*;
    use crate::catalog::Descriptor;

    /// The cells of an object as a table row, at a fixed time.
    pub(super) fn row(group_resource: &str, object: &Value) -> String {
        let descriptor = Descriptor { ..crate::selector::testing::descriptor(group_resource) };
        let now = "2026-01-01T00:00:00Z".parse().unwrap();
        let cells = cells(&descriptor, object, now);
        assert_eq!(cells.len(), columns(&descriptor).as_array().unwrap().len(), "a cell for each column");
        cells.iter().map(|c| c.as_str().map_or_else(|| c.to_string(), str::to_owned)).collect::<Vec<_>>().join(" | ")
    }
}
