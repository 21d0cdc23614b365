//! The event queue, and the connections between agents and servers.
//!
//! A connection delivers in order, with a latency per direction. Cutting it loses what is in
//! flight; each end notices in its own time, or only by silence.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::kube::cluster::Workload;
use cloud::simulated::SeededRng;
use fleetwright_proto::v1;
use model::{ClusterName, Millis, Timestamp};

use super::environment::{Environment, ProcessId};
use super::fault::{Fault, FaultCounts, ListGap};
use replica::Input;

/// One-way latency between agent and server, least and most, in milliseconds.
pub(super) const CONNECTION_MS: (i64, i64) = (2, 60);

#[derive(Debug)]
pub(super) enum SimEvent {
    Fault(Fault),
    Scale {
        sim_cluster: usize,
        workload: Workload,
        replicas: usize,
    },
    StartProcess {
        process: usize,
    },
    /// A message arrives at a process, unless that generation has ended.
    DeliverToProcess {
        to: ProcessId,
        what: ProcessMessage,
    },
    /// A message arrives at an agent, unless that generation has ended.
    DeliverToAgent {
        sim_cluster: usize,
        generation: u32,
        what: AgentMessage,
    },
    StartAgent {
        sim_cluster: usize,
    },
    /// An agent's snapshots are complete again.
    EndEmptySnapshot {
        sim_cluster: usize,
    },
    /// An agent's watch restarts with a complete list.
    EndRelist {
        sim_cluster: usize,
        gap: ListGap,
    },
    /// Kubelets report again.
    EndPartition {
        sim_cluster: usize,
    },
    /// Kubelets reach their cluster again.
    EndJoinFailure {
        sim_cluster: usize,
    },
    /// The operator releases the cluster's quarantine, and does so again later.
    RepeatRelease {
        sim_cluster: usize,
    },
    ReviewQuarantines,
    /// A freeze ends.
    Thaw {
        freeze: i64,
    },
}

/// A message to a server process.
#[derive(Debug)]
pub(super) enum ProcessMessage {
    Opened {
        connection: usize,
        hello: Box<v1::Hello>,
    },
    Received {
        connection: usize,
        request: Box<v1::ConnectRequest>,
    },
    Closed {
        connection: usize,
    },
    /// A sleeping task continues.
    Resume {
        task: u64,
    },
    /// A task has reached its time limit.
    Timeout {
        task: u64,
        late: Box<Input>,
    },
    /// Tick of the sessions and of counter synchronization.
    Tick,
    /// Timer: renew leases.
    RenewLeases,
    /// Timer: list instances.
    ListInstances,
    PollCloud,
    FreezesChanged,
    /// The operator has released the cluster's quarantine.
    QuarantineReleased {
        cluster: ClusterName,
    },
}

#[derive(Debug)]
pub(super) enum AgentMessage {
    Connect,
    Received { connection: usize, response: Box<v1::ConnectResponse> },
    ConnectionLost { connection: usize },
    Execute(Box<v1::Instruction>),
    Tick,
}

/// Faults that wait for the moment at which they hurt.
#[derive(Debug, Default)]
pub(super) struct ArmedFaults {
    /// Processes that die instead of their next launch call, and for how long, in milliseconds.
    pub(super) kills: BTreeMap<usize, i64>,
    /// Clusters whose agent is disconnected with their next launch call, and for how long, in milliseconds.
    pub(super) cuts: BTreeMap<usize, i64>,
    /// Clusters whose newest instance terminates when the next voluntary drain begins.
    pub(super) deaths: BTreeSet<usize>,
}

/// A moment that armed faults wait for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Trigger {
    Drained {
        sim_cluster: usize,
    },
    /// A process is about to call a launch.
    Launches {
        process: usize,
        cluster: ClusterName,
    },
}

/// A connection between one agent and one process.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) sim_cluster: usize,
    pub(super) agent_generation: u32,
    pub(super) server: ProcessId,
    pub(super) closed: bool,
    /// Arrival time of the last message per direction: to the server, to the agent.
    last: [Timestamp; 2],
    /// Nothing arrives before this moment.
    held_until: Timestamp,
}

/// Pending events and connections of a run.
pub(super) struct EventQueue {
    pub(super) environment: Arc<Environment>,
    queue: BTreeMap<(Timestamp, u64), SimEvent>,
    number: u64,
    connections: Vec<Connection>,
    rng: SeededRng,
    /// Injected faults by kind.
    pub(super) faults: FaultCounts,
    pub(super) armed: ArmedFaults,
    /// Moments of this step that armed faults wait for.
    pub(super) triggers: Vec<Trigger>,
    /// Largest offset of a server's clock so far.
    pub(super) clock_error: Millis,
    /// Events are printed on standard error.
    pub(super) trace: bool,
}

impl EventQueue {
    pub(super) fn new(seed: u64, environment: Arc<Environment>, trace: bool) -> Self {
        let rng = SeededRng::new(seed).child("stage");
        Self {
            environment,
            queue: BTreeMap::new(),
            number: 0,
            connections: Vec::new(),
            rng,
            faults: FaultCounts::new(),
            armed: ArmedFaults::default(),
            triggers: Vec::new(),
            clock_error: Millis::ZERO,
            trace,
        }
    }

