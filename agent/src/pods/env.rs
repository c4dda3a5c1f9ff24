//! `$(VAR)` expansion and environment variables, by Kubernetes' rules.

use std::{collections::BTreeMap, net::Ipv4Addr};

use vctl_api::agent::EnvVar;

/// Facts known only on the worker.
#[derive(Debug, Clone, Default)]
pub(crate) struct Facts {
    pub(crate) pod_ip: Option<Ipv4Addr>,
    pub(crate) host_ip: String,
    pub(crate) node_name: String,
}

impl Facts {
    /// Value of a field path; none for one the agent does not know.
    pub(crate) fn field(&self, path: &str) -> Option<String> {
        match path {
            "status.podIP" | "status.podIPs" => Some(self.pod_ip.map(|ip| ip.to_string()).unwrap_or_default()),
            "status.hostIP" | "status.hostIPs" => Some(self.host_ip.clone()),
            "spec.nodeName" => Some(self.node_name.clone()),
            _ => None,
        }
    }
}

/// Replaces `$(NAME)`; `$$` is a literal dollar; what is not defined stays as it is.
pub(crate) fn expand(text: &str, variables: &BTreeMap<String, String>) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        out.push_str(&rest[..at]);
        let after = &rest[at + 1..];
        if let Some(tail) = after.strip_prefix('$') {
            out.push('$');
            rest = tail;
        } else if let Some((name, tail)) = after.strip_prefix('(').and_then(|t| t.split_once(')')) {
            match variables.get(name) {
                Some(value) => out.push_str(value),
                None => {
                    out.push_str("$(");
                    out.push_str(name);
                    out.push(')');
                }
            }
            rest = tail;
        } else {
            out.push('$');
            rest = after;
        }
    }
    out.push_str(rest);
    out
}

/// The variables of a container: later ones win and may refer to earlier ones.
pub(crate) fn variables(list: &[EnvVar], facts: &Facts) -> Result<BTreeMap<String, String>, String> {
    let mut all = BTreeMap::new();
    for variable in list {
        let value = if !variable.field_path.is_empty() {
            facts.field(&variable.field_path).ok_or_else(|| {
                format!("environment variable {} refers to the unknown field {}", variable.name, variable.field_path)
            })?
        } else if variable.literal {
            variable.value.clone()
        } else {
            expand(&variable.value, &all)
        };
        all.insert(variable.name.clone(), value);
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expansion_follows_kubernetes() {
        let variables: BTreeMap<String, String> =
            [("A", "1"), ("B", "two"), ("E", "")].map(|(k, v)| (k.into(), v.into())).into();
        // Cases as in the upstream table of third_party/forked/golang/expansion, told anew.
        for (text, result) in [
            ("$(A)", "1"),
            ("$(A)-$(B)$(E)!", "1-two!"),
            ("$$(A)", "$(A)"),
            ("$$$(A)", "$1"),
            ("$(NO) $(A)", "$(NO) 1"),
            ("$A $ $(", "$A $ $("),
            ("cost 5$", "cost 5$"),
            ("$(A", "$(A"),
            ("$()", "$()"),
            ("ä$(B)ö", "ätwoö"),
        ] {
            assert_eq!(expand(text, &variables), result, "{text}");
        }
    }

    #[test]
    fn later_variables_win_and_literals_are_kept() {
        let var = |name: &str, value: &str| EnvVar { name: name.into(), value: value.into(), ..EnvVar::default() };
        let list = [
            var("HOST", "db"),
            var("URL", "http://$(HOST)/$(LATER)"),
            EnvVar { literal: true, ..var("RAW", "$(HOST)") },
            var("HOST", "db2"),
            EnvVar { field_path: "status.podIP".into(), ..var("IP", "") },
        ];
        let facts = Facts { pod_ip: Some(Ipv4Addr::new(10, 0, 0, 9)), ..Facts::default() };
        let all = variables(&list, &facts).unwrap();
        assert_eq!(all["URL"], "http://db/$(LATER)");
        assert_eq!((all["RAW"].as_str(), all["HOST"].as_str(), all["IP"].as_str()), ("$(HOST)", "db2", "10.0.0.9"));
        let bad = [EnvVar { field_path: "status.phase".into(), ..var("X", "") }];
        assert!(variables(&bad, &facts).is_err());
    }
}
