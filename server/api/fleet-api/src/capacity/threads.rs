//! Threads that quote and plan for the API, apart from those that decide.
//!
//! Each thread of quotes has its own clusters, so that they are prepared once and no thread waits for another. What is prepared
//! before a quote asks for it, and plans that change nothing, are made on threads beside them, so that no quote waits for them.
//! The number of requests in progress is bounded.

use std::hash::BuildHasher;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, mpsc};
use std::thread::available_parallelism;
use std::time::Duration;

use model::{ClusterName, Stop};
use planner::CompileCache;
use quote::LaunchSettings;
use rustc_hash::FxBuildHasher;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tonic::Status;
use tracing::error;

use super::estimates::Estimates;
use super::known_facts::KnownFacts;
use super::what_if::{WhatIfPlan, WhatIfResult};
use super::worker::{AskedCluster, Job, Prepared, Worker};
use crate::background_runtime::{BackgroundRuntime, Priority, lower_priority};
use api_messages::errors::{Reason, retry_after};

/// Most threads; more than that would take memory for little.
const MOST_THREADS: usize = 4;

/// A client waits for a quote, but less than pods wait for decisions, whose threads keep their priority. Planners have a
/// niceness of 10 and searches of 19.
const QUOTES: Priority = Priority::Niceness(5);

/// Plans of clients and what is prepared before a quote asks for it: neither may delay another client by a time slice.
const BESIDE_QUOTES: Priority = Priority::Idle;

/// Threads that read requests for quotes and holds, and as many that read requests for plans.
const REQUEST_THREADS: usize = 2;

/// Requests in progress at one time.
const CONCURRENT: usize = 16;

/// When a refused request may be tried again.
pub(super) const RETRY_AFTER: Duration = Duration::from_millis(500);

/// A thread without a job for this long drops what it has prepared.
const IDLE: Duration = Duration::from_mins(10);

/// What the threads beside those of quotes do.
enum LongJob {
    /// Prepares a cluster. The caller is told when the thread of its quotes has taken it.
    Prepare { cluster: Box<AskedCluster>, taken: oneshot::Sender<()> },
    /// Plans a cluster, which changes nothing.
    Plan { plan: Box<WhatIfPlan>, stop: Stop, answer: oneshot::Sender<WhatIfResult> },
}

/// The threads. They end when the last clone is dropped.
#[derive(Clone)]
pub struct CapacityThreads {
    queues: Arc<[mpsc::Sender<Job>]>,
    /// For each of the threads one that prepares its clusters and plans them.
    long_queues: Arc<[mpsc::Sender<LongJob>]>,
    known: Arc<KnownFacts>,
    places: Arc<Semaphore>,
    pub(super) requests: Arc<BackgroundRuntime>,
    pub(super) plan_requests: Arc<BackgroundRuntime>,
}

impl CapacityThreads {
    /// Starts a thread for each processor, at most [`MOST_THREADS`].
    ///
    /// # Errors
    /// A thread could not start.
    pub fn start(estimates: &Arc<Estimates>) -> std::io::Result<Self> {
        let threads = available_parallelism().map_or(1, usize::from).min(MOST_THREADS);
        Self::start_some(threads, estimates)
    }

    fn start_some(threads: usize, estimates: &Arc<Estimates>) -> std::io::Result<Self> {
        let (known, settings) = (Arc::<KnownFacts>::default(), Arc::<LaunchSettings>::default());
        let (mut queues, mut long_queues) = (Vec::with_capacity(threads), Vec::with_capacity(threads));
        for number in 0..threads {
            let (queue, jobs) = mpsc::channel();
            let worker = Worker::new(Arc::clone(estimates), Arc::clone(&known), Arc::clone(&settings));
            start_thread(format!("quotes-{number}"), QUOTES, move || work(&jobs, worker))?;
            let (long_queue, long_jobs) = mpsc::channel();
            let (prepared, settings) = (queue.clone(), Arc::clone(&settings));
            let work = move || work_long(&long_jobs, &prepared, &settings);
            start_thread(format!("prepare-{number}"), BESIDE_QUOTES, work)?;
            queues.push(queue);
            long_queues.push(long_queue);
        }
        let requests = Arc::new(BackgroundRuntime::start("requests", REQUEST_THREADS, Some(QUOTES))?);
        let plan_requests = Arc::new(BackgroundRuntime::start("plan-requests", REQUEST_THREADS, Some(BESIDE_QUOTES))?);
        let places = Arc::new(Semaphore::new(CONCURRENT));
        Ok(Self { queues: queues.into(), long_queues: long_queues.into(), known, places, requests, plan_requests })
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

    pub(crate) fn known(&self) -> &KnownFacts {
        &self.known
    }

    /// Drops the clusters but those that `is_kept`.
    pub fn retain(&self, is_kept: impl Fn(&ClusterName) -> bool) {
        for cluster in self.known.retain(is_kept) {
            self.submit(self.of(&cluster), Job::Forget(cluster));
        }
    }

    /// The thread that has a cluster.
    pub fn of(&self, cluster: &ClusterName) -> usize {
        (FxBuildHasher.hash_one(cluster) >> 32) as usize % self.queues.len()
    }

    /// Queues the preparation of a cluster for the quotes to come. The answer comes when its thread has taken it.
    pub(crate) fn prepare(&self, cluster: AskedCluster) -> oneshot::Receiver<()> {
        let (taken, is_taken) = oneshot::channel();
        let queue = &self.long_queues[self.of(&cluster.name)];
        let _sent = queue.send(LongJob::Prepare { cluster: Box::new(cluster), taken });
        is_taken
    }

    /// Queues a plan of a cluster, which ends early once `stop` is due. Its answer is dropped if it panics.
    pub(crate) fn plan(&self, cluster: &ClusterName, plan: WhatIfPlan, stop: Stop) -> oneshot::Receiver<WhatIfResult> {
        let (answer, planned) = oneshot::channel();
        let _sent = self.long_queues[self.of(cluster)].send(LongJob::Plan { plan: Box::new(plan), stop, answer });
        planned
    }

    /// Queues a job. It is dropped, with its answer, if the thread has ended.
    pub(crate) fn submit(&self, thread: usize, job: Job) {
        let _sent = self.queues[thread].send(job);
    }
}

fn start_thread(name: String, priority: Priority, run: impl FnOnce() + Send + 'static) -> std::io::Result<()> {
    std::thread::Builder::new().name(name).spawn(move || {
        lower_priority(priority);
        run();
    })?;
    Ok(())
}

/// Does the jobs until their senders are gone.
fn work_long(jobs: &mpsc::Receiver<LongJob>, quotes: &mpsc::Sender<Job>, settings: &LaunchSettings) {
    for job in jobs {
        let done = catch_unwind(AssertUnwindSafe(|| match job {
            LongJob::Prepare { cluster, taken } => {
                let prepared = Prepared::new(*cluster, settings).map(Box::new);
                // A thread that has ended takes none.
                let _sent = prepared.map(|cluster| quotes.send(Job::Take { cluster, taken }));
            }
            // The caller may have gone. Such plans are rare: what they share is not kept.
            LongJob::Plan { plan, stop, answer } if !answer.is_closed() => {
                drop(answer.send(plan.run(&mut CompileCache::default(), &stop)));
            }
            LongJob::Plan { .. } => {}
        }));
        if done.is_err() {
            error!("preparation of a cluster for quotes, or a plan for a client, panicked");
        }
    }
}

/// Does the jobs until their senders are gone.
fn work(jobs: &mpsc::Receiver<Job>, mut worker: Worker) {
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
