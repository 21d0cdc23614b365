//! A server process: the real replica, real sessions, and tasks in flight. The work of an async
//! runtime is done here step by step, and the process may die between any two steps.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use cluster::Observation;
use controller::executor::CommandId;
use controller::guardrails::CircuitBreakerRule;
use controller::{ClusterCall, ClusterEvent, Decision, Event, NewPlanner, PlanRequest, PlanWorker, RegionEvent};
use model::{ClusterName, LaunchFailure, Millis, Timestamp};

use super::environment::{LaunchEnd, ProcessId};
use super::event_queue::{AgentMessage, EventQueue, ProcessMessage, Trigger};
use super::faulty_client::{self, FaultyClient};
use super::guard::Guard;
use super::virtual_time::Task;
use agent_session::state::Output as SessionOutput;
use agent_session::{Interner, PoolReader, Session, SessionEvent};
use decision_log::DecisionLog;
use fleet_api::fleet::change_feed::{self, KnownFreezes};
use replica::fence::Fence;
use replica::{Call, Input, Output, Replica};
use server::control_loop::calls::{CallRunner, LaunchWarnings, TrustedNames};
use server_settings::LeaseConfig;
use store::lease::Scope;

/// Tick interval of the sessions. A server's is one second; the difference does not matter because
/// silence and deadlines are tens of seconds.
const TICK_MS: i64 = 5_000;

/// Admission limit: small enough that some of a handful of clusters wait.
const ADMISSION_LIMIT: usize = 1;
const LEASE_MS: i64 = 30_000;
/// Renewal interval: a third of the lease duration, as in a server.
const RENEW_MS: i64 = LEASE_MS / 3;
/// Listing interval: half of the garbage collection delay, as in a server.
const LIST_MS: i64 = 30_000;
const ASK_AGAIN_AFTER: Millis = Millis::from_secs(1);
/// Start value of the monotonic clock: no clock is ever set back beyond its start.
const EPOCH_MS: i64 = 1_000_000_000;
const LEAST_WAIT_MS: i64 = 5;

/// Configuration of every process of a run.
pub(super) struct ProcessConfig {
    pub(super) seed: u64,
    pub(super) planner: NewPlanner,
    pub(super) read_pools: PoolReader,
    pub(super) settings: controller::Settings,
    pub(super) off: Option<Guard>,
}

/// A host, and the server process on it, if it runs.
pub(super) struct Process {
    pub(super) number: usize,
    pub(super) generation: u32,
    /// Paused until this moment.
    pub(super) paused_until: Timestamp,
    /// Steps until it is killed, and for how long it stays down.
    pub(super) kill_after: Option<(u32, i64)>,
    /// Steps until it is paused, and for how long.
    pub(super) pause_after: Option<(u32, i64)>,
    /// Offset of its wall clock from the true time.
    pub(super) offset_ms: i64,
    /// The same, shared with the fence's clock.
    shared_offset: Arc<AtomicI64>,
    pub(super) server: Option<Server>,
}

impl Process {
    pub(super) fn new(number: usize) -> Self {
        Self {
            number,
            generation: 0,
            paused_until: Timestamp::from_millis(0),
            kill_after: None,
            pause_after: None,
            offset_ms: 0,
            shared_offset: Arc::default(),
            server: None,
        }
    }

    pub(super) fn id(&self) -> ProcessId {
        ProcessId { process: self.number, generation: self.generation }
    }

    pub(super) fn set_clock(&mut self, by_ms: i64) {
        self.offset_ms = self.offset_ms.saturating_add(by_ms);
        self.shared_offset.store(self.offset_ms, Ordering::Relaxed);
    }

    /// The time by this host's clock.
    pub(super) fn clock(&self, now: Timestamp) -> Timestamp {
        now + Millis::new(self.offset_ms)
    }

    /// When the process acts without receiving a message.
    pub(super) fn next_wakeup(&self) -> Option<Timestamp> {
        let server = self.server.as_ref()?;
        let due = server.replica.next_wakeup()? - Millis::new(self.offset_ms);
        Some(due.max(server.last_woke + Millis::new(LEAST_WAIT_MS)).max(self.paused_until))
    }

