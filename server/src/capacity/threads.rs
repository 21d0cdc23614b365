//! Threads that quote and plan for the API, apart from those that decide.
//!
//! Each thread keeps its own clusters prepared, so that they are prepared once and no thread waits for another. The number of
//! requests in progress is bounded.

use std::hash::BuildHasher;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, mpsc};
use std::thread::available_parallelism;
use std::time::Duration;

use model::ClusterName;
use rustc_hash::FxBuildHasher;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tonic::Status;
use tracing::error;

use super::errors::{Reason, retry_after};
use super::estimates::Estimates;
use super::known_facts::KnownFacts;
use super::worker::{Job, Worker};
use crate::control_loop::lower_priority;

/// Most threads; more than that would take memory for little.
const MOST_THREADS: usize = 4;

/// Added to the niceness of the threads: that of planners, above searches (19). Below it, a quote waits for searches.
const NICENESS: i32 = 10;

/// Requests in progress at one time.
const CONCURRENT: usize = 16;

/// When a refused request may be tried again.
const RETRY_AFTER: Duration = Duration::from_millis(500);

/// A thread without a job for this long drops what it has prepared.
const IDLE: Duration = Duration::from_mins(10);

/// The threads. They end when the last clone is dropped.
#[derive(Clone)]
pub(crate) struct CapacityThreads {
    queues: Arc<[mpsc::Sender<Job>]>,
    known: Arc<KnownFacts>,
    places: Arc<Semaphore>,
}

impl CapacityThreads {
    /// Starts a thread for each processor, at most [`MOST_THREADS`].
    ///
    /// # Errors
    /// A thread could not start.
    pub(crate) fn start(estimates: &Arc<Estimates>) -> std::io::Result<Self> {
        let threads = available_parallelism().map_or(1, usize::from).min(MOST_THREADS);
        Self::start_some(threads, estimates)
    }

    fn start_some(threads: usize, estimates: &Arc<Estimates>) -> std::io::Result<Self> {
        let known = Arc::<KnownFacts>::default();
        let mut queues = Vec::with_capacity(threads);
        for number in 0..threads {
            let (queue, jobs) = mpsc::channel();
            let (estimates, known) = (Arc::clone(estimates), Arc::clone(&known));
            std::thread::Builder::new().name(format!("quotes-{number}")).spawn(move || {
                lower_priority(NICENESS);
                work(&jobs, &estimates, &known);
            })?;
            queues.push(queue);
        }
        Ok(Self { queues: queues.into(), known, places: Arc::new(Semaphore::new(CONCURRENT)) })
    }

    /// The place of a request until it is dropped.
    ///
    /// # Errors
    /// `RESOURCE_EXHAUSTED` while too many requests are in progress.
    pub(crate) fn admit(&self) -> Result<OwnedSemaphorePermit, Status> {
        Arc::clone(&self.places).try_acquire_owned().map_err(|_| {
            let message = format!("{CONCURRENT} quotes and plans are in progress: try again, or ask another replica");
            retry_after(Reason::TooManyRequests, message, RETRY_AFTER)
        })
    }

    /// Which facts the threads have.
    pub(crate) fn known(&self) -> &KnownFacts {
        &self.known
    }

    /// Drops the clusters but those that `is_kept`.
    pub(crate) fn retain(&self, is_kept: impl Fn(&ClusterName) -> bool) {
        for cluster in self.known.retain(is_kept) {
            self.submit(self.of(&cluster), Job::Forget(cluster));
        }
    }

    /// The thread that has a cluster.
    pub(crate) fn of(&self, cluster: &ClusterName) -> usize {
        (FxBuildHasher.hash_one(cluster) >> 32) as usize % self.queues.len()
    }

    /// Queues a job. It is dropped, with its answer, if the thread has ended.
    pub(crate) fn submit(&self, thread: usize, job: Job) {
        let _sent = self.queues[thread].send(job);
    }
}

/// Does the jobs until their senders are gone.
fn work(jobs: &mpsc::Receiver<Job>, estimates: &Arc<Estimates>, known: &Arc<KnownFacts>) {
    let mut worker = Worker::new(Arc::clone(estimates), Arc::clone(known));
    loop {
        let job = match jobs.recv_timeout(IDLE) {
            Ok(job) => job,
            Err(mpsc::RecvTimeoutError::Timeout) => {
                worker.clear();
                continue;
            }
            Err(mpsc::RecvTimeoutError::Disconnected) => return,
        };
        let described = job.describe();
        if catch_unwind(AssertUnwindSafe(|| worker.run(job))).is_err() {
            error!(job = described, "thread of quotes panicked; request failed");
            // What it has prepared may be inconsistent.
            worker.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use tonic::Code;
    use tonic_types::StatusExt;

    use super::*;

    fn threads(count: usize) -> CapacityThreads {
        CapacityThreads::start_some(count, &Arc::default()).expect("threads start")
    }

    #[test]
    fn requests_beyond_the_limit_are_refused_with_a_delay_until_another_one_ends() {
        let threads = threads(1);
        let mut places: Vec<OwnedSemaphorePermit> =
            (0..CONCURRENT).map(|_| threads.admit().expect("there is a place")).collect();
        let refused = threads.admit().expect_err("all places are taken");
        assert_eq!(refused.code(), Code::ResourceExhausted);
        let details = refused.get_error_details();
        assert_eq!(details.retry_info().and_then(|info| info.retry_delay), Some(RETRY_AFTER));
        places.pop();
        assert!(threads.admit().is_ok());
    }

    #[test]
    fn a_cluster_stays_on_its_thread_and_clusters_are_spread_over_all() {
        let threads = threads(3);
        let mut used = [0; 3];
        for number in 0..300 {
            let cluster = ClusterName::from(format!("cluster-{number}"));
            let thread = threads.of(&cluster);
            assert_eq!(thread, threads.of(&cluster));
            used[thread] += 1;
        }
        assert!(used.iter().all(|count| *count > 50), "{used:?}");
    }
}
