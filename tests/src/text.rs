//! Output of kubectl, made comparable.

use regex::Regex;

/// Replaces what differs from run to run (hashes of pod names, ages, addresses, uids, times) by its name in angle brackets, and runs of
/// blanks by two, so that tables compare whatever the widths of their columns.
///
/// # Panics
/// Never: the patterns are constant.
pub fn normal(text: &str) -> String {
    const RULES: &[(&str, &str)] = &[
        (r"\b([a-z0-9-]+?)-[0-9a-f]{8,10}-[bcdfghjklmnpqrstvwxz2456789]{5}\b", "$1-<hash>-<id>"),
        // As rand.SafeEncodeString makes them: ten or fewer letters without vowels.
        (r"\b([a-z]+)-[bcdf0-9]?[0-9bcdfghjklmnpqrstvwxz]{7,9}\b", "$1-<hash>"),
        (r"pod-template-hash=[0-9bcdfghjklmnpqrstvwxz]{6,10}\b", "pod-template-hash=<hash>"),
        (r"\b127\.0\.0\.1:\d{4,5}\b", "<server>"),
        (r"\b\d{1,3}\.\d{1,3}\.\d{1,3}\.\d{1,3}\b", "<ip>"),
        (r"\b(\d+d)?(\d+h)?(\d+m)?\d+s \(x\d+ over (\d+d)?(\d+h)?(\d+m)?\d+s\)", "<age>"),
        (r"\b(\d+d)?(\d+h)?(\d+m)?\d+s\b", "<age>"),
        (r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z\b", "<time>"),
        (r"\b[A-Z][a-z]{2}, \d\d [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d [+-]\d{4}", "<time>"),
        (r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b", "<uid>"),
        (r"\bkube-api-access-\w{5}\b", "kube-api-access-<id>"),
        (r"\bX509SHA256=[0-9a-f]{64}\b", "X509SHA256=<digest>"),
        (r#"\bresourceVersion: "\d+""#, "resourceVersion: <version>"),
        (r"\b(podman|simulated)://\S+", "$1://<id>"),
        (r"\beyJ[\w-]+\.[\w-]+\.[\w-]+", "<token>"),
        (r"[ \t]{2,}", "  "),
        (r"\t", "  "),
        (r"(?m)[ \t]+$", ""),
    ];
    let mut text = text.to_owned();
    for (pattern, with) in RULES {
        if let Ok(pattern) = Regex::new(pattern) {
            text = pattern.replace_all(&text, *with).into_owned();
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::normal;

    #[test]
    fn what_differs_gets_a_name() {
        let table = "web-6d4cf56db6-x7k2p   1/1   Running   0     12s   10.200.1.4\n";
        assert_eq!(normal(table), "web-<hash>-<id>  1/1  Running  0  <age>  <ip>\n");
        assert_eq!(normal("my-pod   119s"), "my-pod  <age>");
        assert_eq!(normal("4s (x2 over 1m5s)  Started"), "<age>  Started");
        assert_eq!(normal("Start Time:   Sat, 21 Nov 2026 08:03:11 +0000"), "Start Time:  <time>");
    }
}
