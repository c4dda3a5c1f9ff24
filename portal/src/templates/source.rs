//! Templates as files: what may be in a directory, and what identifies its content.

use std::{fs, path::Path};

use base64::{Engine, engine::general_purpose::STANDARD};
use sha2::{Digest, Sha256};
use vctl_machinery::schema;

use super::{TemplateError, charts};

/// Largest file of a template in bytes.
pub(crate) const FILE_LIMIT: u64 = 1024 * 1024;
/// Longest path of a file inside its template, in bytes.
const PATH_LIMIT: usize = 500;
/// Largest template in bytes.
pub(crate) const TOTAL_LIMIT: usize = 8 * 1024 * 1024;
/// Most files of a template.
const FILES_LIMIT: usize = 500;
/// What a template says of itself.
pub(crate) const MANIFEST: &str = "template.yaml";
/// Directories with manifests: of every environment, and of those of a kind only.
const MANIFESTS: [&str; 3] = ["manifests", "mocked", "real"];
/// Directory with values of Helm charts.
const VALUES: &str = "values";
/// Directory with Helm charts. Their files are not in the template language.
pub(crate) const CHARTS: &str = "charts";
/// All directories of a template.
pub(crate) const PLACES: [&str; 5] = ["manifests", "mocked", "real", VALUES, CHARTS];

/// Whether a file of a template makes objects.
pub(crate) fn is_manifest(file: &str) -> bool {
    file.split_once('/').is_some_and(|(directory, _)| MANIFESTS.contains(&directory))
}

/// Whether a file of a template is in the template language.
pub(crate) fn is_rendered(file: &str) -> bool {
    is_manifest(file) || file.split_once('/').is_some_and(|(directory, _)| directory == VALUES)
}

/// The files of a template as (path inside its directory, text), by path. Archives of charts are in base64.
pub type Files = Vec<(String, String)>;

/// Reads a template's directory. Links are refused: they could lead anywhere.
///
/// # Errors
/// [`TemplateError::File`] for what cannot be read, is too large, or is a link.
pub fn read_directory(template: &str, path: &Path) -> Result<Files, TemplateError> {
    let mut files = vec![("template.yaml".to_owned(), text(template, path, "template.yaml")?)];
    for directory in MANIFESTS.into_iter().chain([VALUES]) {
        let inside = path.join(directory);
        let Ok(found) = fs::symlink_metadata(&inside) else { continue };
        if !found.is_dir() {
            return Err(failed(template, directory, "must be a directory"));
        }
        let entries = fs::read_dir(&inside).map_err(|e| failed(template, directory, e))?;
        for entry in entries {
            let name = entry.map_err(|e| failed(template, directory, e))?.file_name();
            let Some(name) = name.to_str() else {
                return Err(failed(template, directory, "has a file whose name is not UTF-8: rename it"));
            };
            if name.ends_with(".yaml") || name.ends_with(".yml") {
                let file = format!("{directory}/{name}");
                files.push((file.clone(), text(template, path, &file)?));
            }
        }
    }
    if fs::symlink_metadata(path.join(CHARTS)).is_ok() {
        read_charts(template, path, CHARTS, &mut files)?;
    }
    check(template, &files)?;
    files.sort();
    Ok(files)
}

/// Reads everything under a directory of charts.
fn read_charts(template: &str, path: &Path, directory: &str, files: &mut Files) -> Result<(), TemplateError> {
    let found = fs::symlink_metadata(path.join(directory)).map_err(|e| failed(template, directory, e))?;
    if !found.is_dir() {
        return Err(failed(template, directory, "must be a directory"));
    }
    for entry in fs::read_dir(path.join(directory)).map_err(|e| failed(template, directory, e))? {
        let entry = entry.map_err(|e| failed(template, directory, e))?;
        let name = entry.file_name();
        let Some(name) = name.to_str() else {
            return Err(failed(template, directory, "has a file whose name is not UTF-8: rename it"));
        };
        let file = format!("{directory}/{name}");
        if files.len() > FILES_LIMIT || file.len() > PATH_LIMIT {
            return Err(failed(template, &file, format!("is one of more than {FILES_LIMIT} files, or lies too deep")));
        }
        if entry.file_type().is_ok_and(|t| t.is_dir()) {
            read_charts(template, path, &file, files)?;
        } else if charts::is_archive(&file) {
            files.push((file.clone(), STANDARD.encode(bytes(template, path, &file)?)));
        } else {
            files.push((file.clone(), text(template, path, &file)?));
        }
    }
    Ok(())
}

fn failed(template: &str, file: &str, message: impl ToString) -> TemplateError {
    TemplateError::File { template: template.to_owned(), file: file.to_owned(), message: message.to_string() }
}

fn text(template: &str, path: &Path, file: &str) -> Result<String, TemplateError> {
    let wrong = |_| failed(template, file, "is no text in UTF-8");
    String::from_utf8(bytes(template, path, file)?).map_err(wrong)
}

fn bytes(template: &str, path: &Path, file: &str) -> Result<Vec<u8>, TemplateError> {
    let path = path.join(file);
    let found = fs::symlink_metadata(&path).map_err(|e| failed(template, file, e))?;
    if !found.is_file() {
        return Err(failed(template, file, "is no regular file: links and devices are not read"));
    }
    if found.len() > FILE_LIMIT {
        return Err(failed(template, file, format!("is {} bytes; at most {FILE_LIMIT} are allowed", found.len())));
    }
    fs::read(&path).map_err(|e| failed(template, file, e))
}

