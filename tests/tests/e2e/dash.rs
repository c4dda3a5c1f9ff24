//! `vctl dash` in a real terminal. What each screen looks like in detail is in `tui/tests/snapshots`.

use std::{path::Path, time::Duration};

use anyhow::{Result, ensure};
use vctl_tests::{
    platform::{Platform, Workers, vctl_binary},
    tmux::Tmux,
    wait,
};

use crate::commands::{GATED, HELD, release};

/// A row of the screen that begins with a name and has all these words.
fn row(screen: &str, name: &str, words: &[&str]) -> bool {
    screen.lines().any(|line| {
        let cells: Vec<&str> = line.split_whitespace().collect();
        cells.first() == Some(&name) && words.iter().all(|word| cells.contains(word))
    })
}

#[test]
fn everything_is_live_and_the_terminal_is_given_back() -> Result<()> {
    let platform = Platform::start(Workers::Simulated)?;
    platform.create("alpha", "team-x", &[])?;
    let data = platform.data_dir().display().to_string();
    let home = platform.scratch().display().to_string();
    let tmux = Tmux::start(platform.scratch(), &[("VCTL_DATA_DIR", &data), ("HOME", &home)])?;
    // What stood there before must be back in the end; `stty` says how the terminal is set.
    tmux.line("stty -g > ~/before; clear; echo was here")?;
    tmux.until("the shell", |s| s.starts_with("was here"))?;
    assert_eq!(tmux.variable("#{alternate_on} #{cursor_flag}")?, "0 1");
    tmux.line(&format!("{} dash", vctl_binary()?.display()))?;

    // Environments: the one that is there, and one that comes while it is looked at.
    let screen = tmux.until("the environment", |s| row(s, "alpha", &["Ready", "2/2", "team-x"]))?;
    ensure!(screen.contains(&format!("https://{}", platform.address())), "{screen}");
    ensure!(!screen.contains("was here"), "{screen}");
    assert_eq!(tmux.variable("#{alternate_on}")?, "1");
    platform.create("beta", "blank", &[])?;
    tmux.until("the new environment", |s| row(s, "beta", &["Ready", "blank"]) && s.contains("environments (2)"))?;

    // Pods of the environment under the cursor, which follow what happens.
    tmux.keys(&["g", "Enter"])?;
    tmux.until("the pods", |s| s.contains("redis-") && s.contains("web-") && s.contains("Running"))?;
    let k = platform.kubectl("1.33", "alpha")?;
    k.ok(&["run", "extra", "--image=registry.example/extra:1"])?;
    let has = |s: &str| s.lines().any(|l| l.contains("extra") && l.contains("1/1") && l.contains("Running"));
    tmux.until("the new pod", has)?;
    k.ok(&["delete", "pod", "extra", "--now"])?;
    tmux.until("the pod is gone", |s| !s.contains("extra") && s.contains("web-"))?;
    // A filter: what does not match is not shown, until escape.
    tmux.keys(&["/", "r", "e", "d", "i", "s", "Enter"])?;
    tmux.until("the filtered pods", |s| s.contains("redis-") && !s.contains("web-"))?;
    tmux.keys(&["Escape"])?;
    tmux.until("all pods", |s| s.contains("redis-") && s.contains("web-"))?;

    // Workers, jobs, events and the audit trail by their numbers; other environments and any kind by the palette.
    tmux.keys(&["3"])?;
    tmux.until("the workers", |s| row(s, "local", &["simulated"]))?;
    tmux.keys(&["4"])?;
    tmux.until("the jobs", |s| row(s, "beta", &["create", "succeeded"]))?;
    tmux.keys(&["6"])?;
    tmux.until("the audit trail", |s| s.contains("environment.create") && s.contains("beta"))?;
    tmux.keys(&["5"])?;
    tmux.until("the events", |s| s.contains("SuccessfulCreate") && s.contains("Scheduled"))?;
    k.ok(&["scale", "deployment", "web", "--replicas=3"])?;
    let scaled = |s: &str| s.lines().filter(|l| l.contains("ScalingReplicaSet") && l.contains("/web")).count();
    tmux.until("the new event", |s| scaled(s) == 2)?;
    tmux.line(":deploy")?;
    tmux.until("the deployments", |s| s.contains("deployments of alpha") && row(s, "default", &["web", "3/3"]))?;
    tmux.keys(&["/", "w", "e", "b", "Enter", "d"])?;
    tmux.until("its description", |s| s.contains("Replicas: 3") && s.contains("Kind:          Deployment"))?;
    tmux.keys(&["q"])?;
    tmux.line(":pods beta")?;
    tmux.until("the pods of the other environment", |s| s.contains("pods of beta") && !s.contains("redis-"))?;
    tmux.keys(&["?"])?;
    tmux.until("the help", |s| s.contains(" help ") && s.contains("previous row"))?;
    // Escape and a key at once would be a key with alt.
    tmux.keys(&["q", "1"])?;
    tmux.until("the environments", |s| row(s, "alpha", &[]) && row(s, "beta", &[]))?;
    tmux.resize(60, 12)?;
    tmux.until("fewer rows", |s| s.lines().count() <= 12 && row(s, "beta", &["Ready"]))?;
    tmux.resize(80, 24)?;
    tmux.until("80 columns", |s| row(s, "beta", &["Ready"]) && s.contains("q quit"))?;
    // Nothing is deleted before its name is typed.
    tmux.keys(&["G", "C-d"])?;
    tmux.until("the question", |s| s.contains("delete environment beta and everything in it? type its name"))?;
    tmux.line("bet")?;
    tmux.until("it stays", |s| s.contains("beta stays"))?;
    tmux.keys(&["C-d"])?;
    tmux.line("beta")?;
    tmux.until("one is gone", |s| s.contains("environments (1)") && !row(s, "beta", &[]))?;
    tmux.resize(120, 30)?;

    // q leaves; the terminal is as it was: screen, cursor and settings.
    tmux.keys(&["q"])?;
    tmux.until("the shell is back", |s| s.starts_with("was here") && s.contains(" dash\n$"))?;
    assert_eq!(tmux.variable("#{alternate_on} #{cursor_flag}")?, "0 1");
    tmux.line("stty -g | diff - ~/before; echo it differs: $?")?;
    tmux.until("the same settings", |s| s.contains("\nit differs: 0\n")).map(drop)
}

