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
        (r"\b([a-z]+)-[bcdf0-9]?[0-9bcdfghjklmnpqrstvwxz]{7,9}\b", "$1-<hash>"),
        (r"\b\d{1,3}\.\d{1,3}\.\d{1,3}\.\d{1,3}\b", "<ip>"),
        (r"\b(\d+d)?(\d+h)?(\d+m)?\d+s\b", "<age>"),
        (r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ\b", "<time>"),
        (r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b", "<uid>"),
        (r"[ \t]{2,}", "  "),
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
    }
}
