//! Drift of an instance from what its NodeClass selects now: image, security groups, subnet, capacity reservation.

use std::collections::BTreeSet;

use model::labels::{CAPACITY_TYPE, INSTANCE_TYPE};
use model::node_class::NodeClassStatus;
use model::{CapacityType, Text};

use crate::comparison::{Drift, DriftClaim, DriftPool, DriftReason, drift};

/// Ids that a message names at most.
const NAMED_IDS: usize = 8;

/// The image that the NodeClass maps to the instance type is another one. A type that no image boots has none to be
/// replaced by (Karpenter AWS: an error, no drift).
pub(crate) fn image_differs(claim: &DriftClaim<'_>, pool: &DriftPool<'_>) -> Option<Drift> {
    let image = claim.image.filter(|image| !image.is_empty())?;
    let name = claim.labels.get(INSTANCE_TYPE)?;
    let types = &pool.catalogue.types;
    let at = types.binary_search_by(|kind| kind.name.as_ref().cmp(name)).ok()?;
    let images = pool.selected.images.filter(|images| !images.is_empty())?;
    let mapped = NodeClassStatus::first_image(images, &types[at].labels)?;
    let message = || format!("the instance has image {image}, and the EC2NodeClass selects {} for {name}", mapped.id);
    (mapped.id != *image).then(|| drift(DriftReason::AmiDrift, message()))
}

/// The sets differ: a group that was added by hand counts too.
pub(crate) fn security_groups_differ(claim: &DriftClaim<'_>, pool: &DriftPool<'_>) -> Option<Drift> {
    let found = &claim.instance?.security_groups;
    let selected = pool.selected.security_groups?;
    let (found, selected) = (set(found), set(selected.iter().map(|group| &group.id)));
    if found.is_empty() || selected.is_empty() || found == selected {
        return None;
    }
    let message = format!(
        "the instance has security groups {}, and the EC2NodeClass selects {}: {}",
        listed(&found),
        listed(&selected),
        difference(&found, &selected)
    );
    Some(drift(DriftReason::SecurityGroupDrift, message))
}

pub(crate) fn subnet_differs(claim: &DriftClaim<'_>, pool: &DriftPool<'_>) -> Option<Drift> {
    let subnet = &claim.instance?.subnet;
    let selected = set(pool.selected.subnets?.iter().map(|subnet| &subnet.id));
    if subnet.is_empty() || selected.is_empty() || selected.contains(subnet) {
        return None;
    }
    let message = format!("the instance is in {subnet}, and the EC2NodeClass selects {}", listed(&selected));
    Some(drift(DriftReason::SubnetDrift, message))
}

/// The reservation of a reserved instance is not selected. An instance whose reservation has ended runs on as an
/// on-demand one: it has no reservation then, and does not drift.
pub(crate) fn reservation_differs(claim: &DriftClaim<'_>, pool: &DriftPool<'_>) -> Option<Drift> {
    let is_reserved = claim.labels.get(CAPACITY_TYPE).is_some_and(|it| it.as_ref() == CapacityType::Reserved.as_str());
    let reservation = claim.instance?.reservation.as_ref().filter(|_| is_reserved)?;
    let selected = set(pool.selected.reservations?.iter().map(|reservation| &reservation.entry.id));
    if selected.contains(reservation) {
        return None;
    }
    let message = format!(
        "the instance is in capacity reservation {reservation}, and the EC2NodeClass selects {}",
        if selected.is_empty() { "none".to_owned() } else { listed(&selected) }
    );
    Some(drift(DriftReason::CapacityReservationDrift, message))
}

/// Sorted, so that a message stays as it is when EC2 returns another order.
fn set<'t>(ids: impl IntoIterator<Item = &'t Text>) -> BTreeSet<&'t Text> {
    ids.into_iter().collect()
}

fn listed(ids: &BTreeSet<&Text>) -> String {
    let mut named: Vec<&str> = ids.iter().take(NAMED_IDS).map(|id| &***id).collect();
    let more = (ids.len() > NAMED_IDS).then(|| format!("{} more", ids.len() - NAMED_IDS));
    named.extend(more.as_deref());
    named.join(", ")
}

fn difference(found: &BTreeSet<&Text>, selected: &BTreeSet<&Text>) -> String {
    let extra: BTreeSet<&Text> = found.difference(selected).copied().collect();
    let missing: BTreeSet<&Text> = selected.difference(found).copied().collect();
    let parts = [("is not selected", extra), ("is missing", missing)];
    let parts = parts.iter().filter(|(_, ids)| !ids.is_empty());
    parts.map(|(what, ids)| format!("{} {what}", listed(ids))).collect::<Vec<_>>().join(", ")
}
