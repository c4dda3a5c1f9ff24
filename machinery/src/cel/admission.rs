//! What expressions of admission may refer to: those of policies and of the match conditions of webhooks. Source: apiserver
//! `pkg/admission/plugin/cel/{compile,composition}.go` and `pkg/cel/library/authz.go`.

use serde_json::Value as Json;

use super::{Environment, Program, Type, Value};
use crate::cel::value::Key;

/// `authorizer`: what may whoever makes the request.
pub const AUTHORIZER: &str = "kubernetes.authorization.Authorizer";
/// `authorizer.path('/healthz')`
pub const PATH_CHECK: &str = "kubernetes.authorization.PathCheck";
/// `authorizer.group('apps')`
pub const GROUP_CHECK: &str = "kubernetes.authorization.GroupCheck";
/// `authorizer.group('apps').resource('deployments')`
pub const RESOURCE_CHECK: &str = "kubernetes.authorization.ResourceCheck";
/// `authorizer.path('/healthz').check('get')`
pub const DECISION: &str = "kubernetes.authorization.Decision";
/// `variables` of a policy.
pub const VARIABLES: &str = "kubernetes.variables";
/// The variable that stands for the requested resource itself.
pub const REQUEST_RESOURCE: &str = "authorizer.requestResource";

/// What an environment has besides `object`, `oldObject`, `request` and `namespaceObject`.
#[derive(Debug, Clone, Default)]
pub struct Declared {
    /// `params`.
    pub params: bool,
    /// `authorizer`: message expressions have none.
    pub authorizer: bool,
    /// `Object{..}` and `JSONPatch{..}`.
    pub patches: bool,
    /// The type of `object` and `oldObject`, where it is known.
    pub object: Option<Type>,
    /// The type of `params`, where it is known.
    pub params_type: Option<Type>,
    /// The variables so far, with their types.
    pub variables: Vec<(String, Type)>,
}

impl Declared {
    /// As an environment.
    pub fn environment(&self) -> Environment {
        let object = self.object.clone().unwrap_or(Type::Dyn);
        let mut environment = Environment::new()
            .variable("object", object.clone())
            .variable("oldObject", object)
            .variable("request", request())
            .variable("namespaceObject", namespace());
        if self.params {
            environment = environment.variable("params", self.params_type.clone().unwrap_or(Type::Dyn));
        }
        if self.authorizer {
            environment = authorizer(environment);
        }
        if !self.variables.is_empty() {
            environment = environment.variable("variables", Type::object(VARIABLES, self.variables.clone()));
        }
        if self.patches { environment.patch_types() } else { environment }
    }

    /// Compiles a variable and declares it, also when it is wrong, so that what uses it is not wrong as well.
    ///
    /// # Errors
    /// As [`compile`].
    pub fn add_variable(&mut self, name: &str, expression: &str) -> Result<Program, String> {
        let compiled = compile(&self.environment(), expression, &[]);
        let kind = compiled.as_ref().map_or(Type::Dyn, |p| p.output().clone());
        self.variables.retain(|(n, _)| n != name);
        self.variables.push((name.to_owned(), kind));
        compiled
    }
}

/// Compiles an expression that must be of one of some types (none: of any).
///
/// # Errors
/// `compilation failed: ..` and `must evaluate to bool but got int`.
pub fn compile(environment: &Environment, expression: &str, wanted: &[Type]) -> Result<Program, String> {
    let program = environment.compile(expression).map_err(|e| format!("compilation failed: {e}"))?;
    let output = program.output();
    // An empty list is a list of anything.
    let fits = |w: &Type| w == output || matches!((w, output), (Type::List(_), Type::List(of)) if **of == Type::Dyn);
    if wanted.is_empty() || wanted.iter().any(fits) {
        return Ok(program);
    }
    let name = |t: &Type| if *t == Type::Null { "null_type".to_owned() } else { t.to_string() };
    Err(match wanted {
        [one] => format!("must evaluate to {} but got {}", name(one), name(output)),
        many => {
            let all: Vec<String> = many.iter().map(name).collect();
            format!("must evaluate to one of [{}] but got {}", all.join(" "), name(output))
        }
    })
}

/// What a JSONPatch mutation must be.
pub fn json_patch_type() -> Type {
    Type::list(Type::Message("JSONPatch".into()))
}

/// What an ApplyConfiguration mutation must be.
pub fn apply_configuration_type() -> Type {
    Type::Message("Object".into())
}

fn fields(name: &str, fields: &[(&str, Type)]) -> Type {
    Type::object(name, fields.iter().map(|(n, t)| ((*n).to_owned(), t.clone())))
}

fn texts() -> Type {
    Type::list(Type::String)
}

