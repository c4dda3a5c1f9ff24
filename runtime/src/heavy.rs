//! Work that keeps a processor busy for long: it has few places, and the threads that serve everybody go on without it.

use std::sync::LazyLock;

use tokio::{
    runtime::{Handle, RuntimeFlavor},
    sync::Semaphore,
};

/// Bytes of input above which [`sized`] takes work for heavy.
pub const LARGE: usize = 64 << 10;

/// One processor is left to what is light.
static PLACES: LazyLock<usize> =
    LazyLock::new(|| std::thread::available_parallelism().map_or(1, |n| n.get() - 1).max(1));
static FREE: LazyLock<Semaphore> = LazyLock::new(|| Semaphore::new(*PLACES));

/// How many run at a time: one less than there are processors, at least one.
pub fn places() -> usize {
    *PLACES
}

/// Does the work when there is a place for it, in the order in which it came. What else the thread had to do is done by others
/// meanwhile; a runtime that has one thread only waits for it.
///
/// The rest of the calling task waits in any case. The work must not wait for other work of this kind.
pub async fn run<T>(work: impl FnOnce() -> T) -> T {
    // Nobody closes the semaphore.
    let _place = FREE.acquire().await.ok();
    match Handle::current().runtime_flavor() {
        RuntimeFlavor::CurrentThread => work(),
        _ => tokio::task::block_in_place(work),
    }
}

/// As [`run`] when the input has more than [`LARGE`] bytes; else the work is done at once.
pub async fn sized<T>(bytes: usize, work: impl FnOnce() -> T) -> T {
    if bytes > LARGE { run(work).await } else { work() }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::{
            atomic::{AtomicUsize, Ordering},
            mpsc,
        },
        time::Duration,
    };

    use super::*;
    use crate::tasks::Tasks;

    const LIMIT: Duration = Duration::from_mins(1);

    /// The heavy work ends only when the small task has run, though there is but one thread for tasks.
    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn small_work_is_done_while_heavy_work_goes_on() {
        let tasks = Tasks::new();
        let (started, start) = tokio::sync::oneshot::channel();
        let (small, done) = mpsc::channel();
        let (answer, heavy) = tokio::sync::oneshot::channel();
        tasks.spawn("heavy", async move {
            let result = run(move || {
                let _ = started.send(());
                done.recv_timeout(LIMIT)
            })
            .await;
            let _ = answer.send(result);
        });
        start.await.unwrap();
        tasks.spawn("small", async move {
            let answered = sized(LARGE, || "answered").await;
            let _ = small.send(answered);
        });
        assert_eq!(heavy.await.unwrap(), Ok("answered"));
        assert!(tasks.shutdown(LIMIT).await);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn no_more_run_than_there_are_places() {
        static RUNNING: AtomicUsize = AtomicUsize::new(0);
        static MOST: AtomicUsize = AtomicUsize::new(0);
        let tasks = Tasks::new();
        for _ in 0..64 {
            tasks.spawn("heavy", async {
                sized(LARGE + 1, || {
                    MOST.fetch_max(RUNNING.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                    std::thread::yield_now();
                    RUNNING.fetch_sub(1, Ordering::SeqCst);
                })
                .await;
            });
        }
        assert!(tasks.shutdown(LIMIT).await);
        assert!((1..=places()).contains(&MOST.load(Ordering::SeqCst)));
    }

    #[tokio::test]
    async fn one_thread_does_it_itself() {
        assert_eq!(run(|| 7).await, 7);
    }
}
