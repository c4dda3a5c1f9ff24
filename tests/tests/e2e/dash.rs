//! `vctl dash` in a real terminal. What each screen looks like in detail is in `tui/tests/snapshots`.

use anyhow::{Result, ensure};
use vctl_tests::{
    platform::{Platform, Workers, vctl_binary},
    tmux::Tmux,
};

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

    // Workers and events by their numbers; other environments by the palette.
    tmux.keys(&["3"])?;
    tmux.until("the workers", |s| row(s, "local", &["simulated"]))?;
    tmux.keys(&["4"])?;
    tmux.until("the events", |s| s.contains("SuccessfulCreate") && s.contains("Scheduled"))?;
    k.ok(&["scale", "deployment", "web", "--replicas=3"])?;
    let scaled = |s: &str| s.lines().filter(|l| l.contains("ScalingReplicaSet") && l.contains("default/web")).count();
    tmux.until("the new event", |s| scaled(s) == 2)?;
    tmux.keys(&[":", "p", "o", "d", "s", "Space", "b", "e", "t", "a", "Enter"])?;
    tmux.until("the pods of the other environment", |s| s.contains("beta") && !s.contains("redis-"))?;
    tmux.keys(&["?"])?;
    tmux.until("the help", |s| s.contains(" help ") && s.contains("next, previous row"))?;
    tmux.keys(&["Escape"])?;
    tmux.keys(&["Escape"])?;
    tmux.until("the environments", |s| row(s, "alpha", &[]) && row(s, "beta", &[]))?;
    tmux.resize(60, 12)?;
    tmux.until("fewer rows", |s| s.lines().count() <= 12 && row(s, "beta", &["Ready"]))?;
    tmux.resize(120, 30)?;
    platform.vctl(&["delete", "beta", "--wait"])?.ok()?;
    tmux.until("one is gone", |s| s.contains("environments (1)") && !row(s, "beta", &[]))?;

    // q leaves; the terminal is as it was: screen, cursor and settings.
    tmux.keys(&["q"])?;
    tmux.until("the shell is back", |s| s.starts_with("was here") && s.contains(" dash\n$"))?;
    assert_eq!(tmux.variable("#{alternate_on} #{cursor_flag}")?, "0 1");
    tmux.line("stty -g | diff - ~/before; echo it differs: $?")?;
    tmux.until("the same settings", |s| s.contains("\nit differs: 0\n")).map(drop)
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