    pub(super) fn start(&mut self, process_config: &ProcessConfig, events: &mut EventQueue) {
        self.generation += 1;
        let process_id = self.id();
        let server = Server::new(self, process_config, events);
        self.server = Some(server);
        events.send_process(0, process_id, ProcessMessage::FreezesChanged);
        events.send_process(TICK_MS, process_id, ProcessMessage::Tick);
        events.send_process(RENEW_MS, process_id, ProcessMessage::RenewLeases);
        events.send_process(LIST_MS, process_id, ProcessMessage::ListInstances);
    }

    pub(super) fn handle_message(&mut self, what: ProcessMessage, events: &mut EventQueue) {
        let clock = self.clock(events.now());
        if let Some(server) = &mut self.server {
            server.handle_message(what, clock, self.offset_ms, events);
        }
    }

    pub(super) fn time_passed(&mut self, events: &mut EventQueue) {
        let clock = self.clock(events.now());
        if let Some(server) = &mut self.server {
            server.last_woke = events.now();
            server.handle_input(Input::Time, clock, self.offset_ms, events);
        }
    }
}

pub(super) struct Server {
    process_id: ProcessId,
    pub(super) replica: Replica,
    pub(super) sessions: BTreeMap<ClusterName, Session>,
    connections: BTreeMap<ClusterName, usize>,
    runner: Arc<CallRunner>,
    pub(super) cloud_client: Arc<FaultyClient>,
    tasks: BTreeMap<u64, Task<Input>>,
    next_task: u64,
    last_woke: Timestamp,
    worker: PlanWorker,
    read_pools: PoolReader,
    interner: Arc<Interner>,
    /// It has read the freezes and accepts agents.
    ready: bool,
    /// When it last began to synchronize counters.
    synced_at: Timestamp,
    /// Counters published before this moment have been read.
    synced_until: Option<Timestamp>,
    launches: BTreeSet<(ClusterName, CommandId)>,
    circuit_breaker: CircuitBreakerRule,
    /// It ignores changed freezes (guard `freezes` off).
    ignores_freezes: bool,
    /// An operator confirms every snapshot at once (guard `quarantine` off).
    confirms_snapshots: bool,
    /// End of its last pause.
    pub(super) paused_until: Timestamp,
}

impl Server {
    fn new(machine: &Process, process_config: &ProcessConfig, events: &EventQueue) -> Self {
        let (process_id, clock) = (machine.id(), machine.clock(events.now()));
        let identity =
            process_config.seed ^ ((process_id.process as u64) << 48) ^ (u64::from(process_id.generation) << 32);
        let first_number = clock.as_millis().unsigned_abs().saturating_add(1).saturating_mul(1000);
        // Identity and numbers differ in each generation, as those of a restarted server do.
        let settings = controller::Settings { identity, first_number, ..process_config.settings.clone() };
        let cloud_client = Arc::new(FaultyClient::new(Arc::clone(&events.environment), process_id, process_config.off));
        let fence = fence(machine, process_config.off, events);
        let duration = Duration::from_millis(LEASE_MS.unsigned_abs());
        let lease = LeaseConfig { owner: faulty_client::owner(process_id.process), duration };
        Self {
            process_id,
            replica: Replica::new(settings, identity, region()).with_admission_limit(ADMISSION_LIMIT),
            sessions: BTreeMap::new(),
            connections: BTreeMap::new(),
            runner: {
                let log = DecisionLog::default();
                let (fence, held_leases) = (Arc::new(fence), Arc::default());
                Arc::new(CallRunner {
                    store: Arc::new(events.environment.store().intercepted(cloud_client.clone())),
                    cloud: cloud_client.clone(),
                    lease,
                    fence,
                    held_leases,
                    log,
                    names: TrustedNames::default(),
                    conditions: Arc::default(),
                    launch_warnings: LaunchWarnings::default(),
                })
            },
            cloud_client,
            tasks: BTreeMap::new(),
            next_task: 0,
            last_woke: events.now(),
            worker: PlanWorker::new((process_config.planner)()),
            read_pools: process_config.read_pools.clone(),
            interner: Arc::default(),
            ready: false,
            synced_at: events.now(),
            synced_until: None,
            launches: BTreeSet::new(),
            circuit_breaker: process_config.settings.guardrails.circuit_breaker,
            ignores_freezes: process_config.off == Some(Guard::Freezes),
            confirms_snapshots: process_config.off == Some(Guard::Quarantine),
            paused_until: Timestamp::from_millis(0),
        }
    }

