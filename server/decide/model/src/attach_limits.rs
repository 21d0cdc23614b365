//! Attach limits of new nodes, by those that the CSINodes of their instance type show.
//!
//! A catalogue has the limits that the cloud documents. A CSI driver may be set to attach fewer volumes, or leave slots
//! to other devices, which only the CSINodes show.

use std::collections::BTreeMap;

use crate::labels::INSTANCE_TYPE;
use crate::offering::{Catalogue, SharedCatalogue};
use crate::resources::{ATTACHABLE_VOLUMES_PREFIX, ResourceName};
use crate::{Node, NodePool, NodeStage, Text};

/// The attach limits of CSINodes, by instance type.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AttachLimits {
    /// Number of Nodes with each limit, by instance type and driver.
    nodes: BTreeMap<Text, BTreeMap<Text, BTreeMap<i64, usize>>>,
}

impl AttachLimits {
    /// The limits of the Nodes that are initialized: before that, drivers may be missing. Those of a Node that is being
    /// deleted count too, as the node in its place attaches no more.
    #[must_use]
    pub fn of(nodes: &[Node]) -> Self {
        let mut limits = Self::default();
        for node in nodes.iter().filter(|node| matches!(node.stage, NodeStage::Initialized | NodeStage::Deleting)) {
            if let Some(instance_type) = node.labels.get(INSTANCE_TYPE) {
                limits.add(instance_type, &node.attach_limits);
            }
        }
        limits
    }

    /// Adds the limits of a Node; returns whether the least one of a driver has changed.
    pub fn add(&mut self, instance_type: &Text, limits: &[(Text, i64)]) -> bool {
        let mut changed = false;
        for (driver, limit) in of_drivers(limits) {
            let drivers = self.nodes.entry(instance_type.clone()).or_default();
            let counts = drivers.entry(driver.clone()).or_default();
            changed |= least(counts).is_none_or(|least| *limit < least);
            *counts.entry(*limit).or_default() += 1;
        }
        changed
    }

    /// Removes the limits of a Node, which were added; returns whether the least one of a driver has changed.
    pub fn remove(&mut self, instance_type: &Text, limits: &[(Text, i64)]) -> bool {
        let mut changed = false;
        for (driver, limit) in of_drivers(limits) {
            let Some(drivers) = self.nodes.get_mut(instance_type) else { continue };
            let Some(counts) = drivers.get_mut(driver) else { continue };
            let before = least(counts);
            if let Some(nodes) = counts.get_mut(limit) {
                *nodes = nodes.saturating_sub(1);
            }
            counts.retain(|_, nodes| *nodes > 0);
            changed |= least(counts) != before;
            if counts.is_empty() {
                drivers.remove(driver);
            }
            if drivers.is_empty() {
                self.nodes.remove(instance_type);
            }
        }
        changed
    }

    /// The least limits, of the types of `catalogue` that have a higher one there, or none.
    fn lower_than(&self, catalogue: &Catalogue) -> Vec<LowerLimit> {
        let mut lower = Vec::new();
        for (name, drivers) in &self.nodes {
            let found = catalogue.types.binary_search_by(|known| known.name.as_text().cmp(name));
            let Ok(instance_type) = found else { continue };
            let allocatable = &catalogue.types[instance_type].allocatable;
            for (driver, counts) in drivers {
                let resource = ResourceName::from(format!("{ATTACHABLE_VOLUMES_PREFIX}{driver}"));
                let is_lower = |limit: &i64| !allocatable.contains(&resource) || *limit < allocatable.get(&resource);
                if let Some(limit) = least(counts).filter(is_lower) {
                    lower.push(LowerLimit { instance_type, resource, limit });
                }
            }
        }
        lower
    }
}

/// The limits of CSI drivers. Free volumes on the disk of a Node are counted by limits too, under names with a slash,
/// which those of drivers never have: a new node has none of them.
fn of_drivers(limits: &[(Text, i64)]) -> impl Iterator<Item = &(Text, i64)> {
    limits.iter().filter(|(driver, _)| !driver.contains('/'))
}

