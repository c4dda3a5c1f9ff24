//! Templates from a Git repository: a bare one on this machine, and one over https, with the real git and a real web server.

use std::{
    io::Write as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};
use vctl_tests::{
    git_server::GitServer,
    kubectl::{Output, finish},
    platform::{Platform, Workers},
    wait,
};

/// Git in a work tree, with nobody's settings.
pub(crate) fn git(directory: &Path, arguments: &[&str]) -> Result<Output> {
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

pub(crate) fn write(work: &Path, name: &str, version: &str, data: &str) -> Result<()> {
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
pub(crate) fn push(work: &Path, message: &str) -> Result<String> {
    git(work, &["add", "-A"])?.ok()?;
    git(work, &["commit", "-q", "-m", message])?.ok()?;
    git(work, &["push", "-q", "--tags", "origin", "HEAD"])?.ok()?;
    Ok(git(work, &["rev-parse", "HEAD"])?.ok()?.trim().to_owned())
}

/// A bare repository and a work tree that pushes to it.
pub(crate) fn repository(directory: &Path) -> Result<(PathBuf, PathBuf)> {
    let (bare, work) = (directory.join("templates.git"), directory.join("work"));
    std::fs::create_dir(&work)?;
    git(directory, &["init", "-q", "--bare", "templates.git"])?.ok()?;
    git(&work, &["init", "-q"])?.ok()?;
    git(&work, &["remote", "add", "origin", &bare.display().to_string()])?.ok()?;
    Ok((bare, work))
}

#[test]
fn branches_and_tags_become_channels_and_versions_and_a_bad_one_changes_nothing() -> Result<()> {
    let directory = tempfile::Builder::new().prefix("vgit").tempdir_in("/tmp")?;
    let (bare, work) = repository(directory.path())?;
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

    // What was yanked stays so, and a repository that still has it is told so.
    platform.vctl(&["template", "yank", "app", "1.2.0", "--reason", "loses data"])?.ok()?;
    write(&work, "app", "1.2.0", "five")?;
    std::fs::write(work.join("CHANGES"), "a commit\n")?;
    git(&work, &["tag", "-d", "v9.0.0"])?.ok()?;
    push(&work, "the same version")?;
    let said = platform.vctl(&["template", "sync", "team"])?.refused()?;
    ensure!(said.contains("was yanked") && said.contains("loses data") && said.contains("--undo"), "{said}");
    let versions = platform.vctl(&["template", "list", "app"])?.ok()?;
    ensure!(versions.lines().any(|line| line.starts_with("1.2.0") && line.contains("(yanked)")), "{versions}");
    let said = platform.vctl(&["create", "last", "--template", "app@1.2.0"])?.refused()?;
    ensure!(said.contains("loses data"), "{said}");
    platform.vctl(&["template", "yank", "app", "1.2.0", "--undo"])?.ok()?;
    platform.vctl(&["template", "sync", "team"])?.ok()?;

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

/// Runs `vctl` with a text on its standard input.
fn with_input(platform: &Platform, arguments: &[&str], input: &str) -> Result<Output> {
    let mut command = platform.vctl_command(arguments)?;
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    child.stdin.take().context("standard input")?.write_all(input.as_bytes())?;
    let output = child.wait_with_output()?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let code = output.status.code().unwrap_or(-1);
    Ok(Output { code, stdout: text(&output.stdout), stderr: text(&output.stderr) })
}

/// A company's Git server: a certificate of its own authority, a user and a password, and a look every second.
#[test]
fn a_server_over_https_wants_a_password_and_its_authority() -> Result<()> {
    const PASSWORD: &str = "token-of-the-git-server-5t8r";
    let directory = tempfile::Builder::new().prefix("vgit").tempdir_in("/tmp")?;
    let (_, work) = repository(directory.path())?;
    write(&work, "app", "1.0.0", "one")?;
    push(&work, "one")?;
    let served = directory.path().join("server");
    std::fs::create_dir(&served)?;
    let server = GitServer::start(&served, directory.path(), "ci", PASSWORD)?;
    let authority = server.authority.display().to_string();
    let (open, private) = (server.open("templates.git"), server.private("templates.git"));
    // `vctl up --git`: the same program by another name, which says that it was that one.
    let (program, ran) = (directory.path().join("own-git"), directory.path().join("ran"));
    std::fs::write(&program, format!("#!/bin/sh\ntouch {}\nexec git \"$@\"\n", ran.display()))?;
    let mut chmod = Command::new("chmod");
    chmod.arg("+x").arg(&program);
    finish(chmod)?.ok()?;
    let program = program.display().to_string();
    let platform = Platform::start_configured(Workers::None, &["--git", &program], &[])?;

    let add = |url: &str, more: &[&str], input: &str| -> Result<()> {
        let arguments = [&["template", "source", "add", "team", "--url", url, "--branch", "main=beta"], more].concat();
        with_input(&platform, &arguments, input)?.ok().map(drop)
    };
    let fails = |why: &str| -> Result<()> {
        let said = platform.vctl(&["template", "sync", "team"])?;
        ensure!(said.code == 1 && said.stderr.contains(why), "{why}: {} {}", said.code, said.stderr);
        ensure!(!said.stderr.contains(PASSWORD) && !said.stderr.contains("vctl-git-"), "{}", said.stderr);
        Ok(())
    };
    add(&open, &[], "")?;
    fails("with --ca-file FILE")?;
    ensure!(ran.exists(), "another git ran");
    let wrong = ["template", "source", "add", "team", "--url", &open, "--branch", "main", "--ca-file", &program];
    let refused = platform.vctl(&wrong)?;
    ensure!(refused.code == 2 && refused.stderr.contains("no certificate"), "{}", refused.stderr);
    let trusted = ["--ca-file", &*authority];
    let signed_in = ["--ca-file", &*authority, "--user", "ci", "--password-stdin"];
    add(&private, &trusted, "")?;
    fails("the server wants a password: register the source again with --user")?;
    add(&private, &signed_in, "wrong\n")?;
    fails("does not take the user and the password")?;
    add(&private.replace("templates.git", "others.git"), &signed_in, &format!("{PASSWORD}\n"))?;
    fails("not found")?;
    ensure!(platform.vctl(&["template", "list", "app"])?.code == 3, "nothing was published yet");
    add(&open, &trusted, "")?;
    let synced = platform.vctl(&["template", "sync", "team"])?.ok()?;
    ensure!(synced.contains("app") && synced.contains("1.0.0"), "{synced}");

    // A look every second: what is pushed is there by itself.
    let every = [&signed_in[..], &["--every", "1s"]].concat();
    add(&private, &every, &format!("{PASSWORD}\n"))?;
    write(&work, "app", "1.1.0", "two")?;
    let commit = push(&work, "two")?;
    let there = |version: &str| {
        wait::until("it is published by itself", Duration::from_mins(1), || {
            let versions = platform.vctl(&["template", "list", "app"]).map_err(|e| format!("{e:#}"))?.stdout;
            if versions.contains(version) { Ok(versions) } else { Err(versions) }
        })
    };
    let versions = there("1.1.0")?;
    ensure!(versions.contains(&format!("team@{}", &commit[..12])), "{versions}");
    write(&work, "app", "1.2.0", "three")?;
    push(&work, "three")?;
    there("1.2.0")?;
    let listed = platform.vctl(&["template", "source", "list"])?.ok()?;
    ensure!(listed.contains("good") && listed.contains("1s"), "{listed}");

    // Nobody is shown the password, and nothing but the store has it.
    let shown = platform.vctl(&["template", "source", "list", "-o", "json"])?.ok()?;
    ensure!(shown.contains("\"hasPassword\": true") && !shown.contains(PASSWORD), "{shown}");
    let audit = platform.vctl(&["audit", "list", "-o", "json"])?.ok()?;
    ensure!(!audit.contains(PASSWORD) && !platform.log().contains(PASSWORD), "the password was written");
    Ok(())
}