    fn handle_message(&mut self, what: ProcessMessage, clock: Timestamp, offset_ms: i64, events: &mut EventQueue) {
        match what {
            ProcessMessage::Opened { connection, hello } => {
                // A new connection replaces the cluster's old one, as in a server.
                let cluster = ClusterName::from(hello.cluster_name.as_str());
                if let Some(old) = self.connections.insert(cluster.clone(), connection) {
                    events.close_connection(old, Some(1), None);
                }
                let outputs = self.session(&cluster).handle_hello(*hello);
                self.apply_session_outputs(&cluster, outputs, clock, offset_ms, events);
            }
            ProcessMessage::Received { connection, request } => {
                if let Some(cluster) = self.cluster_on(connection) {
                    let outputs = self.session(&cluster).handle_request(*request, clock);
                    self.apply_session_outputs(&cluster, outputs, clock, offset_ms, events);
                }
            }
            ProcessMessage::Closed { connection } => {
                if let Some(cluster) = self.cluster_on(connection) {
                    self.connections.remove(&cluster);
                    let outputs = self.session(&cluster).handle_close();
                    self.apply_session_outputs(&cluster, outputs, clock, offset_ms, events);
                }
            }
            ProcessMessage::Resume { task } => self.resume_task(task, clock, offset_ms, events),
            ProcessMessage::Timeout { task, late } => {
                if self.tasks.remove(&task).is_some() {
                    self.handle_input(*late, clock, offset_ms, events);
                }
            }
            ProcessMessage::Tick => {
                for cluster in self.sessions.keys().cloned().collect::<Vec<_>>() {
                    let outputs = self.session(&cluster).tick(clock);
                    self.apply_session_outputs(&cluster, outputs, clock, offset_ms, events);
                }
                self.handle_input(Input::CounterSyncDue, clock, offset_ms, events);
                events.send_process(TICK_MS, self.process_id, ProcessMessage::Tick);
            }
            ProcessMessage::ListInstances => {
                self.handle_input(Input::ListingDue, clock, offset_ms, events);
                events.send_process(LIST_MS, self.process_id, ProcessMessage::ListInstances);
            }
            ProcessMessage::RenewLeases => {
                self.handle_input(Input::RenewalDue, clock, offset_ms, events);
                events.send_process(RENEW_MS, self.process_id, ProcessMessage::RenewLeases);
            }
            ProcessMessage::FreezesChanged => self.read_freezes(events),
            ProcessMessage::QuarantineReleased { cluster } => {
                let event = SessionEvent::ClusterEvent(Event::QuarantineReleased.of(cluster));
                self.handle_input(Input::Session(event), clock, offset_ms, events);
            }
            ProcessMessage::PollCloud => self.handle_input(Input::CloudPoll, clock, offset_ms, events),
        }
    }

    pub(super) fn is_ready(&self) -> bool {
        self.ready
    }

    /// Reads the freezes from the store until it answers.
    fn read_freezes(&mut self, events: &mut EventQueue) {
        if self.ready && self.ignores_freezes {
            return;
        }
        let (store, clock_source) = (Arc::clone(&self.runner.store), Arc::clone(&events.environment.clock_source));
        self.spawn_task(events, async move {
            let mut known = KnownFreezes::new();
            loop {
                match change_feed::read_freezes(&*store, &mut known).await {
                    Ok(event) => break Input::Session(event),
                    Err(_) => clock_source.sleep(ASK_AGAIN_AFTER.get()).await,
                }
            }
        });
    }

    fn spawn_task(&mut self, events: &mut EventQueue, task: impl Future<Output = Input> + Send + 'static) -> u64 {
        self.next_task += 1;
        self.tasks.insert(self.next_task, Task::new(task));
        events.send_process(0, self.process_id, ProcessMessage::Resume { task: self.next_task });
        self.next_task
    }

    fn cluster_on(&self, connection: usize) -> Option<ClusterName> {
        self.connections.iter().find(|(_, current)| **current == connection).map(|(cluster, _)| cluster.clone())
    }

    fn session(&mut self, cluster: &ClusterName) -> &mut Session {
        self.sessions.entry(cluster.clone()).or_insert_with(|| {
            let settings = agent_session::Settings::default();
            Session::new(cluster.clone(), settings, Arc::clone(&self.interner), self.read_pools.clone())
        })
    }

