//! NodePools: allowed instance types, requirements and limits.

use std::collections::BTreeSet;

use super::labels::ZONE;
use super::offering::{MicroUsd, SharedCatalogue};
use super::{Labels, Millis, PoolName, Requirements, Resources, Taint, Text, Zone};

/// Reason why a pool is excluded from planning.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum NotReady {
    /// The NodeClass is missing, not ready or being deleted; the text says which.
    NodeClass(Text),
    /// The pool itself is not ready or being deleted; the text says why.
    NodePool(Text),
}

/// A NodePool with its class and catalogue, as planning uses it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NodePool {
    /// `metadata.name`.
    pub name: PoolName,
    /// Name of the NodeClass.
    pub node_class: Text,
    /// 0 to 100, higher first.
    pub weight: i32,
    /// Labels of the template.
    pub labels: Labels,
    /// Taints of the running node.
    pub taints: Vec<Taint>,
    /// Taints removed before pods are scheduled; they exclude no pod.
    pub startup_taints: Vec<Taint>,
    /// Requirements of the template, `minValues` included, merged with its labels.
    pub requirements: Requirements,
    /// Upper bounds on the total capacity of the pool; `nodes` is the number of nodes.
    pub limits: Resources,
    /// Fixed number of nodes (static pool); such a pool launches nothing for pending pods.
    pub replicas: Option<i64>,
    /// `None` when the pool may be used.
    pub not_ready: Option<NotReady>,
    /// `NodeRegistrationHealthy` is False: healthy pools are preferred, whatever their weight
    /// (L33).
    pub unhealthy: bool,
    /// The instance types that it may launch.
    pub catalogue: SharedCatalogue,
    /// Opt-in rules by annotation.
    pub rules: OptInRules,
}

impl NodePool {
    /// The zones that its requirements allow and in which an instance type is offered.
    #[must_use]
    pub fn launch_zones(&self) -> BTreeSet<&Zone> {
        let offered =
            self.catalogue.types.iter().flat_map(|kind| &kind.offerings).filter(|offering| offering.available);
        let allowed = |zone: &&Zone| self.requirements.get(ZONE).is_none_or(|requirement| requirement.has(zone));
        offered.map(|offering| &offering.zone).filter(allowed).collect()
    }
}

/// Rules enabled by annotations `fleetwright.dev/…` on the NodePool (plan contract §4).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OptInRules {
    /// `zone-balance`: no new node in a zone with at least two more nodes of the pool than another
    /// usable zone.
    pub zone_balance: bool,
    /// `safe-architectures`: architectures of new nodes for pods without an architecture
    /// constraint.
    pub safe_architectures: Vec<Text>,
    /// `spot-fallback-after`.
    pub spot_fallback_after: Option<Millis>,
    /// `max-price-per-vcpu`, per vCPU and hour.
    pub max_price_per_vcpu: Option<MicroUsd>,
    /// `max-node-price`, per hour.
    pub max_node_price: Option<MicroUsd>,
    /// `spot-max-percent`, 0 to 100.
    pub spot_max_percent: Option<i64>,
    /// `on-demand-min-nodes`.
    pub on_demand_min_nodes: Option<i64>,
    /// `max-node-vcpu`.
    pub max_node_vcpu: Option<i64>,
    /// `min-nodes`.
    pub min_nodes: Option<i64>,
    /// `burstable: "list"`: burstable types cost their list price, whatever CPU is requested.
    pub ignores_credits: bool,
    /// `node-overhead-usd`: what a node costs per hour beside its price, in choices only. Where the
    /// annotation is missing, reading sets the flag's value or the cost of the node's volumes;
    /// `None` is 0.
    pub node_overhead: Option<MicroUsd>,
}
