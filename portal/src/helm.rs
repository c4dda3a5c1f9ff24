//! Helm, as a program: installs, upgrades and removes releases of an environment with a kubeconfig of its own.

mod error;
mod session;

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use tokio::sync::{Semaphore, SemaphorePermit};

pub(crate) use self::error::HelmError;
use crate::commands::{self, Commands};

/// Jobs that install charts at the same time: each is a process with a chart in memory.
const AT_A_TIME: usize = 16;

/// The program. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Helm {
    program: PathBuf,
    commands: Commands,
    seats: Arc<Semaphore>,
}

/// Room for one that installs.
pub(crate) struct Seat<'a> {
    _permit: Option<SemaphorePermit<'a>>,
}

/// What a release is and where; in a directory that is gone with it.
pub(crate) struct Session<'a> {
    helm: &'a Helm,
    home: tempfile::TempDir,
    /// What is not shown in logs.
    hidden: Vec<String>,
}

/// Where a chart lies.
#[derive(Debug, Clone, Copy)]
pub(crate) struct At<'a> {
    pub(crate) chart: &'a Path,
    /// As the template names it.
    pub(crate) name: &'a str,
    /// Its values.
    pub(crate) values: &'a Path,
}

/// A release.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Release<'a> {
    pub(crate) name: &'a str,
    pub(crate) namespace: &'a str,
}

impl Helm {
    pub(crate) fn new(program: PathBuf, commands: Commands) -> Self {
        Self { program, commands, seats: Arc::new(Semaphore::new(AT_A_TIME)) }
    }

    /// Waits until there is room for one more that installs; it has it until this is dropped. What has to wait is told to `waits` first.
    ///
    /// # Errors
    /// Those of `waits`.
    pub(crate) async fn seat<E>(&self, waits: impl Future<Output = Result<(), E>>) -> Result<Seat<'_>, E> {
        if let Ok(seat) = self.seats.try_acquire() {
            return Ok(Seat { _permit: Some(seat) });
        }
        waits.await?;
        // It is never closed.
        Ok(Seat { _permit: self.seats.acquire().await.ok() })
    }

    /// That it is installed.
    ///
    /// # Errors
    /// [`HelmError::Absent`] says what to do.
    pub(crate) fn check(&self) -> Result<(), HelmError> {
        if commands::is_there(&self.program) { Ok(()) } else { Err(HelmError::Absent(self.program.clone())) }
    }

    /// Warns where charts in archives will be refused: as [`Session::render`] does.
    pub(crate) async fn warn(&self) {
        if self.check().is_ok()
            && let Err(why) = self.commands.without_network().await
        {
            tracing::warn!(
                why,
                "the network cannot be taken away from Helm here: charts in archives are refused, others are rendered with it"
            );
        }
    }

    /// A directory in which it works; with a kubeconfig when it is to talk to an environment.
    ///
    /// # Errors
    /// It is not installed, or the directory cannot be made.
    pub(crate) fn session(&self, kubeconfig: Option<&str>, hidden: Vec<String>) -> Result<Session<'_>, HelmError> {
        self.check()?;
        let cannot = |e: std::io::Error| self.temporary(&format!("its directory cannot be made: {e}"));
        let home = tempfile::Builder::new().prefix("vctl-helm-").tempdir().map_err(cannot)?;
        let session = Session { helm: self, home, hidden };
        if let Some(kubeconfig) = kubeconfig {
            session.write("kubeconfig", kubeconfig.as_bytes()).map_err(cannot)?;
        }
        Ok(session)
    }

    fn temporary(&self, why: &str) -> HelmError {
        HelmError::Temporary { command: self.program.display().to_string(), why: why.to_owned() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn only_who_waits_for_a_seat_says_so() {
        let helm = Helm::new("helm-of-nobody".into(), Commands::new(None));
        let mut seats = Vec::new();
        for _ in 0..AT_A_TIME {
            let seat = helm.seat(async { Err("there is room") }).await;
            seats.push(seat.expect("nobody waits"));
        }
        let said = std::cell::Cell::new(false);
        let waits = helm.seat(async {
            said.set(true);
            Ok::<_, &str>(())
        });
        tokio::pin!(waits);
        assert!(futures::poll!(&mut waits).is_pending() && said.get());
        seats.pop();
        waits.await.expect("a seat");
        assert!(helm.seat(async { Err::<(), _>("cancelled") }).await.is_ok(), "given back");
        seats.push(helm.seat(async { Ok::<_, &str>(()) }).await.expect("a seat"));
        assert_eq!(
            helm.seat(async { Err::<(), _>("cancelled") }).await.err(),
            Some("cancelled"),
            "who is told may give up"
        );
    }
}
