//! What the selectors of EC2NodeClasses find, as this process looked it up, and when: what instances are compared with.
//!
//! Two things must not be compared: an instance with a value from before its launch, and a value with an older listing.
//! Another replica may have launched the instance by a newer value than this process has, and groups and reservations of an
//! instance change after its launch. So a value counts for an instance when it was found after the instance was launched,
//! and when the instance was listed after the value was first found. A lookup that fails changes no
//! value, and a selector that finds nothing has none.

use std::collections::BTreeMap;
use std::sync::Arc;

use drift::Selected;
use model::node_class::{NodeClassStatus, Resolution, ResolvedNodeClass};
use model::{Text, Timestamp};

use super::listed_instances::ListedInstances;

const IMAGES: &str = "AMIsReady";
const SECURITY_GROUPS: &str = "SecurityGroupsReady";
const SUBNETS: &str = "SubnetsReady";
const RESERVATIONS: &str = "CapacityReservationsReady";

/// The EC2NodeClasses of a cluster, by name.
#[derive(Debug, Clone, Default)]
pub struct ClassLookups(BTreeMap<Text, Arc<ClassLookup>>);

/// What was found for one EC2NodeClass.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClassLookup {
    status: NodeClassStatus,
    /// Times of each value, by the condition that is about it; a value without times is unknown.
    times: BTreeMap<&'static str, LookupTimes>,
}

/// When a value was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct LookupTimes {
    /// By then it was the value.
    first: Timestamp,
    last: Timestamp,
}

impl ClassLookups {
    /// Records the result of a resolution that arrived at `now`; returns whether values or times changed.
    pub fn record(&mut self, class: &Text, resolved: &ResolvedNodeClass, allows_failed: bool, now: Timestamp) -> bool {
        let before = self.0.get(class);
        let mut lookup = before.map(|before| ClassLookup::clone(before)).unwrap_or_default();
        for kind in [IMAGES, SECURITY_GROUPS, SUBNETS, RESERVATIONS] {
            lookup.record(kind, resolved, allows_failed, now);
        }
        let changed = before.is_none_or(|before| **before != lookup);
        if changed {
            self.0.insert(class.clone(), Arc::new(lookup));
        }
        changed
    }

    /// What was found for `class`, whenever that was.
    pub fn outdated(&self, class: &Text) -> Option<Selected<'_>> {
        let ClassLookup { status, .. } = &**self.0.get(class)?;
        Some(Selected {
            images: status.images.as_deref(),
            security_groups: status.security_groups.as_deref(),
            subnets: status.subnets.as_deref(),
            reservations: status.reservations.as_deref(),
        })
    }

    /// What an instance of `class` may be compared with that was launched by the time `launched_by`.
    pub fn selected(&self, class: &Text, launched_by: Timestamp, listings: &ListedInstances) -> Selected<'_> {
        let Some(lookup) = self.0.get(class) else { return Selected::default() };
        let counts = |kind: &str| lookup.times.get(kind).is_some_and(|times| times.count_for(launched_by, listings));
        let NodeClassStatus { subnets, security_groups, images, reservations, instance_profile: _ } = &lookup.status;
        Selected {
            images: images.as_deref().filter(|_| counts(IMAGES)),
            security_groups: security_groups.as_deref().filter(|_| counts(SECURITY_GROUPS)),
            subnets: subnets.as_deref().filter(|_| counts(SUBNETS)),
            reservations: reservations.as_deref().filter(|_| counts(RESERVATIONS)),
        }
    }
}

impl LookupTimes {
    fn count_for(&self, launched_by: Timestamp, listings: &ListedInstances) -> bool {
        self.last >= launched_by && listings.requested_at().is_some_and(|requested| requested >= self.first)
    }
}

impl ClassLookup {
    fn record(&mut self, kind: &'static str, resolved: &ResolvedNodeClass, allows_failed: bool, now: Timestamp) {
        let is_missing = matches!(resolved.conditions.get(kind), Some(Resolution::Missing { .. }));
        let found_at = resolved.found_at.get(kind).copied().or(allows_failed.then_some(now));
        let Some(found_at) = found_at.filter(|_| !is_missing) else {
            if is_missing {
                self.times.remove(kind);
            }
            return;
        };
        let is_same = is_same_selection(kind, &self.status, &resolved.status);
        let before = self.times.get(kind).filter(|_| is_same);
        // The value was found when the answer arrived at the latest, and has been current since its oldest part was found.
        let times = LookupTimes {
            first: before.map_or(now, |before| before.first),
            last: before.map_or(found_at, |before| before.last.max(found_at)),
        };
        self.times.insert(kind, times);
        let NodeClassStatus { subnets, security_groups, images, reservations, .. } = &resolved.status;
        match kind {
            IMAGES => self.status.images.clone_from(images),
            SECURITY_GROUPS => self.status.security_groups.clone_from(security_groups),
            SUBNETS => self.status.subnets.clone_from(subnets),
            _ => self.status.reservations.clone_from(reservations),
        }
    }
}

/// Whether an instance compares alike with both. Free addresses order the subnets, and the free instances of a
/// reservation are counted.
fn is_same_selection(kind: &str, one: &NodeClassStatus, other: &NodeClassStatus) -> bool {
    let sorted = |status: &NodeClassStatus| {
        let mut ids: Vec<Text> = match kind {
            SECURITY_GROUPS => status.security_groups.iter().flatten().map(|group| group.id.clone()).collect(),
            SUBNETS => status.subnets.iter().flatten().map(|subnet| subnet.id.clone()).collect(),
            _ => status.reservations.iter().flatten().map(|reservation| reservation.entry.id.clone()).collect(),
        };
        ids.sort();
        ids
    };
    if kind == IMAGES { one.images == other.images } else { sorted(one) == sorted(other) }
}

#[cfg(test)]
mod tests;