    pub(super) fn now(&self) -> Timestamp {
        self.environment.now()
    }

    pub(super) fn schedule_at(&mut self, moment: Timestamp, event: SimEvent) {
        self.number += 1;
        self.queue.insert((moment.max(self.now()), self.number), event);
    }

    pub(super) fn schedule_after(&mut self, wait_ms: i64, event: SimEvent) {
        self.schedule_at(self.now() + Millis::new(wait_ms), event);
    }

    /// Postpones a due event, keeping its number, so that it stays ahead of later ones.
    pub(super) fn postpone(&mut self, until: Timestamp, number: u64, event: SimEvent) {
        self.queue.insert((until, number), event);
    }

    pub(super) fn next_event_at(&self) -> Option<Timestamp> {
        self.queue.keys().next().map(|(at, _)| *at)
    }

    /// The next due event and its number.
    pub(super) fn pop_due(&mut self) -> Option<(u64, SimEvent)> {
        let first = self.queue.first_entry().filter(|entry| entry.key().0 <= self.environment.now())?;
        let ((_, number), event) = first.remove_entry();
        Some((number, event))
    }

    /// A random generator of its own for each draw.
    pub(super) fn next_rng(&mut self) -> SeededRng {
        self.number += 1;
        self.rng.child_number(self.number)
    }

    /// Notes a moment that armed faults wait for.
    pub(super) fn trigger(&mut self, trigger: Trigger) {
        self.triggers.push(trigger);
    }

    pub(super) fn trace(&self, line: impl FnOnce() -> String) {
        if self.trace {
            eprintln!("{:>9} ms  {}", self.now().as_millis(), line());
        }
    }

    pub(super) fn send_process(&mut self, wait_ms: i64, to: ProcessId, what: ProcessMessage) {
        self.schedule_after(wait_ms, SimEvent::DeliverToProcess { to, what });
    }

    pub(super) fn send_agent(&mut self, wait_ms: i64, sim_cluster: usize, generation: u32, what: AgentMessage) {
        self.schedule_after(wait_ms, SimEvent::DeliverToAgent { sim_cluster, generation, what });
    }

    /// Opens a connection from an agent to a process.
    pub(super) fn open_connection(&mut self, sim_cluster: usize, agent_generation: u32, server: ProcessId) -> usize {
        let (last, held_until) = ([self.now(); 2], self.now());
        self.connections.push(Connection { sim_cluster, agent_generation, server, closed: false, last, held_until });
        self.connections.len() - 1
    }

    pub(super) fn connection(&self, connection: usize) -> &Connection {
        &self.connections[connection]
    }

    /// Arrival time of the next message; `None` if the connection is closed.
    fn arrival(&mut self, connection: usize, direction: usize) -> Option<Timestamp> {
        let latency = self.next_rng().between(CONNECTION_MS);
        let now = self.now();
        let connection = self.connections.get_mut(connection).filter(|connection| !connection.closed)?;
        let at = (now + Millis::new(latency)).max(connection.last[direction]).max(connection.held_until);
        connection.last[direction] = at;
        Some(at)
    }

    pub(super) fn send_to_server(&mut self, connection: usize, what: ProcessMessage) {
        if let Some(at) = self.arrival(connection, 0) {
            let to = self.connections[connection].server;
            self.schedule_at(at, SimEvent::DeliverToProcess { to, what });
        }
    }

    pub(super) fn send_to_agent(&mut self, connection: usize, what: AgentMessage) {
        if let Some(at) = self.arrival(connection, 1) {
            let Connection { sim_cluster, agent_generation: generation, .. } = self.connections[connection];
            self.schedule_at(at, SimEvent::DeliverToAgent { sim_cluster, generation, what });
        }
    }

    /// Closes a connection and loses what is in flight. The agent notices after `agent_ms`, the
    /// server after `server_ms`, if ever.
    pub(super) fn close_connection(&mut self, connection: usize, agent_ms: Option<i64>, server_ms: Option<i64>) {
        let Some(closing) = self.connections.get_mut(connection).filter(|connection| !connection.closed) else {
            return;
        };
        closing.closed = true;
        let (sim_cluster, generation, to) = (closing.sim_cluster, closing.agent_generation, closing.server);
        if let Some(wait) = agent_ms {
            self.send_agent(wait, sim_cluster, generation, AgentMessage::ConnectionLost { connection });
        }
        if let Some(wait) = server_ms {
            self.send_process(wait, to, ProcessMessage::Closed { connection });
        }
    }

    /// Delays every message on the connection until then.
    pub(super) fn hold_connection(&mut self, connection: usize, until: Timestamp) {
        if let Some(connection) = self.connections.get_mut(connection) {
            connection.held_until = connection.held_until.max(until);
        }
    }

    /// Open connections that `select` picks.
    pub(super) fn open_connections(&self, select: impl Fn(&Connection) -> bool) -> Vec<usize> {
        let open =
            self.connections.iter().enumerate().filter(|(_, connection)| !connection.closed && select(connection));
        open.map(|(number, _)| number).collect()
    }
}
