//! `kubectl wait`, `kubectl rollout`, `kubectl apply --prune` and `helm --wait` beside the load, again and again.
//!
//! Every command must succeed. Only a round that the kill of the server falls into may fail: it is counted and done again.

use std::{
    path::{Path, PathBuf},
    process::Command,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use kube::{Client, Discovery};
use tokio::runtime::Handle;
use vctl_tests::{
    kubectl::{self, Kubectl, finish},
    wait,
};

/// What one command may take; much more than it does, also on a loaded machine.
const LIMIT: &str = "120s";

/// When the server was away.
#[derive(Debug, Default)]
pub(crate) struct Outage {
    from_until: Mutex<Option<(Instant, Option<Instant>)>>,
}

impl Outage {
    pub(crate) fn begins(&self) {
        *self.from_until.lock().unwrap_or_else(PoisonError::into_inner) = Some((Instant::now(), None));
    }

    pub(crate) fn ends(&self) {
        if let Some((_, until)) = &mut *self.from_until.lock().unwrap_or_else(PoisonError::into_inner) {
            *until = Some(Instant::now());
        }
    }

    /// Whether it falls into a round that began then and ends now.
    fn touches(&self, begun: Instant) -> bool {
        let window = *self.from_until.lock().unwrap_or_else(PoisonError::into_inner);
        window.is_some_and(|(from, until)| from <= Instant::now() && until.is_none_or(|until| until >= begun))
    }

    /// Waits for its end.
    fn pass(&self) -> Result<()> {
        wait::until("the server is back", Duration::from_mins(2), || {
            let window = *self.from_until.lock().map_err(|e| e.to_string())?;
            if window.is_none_or(|(_, until)| until.is_some()) { Ok(()) } else { Err("away".to_owned()) }
        })
    }
}

/// What a loop did.
#[derive(Debug, Default)]
pub(crate) struct Rounds {
    pub(crate) done: usize,
    /// The kill fell into them.
    pub(crate) again: usize,
}

/// Does rounds until it is told to stop; at least one. Each gets a name of its own.
pub(crate) fn rounds(
    name: &str,
    stop: &AtomicBool,
    outage: &Outage,
    round: impl Fn(&str) -> Result<()>,
) -> Result<Rounds> {
    let mut rounds = Rounds::default();
    for number in 0.. {
        if rounds.done > 0 && stop.load(Ordering::SeqCst) {
            break;
        }
        let begun = Instant::now();
        match round(&format!("{name}-{number}")) {
            Ok(()) => rounds.done += 1,
            Err(_) if outage.touches(begun) => {
                rounds.again += 1;
                outage.pass()?;
            }
            Err(e) => return Err(e.context(format!("round {number} of {name}"))),
        }
    }
    Ok(rounds)
}

/// A Deployment comes, is restarted and goes, as kubectl waits for it.
pub(crate) fn kubectl_round(k: &Kubectl, name: &str) -> Result<()> {
    let deployment = format!("deployment/{name}");
    let timeout = format!("--timeout={LIMIT}");
    k.ok(&["create", "deployment", name, "--image=registry.example/web:1", "--replicas=2"])?;
    k.ok(&["wait", "--for=condition=Available", &deployment, &timeout])?;
    k.ok(&["wait", "--for=jsonpath={.status.readyReplicas}=2", &deployment, &timeout])?;
    k.ok(&["rollout", "restart", &deployment])?;
    let said = k.ok(&["rollout", "status", &deployment, &timeout])?;
    ensure!(said.contains("successfully rolled out"), "{said}");
    k.ok(&["delete", &deployment, "--wait=false"])?;
    k.ok(&["wait", "--for=delete", &deployment, &timeout])?;
    Ok(())
}

/// Desired state as a GitOps tool applies it: everything of one label, and what is not there any more goes.
pub(crate) fn prune_round(k: &Kubectl, client: &Client, runtime: &Handle, name: &str) -> Result<()> {
    let manifest = |objects: std::ops::Range<u32>, text: &str| -> String {
        let object = |number| {
            let meta = format!("metadata: {{name: {name}-{number}, namespace: default, labels: {{instance: {name}}}}}");
            format!(
                "---\napiVersion: v1\nkind: ConfigMap\n{meta}\ndata: {{text: {text}}}\n\
                 ---\napiVersion: soak.example.com/v1\nkind: Gadget\n{meta}\nspec: {{payload: {text}}}\n"
            )
        };
        objects.map(object).collect()
    };
    let label = format!("--selector=instance={name}");
    let kinds = ["--prune-allowlist=core/v1/ConfigMap", "--prune-allowlist=soak.example.com/v1/Gadget"];
    let apply = |manifest: &str| {
        let args = [&["apply", "--prune", &label], &kinds[..], &["--filename=-"]].concat();
        k.pipe(&args, manifest)?.ok().context("kubectl apply --prune")
    };
    apply(&manifest(0..6, "one"))?;
    let said = apply(&manifest(2..8, "two"))?;
    ensure!(said.matches(" pruned").count() == 4, "two objects of each kind go: {said}");
    let there = k.ok(&["get", "configmaps,gadgets.soak.example.com", &label, "--output=name"])?;
    ensure!(there.lines().count() == 12, "{there}");
    let diff = k.pipe(&["diff", "--filename=-"], &manifest(2..8, "two"))?;
    ensure!(diff.code == 0, "what was just applied is there: {diff:?}");
    // As kube-rs tools find the kinds before they do anything.
    let known = runtime.block_on(Discovery::new(client.clone()).run())?;
    let gadget = known.get("soak.example.com").and_then(|group| group.recommended_kind("Gadget"));
    ensure!(gadget.is_some(), "discovery does not know gadgets");
    k.ok(&["delete", "configmaps,gadgets.soak.example.com", &label])?;
    Ok(())
}

/// A helm of a version, with a kubeconfig.
pub(crate) struct Helm {
    binary: PathBuf,
    kubeconfig: PathBuf,
    home: PathBuf,
}

impl Helm {
    /// The helm that comes with kubectl `minor`; its caches go into `home`.
    pub(crate) fn new(minor: &str, kubeconfig: &Path, home: PathBuf) -> Result<Self> {
        let binary = kubectl::binary(minor)?.with_file_name("helm");
        ensure!(
            binary.is_file(),
            "{} is missing: remove its directory, scripts/kubectl {minor} fetches both",
            binary.display()
        );
        std::fs::create_dir_all(&home)?;
        Ok(Self { binary, kubeconfig: kubeconfig.to_owned(), home })
    }

    fn ok(&self, args: &[&str]) -> Result<String> {
        let mut command = Command::new(&self.binary);
        command.args(args).env_clear().env("HOME", &self.home).env("KUBECONFIG", &self.kubeconfig);
        finish(command)?.ok().with_context(|| format!("helm {}", args.join(" ")))
    }

    /// A release comes, is upgraded and goes, each with `--wait`.
    pub(crate) fn round(&self, name: &str) -> Result<()> {
        let chart = Path::new(env!("CARGO_MANIFEST_DIR")).join("charts/app");
        let chart = chart.to_str().context("a path of UTF-8")?;
        let wait = ["--wait", "--timeout", LIMIT];
        self.ok(&[&["install", name, chart], &wait[..]].concat())?;
        self.ok(&[&["upgrade", name, chart, "--set", "replicas=2"], &wait[..]].concat())?;
        self.ok(&[&["uninstall", name], &wait[..]].concat())?;
        Ok(())
    }
}
