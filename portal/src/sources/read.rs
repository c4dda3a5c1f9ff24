//! Reads templates out of a commit: directories with a `template.yaml`.

use base64::{Engine, engine::general_purpose::STANDARD};

use crate::{
    git::{Entry, GitError, Mode, Repository},
    templates::{
        catalog, charts,
        source::{self, FILE_LIMIT, Files, TOTAL_LIMIT},
    },
};

/// Most templates of a commit.
const TEMPLATES_LIMIT: usize = 50;
const MANIFEST: &str = "template.yaml";

/// A template of a commit.
pub(super) struct Found {
    /// Its directory in the repository; empty for the repository itself.
    pub(super) directory: String,
    /// As it says itself.
    pub(super) name: String,
    /// Its files, or why they are none of a template.
    pub(super) files: Result<Files, String>,
}

/// All templates under a directory of a commit.
pub(super) async fn templates(
    repository: &Repository<'_>,
    reference: &str,
    under: &str,
) -> Result<Vec<Found>, GitError> {
    let entries = repository.files(reference, under).await?;
    let roots: Vec<&str> = entries
        .iter()
        .filter_map(|entry| match entry.path.rsplit_once('/') {
            Some((directory, MANIFEST)) => Some(directory),
            None if entry.path == MANIFEST => Some(""),
            _ => None,
        })
        // A chart may have a file of that name.
        .filter(|root| !root.split('/').any(|part| part == "charts"))
        .collect();
    if roots.len() > TEMPLATES_LIMIT {
        return Err(GitError(format!("there are {} templates; at most {TEMPLATES_LIMIT} are allowed", roots.len())));
    }
    let mut found = Vec::new();
    for root in roots {
        let files = match belonging(&entries, root) {
            Ok(files) => read(repository, &files).await?,
            Err(why) => Err(why),
        };
        let name = files.as_ref().map(|files| catalog::name_of(files)).unwrap_or_default();
        found.push(Found { directory: root.to_owned(), name, files });
    }
    Ok(found)
}

/// The files of a template, by their place in it. Others that lie beside them, such as a README, are not of it.
fn belonging<'a>(entries: &'a [Entry], root: &str) -> Result<Vec<(String, &'a Entry)>, String> {
    let mut files = Vec::new();
    for entry in entries {
        let inside = match root {
            "" => Some(entry.path.as_str()),
            root => entry.path.strip_prefix(root).and_then(|rest| rest.strip_prefix('/')),
        };
        let Some(inside) = inside else { continue };
        let place = inside.split('/').next().unwrap_or_default();
        if inside != MANIFEST && !source::PLACES.contains(&place) {
            continue;
        }
        match entry.mode {
            Mode::Link => {
                return Err(format!("{inside} is a symbolic link: links are not followed, put the file there"));
            }
            Mode::Submodule => {
                return Err(format!("{inside} is a submodule: these are not fetched, put the files there"));
            }
            Mode::File if entry.size as u64 > FILE_LIMIT => {
                return Err(format!("{inside} is {} bytes; at most {FILE_LIMIT} are allowed", entry.size));
            }
            Mode::File => {}
        }
        let yaml = inside.ends_with(".yaml") || inside.ends_with(".yml");
        if place == source::CHARTS || yaml {
            files.push((inside.to_owned(), entry));
        }
    }
    Ok(files)
}

async fn read(repository: &Repository<'_>, files: &[(String, &Entry)]) -> Result<Result<Files, String>, GitError> {
    let entries: Vec<&Entry> = files.iter().map(|(_, entry)| *entry).collect();
    let contents = match repository.read(&entries, TOTAL_LIMIT).await {
        Ok(contents) => contents,
        Err(e) => return Ok(Err(e.to_string())),
    };
    let mut read = Files::new();
    for ((file, _), bytes) in files.iter().zip(contents) {
        let text = if charts::is_archive(file) {
            STANDARD.encode(bytes)
        } else {
            match String::from_utf8(bytes) {
                Ok(text) => text,
                Err(_) => return Ok(Err(format!("{file} is no text in UTF-8"))),
            }
        };
        read.push((file.clone(), text));
    }
    Ok(Ok(read))
}
