//! The whole system by seed: real engine, controller, executor, sessions and agents' links, simulated clusters, cloud and
//! store, several server processes, one virtual clock — and faults.
//!
//! Equal seeds give equal runs. Each step goes to the next moment at which anything happens, lets it happen, and asks the
//! [`invariants`]. When the faults are over the system is given time to come to rest, and then nothing may be left behind.
//!
//! What must never be, and what would break it, is a table in the README beside the files of this room.
//!
//! Reading order: [`setup`] (what a run is made of), [`fault`] (what goes wrong), [`guard`] and `scene` (what keeps it from
//! going wrong, and runs in which that is needed), `stage` (what happens next, and wires),
//! `process` (a server), `site` (a cluster and its agent), `outside` and `port` (store and cloud), `clockwork` (virtual
//! time), [`invariants`], [`report`], [`many`] (seed after seed, and shrinking).

mod clockwork;
pub(crate) mod fault;
pub(crate) mod guard;
pub(crate) mod invariants;
pub(crate) mod many;
mod outside;
mod port;
mod process;
pub(crate) mod report;
mod scene;
pub(crate) mod setup;
mod site;
mod stage;
mod strike;

use std::collections::BTreeSet;
use std::sync::Arc;

use cloud::provider::CloudEvent;
use engine::model::Timestamp;

use clockwork::Clockwork;
use fault::Fault;
use invariants::{Memory, Violation};
use outside::{Incarnation, Outside};
use process::{Blueprint, Process};
use report::Report;
use setup::{Caps, Setup};
use site::Site;
use stage::{ForAgent, ForProcess, Happening, Stage};

/// Between a cloud's telling and a server's asking, in milliseconds. A server asks every quarter of a second.
const FETCH_MS: i64 = 250;
/// Steps at one and the same moment after which a run is taken to be stuck.
const STUCK: u32 = 20_000;
/// Between two looks at what holds only over time, in milliseconds.
const LOOK_MS: i64 = 5_000;

/// A run.
pub(crate) struct Simulation {
    seed: u64,
    stage: Stage,
    blueprint: Blueprint,
    processes: Vec<Process>,
    sites: Vec<Site>,
    memory: Memory,
    violations: BTreeSet<Violation>,
    steps: u64,
    looked: Timestamp,
    /// Whether what the cloud's listing shows has to be remembered for later.
    lists_lag: bool,
    /// From then on nothing goes wrong any more.
    calm_from: Timestamp,
    /// How many machines may come and go within a while, if that is looked at.
    caps: Option<Caps>,
    /// How long empty nodes may stand without one that leaves, in milliseconds, if that is looked at.
    empty_for_ms: Option<i64>,
    /// By then everything must be at rest.
    end: Timestamp,
}

impl Simulation {
    /// A run that has not begun.
    pub(crate) fn new(setup: Setup, trace: bool) -> Self {
        let outside = Arc::new(Outside::new(setup.seed, Clockwork::new(), setup.cloud));
        let mut stage = Stage::new(setup.seed, outside, trace);
        for process in 0..setup.processes {
            stage.after(0, Happening::Start { process });
        }
        for site in 0..setup.sites.len() {
            stage.after(0, Happening::Awake { site });
        }
        stage.after(strike::WORD_MS, Happening::Look);
        for (at_ms, site, workload, replicas) in setup.script {
            stage.after(at_ms, Happening::Scale { site, workload, replicas });
        }
        for timed in &setup.faults {
            stage.after(timed.at_ms, Happening::Fault(timed.fault));
        }
        Self {
            seed: setup.seed,
            stage,
            blueprint: setup.blueprint,
            processes: (0..setup.processes).map(Process::new).collect(),
            sites: setup.sites,
            memory: Memory::default(),
            violations: BTreeSet::new(),
            steps: 0,
            looked: Timestamp(0),
            lists_lag: setup.faults.iter().any(|timed| matches!(timed.fault, Fault::StaleLists { .. })),
            calm_from: Timestamp(setup.calm_from_ms),
            caps: setup.caps,
            empty_for_ms: setup.empty_for_ms,
            end: Timestamp(setup.calm_from_ms.saturating_add(setup.rest_within_ms)),
        }
    }

    /// Runs until everything is at rest after the last fault, until it should have been, or until an invariant breaks.
    pub(crate) fn run(mut self) -> Report {
        let mut at_once = 0;
        let mut rested = false;
        while let Some(next) = self.next_moment().filter(|next| *next <= self.end) {
            at_once = if next <= self.stage.now() { at_once + 1 } else { 0 };
            self.stage.outside.clockwork.set(next.max(self.stage.now()));
            if at_once > STUCK {
                self.violations.insert(Violation::Stuck { at: next });
            }
            self.step();
            let looks = self.stage.now().millis_since(self.looked) >= LOOK_MS;
            self.check(looks);
            if !self.violations.is_empty() {
                break;
            }
            if looks {
                self.looked = self.stage.now();
                if self.lists_lag {
                    self.stage.outside.remember_listing();
                }
                rested = self.looked >= self.calm_from && self.unrest().is_empty();
                if rested {
                    break;
                }
            }
        }
        if !rested && self.violations.is_empty() {
            self.violations.extend(self.unrest());
        }
        self.report()
    }

