//! Configuration: what the type of a secret asks for, and keys that are there twice. Source: `ValidateSecret`, `ValidateConfigMap`.

use super::check::{At, Errors};

/// Keys that the data of a type must have; of several rows of a type one is enough.
const KEYS: &[(&str, &[&str])] = &[
    ("kubernetes.io/dockercfg", &[".dockercfg"]),
    ("kubernetes.io/dockerconfigjson", &[".dockerconfigjson"]),
    ("kubernetes.io/ssh-auth", &["ssh-privatekey"]),
    ("kubernetes.io/tls", &["tls.crt", "tls.key"]),
];

/// An entry of a map.
fn entry<'v>(at: &At<'v>, key: &str) -> At<'v> {
    At { value: at.field(key).value, path: format!("{}[{key}]", at.path) }
}

pub(super) fn secret(object: &At<'_>, errors: &mut Errors) {
    let (kind, data) = (object.field("type").text(), object.field("data"));
    match kind {
        "kubernetes.io/service-account-token" => {
            let name = entry(&object.field("metadata").field("annotations"), "kubernetes.io/service-account.name");
            if name.is_empty() {
                errors.required(&name, "");
            }
        }
        "kubernetes.io/basic-auth" => {
            let (user, password) = (entry(&data, "username"), entry(&data, "password"));
            if !user.exists() && !password.exists() {
                errors.required(&user, "");
                errors.required(&password, "");
            }
        }
        _ => {
            for (_, keys) in KEYS.iter().filter(|(k, _)| *k == kind) {
                for key in *keys {
                    let at = entry(&data, key);
                    if !at.exists() {
                        errors.required(&at, "");
                    }
                }
            }
        }
    }
}

/// A key of a config map is in one of its two maps.
pub(super) fn config_map(object: &At<'_>, errors: &mut Errors) {
    let binary = object.field("binaryData");
    for (key, at) in object.field("data").entries() {
        if binary.field(key).exists() {
            errors.invalid_value(&at, key, "duplicate of key present in binaryData");
        }
    }
}
