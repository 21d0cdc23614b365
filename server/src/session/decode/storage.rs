//! What the volumes of pods ask of nodes, by the code that reads them out of manifest files.
//!
//! Claims, volumes and classes come and change after the pods that use them. Pods with claims are therefore kept, and told
//! again whenever what their volumes ask for turns out otherwise.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use engine::cluster::{NodeRecord, PodKey, PodRecord};
use engine::model::labels::HOSTNAME;
use engine::model::{NodeSelectorTerm, Operator, Requirement, Requirements, Text, VolumeAlternatives};
use fleetwright_proto::v1;
use manifests::cluster::Cluster;
use manifests::cluster::storage::{Claim, ClaimSpec, EBS_DRIVER, StorageClass, Volume, zones};
use manifests::pod::volumes::PodVolume;
use manifests::{Mounter, Volumes};

use super::record::{filled, labels, moment};

/// Taint of a node that goes.
const DISRUPTED: &str = "karpenter.sh/disrupted";

/// The volumes that one or many pods name.
pub(super) type Named = Arc<Vec<PodVolume>>;

/// What volumes look like, and the pods that use them.
#[derive(Debug, Default)]
pub(super) struct Storage {
    /// Claims, volumes and classes; nothing else of it is filled.
    objects: Cluster,
    /// Host names of nodes that stay.
    hosts: BTreeMap<Text, Text>,
    mounted: BTreeMap<PodKey, (PodRecord, Named)>,
    /// Whether something has changed since the last answer.
    stale: bool,
}

impl Storage {
    /// `pod` uses `volumes`; it is told with what they ask for as far as that is known.
    pub(super) fn mount(&mut self, mut pod: PodRecord, volumes: Option<Named>) -> PodRecord {
        let Some(volumes) = volumes.filter(|volumes| !volumes.is_empty()) else {
            self.mounted.remove(&pod.key);
            return pod;
        };
        pod.volumes = Some(Arc::new(needs(&self.answers(), &pod, &volumes)));
        self.mounted.insert(pod.key.clone(), (pod.clone(), volumes));
        pod
    }

    /// The pod is gone.
    pub(super) fn unmount(&mut self, pod: &PodKey) {
        self.mounted.remove(pod);
    }

    /// Pods whose volumes ask for something else than was told before, by namespace and name.
    pub(super) fn changed(&mut self) -> Vec<PodRecord> {
        if !std::mem::take(&mut self.stale) {
            return Vec::new();
        }
        let mut mounted = std::mem::take(&mut self.mounted);
        let answers = self.answers();
        let mut changed = Vec::new();
        for (pod, volumes) in mounted.values_mut() {
            let needs = needs(&answers, pod, volumes);
            if pod.volumes.as_deref() != Some(&needs) {
                pod.volumes = Some(Arc::new(needs));
                changed.push(pod.clone());
            }
        }
        self.mounted = mounted;
        changed
    }

    fn answers(&self) -> Volumes<'_> {
        Volumes::of_a_live_cluster(&self.objects, self.hosts.values().cloned().collect::<BTreeSet<Text>>())
    }

    /// A node is so.
    pub(super) fn see_node(&mut self, node: &NodeRecord) {
        let goes = node.deleting || node.taints.iter().any(|taint| taint.key.as_ref() == DISRUPTED);
        let host = node.labels.get(HOSTNAME).unwrap_or(&node.name);
        if goes {
            self.forget_node(&node.name);
        } else if self.hosts.get(&node.name) != Some(host) {
            self.hosts.insert(node.name.clone(), host.clone());
            self.note_hosts();
        }
    }

    /// A node is gone.
    pub(super) fn forget_node(&mut self, node: &Text) {
        if self.hosts.remove(node).is_some() {
            self.note_hosts();
        }
    }

    /// Which hosts there are matters to volumes on their disks only.
    fn note_hosts(&mut self) {
        self.stale |= self.objects.volumes.values().any(|volume| volume.on_host);
    }

    /// A PersistentVolumeClaim is so.
    pub(super) fn see_claim(&mut self, claim: &v1::PersistentVolumeClaimRecord) {
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

    /// A PersistentVolume is so.
    ///
    /// # Errors
    /// Why it cannot be read: an operator that Kubernetes does not have.
    pub(super) fn see_volume(&mut self, volume: &v1::PersistentVolumeRecord) -> Result<(), String> {
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
            terms: affinity.map(term).collect::<Result<_, String>>()?,
            zones: zones(&labels(&volume.labels)),
            on_host: matches!(volume.plugin.as_str(), "local" | "hostPath"),
            deleting: volume.deleted_at_ms != 0,
        };
        self.objects.volumes.insert(name, read);
        self.stale = true;
        Ok(())
    }

    /// A StorageClass is so.
    ///
    /// # Errors
    /// As [`see_volume`](Self::see_volume).
    pub(super) fn see_class(&mut self, class: &v1::StorageClassRecord) -> Result<(), String> {
        let allowed = class.allowed_topologies.iter().flat_map(|selector| &selector.terms);
        let place = |found: &v1::NodeSelectorTerm| -> Result<Requirements, String> {
            found.match_expressions.iter().map(requirement).collect()
        };
        let in_tree = class.provisioner == "kubernetes.io/aws-ebs";
        let read = StorageClass {
            name: class.name.as_str().into(),
            driver: if in_tree { EBS_DRIVER } else { class.provisioner.as_str() }.into(),
            waits: class.volume_binding_mode == "WaitForFirstConsumer",
            topologies: allowed.map(place).collect::<Result<_, String>>()?,
            is_default: class.is_default,
            created: moment(class.created_at_ms),
        };
        self.objects.classes.insert(read.name.clone(), read);
        self.stale = true;
        Ok(())
    }

    /// Something of storage is gone; says whether the kind is one of storage.
    pub(super) fn forget(&mut self, kind: v1::ObjectKind, namespace: &str, name: &str) -> bool {
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

fn needs(answers: &Volumes<'_>, pod: &PodRecord, volumes: &[PodVolume]) -> VolumeAlternatives {
    answers.of(Mounter { namespace: &pod.key.namespace, name: &pod.key.name, templates: &[] }, volumes)
}

/// The volumes of a set that say where a pod can run. Inline CSI volumes follow their pod anywhere.
pub(super) fn named(set: &v1::VolumeClaimSet) -> Named {
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

fn term(term: &v1::NodeSelectorTerm) -> Result<NodeSelectorTerm, String> {
    let read = |list: &[v1::Expression]| -> Result<Vec<Requirement>, String> { list.iter().map(requirement).collect() };
    Ok(NodeSelectorTerm { expressions: read(&term.match_expressions)?, names: read(&term.match_fields)? })
}

fn requirement(expression: &v1::Expression) -> Result<Requirement, String> {
    let operator = Operator::parse(&expression.operator)
        .ok_or_else(|| format!("the condition on {} has the operator {:?}", expression.key, expression.operator))?;
    Ok(Requirement::new(&expression.key, operator, expression.values.iter().map(|value| Text::from(value.as_str()))))
}

#[cfg(test)]
mod tests;