fn least(counts: &BTreeMap<i64, usize>) -> Option<i64> {
    counts.keys().next().copied()
}

/// A limit that a catalogue gets.
#[derive(Debug, Clone, PartialEq, Eq)]
struct LowerLimit {
    /// Index of the type in the catalogue.
    instance_type: usize,
    resource: ResourceName,
    limit: i64,
}

/// Catalogues with lower attach limits. Each is made once, so that pools and plans share it, and what is compiled
/// from it is found again.
#[derive(Debug, Clone, Default)]
pub struct LoweredCatalogues {
    known: Vec<LoweredCatalogue>,
}

#[derive(Debug, Clone)]
struct LoweredCatalogue {
    /// Held, so that no other catalogue has its address.
    base: SharedCatalogue,
    limits: Vec<LowerLimit>,
    lowered: SharedCatalogue,
}

impl LoweredCatalogues {
    /// Makes those of `bases`, and keeps the ones whose limits have not changed.
    pub fn update<'c>(&mut self, bases: impl IntoIterator<Item = &'c SharedCatalogue>, limits: &AttachLimits) {
        let mut before = std::mem::take(&mut self.known);
        for base in bases {
            if self.known.iter().any(|known| known.is_of(base)) {
                continue;
            }
            let lower = limits.lower_than(base);
            if lower.is_empty() {
                continue;
            }
            let same = before.iter().position(|known| known.is_of(base) && known.limits == lower);
            self.known.push(match same {
                Some(same) => before.swap_remove(same),
                None => LoweredCatalogue::new(base, lower),
            });
        }
    }

    /// The one of `base`; `base` itself if no limit of it is too high.
    #[must_use]
    pub fn get<'c>(&'c self, base: &'c SharedCatalogue) -> &'c SharedCatalogue {
        self.known.iter().find(|known| known.is_of(base)).map_or(base, |known| &known.lowered)
    }
}

impl LoweredCatalogue {
    fn new(base: &SharedCatalogue, limits: Vec<LowerLimit>) -> Self {
        let mut catalogue = Catalogue::clone(base);
        for lower in &limits {
            catalogue.types[lower.instance_type].allocatable.set(lower.resource.clone(), lower.limit);
        }
        Self { base: SharedCatalogue::clone(base), limits, lowered: SharedCatalogue::new(catalogue) }
    }

    fn is_of(&self, base: &SharedCatalogue) -> bool {
        SharedCatalogue::ptr_eq(&self.base, base)
    }
}

