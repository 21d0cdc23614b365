//! A server process: the real replica, the real sessions, and works that are under way. What a runtime would do is done here
//! step by step, and between any two steps the process may die.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use engine::control::guardrails::settings::CircuitBreakerRule;
use engine::control::{
    self, ClusterId, Decision, DecisionKind, Event, LaunchFailure, PlanRequest, PlanWorker, Planner, RegionController,
};
use engine::model::{Text, Timestamp};
use executor::{Command, CommandId, Outcome};

use super::clockwork::Work;
use super::guard::Guard;
use super::outside::{Incarnation, LaunchEnd};
use super::port::{self, Port};
use super::stage::{ForAgent, ForProcess, Stage};
use crate::config::LeaseConfig;
use crate::control_loop::fence::Fence;
use crate::control_loop::replica::{Call, Input, Output, Replica};
use crate::control_loop::works::Hands;
use crate::fleet::news;
use crate::log::DecisionLog;
use crate::session::state::Output as Said;
use crate::session::{self, Interner, ReadPools, Session, SessionEvent};
use crate::store::lease::Scope;

/// Between two looks of the sessions at the clock. A server's are a second apart, which nobody could tell from this: silence
/// and deadlines are counted in tens of seconds.
const BEAT_MS: i64 = 5_000;

/// Clusters that a server lets in at one time: so few that some wait in a simulation of a handful.
const AT_ONCE: usize = 1;
/// How long a lease lasts.
const LEASE_MS: i64 = 30_000;
/// Between two prolongations: a third, as in a server.
const RENEW_MS: i64 = LEASE_MS / 3;
/// Between two listings: half of the time after which something odd is garbage, as in a server.
const LIST_MS: i64 = 30_000;
/// Between two tries to read what is frozen.
const ASK_AGAIN_MS: i64 = 1_000;
/// What a forward clock shows when a run begins: no clock is ever set back to before its beginning.
const EPOCH_MS: i64 = 1_000_000_000;
/// A loop never turns faster than this.
const LEAST_WAIT_MS: i64 = 5;

/// What every process of a run is made of.
pub(super) struct Blueprint {
    pub(super) seed: u64,
    pub(super) planner: Planner,
    pub(super) read_pools: ReadPools,
    pub(super) settings: control::Settings,
    pub(super) off: Option<Guard>,
}

/// A machine that a server process runs on, or not.
pub(super) struct Process {
    pub(super) number: usize,
    pub(super) life: u32,
    /// It stands still until then.
    pub(super) paused_until: Timestamp,
    /// It dies when it has taken so many more steps, and is away for so long.
    pub(super) dies: Option<(u32, i64)>,
    /// It stands still when it has taken so many more steps, for so long.
    pub(super) halts: Option<(u32, i64)>,
    /// What its clock shows beyond the truth.
    pub(super) offset_ms: i64,
    /// The same, for those who read the clock by themselves.
    shown: Arc<AtomicI64>,
    pub(super) server: Option<Server>,
}

impl Process {
    pub(super) fn new(number: usize) -> Self {
        Self {
            number,
            life: 0,
            paused_until: Timestamp(0),
            dies: None,
            halts: None,
            offset_ms: 0,
            shown: Arc::default(),
            server: None,
        }
    }

    pub(super) fn me(&self) -> Incarnation {
        Incarnation { process: self.number, life: self.life }
    }

    /// The machine's clock is set.
    pub(super) fn set_clock(&mut self, by_ms: i64) {
        self.offset_ms = self.offset_ms.saturating_add(by_ms);
        self.shown.store(self.offset_ms, Ordering::Relaxed);
    }

    /// The moment by this machine's clock.
    pub(super) fn clock(&self, now: Timestamp) -> Timestamp {
        Timestamp(now.0.saturating_add(self.offset_ms))
    }

    /// When the process has something to do although nothing reaches it.
    pub(super) fn next_wakeup(&self) -> Option<Timestamp> {
        let server = self.server.as_ref()?;
        let due = Timestamp(server.replica.next_wakeup()?.0.saturating_sub(self.offset_ms));
        Some(due.max(Timestamp(server.woke.0.saturating_add(LEAST_WAIT_MS))).max(self.paused_until))
    }

    pub(super) fn start(&mut self, blueprint: &Blueprint, stage: &mut Stage) {
        self.life += 1;
        let me = self.me();
        let server = Server::new(self, blueprint, stage);
        self.server = Some(server);
        stage.send_process(0, me, ForProcess::Frozen);
        stage.send_process(BEAT_MS, me, ForProcess::Beat);
        stage.send_process(RENEW_MS, me, ForProcess::Renew);
        stage.send_process(LIST_MS, me, ForProcess::List);
    }

