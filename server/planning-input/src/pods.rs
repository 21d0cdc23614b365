//! Pods of the input: bound, nominated, excluded or to be planned.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use manifests::cluster::Cluster;
use manifests::cluster::pods::PodObject;
use manifests::cluster::policy::DisruptionBudget;
use manifests::cluster::storage::ClaimSpec;
use manifests::cluster::workload::Workload;
use manifests::kinds::Kind;
use manifests::notes::Notes;
use manifests::pod::PodSpec;
use manifests::{InputError, Problems, VolumeUser, Volumes};
use model::removal::{DoNotDisrupt, EvictionRule, is_never_evicted};
use model::running::{RunningNode, RunningPod};
use model::schedulers::PlannedSchedulers;
use model::{BoundPod, Labels, Node, NodeName, NodeStage, Pod, PodKey, Text, VolumeAlternatives};

use crate::drains::BudgetedPods;
use crate::owners::Owners;
use crate::priority;
use crate::running::{removal_facts, without_host};
use crate::spread::SpreadDefaults;
use crate::tables::Tables;

/// Maximum number of pods that one run plans.
const MOST_PODS: i64 = 1_000_000;

/// Pods of one workload in the input.
#[derive(Debug, Default)]
pub struct WorkloadPods {
    /// Names of pods that run or will run.
    pub live: BTreeSet<Text>,
    /// Number of pods that succeeded.
    pub succeeded: i64,
}

/// (namespace, `Kind/name`).
pub type WorkloadKey = (Text, Text);

/// Converts the cluster's pods and workloads to those of the planning input.
#[derive(Debug)]
pub struct Reader<'c> {
    /// The objects of the input, except Karpenter's.
    pub cluster: &'c Cluster,
    /// Finds the workload of each pod.
    pub owners: Owners,
    /// Derives node requirements from volumes.
    pub volumes: Volumes<'c>,
    /// The schedulers whose pods are planned.
    pub schedulers: &'c PlannedSchedulers,
    /// Default topology spread constraints.
    pub defaults: SpreadDefaults<'c>,
    /// Pods that run or will run, for the disruption budgets.
    pub budgeted_pods: BudgetedPods,
    /// Shapes, label sets and volume sets, each stored once.
    pub tables: Tables,
    /// Notes for the user.
    pub notes: &'c mut Notes,
    /// Errors of the input.
    pub problems: &'c Problems,
    /// Pods to plan, so far.
    pub pods: Vec<Pod>,
    /// For repacking, the nodes with a known price, and for disruption all nodes, by the index of the node;
    /// else empty.
    pub running: Vec<Option<RunningNode>>,
}

