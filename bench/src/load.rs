//! A bounded load by several clients at once.

use std::time::{Duration, Instant};

use anyhow::Result;
use tokio::task::JoinHandle;

use crate::samples::Samples;

/// What a load did.
#[derive(Debug, Default)]
pub(crate) struct Done {
    /// Each request's duration.
    pub(crate) latency: Samples,
    /// From the first request to the last answer.
    pub(crate) took: Duration,
}

impl Done {
    /// Requests per second.
    pub(crate) fn rate(&self) -> f64 {
        self.latency.len() as f64 / self.took.as_secs_f64()
    }
}

/// Calls `request` with each client's connection again and again until `duration` has passed. Clients begin together and each
/// waits for an answer before it asks again.
pub(crate) async fn run<C, F>(clients: Vec<C>, duration: Duration, request: F) -> Result<(Done, Vec<C>)>
where
    C: Send + 'static,
    F: AsyncRequest<C>,
{
    let begun = Instant::now();
    let mut tasks = Vec::new();
    for (number, mut client) in clients.into_iter().enumerate() {
        let request = request.clone();
        tasks.push(spawn(async move {
            let mut latency = Samples::default();
            let mut n = 0;
            while begun.elapsed() < duration {
                let asked = Instant::now();
                request.call(&mut client, number, n).await?;
                latency.push(asked.elapsed());
                n += 1;
            }
            anyhow::Ok((latency, client))
        }));
    }
    let mut done = Done::default();
    let mut clients = Vec::new();
    for task in tasks {
        let (latency, client) = task.await??;
        done.latency.extend(latency);
        clients.push(client);
    }
    done.took = begun.elapsed();
    Ok((done, clients))
}

/// One request of a load: by client `number`, its `n`-th.
pub(crate) trait AsyncRequest<C>: Clone + Send + Sync + 'static {
    /// Asks and waits for the answer.
    fn call(&self, client: &mut C, number: usize, n: usize) -> impl Future<Output = Result<()>> + Send;
}

/// A task of a load. It ends with its process at the latest.
#[expect(clippy::disallowed_methods, reason = "the load generator has no tasks that outlive a figure")]
pub(crate) fn spawn<T: Send + 'static>(task: impl Future<Output = T> + Send + 'static) -> JoinHandle<T> {
    tokio::spawn(task)
}
