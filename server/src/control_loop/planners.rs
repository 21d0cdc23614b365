//! Threads that plan, and the queue before them.
//!
//! A plan may take seconds; the loop, leases and pages go on meanwhile. Each cluster has one plan at a time ([`queue`] sees
//! to that too), so that a cluster whose plans are dear takes one thread at most; one thread takes small plans only, so that
//! those never wait for large ones. The threads give way to everything else that this process does.

pub(super) mod queue;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::available_parallelism;
use std::time::Instant;

use engine::control::{PlanAnswer, PlanRequest, PlanWorker, Planner};
use tokio::sync::mpsc;
use tracing::{error, warn};

use queue::{Lane, Queue};

/// What is added to the niceness of planning threads: they get about a tenth of a processor that something else wants as well.
const NICENESS: i32 = 10;

/// A plan that takes longer is worth a line.
const LONG: std::time::Duration = std::time::Duration::from_secs(5);

/// Planning threads, and what they have answered.
pub(super) struct Planners {
    shared: Arc<Shared>,
    give: mpsc::UnboundedSender<PlanAnswer>,
    answers: mpsc::UnboundedReceiver<PlanAnswer>,
    /// Plans where it is asked to, when it has no threads.
    here: Option<PlanWorker>,
}

/// Where plans are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// On threads of their own.
    Apart,
    /// In the loop, which waits for them.
    InTheLoop,
}

struct Shared {
    started: Instant,
    queue: Mutex<Queue>,
    changed: Condvar,
}

impl Planners {
    /// Threads for this machine: with small plans on one of them, fewer than it has processors, and two at least.
    ///
    /// # Errors
    /// When the system gives no threads.
    pub(super) fn start(planner: Planner, place: Place) -> std::io::Result<Self> {
        let processors = available_parallelism().map_or(1, usize::from);
        let lanes = std::iter::once(Lane::Small).chain((0..processors.saturating_sub(2).max(1)).map(|_| Lane::Any));
        let shared = Arc::new(Shared { started: Instant::now(), queue: Mutex::default(), changed: Condvar::new() });
        let (give, answers) = mpsc::unbounded_channel();
        let here = (place == Place::InTheLoop).then(|| PlanWorker::new(planner));
        let lanes = lanes.filter(|_| place == Place::Apart);
        for (number, lane) in lanes.enumerate() {
            let (shared, give) = (Arc::clone(&shared), give.clone());
            let thread = std::thread::Builder::new().name(format!("planner-{number}"));
            thread.spawn(move || shared.work(lane, planner, &give))?;
        }
        Ok(Self { shared, give, answers, here })
    }

    /// Has a plan made; its answer comes by [`Planners::next`].
    pub(super) fn submit(&mut self, request: PlanRequest) {
        if let Some(worker) = &mut self.here {
            // The receiving end is here too.
            let _taken = self.give.send(worker.answer(request));
            return;
        }
        let at = self.shared.started.elapsed();
        self.shared.queue().push(request, at);
        self.shared.changed.notify_all();
    }

    /// The next answer.
    pub(super) async fn next(&mut self) -> Option<PlanAnswer> {
        self.answers.recv().await
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
        // Every change is one step, so a panic elsewhere does not spoil it.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Plans until the queue is closed.
    fn work(&self, lane: Lane, planner: Planner, give: &mpsc::UnboundedSender<PlanAnswer>) {
        give_way();
        let mut worker = PlanWorker::new(planner);
        while let Some(request) = self.take(lane) {
            let begun = Instant::now();
            let (cluster, pods) = (request.cluster.clone(), request.input.pods.len());
            // The worker is not used after a panic, so what it kept half-way is not either.
            let outcome = catch_unwind(AssertUnwindSafe(|| worker.plan(&request.input))).unwrap_or_else(|_| {
                error!(%cluster, pods, "the planner panicked; the plan is refused");
                worker = PlanWorker::new(planner);
                Err("the planner panicked: this is a fault of the program".to_owned())
            });
            let took = begun.elapsed();
            if took > LONG {
                warn!(%cluster, pods, seconds = took.as_secs_f64(), "a plan took long");
            }
            self.queue().done(&cluster, took);
            self.changed.notify_all();
            if give.send(PlanAnswer { request, outcome }).is_err() {
                return;
            }
        }
    }

    fn take(&self, lane: Lane) -> Option<PlanRequest> {
        let mut queue = self.queue();
        loop {
            if queue.is_closed() {
                return None;
            }
            if let Some(request) = queue.next(lane) {
                return Some(request);
            }
            queue = self.changed.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// Lowers the priority of the calling thread. Where that is not possible it plans all the same.
fn give_way() {
    #[cfg(target_os = "linux")]
    if let Err(error) = rustix::process::setpriority_process(Some(rustix::thread::gettid()), NICENESS) {
        warn!(%error, "planning threads keep the priority of all others");
    }
}
