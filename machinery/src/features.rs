//! What acts on the kinds, as docs/compatibility.md prints it: a table of its own, `facts/features.txt`, with a test for each line.

/// One thing that works.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Feature {
    /// What it belongs to: `workloads`, `access`, ..
    pub area: &'static str,
    /// What there is, for people.
    pub what: &'static str,
    /// Where upstream describes it: a KEP or an API group; empty where there is no such place.
    pub upstream: &'static str,
    /// The source file of the test that shows it, from the root of the repository.
    pub file: &'static str,
    /// The test's function.
    pub test: &'static str,
}

/// All lines, in their order.
///
/// # Errors
/// The line that is not of the form that the table's head gives.
pub fn features() -> Result<Vec<Feature>, String> {
    parse(include_str!("../facts/features.txt"))
}

fn parse(table: &'static str) -> Result<Vec<Feature>, String> {
    let lines = table.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines
        .map(|line| {
            feature(line)
                .ok_or_else(|| format!("facts/features.txt: not `area | what | upstream | FILE::FUNCTION`: {line}"))
        })
        .collect()
}

fn feature(line: &'static str) -> Option<Feature> {
    let mut columns = line.split(" | ").map(str::trim);
    let (area, what, upstream) = (columns.next()?, columns.next()?, columns.next()?);
    let (file, test) = columns.next()?.split_once("::")?;
    let whole = columns.next().is_none() && [area, what, upstream, file, test].iter().all(|c| !c.is_empty());
    let upstream = if upstream == "-" { "" } else { upstream };
    whole.then_some(Feature { area, what, upstream, file, test })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_of_its_form_and_names_each_thing_once() {
        let all = features().expect("a table");
        assert!(all.len() > 50);
        for (i, feature) in all.iter().enumerate() {
            assert!(!all[..i].iter().any(|f| f.what == feature.what), "{feature:?}");
        }
        for wrong in ["a | b | c", "a | b | c | d", "a | b | c | d::e | f", "a |  | c | d::e"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
