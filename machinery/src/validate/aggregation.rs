//! APIServices. Source of rules and texts: kube-aggregator's `pkg/apis/apiregistration/validation`.

use super::check::{At, Errors};
use crate::names;

pub(super) fn api_service(object: &At<'_>, errors: &mut Errors) {
    let spec = object.field("spec");
    let (group, version) = (spec.field("group"), spec.field("version"));
    let name = object.field("metadata").field("name");
    let required = format!("{}.{}", version.text(), group.text());
    if !name.is_empty() && name.text() != required {
        errors.invalid(&name, &format!("must be `spec.version+\".\"+spec.group`: {required:?}"));
    }
    if group.is_empty() {
        if version.text() != "v1" {
            errors.required(&group, "only v1 may have an empty group and it better be legacy kube");
        }
    } else {
        errors.if_named(&group, names::dns_subdomain_errors);
    }
    for why in names::dns_1035_label_errors(version.text()) {
        errors.invalid(&version, &why);
    }
    for (field, max) in [("groupPriorityMinimum", 20_000), ("versionPriority", 1_000)] {
        let at = spec.field(field);
        let number = at.value.as_i64().unwrap_or(0);
        if !(1..=max).contains(&number) {
            errors.invalid_number(&at, number, &format!("must be positive and less than {max}"));
        }
    }
    let (service, bundle, insecure) =
        (spec.field("service"), spec.field("caBundle"), spec.field("insecureSkipTLSVerify"));
    if !service.exists() {
        if !bundle.is_empty() {
            errors.invalid(&bundle, "local APIServices may not have a caBundle");
        }
        if *insecure.value == true {
            errors.invalid(&insecure, "local APIServices may not have insecureSkipTLSVerify");
        }
        return;
    }
    for field in ["namespace", "name"] {
        let at = service.field(field);
        if at.is_empty() {
            errors.required(&at, "");
        }
    }
    let port = service.field("port");
    if port.exists() && port.value.as_i64().is_none_or(|p| !(1..=65535).contains(&p)) {
        errors.invalid(&port, "port is not valid: must be between 1 and 65535, inclusive");
    }
    if *insecure.value == true && !bundle.is_empty() {
        errors.invalid(&insecure, "may not be true if caBundle is present");
    }
}
