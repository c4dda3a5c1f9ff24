//! CustomResourceDefinitions with kubectl: what an operator's user does, compared with what upstream's apiextensions-apiserver answers.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use vctl_tests::{
    kubectl::Kubectl,
    platform::{Platform, Workers},
    text::normal,
    wait,
};

const LIMIT: Duration = Duration::from_secs(30);

const DEFINITION: &str = r#"
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: gadgets.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: gadgets, singular: gadget, kind: Gadget, shortNames: [gd], categories: [all]}
  versions:
  - name: v1
    served: true
    storage: true
    subresources:
      status: {}
      scale: {specReplicasPath: .spec.replicas, statusReplicasPath: .status.replicas}
    selectableFields: [{jsonPath: .spec.color}]
    additionalPrinterColumns:
    - {name: Color, type: string, jsonPath: .spec.color}
    - {name: Replicas, type: integer, jsonPath: .spec.replicas}
    - {name: Ready, type: string, jsonPath: '.status.conditions[?(@.type=="Ready")].status', priority: 1}
    schema:
      openAPIV3Schema:
        description: A gadget for tests.
        type: object
        required: [spec]
        properties:
          spec:
            type: object
            required: [color]
            x-kubernetes-validations:
            - {rule: "self.replicas <= self.limit", messageExpression: "self.limit == 5 ? 'at most 5 replicas' : 'more replicas than the limit'", fieldPath: .replicas}
            properties:
              color:
                description: The colour of the gadget.
                type: string
                enum: [red, green, blue]
                x-kubernetes-validations: [{rule: "self == oldSelf", message: color is immutable}]
              replicas: {type: integer, minimum: 0, default: 1}
              limit: {type: integer, default: 5}
              ports:
                type: array
                x-kubernetes-list-type: map
                x-kubernetes-list-map-keys: [port]
                items: {type: object, required: [port], properties: {port: {type: integer}, name: {type: string}}}
          status:
            type: object
            properties:
              replicas: {type: integer}
              conditions:
                type: array
                items: {type: object, properties: {type: {type: string}, status: {type: string}}}
"#;

const GADGET: &str = "
apiVersion: example.com/v1
kind: Gadget
metadata: {name: one}
spec: {color: red}
";

#[test]
fn custom_resources_kubectl_1_28() -> Result<()> {
    all("1.28")
}

#[test]
fn custom_resources_kubectl_1_33() -> Result<()> {
    all("1.33")
}

fn all(minor: &str) -> Result<()> {
    let platform = Platform::start(Workers::Simulated)?;
    platform.create("dev", "blank", &[])?;
    let k = platform.kubectl(minor, "dev")?;
    define(&k).context("define")?;
    use_it(&k).context("use")?;
    refuse(&k).context("refusals")?;
    apply(&k).context("server-side apply")?;
    remove(&k).context("remove")
}

fn define(k: &Kubectl) -> Result<()> {
    assert_eq!(k.apply(DEFINITION)?, "customresourcedefinition.apiextensions.k8s.io/gadgets.example.com created\n");
    k.ok(&["wait", "--for=condition=Established", "crd/gadgets.example.com", "--timeout=10s"])?;
    let resources = k.ok(&["api-resources", "--api-group=example.com", "--no-headers"])?;
    assert_eq!(resources.split_whitespace().collect::<Vec<_>>(), ["gadgets", "gd", "example.com/v1", "true", "Gadget"]);
    let explained = k.ok(&["explain", "gadget.spec.color"])?;
    ensure!(explained.contains("The colour of the gadget."), "{explained}");
    // A schema that is wrong is refused with where and why: apiextensions validation.go.
    let wrong = DEFINITION
        .replace("self == oldSelf", "self.nothing == 1")
        .replace("gadgets", "widgets")
        .replace("Gadget", "Widget");
    let refused =
        k.pipe(&["create", "-f", "-"], &wrong.replace("gadget", "widget").replace("[gd]", "[wd]"))?.refused()?;
    ensure!(
        refused.contains("compilation failed: ERROR: <input>:1:5: type 'string' does not support field selection"),
        "{refused}"
    );
    Ok(())
}