/// The server is killed and started again: the dashboard says so, keeps what it knows, and goes on by itself.
#[test]
fn it_reconnects_by_itself() -> Result<()> {
    let mut platform = Platform::start(Workers::Simulated)?;
    platform.create("alpha", "team-x", &[])?;
    let data = platform.data_dir().display().to_string();
    let home = platform.scratch().display().to_string();
    // A terminal without UTF-8, and without colours.
    let variables = [("VCTL_DATA_DIR", &*data), ("HOME", &home), ("LC_ALL", "C"), ("NO_COLOR", "1")];
    let tmux = Tmux::start(platform.scratch(), &variables)?;
    tmux.line(&format!("{} dash --no-mouse", vctl_binary()?.display()))?;
    tmux.until("the environment", |s| row(s, "alpha", &["Ready", "2/2"]))?;
    tmux.keys(&["2"])?;
    let screen = tmux.until("the pods", |s| s.contains("redis-") && s.contains("web-"))?;
    ensure!(screen.is_ascii(), "{screen}");
    platform.kill_server()?;
    let screen = tmux.until("the trouble", |s| s.contains("! the ") && s.contains("server"))?;
    ensure!(screen.contains("redis-"), "what is known stays:\n{screen}");
    tmux.keys(&["1"])?;
    tmux.until("keys are heard meanwhile", |s| row(s, "alpha", &["Ready"]))?;
    tmux.keys(&["2"])?;
    platform.start_server()?;
    tmux.until("it is over", |s| !s.contains("! the ") && s.contains("redis-"))?;
    let k = platform.kubectl("1.33", "alpha")?;
    k.ok(&["run", "after", "--image=registry.example/extra:1"])?;
    tmux.until("what is new", |s| s.lines().any(|l| l.contains("after") && l.contains("Running")))?;
    tmux.keys(&["q"])?;
    tmux.until("the shell is back", |s| s.contains(" dash --no-mouse\n$"))?;
    Ok(())
}

