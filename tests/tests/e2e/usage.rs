//! What pods use, as people see it: `kubectl top` of several versions, through `vctl up` with a simulated worker.

use std::time::Duration;

use anyhow::Result;
use vctl_tests::{
    kubectl::Kubectl,
    platform::{Platform, Workers},
    text::normal,
    wait,
};

const LIMIT: Duration = Duration::from_secs(60);

const WEB: &str = r#"
apiVersion: v1
kind: Pod
metadata:
  name: web
  labels: {app: web}
  annotations: {vctl.dev/sim-cpu: 250m, vctl.dev/sim-memory: 64Mi}
spec:
  containers:
  - {name: c, image: "registry.example/web:1"}
  - {name: d, image: "registry.example/web:1"}
"#;

#[test]
fn top() -> Result<()> {
    let platform = Platform::start(Workers::Simulated)?;
    platform.create("dev", "blank", &[])?;
    let k = platform.kubectl("1.33", "dev")?;
    k.apply(WEB)?;
    k.ok(&["wait", "--for=condition=Ready", "pod/web", "--timeout=40s"])?;
    for minor in ["1.28", "1.31", "1.33", "1.37"] {
        shown(&platform.kubectl(minor, "dev")?)?;
    }
    assert_eq!(normal(&k.ok(&["get", "pods.metrics.k8s.io"])?), "NAME  CPU  MEMORY  WINDOW\nweb  500m  128Mi  <age>\n");
    Ok(())
}

fn shown(k: &Kubectl) -> Result<()> {
    wait::until("the pod has been measured", LIMIT, || k.ok(&["top", "pod", "web"]).map_err(|e| format!("{e:#}")))?;
    assert_eq!(normal(&k.ok(&["top", "pod", "-l", "app=web"])?), "NAME  CPU(cores)  MEMORY(bytes)\nweb  500m  128Mi\n");
    assert_eq!(
        normal(&k.ok(&["top", "pod", "web", "--containers"])?),
        "POD  NAME  CPU(cores)  MEMORY(bytes)\nweb  c  250m  64Mi\nweb  d  250m  64Mi\n"
    );
    // Of 4096 cores and 64 TiB.
    let nodes = normal(&k.ok(&["top", "node"])?);
    assert!(nodes.contains("\nlocal  500m  0%  128Mi  0%\n"), "{nodes}");
    Ok(())
}
