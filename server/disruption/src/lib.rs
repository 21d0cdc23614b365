//! Disruption of a running cluster: which nodes are removed or replaced, and what blocks the others.
//!
//! [`plan`] computes everything that may start now, all together: the removals exceed no budget and no
//! PodDisruptionBudget in sum, and the pods of one take capacity that the next one sees. Nodes that must go
//! come first (unhealthy, expired), then empty and drifted ones, then consolidation over the whole cluster.
//! The result is a plan for the pods that move, which the verifier checks as it checks any plan, and removals,
//! which it checks too.
//!
//! Reading order: [`plan`], `candidates` (which nodes may go for which reason, and what [blocks](Block) the others),
//! `allowances` (what removals use up together), `balance` (the policy `Balanced`), `working` (the cluster while
//! removals are planned), `evacuation` (places for pods of nodes that must go), `consolidation` with `cost` (one
//! pass over all candidates), `group` (several nodes replaced at once), `commands` (the result, checked) with
//! `placement_order`. Whether a node still matches its NodePool is found by the crate `drift`, before.

mod allowances;
mod balance;
mod candidates;
mod commands;
mod consolidation;
mod cost;
mod evacuation;
mod group;
mod placement_order;
mod planning;
mod working;

pub use model::disruption_plan::{
    Block, BlockCode, Command, DisruptionCosts, DisruptionPlan, DisruptionPlanSettings as Settings, HeldNode,
};
pub use planning::plan;
