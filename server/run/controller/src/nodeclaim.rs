//! NodeClaims of this server with their instances: launch, registration, initialization,
//! termination, recovery and garbage collection.
//!
//! ```text
//! Planned ─recorded─► Creating ─acked─► Launching ─launched─► Launched ─► Registered ─► Initialized
//!     │ stale             │ refused        │ refused              │ late       │           │ empty, interrupted,
//!     ▼                   ▼                ▼                      ▼            ▼           ▼ deleted by hand
//!  removed             removed         Deleting ◄─gone─ Terminating ◄─drained─ Draining ◄──┘
//! ```
//!
//! [`NodeClaims`] owns the NodeClaims of one cluster and their instructions in flight. A stage
//! carries the data that has a meaning in it, and every stage change is a method of [`ManagedClaim`]
//! in `managed_claim/transitions.rs`, which checks that the stage permits it. `listing` and
//! `launch_record` are what the cloud and the store report, [`GarbageCollector`] remembers what
//! earlier listings showed. The steps of
//! [`ClusterController`](crate::cluster_controller::ClusterController) that use several parts stand
//! beside them: `lifecycle` (launch to initialization), `termination` with `termination_calls` (drain to
//! deletion), `deletions` (by hand), `recovery` (takeover from a previous owner), `gc` (garbage collection),
//! `instance_inspection` with `inspection_answers` (instances that a listing lacks), `missing_claims` (snapshots
//! that lack NodeClaims) and `orphans` (instances whose NodeClaim was removed).

mod claims;
mod deletions;
pub(crate) mod disrupted_taint;
mod garbage_collector;
pub(crate) mod gc;
pub(crate) mod inspection_answers;
pub(crate) mod instance_inspection;
mod launch_record;
pub(crate) mod lifecycle;
mod listing;
mod managed_claim;
mod missing_claims;
pub(crate) mod orphans;
mod other_region;
pub(crate) mod recovery;
mod stage;
pub(crate) mod termination;
mod termination_calls;
mod termination_reason;

pub(crate) use claims::NodeClaims;
pub(crate) use disrupted_taint::{unusable_nodes, unusable_reason};
pub(crate) use garbage_collector::GarbageCollector;
pub use garbage_collector::InstanceAnomalies;
pub(crate) use launch_record::PendingRecovery;
pub use launch_record::{DecidedLaunch, LaunchState, OpenLaunch};
pub use listing::{ListedInstance, Listing};
pub use managed_claim::LaunchedInstance;
pub(crate) use managed_claim::{LaunchOutcome, LostNode, ManagedClaim};
pub(crate) use stage::DrainTerms;
pub use stage::StageKind;
pub(crate) use termination_reason::TerminationReason;