    fn apply_session_outputs(
        &mut self,
        cluster: &ClusterName,
        outputs: Vec<SessionOutput>,
        clock: Timestamp,
        offset_ms: i64,
        events: &mut EventQueue,
    ) {
        for output in outputs {
            match output {
                SessionOutput::Send(response) => {
                    if let Some(connection) = self.connections.get(cluster).copied() {
                        events.send_to_agent(connection, AgentMessage::Received { connection, response });
                    }
                }
                SessionOutput::Notify(event) => {
                    let snapshot_of = snapshot_cluster(&event);
                    self.handle_input(Input::Session(event), clock, offset_ms, events);
                    if let Some(cluster) = snapshot_of.filter(|_| self.confirms_snapshots) {
                        let confirmed = SessionEvent::ClusterEvent(Event::QuarantineReleased.of(cluster));
                        self.handle_input(Input::Session(confirmed), clock, offset_ms, events);
                    }
                }
                // No agent is asked for spans.
                SessionOutput::Export(_) => {}
                SessionOutput::Close(reason) => {
                    events.trace(|| {
                        format!("server {} closes the stream of {cluster}: {reason}", self.process_id.process)
                    });
                    if let Some(connection) = self.connections.remove(cluster) {
                        events.send_to_agent(connection, AgentMessage::ConnectionLost { connection });
                        events.close_connection(connection, None, None);
                    }
                }
            }
        }
    }

    /// Handles an input and every output that follows at once.
    fn handle_input(&mut self, input: Input, clock: Timestamp, offset_ms: i64, events: &mut EventQueue) {
        // Outputs are applied in the replica's order: an agent is accepted before it is instructed.
        let mut pending = VecDeque::from(self.replica.handle(input, clock));
        while let Some(output) = pending.pop_front() {
            let (cluster, outputs) = match output {
                Output::Call(call) => {
                    self.call(call, offset_ms, events);
                    continue;
                }
                Output::Plan(job) => {
                    self.plan(job.into_request(), events);
                    continue;
                }
                Output::PublishView(_) => continue,
                Output::Accept { cluster, epoch } => {
                    events.trace(|| format!("server {} acquires {cluster} in epoch {epoch}", self.process_id.process));
                    let outputs = self.session(&cluster).accept(epoch, clock);
                    (cluster, outputs)
                }
                Output::Refuse { cluster, reason } => {
                    let outputs = self.session(&cluster).refuse(&reason);
                    (cluster, outputs)
                }
                Output::Resync { cluster, reason } => {
                    let outputs = self.session(&cluster).request_resync(reason.to_string());
                    (cluster, outputs)
                }
                Output::Instruct { cluster, id, instruction, deadline } => {
                    events.trace(|| {
                        format!("server {} in {cluster}: {}: {instruction:?}", self.process_id.process, id.0)
                    });
                    let outputs = self.session(&cluster).instruct(id, *instruction, deadline, clock);
                    (cluster, outputs)
                }
            };
            self.apply_session_outputs(&cluster, outputs, clock, offset_ms, events);
        }
    }

    /// Checks a voluntary decision. After a pause the process cannot have received anything yet.
    fn check_decision(&self, decision: &Decision, events: &EventQueue) {
        if !decision.reason.is_urgent() && !decision.removals.is_empty() {
            let mut ledger = events.environment.ledger();
            if self.launches_fail(&ledger.outcomes, &decision.cluster, events.now()) {
                ledger.removed_despite_failures.insert(decision.cluster.clone());
            } else if self.fleet_fails(&ledger.outcomes, events.now()) {
                ledger.removed_despite_remote_failures.insert(decision.cluster.clone());
            }
        }
        let voluntary = !decision.reason.is_urgent();
        let acts = !decision.launches.is_empty() || !decision.removals.is_empty();
        if voluntary && acts && events.now().duration_since(self.paused_until) > ASK_AGAIN_AFTER {
            events.environment.check_frozen_decision(self.process_id, &decision.cluster, decision.id.0);
        }
    }

    /// Whether three of four recent launches in `cluster` failed beyond doubt: failures are counted
    /// over less than the circuit breaker's window and only if this process received them,
    /// successes over more and everywhere; and a process learns of a launch before it learns that
    /// the Node has joined.
    fn launches_fail(&self, outcomes: &[LaunchEnd], cluster: &ClusterName, now: Timestamp) -> bool {
        let mine = |outcome: &LaunchEnd| outcome.by == self.process_id && outcome.cluster == *cluster;
        self.mostly_fail(outcomes, mine, |outcome| outcome.cluster == *cluster, now)
    }

