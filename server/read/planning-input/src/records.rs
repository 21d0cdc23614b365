//! The objects of the input as records of a cluster, so that the state which answers what plans ask is the same for files
//! as for the messages of an agent.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::Hash;
use std::sync::Arc;

use cluster::planning::add_determined;
use cluster::{
    AttachRecord, ClaimDriftFacts, ClaimRecord, ClusterSnapshot, ConditionDigest, DaemonRecord, NamespaceRecord,
    NodeRecord, PodBudgetRecord, PodPhase, PodRecord, PoolRecord, Scheduling, UnmetCondition, deployment_of,
};
use drift::{NODE_CLASS_HASH, NODE_CLASS_HASH_VERSION_KEY, POOL_HASH, POOL_HASH_VERSION};
use manifests::cluster::Cluster;
use manifests::cluster::metadata::with_canonical_keys;
use manifests::cluster::node::NodeObject;
use manifests::cluster::pods::PodObject;
use manifests::cluster::policy::{DisruptionBudget, PriorityClass};
use manifests::cluster::storage::ClaimSpec;
use manifests::cluster::workload::DaemonObject;
use manifests::karpenter::NodeClaimManifest;
use manifests::karpenter::conditions::{Condition, Conditions, Status};
use manifests::kinds::Kind;
use manifests::notes::Notes;
use manifests::pod::PodSpec;
use manifests::{VolumeUser, Volumes};
use model::labels::{HOSTNAME, INSTANCE_TYPE, NODEPOOL};
use model::schedulers::DEFAULT_SCHEDULER;
use model::{
    ClaimName, InstanceType, Labels, NodeName, NodePool, PodKey, PodShape, PoolName, ProviderId, Requirements, Text,
    VolumeAlternatives,
};
use rustc_hash::FxHashSet;

use crate::owners::Owners;
use crate::spread::SpreadDefaults;

/// Equal values, each stored once.
#[derive(Debug)]
struct Shared<T>(FxHashSet<Arc<T>>);

impl<T> Default for Shared<T> {
    fn default() -> Self {
        Self(FxHashSet::default())
    }
}

impl<T: Eq + Hash> Shared<T> {
    fn get(&mut self, value: T) -> Arc<T> {
        if let Some(known) = self.0.get(&value) {
            return Arc::clone(known);
        }
        let value = Arc::new(value);
        self.0.insert(Arc::clone(&value));
        value
    }
}

/// Reads the pods of the input.
#[derive(Debug)]
pub struct PodReader<'c> {
    /// The objects of the input, except Karpenter's.
    pub cluster: &'c Cluster,
    /// Finds the workload of each pod.
    pub owners: &'c Owners,
    pub volumes: &'c Volumes<'c>,
    /// Default topology spread constraints.
    pub defaults: &'c SpreadDefaults<'c>,
    shapes: Shared<PodShape>,
    labels: Shared<Labels>,
}

impl<'c> PodReader<'c> {
    /// A reader of pods of `cluster`.
    pub fn new(
        cluster: &'c Cluster,
        owners: &'c Owners,
        volumes: &'c Volumes<'c>,
        defaults: &'c SpreadDefaults<'c>,
    ) -> Self {
        Self { cluster, owners, volumes, defaults, shapes: Shared::default(), labels: Shared::default() }
    }

    /// The shape of pods with `spec` and `labels`, and why none can be created.
    pub fn shape(&mut self, spec: &PodSpec, labels: &Labels) -> (Arc<PodShape>, Option<Text>) {
        let priority = resolve_priority(spec, &self.cluster.priorities);
        let shape = self.shapes.get(spec.shape(labels, *priority.as_ref().unwrap_or(&0)));
        (shape, spec.invalid.clone().or(priority.err()))
    }

