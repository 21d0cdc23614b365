//! The judgements of [`check`](crate::check) about one pod, for callers without a plan that contains
//! the pod. `check` applies the same functions to every pod of a plan, so that an explanation and
//! the verdict on a plan cannot differ in them.

pub use super::capacity::{DaemonSets, Daemons};
pub use super::launch::{Launch, Launches, Outcome, within_ceilings};
pub use super::node_fit::{NodeConflict, NodeConflicts, RequiredNodeAffinity, conflicts_on_node, conflicts_on_outcome};
pub use super::opt_in_rules::names_architecture;
pub use super::ports_and_volumes::{
    attach_limit_of_node, attach_limit_of_type, conflicting_port, excess_volumes, volumes_on_node,
};
pub use super::purchase::different_values;
pub use super::topology::{DomainCounts, EligibleDomains, HostDomain, HostFilter, KeyDomains, PodSelector};