    /// The same for all clusters together, if launches fail in several or other processes have
    /// published failures.
    fn fleet_fails(&self, outcomes: &[LaunchEnd], now: Timestamp) -> bool {
        let visible = |published: Option<Timestamp>| {
            published.zip(self.synced_until).is_some_and(|(published, until)| published <= until)
        };
        let known = |outcome: &LaunchEnd| outcome.by == self.process_id || visible(outcome.published_at);
        let lately =
            |outcome: &&LaunchEnd| outcome.failed && now.duration_since(outcome.at) < self.circuit_breaker.window / 2;
        let own = outcomes.iter().filter(lately).filter(|outcome| outcome.by == self.process_id);
        let places: BTreeSet<&ClusterName> = own.map(|outcome| &outcome.cluster).collect();
        let others = outcomes.iter().filter(lately).any(|outcome| outcome.by != self.process_id && known(outcome));
        (places.len() >= 2 || others) && self.mostly_fail(outcomes, known, |_| true, now)
    }

    fn mostly_fail(
        &self,
        outcomes: &[LaunchEnd],
        known: impl Fn(&LaunchEnd) -> bool,
        counts: impl Fn(&LaunchEnd) -> bool,
        now: Timestamp,
    ) -> bool {
        let CircuitBreakerRule { window, least, .. } = self.circuit_breaker;
        let within = |outcome: &LaunchEnd, wait: Millis| now.duration_since(outcome.at) < wait;
        let failed = outcomes.iter().filter(|one| one.failed && within(one, window / 2) && known(one)).count();
        let went_well = outcomes.iter().filter(|one| !one.failed && within(one, window * 3 / 2) && counts(one)).count();
        failed >= least && failed >= 3 * went_well
    }

    fn record_outcome(&mut self, input: &Input, events: &EventQueue) {
        let (by, at) = (self.process_id, events.now());
        let mut ledger = events.environment.ledger();
        let launched = match input {
            Input::CommandEnded { cluster, id, .. } => {
                self.launches.remove(&(cluster.clone(), *id)).then(|| cluster.clone())
            }
            _ => None,
        };
        let mut ended = |failed: bool| {
            if let Some(cluster) = launched.clone() {
                ledger.outcomes.push(LaunchEnd { by, cluster, at, failed, published_at: None });
            }
        };
        match input {
            Input::CommandEnded { outcome: Ok(Some(Event::Launched(_))), .. } => ended(false),
            // Insufficient capacity is no failure.
            Input::CommandEnded {
                outcome: Ok(Some(Event::LaunchFailed { failure: LaunchFailure::Refused { .. }, .. })),
                ..
            } => ended(true),
            Input::CountersSynced { acknowledged, answer } => {
                let mine = |one: &&mut LaunchEnd| one.by == by && one.at < self.synced_at && one.published_at.is_none();
                if acknowledged.is_some() {
                    ledger.outcomes.iter_mut().filter(mine).for_each(|one| one.published_at = Some(at));
                }
                if answer.is_ok() {
                    self.synced_until = Some(self.synced_at);
                }
            }
            _ => {}
        }
    }

    fn call(&mut self, call: Call, offset_ms: i64, events: &mut EventQueue) {
        if let Call::RunCommand { cluster, id, call, .. } = &call {
            if matches!(call, ClusterCall::Launch(_)) {
                let process = self.process_id.process;
                events.trigger(Trigger::Launches { process, cluster: cluster.clone() });
                if events.armed.kills.contains_key(&process) {
                    return;
                }
            }
            if matches!(call, ClusterCall::Launch(_) | ClusterCall::Relaunch(_)) {
                self.launches.insert((cluster.clone(), *id));
            }
            events.trace(|| format!("server {} runs {}", self.process_id.process, summarize(cluster, call)));
            if let ClusterCall::RecordDecision(decision) = call {
                self.check_decision(decision, events);
            }
        }
        if matches!(call, Call::SyncCounters { .. }) {
            self.synced_at = events.now();
        }
        let limit = call.limit();
        let runner = Arc::clone(&self.runner);
        let task = self.spawn_task(events, async move { runner.run(call).await });
        if let Some((by, late)) = limit {
            let by = by - Millis::new(offset_ms);
            let late = ProcessMessage::Timeout { task, late: Box::new(late) };
            events.send_process(by.duration_since(events.now()).get(), self.process_id, late);
        }
    }

