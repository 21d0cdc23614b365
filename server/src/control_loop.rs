//! The loop: one task owns what this process decides, chooses what to look at next, and does nothing else.
//!
//! What is to be done is said by [`Replica`], which has no I/O. Whatever waits for somebody (store, cloud) is a work of its
//! own in [`works`]; plans are made by threads of their own ([`planners`]), and leases renewed by another ([`keeper`]). What
//! comes of them is one more thing to look at. Here is only the clock.
//!
//! Reading order: [`replica`] (what follows from what), [`ControlLoop::run`], [`works`] (calls to store and cloud),
//! [`records`] and [`intents`] (decisions and launches as rows), [`fence`] (until when a lease may be acted on), [`region`]
//! (who asks the cloud for its machines), [`exchange`] (what replicas tell each other for the rails), [`showcase`] (what people
//! see), [`latency`] (how quick it is), [`traces`].

pub(crate) mod exchange;
pub(crate) mod fence;
mod heartbeat;
mod intents;
pub(crate) mod keeper;
mod latency;
mod planners;
mod records;
mod region;
pub(crate) mod replica;
mod showcase;
mod steps;
mod traces;
pub(crate) mod works;

use std::sync::Arc;
use std::time::Duration;

use cloud::provider::CloudProvider;
use engine::control::{Planner, RegionController};
use engine::model::Timestamp;
use futures::FutureExt;
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, Interval, MissedTickBehavior};
use tokio_util::sync::CancellationToken;
use tracing::{Instrument, warn};

use crate::clock;
use crate::config::LeaseConfig;
use crate::log::DecisionLog;
use crate::session::{SessionEvent, Sessions};
use crate::store::Store;
use crate::store::lease::{Lease, Scope};
use crate::store::rails::Changes;
use crate::views::Publisher;
use fence::Fence;
pub(crate) use heartbeat::Heartbeat;
use keeper::{Keeper, Roster};
pub(crate) use latency::Latencies;
use latency::Stopwatch;
pub(crate) use planners::Place;
use planners::Planners;
use replica::{Call, Input, Output, Replica};
use showcase::Showcase;
use steps::Step;
use traces::Traces;
use works::Hands;

/// How often the cloud is asked what has happened by itself. A real one tells by a queue that is read as fast.
const CLOUD_POLL: Duration = Duration::from_millis(250);

/// How long calls that are under way may take to end when the process is told to stop. Agents wait for it.
const LAST_CALLS: Duration = Duration::from_millis(500);

/// How long the store may take to have the leases back. That takes milliseconds; one that is slow is waited for, because
/// leases that are not given back keep their clusters from everybody for far longer.
const LAST_WORD: Duration = Duration::from_secs(5);

/// After it was asked what the passing of time brings, events that have come are taken in for as long as that took, within these
/// bounds. However many events come, they do not keep it from being asked; and what it brings, a plan for one cluster at most,
/// does not keep events waiting for long. When there is too little time for both, plans get more of it: people wait for them.
const EVENTS_BETWEEN: [Duration; 2] = [Duration::from_millis(2), Duration::from_millis(5)];

/// What is overdue and cannot be done yet is asked about again after this long, though nothing else happens.
const PAUSE: Duration = Duration::from_millis(1);

/// Leases that are taken at one time. A thousand agents that come back at once wait here, and not for a connection, which the
/// store gives up waiting for; and decisions are written meanwhile, since the store has more connections than that.
const TURNS: usize = 4;

/// What the loop is made of.
pub(crate) struct ControlLoop<C> {
    /// Decides.
    pub(crate) controller: RegionController,
    /// Plans.
    pub(crate) planner: Planner,
    /// Where that is done.
    pub(crate) place: Place,
    /// The way to agents.
    pub(crate) sessions: Sessions,
    /// What survives.
    pub(crate) store: Arc<dyn Store>,
    /// Where machines come from.
    pub(crate) cloud: Arc<C>,
    /// Ownership of clusters.
    pub(crate) lease: LeaseConfig,
    /// The account's region that machines are bought in.
    pub(crate) region: Scope,
    /// What people see.
    pub(crate) publisher: Publisher,
    /// Between two listings of the cloud's machines; `None` asks for none.
    pub(crate) listing: Option<Duration>,
    /// How quick it is.
    pub(crate) latencies: Arc<Latencies>,
    /// Whether it comes round.
    pub(crate) heartbeat: Arc<Heartbeat>,
}

