//! Templates from a Git repository: a bare one on this machine, with the real git.

use std::{path::Path, process::Command};

use anyhow::{Result, ensure};
use vctl_tests::{
    kubectl::{Output, finish},
    platform::{Platform, Workers},
};

/// Git in a work tree, with nobody's settings.
fn git(directory: &Path, arguments: &[&str]) -> Result<Output> {
    let mut git = Command::new("git");
    git.current_dir(directory).args([
        "-c",
        "user.name=t",
        "-c",
        "user.email=t@example.com",
        "-c",
        "init.defaultBranch=main",
    ]);
    git.args(["-c", "protocol.file.allow=always", "-c", "commit.gpgsign=false"]).args(arguments);
    git.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1");
    finish(git)
}

fn write(work: &Path, name: &str, version: &str, data: &str) -> Result<()> {
    let manifests = work.join("templates").join(name).join("manifests");
    std::fs::create_dir_all(&manifests)?;
    let head = format!("apiVersion: vctl.dev/v1\nkind: Template\nname: {name}\nversion: {version}\ntitle: T\n");
    std::fs::write(manifests.with_file_name("template.yaml"), head)?;
    std::fs::write(manifests.with_file_name("README.md"), "Not of the template.\n")?;
    let map = format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}}}\ndata: {{a: {data}}}\n");
    std::fs::write(manifests.join("all.yaml"), map)?;
    Ok(())
}

/// Commits everything and pushes it; its commit.
fn push(work: &Path, message: &str) -> Result<String> {
    git(work, &["add", "-A"])?.ok()?;
    git(work, &["commit", "-q", "-m", message])?.ok()?;
    git(work, &["push", "-q", "--tags", "origin", "HEAD"])?.ok()?;
    Ok(git(work, &["rev-parse", "HEAD"])?.ok()?.trim().to_owned())
}

