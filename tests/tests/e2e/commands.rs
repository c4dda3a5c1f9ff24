//! Commands that are in no other test, each as somebody types it: what they say, and the code they end with.

use std::{
    io::{Read as _, Write as _},
    net::TcpListener,
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};
use reqwest::{StatusCode, Url};
use vctl_tests::{
    background::Background,
    kubectl::{Kubectl, Output},
    platform::{Platform, Workers},
    wait,
};

use crate::{
    company::{Company, origin},
    sign_in::{Browser, api},
};

const LIMIT: Duration = Duration::from_mins(1);

/// A command must end with this code and say these things; all that it said.
fn says(output: Output, code: i32, parts: &[&str]) -> Result<String> {
    let said = output.stdout + &output.stderr;
    ensure!(output.code == code, "{} instead of {code}: {said}", output.code);
    for part in parts {
        ensure!(said.contains(part), "no {part:?} in: {said}");
    }
    Ok(said)
}

/// The first id that a list shows.
fn first(names: Output) -> Result<String> {
    Ok(names.ok()?.lines().next().context("one")?.to_owned())
}

/// Somebody signs in on a machine without a browser, works, is shared with, asks for a role, and leaves.
#[test]
fn people_their_logins_and_contexts() -> Result<()> {
    let company = Company::start(Workers::None, &[])?;
    let (platform, portal) = (&company.platform, company.portal.clone());
    let authority = company.authority.display().to_string();
    let vctl = |args: &[&str], code: i32, parts: &[&str]| says(platform.vctl(args)?, code, parts);
    let [one, other] = company.authorities();
    let mut browser = Browser::new(&[&one, &other])?;
    let callback = browser.up_to_callback(&portal.join("/auth/start?issuer=corp&next=/")?, "alice")?;
    ensure!(browser.get(&callback)?.status == StatusCode::OK, "alice signs in");

    // A code that is entered in a browser elsewhere.
    let server = origin(&portal);
    let login =
        platform.vctl_command(&["login", "--server", server, "--ca-file", &authority, "--device", "--name", "work"])?;
    let mut login = Background::start(login, "device", platform.scratch())?;
    let said = login.until_printed("or open https://", LIMIT)?;
    ensure!(said.contains("and enter the code"), "{said}");
    let address = wait::until("the whole address", LIMIT, || {
        let said = login.printed().map_err(|e| e.to_string())?;
        let line = said.split_inclusive('\n').find_map(|l| l.strip_prefix("or open ")).filter(|l| l.ends_with('\n'));
        line.map(|l| l.trim().to_owned()).ok_or(said)
    })?;
    browser.allow_device(&Url::parse(&address)?)?;
    let (code, said) = login.end(LIMIT)?;
    ensure!(code == 0 && said.contains("as alice@example.com; commands talk to it now (context work)"), "{said}");
    let alice = |args: &[&str], code: i32, parts: &[&str]| {
        says(platform.vctl(&[&["--context", "work"], args].concat())?, code, parts)
    };
    alice(&["whoami"], 0, &["alice@example.com"])?;
    let listed = vctl(&["context", "list"], 0, &["NAME", "SERVER", "alice@example.com"])?;
    ensure!(listed.lines().any(|l| l.starts_with('*') && l.contains("work")), "{listed}");
    vctl(&["context", "use", "nobody"], 2, &["there is no context \"nobody\" (there are: work)"])?;
    vctl(&["context", "use", "local"], 0, &["commands talk to local now"])?;
    let listed = vctl(&["context", "list"], 0, &["work"])?;
    ensure!(!listed.contains('*'), "{listed}");
    vctl(&["context", "use", "work"], 0, &["commands talk to work now"])?;

    // On another machine too, which is lost.
    let lost = portal.authority().to_owned();
    let (mut login, link) = company.begin_login()?;
    let loopback = browser.allow(&link)?;
    browser.get(&loopback)?;
    ensure!(login.end(LIMIT)?.0 == 0, "{:?}", login.printed());
    let listed = alice(&["login", "list"], 0, &["(this one)", "LAST USED"])?;
    ensure!(listed.lines().count() == 3, "{listed}");
    let id = listed.lines().skip(1).find(|l| !l.contains("(this one)")).and_then(|l| l.split_whitespace().next());
    let id = id.context("the other login")?;
    alice(&["login", "revoke", id], 0, &[&format!("login {id} counts no more")])?;
    says(platform.vctl(&["--context", &lost, "whoami"])?, 5, &["error: "])?;
    vctl(&["context", "remove", &lost], 0, &["is forgotten"])?;

    // What is shared with her she sees, and nothing else.
    platform.create("mine", "blank", &[])?;
    alice(&["get", "mine"], 3, &[])?;
    vctl(&["share", "mine", "alice@example.com", "--read-only"], 0, &["mine is shared with alice@example.com"])?;
    alice(&["get", "mine"], 0, &["mine", "Ready"])?;
    let may = alice(&["permissions", "--environment", "mine"], 0, &["environments.get"])?;
    ensure!(!may.contains("environments.delete"), "{may}");
    alice(&["delete", "mine"], 5, &[])?;
    vctl(
        &["share", "mine", "alice@example.com", "--remove"],
        0,
        &["mine is not shared with alice@example.com any more"],
    )?;
    alice(&["get", "mine"], 3, &[])?;
    vctl(&["share", "nothing", "alice@example.com"], 3, &["nothing"])?;

    // A role for a time: asked for, taken back, asked for again, given, taken away; and one in an emergency.
    vctl(&["project", "create", "web"], 0, &[])?;
    vctl(&["project", "add", "web", "--user", "alice@example.com", "--role", "maintainer"], 0, &[])?;
    alice(&["permissions", "--project", "web"], 0, &["approvals.create"])?;
    let ask = ["approval", "request", "--project", "web", "--role", "admin", "--for", "1h", "--reason", "ticket 1"];
    let asked = || -> Result<String> {
        let said = alice(&ask, 0, &["role admin in web waits for approval: request "])?;
        Ok(said.trim().rsplit(' ').next().unwrap_or_default().to_owned())
    };
    let id = asked()?;
    alice(&["approval", "withdraw", &id], 0, &["role admin in web is withdrawn"])?;
    alice(&["approval", "withdraw", &id], 4, &[])?;
    let id = asked()?;
    alice(&["approval", "approve", &id], 5, &[])?;
    vctl(&["approval", "approve", &id, "--for", "30m"], 0, &["role admin in web counts until "])?;
    alice(&["permissions", "--project", "web"], 0, &["projects.update"])?;
    vctl(&["approval", "revoke", &id, "--comment", "enough"], 0, &["role admin in web is revoked"])?;
    let may = alice(&["permissions", "--project", "web"], 0, &["approvals.create"])?;
    ensure!(!may.contains("projects.update"), "{may}");
    alice(&["break-glass", "--project", "web", "--reason", "the shop is down"], 0, &["role admin in project web"])?;
    let id = first(platform.vctl(&["approval", "list", "--unreviewed", "-o", "name"])?)?;
    alice(&["approval", "review", &id, "--comment", "it was me"], 5, &[])?;
    vctl(&["approval", "review", &id, "--comment", "looked at it"], 0, &["role admin in web"])?;
    ensure!(platform.vctl(&["approval", "list", "--unreviewed", "-o", "name"])?.ok()?.is_empty(), "it was looked at");
    alice(&["approval", "withdraw", &id], 0, &["role admin in web is ended"])?;

    // Away from this machine, and from the platform.
    vctl(&["user", "list"], 0, &["corp:alice", "alice@example.com"])?;
    alice(&["logout"], 0, &[&format!("signed out of {server}")])?;
    alice(&["whoami"], 5, &["you are not signed in"])?;
    vctl(&["context", "list"], 0, &["work", "signed out"])?;
    vctl(&["context", "remove", "work"], 0, &["context work is forgotten\n"])?;
    vctl(&["context", "remove", "work"], 2, &["there is no context \"work\" (there are none)"])?;
    ensure!(api(&mut browser, &portal, "/api/v1/identity")?.0 == StatusCode::OK, "the browser is still in");
    vctl(&["user", "delete", "corp:nobody"], 3, &[])?;
    vctl(&["user", "delete", "corp:alice"], 0, &["corp:alice is removed"])?;
    ensure!(api(&mut browser, &portal, "/api/v1/identity")?.0 == StatusCode::UNAUTHORIZED, "everything of her is gone");
    Ok(())
}