    pub(super) fn take(&mut self, what: ForProcess, stage: &mut Stage) {
        let clock = self.clock(stage.now());
        if let Some(server) = &mut self.server {
            server.take(what, clock, self.offset_ms, stage);
        }
    }

    pub(super) fn time_passed(&mut self, stage: &mut Stage) {
        let clock = self.clock(stage.now());
        if let Some(server) = &mut self.server {
            server.woke = stage.now();
            server.happened(Input::Time, clock, self.offset_ms, stage);
        }
    }
}

/// A process that lives.
pub(super) struct Server {
    me: Incarnation,
    pub(super) replica: Replica,
    pub(super) sessions: BTreeMap<ClusterId, Session>,
    /// The wire that each session speaks on.
    wires: BTreeMap<ClusterId, usize>,
    hands: Arc<Hands<Port>>,
    pub(super) port: Arc<Port>,
    works: BTreeMap<u64, Work<Input>>,
    next_work: u64,
    woke: Timestamp,
    worker: PlanWorker,
    read_pools: ReadPools,
    interner: Arc<Interner>,
    /// It has read what is frozen, and listens.
    ready: bool,
    /// When it last told others what it saw, and asked what they saw.
    exchanged: Timestamp,
    /// What others had told by then it has heard.
    heard: Option<Timestamp>,
    /// Launches that are under way, and where.
    launching: BTreeMap<CommandId, ClusterId>,
    /// When its failures stop removals.
    brake: CircuitBreakerRule,
    /// It does not hear of freezes.
    deaf: bool,
    /// It stood still until then.
    pub(super) paused_until: Timestamp,
}

impl Server {
    fn new(machine: &Process, blueprint: &Blueprint, stage: &Stage) -> Self {
        let (me, clock) = (machine.me(), machine.clock(stage.now()));
        let identity = blueprint.seed ^ ((me.process as u64) << 48) ^ (u64::from(me.life) << 32);
        let first_number = clock.0.unsigned_abs().saturating_add(1).saturating_mul(1000);
        let settings = control::Settings { identity, first_number, ..blueprint.settings.clone() };
        let port = Arc::new(Port::new(Arc::clone(&stage.outside), me, blueprint.off));
        let (clockwork, shown) = (Arc::clone(&stage.outside.clockwork), Arc::clone(&machine.shown));
        let fence = Fence::on(move || {
            let runs = clockwork.now().0.saturating_add(EPOCH_MS);
            [runs, runs.saturating_add(shown.load(Ordering::Relaxed))]
                .map(|at| Duration::from_millis(at.unsigned_abs()))
        });
        let fence = if blueprint.off == Some(Guard::Fence) { fence.without() } else { fence };
        let duration = Duration::from_millis(LEASE_MS.unsigned_abs());
        let lease = LeaseConfig { owner: port::owner(me.process), duration };
        Self {
            me,
            replica: Replica::new(RegionController::new(settings), identity, region()).admitting(AT_ONCE),
            sessions: BTreeMap::new(),
            wires: BTreeMap::new(),
            hands: {
                let log = DecisionLog::default();
                let (fence, roster) = (Arc::new(fence), Arc::default());
                Arc::new(Hands { store: port.clone(), cloud: Arc::clone(&port), lease, fence, roster, log })
            },
            port,
            works: BTreeMap::new(),
            next_work: 0,
            woke: stage.now(),
            worker: PlanWorker::new(blueprint.planner),
            read_pools: blueprint.read_pools.clone(),
            interner: Arc::default(),
            ready: false,
            exchanged: stage.now(),
            heard: None,
            launching: BTreeMap::new(),
            brake: blueprint.settings.rails.brake,
            deaf: blueprint.off == Some(Guard::Freezes),
            paused_until: Timestamp(0),
        }
    }

