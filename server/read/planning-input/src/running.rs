//! What runs in a captured cluster, for repacking and disruption.

use std::collections::{BTreeMap, BTreeSet};

use cluster::{ClaimRecord, ClusterState, DistinctValues, NodeRecord, running_cluster};
use manifests::cluster::Cluster;
use manifests::cluster::policy::DisruptionBudget;
use manifests::notes::Notes;
use model::input::PlanningInput;
use model::labels::HOSTNAME;
use model::removal::PodBudget;
use model::repair_policy::toleration;
use model::running::{Consolidatable, RunningClaim, RunningCluster, RunningDrift, UnhealthyNode};
use model::{ClaimName, Millis, Node, NodeStage, PodKey, Text, Timestamp, VolumeAlternatives};

use crate::drains::BudgetedPods;
use crate::prices::NodePrices;

/// The nodes of `input`, which is the planning input of `state`, with prices of the catalogue.
pub struct RunningReader<'r> {
    /// The objects of the input, except Karpenter's.
    pub cluster: &'r Cluster,
    /// NodeClaims whose condition Launched is not True.
    pub not_launched: BTreeSet<ClaimName>,
    /// All of them, as records.
    pub state: &'r ClusterState,
    pub prices: NodePrices<'r>,
    /// Notes for the user.
    pub notes: &'r mut Notes,
}

impl RunningReader<'_> {
    pub fn for_disruption(self, input: &mut PlanningInput) -> RunningCluster {
        let mut running = running_cluster(self.state, input, Millis::ZERO);
        for one in &mut running.nodes {
            let node = &input.nodes[one.node as usize];
            let price = self.prices.price(node, self.notes);
            if price.is_none() && node.pool.is_some() {
                self.notes.add("the price of nodes is unknown: removing them saves nothing", &node.name);
            }
            one.price = price.unwrap_or_default();
            if let Some(claim) = &mut one.claim {
                self.complete(claim, node, input.now);
            }
        }
        self.mark_unsafe_pods(&mut running);
        running
    }

    /// What the reasons to remove a node are found by: its expiry, its drift and its health.
    fn complete(&self, claim: &mut RunningClaim, node: &Node, now: Timestamp) {
        let Some(record) = self.state.claim(&claim.name) else { return };
        claim.expires = record.created.and_then(|created| Some(created + record.expire_after?));
        claim.drift = self.drift(record, now);
        claim.unhealthy = self.state.node(&node.name).and_then(unhealthy);
        let wait = self.state.pool(&record.pool).and_then(|pool| pool.disruption.consolidate_after);
        claim.consolidatable = wait.map_or(Consolidatable::Never, |wait| consolidatable(record, node, wait, now));
    }

    /// A drift that the NodeClaim shows, else what its manifests show.
    fn drift(&self, claim: &ClaimRecord, now: Timestamp) -> Option<RunningDrift> {
        if self.not_launched.contains(&claim.name) {
            return None;
        }
        let shown = claim.drift.shown.as_ref().map(|(reason, _)| reason.clone());
        let since = claim.drift.drifted_since.filter(|_| shown.is_some()).unwrap_or(now);
        let found = || self.state.drift_of(claim, now).map(|drift| Text::from(drift.reason.as_str()));
        Some(RunningDrift { reason: shown.or_else(found)?, since })
    }

    /// What repacking looks at: Nodes with a known price. NodeClaims without a Node are noted.
    pub fn for_repacking(mut self, input: &mut PlanningInput) -> RunningCluster {
        let mut running = running_cluster(self.state, input, Millis::ZERO);
        let mut volumes = DistinctValues::of(std::mem::take(&mut input.volume_sets));
        running.policies = BTreeMap::new();
        running.nodes.retain_mut(|one| {
            let node = &input.nodes[one.node as usize];
            let Some(price) = self.known_price(node) else { return false };
            (one.price, one.claim) = (price, None);
            one.do_not_disrupt = self.state.node(&node.name).and_then(|node| node.do_not_disrupt);
            // A pod of a StatefulSet that ends is created again; a repacking plans no such pod.
            one.pods.retain(|pod| !pod.facts.terminating);
            for pod in one.pods.iter_mut().filter_map(|pod| pod.pod.as_mut()) {
                let needs = pod.volumes.map(|index| without_host(volumes.get(index).clone()));
                pod.volumes = needs.map(|needs| volumes.index(&needs));
            }
            true
        });
        input.volume_sets = volumes.into_values();
        self.mark_unsafe_pods(&mut running);
        running
    }

    fn known_price(&mut self, node: &Node) -> Option<model::MicroUsd> {
        if node.stage == NodeStage::InFlight {
            self.notes
                .add("NodeClaims without a Node stay, provide capacity, and are in none of the costs", &node.name);
            return None;
        }
        let price = self.prices.price(node, self.notes);
        if price.is_none() {
            let what = "the price of nodes is unknown: they stay, provide capacity, and are in none of the costs";
            self.notes.add(what, &node.name);
        }
        price
    }

    /// Marks the pods that Cluster Autoscaler must not evict.
    fn mark_unsafe_pods(&self, running: &mut RunningCluster) {
        let unsafe_pods = self.cluster.pods.iter().filter(|pod| pod.unsafe_to_evict);
        let key = |(namespace, name): (&Text, &Text)| PodKey { namespace: namespace.clone(), name: name.clone() };
        let unsafe_pods: BTreeSet<PodKey> = unsafe_pods.map(|pod| key((&pod.meta.namespace, &pod.meta.name))).collect();
        let pods = running.nodes.iter_mut().flat_map(|node| &mut node.pods);
        pods.for_each(|pod| pod.unsafe_to_evict = unsafe_pods.contains(&pod.facts.key));
    }
}

