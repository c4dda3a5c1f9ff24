//! Which templates there are.

use std::{collections::BTreeMap, fs, path::PathBuf, sync::OnceLock};

use vctl_machinery::schema;

use super::{
    Template, TemplateError, inspect,
    source::{self, Files, read_directory},
};
use crate::error::{Error, nearest};

type FilesOrError = Result<Files, TemplateError>;

macro_rules! shipped {
    ($($name:literal: [$($file:literal),* $(,)?]),* $(,)?) => {
        &[$(($name, &[$(($file, include_str!(concat!("../../../templates/", $name, "/", $file)))),*])),*]
    };
}

/// The templates that are part of the binary. A test holds this list against the directory.
const SHIPPED: &[(&str, &[(&str, &str)])] = shipped! {
    "blank": ["template.yaml"],
    "operator-development": ["template.yaml", "manifests/operator.yaml"],
    "web-with-redis-and-postgres": ["template.yaml", "manifests/web.yaml", "mocked/postgres.yaml", "mocked/redis.yaml"],
    "team-x": ["template.yaml", "manifests/redis.yaml", "manifests/web.yaml"],
};

/// The shipped templates, read once.
fn shipped() -> &'static BTreeMap<String, Result<Template, TemplateError>> {
    static READ: OnceLock<BTreeMap<String, Result<Template, TemplateError>>> = OnceLock::new();
    READ.get_or_init(|| {
        let read = |(name, files): &(&str, &[(&str, &str)])| {
            let files = files.iter().map(|(file, text)| ((*file).to_owned(), (*text).to_owned())).collect();
            ((*name).to_owned(), read(name, files))
        };
        SHIPPED.iter().map(read).collect()
    })
}

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
        let mut all = shipped().clone();
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
                let files = read_directory(&name, &path);
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

/// Reads and checks a template; of several problems the first is told.
pub(crate) fn read(name: &str, files: Files) -> Result<Template, TemplateError> {
    let found = inspect::inspect(name, files);
    match (found.errors.into_iter().next(), found.template) {
        (None, Some(template)) => Ok(template),
        (Some(error), _) => Err(error),
        (None, None) => Err(TemplateError::File {
            template: name.to_owned(),
            file: "template.yaml".to_owned(),
            message: "is missing".to_owned(),
        }),
    }
}

/// The name that files say they have: as the directory of a template, where there is none.
pub fn name_of(files: &[(String, String)]) -> String {
    said_by(files).map(|said| said.name).unwrap_or_default()
}

/// What files say of themselves before they are known to be a template.
#[derive(serde::Deserialize)]
pub(crate) struct Said {
    pub(crate) name: String,
    pub(crate) version: Option<String>,
}

/// None for what cannot be read, of which is told when it is inspected.
pub(crate) fn said_by(files: &[(String, String)]) -> Option<Said> {
    let (_, text) = files.iter().find(|(file, _)| file == source::MANIFEST)?;
    if schema::yaml_work(text.as_bytes()) > schema::YAML_WORK { None } else { serde_yaml::from_str(text).ok() }
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
            let mut files = read_directory(&name, &path).expect("files");
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