    fn take(&mut self, what: ForProcess, clock: Timestamp, offset_ms: i64, stage: &mut Stage) {
        match what {
            ForProcess::Opened { wire, hello } => {
                let cluster = Text::from(hello.cluster_name.as_str());
                if let Some(old) = self.wires.insert(cluster.clone(), wire) {
                    stage.cut(old, Some(1), None);
                }
                let said = self.session(&cluster).opened(*hello);
                self.perform(&cluster, said, clock, offset_ms, stage);
            }
            ForProcess::Said { wire, request } => {
                if let Some(cluster) = self.cluster_on(wire) {
                    let said = self.session(&cluster).heard(*request, clock);
                    self.perform(&cluster, said, clock, offset_ms, stage);
                }
            }
            ForProcess::Closed { wire } => {
                if let Some(cluster) = self.cluster_on(wire) {
                    self.wires.remove(&cluster);
                    let said = self.session(&cluster).closed();
                    self.perform(&cluster, said, clock, offset_ms, stage);
                }
            }
            ForProcess::GoOn { work } => self.go_on(work, clock, offset_ms, stage),
            ForProcess::GiveUp { work, late } => {
                if self.works.remove(&work).is_some() {
                    self.happened(*late, clock, offset_ms, stage);
                }
            }
            ForProcess::Beat => {
                for cluster in self.sessions.keys().cloned().collect::<Vec<_>>() {
                    let said = self.session(&cluster).tick(clock);
                    self.perform(&cluster, said, clock, offset_ms, stage);
                }
                self.happened(Input::ExchangeDue, clock, offset_ms, stage);
                stage.send_process(BEAT_MS, self.me, ForProcess::Beat);
            }
            ForProcess::List => {
                self.happened(Input::ListingDue, clock, offset_ms, stage);
                stage.send_process(LIST_MS, self.me, ForProcess::List);
            }
            ForProcess::Renew => {
                self.happened(Input::RenewalDue, clock, offset_ms, stage);
                stage.send_process(RENEW_MS, self.me, ForProcess::Renew);
            }
            ForProcess::Frozen => self.read_freezes(stage),
            ForProcess::Vouched { cluster } => {
                let word = SessionEvent::Happened(Event::QuarantineReleased { cluster });
                self.happened(Input::Heard(word), clock, offset_ms, stage);
            }
            ForProcess::Fetch => self.happened(Input::CloudPoll, clock, offset_ms, stage),
        }
    }

    /// Whether agents may connect.
    pub(super) fn is_ready(&self) -> bool {
        self.ready
    }

    /// Asks the store what is frozen until it answers.
    fn read_freezes(&mut self, stage: &mut Stage) {
        if self.ready && self.deaf {
            return;
        }
        let (port, clockwork) = (Arc::clone(&self.port), Arc::clone(&stage.outside.clockwork));
        self.begin(stage, async move {
            loop {
                match news::read_freezes(&*port).await {
                    Ok(event) => break Input::Heard(event),
                    Err(_) => clockwork.nap(ASK_AGAIN_MS).await,
                }
            }
        });
    }

    fn begin(&mut self, stage: &mut Stage, work: impl Future<Output = Input> + Send + 'static) -> u64 {
        self.next_work += 1;
        self.works.insert(self.next_work, Work::new(work));
        stage.send_process(0, self.me, ForProcess::GoOn { work: self.next_work });
        self.next_work
    }

    fn cluster_on(&self, wire: usize) -> Option<ClusterId> {
        self.wires.iter().find(|(_, current)| **current == wire).map(|(cluster, _)| cluster.clone())
    }

    fn session(&mut self, cluster: &ClusterId) -> &mut Session {
        self.sessions.entry(cluster.clone()).or_insert_with(|| {
            let settings = session::Settings::default();
            Session::new(cluster.clone(), settings, Arc::clone(&self.interner), self.read_pools.clone())
        })
    }

    /// Does what a session asks for.
    fn perform(&mut self, cluster: &ClusterId, said: Vec<Said>, clock: Timestamp, offset_ms: i64, stage: &mut Stage) {
        for said in said {
            match said {
                Said::Say(response) => {
                    if let Some(wire) = self.wires.get(cluster).copied() {
                        stage.say_to_agent(wire, ForAgent::Heard { wire, response });
                    }
                }
                Said::Tell(event) => self.happened(Input::Heard(event), clock, offset_ms, stage),
                Said::HangUp(reason) => {
                    stage.tell(|| format!("server {} hangs up on {cluster}: {reason}", self.me.process));
                    if let Some(wire) = self.wires.remove(cluster) {
                        stage.say_to_agent(wire, ForAgent::Lost { wire });
                        stage.cut(wire, None, None);
                    }
                }
            }
        }
    }

