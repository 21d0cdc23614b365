//! Whether a pool could launch a machine for a pod on top of the finished plan, and what bars it when not.
//!
//! The tests run in one order: readiness, taints, labels, volumes, room, host ports, offerings, `minValues`, limits,
//! topology. The first that leaves nothing is the reason; where the pod has several ways (OR-terms, volume alternatives)
//! the way that came furthest is told.

mod trial;

use std::collections::BTreeSet;
use std::rc::Rc;

use crate::model::resources::NODES;
use crate::model::{HostPort, MicroUsd, NotReady, Requirement, Requirements, Taint, Text};

use super::ask::{Ask, Waiver};
use super::catalogue::shortage;
use super::market::Market;
use super::topology::{Barrier, Site, Topology};
use super::world::World;
use trial::Trial;

/// A machine that could be launched: indices of type and offering.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Launch {
    /// Price per hour; first, so that launches sort by it.
    pub price: MicroUsd,
    /// Index into the catalogue.
    pub instance: u32,
    /// Index into the type's offerings.
    pub offering: u32,
}

/// What bars a pod from a pool. The variants are in the order of the tests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Blocked {
    /// The pool takes no part.
    NotReady(NotReady),
    /// A taint that is not tolerated.
    Taint(Taint),
    /// The pod's affinity has only empty terms.
    NoTerm,
    /// The pod contradicts itself about this label.
    Contradiction(Text),
    /// The pod wants nodes of these names.
    Named(Requirement),
    /// A label that the pool cannot have.
    Label(Requirement),
    /// No type has all the labels.
    Types(Requirements),
    /// Volumes want a label that the pool cannot have, or a place where nothing is offered.
    Volume(Requirement),
    /// More volumes of a driver than any type attaches.
    Attach(Text),
    /// None of these types is large enough.
    Room {
        /// Types that agree with all labels.
        types: Rc<[u32]>,
        /// Whether larger ones are kept away by the pool's ceilings.
        capped: bool,
    },
    /// A DaemonSet of the pool takes the port.
    Port(HostPort, String),
    /// These types would do, but none is for sale.
    Offering {
        /// Types that are large enough.
        types: Vec<u32>,
        /// The labels asked for.
        merged: Requirements,
    },
    /// The pool's on-demand floor or its share of spot.
    SpotShare,
    /// Too few different values of a label.
    MinValues {
        /// The label.
        key: Text,
        /// Values wanted.
        wanted: u32,
        /// Values there are.
        found: u32,
    },
    /// The pool may have no further node.
    NodeLimit,
    /// These types are for sale, but the limits have no room for them.
    Limits(Vec<u32>),
    /// A topology rule, wherever the machine stands.
    Topology(Barrier, Vec<Site>),
}

impl Blocked {
    /// How far the pod came.
    pub(super) fn rank(&self) -> u8 {
        match self {
            Self::NotReady(_) => 0,
            Self::Taint(_) => 1,
            Self::NoTerm | Self::Contradiction(_) => 2,
            Self::Named(_) | Self::Label(_) => 3,
            Self::Types(_) => 4,
            Self::Volume(_) => 5,
            Self::Attach(_) => 6,
            Self::Room { .. } => 7,
            Self::Port(..) => 8,
            Self::Offering { .. } => 9,
            Self::SpotShare => 10,
            Self::MinValues { .. } => 11,
            Self::NodeLimit => 12,
            Self::Limits(_) => 13,
            Self::Topology(..) => 14,
        }
    }
}

/// The machines that `pool` could launch for `ask`, cheapest first.
///
/// # Errors
/// What bars the pod, for the way that came furthest.
pub(super) fn launches(
    world: &World<'_>,
    ask: &Ask<'_>,
    topology: &Topology,
    pool: u32,
) -> Result<Vec<Launch>, Blocked> {
    let trial = Trial { world, ask, topology, index: pool, pool: &world.input.pools[pool as usize] };
    trial.gate()?;
    let mut found: BTreeSet<Launch> = BTreeSet::new();
    let mut furthest = Blocked::NoTerm;
    for way in &topology.ways {
        for volumes in ask.volume_alternatives() {
            match trial.along(way, &volumes) {
                Ok(launches) => found.extend(launches),
                Err(blocked) if blocked.rank() > furthest.rank() || furthest == Blocked::NoTerm => furthest = blocked,
                Err(_) => {}
            }
        }
    }
    if found.is_empty() { Err(furthest) } else { Ok(found.into_iter().collect()) }
}

/// Whether `pool` could launch any machine for `ask`: the answer of [`launches`], found without naming the obstacle and
/// without looking further than the first machine that would do.
pub(super) fn could_launch(world: &World<'_>, ask: &Ask<'_>, topology: &Topology, pool: u32) -> bool {
    let trial = Trial { world, ask, topology, index: pool, pool: &world.input.pools[pool as usize] };
    if trial.gate().is_err() || (trial.has_no_node_left() && !ask.waives(&Waiver::Limits(pool))) {
        return false;
    }
    if world.pools[pool as usize].base.iter().any(|requirement| requirement.min_values().is_some()) {
        return launches(world, ask, topology, pool).is_ok();
    }
    let market = Market::new(world, ask, pool);
    topology.ways.iter().filter_map(|way| trial.own(way).ok()).any(|own| {
        let merged =
            ask.volume_alternatives().into_iter().filter_map(|volumes| trial.with_volumes(&own, &volumes).ok());
        merged.into_iter().any(|merged| trial.would_do(&market, &merged, &trial.types(&merged)))
    })
}

/// By how much a machine of the type would exceed the limits of `pool`: (resource, amount).
pub(super) fn excess(world: &World<'_>, pool: u32, t: u32) -> Vec<(Text, i64)> {
    let nodepool = &world.input.pools[pool as usize];
    let capacity = &nodepool.catalogue.types[t as usize].capacity;
    let limited = nodepool.limits.iter().filter(|(name, _)| name.as_ref() != NODES);
    let over = limited.map(|(name, _)| (name.clone(), capacity.get(name) - world.left(pool, name).unwrap_or(0)));
    over.filter(|(_, over)| *over > 0).collect()
}

/// The type of `types` that comes nearest to carrying `ask`, and what it misses.
pub(super) fn nearest_type(
    world: &World<'_>,
    ask: &Ask<'_>,
    pool: u32,
    types: &[u32],
) -> Option<(u32, Vec<(Text, i64)>)> {
    let (free, requests) = (world.free_room(pool), &ask.shape.requests);
    let asked = free.asked(requests);
    let nearest = types.iter().copied().min_by_key(|&t| asked.distance(t))?;
    Some((nearest, shortage(requests, &free.types[nearest as usize].room)))
}
