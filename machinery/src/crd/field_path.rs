//! `fieldPath` of rules and `jsonPath` of selectable fields: fields and keys of maps that the schema knows. Source:
//! apiextensions-apiserver `ValidFieldPath`.

use super::{errors, schema::Schema};

/// The path in the form of errors (`spec.a[b]`).
pub(super) fn normalize(path: &str, schema: &Schema) -> Result<String, String> {
    resolve(path, schema, true).map(|(path, _)| path)
}

/// The path in the form of errors, and what it leads to.
pub(super) fn resolve<'s>(path: &str, schema: &'s Schema, arrays: bool) -> Result<(String, &'s Schema), String> {
    let (mut at, mut of, mut rest) = (String::new(), schema, path);
    while !rest.is_empty() {
        let name;
        if let Some(after) = rest.strip_prefix('.') {
            let end = after.find(['.', '[', ']']).unwrap_or(after.len());
            if end == 0 {
                return Err(if after.is_empty() {
                    "unexpected end of JSON path"
                } else {
                    "does not refer to a valid field"
                }
                .into());
            }
            name = after[..end].to_owned();
            rest = &after[end..];
        } else if let Some(after) = rest.strip_prefix('[') {
            if !arrays {
                return Err("array notation is not allowed".to_owned());
            }
            let Some(quoted) = after.strip_prefix('\'') else {
                return Err(format!("expected single quoted string but got {after}"));
            };
            let mut text = String::new();
            let mut end = None;
            let mut chars = quoted.char_indices();
            while let Some((i, c)) = chars.next() {
                match c {
                    '\\' => text.extend(chars.next().map(|(_, c)| c)),
                    '\'' => {
                        end = Some(i + 1);
                        break;
                    }
                    c => text.push(c),
                }
            }
            let end = end.ok_or("unexpected end of JSON path")?;
            rest = quoted[end..].strip_prefix(']').ok_or_else(|| format!("expected ] but got {}", &quoted[end..]))?;
            name = text;
        } else {
            return Err(format!("expected [ or . but got: {rest}"));
        }
        if let Some(field) = of.properties.get(&name) {
            at = errors::child(&at, &name);
            of = field;
        } else if let Some(values) = of.values().filter(|_| of.properties.is_empty()) {
            at = errors::key(&at, &name);
            of = values;
        } else {
            return Err("does not refer to a valid field".to_owned());
        }
    }
    Ok((at, of))
}
