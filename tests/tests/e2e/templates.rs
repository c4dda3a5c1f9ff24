//! Templates with the real server: what they leave behind, and what they may take.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use vctl_tests::platform::{Platform, Workers};

const KUBECTL: &str = "1.35";

/// Writes a template; files are (place inside it, text).
fn template(platform: &Platform, name: &str, version: &str, more: &str, files: &[(&str, &str)]) -> Result<PathBuf> {
    let directory = platform.scratch().join("published").join(name);
    if directory.exists() {
        std::fs::remove_dir_all(&directory)?;
    }
    std::fs::create_dir_all(&directory)?;
    let head = format!("apiVersion: vctl.dev/v1\nkind: Template\nname: {name}\nversion: {version}\ntitle: T\n{more}");
    std::fs::write(directory.join("template.yaml"), head)?;
    for (file, text) in files {
        let path = directory.join(file);
        std::fs::create_dir_all(path.parent().unwrap_or(&directory))?;
        std::fs::write(path, text)?;
    }
    Ok(directory)
}

fn publish(platform: &Platform, directory: &Path) -> Result<String> {
    platform.vctl(&["template", "publish", &directory.display().to_string()])?.ok()
}

#[test]
fn what_a_template_has_no_more_is_removed_also_when_it_was_empty() -> Result<()> {
    let platform = Platform::start(Workers::Simulated)?;
    let one = |kind: &str, name: &str| format!("apiVersion: v1\nkind: {kind}\nmetadata: {{name: {name}}}\n---\n");
    let bare = [one("ConfigMap", "empty"), one("Namespace", "space"), one("ServiceAccount", "robot")].concat();
    let all = bare.clone() + &one("ConfigMap", "stays");
    publish(&platform, &template(&platform, "bare", "1.0.0", "", &[("manifests/all.yaml", &all)])?)?;
    platform.create("e", "bare", &[])?;
    let k = platform.kubectl(KUBECTL, "e")?;
    let shown = k.ok(&["get", "configmap", "empty", "-o", "jsonpath={.metadata.annotations.vctl\\.dev/template}"])?;
    ensure!(shown == "bare", "{shown}");
    // The same names, but another's.
    k.ok(&["create", "configmap", "mine"])?;
    let stays = one("ConfigMap", "stays");
    publish(&platform, &template(&platform, "bare", "1.1.0", "", &[("manifests/all.yaml", &stays)])?)?;
    platform.vctl(&["upgrade", "e"])?.ok()?;
    let left = k.ok(&["get", "configmaps,serviceaccounts,namespaces", "-o", "name"])?;
    for gone in ["configmap/empty", "serviceaccount/robot"] {
        ensure!(!left.contains(gone), "{gone}: {left}");
    }
    ensure!(left.contains("configmap/mine") && left.contains("configmap/stays"), "{left}");
    let space = k.run(&["get", "namespace", "space", "-o", "jsonpath={.status.phase}"])?;
    ensure!(space.code != 0 || space.stdout == "Terminating", "{}", space.stdout);
    Ok(())
}

/// Most memory that the server has had, in KiB.
fn peak(platform: &Platform) -> Result<u64> {
    let pid = platform.server_pid().context("no server")?;
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).context("no VmHWM")?;
    Ok(line.trim().trim_end_matches(" kB").parse()?)
}

#[test]
fn a_template_that_takes_too_much_is_refused_and_the_server_stays_small() -> Result<()> {
    let platform = Platform::start(Workers::Simulated)?;
    let small = peak(&platform)?;
    let object = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {a: x}\n";
    let names = (0..12).map(|i| format!("a{i}: &a{i} [{}]\n", format!("*a{}, ", i - 1).repeat(10)));
    let aliases = names.skip(1).collect::<String>();
    let kept = (0..18).map(|i| format!("{{% set a{i} = ns.s ~ {i} %}}"));
    let kept = kept.collect::<Vec<_>>().concat();
    let cases = [
        (
            "doubling",
            "{% set ns = namespace(s='x') %}{% for i in range(40) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}",
            "256 MiB of memory",
        ),
        (
            "captured",
            "{% set a %}{% for i in range(9000) %}{{ parameters.text }}{% endfor %}{% endset %}{% set b %}{% for i in range(90000) %}{{ a }}{% endfor %}{% endset %}",
            "256 MiB of memory",
        ),
        ("joined", "{% set l = range(90000)|list %}a: {{ l|join(parameters.text * 99999) }}", "256 MiB of memory"),
        ("endless", "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}", "endless loop"),
        (
            "kept",
            // 18 texts of 16 MiB.
            &format!(
                "{{% set ns = namespace(s='x') %}}{{% for i in range(24) %}}{{% set ns.s = ns.s ~ ns.s %}}{{% endfor %}}{kept}"
            ),
            "256 MiB of memory",
        ),
        ("large", "{% for i in range(99999) %}# {{ parameters.text }}\n{% endfor %}", "4194304 bytes"),
        ("deep", "a: {% for i in range(3000) %}[{% endfor %}", "recursion limit"),
        ("aliases", &format!("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n{aliases}"), "limit"),
    ];
    for (name, text, why) in cases {
        let more = "parameters:\n  - {name: text, type: string, default: 0123456789012345678901234567890123456789012345678901234567890123}\n";
        let directory =
            template(&platform, name, "1.0.0", more, &[("manifests/a.yaml", &format!("{object}{text}\n"))])?;
        let lint = platform.vctl(&["template", "lint", &directory.display().to_string()])?;
        ensure!(lint.code == 2 && lint.stdout.contains(why), "{name}: {}{}", lint.stdout, lint.stderr);
        publish(&platform, &directory)?;
        let refused = platform.vctl(&["create", "e", "--template", name])?.refused()?;
        ensure!(refused.contains(why) && refused.contains(name), "{name}: {refused}");
    }
    // What the compiler of templates would build is refused before.
    let literal = template(&platform, "literal", "1.0.0", "", &[("manifests/a.yaml", "a: {{ 'x' * 100000000 }}\n")])?;
    let refused = platform.vctl(&["template", "publish", &literal.display().to_string()])?.refused()?;
    ensure!(refused.contains("a.yaml:1:") && refused.contains("is not repeated"), "{refused}");
    let grown = peak(&platform)?.saturating_sub(small);
    ensure!(grown < 150 << 10, "the server grew by {grown} KiB");
    // A loop is fine.
    let loops =
        "{% for i in range(3) %}\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: {{ 'a' ~ i }}}\n{% endfor %}";
    publish(&platform, &template(&platform, "loops", "1.0.0", "", &[("manifests/a.yaml", loops)])?)?;
    platform.create("e", "loops", &[])?;
    let maps = platform.kubectl(KUBECTL, "e")?.ok(&["get", "configmaps", "-o", "name"])?;
    ensure!(maps.contains("configmap/a0") && maps.contains("configmap/a2"), "{maps}");
    Ok(())
}
