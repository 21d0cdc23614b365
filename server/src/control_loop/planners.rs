//! Planning threads and the queue in front of them.
//!
//! Planning may take seconds while the loop, leases and pages continue. Each cluster has at most
//! one plan in progress (see [`queue`]), so an expensive cluster occupies one thread. One thread
//! takes only small plans, so that they never wait for large ones. The threads run at a lower
//! priority than the rest of the process.

pub(super) mod queue;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::available_parallelism;
use std::time::Instant;

use controller::{NewPlanner, PlanAnswer, PlanError, PlanRequest, PlanWorker};
use tokio::sync::mpsc;
use tracing::{error, warn};

use queue::{PlannerClass, Queue};

/// Added to the niceness of planning threads: under contention they get about a tenth of a
/// processor.
const NICENESS: i32 = 10;

/// Plans slower than this are logged.
const SLOW_PLAN: std::time::Duration = std::time::Duration::from_secs(5);

/// Planning threads.
pub(super) struct Planners {
    shared: Arc<Shared>,
    answers: mpsc::UnboundedSender<PlanAnswer>,
    /// Plans inline when there are no threads. Each plan has a planner of its own, so that clusters
    /// do not wait for one another.
    inline: Option<NewPlanner>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PlanningMode {
    /// On dedicated threads.
    Threads,
    /// In the task of the cluster, which blocks its thread meanwhile.
    Inline,
}

struct Shared {
    started: Instant,
    queue: Mutex<Queue>,
    changed: Condvar,
}

impl Planners {
    /// Starts one thread for small plans and, for any plan, two fewer than there are processors, at
    /// least one.
    ///
    /// # Errors
    /// When a thread cannot be started.
    pub(super) fn start(
        planner: NewPlanner,
        planning: PlanningMode,
    ) -> std::io::Result<(Self, mpsc::UnboundedReceiver<PlanAnswer>)> {
        let processors = available_parallelism().map_or(1, usize::from);
        let classes = std::iter::once(PlannerClass::Small)
            .chain((0..processors.saturating_sub(2).max(1)).map(|_| PlannerClass::Any));
        let shared = Arc::new(Shared { started: Instant::now(), queue: Mutex::default(), changed: Condvar::new() });
        let (answer_sender, receiver) = mpsc::unbounded_channel();
        let inline = (planning == PlanningMode::Inline).then_some(planner);
        let classes = classes.filter(|_| planning == PlanningMode::Threads);
        for (number, class) in classes.enumerate() {
            let (shared, answer_sender) = (Arc::clone(&shared), answer_sender.clone());
            let thread = std::thread::Builder::new().name(format!("planner-{number}"));
            thread.spawn(move || shared.plan_until_closed(class, planner, &answer_sender))?;
        }
        Ok((Self { shared, answers: answer_sender, inline }, receiver))
    }

    /// Queues a plan.
    pub(super) fn submit(&self, request: PlanRequest) {
        if let Some(new_planner) = self.inline {
            let answer = PlanWorker::new(new_planner()).answer(request);
            // The receiver is gone once the process stops.
            let _sent = self.answers.send(answer);
            return;
        }
        let at = self.shared.started.elapsed();
        self.shared.queue().push(request, at);
        self.shared.changed.notify_all();
    }
}

impl Drop for Planners {
    fn drop(&mut self) {
        self.shared.queue().close();
        self.shared.changed.notify_all();
    }
}

impl Shared {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        // Every critical section is one assignment or call, so a poisoned lock guards a consistent
        // value.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Plans until the queue is closed.
    fn plan_until_closed(
        &self,
        class: PlannerClass,
        planner: NewPlanner,
        answer_sender: &mpsc::UnboundedSender<PlanAnswer>,
    ) {
        lower_priority();
        let mut worker = PlanWorker::new(planner());
        while let Some(request) = self.next_request(class) {
            let begun = Instant::now();
            let (cluster, pods) = (request.cluster.clone(), request.input.pods.len());
            // The worker is replaced after a panic, so its inconsistent cache is never read.
            let outcome = catch_unwind(AssertUnwindSafe(|| worker.plan(&request.input))).unwrap_or_else(|_| {
                error!(%cluster, pods, "planner panicked; plan refused");
                worker = PlanWorker::new(planner());
                Err(PlanError::Panicked)
            });
            let took = begun.elapsed();
            if took > SLOW_PLAN {
                warn!(%cluster, pods, seconds = took.as_secs_f64(), "slow plan");
            }
            self.queue().finish(&cluster, took);
            self.changed.notify_all();
            if answer_sender.send(PlanAnswer { request, outcome }).is_err() {
                return;
            }
        }
    }

    fn next_request(&self, class: PlannerClass) -> Option<PlanRequest> {
        let mut queue = self.queue();
        loop {
            if queue.is_closed() {
                return None;
            }
            if let Some(request) = queue.next(class) {
                return Some(request);
            }
            queue = self.changed.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// Lowers the priority of the calling thread. Planning works without it.
fn lower_priority() {
    #[cfg(target_os = "linux")]
    if let Err(error) = rustix::process::setpriority_process(Some(rustix::thread::gettid()), NICENESS) {
        warn!(%error, "cannot lower priority of planning thread");
    }
}
