//! Nomination: which pods kube-scheduler should bind to a Node, when they are nominated, and when
//! the Node is registered.
//!
//! kube-scheduler spreads pods over the existing nodes and does not know the plan. A nomination
//! (`status.nominatedNodeName`) makes it try the planned node first, and reserves that capacity.
//! Three properties of nominations determine the behaviour here:
//!
//! - A failed scheduling attempt clears the nomination. So nominations are part of the registration
//!   instruction and exist before the Node accepts pods. Machines of one decision are registered
//!   together ([`registration_gate`]): a pod that is tried while its own Node is unregistered loses
//!   its nomination, and its capacity to any pod without one.
//! - A lost nomination is repeated once the pod's Node is registered ([`retries`]).
//! - Nominated pods count on their node when other pods are tried there. A hard spread constraint
//!   therefore rejects the node for every pod of a group with several nominations on it: such pods
//!   are not nominated. They need no nomination either: they use the capacity that the nominated
//!   pods leave, and the constraint itself spreads them over the domains as planned.
//!
//! [`Nominator`] owns both. It reads a [`NominationView`], writes only itself, and returns the
//! nominations as instructions or parts of them.

mod nominator;
mod registration_gate;
mod retries;
mod view;

pub(super) use nominator::Nominator;
pub(super) use view::NominationView;

#[cfg(test)]
mod tests;
