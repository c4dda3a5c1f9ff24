//! Volumes of a pod.

use serde_json::Value;
use vctl_api::agent::{self, EmptyDir, File, Files, volume::Source};
use vctl_machinery::quantity;

use super::{
    Context, TokenSpec, environment,
    field::{self, Field},
};
use crate::json::Json;

/// The CSI driver of directories on the worker's own disk: what the provisioner of the virtual clusters writes.
pub(crate) const DRIVER: &str = "volumes.vctl.dev";

/// The token that a projected source asks for.
pub(super) fn token_spec(pod: &Value, source: &Value) -> TokenSpec {
    TokenSpec {
        service_account: pod.some_text("/spec/serviceAccountName").unwrap_or("default").to_owned(),
        audience: source.text("/audience").to_owned(),
        expiration_seconds: source.number("/expirationSeconds").unwrap_or(3600),
    }
}

/// Translates one volume; what cannot be set up carries the kubelet's message.
pub(super) fn translate(pod: &Value, volume: &Value, context: &Context) -> agent::Volume {
    let name = volume.text("/name");
    let (source, error) = match source(pod, volume, context) {
        Ok(source) => (Some(source), String::new()),
        Err(why) => (None, format!("MountVolume.SetUp failed for volume \"{name}\" : {why}")),
    };
    agent::Volume { name: name.to_owned(), source, error }
}

fn source(pod: &Value, volume: &Value, context: &Context) -> Result<Source, String> {
    if let Some(empty) = volume.there("/emptyDir") {
        return Ok(Source::EmptyDir(EmptyDir {
            memory: empty.text("/medium") == "Memory",
            size_limit_bytes: empty.get("sizeLimit").and_then(quantity::units).filter(|s| *s > 0),
        }));
    }
    if let Some(path) = volume.some_text("/hostPath/path") {
        return host_path(path, context);
    }
    if let Some(source) = volume.there("/configMap") {
        let mode = source.number("/defaultMode").unwrap_or(0o644);
        return Ok(Source::Files(Files { files: config_map(source, source.text("/name"), mode, context)? }));
    }
    if let Some(source) = volume.there("/secret") {
        let mode = source.number("/defaultMode").unwrap_or(0o644);
        return Ok(Source::Files(Files { files: secret(source, source.text("/secretName"), mode, context)? }));
    }
    if let Some(source) = volume.there("/downwardAPI") {
        let mode = source.number("/defaultMode").unwrap_or(0o644);
        return Ok(Source::Files(Files { files: downward(pod, source, mode, context)? }));
    }
    if let Some(projected) = volume.there("/projected") {
        return Ok(Source::Files(Files { files: self::projected(pod, projected, context)? }));
    }
    if let Some(claim) = volume.some_text("/persistentVolumeClaim/claimName") {
        let Some(object) = context.claims.get(claim) else {
            return Err(format!("persistentvolumeclaim \"{claim}\" not found"));
        };
        if object.text("/status/phase") != "Bound" {
            return Err(format!("PersistentVolumeClaim is not bound: \"{}/{claim}\"", pod.text("/metadata/namespace")));
        }
        let name = object.text("/spec/volumeName");
        let Some(volume) = context.volumes.get(name) else {
            return Err(format!("persistentvolume \"{name}\" not found"));
        };
        return persistent(volume, context);
    }
    let kind =
        volume.as_object().and_then(|o| o.keys().find(|k| *k != "name")).map_or("of no known type", String::as_str);
    if kind == "of no known type" {
        // A volume without a source is an emptyDir.
        return Ok(Source::EmptyDir(EmptyDir::default()));
    }
    Err(format!(
        "volumes of type {kind} are not supported by this worker; use configMap, secret, projected, downwardAPI or emptyDir"
    ))
}

fn host_path(path: &str, context: &Context) -> Result<Source, String> {
    if context.allow_host_access {
        return Ok(Source::HostPath(path.to_owned()));
    }
    Err(format!(
        "hostPath \"{path}\" is not allowed: environments share the worker, so its files are closed to pods; use a \
         PersistentVolumeClaim, emptyDir, a ConfigMap or a Secret"
    ))
}

/// Where a PersistentVolume is on the worker.
fn persistent(volume: &Value, context: &Context) -> Result<Source, String> {
    if let Some(path) = volume.some_text("/spec/hostPath/path").or_else(|| volume.some_text("/spec/local/path")) {
        return host_path(path, context);
    }
    let (driver, handle) = (volume.text("/spec/csi/driver"), volume.text("/spec/csi/volumeHandle"));
    let name = volume.text("/metadata/name");
    if driver != DRIVER {
        let what = if driver.is_empty() { "its type".to_owned() } else { format!("the CSI driver {driver}") };
        return Err(format!(
            "{what} is not supported by this worker: persistentvolume \"{name}\" must be of the driver {DRIVER}"
        ));
    }
    let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_');
    if handle.is_empty() || handle.len() > 128 || handle.starts_with('.') || !handle.bytes().all(plain) {
        return Err(format!(
            "volumeHandle \"{handle}\" of persistentvolume \"{name}\" must be a name of at most 128 letters, digits, '.', '-' and '_'"
        ));
    }
    Ok(Source::Persistent(format!("{}/{handle}", context.volumes_key)))
}

