//! Environment variables of a container.

use std::collections::BTreeMap;

use base64::Engine as _;
use serde_json::Value;
use vctl_api::agent::EnvVar;

use super::{
    Context,
    field::{self, Field},
};
use crate::json::Json;

fn literal(name: impl Into<String>, value: impl Into<String>) -> EnvVar {
    EnvVar { name: name.into(), value: value.into(), literal: true, ..EnvVar::default() }
}

/// The variables that tell of services, sorted by service name.
pub(super) fn services(pod: &Value, context: &Context) -> Vec<EnvVar> {
    let namespace = pod.text("/metadata/namespace");
    let links = pod.some_flag("/spec/enableServiceLinks").unwrap_or(true);
    let mut chosen: BTreeMap<&str, &Value> = BTreeMap::new();
    for service in &context.services {
        let ip = service.text("/spec/clusterIP");
        if ip.is_empty() || ip == "None" {
            continue;
        }
        let name = service.text("/metadata/name");
        let home = service.text("/metadata/namespace");
        if links && home == namespace {
            chosen.insert(name, service);
        } else if home == "default" && name == "kubernetes" {
            chosen.entry(name).or_insert(service);
        }
    }
    chosen.into_iter().flat_map(|(name, service)| of_service(name, service)).collect()
}

fn of_service(name: &str, service: &Value) -> Vec<EnvVar> {
    let upper = |text: &str| text.to_ascii_uppercase().replace('-', "_");
    let prefix = upper(name);
    let ip = service.text("/spec/clusterIP");
    let host = if ip.contains(':') { format!("[{ip}]") } else { ip.to_owned() };
    let ports = service.items("/spec/ports");
    let mut out = vec![literal(format!("{prefix}_SERVICE_HOST"), ip)];
    let Some(first) = ports.first() else { return out };
    let number = |port: &Value| port.number("/port").unwrap_or_default();
    out.push(literal(format!("{prefix}_SERVICE_PORT"), number(first).to_string()));
    for port in ports {
        if let Some(name) = port.some_text("/name") {
            out.push(literal(format!("{prefix}_SERVICE_PORT_{}", upper(name)), number(port).to_string()));
        }
    }
    for (index, port) in ports.iter().enumerate() {
        let protocol = port.some_text("/protocol").unwrap_or("TCP");
        let (number, lower) = (number(port), protocol.to_ascii_lowercase());
        let address = format!("{lower}://{host}:{number}");
        if index == 0 {
            out.push(literal(format!("{prefix}_PORT"), address.clone()));
        }
        let prefix = format!("{prefix}_PORT_{number}_{}", protocol.to_ascii_uppercase());
        out.push(literal(prefix.clone(), address));
        out.push(literal(format!("{prefix}_PROTO"), lower));
        out.push(literal(format!("{prefix}_PORT"), number.to_string()));
        out.push(literal(format!("{prefix}_ADDR"), ip));
    }
    out
}

/// Variables of a container after those of services: `envFrom`, then `env`.
///
/// # Errors
/// Why the container cannot be started, as the kubelet says it.
pub(super) fn of_container(pod: &Value, container: &Value, context: &Context) -> Result<Vec<EnvVar>, String> {
    let mut out = Vec::new();
    for source in container.items("/envFrom") {
        let prefix = source.text("/prefix");
        let pairs = if let Some(reference) = source.there("/configMapRef") {
            all(config_map(context, reference)?, false)
        } else if let Some(reference) = source.there("/secretRef") {
            all(secret(context, reference)?, true)
        } else {
            Vec::new()
        };
        for (key, value) in pairs {
            let name = format!("{prefix}{key}");
            if !name.contains('=') && !name.is_empty() {
                out.push(literal(name, String::from_utf8_lossy(&value)));
            }
        }
    }
    for variable in container.items("/env") {
        let name = variable.text("/name");
        let Some(source) = variable.there("/valueFrom") else {
            out.push(EnvVar { name: name.to_owned(), value: variable.text("/value").to_owned(), ..EnvVar::default() });
            continue;
        };
        if let Some(reference) = source.there("/fieldRef") {
            out.push(match field::resolve(pod, reference.text("/fieldPath"))? {
                Field::Text(value) => literal(name, value),
                Field::OnWorker(path) => {
                    EnvVar { name: name.to_owned(), field_path: path, literal: true, ..EnvVar::default() }
                }
            });
        } else if let Some(reference) = source.there("/resourceFieldRef") {
            out.push(literal(name, field::resource(pod, Some(container), reference, context)?));
        } else if let Some(reference) = source.there("/configMapKeyRef") {
            let found = config_map(context, reference)?.and_then(|o| value(o, reference.text("/key"), false));
            if let Some(value) = required(pod, reference, "ConfigMap", found)? {
                out.push(literal(name, String::from_utf8_lossy(&value)));
            }
        } else if let Some(reference) = source.there("/secretKeyRef") {
            let found = secret(context, reference)?.and_then(|o| value(o, reference.text("/key"), true));
            if let Some(value) = required(pod, reference, "Secret", found)? {
                out.push(literal(name, String::from_utf8_lossy(&value)));
            }
        }
    }
    Ok(out)
}

fn required(pod: &Value, reference: &Value, kind: &str, found: Option<Vec<u8>>) -> Result<Option<Vec<u8>>, String> {
    if found.is_none() && !reference.flag("/optional") {
        let (key, name) = (reference.text("/key"), reference.text("/name"));
        return Err(format!("couldn't find key {key} in {kind} {}/{name}", pod.text("/metadata/namespace")));
    }
    Ok(found)
}

fn config_map<'a>(context: &'a Context, reference: &Value) -> Result<Option<&'a Value>, String> {
    let name = reference.text("/name");
    match context.config_maps.get(name) {
        None if !reference.flag("/optional") => Err(format!("configmap \"{name}\" not found")),
        found => Ok(found),
    }
}

fn secret<'a>(context: &'a Context, reference: &Value) -> Result<Option<&'a Value>, String> {
    let name = reference.text("/name");
    match context.secrets.get(name) {
        None if !reference.flag("/optional") => Err(format!("secret \"{name}\" not found")),
        found => Ok(found),
    }
}

/// All keys of a ConfigMap or Secret with their bytes, in order.
pub(super) fn all(object: Option<&Value>, secret: bool) -> Vec<(String, Vec<u8>)> {
    let Some(object) = object else { return Vec::new() };
    let mut pairs: BTreeMap<String, Vec<u8>> = BTreeMap::new();
    for (map, encoded) in maps(secret) {
        for (key, text) in object.entries(map) {
            if let Some(bytes) = decode(text, *encoded) {
                pairs.insert(key.to_owned(), bytes);
            }
        }
    }
    pairs.into_iter().collect()
}

/// One value of a ConfigMap or Secret.
pub(super) fn value(object: &Value, key: &str, secret: bool) -> Option<Vec<u8>> {
    maps(secret).iter().find_map(|(map, encoded)| {
        let text = object.pointer(map)?.get(key)?.as_str()?;
        decode(text, *encoded)
    })
}

/// Where the values are, and whether they are in base64.
fn maps(secret: bool) -> &'static [(&'static str, bool)] {
    if secret { &[("/data", true)] } else { &[("/data", false), ("/binaryData", true)] }
}

fn decode(text: &str, encoded: bool) -> Option<Vec<u8>> {
    if encoded { base64::engine::general_purpose::STANDARD.decode(text).ok() } else { Some(text.as_bytes().to_vec()) }
}
