//! Disruption of a running cluster: which nodes are removed or replaced, and what blocks the others.
//!
//! [`plan`] computes everything that may start now, all together: the removals exceed no budget and no
//! PodDisruptionBudget in sum, and the pods of one take capacity that the next one sees. Nodes that must go
//! come first (unhealthy, expired), then empty and drifted ones, then consolidation over the whole cluster.
//! The result is a plan for the pods that move, which the verifier checks as it checks any plan, and removals,
//! which it checks too.
//!
//! Reading order: [`plan`], `candidates` (which nodes may go for which reason, and what [blocks](Block) the others),
//! `allowances` (what removals use up together), `opt_in` (annotations of NodePools that removals keep), `balance` (the
//! policy `Balanced`), `working` (the cluster while removals are planned), `evacuation` (places for pods of nodes that must
//! go), `static_pools` (nodes of which there is a fixed number), `consolidation` with `cost` (one pass over all candidates)
//! and `launchable_domains` (where provisioning would launch),
//! `preferences` (what pods prefer and have, which they keep), `group` (several nodes replaced at once) with `parts`, `commands` (the result, checked) with
//! `placement_order`. Whether a node still matches its NodePool is found by the crate `drift`, before.

mod allowances;
mod balance;
mod candidates;
mod commands;
mod consolidation;
mod cost;
mod evacuation;
mod group;
mod launchable_domains;
mod movable_pod;
mod opt_in;
mod opt_in_facts;
mod parts;
mod placement_order;
mod planning;
mod preferences;
mod static_pools;
mod working;

pub use model::disruption_plan::{
    Block, BlockCode, Command, DisruptionCosts, DisruptionPlan, DisruptionPlanSettings as Settings, HeldNode,
};
pub use planning::plan;
