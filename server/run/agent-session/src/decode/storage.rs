//! Node requirements of pod volumes, through the manifest parser.
//!
//! Claims, volumes and storage classes may arrive or change after the pods that use them. Pods with
//! claims are therefore stored and emitted again when the requirements of their volumes change.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use cluster::{AttachRecord, NodeRecord, PodRecord};
use fleetwright_proto::v1;
use manifests::cluster::Cluster;
use manifests::cluster::storage::{Claim, ClaimSpec, EBS_DRIVER, StorageClass, Volume, zones};
use manifests::pod::volumes::PodVolume;
use manifests::{VolumeUser, Volumes};
use model::labels::HOSTNAME;
use model::{
    NodeName, NodeSelectorTerm, Operator, PodKey, Requirement, Requirements, Text, VolumeAlternatives, quantity,
};

use super::auxiliary::selector;
use super::problems::FieldError;
use super::record::{filled, labels, moment};

/// The `volumeMode` of volumes without a file system.
const BLOCK: &str = "Block";

/// Volumes that one or more pods refer to.
pub(super) type PodVolumes = Arc<Vec<PodVolume>>;

/// Storage objects of a cluster and the pods that use them.
#[derive(Debug, Default)]
pub(super) struct Storage {
    /// Only claims, volumes and storage classes are filled.
    objects: Cluster,
    /// Host names of Nodes that are not being removed.
    hosts: BTreeMap<NodeName, Text>,
    mounted: BTreeMap<PodKey, (PodRecord, PodVolumes)>,
    /// Attach limits by Node, as its CSINode states them.
    csi_limits: BTreeMap<NodeName, Vec<(Text, i64)>>,
    /// Nodes with free volumes on their disks, and the limits that these are counted by.
    local_limits: BTreeMap<NodeName, Vec<(Text, i64)>>,
    /// Whether an object changed since the last call of `drain_changed_pods`.
    stale: bool,
    /// Whether a volume, a class or a host changed since the last call of `drain_changed_limits`.
    limits_stale: bool,
}

impl Storage {
    /// Registers the volumes of `pod`; returns it with their requirements as known so far.
    pub(super) fn mount(&mut self, mut pod: PodRecord, volumes: Option<PodVolumes>) -> PodRecord {
        let Some(volumes) = volumes.filter(|volumes| !volumes.is_empty()) else {
            self.mounted.remove(&pod.key);
            return pod;
        };
        resolve_volumes(&self.volume_index(), &mut pod, &volumes);
        self.mounted.insert(pod.key.clone(), (pod.clone(), volumes));
        pod
    }

    pub(super) fn unmount(&mut self, pod: &PodKey) {
        self.mounted.remove(pod);
    }

    /// Pods whose volume requirements changed since they were emitted last, by namespace and name.
    pub(super) fn drain_changed_pods(&mut self) -> Vec<PodRecord> {
        if !std::mem::take(&mut self.stale) {
            return Vec::new();
        }
        let mut mounted = std::mem::take(&mut self.mounted);
        let volume_index = self.volume_index();
        let mut changed = Vec::new();
        for (pod, volumes) in mounted.values_mut() {
            if resolve_volumes(&volume_index, pod, volumes) {
                changed.push(pod.clone());
            }
        }
        self.mounted = mounted;
        changed
    }

    /// Sets the attach limits of a Node's CSINode, `None` for one that is gone; returns the Node's limits.
    pub(super) fn set_csi_limits(&mut self, node: NodeName, limits: Option<Vec<(Text, i64)>>) -> AttachRecord {
        match limits {
            Some(limits) => self.csi_limits.insert(node.clone(), limits),
            None => self.csi_limits.remove(&node),
        };
        self.attach_record(node)
    }

    fn attach_record(&self, node: NodeName) -> AttachRecord {
        let own = [&self.csi_limits, &self.local_limits].into_iter().filter_map(|limits| limits.get(&node));
        AttachRecord { limits: own.flatten().cloned().collect(), node }
    }

    /// Attach limits of the Nodes on whose disks the free volumes have changed since the last call.
    pub(super) fn drain_changed_limits(&mut self) -> Vec<AttachRecord> {
        if !std::mem::take(&mut self.limits_stale) {
            return Vec::new();
        }
        let by_host = self.volume_index().local_limits();
        let of_node = |(node, host): (&NodeName, &Text)| Some((node.clone(), by_host.get(host)?.clone()));
        let now: BTreeMap<NodeName, Vec<(Text, i64)>> = self.hosts.iter().filter_map(of_node).collect();
        let before = std::mem::replace(&mut self.local_limits, now);
        let nodes: BTreeSet<&NodeName> = before.keys().chain(self.local_limits.keys()).collect();
        let changed = nodes.into_iter().filter(|node| before.get(*node) != self.local_limits.get(*node));
        changed.map(|node| self.attach_record(node.clone())).collect()
    }