    fn next_moment(&self) -> Option<Timestamp> {
        let clusters = self.sites.iter().filter_map(|site| site.cluster.next_event());
        let processes = self.processes.iter().filter_map(Process::next_wakeup);
        let rest = [self.stage.next_moment(), self.stage.outside.cloud().next_event()];
        rest.into_iter().flatten().chain(clusters).chain(processes).min()
    }

    fn step(&mut self) {
        let before = self.steps;
        while let Some((number, happening)) = self.stage.pop() {
            if self.steps - before > u64::from(STUCK) {
                self.violations.insert(Violation::Stuck { at: self.stage.now() });
                return;
            }
            self.steps += 1;
            self.happen(number, happening);
        }
        let now = self.stage.now();
        let told = self.stage.outside.cloud().tick(now);
        for event in told {
            self.cloud_says(&event);
        }
        for site in &mut self.sites {
            site.live(&mut self.stage);
        }
        for at in 0..self.processes.len() {
            if self.processes[at].next_wakeup().is_some_and(|due| due <= now) && self.takes_step(at) {
                self.steps += 1;
                self.processes[at].time_passed(&mut self.stage);
            }
        }
    }

    fn happen(&mut self, number: u64, happening: Happening) {
        match happening {
            Happening::Fault(fault) => self.strike(fault),
            Happening::Scale { site, workload, replicas } => {
                let now = self.stage.now();
                self.stage.tell(|| format!("{} of cluster {site} gets {replicas} replicas", workload.name));
                self.sites[site].cluster.scale(&workload, replicas, now);
            }
            Happening::Start { process } => {
                if self.processes[process].server.is_none() {
                    self.stage.tell(|| format!("server {process} starts"));
                    self.processes[process].start(&self.blueprint, &mut self.stage);
                }
            }
            Happening::ToProcess { to, what } => self.reach(number, to, what),
            Happening::Awake { site } => self.sites[site].start(&mut self.stage),
            Happening::Sees { site } => self.sites[site].turn_blind(false, &mut self.stage),
            Happening::Relists { site, lacks } => self.sites[site].relist(lacks, false, &mut self.stage),
            Happening::Reports { site } => self.sites[site].silence(false, &mut self.stage),
            Happening::Thaw { freeze } => self.thaw(freeze),
            Happening::Look => self.look(),
            Happening::Vouch { site } => self.vouch(site),
            Happening::Joins { site } => self.sites[site].cluster.let_join(true),
            Happening::ToAgent { site, life, what } => {
                if self.sites[site].life != life {
                    return;
                }
                if matches!(what, ForAgent::Connect) {
                    return self.connect(site);
                }
                self.sites[site].take(what, &mut self.stage);
            }
        }
    }

    fn reach(&mut self, number: u64, to: Incarnation, what: ForProcess) {
        let lives = |process: &Process| process.me() == to && process.server.is_some();
        if !lives(&self.processes[to.process]) {
            return;
        }
        let moves = self.processes[to.process].paused_until <= self.stage.now() && self.takes_step(to.process);
        if moves {
            self.processes[to.process].take(what, &mut self.stage);
        } else if lives(&self.processes[to.process]) {
            // Whoever wakes up looks at the answer before the clock.
            let late = i64::from(matches!(what, ForProcess::GiveUp { .. }));
            let until = Timestamp(self.processes[to.process].paused_until.0.saturating_add(late));
            self.stage.put_off(until, number, Happening::ToProcess { to, what });
        }
    }

    /// Whether a process lives on, and moves, to take its next step.
    fn takes_step(&mut self, at: usize) -> bool {
        if let Some(away_ms) = count_down(&mut self.processes[at].dies) {
            self.kill(at, away_ms);
            return false;
        }
        if let Some(for_ms) = count_down(&mut self.processes[at].halts) {
            self.pause(at, for_ms);
            return false;
        }
        true
    }

    /// The agent of `site` asks some process for a conversation; which one changes from try to try.
    fn connect(&mut self, site: usize) {
        let now = self.stage.now();
        let ready = |process: &Process| process.server.as_ref().is_some_and(|server| server.is_ready());
        let alive = |process: &Process| ready(process) && process.paused_until <= now;
        let reached: Vec<Option<Incarnation>> =
            self.processes.iter().map(|process| alive(process).then(|| process.me())).collect();
        let turn =
            |attempt: u64| usize::try_from(attempt.wrapping_add(site as u64) % reached.len() as u64).unwrap_or(0);
        self.sites[site].connect(|attempt| reached.get(turn(attempt)).copied().flatten(), &mut self.stage);
    }

    fn cloud_says(&mut self, event: &CloudEvent) {
        let now = self.stage.now();
        if let CloudEvent::Terminated(instance) = event {
            self.stage.tell(|| format!("{} for {} is gone", instance.provider_id, instance.claim));
            if let Some(site) = self.sites.iter_mut().find(|site| site.name == instance.cluster) {
                site.cluster.machine_gone(&instance.provider_id, now);
            }
        }
        for process in &self.processes {
            let Some(server) = &process.server else { continue };
            if !server.port.is_told() {
                self.stage.send_process(FETCH_MS, process.me(), ForProcess::Fetch);
            }
            server.port.tell(event.clone());
        }
    }
}

/// One step less; what is due, when none is left.
fn count_down(due: &mut Option<(u32, i64)>) -> Option<i64> {
    let (steps, size) = due.as_mut()?;
    if *steps > 0 {
        *steps -= 1;
        return None;
    }
    let size = *size;
    *due = None;
    Some(size)
}

#[cfg(test)]
mod tests;
