//! Which branches and tags of a repository are looked at, and what their names say.

use std::collections::BTreeMap;

use semver::Version;
use vctl_api::rest::{SourceReference, TemplateSource};

use crate::templates::catalog::{self, Said};

/// Most branches and tags of a repository that are looked at: of tags the newest versions.
const REFERENCES_LIMIT: usize = 100;

/// Whether nothing is wrong with it.
pub(super) fn is_good(reference: &SourceReference) -> bool {
    reference.error.is_empty() && reference.templates.iter().all(|t| t.error.is_empty())
}

/// The references that are to be looked at, with their channels: branches as they are named, and the newest tags of each pattern.
pub(super) fn wanted(source: &TemplateSource, there: &BTreeMap<String, String>) -> Vec<(String, String)> {
    let mut wanted: Vec<(String, String)> =
        source.branches.iter().map(|(branch, channel)| (format!("refs/heads/{branch}"), channel.clone())).collect();
    for (pattern, channel) in &source.tags {
        let mut tags: Vec<(Version, &String)> = there
            .keys()
            .filter(|name| name.strip_prefix("refs/tags/").is_some_and(|tag| matches(pattern, tag)))
            .filter_map(|name| Some((version_of(name)?.1, name)))
            .collect();
        tags.sort_by(|a, b| b.0.cmp(&a.0));
        wanted.extend(tags.into_iter().take(REFERENCES_LIMIT).map(|(_, name)| (name.clone(), channel.clone())));
    }
    wanted.truncate(REFERENCES_LIMIT);
    wanted
}

/// `v1.0.0` and `NAME/v1.0.0`: the template that is meant (empty for any), and the version.
fn version_of(reference: &str) -> Option<(&str, Version)> {
    let tag = reference.strip_prefix("refs/tags/")?;
    let (template, version) = tag.rsplit_once('/').unwrap_or(("", tag));
    Some((template, Version::parse(version.trim_start_matches('v')).ok()?))
}

/// Whether a tag is of this template; an error when it says another version than the template. Branches are of all.
pub(super) fn tag_fits(reference: &str, name: &str, alone: bool, files: &[(String, String)]) -> Result<bool, String> {
    let Some((template, version)) = version_of(reference) else { return Ok(true) };
    if !template.is_empty() && template != name {
        return Ok(false);
    }
    // What is wrong with it is told when it is published.
    let Some(Said { version: Some(said), .. }) = catalog::said_by(files) else { return Ok(true) };
    if (alone || !template.is_empty()) && said != version.to_string() {
        return Err(format!("the tag says version {version}, but template.yaml {said}: make them equal"));
    }
    Ok(true)
}

/// Whether a text matches a pattern in which `*` stands for any text.
fn matches(pattern: &str, text: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == text,
        Some((head, rest)) => text.strip_prefix(head).is_some_and(|left| {
            (0..=left.len()).filter(|at| left.is_char_boundary(*at)).any(|at| matches(rest, &left[at..]))
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_versions_of_templates() {
        assert_eq!(version_of("refs/tags/v1.2.0"), Some(("", Version::new(1, 2, 0))));
        assert_eq!(version_of("refs/tags/app/1.2.0"), Some(("app", Version::new(1, 2, 0))));
        assert_eq!(version_of("refs/tags/latest"), None);
        assert_eq!(version_of("refs/heads/main"), None);
        let files = [("template.yaml".to_owned(), "name: app\nversion: 1.2.0\n".to_owned())];
        assert_eq!(tag_fits("refs/tags/v1.2.0", "app", true, &files), Ok(true));
        assert_eq!(tag_fits("refs/tags/other/v1.2.0", "app", true, &files), Ok(false));
        assert!(tag_fits("refs/tags/v1.3.0", "app", true, &files).is_err());
        assert_eq!(tag_fits("refs/tags/v1.3.0", "app", false, &files), Ok(true), "of several templates");
        assert!(tag_fits("refs/tags/app/v1.3.0", "app", false, &files).is_err());
        assert_eq!(tag_fits("refs/heads/main", "app", true, &files), Ok(true));
    }

    #[test]
    fn patterns_of_tags_match_whole_tags() {
        assert!(
            matches("v*", "v1.0.0")
                && matches("app/*", "app/v1")
                && matches("v1.0.0", "v1.0.0")
                && matches("*-*", "a-b")
        );
        assert!(!matches("v*", "w1") && !matches("v1", "v10") && !matches("*-", "a-b"));
    }
}
