//! What a project allows in its environments.

use serde_json::Value;
use vctl_api::rest::Resource;
use vctl_machinery::image;

use super::documents::ProjectDoc;
use crate::error::{Error, nearest};

/// Whether a project allows a template.
pub(crate) fn allows_template(project: &ProjectDoc, template: &str) -> bool {
    let allowed = &project.settings.allowed_templates;
    allowed.is_empty() || allowed.iter().any(|name| name == template)
}

/// A template that the project allows.
///
/// # Errors
/// [`Error::Invalid`] with what is allowed.
pub(crate) fn check_template(project: &ProjectDoc, template: &str) -> Result<(), Error> {
    if allows_template(project, template) {
        return Ok(());
    }
    let allowed = &project.settings.allowed_templates;
    Err(Error::Invalid {
        kind: "template-not-allowed",
        detail: format!(
            "project {:?} does not allow template {template:?}, but {}: take one of them, or ask an administrator of the project",
            project.name,
            allowed.join(", ")
        ),
        nearest: nearest(template, allowed.iter().map(String::as_str)),
    })
}

/// Whether a resource is for a project, and the project allows it.
pub(crate) fn allows_resource(project: &ProjectDoc, resource: &Resource) -> bool {
    let allowed = &project.settings.allowed_resources;
    resource.is_for(&project.name) && (allowed.is_empty() || allowed.contains(&resource.name))
}

/// A registered resource that the project allows, as far as the project says.
///
/// # Errors
/// [`Error::Invalid`] with what is allowed. `what` asked for it.
pub(crate) fn check_resource(project: &ProjectDoc, what: &str, resource: &str) -> Result<(), Error> {
    let allowed = &project.settings.allowed_resources;
    if allowed.is_empty() || allowed.iter().any(|name| name == resource) {
        return Ok(());
    }
    Err(Error::Invalid {
        kind: "resource-not-allowed",
        detail: format!(
            "{what}: project {:?} does not allow resource {resource:?}, but {}: take one of them, or ask an administrator of the project",
            project.name,
            allowed.join(", ")
        ),
        nearest: nearest(resource, allowed.iter().map(String::as_str)),
    })
}

/// Images of containers that the project allows, in all objects that are about to be applied.
///
/// # Errors
/// [`Error::Invalid`] with the first image that is not allowed and where it is.
pub(crate) fn check_images(project: &ProjectDoc, documents: &[Value]) -> Result<(), Error> {
    let patterns = &project.settings.allowed_images;
    if patterns.is_empty() {
        return Ok(());
    }
    for document in documents {
        let mut refused = None;
        visit_images(document, &mut |name| {
            if !image::is_allowed(patterns, name) {
                refused.get_or_insert_with(|| name.to_owned());
            }
        });
        if let Some(image) = refused {
            let kind = document["kind"].as_str().unwrap_or("object").to_lowercase();
            let name = document.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
            return Err(Error::invalid(
                "image-not-allowed",
                format!(
                    "project {:?} does not allow image {image:?} of {kind} {name:?}, but {}: change the parameter that names it, or ask \
                     an administrator of the project",
                    project.name,
                    patterns.join(", ")
                ),
            ));
        }
    }
    Ok(())
}

/// Calls `seen` with the image of every container and volume, at whatever depth its pod template is.
fn visit_images(value: &Value, seen: &mut impl FnMut(&str)) {
    match value {
        Value::Object(fields) => {
            image::of_pod_spec(value).for_each(&mut *seen);
            fields.values().for_each(|value| visit_images(value, seen));
        }
        Value::Array(items) => items.iter().for_each(|item| visit_images(item, seen)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use vctl_api::rest::ProjectSettings;

    use super::*;

    #[test]
    fn images_are_found_at_every_depth() {
        let settings = ProjectSettings { allowed_images: vec!["ok/*".to_owned()], ..ProjectSettings::default() };
        let project = ProjectDoc { name: "p".to_owned(), settings, created_at: None };
        let pod = |image: &str| json!({"initContainers": [{"image": "ok/init"}], "containers": [{"image": image}]});
        let job = |image: &str| json!({"kind": "CronJob", "metadata": {"name": "c"}, "spec": {"jobTemplate": {"spec": {"template": {"spec": pod(image)}}}}});
        assert!(check_images(&project, &[job("ok/a:1")]).is_ok());
        let refused = check_images(&project, &[job("ok/a:1"), job("other/a")]).expect_err("refused").to_string();
        assert!(refused.contains("other/a") && refused.contains("cronjob") && refused.contains("ok/*"), "{refused}");
        let list = json!({"kind": "List", "items": [{"kind": "Pod", "spec": pod("other/b")}]});
        assert!(check_images(&project, &[list]).is_err(), "also inside of a List");
    }
}
