//! Requirements of a pod's volumes on its node (Karpenter: volume topology and PVC validation;
//! kube-scheduler: VolumeBinding, VolumeZone, NodeVolumeLimits).

mod unprovisioned;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use model::labels::HOSTNAME;
use model::{Operator, Requirement, Requirements, Text, VolumeAlternatives, quantity};

use self::unprovisioned::is_unprovisioned;
use crate::cluster::Cluster;
use crate::cluster::storage::{ClaimSpec, EBS_DRIVER, StorageClass, Volume};
use crate::pod::volumes::PodVolume;

/// Maximum number of combinations of several volumes' alternatives.
const MOST_ALTERNATIVES: usize = 512;

/// Derives the node requirements of volumes, for all pods of a cluster.
#[derive(Debug)]
pub struct Volumes<'c> {
    cluster: &'c Cluster,
    /// Host names of nodes that are not being removed.
    hosts: BTreeSet<Text>,
    default_class: Option<&'c StorageClass>,
    /// "input" or "cluster", for messages about missing objects.
    place: &'static str,
    /// The volumes that claims without a provisioner are planned with; `None` until one asks.
    assigned: RefCell<Option<BTreeMap<(Text, Text), Text>>>,
}

/// The pod that uses the volumes.
#[derive(Debug, Clone, Copy)]
pub struct VolumeUser<'p> {
    /// Namespace of the pod and of its claims.
    pub namespace: &'p Text,
    pub name: &'p str,
    /// Claims that a StatefulSet creates for the pod: (name of the claim, its spec).
    pub templates: &'p [(Text, ClaimSpec)],
    /// The pod runs and is planned for another node: its ephemeral claims go with it, and the pod that is made in
    /// its place gets new ones.
    pub is_moved: bool,
}

/// Requirements of one volume: alternatives for the node, and (CSI driver, volume) if it is
/// attached; several where it is counted in several ways.
struct VolumeRequirement {
    alternatives: Vec<Requirements>,
    attachments: Vec<(Text, Text)>,
}

impl<'c> Volumes<'c> {
    /// Uses the claims, volumes and storage classes of the input `cluster`.
    #[must_use]
    pub fn new(cluster: &'c Cluster, hosts: BTreeSet<Text>) -> Self {
        let defaults = cluster.classes.values().filter(|class| class.is_default);
        let default_class = defaults.min_by_key(|class| (std::cmp::Reverse(class.created), class.name.clone()));
        Self { cluster, hosts, default_class, place: "input", assigned: RefCell::default() }
    }

    /// The same for a connected cluster: messages about missing objects name the cluster instead of
    /// the input.
    #[must_use]
    pub fn of_connected_cluster(cluster: &'c Cluster, hosts: BTreeSet<Text>) -> Self {
        Self { place: "cluster", ..Self::new(cluster, hosts) }
    }

    /// Requirements of the volumes of `pod`.
    #[must_use]
    pub fn of(&self, pod: VolumeUser<'_>, volumes: &[PodVolume]) -> VolumeAlternatives {
        let mut all = VolumeAlternatives::default();
        let mut alternatives = vec![Requirements::new()];
        for volume in self.claimed(pod, volumes) {
            match self.need(pod, &volume) {
                Ok(need) => {
                    alternatives = cross(&alternatives, &need.alternatives);
                    all.attachments.extend(need.attachments);
                }
                Err(reason) => all.blocked = all.blocked.or(Some(reason.into())),
            }
            all.exclusive_claims.extend(self.exclusive_claim(pod, &volume));
        }
        all.attachments.sort();
        all.attachments.dedup();
        all.exclusive_claims.sort();
        all.exclusive_claims.dedup();
        let unconstrained = alternatives.iter().all(Requirements::is_empty);
        all.any_of = if unconstrained { Vec::new() } else { alternatives };
        all
    }

    /// Attachments of a bound pod: its volumes constrain only the attach limits of its node.
    #[must_use]
    pub fn attached(&self, pod: VolumeUser<'_>, volumes: &[PodVolume]) -> VolumeAlternatives {
        VolumeAlternatives { any_of: Vec::new(), blocked: None, ..self.of(pod, volumes) }
    }

    /// The number of free PersistentVolumes without a provisioner on the disks of nodes, by host name, in the form of
    /// attach limits.
    #[must_use]
    pub fn local_limits(&self) -> BTreeMap<Text, Vec<(Text, i64)>> {
        unprovisioned::limits(self.cluster, &self.hosts)
    }

    /// Names of the PersistentVolumes of a bound pod that are on the disk of its node: `local` and
    /// `hostPath` volumes, and volumes whose node affinity names hosts.
    #[must_use]
    pub fn local(&self, pod: VolumeUser<'_>, volumes: &[PodVolume]) -> Vec<Text> {
        let mut local = Vec::new();
        for volume in volumes {
            let claim = match volume {
                PodVolume::Claim(name) => name.clone(),
                PodVolume::Ephemeral { volume, .. } => format!("{}-{volume}", pod.name).into(),
                PodVolume::Ebs(_) => continue,
            };
            let claim = self.cluster.claims.get(&(pod.namespace.clone(), claim));
            let volume = claim.and_then(|claim| self.cluster.volumes.get(claim.spec.volume.as_ref()?));
            local.extend(volume.filter(|volume| is_local(volume)).map(|volume| volume.name.clone()));
        }
        local.sort();
        local.dedup();
        local
    }

