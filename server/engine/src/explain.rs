//! Why, and why not: reasons for pods without a place, surprises told before they happen, and the story of a pod or node.
//!
//! Nothing here decides anything, and nothing here runs on the fast path: the finished plan is taken as a world
//! (`world`), and pods are tried against it once more, slowly, with every obstacle named (`launch` for machines to buy,
//! `standing` for machines that are there, `topology` for rules between pods). Words are found in `reason`, what would
//! have to give way in `relax`. The room shares no code with the scheduler, so its answers do not repeat its mistakes.

mod ask;
mod catalogue;
mod daemons;
mod launch;
mod market;
mod notes;
mod reason;
mod relax;
mod residents;
mod standing;
mod story;
mod topology;
mod unplaced;
mod wording;
mod world;

pub use notes::notes;
pub use story::{
    Existing, Forced, FunnelStep, NodeStory, Outcome, PodStory, RunnerUp, node_story, planned_node_story, pod_story,
};
pub use unplaced::{unschedulable, unschedulable_among};
