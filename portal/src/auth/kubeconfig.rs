//! Kubeconfigs of people who are signed in: `vctl token` gets them a token when kubectl needs one.

use serde_yaml::{Mapping, Value};

use crate::error::Error;

/// The kubeconfig with a credential plugin (`client.authentication.k8s.io/v1`) in place of its credentials.
pub(crate) fn with_plugin(kubeconfig: &str, server: &str, environment: &str) -> Result<String, Error> {
    let broken = |e: serde_yaml::Error| Error::Internal(format!("a kubeconfig cannot be changed: {e}"));
    let mut document: Value = serde_yaml::from_str(kubeconfig).map_err(broken)?;
    let exec = serde_json::json!({
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": "vctl",
        "args": ["token", "--environment", environment, "--server", server],
        "interactiveMode": "Never",
        "provideClusterInfo": false,
        "installHint": format!("vctl is not in PATH: install it, then sign in with `vctl login --server {server}`"),
    });
    let exec: Value = serde_yaml::to_value(exec).map_err(broken)?;
    let users = document.get_mut("users").and_then(Value::as_sequence_mut);
    for entry in users.ok_or_else(|| Error::Internal("a kubeconfig has no users".to_owned()))? {
        let mut user = Mapping::new();
        user.insert("exec".into(), exec.clone());
        if let Some(entry) = entry.as_mapping_mut() {
            entry.insert("user".into(), user.into());
        }
    }
    serde_yaml::to_string(&document).map_err(broken)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_credential_stays() {
        let before =
            "users: [{name: vctl_e, user: {client-key-data: SECRET, client-certificate-data: SECRET}}]\nclusters: []\n";
        let after = with_plugin(before, "https://s", "e").expect("changed");
        assert!(!after.contains("SECRET") && after.contains("vctl_e") && after.contains("command: vctl"), "{after}");
        assert!(with_plugin("clusters: []\n", "https://s", "e").is_err());
    }
}
