//! Output of kubectl, made comparable.

use std::sync::LazyLock;

use regex::Regex;

/// Replaces what differs from run to run (hashes of pod names, addresses, uids, times, ages in tables) by its name in angle brackets.
///
/// Everything else stays as it was printed, with every blank: only between the columns of a table with names or ages, whose widths
/// depend on what was replaced, a run of blanks counts as two. What looks like an age elsewhere, such as `period=10s`, is no age.
pub fn normal(text: &str) -> String {
    let mut table: Option<Table> = None;
    let lines: Vec<String> = text
        .lines()
        .map(|line| {
            // Tables go up to an empty line, and those below a heading are indented.
            if line.trim().is_empty() || table.as_ref().is_some_and(|table| indentation(line) < table.indentation) {
                table = None;
            }
            if let Some(header) = Table::of(line) {
                table = Some(header);
            }
            let line = table.as_ref().map_or_else(|| line.to_owned(), |table| table.row(line));
            named(&line).trim_end().to_owned()
        })
        .collect();
    let end = if text.ends_with('\n') { "\n" } else { "" };
    lines.join("\n") + end
}

/// What differs wherever it stands.
fn named(line: &str) -> String {
    const RULES: &[(&str, &str)] = &[
        (r"\b([a-z0-9-]+?)-[0-9a-f]{8,10}-[bcdfghjklmnpqrstvwxz2456789]{5}\b", "$1-<hash>-<id>"),
        // As rand.SafeEncodeString makes them: ten or fewer letters without vowels.
        (r"\b([a-z]+)-[bcdf0-9]?[0-9bcdfghjklmnpqrstvwxz]{7,9}\b", "$1-<hash>"),
        (r"pod-template-hash=[0-9bcdfghjklmnpqrstvwxz]{6,10}\b", "pod-template-hash=<hash>"),
        (r"\bForwarding from 127\.0\.0\.1:\d+ ", "Forwarding from 127.0.0.1:<port> "),
        (r"\bHandling connection for \d+\b", "Handling connection for <port>"),
        (r"\b127\.0\.0\.1:\d{4,5}\b", "<server>"),
        (r"\b\d{1,3}\.\d{1,3}\.\d{1,3}\.\d{1,3}\b", "<ip>"),
        (r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z\b", "<time>"),
        (r"\b[A-Z][a-z]{2}, \d\d [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d [+-]\d{4}", "<time>"),
        (r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b", "<uid>"),
        (r"\bkube-api-access-\w{5}\b", "kube-api-access-<id>"),
        (r"\bX509SHA256=[0-9a-f]{64}\b", "X509SHA256=<digest>"),
        (r"\b[0-9a-f]{64}\b", "<digest>"),
        (r#"\bresourceVersion: "\d+""#, "resourceVersion: <version>"),
        (r"\b(podman|simulated)://\d+(\.\d+)+\S*", "$1://<version>"),
        (r"\b(podman|simulated)://[0-9a-f-]+", "$1://<id>"),
        (r"\beyJ[\w-]+\.[\w-]+\.[\w-]+", "<token>"),
    ];
    static COMPILED: LazyLock<Vec<(Regex, &str)>> =
        LazyLock::new(|| RULES.iter().filter_map(|(rule, with)| Some((Regex::new(rule).ok()?, *with))).collect());
    COMPILED.iter().fold(line.to_owned(), |text, (rule, with)| rule.replace_all(&text, *with).into_owned())
}

fn indentation(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

/// A table whose columns are as wide as what is in them: one of `kubectl get`, or one of `kubectl describe` with ages.
struct Table {
    indentation: usize,
    /// Where columns begin, and whether ages are in them.
    columns: Vec<(usize, bool)>,
}

impl Table {
    /// The table whose first line this is.
    fn of(line: &str) -> Option<Self> {
        static CELL: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"\S+(?: \S+)*").ok());
        let cells: Vec<_> = CELL.as_ref()?.find_iter(line).collect();
        // As in `MEMORY(bytes)`, a unit may be small.
        let upper = |text: &str| {
            let name = text.split('(').next().unwrap_or_default();
            name.starts_with(|c: char| c.is_ascii_uppercase())
                && name.chars().all(|c| c.is_ascii_uppercase() || " -:%".contains(c))
        };
        let of_get = cells.len() > 1 && indentation(line) == 0 && cells.iter().all(|cell| upper(cell.as_str()));
        let of_describe = cells.len() > 2 && indentation(line) > 0 && cells.iter().any(|cell| cell.as_str() == "Age");
        let ages = ["AGE", "Age", "LAST SEEN", "LAST SCHEDULE", "DURATION", "RESTARTS", "WINDOW"];
        (of_get || of_describe).then(|| Self {
            indentation: indentation(line),
            columns: cells.iter().map(|cell| (cell.start(), ages.contains(&cell.as_str()))).collect(),
        })
    }

    fn row(&self, line: &str) -> String {
        const AGE: &str = r"(\d+y)?(\d+d)?(\d+h)?(\d+m)?(\d+s)?";
        static WHOLE: LazyLock<Option<Regex>> =
            LazyLock::new(|| Regex::new(&format!(r"^{AGE}( \(x\d+ over {AGE}\))?$")).ok());
        static AGO: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(&format!(r"\({AGE} ago\)")).ok());
        // A row of a watch may come later than the widths were chosen: its cells are told by their gaps then.
        let fits =
            self.columns.iter().skip(1).all(|(start, _)| line.as_bytes().get(start - 1).is_none_or(|b| *b == b' '));
        let gaps: Vec<&str> = line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect();
        let mut cells = Vec::new();
        for (i, (start, age)) in self.columns.iter().enumerate() {
            let end = self.columns.get(i + 1).map_or(line.len(), |(next, _)| *next).min(line.len());
            // A row that is shorter has nothing in its last columns.
            let cell =
                if fits { line.get((*start).min(end)..end) } else { gaps.get(i).copied() }.unwrap_or_default().trim();
            let replaced = match (age, &*WHOLE, &*AGO) {
                (true, Some(whole), _) if !cell.is_empty() && whole.is_match(cell) => "<age>".into(),
                (true, _, Some(ago)) => ago.replace(cell, "(<age> ago)"),
                _ => cell.into(),
            };
            cells.push(replaced.into_owned());
        }
        format!("{:indent$}{}", "", cells.join("  "), indent = self.indentation)
    }
}

#[cfg(test)]
mod tests {
    use super::normal;

    #[test]
    fn what_differs_gets_a_name() {
        let table = "NAME                   READY   STATUS    RESTARTS      AGE     IP\n\
                     web-6d4cf56db6-x7k2p   1/1     Running   0             119s    10.200.1.4\n\
                     db                     0/1     Error     2 (17s ago)   1h2m    <none>\n";
        let named = "NAME  READY  STATUS  RESTARTS  AGE  IP\n\
                     web-<hash>-<id>  1/1  Running  0  <age>  <ip>\n\
                     db  0/1  Error  2 (<age> ago)  <age>  <none>\n";
        assert_eq!(normal(table), named);
        assert_eq!(normal("NAME   CPU(cores)\nweb    500m\n"), "NAME  CPU(cores)\nweb  500m\n");
        let events = "Events:\n\
                      \x20 Type    Reason     Age                From     Message\n\
                      \x20 ----    ------     ----               ----     -------\n\
                      \x20 Normal  Scheduled  4s (x2 over 1m5s)  kubelet  waits 10s for it\n";
        let named = "Events:\n\
                     \x20 Type  Reason  Age  From  Message\n\
                     \x20 ----  ------  ----  ----  -------\n\
                     \x20 Normal  Scheduled  <age>  kubelet  waits 10s for it\n";
        assert_eq!(normal(events), named);
        assert_eq!(normal("Start Time:   Sat, 21 Nov 2026 08:03:11 +0000"), "Start Time:   <time>");
    }

    #[test]
    fn all_else_is_as_it_was_printed() {
        for text in [
            "    Readiness:      http-get http://:http/ delay=0s timeout=1s period=10s #success=1 #failure=3\n",
            "Tolerations:                 node.kubernetes.io/not-ready:NoExecute op=Exists for 300s\n",
            "Containers:\n  web:\n    Limits:\n      memory:  64Mi\n",
            "NAME\nother\n\n  A list of   things, 10s long\n",
        ] {
            assert_eq!(normal(text), text);
        }
    }
}
