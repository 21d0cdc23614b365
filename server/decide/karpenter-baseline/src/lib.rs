//! What Karpenter would launch: a rendering of the published behaviour of its provisioning, for
//! comparison with plans. It decides nothing.
//!
//! [`provision`] is one round of Karpenter 1.14's greedy. Pods are tried by CPU and memory, largest
//! first; each goes to the first existing node, then to the NodeClaim of the round with the fewest
//! pods, then to a new NodeClaim of the heaviest NodePool that takes it. A NodeClaim keeps every
//! instance type that holds its pods, and the cheapest of them is launched.
//!
//! Behaviour that looks accidental is kept, with its number in comments (`L15`). What Karpenter leaves
//! to the order of a map is decided by name here. One round is not all: pods that wait for limits, for
//! reservations or for a zone would be tried again once the first machines exist.
//!
//! Reading order: `round`, `claim`, `pods`, `topology`, `launch`.

mod amounts;
mod claim;
mod existing;
mod launch;
mod launches;
mod pods;
mod queue;
mod reservations;
mod round;
mod supply;
#[cfg(test)]
mod tests;
mod topology;

pub use launches::{LaunchedNode, Launches};

use model::input::PlanningInput;

/// One round of provisioning for the pods of `input`. Opt-in rules, priorities and the search have no
/// counterpart in Karpenter and are ignored.
pub fn provision(input: &PlanningInput) -> Launches {
    round::Round::new(input).run()
}
