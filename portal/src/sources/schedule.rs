//! Looks at template sources when it is time.

use std::time::Duration;

use jiff::Timestamp;
use vctl_runtime::tasks::Tasks;

use super::Sources;
use crate::{environments::Caller, error::Error, timetable};

/// Who the audit trail names for a look on a schedule.
const SCHEDULE: Caller<'static> = Caller { actor: "schedule", user: "", request_id: "" };
/// While something is to come it is looked for so often at least: the clock may have been set.
const PAUSE: Duration = Duration::from_secs(15);

impl Sources {
    /// Looks at sources when it is time.
    pub(crate) fn start(&self, tasks: &Tasks) {
        let this = self.clone();
        tasks.spawn_until_stopped("template sources", async move {
            loop {
                let pause = match this.look_at_due().await {
                    // Where no source is looked at by itself, only a new one changes that.
                    Ok(next) => next.map(|next| until(this.environments.now(), next)),
                    Err(_) if this.environments.documents.is_closed().await => return,
                    Err(error) => {
                        tracing::error!(%error, "the template sources cannot be read; trying again");
                        Some(PAUSE)
                    }
                };
                tokio::select! {
                    () = timetable::wait(pause) => {}
                    () = this.added.notified() => {}
                }
            }
        });
    }

    /// Looks at what is due; when something is due next.
    async fn look_at_due(&self) -> Result<Option<Timestamp>, Error> {
        let now = self.environments.now();
        let mut next = None;
        for source in self.list().await? {
            let Some(every) = source.every else { continue };
            let mut at = source.last_sync.as_ref().map_or(now, |last| every.after(last.at));
            if at <= now {
                if let Err(error) = self.sync(SCHEDULE, &source.name).await {
                    tracing::warn!(source = source.name, %error, "a template source was not looked at");
                }
                at = every.after(self.environments.now());
            }
            next = Some(next.map_or(at, |next: Timestamp| next.min(at)));
        }
        Ok(next)
    }
}

/// How long it is until then: a moment at least, so that a source that fails at once is not looked at all the time.
fn until(now: Timestamp, then: Timestamp) -> Duration {
    let left = then.duration_since(now);
    Duration::try_from(left).unwrap_or_default().clamp(Duration::from_millis(100), PAUSE)
}
