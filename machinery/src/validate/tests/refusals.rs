//! One refusal a line: what is wrong, and what upstream's validation says of it.

mod kinds;
mod pods;

use serde_json::Value;

use super::created;

fn check(resource: &str, cases: &[(Value, &str)]) {
    for (object, expected) in cases {
        let errors = created(resource, object.clone());
        if expected.is_empty() {
            assert_eq!(errors, Vec::<String>::new(), "{resource} {object}");
        } else {
            assert!(errors.iter().any(|e| e.starts_with(expected)), "{resource} {object}: {errors:#?}");
        }
    }
}