/// Lowers the attach limits of the pools' instance types to the least that the CSINodes of `nodes` show.
pub fn lower_attach_limits(pools: &mut [NodePool], nodes: &[Node]) {
    let mut lowered = LoweredCatalogues::default();
    lowered.update(pools.iter().map(|pool| &pool.catalogue), &AttachLimits::of(nodes));
    for pool in pools {
        pool.catalogue = SharedCatalogue::clone(lowered.get(&pool.catalogue));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{InstanceType, InstanceTypeName, Labels, NodeName, Requirements, Resources};

    const EBS: &str = "attachable-volumes-ebs.csi.aws.com";

    /// The types `a`, with a limit of 25 volumes, and `b`, without one.
    fn catalogue() -> SharedCatalogue {
        let of = |name: &str, allocatable: Resources| InstanceType {
            name: InstanceTypeName::from(name),
            labels: Requirements::new().into(),
            capacity: Resources::new(),
            allocatable,
            exotic: false,
            burstable: None,
            offerings: Vec::new(),
        };
        let types = vec![of("a", Resources::from_iter([(EBS, 25)])), of("b", Resources::new())];
        SharedCatalogue::new(Catalogue { types, offering_keys: Vec::new() })
    }

    fn node(instance_type: &str, stage: NodeStage, limits: &[(&str, i64)]) -> Node {
        Node {
            name: NodeName::from("n"),
            pool: None,
            labels: Labels::from([(Text::from(INSTANCE_TYPE), Text::from(instance_type))]),
            taints: Vec::new(),
            unschedulable: false,
            allocatable: Resources::new(),
            capacity: Resources::new(),
            stage,
            pods: Vec::new(),
            attach_limits: limits.iter().map(|(driver, limit)| (Text::from(*driver), *limit)).collect(),
            created: None,
        }
    }

    /// The limits of the types, after the CSINodes of `nodes`.
    fn limits_after(nodes: &[Node]) -> Vec<Resources> {
        let (base, mut lowered) = (catalogue(), LoweredCatalogues::default());
        lowered.update([&base], &AttachLimits::of(nodes));
        lowered.get(&base).types.iter().map(|found| found.allocatable.clone()).collect()
    }

    #[test]
    fn the_least_limit_of_the_csi_nodes_of_a_type_is_that_of_its_new_nodes() {
        let ebs = |limit: i64| [("ebs.csi.aws.com", limit)];
        let of = |limits: &[(&str, i64)]| Resources::from_iter(limits.iter().copied());
        let ready = |instance_type: &str, limit: i64| node(instance_type, NodeStage::Initialized, &ebs(limit));
        assert_eq!(limits_after(&[ready("a", 20), ready("a", 22)]), [of(&[(EBS, 20)]), of(&[])]);
        // What is higher than the documented limit raises nothing; a type without a limit gets one.
        assert_eq!(limits_after(&[ready("a", 30), ready("b", 30)]), [of(&[(EBS, 25)]), of(&[(EBS, 30)])]);
        // A Node on its way may lack drivers; the node in place of a deleted one attaches no more than that.
        let young = [NodeStage::InFlight, NodeStage::Registered].map(|stage| node("a", stage, &ebs(3)));
        assert_eq!(limits_after(&young), [of(&[(EBS, 25)]), of(&[])]);
        assert_eq!(limits_after(&[node("a", NodeStage::Deleting, &ebs(3))]), [of(&[(EBS, 3)]), of(&[])]);
    }

    #[test]
    fn other_drivers_other_types_and_volumes_on_disks_are_limits_of_their_own() {
        let limits = [("efs.example.com", 4), ("StorageClass/disks (free volumes, 2Gi or more)", 1)];
        let nodes = [node("a", NodeStage::Initialized, &limits), node("c", NodeStage::Initialized, &limits)];
        let lowered = Resources::from_iter([(EBS, 25), ("attachable-volumes-efs.example.com", 4)]);
        assert_eq!(limits_after(&nodes), [lowered, Resources::new()]);
    }

    #[test]
    fn a_catalogue_is_made_again_only_when_its_limits_change() {
        let (base, mut lowered, mut limits) = (catalogue(), LoweredCatalogues::default(), AttachLimits::default());
        let (a, fifteen, twenty) =
            (Text::from("a"), [(Text::from("ebs.csi.aws.com"), 15)], [(Text::from("ebs.csi.aws.com"), 20)]);
        lowered.update([&base], &limits);
        assert!(SharedCatalogue::ptr_eq(lowered.get(&base), &base), "nothing is lower");
        assert!(limits.add(&a, &twenty) && !limits.add(&a, &twenty));
        lowered.update([&base, &base], &limits);
        let first = SharedCatalogue::clone(lowered.get(&base));
        assert_eq!(first.types[0].allocatable.get(EBS), 20);
        // Another type that is not in the catalogue, and one of two equal limits that is gone, change nothing in it.
        assert!(limits.add(&Text::from("c"), &twenty) && !limits.remove(&a, &twenty));
        lowered.update([&base], &limits);
        assert!(SharedCatalogue::ptr_eq(lowered.get(&base), &first));
        assert!(limits.add(&a, &fifteen));
        lowered.update([&base], &limits);
        assert_eq!(lowered.get(&base).types[0].allocatable.get(EBS), 15);
        assert!(limits.remove(&a, &fifteen) && limits.remove(&a, &twenty));
        lowered.update([&base], &limits);
        assert!(SharedCatalogue::ptr_eq(lowered.get(&base), &base));
    }
}