/// Whether a volume is for reading only, wherever it is mounted.
pub(super) fn is_read_only(pod: &Value, name: &str, context: &Context) -> bool {
    let Some(volume) = pod.items("/spec/volumes").iter().find(|v| v.text("/name") == name) else { return false };
    let Some(claim) = volume.there("/persistentVolumeClaim") else { return false };
    let bound =
        context.claims.get(claim.text("/claimName")).and_then(|c| context.volumes.get(c.text("/spec/volumeName")));
    claim.flag("/readOnly") || bound.is_some_and(|v| v.flag("/spec/csi/readOnly"))
}

fn projected(pod: &Value, projected: &Value, context: &Context) -> Result<Vec<File>, String> {
    let mode = projected.number("/defaultMode").unwrap_or(0o644);
    let mut files: Vec<File> = Vec::new();
    for source in projected.items("/sources") {
        let more = if let Some(source) = source.there("/configMap") {
            config_map(source, source.text("/name"), mode, context)?
        } else if let Some(source) = source.there("/secret") {
            secret(source, source.text("/name"), mode, context)?
        } else if let Some(source) = source.there("/downwardAPI") {
            downward(pod, source, mode, context)?
        } else if let Some(source) = source.there("/serviceAccountToken") {
            let spec = token_spec(pod, source);
            match context.tokens.get(&spec) {
                Some(Ok(token)) => vec![file(source.text("/path"), token.clone().into_bytes(), mode)?],
                Some(Err(why)) => return Err(format!("failed to fetch token: {why}")),
                None => return Err("failed to fetch token: it has not been issued yet".to_owned()),
            }
        } else {
            return Err(
                "projected volumes take configMap, secret, downwardAPI and serviceAccountToken sources".to_owned()
            );
        };
        for file in more {
            files.retain(|f| f.path != file.path);
            files.push(file);
        }
    }
    Ok(files)
}

fn config_map(source: &Value, name: &str, mode: i64, context: &Context) -> Result<Vec<File>, String> {
    let object = context.config_maps.get(name);
    if object.is_none() && !source.flag("/optional") {
        return Err(format!("configmap \"{name}\" not found"));
    }
    keys(source, object, mode, false)
}

fn secret(source: &Value, name: &str, mode: i64, context: &Context) -> Result<Vec<File>, String> {
    let object = context.secrets.get(name);
    if object.is_none() && !source.flag("/optional") {
        return Err(format!("secret \"{name}\" not found"));
    }
    keys(source, object, mode, true)
}

fn keys(source: &Value, object: Option<&Value>, mode: i64, is_secret: bool) -> Result<Vec<File>, String> {
    let items = source.items("/items");
    if items.is_empty() {
        return environment::all(object, is_secret).into_iter().map(|(key, bytes)| file(&key, bytes, mode)).collect();
    }
    let mut files = Vec::new();
    for item in items {
        let key = item.text("/key");
        match object.and_then(|o| environment::value(o, key, is_secret)) {
            Some(bytes) => files.push(file(item.text("/path"), bytes, item.number("/mode").unwrap_or(mode))?),
            None if source.flag("/optional") => {}
            None if is_secret => return Err(format!("references non-existent secret key: {key}")),
            None => return Err(format!("references non-existent config key: {key}")),
        }
    }
    Ok(files)
}

fn downward(pod: &Value, source: &Value, mode: i64, context: &Context) -> Result<Vec<File>, String> {
    let mut files = Vec::new();
    for item in source.items("/items") {
        let mode = item.number("/mode").unwrap_or(mode);
        let path = item.text("/path");
        if let Some(reference) = item.there("/fieldRef") {
            match field::resolve(pod, reference.text("/fieldPath"))? {
                Field::Text(text) => files.push(file(path, text.into_bytes(), mode)?),
                Field::OnWorker(field_path) => {
                    let mut file = file(path, Vec::new(), mode)?;
                    file.field_path = field_path;
                    files.push(file);
                }
            }
        } else if let Some(reference) = item.there("/resourceFieldRef") {
            files.push(file(path, field::resource(pod, None, reference, context)?.into_bytes(), mode)?);
        }
    }
    Ok(files)
}

/// A file whose path stays inside the volume.
fn file(path: &str, content: Vec<u8>, mode: i64) -> Result<File, String> {
    if path.is_empty() || path.starts_with('/') || path.split('/').any(|part| part == "..") {
        return Err(format!("invalid path \"{path}\": it must be relative and without '..'"));
    }
    Ok(File { path: path.to_owned(), content: content.into(), mode: (mode & 0o777) as u32, field_path: String::new() })
}