/// Checks files that came from anywhere: their number, size and places.
///
/// # Errors
/// [`TemplateError::File`].
pub fn check(template: &str, files: &Files) -> Result<(), TemplateError> {
    if files.len() > FILES_LIMIT {
        return Err(failed(template, "", format!("has {} files; at most {FILES_LIMIT} are allowed", files.len())));
    }
    let total: usize = files.iter().map(|(_, text)| text.len()).sum();
    if total > TOTAL_LIMIT {
        return Err(failed(template, "", format!("has {total} bytes; at most {TOTAL_LIMIT} are allowed")));
    }
    for (file, text) in files {
        if file.chars().any(char::is_control) {
            return Err(failed(template, &file.escape_debug().to_string(), "has a name that is no line of text"));
        }
        if file == MANIFEST && schema::yaml_work(text.as_bytes()) > schema::YAML_WORK {
            return Err(failed(template, file, "has too many nested lists and maps: write them on lines of their own"));
        }
        let known = file == "template.yaml"
            || file.len() <= PATH_LIMIT && charts::is_chart_file(file)
            || file.split_once('/').is_some_and(|(directory, name)| {
                let yaml = name.ends_with(".yaml") || name.ends_with(".yml");
                (MANIFESTS.contains(&directory) || directory == VALUES)
                    && yaml
                    && !name.contains(['/', '\\'])
                    && !name.starts_with('.')
            });
        if !known {
            let message = format!(
                "is no place for a file of a template: there are template.yaml, YAML files in {}/ and {VALUES}/, and {CHARTS}/",
                MANIFESTS.join("/, ")
            );
            return Err(failed(template, file, message));
        }
    }
    let mut names: Vec<&str> = files.iter().map(|(file, _)| file.as_str()).collect();
    names.sort_unstable();
    match names.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => Err(failed(template, pair[0], "is there twice")),
        None => Ok(()),
    }
}

/// SHA-256 of the content, in hex: the same files have the same digest wherever they are.
pub fn digest(files: &[(String, String)]) -> String {
    let mut files: Vec<&(String, String)> = files.iter().collect();
    files.sort();
    let mut hash = Sha256::new();
    for (file, text) in files {
        for part in [file, text] {
            hash.update((part.len() as u64).to_be_bytes());
            hash.update(part.as_bytes());
        }
    }
    hex::encode(hash.finalize())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(name: &str) -> (String, String) {
        (name.to_owned(), String::new())
    }

    #[test]
    fn files_lie_where_they_belong() {
        check("t", &vec![file("template.yaml"), file("manifests/a.yaml"), file("mocked/b.yml")]).expect("good");
        for bad in [
            "../a.yaml",
            "manifests/../../etc/x.yaml",
            "/etc/x.yaml",
            "manifests/a/b.yaml",
            "manifests/.a.yaml",
            "x.yaml",
        ] {
            assert!(check("t", &vec![file("template.yaml"), file(bad)]).is_err(), "{bad}");
        }
        assert!(check("t", &vec![file("manifests/a.yaml"), file("manifests/a.yaml")]).is_err());
        assert!(check("t", &(0..=FILES_LIMIT).map(|i| file(&format!("manifests/{i}.yaml"))).collect()).is_err());
        assert!(check("t", &vec![("template.yaml".to_owned(), "x".repeat(TOTAL_LIMIT + 1))]).is_err());
        let error = check("t", &vec![file("manifests/a\u{1b}[31m.yaml")]).expect_err("a name").to_string();
        assert!(!error.contains('\u{1b}') && error.contains("no line of text"), "{error}");
        // Were it parsed, this would take minutes.
        let deep = "name: ".to_owned() + &"[".repeat(200_000);
        let error = check("t", &vec![("template.yaml".to_owned(), deep)]).expect_err("deep").to_string();
        assert!(error.contains("too many nested"), "{error}");
    }

    #[test]
    fn links_are_not_read() {
        let dir = tempfile::tempdir().expect("dir");
        fs::write(dir.path().join("template.yaml"), "x").expect("write");
        let secret = dir.path().join("secret");
        fs::write(&secret, "secret").expect("write");
        fs::create_dir(dir.path().join("manifests")).expect("mkdir");
        std::os::unix::fs::symlink(&secret, dir.path().join("manifests/a.yaml")).expect("link");
        let error = read_directory("t", dir.path()).expect_err("a link").to_string();
        assert!(error.contains("manifests/a.yaml: is no regular file"), "{error}");
    }

    #[test]
    fn a_digest_is_of_the_content() {
        let a = [("a".to_owned(), "bc".to_owned()), ("d".to_owned(), "e".to_owned())];
        let b = [a[1].clone(), a[0].clone()];
        assert_eq!(digest(&a), digest(&b));
        let c = [("ab".to_owned(), "c".to_owned()), ("d".to_owned(), "e".to_owned())];
        assert_ne!(digest(&a), digest(&c), "where one part ends and the next begins counts");
    }
}