/// An object is changed in an editor: the server's dry run is shown, a change of somebody else is never overwritten, and with
/// `--readonly` nothing can be changed.
#[test]
fn changes_are_reviewed() -> Result<()> {
    let platform = Platform::start(Workers::Simulated)?;
    platform.create("alpha", "blank", &[])?;
    let k = platform.kubectl("1.33", "alpha")?;
    k.ok(&["create", "configmap", "settings", "--from-literal=colour=red", "--from-literal=size=1"])?;
    let data = platform.data_dir().display().to_string();
    let home = platform.scratch().display().to_string();
    let editor = "sed -i s/red/blue/";
    let tmux = Tmux::start(platform.scratch(), &[("VCTL_DATA_DIR", &data), ("HOME", &home), ("EDITOR", editor)])?;
    let vctl = vctl_binary()?.display().to_string();
    tmux.line(&format!("{vctl} dash"))?;
    tmux.until("the environment", |s| row(s, "alpha", &["Ready"]))?;
    tmux.keys(&["2"])?;
    tmux.until("no pods", |s| s.contains("no pods"))?;
    tmux.line(":cm")?;
    tmux.until("the object", |s| row(s, "default", &["settings", "2"]))?;
    tmux.keys(&["/", "s", "e", "t", "t", "Enter", "e"])?;
    let dry = |s: &str| s.contains("(dry run)") && s.contains("-  colour: red") && s.contains("+  colour: blue");
    tmux.until("what would come of it", dry)?;
    let colour = || k.ok(&["get", "configmap", "settings", "-o", "jsonpath={.data.colour}{.data.size}"]);
    ensure!(colour()? == "red1", "nothing has been changed yet");
    // Somebody else changes another field before it is applied.
    k.ok(&["patch", "configmap", "settings", "-p", r#"{"data":{"size":"2"}}"#])?;
    tmux.keys(&["Enter"])?;
    let both = |s: &str| {
        s.contains("Somebody else has changed it") && s.contains("+  size: '2'") && s.contains("+  colour: blue")
    };
    tmux.until("both changes", both)?;
    ensure!(colour()? == "red2", "theirs is not overwritten");
    tmux.keys(&["Enter"])?;
    tmux.until("it is applied", |s| s.contains("configmaps settings is changed"))?;
    ensure!(colour()? == "blue2", "both count");
    tmux.keys(&["q"])?;
    tmux.until("the shell is back", |s| s.contains(" dash\n$"))?;

    tmux.line(&format!("clear; {vctl} dash --readonly"))?;
    tmux.until("read-only", |s| s.contains("read-only") && row(s, "alpha", &["Ready"]))?;
    tmux.keys(&["C-d"])?;
    tmux.until("it is refused", |s| s.contains("--readonly: nothing can be changed"))?;
    tmux.keys(&["q"])?;
    Ok(())
}

/// A job's log grows while it is looked at; jobs are cancelled and resumed; the theme changes.
#[test]
fn jobs_are_followed_cancelled_and_resumed() -> Result<()> {
    let platform = Platform::start_with(Workers::Simulated, &[("gated", GATED, HELD)])?;
    let begin = |name: &str| platform.vctl(&["create", name, "--template", "gated", "--no-wait"])?.ok().map(drop);
    begin("one")?;
    let data = platform.data_dir().display().to_string();
    let home = platform.scratch().display().to_string();
    let tmux = Tmux::start(platform.scratch(), &[("VCTL_DATA_DIR", &data), ("HOME", &home)])?;
    let vctl = vctl_binary()?.display().to_string();
    tmux.line(&format!("{vctl} dash"))?;
    tmux.until("the environment", |s| row(s, "one", &["gated"]))?;
    tmux.keys(&["4"])?;
    tmux.until("the job", |s| row(s, "one", &["create", "running"]))?;

    // Its log, which goes on by itself until the job ends.
    tmux.keys(&["Enter"])?;
    let waits = |s: &str| s.contains("log of job") && s.contains("deployment web 0/1 ready");
    tmux.until("what it waits for", waits)?;
    let first = platform.vctl(&["jobs", "list", "-e", "one", "-o", "name"])?.ok()?.trim().to_owned();
    platform.vctl(&["jobs", "cancel", &first])?.ok()?;
    tmux.until("its end", |s| s.contains("log of job") && s.contains("cancelled"))?;
    tmux.keys(&["q"])?;
    tmux.until("the job is over", |s| row(s, "one", &["create", "cancelled"]))?;

    // It is done again, and is done once its pod can run.
    tmux.keys(&["r"])?;
    tmux.until("another job", |s| row(s, "one", &["create", "running"]) && s.contains("jobs (2)"))?;
    release(&platform.kubectl("1.33", "one")?)?;
    tmux.until("it is done", |s| row(s, "one", &["create", "succeeded"]))?;

    // A job goes on until its whole id is typed.
    begin("two")?;
    tmux.keys(&["/", "t", "w", "o", "Enter"])?;
    tmux.until("the other job", |s| row(s, "two", &["create", "running"]) && !s.contains("succeeded"))?;
    let id = platform.vctl(&["jobs", "list", "-e", "two", "-o", "name"])?.ok()?.trim().to_owned();
    tmux.keys(&["C-x"])?;
    tmux.until("the question", |s| s.contains(&format!("cancel job {id}? type its id: ")))?;
    tmux.line("two")?;
    tmux.until("it goes on", |s| s.contains("goes on: its id was not typed") && row(s, "two", &["running"]))?;
    tmux.keys(&["C-x"])?;
    tmux.line(&id)?;
    tmux.until("it is cancelled", |s| row(s, "two", &["create", "cancelled"]))?;

    // The next theme, and one by name.
    let before = tmux.coloured()?;
    tmux.keys(&["T"])?;
    tmux.until("the next theme", |s| s.contains("theme dark"))?;
    ensure!(tmux.coloured()? != before, "other colours");
    tmux.line(":theme mono")?;
    wait::until("no colours", Duration::from_secs(20), || {
        let screen = tmux.coloured().map_err(|e| e.to_string())?;
        let coloured = (0..=8).any(|colour| screen.contains(&format!("\u{1b}[3{colour}")));
        if coloured { Err(format!("{screen:?}")) } else { Ok(()) }
    })?;
    tmux.keys(&["q"])?;
    tmux.until("the shell is back", |s| s.contains(" dash\n$"))?;

    tmux.line(&format!("clear; {vctl} dash --readonly"))?;
    tmux.until("read-only", |s| s.contains("read-only") && row(s, "one", &["Ready"]))?;
    tmux.keys(&["4"])?;
    tmux.until("the jobs", |s| row(s, "two", &["cancelled"]))?;
    for key in ["r", "C-x"] {
        tmux.keys(&[key])?;
        tmux.until("it is refused", |s| s.contains("--readonly: nothing can be changed"))?;
    }
    tmux.keys(&["q"])?;
    Ok(())
}

/// Logs of a real container, before and after a restart, and a shell in it, which gets the terminal and gives it back.
#[test]
fn podman_logs_and_shell_in_the_dashboard() -> Result<()> {
    let platform = super::containers_podman::platform()?;
    platform.create("dev", "blank", &[])?;
    let k = platform.kubectl("1.33", "dev")?;
    let script = "n=$(cat /data/n 2>/dev/null || echo 0); n=$((n+1)); echo $n > /data/n; echo run $n begins; \
                  i=0; while [ ! -e /data/end$n ]; do i=$((i+1)); echo line $i of run $n; sleep 1; done; exit 1";
    let mut pod: serde_json::Value = serde_json::from_str(&super::containers_podman::pod("talker", script))?;
    pod["spec"]["volumes"] = serde_json::json!([{"name": "data", "emptyDir": {}}]);
    pod["spec"]["containers"][0]["volumeMounts"] = serde_json::json!([{"name": "data", "mountPath": "/data"}]);
    k.apply(&pod.to_string())?;
    super::containers_podman::ready(&k, "talker")?;
    let data = platform.data_dir().display().to_string();
    let home = platform.scratch().display().to_string();
    let tmux = Tmux::start(platform.scratch(), &[("VCTL_DATA_DIR", &data), ("HOME", &home)])?;
    tmux.line(&format!("{} dash", vctl_binary()?.display()))?;
    tmux.until("the environment", |s| row(s, "dev", &["Ready"]))?;
    tmux.keys(&["2"])?;
    tmux.until("the pod", |s| row(s, "default", &["talker", "Running"]))?;
    tmux.keys(&["l"])?;
    tmux.until("its logs", |s| s.contains("line 3 of run 1") && s.contains("following"))?;
    tmux.keys(&["g", "/"])?;
    tmux.line("run 1 begins")?;
    tmux.until("what is searched", |s| s.contains("/run 1 begins") && s.contains("\nrun 1 begins"))?;
    tmux.keys(&["Escape"])?;
    tmux.until("no search any more", |s| !s.contains("/run 1 begins"))?;
    tmux.keys(&["q"])?;
    // The shell has the whole terminal, in its size, and keys that are none of the dashboard's.
    tmux.keys(&["s"])?;
    tmux.until("the shell", |s| s.contains("shell in default/talker (main)") && s.contains('#'))?;
    tmux.line("stty size; echo $((6*7)); touch /data/end1")?;
    tmux.until("its answers", |s| s.contains("30 120") && s.contains("\n42"))?;
    tmux.line("exit")?;
    let back = |s: &str| s.contains("pods of dev") && row(s, "default", &["talker"]);
    tmux.until("the dashboard is back", back)?;
    tmux.until("it was restarted", |s| row(s, "default", &["talker", "Running"]) && !s.contains(" 0  "))?;
    tmux.keys(&["p"])?;
    tmux.until("the logs of before", |s| {
        s.contains("of run 1") && !s.contains("of run 2") && s.contains("before the restart")
    })?;
    tmux.keys(&["p"])?;
    tmux.until("the logs of now", |s| s.contains("run 2 begins"))?;
    tmux.keys(&["q", "q"])?;
    tmux.until("the shell is back", |s| !s.contains("pods of dev") && s.trim_end().ends_with('$'))?;
    Ok(())
}

/// The terminal goes away, and the dashboard with it.
#[test]
fn it_ends_with_its_terminal() -> Result<()> {
    let platform = Platform::start(Workers::None)?;
    let data = platform.data_dir().display().to_string();
    let home = platform.scratch().display().to_string();
    let tmux = Tmux::start(platform.scratch(), &[("VCTL_DATA_DIR", &data), ("HOME", &home)])?;
    tmux.line(&format!("echo $$ > ~/pid; exec {} dash", vctl_binary()?.display()))?;
    tmux.until("the dashboard", |s| s.contains("no environments yet"))?;
    let pid = std::fs::read_to_string(platform.scratch().join("pid"))?;
    drop(tmux);
    // A process that has ended and was not waited for has no command line any more.
    let line = Path::new("/proc").join(pid.trim()).join("cmdline");
    wait::until("it ends", Duration::from_secs(20), || {
        let ended = std::fs::read(&line).unwrap_or_default().is_empty();
        if ended { Ok(()) } else { Err("it runs".to_owned()) }
    })
}

/// Without a terminal, and without a server, it says what to do and leaves the screen alone.
#[test]
fn it_says_what_it_needs() -> Result<()> {
    let mut platform = Platform::start(Workers::None)?;
    let refused = platform.vctl(&["dash"])?.refused()?;
    ensure!(refused.contains("terminal") && refused.contains("vctl list"), "{refused}");
    platform.stop_server()?;
    let refused = platform.vctl(&["dash"])?.refused()?;
    ensure!(refused.contains("vctl up"), "{refused}");
    Ok(())
}