    /// The pod's volumes and those that its StatefulSet adds, each once.
    fn claimed(&self, pod: VolumeUser<'_>, volumes: &[PodVolume]) -> Vec<PodVolume> {
        let mut all: Vec<PodVolume> = Vec::new();
        let added = pod.templates.iter().map(|(name, _)| PodVolume::Claim(name.clone()));
        for volume in volumes.iter().cloned().chain(added) {
            if !all.contains(&volume) {
                all.push(volume);
            }
        }
        all
    }

    /// The claim, if one pod of the cluster may use it at a time. A claim that is made for the pod has no other user.
    fn exclusive_claim(&self, pod: VolumeUser<'_>, volume: &PodVolume) -> Option<Text> {
        let PodVolume::Claim(name) = volume else { return None };
        let claim = self.cluster.claims.get(&(pod.namespace.clone(), name.clone()))?;
        claim.spec.is_exclusive().then(|| format!("{}/{name}", pod.namespace).into())
    }

    fn need(&self, pod: VolumeUser<'_>, volume: &PodVolume) -> Result<VolumeRequirement, String> {
        let (name, template) = match volume {
            PodVolume::Ebs(id) => {
                return Ok(VolumeRequirement {
                    alternatives: free(),
                    attachments: vec![(EBS_DRIVER.into(), id.clone())],
                });
            }
            PodVolume::Claim(name) => {
                let template = pod.templates.iter().find(|(made, _)| made == name).map(|(_, template)| template);
                (name.clone(), template)
            }
            PodVolume::Ephemeral { volume, template } => (Text::from(format!("{}-{volume}", pod.name)), Some(template)),
        };
        let key = (pod.namespace.clone(), name);
        let title = format!("PersistentVolumeClaim/{}/{}", key.0, key.1);
        if let PodVolume::Ephemeral { template, .. } = volume
            && pod.is_moved
        {
            return self.unbound(&title, &key, template);
        }
        // An existing claim takes precedence over its template, which may have changed since.
        let Some(claim) = self.cluster.claims.get(&key) else {
            let template = template.ok_or_else(|| format!("{title} is not in the {}", self.place))?;
            return self.unbound(&title, &key, template);
        };
        if claim.deleting {
            return Err(format!("{title} is being deleted"));
        }
        if claim.lost {
            return Err(format!("{title} has lost its volume (phase Lost)"));
        }
        match &claim.spec.volume {
            Some(volume) if claim.bound => self.bound(&title, volume),
            Some(volume) => Err(format!(
                "{title} names PersistentVolume/{volume} but is not bound to it yet (annotation pv.kubernetes.io/bind-completed is missing)"
            )),
            None => self.unbound(&title, &key, &claim.spec),
        }
    }

    fn bound(&self, title: &str, name: &Text) -> Result<VolumeRequirement, String> {
        let missing = || format!("{title} is bound to PersistentVolume/{name}, which is not in the {}", self.place);
        let volume = self.cluster.volumes.get(name).ok_or_else(missing)?;
        if volume.deleting {
            return Err(format!("{title} is bound to PersistentVolume/{name}, which is being deleted"));
        }
        let attachments = volume.attachment.clone().into_iter().collect();
        Ok(VolumeRequirement { alternatives: self.places(volume), attachments })
    }

    /// Each term of the volume's node affinity is an alternative.
    fn places(&self, volume: &Volume) -> Vec<Requirements> {
        if volume.terms.is_empty() {
            return vec![volume.zones.clone()];
        }
        let place = |term: &model::NodeSelectorTerm| {
            let mut requirements: Requirements = term.expressions.iter().cloned().collect();
            for name in &term.names {
                let names = name.finite_values().into_iter().flatten().cloned();
                requirements.add(Requirement::new(HOSTNAME, Operator::In, names));
            }
            if volume.on_host && !self.names_a_host(&requirements) {
                requirements.remove(HOSTNAME);
            }
            requirements.add_all(&volume.zones);
            requirements
        };
        volume.terms.iter().map(place).collect()
    }

    /// Whether `requirements` name a node that is not being removed. A volume on the disk of such a
    /// node can be mounted only there. A volume of a removed node no longer constrains the host
    /// (Karpenter drops the host name of such volumes in every case; kube-scheduler never does).
    fn names_a_host(&self, requirements: &Requirements) -> bool {
        let hosts = requirements.get(HOSTNAME).and_then(Requirement::finite_values);
        hosts.is_some_and(|hosts| hosts.iter().any(|host| self.hosts.contains(host)))
    }

