//! Completion in the real shells: the scripts ask the program, and the program asks the server.

mod quoting;

use std::process::Command;

use anyhow::{Result, ensure};
use vctl_tests::{
    kubectl::finish,
    platform::{Platform, Workers, vctl_binary},
    tmux::Tmux,
};

const CHANNELLED: &str = "apiVersion: vctl.dev/v1\nkind: Template\nname: app\nversion: 1.4.0\ntitle: T\nparameters: [{name: debug, type: boolean, help: say more, default: false}]\n";

/// A platform with one of everything that has a name.
fn platform() -> Result<Platform> {
    let platform = Platform::start(Workers::None)?;
    platform.create("alpha", "blank", &[])?;
    platform.create("alto", "blank", &[])?;
    let app = platform.scratch().join("app");
    std::fs::create_dir_all(app.join("manifests"))?;
    std::fs::write(app.join("template.yaml"), CHANNELLED.replace("1.4.0", "1.3.0"))?;
    std::fs::write(app.join("manifests/all.yaml"), "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: app}\n")?;
    let directory = app.display().to_string();
    platform.vctl(&["template", "publish", &directory])?.ok()?;
    std::fs::write(app.join("template.yaml"), CHANNELLED)?;
    for made in [
        &["template", "publish", &directory, "--channel", "beta"][..],
        &["resource", "add", "db-one", "--kind", "postgres", "--host", "db.example.com", "--user", "app"],
        &["resource", "add", "cache-one", "--kind", "redis", "--host", "cache.example.com"],
        &["project", "create", "web", "--title", "the shop"],
        &["team", "set", "crew", "--group", "crew"],
        &["role", "set", "reader", "--rule", "environments.get"],
        &["webhook", "set", "chat", "--url", "https://hooks.example.com/x"],
        &["approval", "rule", "set", "large", "--cpu", "4"],
        &["template", "source", "add", "mono", "--url", "https://git.example.com/mono.git", "--branch", "main"],
        &["approval", "request", "--project", "web", "--role", "admin", "--for", "1h", "--reason", "why"],
    ] {
        platform.vctl(made)?.ok()?;
    }
    Ok(platform)
}

fn path() -> Result<String> {
    let own = vctl_binary()?;
    let directory = own.parent().map(|dir| dir.display().to_string()).unwrap_or_default();
    Ok(format!("{directory}:{}", std::env::var("PATH").unwrap_or_default()))
}

/// What the server has is offered wherever its name is wanted. fish tells what it would offer without a terminal.
#[test]
fn live_names_are_offered_wherever_they_are_wanted() -> Result<()> {
    let platform = platform()?;
    let approval = platform.vctl(&["approval", "list", "-o", "name"])?.ok()?.trim().to_owned();
    let wanted = [
        ("vctl get al", "alpha\tReady, blank"),
        ("vctl top al", "alto\tReady, blank"),
        ("vctl jobs list -e al", "alpha"),
        ("vctl audit policy al", "alpha"),
        ("vctl create x --template bl", "blank"),
        ("vctl create x --template app@", "app@1.4.0\tT"),
        ("vctl create x --template app@b", "app@beta\tchannel"),
        ("vctl create x --template app --set ", "debug=\tsay more"),
        ("vctl create x --template=app --set debug=", "debug=true"),
        ("vctl create x -t web-with-redis-and-postgres --bind ", "db=\tpostgres, database of the service"),
        ("vctl create x -t web-with-redis-and-postgres --bind db=", "db=db-one\tpostgres, db.example.com"),
        ("vctl create x --project w", "web\tthe shop"),
        ("vctl templates app@", "app@beta"),
        ("vctl template list a", "app"),
        ("vctl template sync ", "mono\thttps://git.example.com/mono.git"),
        ("vctl template source remove m", "mono"),
        ("vctl context use ", "local"),
        ("vctl api-key create k --project ", "web"),
        ("vctl api-key create k --environment ", "alpha"),
        ("vctl approval get ", &approval),
        ("vctl approval withdraw ", &approval),
        ("vctl approval deny ", &approval),
        ("vctl approval rule delete ", "large"),
        ("vctl approval request --role m", "maintainer"),
        ("vctl team delete ", "crew"),
        ("vctl role delete r", "reader"),
        ("vctl webhook test ", "chat\thttps://hooks.example.com/x"),
        ("vctl resource probe ", "db-one"),
        ("vctl project add web --team ", "crew"),
        ("vctl project add web --role r", "reader"),
        ("vctl audit list --project ", "web"),
        ("vctl audit export --project ", "web"),
        ("vctl break-glass --project ", "web"),
        ("vctl break-glass --role a", "admin"),
        ("vctl rota", "rotate-ca"),
    ];
    let mut script = "vctl completion fish | source\n".to_owned();
    for (line, _) in &wanted {
        script.push_str(&format!("echo '> {line}'\ncomplete -C '{line}'\n"));
    }
    let mut fish = Command::new("fish");
    fish.args(["--no-config", "-c", &script]).env("PATH", path()?);
    fish.env("VCTL_DATA_DIR", platform.data_dir()).env("HOME", platform.scratch());
    let said = finish(fish)?.ok()?;
    let offers: Vec<&str> = said.split("> vctl ").skip(1).collect();
    ensure!(offers.len() == wanted.len(), "{said}");
    for ((line, name), offered) in wanted.iter().zip(offers) {
        let there = offered.lines().skip(1).any(|o| o == *name || o.split('\t').next() == Some(*name));
        ensure!(there, "{line}: no {name:?} among\n{offered}");
    }
    let kinds = said.split("> vctl ").find(|o| o.contains("--bind db=")).unwrap_or_default();
    ensure!(!kinds.contains("cache-one"), "a cache is no database: {kinds}");

    // Without a server there is nothing to complete, and nothing to read either.
    let mut alone = Command::new(vctl_binary()?);
    alone.args(["--", "vctl", "get", ""]).env("VCTL_COMPLETE", "fish").env("_CLAP_COMPLETE_INDEX", "2");
    alone.env("VCTL_DATA_DIR", platform.scratch().join("nothing")).env("HOME", platform.scratch());
    let alone = finish(alone)?;
    ensure!(alone.code == 0 && alone.stderr.is_empty() && !alone.stdout.contains("alpha"), "{}", alone.stderr);
    Ok(())
}