    /// Something happened to the process; everything that follows at once is done.
    fn happened(&mut self, input: Input, clock: Timestamp, offset_ms: i64, stage: &mut Stage) {
        let mut queue = VecDeque::from(self.replica.handle(input, clock));
        while let Some(output) = queue.pop_front() {
            let (cluster, said) = match output {
                Output::Call(call) => {
                    self.call(call, offset_ms, stage);
                    continue;
                }
                Output::Plan(request) => {
                    self.plan(*request, stage);
                    continue;
                }
                Output::Show(_) => continue,
                Output::Accept { cluster, epoch } => {
                    stage.tell(|| format!("server {} decides for {cluster} in epoch {epoch}", self.me.process));
                    let said = self.session(&cluster).accept(epoch, clock);
                    (cluster, said)
                }
                Output::Refuse { cluster, reason } => {
                    let said = self.session(&cluster).refuse(&reason);
                    (cluster, said)
                }
                Output::Resync { cluster, reason } => {
                    let said = self.session(&cluster).ask_again(reason.to_string());
                    (cluster, said)
                }
                Output::Instruct { cluster, id, instruction, deadline } => {
                    stage.tell(|| format!("server {} in {cluster}: {}: {instruction:?}", self.me.process, id.0));
                    let said = self.session(&cluster).instruct(id, *instruction, deadline, clock);
                    (cluster, said)
                }
            };
            self.perform(&cluster, said, clock, offset_ms, stage);
        }
    }

    /// Has a decision of its own accord looked at. A process that has just woken up cannot have heard of anything.
    fn note(&self, decision: &Decision, stage: &Stage) {
        if decision.kind == DecisionKind::Empty && !decision.removals.is_empty() {
            let mut books = stage.outside.books();
            if self.launches_fail(&books.outcomes, &decision.cluster, stage.now()) {
                books.removed_failing.insert(decision.cluster.clone());
            } else if self.fleet_fails(&books.outcomes, stage.now()) {
                books.removed_failing_elsewhere.insert(decision.cluster.clone());
            }
        }
        let voluntary = decision.kind != DecisionKind::Interruption;
        let acts = !decision.machines.is_empty() || !decision.removals.is_empty();
        if voluntary && acts && stage.now().millis_since(self.paused_until) > ASK_AGAIN_MS {
            stage.outside.decided(self.me, &decision.cluster, decision.id.0);
        }
    }

    /// Whether three of four launches in `cluster` failed lately, and nobody can think otherwise: failures are counted over less than
    /// the brake's window and only as far as this process was told, successes over more and everywhere, and a process learns of a
    /// launch before it learns that the machine has joined.
    fn launches_fail(&self, outcomes: &[LaunchEnd], cluster: &ClusterId, now: Timestamp) -> bool {
        let mine = |outcome: &LaunchEnd| outcome.by == self.me && outcome.cluster == *cluster;
        self.most_fail(outcomes, mine, |outcome| outcome.cluster == *cluster, now)
    }

    /// The same of all clusters together, if launches fail in several: what others have told counts as that.
    fn fleet_fails(&self, outcomes: &[LaunchEnd], now: Timestamp) -> bool {
        let heard = |told: Option<Timestamp>| told.zip(self.heard).is_some_and(|(told, heard)| told <= heard);
        let known = |outcome: &LaunchEnd| outcome.by == self.me || heard(outcome.told);
        let lately = |outcome: &&LaunchEnd| outcome.failed && now.millis_since(outcome.at) < self.brake.window_ms / 2;
        let own = outcomes.iter().filter(lately).filter(|outcome| outcome.by == self.me);
        let places: BTreeSet<&ClusterId> = own.map(|outcome| &outcome.cluster).collect();
        let others = outcomes.iter().filter(lately).any(|outcome| outcome.by != self.me && known(outcome));
        (places.len() >= 2 || others) && self.most_fail(outcomes, known, |_| true, now)
    }

    fn most_fail(
        &self,
        outcomes: &[LaunchEnd],
        known: impl Fn(&LaunchEnd) -> bool,
        counts: impl Fn(&LaunchEnd) -> bool,
        now: Timestamp,
    ) -> bool {
        let CircuitBreakerRule { window_ms, least, .. } = self.brake;
        let within = |outcome: &LaunchEnd, within_ms: i64| now.millis_since(outcome.at) < within_ms;
        let failed = outcomes.iter().filter(|one| one.failed && within(one, window_ms / 2) && known(one)).count();
        let went_well =
            outcomes.iter().filter(|one| !one.failed && within(one, window_ms * 3 / 2) && counts(one)).count();
        failed >= least && failed >= 3 * went_well
    }

