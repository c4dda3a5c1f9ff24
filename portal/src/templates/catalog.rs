//! Which templates there are.

use std::{collections::BTreeMap, fs, path::PathBuf, sync::Arc};

use vctl_api::rest::ParameterType;

use super::{Manifest, Template, TemplateError, parameters, render};
use crate::error::{Error, nearest};

/// Largest file of a template in bytes.
const FILE_LIMIT: u64 = 1024 * 1024;
/// Most manifests of a template.
const FILES_LIMIT: usize = 200;

/// The files of a template as (path inside its directory, text).
type Files = Vec<(String, String)>;
type FilesOrError = Result<Files, TemplateError>;

macro_rules! shipped {
    ($($name:literal: [$($file:literal),* $(,)?]),* $(,)?) => {
        &[$(($name, &[$(($file, include_str!(concat!("../../../templates/", $name, "/", $file)))),*])),*]
    };
}

/// The templates that are part of the binary. A test holds this list against the directory.
const SHIPPED: &[(&str, &[(&str, &str)])] = shipped! {
    "blank": ["template.yaml"],
    "team-x": ["template.yaml", "manifests/redis.yaml", "manifests/web.yaml"],
};

/// All templates, good and broken, by name. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Catalog {
    directory: Option<PathBuf>,
}

impl Catalog {
    /// The shipped templates and those in a directory, which is read anew each time.
    pub fn new(directory: Option<PathBuf>) -> Self {
        Self { directory }
    }

    /// Every template, or what is wrong with it.
    ///
    /// # Errors
    /// When the configured directory cannot be read.
    pub fn all(&self) -> Result<BTreeMap<String, Result<Template, TemplateError>>, Error> {
        let mut all = BTreeMap::new();
        for (name, files) in SHIPPED {
            let files = files.iter().map(|(file, text)| ((*file).to_owned(), (*text).to_owned())).collect();
            all.insert((*name).to_owned(), read(name, files));
        }
        for (name, files) in self.configured()? {
            let template = files.and_then(|files| read(&name, files));
            all.insert(name, template);
        }
        Ok(all)
    }

    /// The template of this name.
    ///
    /// # Errors
    /// [`Error::NotFound`] with near names; [`Error::Invalid`] with file, line and column when it is broken.
    pub fn get(&self, name: &str) -> Result<Template, Error> {
        let mut all = self.all()?;
        match all.remove(name) {
            Some(Ok(template)) => Ok(template),
            Some(Err(broken)) => Err(broken.into()),
            None => {
                let mut near = nearest(name, all.keys().map(String::as_str));
                if near.is_empty() && all.len() <= 5 {
                    near = all.into_keys().collect();
                }
                Err(Error::NotFound { what: "template", name: name.to_owned(), nearest: near })
            }
        }
    }

    fn configured(&self) -> Result<Vec<(String, FilesOrError)>, Error> {
        let Some(directory) = &self.directory else { return Ok(Vec::new()) };
        let unreadable = |e: std::io::Error| {
            Error::Unavailable(format!("the templates directory {} cannot be read: {e}", directory.display()))
        };
        let mut found = Vec::new();
        for entry in fs::read_dir(directory).map_err(unreadable)? {
            let path = entry.map_err(unreadable)?.path();
            let Some(name) = path.file_name().and_then(|n| n.to_str()).map(str::to_owned) else { continue };
            if path.join("template.yaml").is_file() {
                let files = read_files(&name, &path);
                found.push((name, files));
            }
        }
        found.sort_by(|a, b| a.0.cmp(&b.0));
        Ok(found)
    }
}

impl From<TemplateError> for Error {
    fn from(e: TemplateError) -> Self {
        Self::invalid("broken-template", e.to_string())
    }
}

fn read_files(template: &str, path: &std::path::Path) -> Result<Files, TemplateError> {
    let failed = |file: &str, message: String| TemplateError::File {
        template: template.to_owned(),
        file: file.to_owned(),
        message,
    };
    let text = |file: String| {
        let path = path.join(&file);
        let size = fs::metadata(&path).map_err(|e| failed(&file, e.to_string()))?.len();
        if size > FILE_LIMIT {
            return Err(failed(&file, format!("is {size} bytes; at most {FILE_LIMIT} are allowed")));
        }
        let text = fs::read_to_string(&path).map_err(|e| failed(&file, e.to_string()))?;
        Ok((file, text))
    };
    let mut files = vec![text("template.yaml".to_owned())?];
    let manifests = path.join("manifests");
    if manifests.is_dir() {
        for entry in fs::read_dir(&manifests).map_err(|e| failed("manifests", e.to_string()))? {
            let entry = entry.map_err(|e| failed("manifests", e.to_string()))?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if name.ends_with(".yaml") || name.ends_with(".yml") {
                files.push(text(format!("manifests/{name}"))?);
            }
        }
    }
    if files.len() > FILES_LIMIT {
        return Err(failed("manifests", format!("has {} files; at most {FILES_LIMIT} are allowed", files.len())));
    }
    Ok(files)
}