/// By the condition of the NodeClaim, or by its last pod event (plan contract §3). A server also counts the starts of pods
/// that it has not recorded.
fn consolidatable(claim: &ClaimRecord, node: &Node, wait: Millis, now: Timestamp) -> Consolidatable {
    if claim.condition_digest.is_consolidatable() || node.stage != NodeStage::Initialized {
        return Consolidatable::From(now);
    }
    // Without a time the wait begins now.
    let since = claim.last_pod_event.or(claim.initialized_at).unwrap_or(now);
    Consolidatable::From(since + wait.max(Millis::ZERO))
}

/// The condition that a repair policy matches and whose toleration ends first.
fn unhealthy(node: &NodeRecord) -> Option<UnhealthyNode> {
    let matching = node.unmet.iter().filter_map(|unmet| {
        let toleration = toleration(&unmet.kind, &unmet.status)?;
        Some(UnhealthyNode {
            condition: Text::from(format!("{} is {}", unmet.kind, unmet.status)),
            repair_from: unmet.since + toleration,
            do_not_repair: node.do_not_repair,
        })
    });
    matching.min_by_key(|unhealthy| unhealthy.repair_from)
}

/// Sets what budgets without a status allow: one eviction if their threshold lets one of the pods that they select go.
pub fn count_budgets(running: &mut RunningCluster, budgets: &[DisruptionBudget], budgeted_pods: &BudgetedPods) {
    for budget in budgets.iter().filter(|budget| budget.disruptions_allowed.is_none()) {
        let blocks =
            |threshold: &manifests::cluster::policy::BudgetThreshold| threshold.blocks_all(budgeted_pods.count(budget));
        let known: Option<&mut PodBudget> =
            running.pod_budgets.get_mut(&Text::from(format!("{}/{}", budget.namespace, budget.name)));
        if let Some(known) = known {
            known.allowed = usize::from(!budget.threshold.as_ref().is_some_and(blocks));
        }
    }
}

/// `volumes` of a pod that leaves the node where they are: the data on its disk is lost with it.
fn without_host(mut volumes: VolumeAlternatives) -> VolumeAlternatives {
    for alternative in &mut volumes.any_of {
        alternative.remove(HOSTNAME);
    }
    if volumes.any_of.iter().all(model::Requirements::is_empty) {
        volumes.any_of.clear();
    }
    volumes
}