    fn volume_index(&self) -> Volumes<'_> {
        Volumes::of_connected_cluster(&self.objects, self.hosts.values().cloned().collect::<BTreeSet<Text>>())
    }

    pub(super) fn update_node(&mut self, node: &NodeRecord) {
        let leaving = node.deleting || node.drain.is_some();
        let host = node.labels.get(HOSTNAME).unwrap_or(node.name.as_text());
        if leaving {
            self.remove_node(&node.name);
        } else if self.hosts.get(&node.name) != Some(host) {
            self.hosts.insert(node.name.clone(), host.clone());
            self.mark_hosts_changed();
        }
    }

    pub(super) fn remove_node(&mut self, node: &NodeName) {
        if self.hosts.remove(node).is_some() {
            self.mark_hosts_changed();
        }
    }

    /// The set of hosts matters only to volumes on local disks.
    fn mark_hosts_changed(&mut self) {
        let on_disk = |volume: &Volume| volume.on_host || !volume.terms.is_empty();
        self.limits_stale |= self.objects.volumes.values().any(on_disk);
        self.stale |= self.objects.volumes.values().any(|volume| volume.on_host);
    }

    /// Adds or updates a PersistentVolumeClaim.
    ///
    /// # Errors
    /// A quantity is malformed, or an operator of its selector is unknown to Kubernetes.
    pub(super) fn update_claim(&mut self, claim: &v1::PersistentVolumeClaimRecord) -> Result<(), FieldError> {
        let read = Claim {
            namespace: claim.namespace.as_str().into(),
            name: claim.name.as_str().into(),
            spec: ClaimSpec {
                class: claim.storage_class.as_deref().map(Text::from),
                volume: filled(&claim.volume_name),
                access_modes: texts(&claim.access_modes),
                size: storage("resources.requests", &claim.storage_request)?.unwrap_or(0),
                block: claim.volume_mode == BLOCK,
                selector: claim.selector.as_ref().map(selector).transpose()?,
            },
            bound: claim.bind_completed,
            lost: claim.phase == "Lost",
            deleting: claim.deleted_at_ms != 0,
        };
        self.objects.claims.insert((read.namespace.clone(), read.name.clone()), read);
        self.stale = true;
        Ok(())
    }

    /// Adds or updates a PersistentVolume.
    ///
    /// # Errors
    /// A quantity is malformed, or an operator in its node affinity is unknown to Kubernetes.
    pub(super) fn update_volume(&mut self, volume: &v1::PersistentVolumeRecord) -> Result<(), FieldError> {
        let name = Text::from(volume.name.as_str());
        let handle = filled(&volume.volume_handle).unwrap_or_else(|| name.clone());
        let attachment = match (volume.csi_driver.as_str(), volume.plugin.as_str()) {
            ("", "awsElasticBlockStore") => Some((Text::from(EBS_DRIVER), handle)),
            ("", _) => None,
            (driver, _) => Some((Text::from(driver), handle)),
        };
        let affinity = volume.node_affinity.iter().flat_map(|selector| &selector.terms);
        let read = Volume {
            name: name.clone(),
            attachment,
            terms: affinity.map(term).collect::<Result<_, FieldError>>()?,
            zones: zones(&labels(&volume.labels)),
            on_host: matches!(volume.plugin.as_str(), "local" | "hostPath"),
            deleting: volume.deleted_at_ms != 0,
            labels: labels(&volume.labels),
            class: volume.storage_class.as_str().into(),
            access_modes: texts(&volume.access_modes),
            size: storage("capacity", &volume.capacity)?,
            block: volume.volume_mode == BLOCK,
            claim: filled(&volume.claim_name).map(|name| (volume.claim_namespace.as_str().into(), name)),
            phase: volume.phase.as_str().into(),
        };
        self.objects.volumes.insert(name, read);
        (self.stale, self.limits_stale) = (true, true);
        Ok(())
    }

    /// Adds or updates a StorageClass.
    ///
    /// # Errors
    /// As [`update_volume`](Self::update_volume).
    pub(super) fn update_class(&mut self, class: &v1::StorageClassRecord) -> Result<(), FieldError> {
        let allowed = class.allowed_topologies.iter().flat_map(|selector| &selector.terms);
        let topology = |found: &v1::NodeSelectorTerm| -> Result<Requirements, FieldError> {
            found.match_expressions.iter().map(requirement).collect()
        };
        let in_tree = class.provisioner == "kubernetes.io/aws-ebs";
        let read = StorageClass {
            name: class.name.as_str().into(),
            driver: if in_tree { EBS_DRIVER } else { class.provisioner.as_str() }.into(),
            waits_for_consumer: class.volume_binding_mode == "WaitForFirstConsumer",
            topologies: allowed.map(topology).collect::<Result<_, FieldError>>()?,
            is_default: class.is_default,
            created: moment(class.created_at_ms),
        };
        self.objects.classes.insert(read.name.clone(), read);
        (self.stale, self.limits_stale) = (true, true);
        Ok(())
    }

    /// Removes a storage object; returns whether its kind is a storage kind.
    pub(super) fn remove(&mut self, kind: v1::ObjectKind, namespace: &str, name: &str) -> bool {
        let name = Text::from(name);
        match kind {
            v1::ObjectKind::PersistentVolumeClaim => {
                self.objects.claims.remove(&(Text::from(namespace), name));
            }
            v1::ObjectKind::PersistentVolume => {
                self.objects.volumes.remove(&name);
            }
            v1::ObjectKind::StorageClass => {
                self.objects.classes.remove(&name);
            }
            _ => return false,
        }
        (self.stale, self.limits_stale) = (true, true);
        true
    }
}

