//! What is going to happen, and the wires that agents and servers speak on.
//!
//! A wire delivers in order, each way with a latency of its own. A wire that is cut loses what is on it; both ends learn of it
//! in their own time, or only by silence.

use std::collections::BTreeMap;
use std::sync::Arc;

use cloud::simulated::SeededRng;
use engine::control::ClusterId;
use engine::model::Timestamp;
use fleetwright_proto::v1;
use simulator::cluster::Workload;

use super::fault::{Counts, Fault, Lacks};
use super::outside::{Incarnation, Outside};
use crate::control_loop::replica::Input;

/// One way between agent and server, least and most, in milliseconds.
const WIRE_MS: (i64, i64) = (2, 60);

/// Something that happens at a moment.
#[derive(Debug)]
pub(super) enum Happening {
    Fault(Fault),
    /// A workload of a cluster changes its replicas.
    Scale {
        site: usize,
        workload: Workload,
        replicas: usize,
    },
    /// A process starts.
    Start {
        process: usize,
    },
    /// Something reaches a process, unless that has died meanwhile.
    ToProcess {
        to: Incarnation,
        what: ForProcess,
    },
    /// Something reaches an agent, unless that has been restarted meanwhile.
    ToAgent {
        site: usize,
        life: u32,
        what: ForAgent,
    },
    /// An agent is there again.
    Awake {
        site: usize,
    },
    /// An agent sees everything again.
    Sees {
        site: usize,
    },
    /// An agent's watch begins anew with a whole list.
    Relists {
        site: usize,
        lacks: Lacks,
    },
    /// Kubelets of a cluster report again.
    Reports {
        site: usize,
    },
    /// Kubelets reach their cluster again.
    Joins {
        site: usize,
    },
    /// A person vouches for what the agent of a cluster shows.
    Vouch {
        site: usize,
    },
    /// A person looks at what is held back.
    Look,
    /// A freeze ends.
    Thaw {
        freeze: i64,
    },
}

/// What reaches a process.
#[derive(Debug)]
pub(super) enum ForProcess {
    Opened {
        wire: usize,
        hello: Box<v1::Hello>,
    },
    Said {
        wire: usize,
        request: Box<v1::ConnectRequest>,
    },
    Closed {
        wire: usize,
    },
    /// A work naps no longer.
    GoOn {
        work: u64,
    },
    /// A work has taken too long.
    GiveUp {
        work: u64,
        late: Box<Input>,
    },
    /// Sessions are told the time.
    Beat,
    /// Leases are prolonged.
    Renew,
    /// It is time to list what the cloud has.
    List,
    /// The cloud may have told something.
    Fetch,
    /// What is frozen has changed.
    Frozen,
    /// A person vouches for what the agent of this cluster shows.
    Vouched {
        cluster: ClusterId,
    },
}

/// What reaches an agent.
#[derive(Debug)]
pub(super) enum ForAgent {
    Connect,
    Heard { wire: usize, response: Box<v1::ConnectResponse> },
    Lost { wire: usize },
    CarryOut(Box<v1::Instruction>),
    Beat,
}

/// The way between one agent and one process.
#[derive(Debug)]
pub(super) struct Wire {
    pub(super) site: usize,
    pub(super) agent_life: u32,
    pub(super) server: Incarnation,
    pub(super) cut: bool,
    /// When the last message of each direction arrives: to the server, to the agent.
    last: [Timestamp; 2],
    /// Nothing arrives before this.
    held_until: Timestamp,
}

/// The agenda of a run.
pub(super) struct Stage {
    pub(super) outside: Arc<Outside>,
    agenda: BTreeMap<(Timestamp, u64), Happening>,
    number: u64,
    wires: Vec<Wire>,
    dice: SeededRng,
    /// Faults that took place.
    pub(super) faults: Counts,
    /// What happens is told on standard error.
    pub(super) trace: bool,
}

impl Stage {
    pub(super) fn new(seed: u64, outside: Arc<Outside>, trace: bool) -> Self {
        let dice = SeededRng::new(seed).child("stage");
        Self { outside, agenda: BTreeMap::new(), number: 0, wires: Vec::new(), dice, faults: Counts::new(), trace }
    }

    pub(super) fn now(&self) -> Timestamp {
        self.outside.now()
    }

    pub(super) fn at(&mut self, moment: Timestamp, happening: Happening) {
        self.number += 1;
        self.agenda.insert((moment.max(self.now()), self.number), happening);
    }