pub(crate) const GATED: &str = "apiVersion: vctl.dev/v1\nkind: Template\nname: gated\nversion: 1.0.0\ntitle: T\n";
/// Its pod is not scheduled before somebody takes the gate away.
pub(crate) const HELD: &str = "apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      schedulingGates: [{name: example.com/hold}]
      containers: [{name: web, image: registry.example/web:1}]
";

/// Takes it away.
pub(crate) fn release(k: &Kubectl) -> Result<()> {
    let pod = k.ok(&["get", "pods", "-o", "jsonpath={.items[0].metadata.name}"])?;
    let patch = r#"[{"op":"remove","path":"/spec/schedulingGates"}]"#;
    k.ok(&["patch", "pod", &pod, "--type=json", "-p", patch]).map(drop)
}

/// A receiver of webhooks on loopback: its address, and what it was sent.
fn receiver() -> Result<(String, std::sync::mpsc::Receiver<String>)> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let url = format!("http://{}/hook", listener.local_addr()?);
    let (send, received) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let (mut text, mut piece) = (String::new(), [0; 4096]);
            // A body follows its head at once or a moment later; it ends with the last brace.
            while !text.contains("\r\n\r\n") || !text.ends_with('}') {
                match stream.read(&mut piece) {
                    Ok(n) if n > 0 => text.push_str(&String::from_utf8_lossy(&piece[..n])),
                    _ => break,
                }
            }
            let _ = stream.write_all(b"HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n");
            if send.send(text).is_err() {
                return;
            }
        }
    });
    Ok((url, received))
}