/// What to look at next.
enum Next {
    Stop,
    /// Apart from the others in size by far.
    Happened(Box<Input>),
    Time,
    Show,
}

impl Next {
    fn happened(input: Input) -> Self {
        Self::Happened(Box::new(input))
    }
}

struct Running<C> {
    replica: Replica,
    sessions: Sessions,
    hands: Arc<Hands<C>>,
    planners: Planners,
    keeper: Keeper,
    heartbeat: Arc<Heartbeat>,
    showcase: Showcase,
    works: JoinSet<Input>,
    stopwatch: Stopwatch,
    latencies: Arc<Latencies>,
    traces: Traces,
    /// When it was last asked what the passing of time brings.
    asked: Instant,
    /// From when on that comes before events that have come.
    time_again: Instant,
    turns: Arc<Semaphore>,
}

impl<C: CloudProvider + 'static> ControlLoop<C> {
    /// Runs until `stop`. Then nothing is decided any more, calls that are under way may end, and every lease is given back.
    ///
    /// # Errors
    /// When a work of the loop panicked: what it was about is not known any more; when the system gives no threads.
    pub(crate) async fn run(
        self,
        mut heard: mpsc::Receiver<SessionEvent>,
        stop: CancellationToken,
    ) -> anyhow::Result<()> {
        let renewal = (self.lease.duration / 3).max(Duration::from_millis(100));
        let mut listings = self.listing.map(tokio::time::interval);
        let mut changes = self.store.changes();
        let mut wishes = changes.borrow_and_update().leases;
        let mut running = Running::new(self, renewal)?;
        let mut polls = tokio::time::interval(CLOUD_POLL);
        let mut exchanges = tokio::time::interval(exchange::INTERVAL);
        exchanges.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut renewals = tokio::time::interval(renewal);
        // Two renewals at once prolong nothing that one does not.
        renewals.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            running.heartbeat.beat();
            // Whatever else there is to do: without its leases this process may do nothing of it.
            if renewals.tick().now_or_never().is_some() {
                running.happened(Input::RenewalDue).await;
            }
            let wakeup = running.wakeup();
            if wakeup.max(running.time_again) <= Instant::now() {
                running.time_passed().await;
                continue;
            }
            // What comes rarely comes first, so that what comes often does not keep it waiting; time comes last, and its turn is
            // above.
            let next = tokio::select! {
                biased;
                () = stop.cancelled() => Next::Stop,
                _ = polls.tick() => Next::happened(Input::CloudPoll),
                _ = renewals.tick() => Next::happened(Input::RenewalDue),
                Ok(number) = new_wishes(&mut changes, wishes) => {
                    wishes = number;
                    Next::happened(Input::Wished)
                }
                _ = exchanges.tick() => Next::happened(Input::ExchangeDue),
                () = due(listings.as_mut()) => Next::happened(Input::ListingDue),
                () = running.showcase.due() => Next::Show,
                Some(renewal) = running.keeper.next() => Next::happened(Input::Renewed(renewal)),
                Some(answer) = running.planners.next() => Next::happened(Input::Planned(Box::new(answer))),
                Some(done) = running.works.join_next() => Next::happened(done?),
                Some(event) = heard.recv() => Next::happened(Input::Heard(event)),
                () = tokio::time::sleep_until(wakeup) => Next::Time,
            };
            match next {
                Next::Stop => break,
                Next::Happened(input) => running.happened(*input).await,
                Next::Time => running.time_passed().await,
                Next::Show => {
                    let step = Step::begin("the view for people");
                    running.showcase.go_on(running.replica.controller(), clock::now());
                    step.end(&running.latencies.spent);
                }
            }
        }
        running.end().await;
        Ok(())
    }
}

