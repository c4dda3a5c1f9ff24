//! Differences of documents, and changes on top of changes. Pure.

use serde_json::{Map, Value};

/// Unchanged lines around a change that are shown.
const AROUND: usize = 3;
/// Beyond this many comparisons a region is shown as replaced.
const WORK: usize = 4_000_000;

/// The merge patch (RFC 7396) that makes `new` of `old`.
pub(super) fn patch(old: &Value, new: &Value) -> Value {
    let (Value::Object(old), Value::Object(new)) = (old, new) else { return new.clone() };
    let mut patch = Map::new();
    for (name, value) in new {
        match old.get(name) {
            Some(same) if same == value => {}
            Some(before @ Value::Object(_)) if value.is_object() => {
                patch.insert(name.clone(), self::patch(before, value));
            }
            _ => {
                patch.insert(name.clone(), value.clone());
            }
        }
    }
    for name in old.keys().filter(|name| !new.contains_key(*name)) {
        patch.insert(name.clone(), Value::Null);
    }
    Value::Object(patch)
}

/// Applies a merge patch.
pub(super) fn apply(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    let Value::Object(fields) = target else { return };
    for (name, value) in patch {
        if value.is_null() {
            fields.remove(name);
        } else {
            apply(fields.entry(name.clone()).or_insert(Value::Null), value);
        }
    }
}

/// Lines that differ, with some around them: gone ones begin with `-`, new ones with `+`.
pub(super) fn diff(old: &str, new: &str) -> String {
    let (old, new): (Vec<&str>, Vec<&str>) = (old.lines().collect(), new.lines().collect());
    let before = old.iter().zip(&new).take_while(|(a, b)| a == b).count();
    let rest = old.len().min(new.len()) - before;
    let after = old.iter().rev().zip(new.iter().rev()).take(rest).take_while(|(a, b)| a == b).count();
    let mut lines: Vec<(char, &str)> = old[..before].iter().map(|line| (' ', *line)).collect();
    middle(&old[before..old.len() - after], &new[before..new.len() - after], &mut lines);
    lines.extend(old[old.len() - after..].iter().map(|line| (' ', *line)));
    let near = |at: usize| {
        lines[at.saturating_sub(AROUND)..(at + AROUND + 1).min(lines.len())].iter().any(|(mark, _)| *mark != ' ')
    };
    let mut text = String::new();
    let mut left_out = false;
    for (at, (mark, line)) in lines.iter().enumerate() {
        if near(at) {
            if std::mem::take(&mut left_out) && !text.is_empty() {
                text.push_str(" ...\n");
            }
            text.push_str(&format!("{mark}{line}\n"));
        } else {
            left_out = true;
        }
    }
    text
}

/// By the longest common subsequence.
fn middle<'a>(old: &[&'a str], new: &[&'a str], lines: &mut Vec<(char, &'a str)>) {
    if old.len() * new.len() > WORK {
        lines.extend(old.iter().map(|line| ('-', *line)));
        lines.extend(new.iter().map(|line| ('+', *line)));
        return;
    }
    let width = new.len() + 1;
    let mut longest = vec![0_u32; (old.len() + 1) * width];
    for i in (0..old.len()).rev() {
        for j in (0..new.len()).rev() {
            longest[i * width + j] = if old[i] == new[j] {
                longest[(i + 1) * width + j + 1] + 1
            } else {
                longest[(i + 1) * width + j].max(longest[i * width + j + 1])
            };
        }
    }
    let (mut i, mut j) = (0, 0);
    while i < old.len() || j < new.len() {
        if i < old.len() && j < new.len() && old[i] == new[j] {
            lines.push((' ', old[i]));
            (i, j) = (i + 1, j + 1);
        } else if i < old.len() && (j == new.len() || longest[(i + 1) * width + j] >= longest[i * width + j + 1]) {
            lines.push(('-', old[i]));
            i += 1;
        } else {
            lines.push(('+', new[j]));
            j += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_change_goes_on_top_of_somebody_elses() {
        let base = json!({"a": 1, "labels": {"x": "1", "y": "2"}, "list": [1], "gone": {}});
        let mine = json!({"a": 1, "labels": {"x": "1", "y": "3", "z": "4"}, "list": [1, 2]});
        let mut theirs = json!({"a": 2, "labels": {"x": "9", "y": "2"}, "list": [1], "gone": {}});
        apply(&mut theirs, &patch(&base, &mine));
        assert_eq!(theirs, json!({"a": 2, "labels": {"x": "9", "y": "3", "z": "4"}, "list": [1, 2]}));
        assert_eq!(patch(&base, &base), json!({}));
    }

    #[test]
    fn what_differs_is_shown_with_what_is_around_it() {
        let old = (0..20).fold(String::new(), |text, i| text + &format!("{i}\n"));
        let new = old.replace("10\n", "ten\n10a\n").replace("19\n", "");
        assert_eq!(diff(&old, &new), " 7\n 8\n 9\n-10\n+ten\n+10a\n 11\n 12\n 13\n ...\n 16\n 17\n 18\n-19\n");
        assert_eq!(diff("a", "a"), "");
        assert_eq!(diff("", "a"), "+a\n");
    }
}
