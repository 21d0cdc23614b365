//! PersistentVolumes that nobody makes on demand: claims of a class without a provisioner wait for one that is
//! free (kube-scheduler: VolumeBinding).
//!
//! Volumes on the disk of a node are counted for each node, so that no more claims are placed on it than it has
//! volumes for. Larger volumes serve smaller claims too: a claim counts against the volumes of every size up to the
//! least one that fits it, and each of these counts has the volumes of at least that size as its limit.

use std::collections::{BTreeMap, BTreeSet};

use model::labels::HOSTNAME;
use model::{NodeSelectorTerm, Requirement, Text, quantity};

use crate::cluster::Cluster;
use crate::cluster::storage::{ClaimSpec, NO_PROVISIONER, StorageClass, Volume};

/// A PersistentVolumeClaim: namespace and name.
pub(super) type ClaimKey = (Text, Text);

/// Whether nothing makes the volumes of `class`.
pub(super) fn is_unprovisioned(class: &StorageClass) -> bool {
    class.driver.as_ref() == NO_PROVISIONER
}

/// The free volumes of `class` that the claim may be bound to, by name: those on the disks of nodes, or the others.
pub(super) fn matching<'c>(
    cluster: &'c Cluster,
    key: &ClaimKey,
    spec: &ClaimSpec,
    class: &StorageClass,
    on_disk: bool,
) -> Vec<&'c Volume> {
    let fits = |volume: &&Volume| {
        volume.class == class.name
            && is_on_disk(volume) == on_disk
            && is_free(volume)
            && volume.claim.as_ref().is_none_or(|claim| claim == key)
            && volume.block == spec.block
            && volume.size.is_none_or(|size| spec.size <= size)
            && spec.access_modes.iter().all(|mode| volume.access_modes.contains(mode))
            && spec.selector.as_ref().is_none_or(|selector| selector.matches(&volume.labels))
    };
    cluster.volumes.values().filter(fits).collect()
}

/// Whether a claim may be bound to the volume: the one that the volume names, if it names one.
fn is_free(volume: &Volume) -> bool {
    !volume.deleting && matches!(volume.phase.as_ref(), "" | "Available")
}

/// Whether the volume names the hosts that have it.
fn is_on_disk(volume: &Volume) -> bool {
    !volume.terms.is_empty() && volume.terms.iter().all(|term| !hosts_of_term(term).is_empty())
}

/// The volume off the disks of nodes that each unbound claim of the cluster is planned with: the least that fits,
/// in the order of the claims' names.
pub(super) fn assign(cluster: &Cluster) -> BTreeMap<ClaimKey, Text> {
    let mut assigned = BTreeMap::new();
    for (key, claim) in cluster.claims.iter().filter(|(_, claim)| claim.spec.volume.is_none()) {
        let class = claim.spec.class.as_ref().and_then(|class| cluster.classes.get(class));
        if let Some(class) = class.filter(|class| is_unprovisioned(class)) {
            assign_one(cluster, &mut assigned, key, &claim.spec, class);
        }
    }
    assigned
}

/// Assigns a volume to one claim, unless it has one or none is left.
pub(super) fn assign_one(
    cluster: &Cluster,
    assigned: &mut BTreeMap<ClaimKey, Text>,
    key: &ClaimKey,
    spec: &ClaimSpec,
    class: &StorageClass,
) {
    if assigned.contains_key(key) {
        return;
    }
    let taken: BTreeSet<&Text> = assigned.values().collect();
    let free = matching(cluster, key, spec, class, false).into_iter().filter(|volume| !taken.contains(&volume.name));
    if let Some(least) = free.min_by_key(|volume| (size_of(volume), &volume.name)) {
        assigned.insert(key.clone(), least.name.clone());
    }
}

/// The counts that a claim of this size is part of: one for each size of `class` up to the least that fits it.
pub(super) fn counts_of(cluster: &Cluster, spec: &ClaimSpec, class: &Text) -> Vec<Text> {
    let sizes = sizes(cluster, class, spec.block);
    let least = sizes.iter().copied().find(|size| spec.size <= *size).unwrap_or(i64::MAX);
    sizes.into_iter().filter(|size| *size <= least).map(|size| count_name(class, spec.block, size)).collect()
}

/// The number of free volumes on the disk of each of `hosts`, by count, as attach limits.
pub(super) fn limits(cluster: &Cluster, hosts: &BTreeSet<Text>) -> BTreeMap<Text, Vec<(Text, i64)>> {
    let mut limits: BTreeMap<Text, BTreeMap<Text, i64>> = BTreeMap::new();
    let mut known_sizes: BTreeMap<(&Text, bool), BTreeSet<i64>> = BTreeMap::new();
    let is_counted = |volume: &&Volume| {
        is_on_disk(volume) && is_free(volume) && cluster.classes.get(&volume.class).is_some_and(is_unprovisioned)
    };
    for volume in cluster.volumes.values().filter(is_counted) {
        let (class, block) = (&volume.class, volume.block);
        let sizes = known_sizes.entry((class, block)).or_insert_with(|| sizes(cluster, class, block));
        let sizes = sizes.range(..=size_of(volume));
        let names: Vec<Text> = sizes.map(|size| count_name(class, block, *size)).collect();
        for host in volume.terms.iter().flat_map(hosts_of_term).collect::<BTreeSet<&Text>>() {
            if hosts.contains(host) {
                let of_host = limits.entry(host.clone()).or_default();
                names.iter().for_each(|name| *of_host.entry(name.clone()).or_default() += 1);
            }
        }
    }
    limits.into_iter().map(|(host, counts)| (host, counts.into_iter().collect())).collect()
}

/// The sizes of the volumes of `class` on the disks of nodes, ascending.
fn sizes(cluster: &Cluster, class: &Text, block: bool) -> BTreeSet<i64> {
    let own = cluster.volumes.values().filter(|volume| volume.class == *class && volume.block == block);
    own.filter(|volume| is_on_disk(volume)).map(size_of).collect()
}

/// A volume of unknown size is enough for every claim.
fn size_of(volume: &Volume) -> i64 {
    volume.size.unwrap_or(i64::MAX)
}

/// The name under which volumes are counted, where other volumes have their CSI driver.
fn count_name(class: &Text, block: bool, size: i64) -> Text {
    let kind = if block { "free block" } else { "free" };
    let size = if size == i64::MAX { String::new() } else { format!(", {} or more", quantity::render("memory", size)) };
    format!("StorageClass/{class} ({kind} volumes{size})").into()
}

/// The hosts that the term names.
fn hosts_of_term(term: &NodeSelectorTerm) -> Vec<&Text> {
    let expressions = term.expressions.iter().filter(|expression| expression.key().as_ref() == HOSTNAME);
    expressions.chain(&term.names).filter_map(Requirement::finite_values).flatten().collect()
}
