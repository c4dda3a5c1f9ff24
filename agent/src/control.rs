//! The control stream: joined, connected, and connected again for as long as the agent runs.

use std::{sync::Arc, time::Duration};

use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use vctl_api::agent::{AgentMessage, Hello, VolumeGone, agent_message::Message as Up, server_message::Message as Down};

use crate::{
    context::Context,
    error::AgentError,
    identity::IdentityStore,
    proto::AgentServiceClient,
    reconcile::Reconciler,
    streams,
    transport::{self, ClientIdentity},
    volumes,
};

/// Shortest and longest wait between two attempts.
const RETRY: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(30));
/// Largest message: the full state of a large worker.
const MESSAGE_LIMIT: usize = 256 * 1024 * 1024;

/// Doubles up to the limit; the actual wait is between half and all of it, so that agents do not return all at once.
fn next_delay(last: Duration) -> Duration {
    (last * 2).min(RETRY.1)
}

/// Connects again and again until the tasks are stopped.
pub(crate) async fn run(ctx: &Arc<Context>, reconciler: &Arc<Reconciler>) {
    let mut delay = RETRY.0;
    loop {
        tokio::select! {
            () = ctx.tasks.cancelled() => return,
            outcome = session(ctx, reconciler, &mut delay) => match outcome {
                Ok(()) => tracing::info!("the server ended the control stream"),
                Err(e) => {
                    ctx.measured.disconnected();
                    tracing::warn!(error = %e, "not connected to the server; pods go on from the last known state");
                }
            }
        }
        reconciler.client.send_replace(None);
        let wait = delay.mul_f64(rand::random_range(0.5..1.0));
        tokio::select! {
            () = ctx.tasks.cancelled() => return,
            () = tokio::time::sleep(wait) => {}
        }
        delay = next_delay(delay);
    }
}

async fn identity(ctx: &Context, store: &IdentityStore) -> Result<ClientIdentity, AgentError> {
    match store.load(ctx.clock.now())? {
        Some(identity) => Ok(identity),
        None => store.join(&ctx.config).await,
    }
}

/// When to renew: after two thirds of what is left of the certificate's life.
fn renewal_in(identity: &ClientIdentity, now: jiff::Timestamp) -> Duration {
    let left = identity.expires.as_second().saturating_sub(now.as_second()).max(3);
    Duration::from_secs((left * 2 / 3).unsigned_abs())
}

/// Removes volumes and says so. An answer that is not heard is asked for again.
fn remove_volume(ctx: &Arc<Context>, reconciler: &Arc<Reconciler>, id: String, up: mpsc::Sender<AgentMessage>) {
    let (ctx, reconciler) = (ctx.clone(), reconciler.clone());
    ctx.tasks.clone().spawn_until_stopped("removal of a volume", async move {
        let removed = tokio::select! {
            removed = volumes::remove(&ctx.volumes, &reconciler, id.clone()) => removed,
            () = up.closed() => return,
        };
        match removed {
            Ok(()) => {
                let _ = up.send(AgentMessage { message: Some(Up::VolumeGone(VolumeGone { id })) }).await;
            }
            Err(error) => tracing::error!(id, %error, "a volume is left; it is removed when the server asks again"),
        }
    });
}

async fn session(ctx: &Arc<Context>, reconciler: &Arc<Reconciler>, delay: &mut Duration) -> Result<(), AgentError> {
    let store = IdentityStore::new(&ctx.config)?;
    let mut identity = identity(ctx, &store).await?;
    let channel = transport::connect(&ctx.config, Some(&identity)).await?;
    let mut client = AgentServiceClient::new(channel)
        .max_decoding_message_size(MESSAGE_LIMIT)
        .max_encoding_message_size(MESSAGE_LIMIT);
    let (up, outgoing) = mpsc::channel::<AgentMessage>(64);
    let hello = Hello {
        worker: ctx.config.worker.clone(),
        agent_version: ctx.config.version.clone(),
        applied: reconciler.generations().into_iter().collect(),
        volume_environments: ctx.volumes.environments(),
    };
    let refused =
        |e: tonic::Status| AgentError::Identity(format!("the server refused the control stream: {}", e.message()));
    let lost = || AgentError::Identity("the control stream ended".into());
    up.send(AgentMessage { message: Some(Up::Hello(hello)) }).await.map_err(|_| lost())?;
    let mut incoming = client.connect(ReceiverStream::new(outgoing)).await.map_err(refused)?.into_inner();
    ctx.outbox.restart();
    reconciler.repeat_gone();
    let renewal = tokio::time::sleep(renewal_in(&identity, ctx.clock.now()));
    tokio::pin!(renewal);
    let reports = async {
        loop {
            for message in ctx.outbox.next().await {
                if up.send(message).await.is_err() {
                    return;
                }
            }
        }
    };
    tokio::pin!(reports);
    loop {
        tokio::select! {
            () = &mut reports => return Err(lost()),
            () = &mut renewal => {
                // The connection goes on under the old certificate; the next one uses the new.
                match store.renew(&ctx.config, &identity).await {
                    Ok(new) => identity = new,
                    Err(e) => tracing::warn!(error = %e, "the certificate was not renewed; this is tried again"),
                }
                renewal.as_mut().reset(tokio::time::Instant::now() + renewal_in(&identity, ctx.clock.now()));
            }
            message = incoming.message() => match message.map_err(refused)?.map(|m| m.message) {
                None => return Ok(()),
                Some(None) => {}
                Some(Some(Down::Welcome(welcome))) => {
                    tracing::info!(server = welcome.server_version, "connected");
                    *delay = RETRY.0;
                    ctx.measured.connected();
                    reconciler.client.send_replace(Some(client.clone()));
                }
                Some(Some(Down::Dns(dns))) => reconciler.dns(dns),
                Some(Some(Down::Pods(pods))) => reconciler.pods(pods),
                Some(Some(Down::Services(services))) => reconciler.services(services).await,
                Some(Some(Down::RemoveVolumes(asked))) => {
                    for id in asked.ids {
                        remove_volume(ctx, reconciler, id, up.clone());
                    }
                }
                Some(Some(Down::OpenStream(open))) => streams::open(ctx, reconciler, client.clone(), open),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_half_a_minute() {
        let mut delay = RETRY.0;
        let all: Vec<u128> = (0..8)
            .map(|_| {
                delay = next_delay(delay);
                delay.as_millis()
            })
            .collect();
        assert_eq!(all, [1000, 2000, 4000, 8000, 16000, 30000, 30000, 30000]);
    }
}
