//! A bounded load by several clients at once.

use std::time::{Duration, Instant};

use anyhow::Result;
use tokio::task::JoinHandle;

use crate::{process::cpu, samples::Samples};

/// What a load did.
#[derive(Debug, Default)]
pub(crate) struct Done {
    /// Each request's duration.
    pub(crate) latency: Samples,
    /// From the first request to the last answer.
    pub(crate) took: Duration,
    /// CPU time that the server took meanwhile, where its process is known.
    pub(crate) server: Option<Duration>,
    /// CPU time that this process took meanwhile.
    pub(crate) generator: Duration,
}

impl Done {
    /// Requests per second.
    pub(crate) fn rate(&self) -> f64 {
        self.latency.len() as f64 / self.took.as_secs_f64()
    }

    /// CPU time of a request, of the server and of the load generator.
    pub(crate) fn cost(&self) -> String {
        let each = |time: Duration| time.as_secs_f64() * 1e6 / self.latency.len().max(1) as f64;
        let server = self.server.map(|time| format!("server {:.0} us, ", each(time))).unwrap_or_default();
        format!("CPU a request: {server}generator {:.0} us", each(self.generator))
    }
}

/// A client with what it needs to ask again and again.
pub(crate) trait Client: Send + 'static {
    /// Asks for the `n`-th time and waits for the answer.
    fn ask(&mut self, n: usize) -> impl Future<Output = Result<()>> + Send;
}

/// Lets each client ask again and again until `duration` has passed. Clients begin together and each waits for an answer before it
/// asks again. `servers` are the processes whose CPU time is to be told.
pub(crate) async fn run<C: Client>(clients: Vec<C>, duration: Duration, servers: &[u32]) -> Result<Done> {
    let spent = || servers.iter().map(|pid| cpu(*pid)).sum::<Result<Duration>>();
    let (server, generator) = (spent()?, cpu(std::process::id())?);
    let begun = Instant::now();
    let mut tasks = Vec::new();
    for mut client in clients {
        tasks.push(spawn(async move {
            let mut latency = Samples::default();
            let (mut n, mut asked) = (0, Instant::now());
            while asked.duration_since(begun) < duration {
                client.ask(n).await?;
                let answered = Instant::now();
                latency.push(answered - asked);
                asked = answered;
                n += 1;
            }
            anyhow::Ok(latency)
        }));
    }
    let mut done = Done::default();
    for task in tasks {
        done.latency.extend(task.await??);
    }
    done.took = begun.elapsed();
    done.server = (!servers.is_empty()).then_some(spent()?.saturating_sub(server));
    done.generator = cpu(std::process::id())?.saturating_sub(generator);
    Ok(done)
}

/// A task of a load. It ends with its process at the latest.
#[expect(clippy::disallowed_methods, reason = "the load generator has no tasks that outlive a figure")]
pub(crate) fn spawn<T: Send + 'static>(task: impl Future<Output = T> + Send + 'static) -> JoinHandle<T> {
    tokio::spawn(task)
}
