//! A network namespace without a default route: what runs in it cannot leave the machine.

use std::{
    ffi::OsStr,
    process::Command,
    sync::atomic::{AtomicU32, Ordering},
};

use anyhow::{Context, Result, bail};

static NEXT: AtomicU32 = AtomicU32::new(0);

/// A named network namespace with a loopback device; deleted when dropped.
#[derive(Debug)]
pub struct Netns {
    name: String,
}

impl Netns {
    /// Makes one with a name that no other test uses.
    ///
    /// # Errors
    /// `ip` is missing or refuses (root is needed).
    pub fn create() -> Result<Self> {
        let name = format!("vt-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        ip(&["netns", "add", &name])?;
        let netns = Self { name };
        ip(&["-n", &netns.name, "link", "set", "lo", "up"])?;
        Ok(netns)
    }

    /// Its name under /run/netns.
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl Drop for Netns {
    fn drop(&mut self) {
        if let Err(e) = ip(&["netns", "del", &self.name]) {
            eprintln!("left behind: {e:#}");
        }
    }
}

/// A cable out of a network namespace to this machine, over which its pods reach servers of the test; nothing else is behind it.
#[derive(Debug)]
pub struct Cable {
    device: String,
    address: String,
}

impl Cable {
    /// Lays one, with addresses that no other test has.
    ///
    /// # Errors
    /// `ip` refuses.
    pub fn lay(netns: &str) -> Result<Self> {
        // One of the 16,384 networks of four addresses in 10.202.0.0/16. Devices that are called vc* are the pods' own.
        let number = std::process::id() % 16_384;
        let (third, fourth) = (number / 64, number % 64 * 4);
        let address = |last: u32| format!("10.202.{third}.{}", fourth + last);
        let (device, other) = (format!("vr{number}a"), format!("vr{number}b"));
        ip(&["link", "add", &device, "type", "veth", "peer", "name", &other, "netns", netns])?;
        let cable = Self { device, address: address(1) };
        ip(&["addr", "add", &format!("{}/30", cable.address), "dev", &cable.device])?;
        ip(&["link", "set", &cable.device, "up"])?;
        ip(&["-n", netns, "addr", "add", &format!("{}/30", address(2)), "dev", &other])?;
        ip(&["-n", netns, "link", "set", &other, "up"])?;
        Ok(cable)
    }

    /// The address of this machine on it.
    pub fn address(&self) -> &str {
        &self.address
    }
}

impl Drop for Cable {
    fn drop(&mut self) {
        if let Err(e) = ip(&["link", "del", &self.device]) {
            eprintln!("left behind: {e:#}");
        }
    }
}

/// A command that runs in a network namespace (of `ip netns`) when there is one. It is `nsenter`, because `ip netns exec` mounts another
/// /sys, without control groups; it becomes the program, so that the process id is the program's.
pub fn command_inside(netns: Option<&str>, program: impl AsRef<OsStr>) -> Command {
    let Some(netns) = netns else { return Command::new(program) };
    let mut command = Command::new("nsenter");
    command.arg(format!("--net=/run/netns/{netns}")).arg(program);
    command
}

fn ip(args: &[&str]) -> Result<()> {
    let output = Command::new("ip").args(args).output().context("running ip (Debian package iproute2)")?;
    if !output.status.success() {
        bail!("ip {}: {}", args.join(" "), String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(())
}
