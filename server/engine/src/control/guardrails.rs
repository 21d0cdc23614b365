//! RAILS: what no decision may do, however sure it is of itself.
//!
//! A rail never plans; it looks at what is about to happen and lets it pass, holds it back with a reason, or holds
//! everything back. Each is a value with pure functions, switched off by its own setting, and each has a test that fails
//! when it is switched off:
//!
//! | rail | holds back | until |
//! |---|---|---|
//! | [`quarantine`] | everything in a cluster whose agent lost too much at once | a later snapshot and a second witness agree, or a person releases it |
//! | [`losses`] | removal of a Node that lost pods whose end nothing announced | a minute later nothing more is lost |
//! | [`rate_limits`] | launches and voluntary removals beyond so many in a sliding window, by cluster and fleet | the window moves on |
//! | [`launch_backoff`] | launches for a pod that machines were launched for and that was never bound | a wait that doubles |
//! | [`circuit_breaker`] | voluntary removals in a cluster whose launches fail; in the whole fleet when they fail in several, whichever replicas decide for those | launches succeed again |
//! | [`freeze`] | launches and voluntary removals, where a person said so | a person thaws it, or it ends |
//! | [`mode`] | every effect but the record, in shadow mode | the setting changes |
//! | [`removal`] | removals on missing evidence: of a listing, of a Node that vanished, of many deletions by hand | the evidence comes, its reason is over, or a person confirms it |
//! | replacement | a drain whose pods need room | their room is planned |
//! | replacement | removal of what waits empty for the pods of a drain | the drain has ended |
//!
//! What was begun is completed: a NodeClaim that was ordered gets its machine, a drain goes on. Interruptions are followed
//! whatever the rails say; so are a few objects that people delete. Many of them at once wait for freezes and budgets.
//!
//! # What survives a restart
//!
//! | what | where |
//! |---|---|
//! | freezes and when they end | rows, told again by [`Event::FreezesChanged`](super::Event::FreezesChanged) |
//! | launches and removals of a cluster, launches for each pod | the rows of launches, open and closed ([`restore`]); NodeClaims that no row tells of count by their creation time |
//! | launches and removals of the fleet, outcomes of launches (the brake) | what each process told the others, also of one that is gone ([`fleet_counters`]) |
//! | mode and bounds | the configuration |
//! | quarantine | the rows of launches and how much there was in the cluster ([`extents`]): the first snapshot after a restart is compared with both |
//!
//! Reading order: [`settings`], then the rails in the order above; [`fleet_counters`] makes one fleet of many replicas, `guard` puts
//! them in the way of decisions, [`view`] shows them.

mod belief;
pub mod circuit_breaker;
pub mod extents;
pub mod fleet_counters;
pub mod freeze;
mod gate;
mod guard;
pub mod launch_backoff;
pub mod losses;
pub mod mode;
pub mod quarantine;
pub mod rate_limits;
pub mod removal;
mod replacement;
pub mod restore;
pub mod settings;
mod shadow;
pub mod tally;
pub mod view;

pub use freeze::Freeze;
pub use mode::Mode;
pub use settings::GuardrailSettings;
pub use view::GuardrailsView;

use std::collections::BTreeMap;

use super::{ClusterId, Effect};
use crate::cluster::DisruptionPolicy;
use crate::model::{Text, Timestamp};
use circuit_breaker::CircuitBreaker;
use extents::Extents;
use freeze::Freezes;
use launch_backoff::LaunchBackoff;
use losses::Losses;
use quarantine::Quarantine;
use rate_limits::RateLimits;
use removal::Waiting;
use restore::RecentLaunch;

/// What was held back, why, and when to look again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Held {
    /// In a sentence; the same as long as the cause is.
    pub reason: Text,
    /// When there is room again, if nothing else happens; `None` when something has to.
    pub until: Option<Timestamp>,
}

/// What the rails know of the fleet.
#[derive(Debug, Default)]
pub(super) struct Guardrails {
    pub launches: RateLimits,
    pub removals: RateLimits,
    pub brake: CircuitBreaker,
    pub freezes: Freezes,
    /// Machines of each cluster that nobody has decided to remove.
    pub machines: BTreeMap<ClusterId, usize>,
    /// The same, of clusters that other processes decide for.
    pub machines_elsewhere: usize,
    /// The moment of the last event.
    pub now: Timestamp,
}

impl Guardrails {
    /// Time has passed; says whether that changes what the whole fleet may do.
    pub fn settle(&mut self, settings: &GuardrailSettings, now: Timestamp) -> bool {
        self.now = now;
        self.launches.forget_past(settings.launches.window_ms, now);
        self.removals.forget_past(settings.removals.window_ms, now);
        let brake = self.brake.settle(&settings.brake, now);
        self.freezes.end_past(now) || brake
    }

    /// When time alone changes what the whole fleet may do.
    pub fn next_change(&self, settings: &GuardrailSettings) -> Option<Timestamp> {
        [self.brake.next_change(&settings.brake), self.freezes.next_end()].into_iter().flatten().min()
    }
}

/// What the rails know of one cluster.
#[derive(Debug, Default)]
pub(super) struct ClusterGuardrails {
    pub quarantine: Option<Quarantine>,
    /// What the agent took back lately without announcing it.
    pub losses: Losses,
    /// How much there is in the cluster, as far as it is written down.
    pub extents: Extents,
    pub attempts: LaunchBackoff,
    /// What was launched here before, until the cluster shows itself; oldest first.
    pub past: Vec<RecentLaunch>,
    /// Why launches were held back when last looked at.
    pub held_launches: Option<Held>,
    /// Why removals were held back when last looked at.
    pub held_removals: Option<Held>,
    /// Removals that the gate holds.
    pub waiting: Waiting,
    /// Disruption settings of NodePools that are gone, as last known.
    pub former_lives: BTreeMap<Text, DisruptionPolicy>,
    /// What the last decisions in shadow mode said, by what they were about.
    pub shadow_said: [String; 2],
}

impl ClusterGuardrails {
    /// Changes whenever what people see of the rails here does.
    pub fn outline(&self) -> (Option<Text>, Option<Text>, Option<Text>, u64) {
        let reason = |held: &Option<Held>| held.as_ref().map(|held| held.reason.clone());
        let quarantine = self.quarantine.as_ref().map(|quarantine| quarantine.reason.clone());
        (quarantine, reason(&self.held_launches), reason(&self.held_removals), self.waiting.version())
    }
}

/// Whether shadow mode lets `effect` pass: what is seen and written down does, what is done does not.
pub(super) fn passes(settings: &GuardrailSettings, effect: &Effect) -> bool {
    let cluster = match effect {
        Effect::Plan(_) | Effect::Record(_) | Effect::PublishView { .. } | Effect::Resync { .. } => return true,
        Effect::KeepExtent { .. } => return true,
        Effect::Close { .. } | Effect::Settle { .. } | Effect::Describe { .. } | Effect::Report { .. } => return true,
        Effect::Inspect { .. } => return true,
        Effect::Instruct { cluster, .. } | Effect::Terminate { cluster, .. } => cluster,
        Effect::Launch(order) => &order.cluster,
        Effect::Relaunch(decided) => &decided.machine.launch.cluster,
    };
    settings.mode_of(cluster) == Mode::Act
}

#[cfg(test)]
mod tests;