    /// The record of `pod`.
    pub fn pod(&mut self, pod: &PodObject, notes: &mut Notes) -> PodRecord {
        let daemon = pod.meta.owned_by("DaemonSet").map(|name| Text::from(format!("{}/{name}", pod.meta.namespace)));
        let (shape, invalid) = match &daemon {
            Some(_) => self.shape(&pod.spec.unpinned(), &pod.meta.labels),
            None => self.shape(&self.defaults.spread_pod(pod, self.owners, notes), &pod.meta.labels),
        };
        let claims = self.claims(pod);
        let user = VolumeUser {
            namespace: &pod.meta.namespace,
            name: &pod.meta.name,
            templates: &claims,
            is_moved: pod.spec.node_name.is_some(),
        };
        let needs = self.volumes.of(user, &pod.spec.volumes);
        PodRecord {
            uid: Text::default(),
            volumes: (needs != VolumeAlternatives::default()).then(|| Arc::new(needs)),
            local_volumes: self.volumes.local(user, &pod.spec.volumes).into(),
            labels: self.labels.get(pod.meta.labels.clone()),
            node: pod.spec.node_name.clone(),
            nominated: pod.nominated.clone(),
            own_nomination: None,
            phase: phase(pod),
            terminating: pod.meta.deleting,
            scheduling: scheduling(&pod.spec),
            created: pod.meta.created,
            started: pod.started,
            workload: workload(pod, self.owners),
            mirror: pod.mirror,
            do_not_disrupt: pod.do_not_disrupt,
            has_invalid_protection: false,
            stated_cost: pod.stated_cost,
            other_scheduler: Some(&pod.spec.scheduler).filter(|name| name.as_ref() != DEFAULT_SCHEDULER).cloned(),
            ready: pod.ready,
            external_scale_up: None,
            key: PodKey { namespace: pod.meta.namespace.clone(), name: pod.meta.name.clone() },
            shape,
            daemon,
            invalid,
        }
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

    /// The record of `daemon`.
    pub fn daemon(&mut self, daemon: &DaemonObject) -> DaemonRecord {
        let (shape, _) = self.shape(&daemon.template.spec, &daemon.template.labels);
        DaemonRecord {
            namespace: daemon.meta.namespace.clone(),
            name: daemon.meta.name.clone(),
            shape,
            labels: self.labels.get(daemon.template.labels.clone()),
        }
    }
}

/// Classes that every API server has.
const BUILT_IN: [(&str, i32); 2] =
    [("system-cluster-critical", 2_000_000_000), ("system-node-critical", 2_000_001_000)];

/// The priority of a pod with `spec`: a number in the pod, else its class, else the default class (Kubernetes: priority
/// admission). An error states why an API server would refuse it.
fn resolve_priority(spec: &PodSpec, classes: &BTreeMap<Text, PriorityClass>) -> Result<i32, Text> {
    if let Some(priority) = spec.priority {
        return Ok(priority);
    }
    let Some(name) = &spec.priority_class else { return Ok(default_priority(classes)) };
    let built_in = BUILT_IN.iter().find(|(known, _)| *known == name.as_ref()).map(|(_, value)| *value);
    built_in.or_else(|| classes.get(name).map(|class| class.value)).ok_or_else(|| {
        format!("PriorityClass/{name} is not in the input, so the pod cannot be created; add the class or correct priorityClassName").into()
    })
}

/// Of several default classes the lowest value counts.
fn default_priority(classes: &BTreeMap<Text, PriorityClass>) -> i32 {
    classes.values().filter(|class| class.global_default).map(|class| class.value).min().unwrap_or(0)
}

/// The workload of `pod`: what the objects of the input say, else what its labels say.
fn workload(pod: &PodObject, owners: &Owners) -> Text {
    let known = owners.workload(pod);
    let deployment = known.strip_prefix("ReplicaSet/").and_then(|name| deployment_of(name, &pod.meta.labels));
    deployment.map_or_else(|| Text::clone(&known), |deployment| format!("Deployment/{deployment}").into())
}

fn phase(pod: &PodObject) -> PodPhase {
    match (pod.succeeded, pod.finished, &pod.spec.node_name) {
        (true, ..) => PodPhase::Succeeded,
        (false, true, _) => PodPhase::Failed,
        (false, false, Some(_)) => PodPhase::Running,
        (false, false, None) => PodPhase::Pending,
    }
}

/// A pod that is not bound is unschedulable, whether or not kube-scheduler has said so yet.
fn scheduling(spec: &PodSpec) -> Scheduling {
    match (&spec.node_name, spec.gated) {
        (Some(_), _) => Scheduling::Unseen,
        (None, true) => Scheduling::Gated,
        (None, false) => Scheduling::Unschedulable,
    }
}

/// Everything but pods and DaemonSets.
pub fn objects(
    cluster: &Cluster,
    claims: &[NodeClaimManifest],
    pools: &[PoolRecord],
    volumes: &Volumes<'_>,
) -> ClusterSnapshot {
    let nodes: Vec<NodeRecord> = cluster.nodes.iter().map(node).collect();
    let claims = ClaimReader { nodes: &nodes, pools }.read(claims);
    ClusterSnapshot {
        attach: attach_limits(cluster, &nodes, volumes),
        namespaces: cluster
            .namespaces
            .iter()
            .map(|(name, labels)| NamespaceRecord { name: name.clone(), labels: labels.clone() })
            .collect(),
        budgets: cluster.budgets.iter().map(budget).collect(),
        nodes: with_provider_ids(nodes),
        claims,
        ..ClusterSnapshot::default()
    }
}

/// The host names of the Nodes that stay, which volumes on their disks need.
pub fn hosts(cluster: &Cluster) -> BTreeSet<Text> {
    let staying = cluster.nodes.iter().filter(|node| !node.meta.deleting && node.drain.is_none());
    staying.filter_map(|node| node.meta.labels.get(HOSTNAME).cloned()).collect()
}

fn attach_limits(cluster: &Cluster, nodes: &[NodeRecord], volumes: &Volumes<'_>) -> Vec<AttachRecord> {
    let local = volumes.local_limits();
    let of_node = |node: &NodeRecord| {
        let csi = cluster.attach_limits.get(&node.name);
        let on_disk = node.labels.get(HOSTNAME).and_then(|host| local.get(host));
        let limits: Vec<(Text, i64)> = csi.into_iter().chain(on_disk).flatten().cloned().collect();
        (!limits.is_empty()).then(|| AttachRecord { node: node.name.clone(), limits })
    };
    nodes.iter().filter_map(of_node).collect()
}

fn node(node: &NodeObject) -> NodeRecord {
    let unmet = |condition: &Condition| {
        let is_unmet = condition.name.ends_with("Ready") && condition.status != Status::True;
        let since = condition.since.filter(|_| is_unmet)?;
        Some(UnmetCondition { kind: condition.name.clone(), status: condition.status.as_str().into(), since })
    };
    let capacity = if node.capacity.is_empty() { &node.allocatable } else { &node.capacity };
    NodeRecord {
        name: NodeName::from(&node.meta.name),
        uid: Text::default(),
        provider_id: node.provider_id.clone().unwrap_or_default(),
        labels: node.meta.labels.clone(),
        taints: node.taints.clone(),
        unschedulable: node.unschedulable,
        // A manifest without conditions says nothing about readiness.
        ready: node.conditions.get("Ready").is_none_or(|ready| ready.status == Status::True),
        unmet: node.conditions.iter().filter_map(unmet).collect(),
        do_not_repair: node.do_not_repair,
        deleting: node.meta.deleting,
        do_not_disrupt: node.do_not_disrupt,
        allocatable: node.allocatable.clone(),
        capacity: capacity.clone(),
        created: node.meta.created,
        drain: node.drain.clone(),
    }
}

/// The id of the instance of a Node that states none.
fn provider_id_of(node: &NodeRecord) -> ProviderId {
    match node.provider_id.is_empty() {
        true => ProviderId::from(format!("node:{}", node.name)),
        false => node.provider_id.clone(),
    }
}

fn with_provider_ids(mut nodes: Vec<NodeRecord>) -> Vec<NodeRecord> {
    nodes.iter_mut().for_each(|node| node.provider_id = provider_id_of(node));
    nodes
}

fn budget(budget: &DisruptionBudget) -> PodBudgetRecord {
    PodBudgetRecord {
        namespace: budget.namespace.clone(),
        name: budget.name.clone(),
        selector: budget.selector.clone(),
        // One without a status is counted when all pods are known.
        allowed: budget.disruptions_allowed.map_or(1, |allowed| i32::try_from(allowed).unwrap_or(i32::MAX)),
        evicts_unhealthy_always: budget.evicts_unhealthy,
        never_allows: budget.blocks(),
    }
}

/// Reads NodeClaims beside the Nodes and NodePools of the input.
struct ClaimReader<'r> {
    nodes: &'r [NodeRecord],
    pools: &'r [PoolRecord],
}

