//! Required topology spread, as kube-scheduler filters by it, and how evenly a workload stands over zones.

use std::collections::BTreeMap;

use cluster::{NodeRecord, PodRecord};
use model::labels::ZONE;
use model::{NodeName, SpreadConstraint, Text};

use super::SimulatedCluster;
use super::workload::WorkloadState;

/// The pods of a workload in each zone that has a Node or had one.
pub(crate) type PodsByZone = BTreeMap<Text, usize>;

/// The difference between the zone with the most and that with the fewest pods.
pub(crate) fn skew(zones: &PodsByZone) -> usize {
    zones.values().max().copied().unwrap_or(0) - zones.values().min().copied().unwrap_or(0)
}

impl SimulatedCluster {
    /// Whether a further pod on `node` exceeds no required spread. Every Node counts, tainted or not
    /// (`nodeTaintsPolicy: Ignore`).
    pub(super) fn keeps_spread(&self, pod: &PodRecord, node: &NodeRecord) -> bool {
        pod.shape.spread.iter().filter(|constraint| constraint.hard).all(|constraint| {
            let Some(domain) = node.labels.get(&constraint.topology_key) else { return false };
            let counts = self.pods_by_domain(pod, constraint);
            let least = counts.values().min().copied().unwrap_or(0);
            let here = counts.get(domain).copied().unwrap_or(0) + 1;
            i64::try_from(here - least).unwrap_or(i64::MAX) <= i64::from(constraint.max_skew)
        })
    }

    /// The pods that the constraint of `pod` counts, by domain of every Node.
    fn pods_by_domain(&self, pod: &PodRecord, constraint: &SpreadConstraint) -> BTreeMap<&Text, usize> {
        let domain = |node: &NodeName| self.nodes.get(node)?.labels.get(&constraint.topology_key);
        let mut counts: BTreeMap<&Text, usize> =
            self.nodes.keys().filter_map(|node| Some((domain(node)?, 0))).collect();
        let selects = |other: &&PodRecord| {
            let selector = constraint.selector.as_ref();
            other.key.namespace == pod.key.namespace
                && !other.terminating
                && selector.is_some_and(|selector| selector.matches(&other.labels))
        };
        for other in self.pods.values().filter(selects) {
            let domain = other.node.as_ref().and_then(domain);
            domain.into_iter().for_each(|domain| *counts.entry(domain).or_insert(0) += 1);
        }
        counts
    }

    /// The workloads with pods on `node` that are spread over zones by a required constraint, with its maximum skew, if all
    /// their pods are bound.
    pub(crate) fn spread_workloads_on(&self, node: &NodeName) -> Vec<(Text, usize)> {
        let on_node = |name: &Text| {
            let pods = self.on_node.get(node).into_iter().flatten().filter_map(|key| self.pods.get(key));
            let workload = Text::from(format!("ReplicaSet/{name}"));
            pods.into_iter().any(|pod| pod.workload == workload)
        };
        let spread = self.workloads.iter().filter_map(|(name, state)| {
            let over_zones = |one: &&SpreadConstraint| one.hard && one.topology_key.as_ref() == ZONE;
            let constraint = state.workload.shape.spread.iter().find(over_zones)?;
            Some((name.clone(), usize::try_from(constraint.max_skew).unwrap_or(0)))
        });
        spread.filter(|(name, _)| on_node(name) && self.is_bound(name)).collect()
    }

    /// Whether all replicas of the workload are bound to Nodes.
    pub(crate) fn is_bound(&self, workload: &Text) -> bool {
        let Some(state) = self.workloads.get(workload) else { return false };
        let has_node = |pod: &PodRecord| pod.node.as_ref().is_some_and(|node| self.nodes.contains_key(node));
        state.pods.len() == state.replicas && state.pods().filter_map(|key| self.pods.get(key)).all(has_node)
    }

    /// The number of replicas of the workload.
    pub(crate) fn replicas_of(&self, workload: &Text) -> usize {
        self.workloads.get(workload).map_or(0, |state| state.replicas)
    }

    /// The pods of the workload in each zone of a Node.
    pub(crate) fn pods_by_zone(&self, workload: &Text) -> PodsByZone {
        let zone = |node: &NodeName| self.nodes.get(node)?.labels.get(ZONE).cloned();
        let mut zones: PodsByZone = self.nodes.keys().filter_map(|node| Some((zone(node)?, 0))).collect();
        let pods = self.workloads.get(workload).into_iter().flat_map(WorkloadState::pods);
        for pod in pods.filter_map(|key| self.pods.get(key)) {
            let zone = pod.node.as_ref().and_then(zone);
            zone.into_iter().for_each(|zone| *zones.entry(zone).or_insert(0) += 1);
        }
        zones
    }

    pub(crate) fn has_node(&self, node: &NodeName) -> bool {
        self.nodes.contains_key(node)
    }
}
