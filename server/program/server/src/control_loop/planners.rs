//! Planning threads and the queues in front of them.
//!
//! Planning may take seconds while the loop, leases and pages continue. Each cluster has at most
//! one plan in progress (see [`queue`]), so an expensive cluster occupies one thread. One thread
//! takes only small plans, so that they never wait for large ones. The threads run at a lower
//! priority than the rest of the process.
//!
//! Searches and plans of disruption have a queue and threads of their own, at the lowest priority: no plan waits
//! for them.

pub(super) mod queue;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::available_parallelism;
use std::time::{Duration, Instant};

use controller::{NewPlanner, PlanAnswer, PlanError, PlanJob, PlanRequest, PlanWorker, Planned, Settings};
use tokio::sync::mpsc;
use tracing::{debug, error, warn};

use queue::{PlannerClass, Queue, Submission};

use super::latency::Latencies;
use fleet_api::background_runtime::{Priority, lower_priority};
use metrics::histogram::PLANS_FAILING_CHECK;

/// Under contention, planning threads get about a tenth of a processor.
const PLANNING: Priority = Priority::Niceness(10);

/// Search threads take what planning threads leave.
const SEARCH: Priority = Priority::Niceness(19);

/// Plans slower than this are logged.
const SLOW_PLAN: Duration = Duration::from_secs(5);

/// Planning threads, which all control loops of the process share.
pub(crate) struct PlannerThreads {
    shared: Arc<Shared>,
    /// Searches and plans of disruption wait here until a plan of their cluster is due.
    searches: Arc<Shared>,
    /// Plans inline when there are no threads. Each plan has a planner of its own, so that clusters
    /// do not wait for one another.
    inline: Option<NewPlanner>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PlanningMode {
    Threads,
    /// In the task of the cluster, which blocks its thread meanwhile.
    Inline,
}

struct Shared {
    started: Instant,
    queue: Mutex<Queue>,
    changed: Condvar,
    latencies: Arc<Latencies>,
}

impl PlannerThreads {
    /// Starts one thread for small plans and, for any plan, two fewer than there are processors, at
    /// least one; and as many for searches as `settings` allow.
    ///
    /// # Errors
    /// When a thread cannot be started.
    pub(crate) fn start(
        planner: NewPlanner,
        planning: PlanningMode,
        settings: &Settings,
        latencies: &Arc<Latencies>,
    ) -> std::io::Result<Arc<Self>> {
        let processors = available_parallelism().map_or(1, usize::from);
        let classes = std::iter::once(PlannerClass::Small)
            .chain((0..processors.saturating_sub(2).max(1)).map(|_| PlannerClass::Any));
        let (shared, searches) = (Arc::new(Shared::new(latencies)), Arc::new(Shared::new(latencies)));
        let inline = (planning == PlanningMode::Inline).then_some(planner);
        if planning == PlanningMode::Threads {
            for (number, class) in classes.enumerate() {
                shared.start_thread((format!("planner-{number}"), PLANNING, class), planner)?;
            }
            for number in 0..search_threads(settings, processors) {
                let worker = (format!("search-{number}"), SEARCH, PlannerClass::Any);
                searches.start_thread(worker, planner)?;
            }
        }
        Ok(Arc::new(Self { shared, searches, inline }))
    }

    /// Queues a plan, which is answered to `answers`. What still waits in the background when a plan of its cluster is due,
    /// or a search, is dropped.
    pub(super) fn submit(&self, job: PlanJob, answers: &mpsc::UnboundedSender<PlanAnswer>) {
        if let Some(new_planner) = self.inline {
            let answer = PlanWorker::new(new_planner()).answer(job.into_request());
            // The receiver is gone once the cluster is released.
            let _sent = answers.send(answer);
            return;
        }
        let dropped = self.searches.queue().remove(job.cluster());
        if let Some(Submission { job, answers }) = dropped {
            let _sent = answers.send(job.into_dropped());
        }
        let queue = if job.is_background() { &self.searches } else { &self.shared };
        queue.push(Submission { job, answers: answers.clone() });
    }
}

impl Drop for PlannerThreads {
    fn drop(&mut self) {
        for shared in [&self.shared, &self.searches] {
            shared.queue().close();
            shared.changed.notify_all();
        }
    }
}

/// Threads for searches, and one at least if disruption is planned.
fn search_threads(settings: &Settings, processors: usize) -> usize {
    let disruption = settings.disruption_share.concurrency().min(processors);
    settings.search.concurrency().max(if settings.consolidation.is_enabled { disruption } else { 0 })
}

impl Shared {
    fn new(latencies: &Arc<Latencies>) -> Self {
        let latencies = Arc::clone(latencies);
        Self { started: Instant::now(), queue: Mutex::default(), changed: Condvar::new(), latencies }
    }

