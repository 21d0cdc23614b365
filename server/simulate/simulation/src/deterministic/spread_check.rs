//! Whether a voluntary removal leaves a workload as evenly spread over zones as it was.
//!
//! What counts are the zones that had a Node when the drain began: kube-scheduler does not count a zone whose last Node is
//! gone, so that a workload may lose it for good.

use model::{NodeName, Timestamp};

use super::sim_cluster::SimCluster;
use super::spread_record::SpreadBefore;
use super::violation::Violation;
use crate::kube::cluster::spread::skew;

impl SimCluster {
    /// Records how the workloads on `node`, whose drain begins, are spread.
    pub(super) fn record_spread(&mut self, node: &NodeName, now: Timestamp) {
        for (workload, max_skew) in self.cluster.spread_workloads_on(node) {
            let (zones, replicas) = (self.cluster.pods_by_zone(&workload), self.cluster.replicas_of(&workload));
            self.ledger.spread.push(SpreadBefore {
                node: node.clone(),
                workload,
                max_skew,
                replicas,
                zones,
                begun: now,
            });
        }
    }

    /// Judges the workloads whose pods run elsewhere by now. One that was scaled meanwhile, or that lost Nodes in another
    /// way, is not judged.
    pub(super) fn check_spread(&mut self) -> Vec<Violation> {
        let mut found = Vec::new();
        for before in std::mem::take(&mut self.ledger.spread) {
            let is_disturbed = self.ledger.capacity_lost.is_some_and(|at| at >= before.begun)
                || self.cluster.replicas_of(&before.workload) != before.replicas;
            if is_disturbed {
                continue;
            }
            if self.cluster.has_node(&before.node) || !self.cluster.is_bound(&before.workload) {
                self.ledger.spread.push(before);
                continue;
            }
            let after = self.cluster.pods_by_zone(&before.workload);
            let zones = before.zones.keys().map(|zone| (zone.clone(), after.get(zone).copied().unwrap_or(0)));
            if skew(&zones.collect()) > skew(&before.zones).max(before.max_skew) {
                found.push(Violation::SpreadLost { cluster: self.name.clone(), workload: before.workload });
            }
        }
        found
    }
}