impl<C: CloudProvider + 'static> Running<C> {
    fn new(parts: ControlLoop<C>, renewal: Duration) -> std::io::Result<Self> {
        let ControlLoop { controller, planner, place, sessions, store, cloud, lease, region, publisher, .. } = parts;
        let (latencies, heartbeat) = (parts.latencies, parts.heartbeat);
        let replica = Replica::new(controller, clock::now().0.unsigned_abs(), region);
        let (fence, roster) = (Arc::new(Fence::new()), Arc::<Roster>::default());
        let hands = Arc::new(Hands { store, cloud, lease, fence, roster, log: DecisionLog::default() });
        Ok(Self {
            replica,
            sessions,
            keeper: Keeper::start(hands.renewer(), renewal, Arc::clone(&heartbeat))?,
            heartbeat,
            planners: Planners::start(planner, place)?,
            hands,
            showcase: Showcase::new(publisher),
            works: JoinSet::new(),
            stopwatch: Stopwatch::new(Arc::clone(&latencies)),
            latencies,
            traces: Traces::default(),
            asked: Instant::now(),
            time_again: Instant::now(),
            turns: Arc::new(Semaphore::new(TURNS)),
        })
    }

    /// When it is to be asked what the passing of time brings.
    fn wakeup(&self) -> Instant {
        let wait = self.replica.next_wakeup().map_or(i64::MAX, |due| due.millis_since(clock::now()));
        // A longer sleep would not notice a clock that was set.
        let wait = Duration::from_millis(wait.max(0).unsigned_abs()).min(Duration::from_secs(1));
        (Instant::now() + wait).max(self.asked + PAUSE)
    }

    async fn time_passed(&mut self) {
        let begun = Instant::now();
        self.happened(Input::Time).await;
        self.asked = Instant::now();
        let [least, most] = EVENTS_BETWEEN;
        self.time_again = self.asked + begun.elapsed().clamp(least, most);
    }

    async fn happened(&mut self, input: Input) {
        let now = clock::now();
        self.traces.ended(&input);
        let step = Step::of(&input);
        let outputs = self.replica.handle(input, now);
        step.end(&self.latencies.spent);
        let step = Step::begin("passing on what follows");
        self.stopwatch.look_at(&outputs, clock::now());
        for output in outputs {
            match output {
                Output::Accept { cluster, epoch } => self.sessions.accept(&cluster, epoch).await,
                Output::Refuse { cluster, reason } => self.sessions.refuse(&cluster, reason).await,
                Output::Instruct { cluster, id, instruction, deadline } => {
                    self.traces.instructed(&cluster, &instruction);
                    self.sessions.instruct(&cluster, id, *instruction, deadline).await;
                }
                Output::Call(Call::Renew(leases)) => self.keeper.ask(leases),
                Output::Call(call) => self.call(call, now),
                Output::Plan(request) => self.planners.submit(*request),
                Output::Resync { cluster, reason } => self.sessions.resync(&cluster, reason.to_string()).await,
                Output::Show(cluster) => self.showcase.note(cluster),
            }
        }
        step.end(&self.latencies.spent);
    }

    fn call(&mut self, call: Call, now: Timestamp) {
        let hands = Arc::clone(&self.hands);
        let turns = matches!(call, Call::TakeLease { .. }).then(|| Arc::clone(&self.turns));
        let span = self.traces.of(&call, now);
        let work = async move {
            let _turn = match turns {
                // Nobody closes them.
                Some(turns) => turns.acquire_owned().await.ok(),
                None => None,
            };
            let Some((by, late)) = call.limit() else { return hands.make(call).await };
            let patience = Duration::from_millis(by.millis_since(now).unsigned_abs());
            let done = tokio::time::timeout(patience, hands.make(call)).await.unwrap_or(late);
            traces::note(&done);
            done
        };
        self.works.spawn(work.instrument(span));
    }

    /// A launch whose answer is on its way is written down, so that nobody has to ask again. What comes of it is the
    /// successor's affair.
    async fn end(mut self) {
        let calls = async { while self.works.join_next().await.is_some() {} };
        if tokio::time::timeout(LAST_CALLS, calls).await.is_err() {
            warn!("calls were still under way; their outcomes are asked for again by whoever comes next");
        }
        if tokio::time::timeout(LAST_CALLS, self.last_words()).await.is_err() {
            warn!("the store does not take what came and went lately; the other replicas do not count it");
        }
        let leases: Vec<Lease> = self.replica.leases().cloned().collect();
        if tokio::time::timeout(LAST_WORD, self.hands.release(&leases)).await.is_err() {
            warn!("the store does not take the leases back; they run out by themselves");
        }
    }

    async fn last_words(&mut self) {
        if let Some(telling) = self.replica.last_words(clock::now()) {
            self.hands.tell(self.replica.life(), &telling).await;
        }
    }
}

/// The number of wishes for leases, when it is another than `known`.
async fn new_wishes(changes: &mut watch::Receiver<Changes>, known: u64) -> Result<u64, watch::error::RecvError> {
    Ok(changes.wait_for(|changes| changes.leases != known).await?.leases)
}

/// The next tick; never, without a ticker.
async fn due(ticks: Option<&mut Interval>) {
    match ticks {
        Some(ticks) => {
            ticks.tick().await;
        }
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests;