/// Somebody types and presses tab, in bash and in zsh.
#[test]
fn tab_completes_in_bash_and_zsh() -> Result<()> {
    let platform = platform()?;
    let (data, home, path) =
        (platform.data_dir().display().to_string(), platform.scratch().display().to_string(), path()?);
    let tmux = Tmux::start(platform.scratch(), &[("VCTL_DATA_DIR", &data), ("HOME", &home)])?;
    // tmux gives its first shell the path that it was started with.
    tmux.line(&format!("export PATH='{path}'"))?;
    tmux.resize(100, 50)?;
    let shells = [
        ("exec bash --norc --noprofile", "source <(vctl completion bash); clear; PS1='bash> '", "bash> "),
        (
            "exec zsh -f",
            "autoload -U compinit; compinit -u -D; source <(vctl completion zsh); clear; PS1='zsh> '",
            "zsh> ",
        ),
    ];
    for (start, set_up, prompt) in shells {
        // Each replaces the one before it.
        tmux.line("PS1='$ '; clear")?;
        tmux.until("an empty screen", |s| s.trim_end() == "$")?;
        tmux.line(start)?;
        tmux.until("the next shell", |s| s.trim_end() != "$" && !s.trim_end().ends_with(start))?;
        tmux.line(set_up)?;
        tmux.until("its prompt", |s| s.trim_end() == prompt.trim_end())?;
        let again = || -> Result<()> {
            tmux.keys(&["C-c"])?;
            // What is typed before the shell has taken the interrupt is thrown away in part.
            tmux.until("the next prompt", |s| {
                s.trim_end().lines().last().is_some_and(|l| l.trim_end() == prompt.trim_end())
            })?;
            tmux.line("clear")?;
            tmux.until("an empty line", |s| s.trim_end() == prompt.trim_end()).map(drop)
        };
        let completes = |typed: &str, whole: &str| -> Result<()> {
            tmux.keys(&[typed, "Tab"])?;
            let line = format!("{prompt}{whole}");
            tmux.until(&line, |s| s.lines().any(|l| l.trim_end() == line))?;
            again()
        };
        // Two that begin alike are both shown: by bash when tab is pressed again, by zsh at once, which would still look for them at the next key.
        let tabs: &[&str] = if prompt == "bash> " { &["vctl get al", "Tab", "Tab"] } else { &["vctl get al", "Tab"] };
        tmux.keys(tabs)?;
        tmux.until("both names", |s| s.contains("alpha") && s.contains("alto"))?;
        again()?;
        completes("vctl get alp", "vctl get alpha")?;
        completes("vctl create x --template app@be", "vctl create x --template app@beta")?;
        completes("vctl create x --template=bla", "vctl create x --template=blank")?;
        let bind = "vctl create x -t web-with-redis-and-postgres --bind";
        completes(&format!("{bind} db=d"), &format!("{bind} db=db-one"))?;
        completes(&format!("{bind} ca"), &format!("{bind} cache="))?;
    }
    Ok(())
}
