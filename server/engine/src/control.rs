//! WHEN: one loop, one owner. Events go in with the time they happened; effects come out.
//!
//! [`Controller::handle`] is the only door. It changes what is believed ([`crate::cluster`]), decides when a decision is
//! due ([`batch`]), asks the planner, and turns the answer into [`Effect`]s that somebody else carries out and answers
//! with further events. The order of a purchase never varies: the decision is recorded, the NodeClaim is created in the
//! cluster, the machine is launched. An event may wake planning; it never tells planning what to look at.
//!
//! Reading order: [`event`] and [`effect`] (the doors), [`batch`] (when pending pods are planned), `provision` (from a
//! plan to NodeClaims), [`machine`] and `lifecycle` (one machine from intent to grave), `retire` (empty nodes,
//! interruptions), [`offerings`] (what is sold out), [`view`] (what people see).

pub mod effect;
pub mod event;

pub use effect::{
    ClaimOrder, Decision, DecisionKind, Effect, Instruction, InstructionId, LaunchOption, LaunchOrder, LaunchedFacts,
    PlannedMachine, Removal, UnplacedPod,
};
pub use event::{Event, LaunchFailure, Launched};

use crate::input::PlanningInput;
use crate::model::Text;
use crate::plan::{Plan, PlanReport};

/// Name of a cluster, unique in the fleet.
pub type ClusterId = Text;

/// Number of a decision, unique and increasing within one controller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DecisionId(pub u64);

/// What turns an input into a plan. An error refuses the whole plan and says why.
pub type Planner = fn(&PlanningInput) -> Result<(Plan, PlanReport), String>;
