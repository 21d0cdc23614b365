//! What the machines of a long run cost by what the server observes of them, to be compared with the bill of the cloud.

use std::collections::BTreeMap;

use controller::StageKind;
use controller::view::{ClusterView, MachineView};
use cost::{CostLedger, CostParts, CostedMachine, ObservedMachine, charge};
use futures::future::FutureExt;
use model::{ClaimName, MicroUsd, Millis, ProviderId, Timestamp};
use store::Store;
use store::spend::{IntervalFilter, SpendGroup, SpendPeriod, SpendQuery};

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
        let Some(view) = simulation.view_of_first(now) else { return };
        self.observed = Some(now);
        let machines: Vec<ObservedMachine> = observed(&view, now).collect();
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
        let is_there = |claim: &ClaimName| machines.iter().any(|observed| observed.machine.claim == *claim);
        for (_, (since, price)) in self.running.extract_if(.., |claim, _| !is_there(claim)) {
            self.ended += charge(price, Millis::ZERO, now.duration_since(since));
        }
        for ObservedMachine { machine, since, .. } in machines {
            self.running.entry(machine.claim.clone()).or_insert((*since, machine.price));
        }
    }

    fn cost_of_running(&self, now: Timestamp) -> i64 {
        let cost = |(since, price): &(Timestamp, MicroUsd)| charge(*price, Millis::ZERO, now.duration_since(*since));
        self.running.values().map(cost).sum()
    }
}

/// What the store has at the end of a run.
#[derive(Debug, Clone, Copy, Default)]
pub struct StoredCosts {
    pub parts: CostParts,
    /// Until when all machines are charged.
    pub until: Timestamp,
    /// Decisions that removed machines to save their price, and whose 24 hours are over.
    pub realised: Savings,
    /// Intervals that begin before the one before of the same machine ends.
    pub overlaps: usize,
    /// Those of which a later decision, or the cloud, has ended a launched machine in this time.
    pub overtaken: Savings,
}

/// Decisions and what they saved in 24 hours.
#[derive(Debug, Clone, Copy, Default)]
pub struct Savings {
    pub decisions: usize,
    /// What the machines that they removed would have cost.
    pub removed: MicroUsd,
    pub predicted: MicroUsd,
    pub realised: MicroUsd,
    /// What later decisions bought for pods that they moved; `realised` is less by it.
    pub bought_later: MicroUsd,
}

impl StoredCosts {
    #[must_use]
    pub fn total(&self) -> MicroUsd {
        MicroUsd(self.parts.total())
    }

    /// Reads what the server has stored about the cluster until `now`.
    pub(super) fn read(simulation: &Simulation, now: Timestamp) -> Self {
        let store = simulation.events.environment.store();
        let query = SpendQuery {
            clusters: None,
            from_ms: 0,
            to_ms: i64::MAX,
            period: SpendPeriod::Whole,
            group: SpendGroup::Cluster,
        };
        let rows = store.spend(&query).now_or_never().and_then(Result::ok).unwrap_or_default();
        let mut stored = Self::default();
        rows.iter().for_each(|row| stored.parts += row.parts);
        let Some(cluster) = rows.first().map(|row| row.cluster.clone()) else { return stored };
        let all = IntervalFilter { cluster, from_ms: 0, to_ms: i64::MAX, after: None, limit: u32::MAX };
        let intervals = store.cost_intervals(&all).now_or_never().and_then(Result::ok).unwrap_or_default();
        stored.until = intervals.iter().map(|interval| interval.end).max().unwrap_or_default();
        let mut ends = BTreeMap::<&ClaimName, Timestamp>::new();
        for interval in &intervals {
            let before = ends.insert(&interval.machine.claim, interval.end);
            stored.overlaps += usize::from(before.is_some_and(|end| interval.start < end));
        }
        for saving in cost::savings(&intervals).into_iter().filter(|saving| saving.ends() <= now) {
            let sum = if saving.is_overtaken { &mut stored.overtaken } else { &mut stored.realised };
            sum.decisions += 1;
            sum.removed.0 += saving.removed_cost;
            sum.predicted.0 += saving.predicted();
            sum.realised.0 += saving.realised();
            sum.bought_later.0 += saving.bought_later_cost;
        }
        stored
    }
}

fn observed(view: &ClusterView, now: Timestamp) -> impl Iterator<Item = ObservedMachine> {
    let runs = |machine: &&MachineView| machine.stage != StageKind::Deleting;
    view.machines().filter(runs).filter_map(move |machine| {
        let instance = machine.instance.as_ref()?;
        // Seen later, it is charged from then on.
        let since = if machine.stage == StageKind::Launched { machine.since } else { now };
        let costed = CostedMachine {
            claim: machine.claim.clone(),
            pool: machine.pool.clone(),
            provider_id: ProviderId::default(),
            instance_type: instance.instance_type.clone(),
            zone: instance.zone.clone(),
            capacity_type: instance.capacity_type,
            price: instance.price,
            launched_by: None,
            removed_by: None,
            moved: Vec::new(),
        };
        Some(ObservedMachine { machine: costed, since, parts: machine.cost })
    })
}