/// Reads and checks a template.
pub(crate) fn read(name: &str, mut files: Files) -> Result<Template, TemplateError> {
    let failed =
        |message: String| TemplateError::File { template: name.to_owned(), file: "template.yaml".to_owned(), message };
    files.sort();
    let at = files.iter().position(|(file, _)| file == "template.yaml");
    let (_, text) = files.remove(at.ok_or_else(|| failed("is missing".to_owned()))?);
    let manifest: Manifest = serde_yaml::from_str(&text).map_err(|e| match e.location() {
        Some(place) => TemplateError::Syntax {
            template: name.to_owned(),
            file: "template.yaml".to_owned(),
            line: place.line(),
            column: place.column(),
            message: e.to_string(),
        },
        None => failed(e.to_string()),
    })?;
    if manifest.api_version != "vctl.dev/v1" || manifest.kind != "Template" {
        return Err(failed("must say apiVersion: vctl.dev/v1 and kind: Template".to_owned()));
    }
    if manifest.name != name {
        return Err(failed(format!("says name: {} but its directory is {name:?}: make them equal", manifest.name)));
    }
    if !is_semver(&manifest.version) {
        return Err(failed(format!("{:?} is no semantic version: use one like 1.0.0", manifest.version)));
    }
    for parameter in &manifest.parameters {
        check_declaration(parameter).map_err(|e| failed(format!("parameter {:?}: {e}", parameter.name)))?;
    }
    if let Some(Err(wrong)) = manifest.sleep.as_ref().map(crate::sleep::check) {
        return Err(failed(format!("sleep: {}", wrong.join("; "))));
    }
    let template = Template { manifest, files: Arc::from(files) };
    render::check_syntax(&template)?;
    Ok(template)
}

fn check_declaration(parameter: &vctl_api::rest::Parameter) -> Result<(), String> {
    let word = |name: &str| {
        name.starts_with(|c: char| c.is_ascii_alphabetic())
            && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    };
    if !word(&parameter.name) {
        return Err("a name is letters, digits and '_', starting with a letter".to_owned());
    }
    if (parameter.kind == ParameterType::Choice) == parameter.choices.is_empty() {
        return Err("type choice, and only it, has choices".to_owned());
    }
    if let Some(pattern) = &parameter.pattern {
        regex::Regex::new(pattern).map_err(|e| format!("pattern: {e}"))?;
    }
    if let Some(default) = &parameter.default {
        parameters::check(parameter, default).map_err(|e| format!("default: {e}"))?;
    }
    Ok(())
}

/// `MAJOR.MINOR.PATCH[-PRE][+BUILD]`.
fn is_semver(version: &str) -> bool {
    let number = |part: &str| {
        !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit()) && (part == "0" || !part.starts_with('0'))
    };
    let words = |part: &str| {
        part.split('.').all(|w| !w.is_empty() && w.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-'))
    };
    let (rest, build) = version.split_once('+').map_or((version, None), |(rest, build)| (rest, Some(build)));
    let (core, pre) = rest.split_once('-').map_or((rest, None), |(core, pre)| (core, Some(pre)));
    let mut parts = core.split('.');
    let three = (0..3).all(|_| parts.next().is_some_and(number)) && parts.next().is_none();
    three && pre.is_none_or(words) && build.is_none_or(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shipped_template_is_listed_and_whole() {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../templates");
        let mut on_disk = BTreeMap::new();
        for entry in fs::read_dir(root).expect("templates") {
            let path = entry.expect("entry").path();
            let name = path.file_name().and_then(|n| n.to_str()).expect("name").to_owned();
            let mut files = read_files(&name, &path).expect("files");
            files.sort();
            on_disk.insert(name, files);
        }
        let embedded: BTreeMap<String, Files> = SHIPPED
            .iter()
            .map(|(name, files)| {
                let mut files: Files = files.iter().map(|(f, t)| ((*f).to_owned(), (*t).to_owned())).collect();
                files.sort();
                ((*name).to_owned(), files)
            })
            .collect();
        assert_eq!(on_disk, embedded);
        for (name, template) in Catalog::new(None).all().expect("all") {
            assert_eq!(template.expect(&name).manifest.name, name);
        }
    }

    #[test]
    fn semantic_versions() {
        for good in ["0.0.0", "1.2.3", "1.2.3-rc.1", "1.2.3+build.5", "1.2.3-a-b+c"] {
            assert!(is_semver(good), "{good}");
        }
        for bad in ["1", "1.2", "1.2.3.4", "01.2.3", "1.2.x", "1.2.3-", "v1.2.3", ""] {
            assert!(!is_semver(bad), "{bad}");
        }
    }

    #[test]
    fn a_broken_template_names_file_line_and_column() {
        let head = "apiVersion: vctl.dev/v1\nkind: Template\nname: t\nversion: 1.0.0\ntitle: T\n";
        let broken =
            read("t", vec![("template.yaml".into(), format!("{head}parameters: [{{name: a, type: strnig}}]\n"))]);
        let error = broken.expect_err("wrong type").to_string();
        assert!(error.starts_with("template \"t\": template.yaml:6:") && error.contains("strnig"), "{error}");

        let manifest = "kind: ConfigMap\nmetadata: {name: {{ parameters.x ?? }}}\n";
        let error =
            read("t", vec![("template.yaml".into(), head.into()), ("manifests/a.yaml".into(), manifest.into())])
                .expect_err("syntax");
        let TemplateError::Syntax { file, line, column, .. } = &error else { panic!("{error}") };
        assert_eq!((file.as_str(), *line), ("manifests/a.yaml", 2), "{error}");
        assert!(*column >= 18, "{error}");
    }

    #[test]
    fn a_configured_directory_adds_and_replaces() {
        let dir = tempfile::tempdir().expect("dir");
        let blank = dir.path().join("blank");
        fs::create_dir(&blank).expect("mkdir");
        let text = "apiVersion: vctl.dev/v1\nkind: Template\nname: blank\nversion: 9.0.0\ntitle: Ours\n";
        fs::write(blank.join("template.yaml"), text).expect("write");
        let catalog = Catalog::new(Some(dir.path().to_owned()));
        assert_eq!(catalog.get("blank").expect("blank").manifest.version, "9.0.0");
        let Err(Error::NotFound { nearest, .. }) = catalog.get("taem-x") else { panic!("found") };
        assert_eq!(nearest, ["team-x"]);
    }
}