    pub(super) fn after(&mut self, wait_ms: i64, happening: Happening) {
        self.at(Timestamp(self.now().0.saturating_add(wait_ms)), happening);
    }

    /// Puts off what was due, behind nothing that was due later.
    pub(super) fn put_off(&mut self, until: Timestamp, number: u64, happening: Happening) {
        self.agenda.insert((until, number), happening);
    }

    pub(super) fn next_moment(&self) -> Option<Timestamp> {
        self.agenda.keys().next().map(|(at, _)| *at)
    }

    /// What is due, with its number.
    pub(super) fn pop(&mut self) -> Option<(u64, Happening)> {
        let first = self.agenda.first_entry().filter(|entry| entry.key().0 <= self.outside.now())?;
        let ((_, number), happening) = first.remove_entry();
        Some((number, happening))
    }

    /// A die of its own for each question.
    pub(super) fn die(&mut self) -> SeededRng {
        self.number += 1;
        self.dice.child_number(self.number)
    }

    pub(super) fn tell(&self, line: impl FnOnce() -> String) {
        if self.trace {
            eprintln!("{:>9} ms  {}", self.now().0, line());
        }
    }

    pub(super) fn send_process(&mut self, wait_ms: i64, to: Incarnation, what: ForProcess) {
        self.after(wait_ms, Happening::ToProcess { to, what });
    }

    pub(super) fn send_agent(&mut self, wait_ms: i64, site: usize, life: u32, what: ForAgent) {
        self.after(wait_ms, Happening::ToAgent { site, life, what });
    }

    /// A new wire from an agent to a process.
    pub(super) fn lay(&mut self, site: usize, agent_life: u32, server: Incarnation) -> usize {
        let (last, held_until) = ([self.now(); 2], self.now());
        self.wires.push(Wire { site, agent_life, server, cut: false, last, held_until });
        self.wires.len() - 1
    }

    pub(super) fn wire(&self, wire: usize) -> &Wire {
        &self.wires[wire]
    }

    /// When the next message on `wire` arrives; `None` when it is cut.
    fn arrival(&mut self, wire: usize, direction: usize) -> Option<Timestamp> {
        let latency = self.die().between(WIRE_MS);
        let now = self.now();
        let wire = self.wires.get_mut(wire).filter(|wire| !wire.cut)?;
        let at = Timestamp(now.0.saturating_add(latency)).max(wire.last[direction]).max(wire.held_until);
        wire.last[direction] = at;
        Some(at)
    }

    pub(super) fn say_to_server(&mut self, wire: usize, what: ForProcess) {
        if let Some(at) = self.arrival(wire, 0) {
            let to = self.wires[wire].server;
            self.at(at, Happening::ToProcess { to, what });
        }
    }

    pub(super) fn say_to_agent(&mut self, wire: usize, what: ForAgent) {
        if let Some(at) = self.arrival(wire, 1) {
            let Wire { site, agent_life: life, .. } = self.wires[wire];
            self.at(at, Happening::ToAgent { site, life, what });
        }
    }

    /// What is on the wire is lost. The agent learns of it after `agent_ms`, the server after `server_ms`, if ever.
    pub(super) fn cut(&mut self, wire: usize, agent_ms: Option<i64>, server_ms: Option<i64>) {
        let Some(cut) = self.wires.get_mut(wire).filter(|wire| !wire.cut) else { return };
        cut.cut = true;
        let (site, life, to) = (cut.site, cut.agent_life, cut.server);
        if let Some(wait) = agent_ms {
            self.send_agent(wait, site, life, ForAgent::Lost { wire });
        }
        if let Some(wait) = server_ms {
            self.send_process(wait, to, ForProcess::Closed { wire });
        }
    }

    /// Nothing arrives on the wire until then.
    pub(super) fn hold(&mut self, wire: usize, until: Timestamp) {
        if let Some(wire) = self.wires.get_mut(wire) {
            wire.held_until = wire.held_until.max(until);
        }
    }

    /// Open wires that `select` picks.
    pub(super) fn open_wires(&self, select: impl Fn(&Wire) -> bool) -> Vec<usize> {
        let open = self.wires.iter().enumerate().filter(|(_, wire)| !wire.cut && select(wire));
        open.map(|(number, _)| number).collect()
    }
}
