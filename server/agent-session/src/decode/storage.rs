//! Node requirements of pod volumes, through the manifest parser.
//!
//! Claims, volumes and storage classes may arrive or change after the pods that use them. Pods with
//! claims are therefore stored and emitted again when the requirements of their volumes change.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use controller::cluster::{NodeRecord, PodRecord};
use fleetwright_proto::v1;
use manifests::cluster::Cluster;
use manifests::cluster::storage::{Claim, ClaimSpec, EBS_DRIVER, StorageClass, Volume, zones};
use manifests::pod::volumes::PodVolume;
use manifests::{VolumeUser, Volumes};
use model::labels::HOSTNAME;
use model::{NodeName, NodeSelectorTerm, Operator, PodKey, Requirement, Requirements, Text, VolumeAlternatives};

use super::problems::FieldError;
use super::record::{filled, labels, moment};

/// Taint of a Node that is being disrupted.
const DISRUPTED: &str = "karpenter.sh/disrupted";

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
    /// Whether an object changed since the last call of `drain_changed_pods`.
    stale: bool,
}

impl Storage {
    /// Registers the volumes of `pod`; returns it with their requirements as known so far.
    pub(super) fn mount(&mut self, mut pod: PodRecord, volumes: Option<PodVolumes>) -> PodRecord {
        let Some(volumes) = volumes.filter(|volumes| !volumes.is_empty()) else {
            self.mounted.remove(&pod.key);
            return pod;
        };
        pod.volumes = Some(Arc::new(resolve_volumes(&self.volume_index(), &pod, &volumes)));
        self.mounted.insert(pod.key.clone(), (pod.clone(), volumes));
        pod
    }

    /// Unregisters a deleted pod.
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
            let needs = resolve_volumes(&volume_index, pod, volumes);
            if pod.volumes.as_deref() != Some(&needs) {
                pod.volumes = Some(Arc::new(needs));
                changed.push(pod.clone());
            }
        }
        self.mounted = mounted;
        changed
    }

    fn volume_index(&self) -> Volumes<'_> {
        Volumes::of_connected_cluster(&self.objects, self.hosts.values().cloned().collect::<BTreeSet<Text>>())
    }

    /// Adds or updates a Node.
    pub(super) fn update_node(&mut self, node: &NodeRecord) {
        let leaving = node.deleting || node.taints.iter().any(|taint| taint.key.as_ref() == DISRUPTED);
        let host = node.labels.get(HOSTNAME).unwrap_or(node.name.as_text());
        if leaving {
            self.remove_node(&node.name);
        } else if self.hosts.get(&node.name) != Some(host) {
            self.hosts.insert(node.name.clone(), host.clone());
            self.mark_hosts_changed();
        }
    }

    /// Removes a Node.
    pub(super) fn remove_node(&mut self, node: &NodeName) {
        if self.hosts.remove(node).is_some() {
            self.mark_hosts_changed();
        }
    }

    /// The set of hosts matters only to volumes on local disks.
    fn mark_hosts_changed(&mut self) {
        self.stale |= self.objects.volumes.values().any(|volume| volume.on_host);
    }

    /// Adds or updates a PersistentVolumeClaim.
    pub(super) fn update_claim(&mut self, claim: &v1::PersistentVolumeClaimRecord) {
        let read = Claim {
            namespace: claim.namespace.as_str().into(),
            name: claim.name.as_str().into(),
            spec: ClaimSpec {
                class: claim.storage_class.as_deref().map(Text::from),
                volume: filled(&claim.volume_name),
            },
            bound: claim.bind_completed,
            lost: claim.phase == "Lost",
            deleting: claim.deleted_at_ms != 0,
        };
        self.objects.claims.insert((read.namespace.clone(), read.name.clone()), read);
        self.stale = true;
    }

    /// Adds or updates a PersistentVolume.
    ///
    /// # Errors
    /// An operator in its node affinity is unknown to Kubernetes.
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
        };
        self.objects.volumes.insert(name, read);
        self.stale = true;
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
        self.stale = true;
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
        self.stale = true;
        true
    }
}

fn resolve_volumes(volume_index: &Volumes<'_>, pod: &PodRecord, volumes: &[PodVolume]) -> VolumeAlternatives {
    volume_index.of(VolumeUser { namespace: &pod.key.namespace, name: &pod.key.name, templates: &[] }, volumes)
}

/// Volumes of a set that restrict where a pod can run. Inline CSI volumes do not.
pub(super) fn pod_volumes(set: &v1::VolumeClaimSet) -> PodVolumes {
    use v1::volume_claim::Source;
    let read = |volume: &v1::VolumeClaim| match volume.source.as_ref()? {
        Source::ClaimName(name) => Some(PodVolume::Claim(name.as_str().into())),
        Source::EphemeralStorageClass(class) => Some(PodVolume::Ephemeral {
            volume: volume.volume_name.as_str().into(),
            template: ClaimSpec { class: filled(class), volume: None },
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
