//! The judgements of [`check`](crate::check) about one pod, one node or one pool, for callers without
//! a plan that contains the pod. `check` applies the same functions to a plan, so that an
//! explanation and the verdict on a plan cannot differ in them.

pub use super::capacity::{DaemonSets, Daemons};
pub use super::credits::{most_cpu, surplus_credits};
pub use super::launch::{Launch, Launches, Outcome, belongs_to_offerings, may_be_defined, within_ceilings};
pub use super::limits::Drawn;
pub use super::node_fit::{
    NodeConflict, NodeConflicts, RequiredNodeAffinity, allows_zone, conflicts_on_node, conflicts_on_outcome,
    is_bound_to_zones,
};
pub use super::opt_in_rules::{exceeds_node_size, names_architecture, remaining_spot_wait};
pub use super::pool_nodes::{PoolNodes, SpotUsage, active_nodes, largest_amount};
pub use super::ports_and_volumes::{
    attach_limit_of_node, attach_limit_of_type, conflicting_port, excess_volumes, exclusive_claims_in_use,
    volumes_on_node, within_attach_limit,
};
pub use super::purchase::{UnmetMinValues, unmet_min_values};
pub use super::topology::{DomainCounts, EligibleDomains, HostDomain, HostFilter, KeyDomains, PodSelector};