    fn unbound(&self, title: &str, key: &(Text, Text), spec: &ClaimSpec) -> Result<VolumeRequirement, String> {
        let class = match &spec.class {
            None => self.default_class.ok_or_else(|| {
                format!("{title} names no storage class, and no StorageClass of the {} is the default", self.place)
            })?,
            Some(name) if name.is_empty() => {
                return Err(format!(
                    "{title} is not bound and has an empty storageClassName, so nothing provisions it"
                ));
            }
            Some(name) => self
                .cluster
                .classes
                .get(name)
                .ok_or_else(|| format!("{title} names StorageClass/{name}, which is not in the {}", self.place))?,
        };
        if !class.waits_for_consumer {
            return Err(format!(
                "{title} is not bound, and StorageClass/{} binds at once (volumeBindingMode Immediate), before any pod is placed",
                class.name
            ));
        }
        if is_unprovisioned(class) {
            return self.unprovisioned(title, key, spec, class);
        }
        let alternatives = if class.topologies.is_empty() { free() } else { class.topologies.clone() };
        let attachments = vec![(class.driver.clone(), Text::from(format!("{}/{}", key.0, key.1)))];
        Ok(VolumeRequirement { alternatives, attachments })
    }

    /// A claim that nothing provisions needs a free volume: on the disk of a node that stays, or the one that it is
    /// assigned.
    fn unprovisioned(
        &self,
        title: &str,
        key: &(Text, Text),
        spec: &ClaimSpec,
        class: &StorageClass,
    ) -> Result<VolumeRequirement, String> {
        let local = unprovisioned::matching(self.cluster, key, spec, class, true);
        let places = local.into_iter().flat_map(|volume| self.places_of_host(volume)).collect();
        let alternatives = join_hosts(places);
        if !alternatives.is_empty() {
            let claim = Text::from(format!("{}/{}", key.0, key.1));
            let counts = unprovisioned::counts_of(self.cluster, spec, &class.name);
            let attachments = counts.into_iter().map(|count| (count, claim.clone())).collect();
            return Ok(VolumeRequirement { alternatives, attachments });
        }
        let mut assigned = self.assigned.borrow_mut();
        let assigned = assigned.get_or_insert_with(|| unprovisioned::assign(self.cluster));
        unprovisioned::assign_one(self.cluster, assigned, key, spec, class);
        match assigned.get(key).and_then(|name| self.cluster.volumes.get(name)) {
            Some(volume) => Ok(VolumeRequirement {
                alternatives: self.places(volume),
                attachments: volume.attachment.clone().into_iter().collect(),
            }),
            None => Err(format!(
                "{title} needs a free PersistentVolume of {} or more, because StorageClass/{} has no provisioner \
                 (kubernetes.io/no-provisioner), and no node that stays has one",
                quantity::render("memory", spec.size),
                class.name
            )),
        }
    }

    /// The places of a volume on the disk of a node, without those on nodes that leave or are unknown.
    fn places_of_host(&self, volume: &Volume) -> Vec<Requirements> {
        self.places(volume).into_iter().filter(|place| self.names_a_host(place)).collect()
    }
}

/// `places` with those joined that differ in their hosts only, so that their number does not grow with the nodes.
fn join_hosts(places: Vec<Requirements>) -> Vec<Requirements> {
    let mut hosts: BTreeMap<Requirements, BTreeSet<Text>> = BTreeMap::new();
    for mut place in places {
        let named = place.get(HOSTNAME).and_then(Requirement::finite_values).into_iter().flatten().cloned().collect();
        place.remove(HOSTNAME);
        hosts.entry(place).or_default().extend::<BTreeSet<Text>>(named);
    }
    let joined = |(mut place, hosts): (Requirements, BTreeSet<Text>)| {
        place.add(Requirement::new(HOSTNAME, Operator::In, hosts));
        place
    };
    hosts.into_iter().map(joined).collect()
}

/// Whether the volume is on the disk of a node.
fn is_local(volume: &Volume) -> bool {
    let names_hosts = |term: &model::NodeSelectorTerm| {
        !term.names.is_empty() || term.expressions.iter().any(|expression| expression.key().as_ref() == HOSTNAME)
    };
    volume.on_host || (!volume.terms.is_empty() && volume.terms.iter().all(names_hosts))
}

fn free() -> Vec<Requirements> {
    vec![Requirements::new()]
}

/// Every combination without a contradiction. If all are contradictory they are returned, so that
/// the contradiction can be reported.
fn cross(left: &[Requirements], right: &[Requirements]) -> Vec<Requirements> {
    let mut seen = BTreeSet::new();
    let mut combined = Vec::new();
    for one in left {
        for other in right {
            let mut both = one.clone();
            both.add_all(other);
            if seen.insert(both.clone()) {
                combined.push(both);
            }
        }
    }
    let possible = |combination: &Requirements| combination.iter().all(|r| r.is_satisfiable() || r.allows_absence());
    if combined.iter().any(possible) {
        combined.retain(possible);
    }
    combined.truncate(MOST_ALTERNATIVES);
    combined
}