    fn start_thread(
        self: &Arc<Self>,
        (name, priority, class): (String, Priority, PlannerClass),
        planner: NewPlanner,
    ) -> std::io::Result<()> {
        let shared = Arc::clone(self);
        std::thread::Builder::new().name(name).spawn(move || {
            lower_priority(priority);
            shared.plan_until_closed(class, planner);
        })?;
        Ok(())
    }

    fn push(&self, submission: Submission) {
        let at = self.started.elapsed();
        self.queue().push(submission, at);
        self.changed.notify_all();
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        // Every critical section is one assignment or call, so a poisoned lock guards a consistent
        // value.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Plans until the queue is closed.
    fn plan_until_closed(&self, class: PlannerClass, planner: NewPlanner) {
        let mut worker = PlanWorker::new(planner());
        while let Some(Submission { job, answers }) = self.next_submission(class) {
            let (begun, cpu_before) = (Instant::now(), thread_cpu_time());
            let (cluster, is_background) = (job.cluster().clone(), job.is_background());
            let request = job.into_request();
            let built = thread_cpu_time().saturating_sub(cpu_before);
            let pods = request.input.pods.len();
            // The worker is replaced after a panic, so its inconsistent cache is never read.
            let outcome = catch_unwind(AssertUnwindSafe(|| worker.plan(&request))).unwrap_or_else(|_| {
                error!(%cluster, pods, "planner panicked; plan refused");
                worker = PlanWorker::new(planner());
                Err(PlanError::Panicked)
            });
            let took = begun.elapsed();
            if took > SLOW_PLAN && !is_background {
                warn!(%cluster, pods, seconds = took.as_secs_f64(), "slow plan");
            }
            if request.disruption.is_some() {
                self.latencies.disruption.observe(took);
            } else if !request.is_search() {
                self.latencies.planned.observe(took);
            }
            if matches!(outcome, Err(PlanError::Rejected(_))) {
                PLANS_FAILING_CHECK.add(1);
            }
            if request.is_search() {
                log_search(&request, &outcome, took);
            }
            self.queue().finish(&cluster, took);
            self.changed.notify_all();
            let check = if has_removals(&outcome) { built } else { Duration::ZERO };
            let used = thread_cpu_time().saturating_sub(cpu_before) + check;
            // The task that asked may have ended.
            let _sent = answers.send(PlanAnswer { request, outcome, used });
        }
    }

    fn next_submission(&self, class: PlannerClass) -> Option<Submission> {
        let mut queue = self.queue();
        loop {
            if queue.is_closed() {
                return None;
            }
            if let Some(submission) = queue.next(class) {
                return Some(submission);
            }
            queue = self.changed.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// Whether the answer is checked against the cluster, for which its input is built again.
fn has_removals(outcome: &Result<Planned, PlanError>) -> bool {
    matches!(outcome, Ok(Planned::Disruption(plan)) if !plan.commands.is_empty())
}

/// Processor time of the calling thread. Where threads have no clock, nothing that they do counts.
fn thread_cpu_time() -> Duration {
    #[cfg(target_os = "linux")]
    {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
    }
    #[cfg(not(target_os = "linux"))]
    Duration::ZERO
}

fn log_search(request: &PlanRequest, outcome: &Result<Planned, PlanError>, took: Duration) {
    let Ok(Planned::Pods(planned)) = outcome else { return };
    let report = &planned.1;
    let (granted, pods) = (request.input.policy.search_steps, request.input.pods.len());
    let first = report.first_cost.unwrap_or(report.new_cost);
    debug!(
        cluster = %request.cluster,
        pods,
        steps_granted = granted,
        steps = report.search_steps,
        first_usd_per_hour = %first,
        usd_per_hour = %report.new_cost,
        millis = took.as_millis(),
        "plan searched"
    );
}
