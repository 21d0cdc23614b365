//! One server process on one thread: its coordinator, and its clusters in the order of their names.
//!
//! A server steps each cluster in a task of its own; the simulation steps the same parts here, so
//! that a run is repeatable.

use std::collections::BTreeMap;
use std::sync::Arc;

use controller::RegionState;
use controller::search_allowance::SearchTotals;
use model::{ClusterName, Timestamp};

use super::call::CounterUpdate;
use super::coordinator::{Coordinator, Step};
use super::input::Input;
use super::output::Output;
use super::owned_cluster::{ClusterInput, ClusterSettings, OwnedCluster};
use store::lease::{Lease, Scope};

/// Leases, agents and decisions of one server process.
#[derive(Debug)]
pub struct Replica {
    coordinator: Coordinator,
    clusters: BTreeMap<ClusterName, OwnedCluster>,
    settings: ClusterSettings,
}

impl Replica {
    /// A process that has just started and launches in `region`. `seed` spreads its retries and
    /// differs in each generation.
    #[must_use]
    pub fn new(settings: controller::Settings, seed: u64, region: Scope) -> Self {
        let (shared, scope) = (Arc::new(RegionState::new(settings)), region.clone());
        Self {
            coordinator: Coordinator::new(Arc::clone(&shared), seed, region),
            clusters: BTreeMap::new(),
            settings: ClusterSettings { region: shared, scope, seed },
        }
    }

    /// Limits how many clusters are admitted at one time.
    #[must_use]
    pub fn with_admission_limit(self, at_once: usize) -> Self {
        Self { coordinator: self.coordinator.with_admission_limit(at_once), ..self }
    }

    /// Handles `input` and returns the actions in order.
    pub fn handle(&mut self, input: Input, now: Timestamp) -> Vec<Output> {
        let is_time = matches!(input, Input::Time);
        let mut outputs = Vec::new();
        for step in self.coordinator.handle(input, now) {
            match step {
                Step::Output(output) => outputs.push(output),
                Step::Own(cluster, lease) => self.own(cluster, lease),
                Step::Release(cluster, _) => {
                    self.clusters.remove(&cluster);
                }
                Step::Deliver(cluster, input) => {
                    let cluster = self.clusters.get_mut(&cluster);
                    outputs.extend(cluster.map(|cluster| cluster.handle(input, now)).unwrap_or_default());
                }
            }
        }
        for cluster in self.clusters.values_mut() {
            let due = is_time && cluster.next_wakeup().is_some_and(|at| at <= now);
            if due || cluster.is_outdated() {
                outputs.extend(cluster.handle(ClusterInput::Time, now));
            }
        }
        outputs
    }

    fn own(&mut self, cluster: ClusterName, lease: Lease) {
        match self.clusters.get_mut(&cluster) {
            Some(owned) => owned.replace_lease(lease),
            None => {
                let owned = OwnedCluster::new(cluster.clone(), lease, &self.settings);
                self.clusters.insert(cluster, owned);
            }
        }
    }

    /// Latest time of the next [`Input::Time`].
    #[must_use]
    pub fn next_wakeup(&self) -> Option<Timestamp> {
        let clusters = self.clusters.values().filter_map(OwnedCluster::next_wakeup);
        clusters.chain(self.coordinator.next_wakeup()).min()
    }

    #[must_use]
    pub fn cluster(&self, cluster: &ClusterName) -> Option<&OwnedCluster> {
        self.clusters.get(cluster)
    }

    /// The clusters of this process, in order.
    pub fn clusters(&self) -> impl Iterator<Item = (&ClusterName, &OwnedCluster)> {
        self.clusters.iter()
    }

    /// What searches for cheaper plans did since the process started.
    #[must_use]
    pub fn search_totals(&self) -> SearchTotals {
        self.settings.region.search_totals()
    }

    /// The leases of this process, as far as it knows.
    pub fn leases(&self) -> impl Iterator<Item = &Lease> {
        self.coordinator.leases()
    }

    /// The last counter update before shutdown.
    pub fn final_counters(&mut self, now: Timestamp) -> Option<CounterUpdate> {
        self.coordinator.final_counters(now)
    }

    /// Identifies this run of the process among all others.
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.coordinator.generation()
    }
}

#[cfg(test)]
mod tests;
