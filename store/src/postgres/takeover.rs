//! Learns that another server has taken the database over, also while nothing is written.

use std::{sync::Arc, time::Duration};

use sqlx::{PgPool, postgres::PgListener};

use crate::{engine::Shared, postgres::owner::taken_over};

/// What a new owner notifies.
pub(super) const CHANNEL: &str = "vctl_owner";

/// Notifications can be missed; so often it looks by itself.
const LOOK: Duration = Duration::from_secs(5);

/// Runs until the store closes, or the database is another server's: then the store ends.
pub(super) async fn watch(pool: PgPool, epoch: i64, shared: Arc<Shared>) {
    // The error is that the pool was closed.
    let _ = pool.close_event().do_until(look(&pool, epoch, &shared)).await;
}

async fn look(pool: &PgPool, epoch: i64, shared: &Shared) {
    loop {
        let mut listener = PgListener::connect_with(pool).await.ok();
        if let Some(connected) = &mut listener
            && connected.listen(CHANNEL).await.is_err()
        {
            listener = None;
        }
        loop {
            let owner: Result<i64, _> = sqlx::query_scalar("SELECT epoch FROM owner").fetch_one(pool).await;
            match owner {
                Ok(theirs) if theirs != epoch => {
                    let reason = taken_over("the database", epoch, theirs);
                    tracing::error!("{reason}");
                    return shared.lose(reason);
                }
                Ok(_) => {}
                // The writer reports that the database cannot be reached.
                Err(error) => tracing::debug!(%error, "cannot look who owns the database"),
            }
            let Some(connected) = &mut listener else {
                tokio::time::sleep(LOOK).await;
                break;
            };
            // The end of the wait is the same as a notification. After an error: connect anew.
            if let Ok(Err(_)) = tokio::time::timeout(LOOK, connected.recv()).await {
                tokio::time::sleep(Duration::from_millis(200)).await;
                break;
            }
        }
    }
}
