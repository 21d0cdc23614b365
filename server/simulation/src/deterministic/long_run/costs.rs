//! What the machines of a long run cost by what the server observes of them, to be compared with the bill of the cloud.

use std::collections::BTreeMap;

use controller::StageKind;
use controller::view::{ClusterView, MachineView};
use cost::{CostLedger, CostParts, ObservedMachine, charge};
use model::{ClaimName, MicroUsd, Millis, Timestamp};

use crate::deterministic::Simulation;

/// Machines are observed so often; a server publishes views several times in a second.
const INTERVAL: Millis = Millis::from_secs(10);

/// The ledger, and what each machine costs in its whole life, without a split.
#[derive(Debug, Default)]
pub(super) struct Costs {
    ledger: CostLedger,
    observed: Option<Timestamp>,
    /// Launch and price of the machines that run.
    running: BTreeMap<ClaimName, (Timestamp, MicroUsd)>,
    /// Cost of those that are gone.
    ended: i64,
    violation: Option<String>,
}

impl Costs {
    /// Observes the machines, if it is time for it and a server decides for the cluster.
    pub(super) fn observe(&mut self, simulation: &Simulation, now: Timestamp) {
        if self.observed.is_some_and(|at| now.duration_since(at) < INTERVAL) {
            return;
        }
        let Some(name) = simulation.sim_clusters.first().map(|sim_cluster| &sim_cluster.name) else { return };
        let mut servers = simulation.processes.iter().filter_map(|process| process.server.as_ref());
        let Some(owner) = servers.find_map(|server| server.replica.cluster(name)) else { return };
        self.observed = Some(now);
        let machines: Vec<ObservedMachine> = observed(&owner.view(now), now).collect();
        self.count_lives(&machines, now);
        self.ledger.observe(now, machines);
        let (spent, lives) = (self.ledger.spent().total(), self.ended + self.cost_of_running(now));
        if spent != lives && self.violation.is_none() {
            let at = now.as_millis();
            let why = format!("at {at} ms causes add up to {spent} and lives of machines to {lives} micro-dollars");
            self.violation = Some(why);
        }
    }

    pub(super) fn charged(&self) -> CostParts {
        self.ledger.spent()
    }

    /// When the causes did not add up to what the machines cost, for the first time.
    pub(super) fn violation(&self) -> Option<String> {
        self.violation.clone()
    }

    fn count_lives(&mut self, machines: &[ObservedMachine], now: Timestamp) {
        let is_there = |claim: &ClaimName| machines.iter().any(|machine| machine.claim == *claim);
        for (_, (since, price)) in self.running.extract_if(.., |claim, _| !is_there(claim)) {
            self.ended += charge(price, Millis::ZERO, now.duration_since(since));
        }
        for machine in machines {
            self.running.entry(machine.claim.clone()).or_insert((machine.since, machine.price));
        }
    }

    fn cost_of_running(&self, now: Timestamp) -> i64 {
        let cost = |(since, price): &(Timestamp, MicroUsd)| charge(*price, Millis::ZERO, now.duration_since(*since));
        self.running.values().map(cost).sum()
    }
}

/// Machines whose instances run.
fn observed(view: &ClusterView, now: Timestamp) -> impl Iterator<Item = ObservedMachine> {
    let runs = |machine: &&MachineView| machine.stage != StageKind::Deleting;
    view.machines().filter(runs).filter_map(move |machine| {
        let price = machine.instance.as_ref()?.price;
        // Seen later, it is charged from then on.
        let since = if machine.stage == StageKind::Launched { machine.since } else { now };
        Some(ObservedMachine { claim: machine.claim.clone(), since, price, parts: machine.cost })
    })
}