fn request() -> Type {
    let text = Type::String;
    let kind = fields(
        "kubernetes.GroupVersionKind",
        &[("group", text.clone()), ("version", text.clone()), ("kind", text.clone())],
    );
    let resource = fields(
        "kubernetes.GroupVersionResource",
        &[("group", text.clone()), ("version", text.clone()), ("resource", text.clone())],
    );
    let user = fields(
        "kubernetes.UserInfo",
        &[
            ("username", text.clone()),
            ("uid", text.clone()),
            ("groups", texts()),
            ("extra", Type::map(text.clone(), texts())),
        ],
    );
    fields(
        "kubernetes.AdmissionRequest",
        &[
            ("kind", kind.clone()),
            ("resource", resource.clone()),
            ("subResource", text.clone()),
            ("requestKind", kind),
            ("requestResource", resource),
            ("requestSubResource", text.clone()),
            ("name", text.clone()),
            ("namespace", text.clone()),
            ("operation", text),
            ("userInfo", user),
            ("dryRun", Type::Bool),
            ("options", Type::Dyn),
        ],
    )
}

fn namespace() -> Type {
    let text = Type::String;
    let labels = Type::map(text.clone(), text.clone());
    let metadata = fields(
        "kubernetes.NamespaceMetadata",
        &[
            ("name", text.clone()),
            ("generateName", text.clone()),
            ("namespace", text.clone()),
            ("labels", labels.clone()),
            ("annotations", labels),
            ("UID", text.clone()),
            ("creationTimestamp", Type::Timestamp),
            ("deletionGracePeriodSeconds", Type::Int),
            ("deletionTimestamp", Type::Timestamp),
            ("generation", Type::Int),
            ("resourceVersion", text.clone()),
            ("finalizers", texts()),
        ],
    );
    let condition = fields(
        "kubernetes.NamespaceCondition",
        &[
            ("status", text.clone()),
            ("type", text.clone()),
            ("lastTransitionTime", Type::Timestamp),
            ("message", text.clone()),
            ("reason", text.clone()),
        ],
    );
    fields(
        "kubernetes.Namespace",
        &[
            ("metadata", metadata),
            ("spec", fields("kubernetes.NamespaceSpec", &[("finalizers", texts())])),
            ("status", fields("kubernetes.NamespaceStatus", &[("conditions", Type::list(condition)), ("phase", text)])),
        ],
    )
}

/// A Namespace as `namespaceObject` shows it: without what its type does not name, and with times as such.
pub fn namespace_value(namespace: &Json) -> Value {
    fn shown(value: &Json, name: &str) -> Value {
        const HIDDEN: [&str; 4] = ["managedFields", "ownerReferences", "selfLink", "uid"];
        match value {
            Json::String(text) if name.ends_with("Timestamp") || name == "lastTransitionTime" => {
                text.parse().map_or_else(|_| Value::string(text), Value::Timestamp)
            }
            Json::Object(map) => {
                let entries = map
                    .iter()
                    .filter(|(key, _)| name != "metadata" || !HIDDEN.contains(&key.as_str()))
                    .map(|(key, value)| (Key::String(key.as_str().into()), shown(value, key)));
                Value::Map(std::sync::Arc::new(entries.collect()))
            }
            Json::Array(items) => Value::list(items.iter().map(|item| shown(item, "")).collect()),
            other => Value::from_json(other),
        }
    }
    shown(namespace, "")
}

