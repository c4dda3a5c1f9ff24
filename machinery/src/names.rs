//! The forms of names, labels and addresses, with the messages of apimachinery's `pkg/util/validation`.
//! Every check returns what is wrong; nothing means it is right.

/// Characters of generated suffixes: no vowels, so that no words come about (`pkg/util/rand`).
pub const SUFFIX_ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
/// Length of a generated suffix.
pub const SUFFIX_LEN: usize = 5;
const GENERATED_MAX: usize = 63;

/// A name from `metadata.generateName`: the base, cut so that the name has at most 63 characters, and a suffix of five characters
/// chosen by `random`.
pub fn generate(base: &str, random: [u8; SUFFIX_LEN]) -> String {
    let mut end = base.len().min(GENERATED_MAX - SUFFIX_LEN);
    while !base.is_char_boundary(end) {
        end -= 1;
    }
    let suffix = random.iter().map(|r| char::from(SUFFIX_ALPHABET[usize::from(*r) % SUFFIX_ALPHABET.len()]));
    base[..end].chars().chain(suffix).collect()
}

fn alphanumeric(b: u8) -> bool {
    b.is_ascii_alphanumeric()
}

fn lower(b: u8) -> bool {
    b.is_ascii_lowercase() || b.is_ascii_digit()
}

/// First and last byte are `edge`, all others are `inner`; not empty.
fn shaped(text: &str, edge: fn(u8) -> bool, inner: fn(u8) -> bool) -> bool {
    let bytes = text.as_bytes();
    matches!((bytes.first(), bytes.last()), (Some(&a), Some(&z)) if edge(a) && edge(z))
        && bytes.iter().all(|&b| inner(b))
}

fn too_long(max: usize) -> String {
    format!("must be no more than {max} bytes")
}

/// A label of the DNS (RFC 1123): at most 63 lower-case letters, digits and `-`.
pub fn dns_label_errors(text: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if text.len() > 63 {
        errors.push(too_long(63));
    }
    if !shaped(text, lower, |b| lower(b) || b == b'-') {
        errors.push(
            "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an \
             alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
                .to_owned(),
        );
    }
    errors
}

/// A label that starts with a letter (RFC 1035), as Services had to.
pub fn dns_1035_label_errors(text: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if text.len() > 63 {
        errors.push(too_long(63));
    }
    if !shaped(text, lower, |b| lower(b) || b == b'-') || !text.starts_with(|c: char| c.is_ascii_lowercase()) {
        errors.push(
            "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end \
             with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')"
                .to_owned(),
        );
    }
    errors
}

/// A subdomain (RFC 1123): labels with dots between, at most 253 bytes.
pub fn dns_subdomain_errors(text: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if text.len() > 253 {
        errors.push(too_long(253));
    }
    if !text.split('.').all(|label| shaped(label, lower, |b| lower(b) || b == b'-')) {
        errors.push(
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end \
             with an alphanumeric character (e.g. 'example.com', regex used for validation is \
             '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
                .to_owned(),
        );
    }
    errors
}

/// A name that can stand as one segment of a path, as those of RBAC objects.
pub fn path_segment_errors(text: &str) -> Vec<String> {
    if matches!(text, "." | "..") {
        return vec![format!("may not be '{text}'")];
    }
    ['/', '%'].iter().filter(|c| text.contains(**c)).map(|c| format!("may not contain '{c}'")).collect()
}

/// A qualified name, as the keys of labels and annotations: `name` or `prefix/name`.
pub fn qualified_name_errors(text: &str) -> Vec<String> {
    let mut errors = Vec::new();
    let name = match text.split('/').collect::<Vec<_>>().as_slice() {
        [name] => *name,
        [prefix, name] => {
            if prefix.is_empty() {
                errors.push("prefix part must be non-empty".to_owned());
            } else {
                errors.extend(dns_subdomain_errors(prefix).into_iter().map(|e| format!("prefix part {e}")));
            }
            *name
        }
        _ => {
            return vec![
                "a qualified name must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an \
                 alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
                 '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]') with an optional DNS subdomain prefix and '/' (e.g. \
                 'example.com/MyName')"
                    .to_owned(),
            ];
        }
    };
    if name.is_empty() {
        errors.push("name part must be non-empty".to_owned());
    } else if name.len() > 63 {
        errors.push(format!("name part {}", too_long(63)));
    }
    if !shaped(name, alphanumeric, |b| alphanumeric(b) || matches!(b, b'-' | b'_' | b'.')) {
        errors.push(
            "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric \
             character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
             '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
                .to_owned(),
        );
    }
    errors
}

/// The value of a label: empty, or at most 63 letters, digits, `-`, `_` and `.`.
pub fn label_value_errors(text: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if text.len() > 63 {
        errors.push(too_long(63));
    }
    if !text.is_empty() && !shaped(text, alphanumeric, |b| alphanumeric(b) || matches!(b, b'-' | b'_' | b'.')) {
        errors.push(
            "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end \
             with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is \
             '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
                .to_owned(),
        );
    }
    errors
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generated_names_fit() {
        assert_eq!(generate("web-", [0, 1, 2, 26, 27]), "web-bcd9b");
        assert_eq!(generate(&"x".repeat(80), [0; 5]).len(), 63);
        assert_eq!(generate(&"é".repeat(40), [0; 5]).chars().count(), 34);
    }

    #[test]
    fn forms() {
        for good in ["a", "my-name", "0", &"x".repeat(63)] {
            assert!(dns_label_errors(good).is_empty(), "{good}");
        }
        for bad in ["", "A", "-a", "a-", "a.b", "a_b", &"x".repeat(64)] {
            assert!(!dns_label_errors(bad).is_empty(), "{bad}");
        }
        assert!(dns_subdomain_errors("a.b-c.d").is_empty());
        assert!(!dns_subdomain_errors("a..b").is_empty());
        assert!(!dns_1035_label_errors("0a").is_empty());
        assert!(qualified_name_errors("example.com/My_Name").is_empty());
        assert_eq!(qualified_name_errors("/x"), ["prefix part must be non-empty"]);
        assert!(label_value_errors("").is_empty());
        assert!(!label_value_errors("a b").is_empty());
        assert_eq!(path_segment_errors("a/b"), ["may not contain '/'"]);
    }
}
