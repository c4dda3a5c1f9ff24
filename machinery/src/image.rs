//! Names of container images, and patterns of them.

use serde_json::Value;

/// Whether a text matches a pattern in which `*` stands for any text.
pub fn matches(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(mut left) = text.strip_prefix(parts.next().unwrap_or_default()) else { return false };
    let Some(last) = pattern.contains('*').then(|| parts.next_back().unwrap_or_default()) else {
        return left.is_empty();
    };
    for part in parts {
        match left.find(part) {
            Some(at) => left = &left[at + part.len()..],
            None => return false,
        }
    }
    left.ends_with(last)
}

/// The name of an image with its registry, as container runtimes complete it: `nginx:1` is `docker.io/library/nginx:1`.
/// Source: distribution `reference.ParseNormalizedNamed`.
pub fn qualified(image: &str) -> String {
    let (registry, path) = match image.split_once('/') {
        Some((first, rest)) if first.contains(['.', ':']) || first == "localhost" => (first, rest),
        _ => ("docker.io", image),
    };
    let registry = if registry == "index.docker.io" { "docker.io" } else { registry };
    if registry == "docker.io" && !path.contains('/') {
        return format!("docker.io/library/{path}");
    }
    format!("{registry}/{path}")
}

/// Whether an image matches one of the patterns, as it is written or with its registry.
pub fn is_allowed(patterns: &[String], image: &str) -> bool {
    let full = qualified(image);
    patterns.iter().any(|pattern| matches(pattern, &full) || matches(pattern, image))
}

/// Images that a pod's spec names: of all its containers, and of volumes that are images.
pub fn of_pod_spec(spec: &Value) -> impl Iterator<Item = &str> {
    let containers = ["initContainers", "containers", "ephemeralContainers"]
        .into_iter()
        .filter_map(|list| spec[list].as_array())
        .flatten()
        .filter_map(|container| container["image"].as_str());
    let volumes = spec["volumes"].as_array().into_iter().flatten().filter_map(|v| v["image"]["reference"].as_str());
    containers.chain(volumes)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn patterns_match_the_whole_text() {
        for (pattern, text, expected) in [
            ("nginx:1", "nginx:1", true),
            ("nginx:1", "nginx:12", false),
            ("a/*", "a/b:1", true),
            ("a/*", "b/a/b", false),
            ("*:1.*", "x:1.2", true),
            ("a*b*c", "a-b-c", true),
            ("a*b*c", "a-c", false),
            ("ab*ba", "aba", false),
            ("*", "", true),
            ("a*a", "a", false),
        ] {
            assert_eq!(matches(pattern, text), expected, "{pattern} {text}");
        }
    }

    #[test]
    fn names_are_completed_as_runtimes_do() {
        for (image, full) in [
            ("nginx", "docker.io/library/nginx"),
            ("nginx:1@sha256:ab", "docker.io/library/nginx:1@sha256:ab"),
            ("team/app:2", "docker.io/team/app:2"),
            ("docker.io/nginx", "docker.io/library/nginx"),
            ("index.docker.io/team/app", "docker.io/team/app"),
            ("quay.io/a/b", "quay.io/a/b"),
            ("localhost/a", "localhost/a"),
            ("localhost:5000/a", "localhost:5000/a"),
        ] {
            assert_eq!(qualified(image), full, "{image}");
        }
    }

    #[test]
    fn patterns_hold_for_short_and_full_names() {
        let patterns = |p: &str| vec![p.to_owned()];
        assert!(is_allowed(&patterns("docker.io/library/*"), "nginx:1"));
        assert!(is_allowed(&patterns("nginx:*"), "nginx:1"));
        assert!(!is_allowed(&patterns("docker.io/library/*"), "docker.io/evil/nginx"));
        assert!(!is_allowed(&patterns("docker.io/library/*"), "evil.example.com/docker.io/library/nginx"));
        assert!(!is_allowed(&[], "nginx"));
    }

    #[test]
    fn all_places_of_a_pod_are_looked_at() {
        let spec = json!({
            "initContainers": [{ "image": "a" }], "containers": [{ "image": "b" }, {}],
            "ephemeralContainers": [{ "image": "c" }], "volumes": [{ "emptyDir": {} }, { "image": { "reference": "d" } }],
        });
        assert_eq!(of_pod_spec(&spec).collect::<Vec<_>>(), ["a", "b", "c", "d"]);
    }
}