    /// Makes a plan and receives it after the planning time.
    fn plan(&mut self, request: PlanRequest, events: &mut EventQueue) {
        let sleep = events.environment.clock_source.sleep(events.environment.planning_ms(&request.cluster));
        let answer = Box::new(self.worker.answer(request));
        let cluster = answer.request.cluster.clone();
        self.spawn_task(events, async move {
            sleep.await;
            Input::ClusterEvent(Event::Planned(answer).of(cluster))
        });
    }

    fn resume_task(&mut self, task: u64, clock: Timestamp, offset_ms: i64, events: &mut EventQueue) {
        let Some(running) = self.tasks.get_mut(&task) else { return };
        match running.poll_now(&events.environment.clock_source) {
            Ok(input) => {
                self.tasks.remove(&task);
                self.record_outcome(&input, events);
                self.ready |=
                    matches!(&input, Input::Session(SessionEvent::RegionEvent(RegionEvent::FreezesChanged(_))));
                self.handle_input(input, clock, offset_ms, events);
            }
            Err(at) => {
                let wait = at.duration_since(events.now()).get();
                events.send_process(wait, self.process_id, ProcessMessage::Resume { task });
            }
        }
    }
}

/// The fence of a process. Without its guard its clocks stand still, so that no lease expires.
fn fence(machine: &Process, off: Option<Guard>, events: &EventQueue) -> Fence {
    if off == Some(Guard::Fence) {
        return Fence::with_clocks(|| [Duration::ZERO; 2]);
    }
    let (clock_source, shared_offset) =
        (Arc::clone(&events.environment.clock_source), Arc::clone(&machine.shared_offset));
    Fence::with_clocks(move || {
        let runs = clock_source.now().as_millis().saturating_add(EPOCH_MS);
        [runs, runs.saturating_add(shared_offset.load(Ordering::Relaxed))]
            .map(|at| Duration::from_millis(at.unsigned_abs()))
    })
}

/// The cluster of which `event` is a snapshot.
fn snapshot_cluster(event: &SessionEvent) -> Option<ClusterName> {
    match event {
        SessionEvent::ClusterEvent(ClusterEvent { cluster, event: Event::Observed(Observation::Snapshot(_)) }) => {
            Some(cluster.clone())
        }
        _ => None,
    }
}

fn region() -> Scope {
    Scope::Region { account: "simulation".to_owned(), region: "here".to_owned() }
}

fn summarize(cluster: &ClusterName, call: &ClusterCall) -> String {
    match call {
        ClusterCall::RecordDecision(decision) => {
            let Decision { id, reason, launches, assignments, removals, .. } = &**decision;
            let assigned: Vec<String> = assignments.iter().map(|(pod, node)| format!("{pod} to {node}")).collect();
            let removed: Vec<&str> = removals.iter().map(|removal| removal.claim.as_ref()).collect();
            let machines = launches.len();
            let kind = reason.as_str();
            format!("record {} ({kind}) for {cluster}: {machines} machines, {assigned:?}, removes {removed:?}", id.0)
        }
        ClusterCall::Launch(order) => format!("launch {} for {cluster}", order.token),
        ClusterCall::Terminate { claim, provider_id, .. } => {
            format!("terminate {provider_id}, {claim} of {cluster}")
        }
        ClusterCall::Relaunch(decided) => format!("launch {} again", decided.machine.launch.token),
        ClusterCall::Describe { provider_id, .. } => format!("describe {provider_id} of {cluster}"),
        ClusterCall::Inspect { provider_id, .. } => format!("inspect {provider_id} of {cluster}"),
        ClusterCall::ConfirmNotices(notices) => format!("confirm {} notices of {cluster}", notices.len()),
        ClusterCall::RecordLaunched { claim, .. } => format!("record launch of {claim} of {cluster}"),
        ClusterCall::PersistCounts(counts) => format!("record object counts of {cluster}: {counts:?}"),
        ClusterCall::RecordCosts(intervals) => {
            format!("record costs of {cluster}: {} intervals", intervals.len())
        }
        ClusterCall::EndReplacements { claims, waits, .. } => {
            format!("end replacements {claims:?} of {cluster}, waits {waits:?}")
        }
        ClusterCall::WriteHold { hold, status } => format!("write hold {hold} of {cluster}: {status:?}"),
        ClusterCall::CloseLaunch(claim) => format!("close {claim} of {cluster}"),
        ClusterCall::ResolveNodeClass(_) => format!("{call:?}"),
    }
}