#[test]
fn branches_and_tags_become_channels_and_versions_and_a_bad_one_changes_nothing() -> Result<()> {
    let directory = tempfile::Builder::new().prefix("vgit").tempdir_in("/tmp")?;
    let (bare, work) = (directory.path().join("templates.git"), directory.path().join("work"));
    std::fs::create_dir(&work)?;
    git(directory.path(), &["init", "-q", "--bare", "templates.git"])?.ok()?;
    git(&work, &["init", "-q"])?.ok()?;
    git(&work, &["remote", "add", "origin", &bare.display().to_string()])?.ok()?;
    // Who fetches from it runs no hooks of it.
    let ran = directory.path().join("ran");
    for hook in ["post-checkout", "post-merge", "pre-auto-gc", "post-index-change"] {
        let path = bare.join("hooks").join(hook);
        std::fs::create_dir_all(bare.join("hooks"))?;
        std::fs::write(&path, format!("#!/bin/sh\ntouch {}\n", ran.display()))?;
        finish({
            let mut chmod = Command::new("chmod");
            chmod.arg("+x").arg(&path);
            chmod
        })?
        .ok()?;
    }
    git(&bare, &["config", "uploadpack.packObjectsHook", &format!("touch {};", ran.display())])?.ok()?;
    write(&work, "app", "1.0.0", "one")?;
    git(&work, &["add", "-A"])?.ok()?;
    git(&work, &["commit", "-q", "-m", "one"])?.ok()?;
    git(&work, &["tag", "-a", "v1.0.0", "-m", "one"])?.ok()?;
    write(&work, "app", "1.1.0-rc.1", "two")?;
    let second = push(&work, "two")?;

    let platform = Platform::start(Workers::Simulated)?;
    let url = format!("file://{}", bare.display());
    let add = [
        "template",
        "source",
        "add",
        "team",
        "--url",
        &url,
        "--branch",
        "main=beta",
        "--tags",
        "v*",
        "--path",
        "templates",
    ];
    platform.vctl(&add)?.ok()?;
    let synced = platform.vctl(&["template", "sync", "team"])?.ok()?;
    ensure!(
        synced.contains("heads/main") && synced.contains("1.1.0-rc.1") && synced.contains(&second[..12]),
        "{synced}"
    );
    ensure!(!ran.exists(), "a hook ran");
    let versions = platform.vctl(&["template", "list", "app"])?.ok()?;
    ensure!(versions.contains("1.0.0") && versions.contains("stable") && versions.contains("beta"), "{versions}");
    ensure!(versions.contains(&format!("team@{}", &second[..12])), "the commit is recorded: {versions}");
    platform.create("e", "app", &[])?;
    let k = platform.kubectl("1.35", "e")?;
    ensure!(k.ok(&["get", "configmap", "app", "-o", "jsonpath={.data.a}"])? == "one");
    platform.vctl(&["upgrade", "e", "--to", "beta"])?.ok()?;
    ensure!(k.ok(&["get", "configmap", "app", "-o", "jsonpath={.data.a}"])? == "two");

    // Each of these is refused with its reason; the last good version stays.
    let manifest = work.join("templates/app/manifests/all.yaml");
    let refused = |why: &str| -> Result<()> {
        push(&work, why)?;
        let said = platform.vctl(&["template", "sync", "team"])?.refused()?;
        ensure!(said.contains("refs/heads/main") && said.contains(why), "{why}: {said}");
        let listed = platform.vctl(&["template", "source", "list"])?.ok()?;
        ensure!(listed.contains("1 problem"), "{listed}");
        platform.vctl(&["create", "other", "--template", "app@beta"])?.ok()?;
        platform.vctl(&["delete", "other", "--wait"])?.ok().map(drop)
    };
    std::fs::write(&manifest, "a: {{ oh ?? }}\n")?;
    refused("all.yaml:1:")?;
    write(&work, "app", "1.0.0", "three")?;
    refused("published with other files")?;
    write(&work, "app", "1.2.0", "four")?;
    std::fs::remove_file(&manifest)?;
    std::os::unix::fs::symlink("/etc/passwd", &manifest)?;
    refused("is a symbolic link")?;
    std::fs::remove_dir_all(work.join("templates/app/manifests"))?;
    std::os::unix::fs::symlink("../../..", work.join("templates/app/manifests"))?;
    refused("is a symbolic link")?;
    // Git adds no submodule where its index has something.
    git(&work, &["rm", "-q", "-f", "templates/app/manifests"])?.ok()?;
    git(&work, &["submodule", "--quiet", "add", &bare.display().to_string(), "templates/app/manifests"])?.ok()?;
    refused("is a submodule")?;
    git(&work, &["rm", "-q", "-f", "templates/app/manifests"])?.ok()?;
    write(&work, "app", "1.2.0", "five")?;
    git(&work, &["tag", "v9.0.0"])?.ok()?;
    let good = push(&work, "good again")?;
    let said = platform.vctl(&["template", "sync"])?.refused()?;
    ensure!(
        said.contains("refs/tags/v9.0.0") && !said.contains("refs/heads/main"),
        "the tag's commit is an older one: {said}"
    );
    git(&work, &["push", "-q", "origin", ":refs/tags/v9.0.0"])?.ok()?;
    let synced = platform.vctl(&["template", "sync"])?.ok()?;
    ensure!(synced.contains("1.2.0") && synced.contains(&good[..12]), "{synced}");
    ensure!(!ran.exists(), "a hook ran");
    let audit = platform.vctl(&["audit", "list"])?.ok()?;
    ensure!(audit.contains("template-source.sync"), "{audit}");

    // Another repository does not decide what environments of this template are made of, nor of the server's own.
    let other = directory.path().join("other");
    for (name, holder) in
        [("app", "template source \"team\" has published it"), ("blank", "the server has a template of that name")]
    {
        std::fs::remove_dir_all(&other).or_else(|e| if other.exists() { Err(e) } else { Ok(()) })?;
        std::fs::create_dir(&other)?;
        git(&other, &["init", "-q"])?.ok()?;
        write(&other, name, "99.0.0", "theirs")?;
        git(&other, &["add", "-A"])?.ok()?;
        git(&other, &["commit", "-q", "-m", "theirs"])?.ok()?;
        let url = format!("file://{}", other.display());
        let add = ["template", "source", "add", "other", "--url", &url, "--branch", "main"];
        platform.vctl(&add)?.ok()?;
        let said = platform.vctl(&["template", "sync", "other"])?.refused()?;
        ensure!(said.contains(holder) && said.contains("--take-over"), "{said}");
        let versions = platform.vctl(&["template", "list", name])?.ok()?;
        ensure!(!versions.contains("99.0.0"), "{versions}");
        platform.vctl(&[&add[..], &["--take-over", name]].concat())?.ok()?;
        let said = platform.vctl(&["template", "sync", "other"])?.ok()?;
        ensure!(said.contains("99.0.0"), "{said}");
    }
    platform.vctl(&["template", "source", "remove", "team"])?.ok()?;
    platform.vctl(&["create", "last", "--template", "app@1.2.0"])?.ok()?;
    Ok(())
}

#[test]
fn what_cannot_be_a_repository_is_refused_or_says_why() -> Result<()> {
    let platform = Platform::start(Workers::Simulated)?;
    for (url, why) in [
        ("ext::sh -c id", "is no address"),
        ("http://127.0.0.1/a", "is no address"),
        ("https://user:secret@127.0.0.1/a", "without user and password"),
        ("ssh://127.0.0.1/a", "is no address"),
    ] {
        let refused =
            platform.vctl(&["template", "source", "add", "a", "--url", url, "--branch", "main"])?.refused()?;
        ensure!(refused.contains(why), "{url}: {refused}");
    }
    platform
        .vctl(&["template", "source", "add", "a", "--url", "file:///nowhere", "--branch", "main", "--every", "1s"])?
        .ok()?;
    let said = platform.vctl(&["template", "sync", "a"])?.refused()?;
    ensure!(said.contains("git ls-remote") && said.contains("/nowhere"), "{said}");
    Ok(())
}