impl Reader<'_> {
    /// Classifies every pod, then adds the missing replicas of workloads. Bound pods are added to
    /// `nodes`.
    pub fn read(&mut self, nodes: &mut [Node]) {
        let cluster = self.cluster;
        let index: BTreeMap<NodeName, usize> =
            nodes.iter().enumerate().map(|(at, node)| (node.name.clone(), at)).collect();
        let mut owned: BTreeMap<WorkloadKey, WorkloadPods> = BTreeMap::new();
        let mut taken = BTreeSet::new();
        for pod in &cluster.pods {
            taken.insert(PodKey { namespace: pod.meta.namespace.clone(), name: pod.meta.name.clone() });
            let moved = !pod.finished && self.classify(pod, &index, nodes);
            let workload = self.owners.workload(pod);
            let occupies = pod.is_active() || moved;
            if occupies {
                self.budgeted_pods.add_pod(pod, &workload);
            }
            let owned = owned.entry((pod.meta.namespace.clone(), workload)).or_default();
            if occupies {
                owned.live.insert(pod.meta.name.clone());
            }
            owned.succeeded += i64::from(pod.succeeded);
        }
        self.expand(&owned, &mut taken);
        self.pods.sort_by(|a, b| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)));
        for node in self.running.iter_mut().flatten() {
            node.pods.sort_by(|a, b| a.facts.key.cmp(&b.facts.key));
        }
        for node in nodes {
            node.pods.sort_by(|a, b| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)));
        }
    }

    /// Whether `count` more pods may be planned; reports an error when they exceed the maximum.
    pub fn allow(&mut self, count: i64, workload: &Workload) -> bool {
        let fits = self.pods.len() as i64 + count <= MOST_PODS;
        if !fits {
            self.problems.add(InputError {
                source: "input".to_owned(),
                document: 0,
                object: Some(format!("{}/{}", workload.kind_name, workload.meta.title())),
                path: "spec.replicas".to_owned(),
                message: format!("lacks {count} pods; all workloads together, at most {MOST_PODS} pods are planned"),
            });
        }
        fits
    }

    /// Classifies one pod that has not finished. Returns whether it was bound to a node that is
    /// being removed and is planned again.
    fn classify(&mut self, pod: &PodObject, index: &BTreeMap<NodeName, usize>, nodes: &mut [Node]) -> bool {
        if let Some(name) = &pod.spec.node_name {
            let Some((at, node)) = index.get(name).and_then(|at| Some((*at, nodes.get_mut(*at)?))) else {
                let what = format!("pods run on Node/{name}, which is not in the input, and are not looked at");
                self.notes.add(&what, &pod.meta.title());
                return false;
            };
            let leaving = self.bind(pod, node);
            self.note_absent_daemon_set(pod);
            if !leaving && (pod.is_movable() || (pod.is_active() && self.may_hold_its_node(pod))) {
                self.add_running(pod, at, &node.name);
            }
            return leaving;
        }
        if pod.meta.deleting
            || pod.mirror
            || pod.meta.owned_by("DaemonSet").is_some()
            || self.place_nominated(pod, index, nodes)
        {
            return false;
        }
        if !self.is_excluded(pod) {
            self.plan(pod, None);
        }
        false
    }

    /// Whether a pod that ends with its node may hold it: by do-not-disrupt, or by a PodDisruptionBudget.
    fn may_hold_its_node(&self, pod: &PodObject) -> bool {
        let selects =
            |budget: &DisruptionBudget| budget.namespace == pod.meta.namespace && budget.guards(&pod.meta.labels);
        pod.do_not_disrupt.is_some() || (!pod.mirror && self.cluster.budgets.iter().any(selects))
    }

    /// Places `pod` on its nominated node, unless that node is missing or being removed.
    fn place_nominated(&mut self, pod: &PodObject, index: &BTreeMap<NodeName, usize>, nodes: &mut [Node]) -> bool {
        let Some(name) = &pod.nominated else { return false };
        let found = index.get(name).and_then(|at| Some((*at, nodes.get_mut(*at)?)));
        let Some((at, node)) = found.filter(|(_, node)| node.stage != NodeStage::Deleting) else {
            self.notes.add(
                "pods are nominated for a node that is missing or being removed, and are planned again",
                &pod.meta.title(),
            );
            return false;
        };
        let bound = self.bound(pod, false);
        node.pods.push(bound);
        self.add_running(pod, at, &node.name);
        self.notes.add(
            "pods are nominated for a node (status.nominatedNodeName); they use its capacity and are not planned again",
            &pod.meta.title(),
        );
        true
    }

    fn is_excluded(&mut self, pod: &PodObject) -> bool {
        if pod.spec.gated {
            self.notes.add("gated pods wait for their scheduling gates and are not planned", &pod.meta.title());
        } else if let Some(scheduler) = self.schedulers.other(&pod.spec.scheduler) {
            self.notes.add(&format!("pods of another scheduler ({scheduler}) are not planned"), &pod.meta.title());
        } else {
            return false;
        }
        true
    }

    /// Places `pod` on its node. When the node is being removed and the pod can move, the pod is
    /// planned as well.
    fn bind(&mut self, pod: &PodObject, node: &mut Node) -> bool {
        let leaving = node.stage == NodeStage::Deleting
            && pod.is_movable()
            && !self.is_eviction_blocked(pod)
            && !self.is_excluded(pod);
        let bound = self.bound(pod, leaving);
        node.pods.push(bound);
        if leaving {
            self.plan(pod, Some(node.name.clone()));
        }
        leaving
    }

    /// Whether do-not-disrupt or a disruption budget prevents the eviction of `pod` (Karpenter:
    /// currently reschedulable pods). Adds a note.
    fn is_eviction_blocked(&mut self, pod: &PodObject) -> bool {
        let guards = self
            .cluster
            .budgets
            .iter()
            .filter(|budget| budget.namespace == pod.meta.namespace && budget.guards(&pod.meta.labels));
        let rule = |budget: &DisruptionBudget| EvictionRule {
            never_allows: budget.blocks(),
            evicts_unhealthy_always: budget.evicts_unhealthy,
        };
        let blocked = pod.is_active() && is_never_evicted(&guards.map(rule).collect::<Vec<_>>(), pod.ready);
        // A duration only delays the eviction.
        let protected = pod.do_not_disrupt == Some(DoNotDisrupt::Always);
        if protected || blocked {
            let why = if protected { "karpenter.sh/do-not-disrupt" } else { "a PodDisruptionBudget" };
            self.notes.add(
                &format!("pods of nodes that are being deleted are held by {why} and not planned"),
                &pod.meta.title(),
            );
        }
        protected || blocked
    }

    /// For repacking, notes the DaemonSet of `pod` if it is not in the input: the pods of a new node
    /// are planned beside those of the DaemonSets that are.
    fn note_absent_daemon_set(&mut self, pod: &PodObject) {
        let Some(name) = pod.meta.owned_by("DaemonSet").filter(|_| !self.running.is_empty()) else { return };
        let namespace = &pod.meta.namespace;
        let mut known = self.cluster.daemons.iter().map(|daemon| (&daemon.meta.namespace, &daemon.meta.name));
        if !known.any(|known| known == (namespace, name)) {
            self.notes.add(
                "DaemonSets that have pods are not in the input: new nodes are planned without them",
                &format!("{namespace}/{name}"),
            );
        }
    }

    /// Adds `pod` to what runs on the node with the index `at`, if that is read.
    fn add_running(&mut self, pod: &PodObject, at: usize, node: &NodeName) {
        let Some(Some(running)) = self.running.get(at) else { return };
        // A pod of a StatefulSet that ends is created again: its node is in use. A repacking plans no such pod.
        if !pod.is_active() && running.claim.is_none() {
            return;
        }
        let user = volume_user(pod, &[]);
        let running = RunningPod {
            facts: removal_facts(pod, self.owners.workload(pod), self.cluster),
            is_nominated: pod.spec.node_name.is_none(),
            unsafe_to_evict: pod.unsafe_to_evict,
            stated_cost: pod.stated_cost,
            local_volumes: self.volumes.local(user, &pod.spec.volumes),
            other_scheduler: self.schedulers.other(&pod.spec.scheduler).cloned(),
            pod: pod.is_movable().then(|| {
                let volumes = without_host(self.volume_needs(pod));
                self.planned(pod, volumes, Some(node.clone()))
            }),
        };
        if let Some(Some(node)) = self.running.get_mut(at) {
            node.pods.push(running);
        }
    }

    fn plan(&mut self, pod: &PodObject, leaves: Option<NodeName>) {
        let needs = self.volume_needs(pod);
        let planned = self.planned(pod, needs, leaves);
        self.pods.push(planned);
    }

    fn volume_needs(&self, pod: &PodObject) -> VolumeAlternatives {
        let claims = self.claims(pod);
        let user = VolumeUser { is_moved: pod.spec.node_name.is_some(), ..volume_user(pod, &claims) };
        self.volumes.of(user, &pod.spec.volumes)
    }

    /// `pod` as it is planned, with these needs of its volumes.
    fn planned(&mut self, pod: &PodObject, volumes: VolumeAlternatives, leaves: Option<NodeName>) -> Pod {
        let spec = self.defaults.spread_pod(pod, &self.owners, self.notes);
        let mut planned = self.prototype(&pod.meta.namespace, &spec, &pod.meta.labels);
        planned.volumes = self.tables.volumes(volumes);
        planned.name = pod.meta.name.clone();
        planned.created = pod.meta.created;
        planned.workload = self.owners.workload(pod);
        planned.moved_from = leaves;
        planned
    }

    /// The (name, spec) of the PersistentVolumeClaims that the pod's StatefulSet created for it.
    fn claims(&self, pod: &PodObject) -> Vec<(Text, ClaimSpec)> {
        let Some(owner) = pod.meta.owned_by("StatefulSet") else { return Vec::new() };
        let mut workloads = self.cluster.workloads.iter();
        let owner = workloads.find(|workload| {
            workload.kind == Kind::StatefulSet
                && workload.meta.namespace == pod.meta.namespace
                && workload.meta.name == *owner
        });
        let claims = owner.map(|workload| workload.claims.as_slice()).unwrap_or_default();
        claims.iter().map(|(claim, spec)| (format!("{claim}-{}", pod.meta.name).into(), spec.clone())).collect()
    }

    /// A pod with `spec` and `labels`, without name, volumes and workload.
    pub fn prototype(&mut self, namespace: &Text, spec: &PodSpec, labels: &Labels) -> Pod {
        let priority = priority::resolve(spec, &self.cluster.priorities);
        let shape = spec.shape(labels, *priority.as_ref().unwrap_or(&0));
        Pod {
            namespace: namespace.clone(),
            name: Text::default(),
            shape: self.tables.shapes.index(shape),
            labels: self.tables.labels.index(labels.clone()),
            volumes: None,
            created: None,
            workload: Text::default(),
            moved_from: None,
            invalid: spec.invalid.clone().or(priority.err()),
        }
    }

    fn bound(&mut self, pod: &PodObject, leaving: bool) -> BoundPod {
        let daemon = pod.meta.owned_by("DaemonSet").map(|name| Text::from(format!("{}/{name}", pod.meta.namespace)));
        let spec = if daemon.is_some() { Cow::Owned(pod.spec.unpinned()) } else { Cow::Borrowed(&pod.spec) };
        let prototype = self.prototype(&pod.meta.namespace, &spec, &pod.meta.labels);
        let attached = self.volumes.attached(volume_user(pod, &[]), &pod.spec.volumes);
        BoundPod {
            namespace: prototype.namespace,
            name: pod.meta.name.clone(),
            shape: prototype.shape,
            labels: prototype.labels,
            volumes: self.tables.volumes(attached),
            daemon,
            terminating: pod.meta.deleting,
            leaving,
        }
    }
}

fn volume_user<'p>(pod: &'p PodObject, templates: &'p [(Text, ClaimSpec)]) -> VolumeUser<'p> {
    VolumeUser { namespace: &pod.meta.namespace, name: &pod.meta.name, templates, is_moved: false }
}