fn authorizer(environment: Environment) -> Environment {
    let of = Type::Opaque;
    let text = || Type::String;
    let environment = environment
        .variable("authorizer", of(AUTHORIZER))
        .variable(REQUEST_RESOURCE, of(RESOURCE_CHECK))
        .method("path", of(AUTHORIZER), vec![text()], of(PATH_CHECK))
        .method("group", of(AUTHORIZER), vec![text()], of(GROUP_CHECK))
        .method("serviceAccount", of(AUTHORIZER), vec![text(), text()], of(AUTHORIZER))
        .method("resource", of(GROUP_CHECK), vec![text()], of(RESOURCE_CHECK))
        .method("check", of(PATH_CHECK), vec![text()], of(DECISION))
        .method("check", of(RESOURCE_CHECK), vec![text()], of(DECISION))
        .method("errored", of(DECISION), vec![], Type::Bool)
        .method("error", of(DECISION), vec![], text())
        .method("allowed", of(DECISION), vec![], Type::Bool)
        .method("reason", of(DECISION), vec![], text());
    ["subresource", "namespace", "name", "fieldSelector", "labelSelector"]
        .into_iter()
        .fold(environment, |e, name| e.method(name, of(RESOURCE_CHECK), vec![text()], of(RESOURCE_CHECK)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::cel::{PER_CALL_LIMIT, Variables};

    fn error(declared: &Declared, text: &str, wanted: &[Type]) -> String {
        compile(&declared.environment(), text, wanted).unwrap_err()
    }

    #[test]
    fn expressions_are_of_the_type_that_is_asked_for() {
        let declared = Declared { authorizer: true, ..Declared::default() };
        assert_eq!(error(&declared, "1 + 1", &[Type::Bool]), "must evaluate to bool but got int");
        assert_eq!(
            error(&declared, "true", &[Type::String, Type::Null]),
            "must evaluate to one of [string null_type] but got bool"
        );
        assert!(error(&declared, "request.userInfo.nme == ''", &[Type::Bool]).contains("undefined field 'nme'"));
        assert!(error(&declared, "params.a", &[]).contains("undeclared reference to 'params' (in container '')"));
        assert!(error(&declared, "Object{}", &[]).contains("undeclared reference to 'Object' (in container '')"));
        let check = "authorizer.requestResource.name('x').check('get').allowed() && authorizer.group('').resource('pods').check('list').allowed()";
        assert!(compile(&declared.environment(), check, &[Type::Bool]).is_ok());
        assert!(error(&Declared::default(), check, &[Type::Bool]).contains("undeclared reference to 'authorizer'"));
    }

    #[test]
    fn variables_have_types() {
        let mut declared = Declared::default();
        declared.add_variable("n", "1 + 1").unwrap();
        assert!(declared.add_variable("bad", "nothing").is_err());
        assert!(compile(&declared.environment(), "variables.n > 1 && variables.bad == 2", &[Type::Bool]).is_ok());
        assert!(error(&declared, "variables.n == 'a'", &[]).contains("found no matching overload for '_==_'"));
        assert!(error(&declared, "variables.m", &[]).contains("undefined field 'm'"));
    }

    #[test]
    fn messages_become_documents() {
        let environment = Declared { patches: true, ..Declared::default() }.environment();
        let run = |text: &str, wanted: Type| {
            let program = compile(&environment, text, &[wanted]).unwrap();
            let object = json!({ "spec": { "replicas": 1 } });
            let variables = Variables::new().with("object", Value::from_json(&object));
            program.evaluate(&variables, PER_CALL_LIMIT).result.unwrap()
        };
        let made = run(
            "Object{spec: Object.spec{replicas: object.spec.replicas + 1, ?paused: optional.none(), list: [Object.spec.list{a: 'b'}]}}",
            apply_configuration_type(),
        );
        assert_eq!(made.to_json(), Some(json!({ "spec": { "replicas": 2, "list": [{ "a": "b" }] } })));
        let Value::Message(message) = &made else { unreachable!() };
        assert_eq!(message.check_names(), Ok(()));
        let wrong = run("Object{spec: Object.status{}}", apply_configuration_type());
        let Value::Message(wrong) = &wrong else { unreachable!() };
        assert_eq!(
            wrong.check_names().unwrap_err(),
            "unexpected type name \"Object.status\", expected \"Object.spec\", which matches field name path from root Object type"
        );
        let patch = "[JSONPatch{op: 'add', path: '/metadata/labels/' + jsonpatch.escapeKey('a/b~c'), value: 'x'}]";
        assert_eq!(
            run(patch, json_patch_type()).to_json(),
            Some(json!([{ "op": "add", "path": "/metadata/labels/a~1b~0c", "value": "x" }]))
        );
        run("object.spec.replicas > 5 ? [JSONPatch{op: 'remove', path: '/spec'}] : []", json_patch_type());
        let refused = |text: &str| compile(&environment, text, &[json_patch_type()]).unwrap_err();
        assert!(
            refused("[JSONPatch{op: 1}]")
                .contains("expected type of field 'op' is 'string' but provided type is 'int'")
        );
        assert!(refused("[JSONPatch{x: 1}]").contains("undefined field 'x'"));
        assert_eq!(refused("Object{}"), "must evaluate to list(JSONPatch) but got Object");
    }

    #[test]
    fn namespaces_have_times() {
        let namespace =
            json!({ "metadata": { "name": "n", "creationTimestamp": "2026-01-02T03:04:05Z", "labels": { "a": "b" } } });
        let program = Declared::default()
            .environment()
            .compile("namespaceObject.metadata.creationTimestamp.getFullYear() == 2026 && namespaceObject.metadata.labels['a'] == 'b'");
        let variables = Variables::new().with("namespaceObject", namespace_value(&namespace));
        assert_eq!(program.unwrap().evaluate(&variables, PER_CALL_LIMIT).result, Ok(Value::Bool(true)));
    }
}
