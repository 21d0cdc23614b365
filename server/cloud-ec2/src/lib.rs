//! The real cloud: the port on Amazon EC2. Everything that needs an AWS SDK is here, and nothing else is.
//!
//! One launch is one `CreateFleet` of type `instant` for one machine, from one launch template that an operator has made
//! (image, security groups, instance profile, user data) and one subnet a zone. Its client token is a function of the
//! order, and what settings add to the order is written down with it, so the same request may be sent until an answer comes and buys
//! at most one machine. Nothing is repeated in
//! here: order, patience and retries belong to the caller, which sends the same request again.
//!
//! What happens by itself is learnt from a listing every few seconds; the warning two minutes before a spot machine is
//! taken back travels by another road (EventBridge) and is not heard here, only the machine's end is.
//!
//! The credentials must allow `ec2:CreateFleet`, `ec2:RunInstances`, `ec2:CreateTags`, `ec2:TerminateInstances` and
//! `ec2:DescribeInstances`, and `iam:PassRole` for the role of the template's instance profile.
//!
//! Reading order: [`settings`] (what an operator says), `terms` (what that adds to an order), `request` (order to `CreateFleet`), `answer` (and back),
//! `failure` (what an error code means), `machine` (an instance as the port knows it, and its tags), `watch` (what has
//! changed between listings), [`provider`] (the calls themselves).

mod answer;
mod failure;
mod machine;
pub mod provider;
mod request;
pub mod settings;
mod terms;
#[cfg(test)]
mod testing;
mod watch;

pub use provider::Ec2Cloud;
pub use settings::{LaunchTemplate, Settings};