impl ClaimReader<'_> {
    /// The NodeClaims, and one for each Node of a NodePool of the input that has none there.
    fn read(&self, claims: &[NodeClaimManifest]) -> Vec<ClaimRecord> {
        let by_provider: BTreeMap<&str, &NodeRecord> = self
            .nodes
            .iter()
            .filter(|node| !node.provider_id.is_empty())
            .map(|node| (node.provider_id.as_ref(), node))
            .collect();
        let by_name: BTreeMap<&NodeName, &NodeRecord> = self.nodes.iter().map(|node| (&node.name, node)).collect();
        let node_of = |claim: &NodeClaimManifest| {
            let of_provider = claim.provider_id.as_ref().and_then(|id| by_provider.get(id.as_ref()));
            of_provider.or_else(|| by_name.get(claim.node_name.as_ref()?)).copied()
        };
        let mut claimed = BTreeSet::new();
        let mut records = Vec::new();
        for claim in claims {
            let node = node_of(claim).filter(|node| claimed.insert(&node.name));
            records.push(self.claim(claim, node));
        }
        let unclaimed = self.nodes.iter().filter(|node| !claimed.contains(&node.name));
        records.extend(unclaimed.filter_map(|node| self.claim_of_node(node)));
        records
    }

    fn pool(&self, labels: &Labels) -> Option<&NodePool> {
        let name = labels.get(NODEPOOL)?;
        self.pools.iter().map(|record| &record.pool).find(|pool| pool.name.as_text() == name)
    }

    /// A NodeClaim for a Node that has none in the input: the Node says what is known of it.
    fn claim_of_node(&self, node: &NodeRecord) -> Option<ClaimRecord> {
        let pool = self.pool(&node.labels)?;
        Some(ClaimRecord {
            name: ClaimName::from(node.name.as_text()),
            pool: pool.name.clone(),
            node_class: pool.node_class.clone(),
            labels: node.labels.clone(),
            startup_taints: pool.startup_taints.clone(),
            provider_id: provider_id_of(node),
            ours: true,
            ..ClaimRecord::default()
        })
    }

    fn claim(&self, claim: &NodeClaimManifest, node: Option<&NodeRecord>) -> ClaimRecord {
        let mut labels = with_canonical_keys(claim.labels.clone());
        let (mut allocatable, mut capacity) = (claim.allocatable.clone(), claim.capacity.clone());
        // Without a status the instance has not been launched; its type determines capacity and labels.
        if node.is_none() && allocatable.is_empty() {
            let requirements: Requirements = claim.requirements.iter().cloned().collect();
            add_determined(&mut labels, &requirements);
            if let Some(kind) = self.instance_type(&labels) {
                (allocatable, capacity) = (kind.allocatable.clone(), kind.capacity.clone());
                add_determined(&mut labels, &kind.labels);
            }
        }
        let initialized = claim.conditions.get("Initialized").filter(|condition| condition.status == Status::True);
        ClaimRecord {
            name: claim.name.clone(),
            uid: Text::default(),
            pool: labels.get(NODEPOOL).map(PoolName::from).unwrap_or_default(),
            node_class: claim.class.name.clone(),
            taints: claim.taints.clone(),
            startup_taints: claim.startup_taints.clone(),
            requirements: claim.requirements.iter().cloned().collect(),
            requests: claim.requests.clone(),
            provider_id: node.map(provider_id_of).or_else(|| claim.provider_id.clone()).unwrap_or_default(),
            capacity: if capacity.is_empty() { allocatable.clone() } else { capacity },
            allocatable,
            deleting: claim.deleted.is_some(),
            ours: claim.annotations.get(cluster::external_autoscalers::MANAGED).is_none_or(|value| &**value != "false"),
            created: claim.created,
            last_pod_event: claim.last_pod_event,
            initialized_at: initialized.and_then(|condition| condition.since),
            condition_digest: digest(&claim.conditions),
            termination_grace_period: claim.termination_grace_period,
            expire_after: claim.expire_after,
            drift: drift_facts(claim),
            labels,
        }
    }

    /// The instance type that the labels name, from the catalogue of their NodePool.
    fn instance_type(&self, labels: &Labels) -> Option<&InstanceType> {
        let name = labels.get(INSTANCE_TYPE)?;
        let types = &self.pool(labels)?.catalogue.types;
        types.get(types.binary_search_by(|kind| kind.name.as_text().cmp(name)).ok()?)
    }
}

fn digest(conditions: &Conditions) -> ConditionDigest {
    conditions.iter().fold(ConditionDigest::default(), |digest, one| {
        digest.with(&one.name, one.status.as_str(), &one.reason, &one.message)
    })
}

fn drift_facts(claim: &NodeClaimManifest) -> ClaimDriftFacts {
    let annotation = |key: &str| claim.annotations.get(key).cloned();
    let pair = |key: &str, version: &str| annotation(key).zip(annotation(version));
    let drifted = claim.conditions.get("Drifted").filter(|drifted| drifted.status == Status::True);
    ClaimDriftFacts {
        karpenter_hash: claim.hash.clone(),
        own_hash: pair(POOL_HASH, POOL_HASH_VERSION),
        class_hash: pair("karpenter.k8s.aws/ec2nodeclass-hash", "karpenter.k8s.aws/ec2nodeclass-hash-version"),
        own_class_hash: pair(NODE_CLASS_HASH, NODE_CLASS_HASH_VERSION_KEY),
        image: claim.image.clone().unwrap_or_default(),
        shown: drifted.map(|found| (found.reason.clone(), found.message.clone())),
        drifted_since: drifted.and_then(|found| found.since),
    }
}