fn use_it(k: &Kubectl) -> Result<()> {
    assert_eq!(k.apply(GADGET)?, "gadget.example.com/one created\n");
    assert_eq!(k.apply(GADGET)?, "gadget.example.com/one unchanged\n");
    assert_eq!(k.ok(&["get", "gd"])?, "NAME   COLOR   REPLICAS\none    red     1\n");
    let patch = r#"{"status":{"replicas":1,"conditions":[{"type":"Ready","status":"True"}]}}"#;
    k.ok(&["patch", "gadget", "one", "--subresource=status", "--type=merge", "-p", patch])?;
    assert_eq!(normal(&k.ok(&["get", "gd", "-o", "wide"])?), "NAME  COLOR  REPLICAS  READY\none  red  1  True\n");
    k.ok(&["wait", "--for=condition=Ready", "gadget/one", "--timeout=10s"])?;
    assert_eq!(k.ok(&["scale", "gadget/one", "--replicas=3"])?, "gadget.example.com/one scaled\n");
    assert_eq!(k.ok(&["get", "gd", "one", "-o", "jsonpath={.spec.replicas} {.metadata.generation}"])?, "3 2");
    assert_eq!(k.ok(&["get", "gd", "--field-selector=spec.color=red", "-o", "name"])?, "gadget.example.com/one\n");
    assert_eq!(k.ok(&["get", "gd", "--field-selector=spec.color=blue", "-o", "name"])?, "");
    let all = k.ok(&["get", "all", "-o", "name"])?;
    ensure!(all.contains("gadget.example.com/one"), "{all}");
    Ok(())
}

fn refuse(k: &Kubectl) -> Result<()> {
    let create = |manifest: &str| k.pipe(&["create", "-f", "-"], manifest)?.refused();
    let unknown = create(&GADGET.replace("one", "two").replace("color: red", "color: red, size: 1"))?;
    ensure!(unknown.contains("unknown field \"spec.size\""), "{unknown}");
    let wrong = create(&GADGET.replace("one", "two").replace("red", "pink"))?;
    ensure!(
        wrong.contains("The Gadget \"two\" is invalid: ")
            && wrong
                .contains("spec.color: Unsupported value: \"pink\": supported values: \"red\", \"green\", \"blue\""),
        "{wrong}"
    );
    let missing = create(&GADGET.replace("one", "two").replace("color: red", "replicas: 1"))?;
    ensure!(missing.contains("spec.color: Required value"), "{missing}");
    let rule = create(&GADGET.replace("one", "two").replace("color: red", "color: red, replicas: 9"))?;
    ensure!(rule.contains("spec.replicas: Invalid value: at most 5 replicas"), "{rule}");
    let changed =
        k.run(&["patch", "gadget", "one", "--type=merge", "-p", r#"{"spec":{"color":"blue"}}"#])?.refused()?;
    ensure!(changed.contains("spec.color: Invalid value: \"blue\": color is immutable"), "{changed}");
    let twice =
        create(&GADGET.replace("one", "two").replace("color: red", "color: red, ports: [{port: 1}, {port: 1}]"))?;
    ensure!(twice.contains("spec.ports[1]: Duplicate value: {\"port\":1}"), "{twice}");
    Ok(())
}

fn apply(k: &Kubectl) -> Result<()> {
    let with =
        |ports: &str| GADGET.replace("one", "applied").replace("color: red", &format!("color: red, ports: {ports}"));
    let by = |manager: &str, manifest: &str| {
        k.pipe(&["apply", "--server-side", &format!("--field-manager={manager}"), "-f", "-"], manifest)?.ok()
    };
    by("first", &with("[{port: 80, name: web}]"))?;
    by("second", &with("[{port: 443, name: tls}]"))?;
    let version =
        || k.ok(&["get", "gadget", "applied", "-o", "jsonpath={.metadata.resourceVersion} {.spec.ports[*].port}"]);
    let before = version()?;
    ensure!(before.ends_with(" 80 443"), "{before}");
    by("first", &with("[{port: 80, name: web}]"))?;
    assert_eq!(version()?, before, "an apply that changes nothing writes nothing");
    let refused = k
        .pipe(
            &["apply", "--server-side", "--field-manager=second", "-f", "-"],
            &with("[{port: 443, name: tls}, {port: 80, name: x}]"),
        )?
        .refused()?;
    ensure!(refused.contains(".spec.ports[port=80].name"), "{refused}");
    Ok(())
}

fn remove(k: &Kubectl) -> Result<()> {
    assert_eq!(
        k.ok(&["delete", "crd", "gadgets.example.com", "--timeout=30s"])?,
        "customresourcedefinition.apiextensions.k8s.io \"gadgets.example.com\" deleted\n"
    );
    wait::until("the resource is no longer served", LIMIT, || {
        let output = k.run(&["get", "--raw", "/apis/example.com/v1"]).map_err(|e| e.to_string())?;
        if output.code == 0 { Err(output.stdout) } else { Ok(()) }
    })?;
    // A definition of the same name begins with nothing.
    k.apply(DEFINITION)?;
    k.ok(&["wait", "--for=condition=Established", "crd/gadgets.example.com", "--timeout=10s"])?;
    assert_eq!(k.ok(&["get", "gadgets.example.com", "-o", "name"])?, "");
    Ok(())
}