/// What an administrator does in a day.
#[test]
fn jobs_webhooks_roles_and_resources() -> Result<()> {
    let platform = Platform::start_configured(Workers::Simulated, &["--allow-private-webhooks"], &[])?;
    let vctl = |args: &[&str], code: i32, parts: &[&str]| says(platform.vctl(args)?, code, parts);
    let gated = platform.scratch().join("gated");
    std::fs::create_dir_all(gated.join("manifests"))?;
    std::fs::write(gated.join("template.yaml"), GATED)?;
    std::fs::write(gated.join("manifests/all.yaml"), HELD)?;
    vctl(&["template", "publish", &gated.display().to_string()], 0, &["gated", "1.0.0"])?;

    // A job that waits is cancelled while somebody follows it, and resumed.
    vctl(&["create", "held", "--template", "gated", "--no-wait"], 0, &[])?;
    let job = first(platform.vctl(&["jobs", "list", "-e", "held", "-o", "name"])?)?;
    let follow = platform.vctl_command(&["jobs", "logs", "-f", &job])?;
    let mut follow = Background::start(follow, "follow", platform.scratch())?;
    follow.until_printed("web", LIMIT)?;
    ensure!(follow.runs()?, "it goes on");
    vctl(&["jobs", "cancel", &job], 0, &[&format!("job {job} is told to stop")])?;
    let (code, said) = follow.end(LIMIT)?;
    ensure!(code == 1 && said.contains("cancelled"), "{code}: {said}");
    vctl(&["jobs", "get", &job], 0, &["cancelled"])?;
    vctl(&["jobs", "cancel", &job], 4, &["has ended already"])?;
    vctl(&["jobs", "cancel", "nothing"], 3, &["nothing"])?;
    let k = platform.kubectl("1.33", "held")?;
    release(&k)?;
    vctl(&["jobs", "resume", &job], 0, &[&format!("has done what {job} was at")])?;
    vctl(&["get", "held"], 0, &["Ready"])?;
    vctl(&["jobs", "resume", &job], 4, &["not the last one"])?;
    vctl(&["jobs", "logs", &job], 0, &["web"])?;
    vctl(&["jobs", "list", "-e", "held"], 0, &["cancelled", "succeeded"])?;

    // Webhooks: the secret is shown once.
    let (url, received) = receiver()?;
    vctl(&["webhook", "list"], 0, &["NAME", "EVENTS"])?;
    vctl(&["webhook", "set", "chat", "--url", &url, "--event", "approval.*"], 0, &["it is shown once: whsec_"])?;
    let again =
        vctl(&["webhook", "set", "chat", "--url", &url, "--event", "environment.*"], 0, &["webhook chat is set"])?;
    ensure!(!again.contains("whsec_"), "{again}");
    vctl(&["webhook", "set", "bad", "--url", &url, "--event", "environment.explodes"], 2, &["environment.explodes"])?;
    vctl(&["webhook", "test", "chat"], 0, &["is on its way"])?;
    let body = received.recv_timeout(LIMIT)?;
    ensure!(body.contains("webhook-signature: v1,") && body.contains("webhook.test"), "{body}");
    wait::until("it has arrived", LIMIT, || {
        let listed = platform.vctl(&["webhook", "list"]).map_err(|e| e.to_string())?.stdout;
        if listed.contains("Delivered webhook.test") { Ok(()) } else { Err(listed) }
    })?;
    vctl(&["webhook", "delete", "chat"], 0, &["webhook chat is deleted"])?;
    vctl(&["webhook", "test", "chat"], 3, &["chat"])?;

    // Workers, roles, what one may do, what is used.
    vctl(&["workers"], 0, &["local", "simulated"])?;
    ensure!(platform.vctl(&["workers", "-o", "name"])?.ok()? == "local\n", "names only");
    vctl(&["role", "set", "reader", "--rule", "environments.get", "--title", "looks on"], 0, &["role reader is set"])?;
    vctl(&["role", "list"], 0, &["reader", "looks on", "environments.get", "maintainer"])?;
    vctl(&["role", "set", "reader", "--rule", "nonsense.get"], 2, &["nonsense.get"])?;
    vctl(&["role", "delete", "reader"], 0, &["role reader is deleted"])?;
    vctl(&["role", "delete", "reader"], 3, &[])?;
    vctl(&["permissions"], 0, &["environments.create", "platform.update"])?;
    vctl(&["permissions", "--project", "default"], 0, &["environments.create"])?;
    vctl(&["top"], 0, &[])?;
    vctl(&["top", "held"], 0, &[])?;
    vctl(&["top", "hold"], 3, &["did you mean held?"])?;

    // Resources.
    let add =
        ["resource", "add", "db-one", "--kind", "postgres", "--host", "127.0.0.1", "--port", "1", "--user", "app"];
    vctl(&add, 0, &["resource db-one is registered"])?;
    vctl(&["resource", "list"], 0, &["db-one", "127.0.0.1:1"])?;
    vctl(&["resource", "probe", "db-one"], 1, &["127.0.0.1"])?;
    vctl(&["resource", "remove", "db-one"], 0, &["resource db-one is removed"])?;
    vctl(&["resource", "remove", "db-one"], 3, &[])?;

    // The trail as a table.
    let table = vctl(&["audit", "export", "--format", "csv", "--action", "job.*"], 0, &["job.cancel", "job.resume"])?;
    ensure!(table.starts_with("key,at,actor,") && table.lines().count() == 3, "{table}");
    let file = platform.scratch().join("audit.csv").display().to_string();
    vctl(&["audit", "export", "--format", "csv", "-f", &file], 0, &[])?;
    ensure!(std::fs::read_to_string(&file)?.contains("resource.remove"), "the file has everything");
    Ok(())
}
