//! Running checks: one platform and one environment for a group, one namespace for a check.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use anyhow::{Context as _, Result, anyhow, bail};
use vctl_tests::platform::{Platform, Workers};

use crate::api::Api;

/// Checks at once. Most of a check is waiting for the disk.
const AT_ONCE: usize = 6;

type Run = Box<dyn Fn(&Api) -> Result<()> + Send + Sync>;

/// One behaviour.
struct Check {
    name: String,
    /// Where upstream shows it: a conformance test by its code name, or a source.
    origin: String,
    run: Run,
}

/// The checks of a group.
pub(crate) struct Suite {
    group: &'static str,
    /// Further arguments of `vctl up`.
    arguments: &'static [&'static str],
    checks: Vec<Check>,
}

impl Suite {
    pub(crate) fn new(group: &'static str) -> Self {
        Self { group, arguments: &[], checks: Vec::new() }
    }

    /// With further arguments of `vctl up`.
    pub(crate) fn arguments(mut self, arguments: &'static [&'static str]) -> Self {
        self.arguments = arguments;
        self
    }

    /// Adds a check: what it shows, and where upstream shows it.
    pub(crate) fn check(
        &mut self,
        name: impl Into<String>,
        origin: impl Into<String>,
        run: impl Fn(&Api) -> Result<()> + Send + Sync + 'static,
    ) {
        self.checks.push(Check { name: name.into(), origin: origin.into(), run: Box::new(run) });
    }

    /// Runs them and prints how many passed. `VCTL_CONFORMANCE` runs only checks whose name contains it.
    #[expect(clippy::print_stdout, reason = "make conformance counts these lines")]
    pub(crate) fn run(self) -> Result<()> {
        let only = std::env::var("VCTL_CONFORMANCE").unwrap_or_default();
        let checks: Vec<&Check> = self.checks.iter().filter(|c| c.name.contains(&only)).collect();
        if checks.is_empty() {
            return Ok(());
        }
        let platform = Platform::start_configured(Workers::Simulated, self.arguments, &[])?;
        platform.create("dev", "blank", &[])?;
        let api = Api::new(&platform.kubeconfig("dev")?)?;
        let next = AtomicUsize::new(0);
        let failures = Mutex::new(Vec::new());
        thread::scope(|scope| {
            for _ in 0..AT_ONCE {
                scope.spawn(|| {
                    loop {
                        let index = next.fetch_add(1, Ordering::SeqCst);
                        let Some(check) = checks.get(index) else { return };
                        if let Err(e) = perform(check, &api, index)
                            && let Ok(mut failures) = failures.lock()
                        {
                            failures.push(format!("{}\n    origin: {}\n    {e:#}", check.name, check.origin));
                        }
                    }
                });
            }
        });
        let failures = failures.into_inner().map_err(|_| anyhow!("a check ended its thread"))?;
        println!("conformance: {}: {} of {} checks passed", self.group, checks.len() - failures.len(), checks.len());
        if !failures.is_empty() {
            if std::env::var_os("VCTL_CONFORMANCE_LOG").is_some() {
                println!("{}", platform.log());
            }
            bail!("{} checks of {} failed\n- {}", failures.len(), self.group, failures.join("\n- "));
        }
        Ok(())
    }
}

fn perform(check: &Check, api: &Api, index: usize) -> Result<()> {
    let api = api.within(&format!("check-{index}"));
    api.post("v1/namespaces", "{metadata: {name: '{ns}'}}").is(201).context("the namespace of the check")?;
    // Pods need it.
    api.wait_for("v1~/serviceaccounts/default", "{}")?;
    match catch_unwind(AssertUnwindSafe(|| (check.run)(&api))) {
        Ok(result) => result,
        Err(panic) => {
            let text = panic.downcast_ref::<String>().cloned();
            bail!(
                "panicked: {}",
                text.or_else(|| panic.downcast_ref::<&str>().map(|s| (*s).to_owned())).unwrap_or_default()
            )
        }
    }
}
