//! Environments of every minor version of Kubernetes, each with the kubectl of that version.

use anyhow::{Result, ensure};
use vctl_tests::platform::{Platform, Workers};

const POD: &str = "
apiVersion: v1
kind: Pod
metadata: {name: p}
spec:
  hostnameOverride: other
  containers: [{name: c, image: i}]
";

#[test]
fn every_version_is_what_its_kubectl_expects() -> Result<()> {
    let platform = Platform::start(Workers::Simulated)?;
    for minor in 33..=37 {
        let (version, name) = (format!("1.{minor}"), format!("v1-{minor}"));
        platform.vctl(&["create", &name, "--template", "blank", "--kubernetes-version", &version])?.ok()?;
        let shown = platform.vctl(&["get", &name])?.ok()?;
        ensure!(shown.contains(&format!("v1.{minor}.0")), "{shown}");
        let k = platform.kubectl(&version, &name)?;
        let said = k.ok(&["version", "-o", "json"])?;
        let said: serde_json::Value = serde_json::from_str(&said)?;
        ensure!(said["serverVersion"]["gitVersion"] == format!("v1.{minor}.0"), "{said}");
        ensure!(said["clientVersion"]["minor"].as_str() == Some(&*format!("{minor}")), "{said}");

        let resources = k.ok(&["api-resources", "-o", "name"])?;
        for (resource, first) in [
            ("deployments.apps", 33),
            ("resourceclaims.resource.k8s.io", 34),
            ("volumeattributesclasses.storage.k8s.io", 34),
            ("mutatingadmissionpolicies.admissionregistration.k8s.io", 36),
            ("podcertificaterequests.certificates.k8s.io", 37),
            ("devicetaintrules.resource.k8s.io", 37),
        ] {
            ensure!(
                resources.lines().any(|l| l == resource) == (minor >= first),
                "{resource} in {version}: {resources}"
            );
        }
        let created = k.pipe(&["create", "-f", "-"], POD)?;
        if minor >= 34 {
            created.ok()?;
            k.ok(&["explain", "pod.spec.hostnameOverride"])?;
        } else {
            let why = created.refused()?;
            ensure!(why.contains(r#"strict decoding error: unknown field "spec.hostnameOverride""#), "{why}");
            let why = k.run(&["explain", "pod.spec.hostnameOverride"])?.refused()?;
            ensure!(why.contains("does not exist"), "{why}");
            k.pipe(&["create", "--validate=ignore", "-f", "-"], POD)?.ok()?;
            ensure!(k.ok(&["get", "pod", "p", "-o", "jsonpath={.spec.hostnameOverride}"])?.is_empty());
        }
    }
    let refused =
        platform.vctl(&["create", "older", "--template", "blank", "--kubernetes-version", "1.32"])?.refused()?;
    ensure!(refused.contains("take one of 1.33, 1.34, 1.35, 1.36, 1.37"), "{refused}");
    Ok(())
}

/// A template says which version its environments are, and who asks may say another.
#[test]
fn a_template_chooses_the_version() -> Result<()> {
    let template = "apiVersion: vctl.dev/v1\nkind: Template\nname: older\nversion: 1.0.0\ntitle: Older\nkubernetesVersion: '1.34'\n";
    let platform = Platform::start_with(Workers::None, &[("older", template, "")])?;
    platform.vctl(&["create", "a", "--template", "older"])?.ok()?;
    platform.vctl(&["create", "b", "--template", "older", "--kubernetes-version", "1.37"])?.ok()?;
    for (name, version) in [("a", "v1.34.0"), ("b", "v1.37.0")] {
        let shown = platform.vctl(&["get", name, "-o", "json"])?.ok()?;
        let shown: serde_json::Value = serde_json::from_str(&shown)?;
        ensure!(shown["kubernetesVersion"] == version, "{shown}");
    }
    Ok(())
}