    fn note_outcome(&mut self, input: &Input, stage: &Stage) {
        let (by, at) = (self.me, stage.now());
        let mut books = stage.outside.books();
        let launched = match input {
            Input::Ran { id, .. } => self.launching.remove(id),
            _ => None,
        };
        let mut ended = |failed: bool| {
            if let Some(cluster) = launched.clone() {
                books.outcomes.push(LaunchEnd { by, cluster, at, failed, told: None });
            }
        };
        match input {
            Input::Ran { outcome: Outcome::Launched { .. }, .. } => ended(false),
            // That an offering is not to be had is no failure.
            Input::Ran { outcome: Outcome::LaunchFailed(LaunchFailure::Refused { .. }), .. } => ended(true),
            Input::Exchanged { taken, answer } => {
                let mine = |one: &&mut LaunchEnd| one.by == by && one.at < self.exchanged && one.told.is_none();
                if taken.is_some() {
                    books.outcomes.iter_mut().filter(mine).for_each(|one| one.told = Some(at));
                }
                if answer.is_ok() {
                    self.heard = Some(self.exchanged);
                }
            }
            _ => {}
        }
    }

    fn call(&mut self, call: Call, offset_ms: i64, stage: &mut Stage) {
        if let Call::Run { id, command, .. } = &call {
            if matches!(command, Command::Launch(_) | Command::Relaunch(_)) {
                self.launching.insert(*id, command.cluster().clone());
            }
            stage.tell(|| format!("server {} runs {}", self.me.process, brief(command)));
            if let Command::Record(decision) = command {
                self.note(decision, stage);
            }
        }
        if matches!(call, Call::CounterSync { .. }) {
            self.exchanged = stage.now();
        }
        let limit = call.limit();
        let hands = Arc::clone(&self.hands);
        let work = self.begin(stage, async move { hands.make(call).await });
        if let Some((by, late)) = limit {
            let by = Timestamp(by.0.saturating_sub(offset_ms));
            let late = ForProcess::GiveUp { work, late: Box::new(late) };
            stage.send_process(by.millis_since(stage.now()), self.me, late);
        }
    }

    /// Makes a plan, and hears of it when planning it has taken its time.
    fn plan(&mut self, request: PlanRequest, stage: &mut Stage) {
        let nap = stage.outside.clockwork.nap(stage.outside.planning_ms(&request.cluster));
        let answer = Box::new(self.worker.answer(request));
        self.begin(stage, async move {
            nap.await;
            Input::Planned(answer)
        });
    }

    fn go_on(&mut self, work: u64, clock: Timestamp, offset_ms: i64, stage: &mut Stage) {
        let Some(running) = self.works.get_mut(&work) else { return };
        match running.go_on(&stage.outside.clockwork) {
            Ok(input) => {
                self.works.remove(&work);
                self.note_outcome(&input, stage);
                self.ready |= matches!(&input, Input::Heard(SessionEvent::Happened(Event::FreezesChanged { .. })));
                self.happened(input, clock, offset_ms, stage);
            }
            Err(at) => {
                let wait = at.millis_since(stage.now());
                stage.send_process(wait, self.me, ForProcess::GoOn { work });
            }
        }
    }
}

/// All processes buy in one place.
fn region() -> Scope {
    Scope::Region { account: "simulation".to_owned(), region: "here".to_owned() }
}

fn brief(command: &Command) -> String {
    match command {
        Command::Record(decision) => {
            format!("record {} for {}: {} machines", decision.id.0, decision.cluster, decision.machines.len())
        }
        Command::Launch(order) => format!("launch {} for {}", order.token, order.cluster),
        Command::Terminate { cluster, claim, provider_id, .. } => {
            format!("terminate {provider_id}, {claim} of {cluster}")
        }
        Command::Instruct { cluster, id, .. } => format!("instruct {} in {cluster}", id.0),
        Command::Relaunch(decided) => format!("launch {} again", decided.machine.launch.token),
        Command::Describe { cluster, provider_id, .. } => format!("look at {provider_id} of {cluster}"),
        Command::Inspect { cluster, provider_id, .. } => format!("ask about {provider_id} of {cluster}"),
        Command::Settle { cluster, claim, .. } => format!("write down that {claim} of {cluster} was bought"),
        Command::KeepExtent { cluster, extent } => format!("write down that {cluster} has {extent:?}"),
        Command::Close { cluster, claim } => format!("close {claim} of {cluster}"),
    }
}
