//! A copy of an environment, from its backup, beside the original on one Podman worker.

use std::time::Duration;

use anyhow::Result;
use vctl_tests::wait;

use crate::containers_podman::{platform, pod, ready};

const LIMIT: Duration = Duration::from_mins(1);

/// The copy's pods have the UIDs of the original's, and are on the same worker.
#[test]
fn podman_a_copy_is_apart_from_its_original() -> Result<()> {
    let platform = platform()?;
    platform.create("a", "blank", &[])?;
    let a = platform.kubectl("1.33", "a")?;
    a.apply(&pod("web", "trap 'exit 0' TERM; while :; do sleep 1; done"))?;
    ready(&a, "web")?;
    a.ok(&["exec", "web", "--", "sh", "-c", "echo original > /tmp/mark"])?;
    let file = platform.scratch().join("a.backup").to_string_lossy().into_owned();
    platform.vctl(&["snapshot", "a", "-o", &file])?.ok()?;
    platform.vctl(&["restore", &file, "--as", "b"])?.ok()?;
    let b = platform.kubectl("1.33", "b")?;
    // Its stored status is that of the original until its own container runs.
    wait::until("a container of the copy", LIMIT, || {
        let run = b.run(&["exec", "web", "--", "sh", "-c", "test -e /tmp/mark || echo copy"]);
        match run.map_err(|e| e.to_string())? {
            said if said.stdout == "copy\n" => Ok(()),
            said => Err(format!("{} {}", said.stdout, said.stderr)),
        }
    })?;
    platform.vctl(&["delete", "b", "--wait"])?.ok()?;
    assert_eq!(a.ok(&["exec", "web", "--", "cat", "/tmp/mark"])?, "original\n");
    assert_eq!(a.ok(&["get", "pod", "web", "-o", "jsonpath={.status.containerStatuses[0].restartCount}"])?, "0");
    Ok(())
}