/// Sets what is known of the volumes of `pod`; returns whether that has changed.
fn resolve_volumes(volume_index: &Volumes<'_>, pod: &mut PodRecord, volumes: &[PodVolume]) -> bool {
    let (namespace, name) = (&pod.key.namespace, &pod.key.name);
    let user = VolumeUser { namespace, name, templates: &[], is_moved: pod.node.is_some() };
    let (needs, local) = (volume_index.of(user, volumes), volume_index.local(user, volumes));
    let needs = (needs != VolumeAlternatives::default()).then_some(needs);
    if pod.volumes.as_deref() == needs.as_ref() && *pod.local_volumes == *local {
        return false;
    }
    pod.volumes = needs.map(Arc::new);
    pod.local_volumes = local.into();
    true
}

fn texts(values: &[String]) -> Vec<Text> {
    values.iter().map(|value| value.as_str().into()).collect()
}

/// An amount of storage in bytes; `None` where none is stated.
fn storage(field: &'static str, amount: &str) -> Result<Option<i64>, FieldError> {
    if amount.is_empty() {
        return Ok(None);
    }
    let resource = "storage".to_owned();
    quantity::parse(&resource, amount).map(Some).map_err(|error| FieldError::Quantity { field, resource, error })
}

/// Volumes of a set that restrict where a pod can run. Inline CSI volumes do not.
pub(super) fn pod_volumes(set: &v1::VolumeClaimSet) -> PodVolumes {
    use v1::volume_claim::Source;
    let read = |volume: &v1::VolumeClaim| match volume.source.as_ref()? {
        Source::ClaimName(name) => Some(PodVolume::Claim(name.as_str().into())),
        Source::EphemeralStorageClass(class) => Some(PodVolume::Ephemeral {
            volume: volume.volume_name.as_str().into(),
            template: ClaimSpec { class: filled(class), ..ClaimSpec::default() },
        }),
        Source::CsiDriver(_) => None,
    };
    Arc::new(set.volumes.iter().filter_map(read).collect())
}

fn term(term: &v1::NodeSelectorTerm) -> Result<NodeSelectorTerm, FieldError> {
    let read = |list: &[v1::Expression]| list.iter().map(requirement).collect::<Result<Vec<_>, FieldError>>();
    Ok(NodeSelectorTerm { expressions: read(&term.match_expressions)?, names: read(&term.match_fields)? })
}

fn requirement(expression: &v1::Expression) -> Result<Requirement, FieldError> {
    let operator = Operator::parse(&expression.operator).ok_or_else(|| FieldError::ConditionOperator {
        key: expression.key.clone(),
        operator: expression.operator.clone(),
    })?;
    Ok(Requirement::new(&expression.key, operator, expression.values.iter().map(|value| Text::from(value.as_str()))))
}

#[cfg(test)]
mod tests;
