//! Sets of completion indexes, written as `1,3-5,7`.

use std::{collections::BTreeSet, fmt};

use serde_json::Value;

use crate::controllers::object::{annotation, int, text};

/// Annotation and label of a pod with its index.
pub(super) const INDEX: &str = "batch.kubernetes.io/job-completion-index";

pub(super) fn is_indexed(job: &Value) -> bool {
    text(job, "/spec/completionMode") == "Indexed"
}

/// The index of a pod; none when it has none, or one that the job does not have.
pub(super) fn of_pod(job: &Value, pod: &Value) -> Option<i64> {
    let index: i64 = annotation(pod, INDEX)?.parse().ok()?;
    (0..int(job, "/spec/completions").unwrap_or(0)).contains(&index).then_some(index)
}

/// Indexes in order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Indexes(pub(super) BTreeSet<i64>);

impl Indexes {
    /// Reads `1,3-5`, keeping what is below `completions`; anything else is passed over.
    pub(super) fn parse(text: &str, completions: i64) -> Self {
        let mut indexes = BTreeSet::new();
        for part in text.split(',') {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            if let (Ok(first), Ok(last)) = (first.trim().parse::<i64>(), last.trim().parse::<i64>()) {
                indexes.extend(first.max(0)..=last.min(completions - 1));
            }
        }
        Self(indexes)
    }

    pub(super) fn len(&self) -> i64 {
        self.0.len() as i64
    }

    pub(super) fn contains(&self, index: i64) -> bool {
        self.0.contains(&index)
    }
}

impl fmt::Display for Indexes {
    /// Runs of three and more are written as a range, two are not.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut runs: Vec<(i64, i64)> = Vec::new();
        for index in &self.0 {
            match runs.last_mut() {
                Some((_, last)) if *last + 1 == *index => *last = *index,
                _ => runs.push((*index, *index)),
            }
        }
        let parts: Vec<String> = runs
            .into_iter()
            .map(|(first, last)| match last - first {
                0 => first.to_string(),
                1 => format!("{first},{last}"),
                _ => format!("{first}-{last}"),
            })
            .collect();
        f.write_str(&parts.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indexes_are_read_and_written_as_ranges() {
        for text in ["", "0", "0,1", "0-2", "1,3-5,7", "1,2,4-6"] {
            assert_eq!(Indexes::parse(text, 10).to_string(), text);
        }
        assert_eq!(Indexes::parse("0-5,8", 4).to_string(), "0-3");
        assert_eq!(Indexes::parse("x,2", 4).to_string(), "2");
    }
}
