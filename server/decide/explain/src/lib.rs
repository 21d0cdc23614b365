//! Explanations: reasons for unschedulable pods, notes about surprising results of a plan, and
//! reports about one pod or node.
//!
//! This crate decides nothing and runs off the fast path. It takes the finished plan as a snapshot
//! (`snapshot`) and tries pods against it again, naming every obstacle (`launch` for new nodes,
//! `existing` for existing and planned nodes, `topology` for rules between pods). `reason` writes
//! the messages, `relax` the constraints to relax.
//!
//! The verifier judges a pod on a node, and what the nodes of a pool use of its limits, its spot
//! share and its reservations (`verifier::kernel`), so that a reason given to a person and the
//! verdict on a plan cannot differ. The crate shares no code with the scheduler, so it does not
//! repeat its mistakes. It evaluates itself which types a pool could launch for a pod
//! (`pod_requirements`, `catalogue`, `offering_filter`, `daemons`), because a message names the
//! requirement that excludes every type, and because the verifier knows a new node only by the
//! outcomes of a planned launch; and, for topology spread, in which domains a node could be
//! launched, because the scheduler leaves room for them.

mod catalogue;
mod daemons;
mod existing;
mod label_index;
mod launch;
mod notes;
mod offering_filter;
mod open_offerings;
mod placed_pods;
mod pod_requirements;
mod reason;
mod relax;
mod report;
mod snapshot;
mod topology;
mod unplaced;
mod unsatisfied;
mod wording;

pub use notes::{notes, violated_preferences};
pub use report::{
    Existing, FilterStep, MachineConstraint, MachineOption, NodeReport, Outcome, PodReport, node_report,
    planned_node_report, pod_report,
};
pub use unplaced::{unschedulable, unschedulable_among, unschedulable_until};
