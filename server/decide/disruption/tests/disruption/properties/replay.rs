//! The commands of a plan, carried out step by step: a judge of its own, written after the filters of kube-scheduler (v1.37),
//! which shares no code with planner and verifier.
//!
//! A command evicts the pods of its nodes, which are tainted and stay; then its pods are bound one after another.
//! The nodes of all commands are there until the end.

use std::collections::{BTreeMap, BTreeSet};

use disruption::DisruptionPlan;
use model::input::PlanningInput;
use model::labels::{CAPACITY_TYPE, HOSTNAME, INSTANCE_TYPE, NODEPOOL, ZONE};
use model::plan::PlannedNode;
use model::removal::RemovalReason;
use model::requirements::label_satisfies;
use model::{
    Effect, Labels, NodeName, NodeStage, Pod, PodAffinityTerm, PodKey, PodShape, Resources, SpreadConstraint, Text,
};

/// A Node as kube-scheduler sees it.
#[derive(Debug, Clone)]
struct Host {
    name: NodeName,
    labels: Labels,
    /// Keys of the taints that keep pods away.
    taints: Vec<Text>,
    allocatable: Resources,
    is_drained: bool,
}

#[derive(Debug, Clone)]
struct Bound {
    namespace: Text,
    labels: u32,
    shape: u32,
    host: usize,
}

/// A cluster whose pods are evicted and bound.
#[derive(Debug, Clone)]
pub struct Replay<'i> {
    input: &'i PlanningInput,
    hosts: Vec<Host>,
    pods: BTreeMap<PodKey, Bound>,
}

impl<'i> Replay<'i> {
    /// The nodes of `input` with their pods, those included that wait for them, and the machines that `plan` launches, which
    /// join before the first eviction.
    pub fn of(input: &'i PlanningInput, plan: &DisruptionPlan) -> Self {
        let mut replay = Self { input, hosts: Vec::new(), pods: BTreeMap::new() };
        for node in &input.nodes {
            let hard = node.taints.iter().filter(|taint| taint.effect != Effect::PreferNoSchedule);
            let mut taints: Vec<Text> = hard.map(|taint| taint.key.clone()).collect();
            if node.unschedulable {
                taints.push("node.kubernetes.io/unschedulable".into());
            }
            let is_drained = node.stage == NodeStage::Deleting;
            let (labels, allocatable) = (node.labels.clone(), node.allocatable.clone());
            replay.hosts.push(Host { name: node.name.clone(), labels, taints, allocatable, is_drained });
            for pod in node.pods.iter().filter(|pod| !pod.terminating && !pod.leaving) {
                let key = PodKey { namespace: pod.namespace.clone(), name: pod.name.clone() };
                let (namespace, labels, shape) = (pod.namespace.clone(), pod.labels, pod.shape);
                replay.pods.insert(key, Bound { namespace, labels, shape, host: replay.hosts.len() - 1 });
            }
        }
        replay.hosts.extend(plan.plan.nodes.iter().map(|launch| launched(input, launch)));
        for (pod, node) in places_of_waiting_pods(input) {
            let Pod { namespace, name, labels, shape, .. } = &input.pods[pod as usize];
            let key = PodKey { namespace: namespace.clone(), name: name.clone() };
            let bound = Bound { namespace: namespace.clone(), labels: *labels, shape: *shape, host: node as usize };
            replay.pods.insert(key, bound);
        }
        replay
    }

    /// Carries the commands out; the pods that could not be bound where the plan has them, each with the rule that
    /// kept it away. Pods of nodes that go in any case are bound without being judged.
    pub fn run(&mut self, plan: &DisruptionPlan) -> Vec<String> {
        let mut unbound = Vec::new();
        for command in &plan.commands {
            let is_forced = matches!(command.reason, RemovalReason::Expired | RemovalReason::Unhealthy);
            let nodes: Vec<usize> = command.nodes.iter().map(|node| *node as usize).collect();
            nodes.iter().for_each(|node| self.hosts[*node].is_drained = true);
            let evicted: BTreeSet<&PodKey> = command.placements.iter().map(|(pod, _)| pod).collect();
            let mut waiting = BTreeMap::new();
            for pod in evicted {
                let bound = self.pods.remove(pod).expect("an evicted pod runs");
                assert!(nodes.contains(&bound.host), "{pod} is evicted from another node");
                waiting.insert(pod.clone(), bound);
            }
            // The other pods of the nodes end there.
            self.pods.retain(|_, bound| !nodes.contains(&bound.host));
            for (pod, to) in &command.placements {
                let host = self.hosts.iter().position(|host| host.name == *to).expect("a node of the cluster");
                let bound = Bound { host, ..waiting.remove(pod).expect("a pod is placed once") };
                if let Some(rule) = self.conflict(&bound, host).filter(|_| !is_forced) {
                    unbound.push(format!("{pod} cannot be bound to {to}: {rule}"));
                }
                self.pods.insert(pod.clone(), bound);
            }
        }
        unbound
    }

    fn shape(&self, pod: &Bound) -> &'i PodShape {
        &self.input.shapes[pod.shape as usize]
    }

    fn labels(&self, pod: &Bound) -> &'i Labels {
        &self.input.label_sets[pod.labels as usize]
    }

    /// The first rule by which kube-scheduler does not bind the pod to the host.
    fn conflict(&self, pod: &Bound, at: usize) -> Option<String> {
        let (shape, host) = (self.shape(pod), &self.hosts[at]);
        if !is_tolerated(shape, host) || host.is_drained {
            return Some("a taint".to_owned());
        }
        if !is_selected(shape, host) {
            return Some("node affinity".to_owned());
        }
        let here = || self.pods.values().filter(|other| other.host == at);
        let mut used = shape.requests.clone();
        here().for_each(|other| used.add(&self.shape(other).requests));
        if !used.fits(&host.allocatable) {
            return Some("resources".to_owned());
        }
        let taken = here().flat_map(|other| &self.shape(other).host_ports).any(|taken| {
            shape.host_ports.iter().any(|port| port.port == taken.port && port.protocol == taken.protocol)
        });
        if taken {
            return Some("a host port".to_owned());
        }
        let skewed = shape.spread.iter().filter(|constraint| constraint.hard);
        let skewed = skewed.filter_map(|constraint| {
            let skew = self.skew_with(pod, constraint, at);
            (skew > i64::from(constraint.max_skew)).then(|| format!("skew {skew} over {}", constraint.topology_key))
        });
        skewed.into_iter().next().or_else(|| self.conflict_between_pods(pod, at))
    }

    /// The skew over the domains of the constraint if the pod, which is not counted yet, were on the host; a number above all
    /// others where the host is in no domain.
    fn skew_with(&self, pod: &Bound, constraint: &SpreadConstraint, at: usize) -> i64 {
        let Some(domain) = self.hosts[at].labels.get(&constraint.topology_key) else { return i64::MAX };
        let counts = self.counts(pod, constraint);
        let own = constraint.selector.as_ref().is_some_and(|selector| selector.matches(self.labels(pod)));
        let least = counts.values().min().copied().unwrap_or(0);
        let lacks = constraint.min_domains.is_some_and(|min| counts.len() < usize::try_from(min).unwrap_or(0));
        counts.get(domain).copied().unwrap_or(0) + i64::from(own) - if lacks { 0 } else { least }
    }

    /// The pods that the constraint of `pod` counts in each domain.
    fn counts(&self, pod: &Bound, constraint: &SpreadConstraint) -> BTreeMap<&Text, i64> {
        let shape = self.shape(pod);
        let alike = || shape.spread.iter().filter(|other| other.hard == constraint.hard);
        let is_counted = |host: &Host| {
            alike().all(|other| host.labels.contains_key(&other.topology_key))
                && (!constraint.honor_node_affinity || is_selected(shape, host))
                && (!constraint.honor_node_taints || is_tolerated(shape, host))
        };
        let mut counts = BTreeMap::new();
        let counted: Vec<bool> = self.hosts.iter().map(is_counted).collect();
        for (host, _) in self.hosts.iter().zip(&counted).filter(|(_, counted)| **counted) {
            counts.entry(&host.labels[&constraint.topology_key]).or_insert(0);
        }
        let selects = |other: &&Bound| {
            let selector = constraint.selector.as_ref();
            other.namespace == pod.namespace
                && selector.is_some_and(|selector| selector.matches(self.labels(other)))
                && counted[other.host]
        };
        for other in self.pods.values().filter(selects) {
            *counts.entry(&self.hosts[other.host].labels[&constraint.topology_key]).or_insert(0) += 1;
        }
        counts
    }

    fn conflict_between_pods(&self, pod: &Bound, at: usize) -> Option<String> {
        let shape = self.shape(pod);
        let shares = |other: &Bound, key: &Text| {
            let domain = self.hosts[at].labels.get(key);
            domain.is_some() && domain == self.hosts[other.host].labels.get(key)
        };
        let selects = |term: &PodAffinityTerm, of: &Bound, other: &Bound| {
            let is_named = term.namespaces.contains(&other.namespace);
            let is_own =
                term.namespaces.is_empty() && term.namespace_selector.is_none() && of.namespace == other.namespace;
            (is_named || is_own) && term.selector.as_ref().is_some_and(|selector| selector.matches(self.labels(other)))
        };
        let others = || self.pods.values();
        for term in &shape.pod_anti_affinity {
            if others().any(|other| selects(term, pod, other) && shares(other, &term.topology_key)) {
                return Some("its anti-affinity".to_owned());
            }
        }
        let excludes = |other: &Bound| {
            let terms = &self.shape(other).pod_anti_affinity;
            terms.iter().any(|term| selects(term, other, pod) && shares(other, &term.topology_key))
        };
        if others().any(excludes) {
            return Some("the anti-affinity of a pod there".to_owned());
        }
        let matches_all = |other: &Bound| shape.pod_affinity.iter().all(|term| selects(term, pod, other));
        let is_first = matches_all(pod) && !others().any(&matches_all);
        let near =
            |term: &PodAffinityTerm| others().any(|other| matches_all(other) && shares(other, &term.topology_key));
        let is_kept = shape.pod_affinity.iter().all(near) || is_first;
        (!is_kept).then(|| "its affinity".to_owned())
    }

    /// By how much each spread constraint of a pod, required or preferred, is exceeded, where it is, and how many preferred
    /// terms of its node affinity are not met. Hosts that are drained and have no pods are gone.
    pub fn broken_rules(&self) -> BTreeMap<(PodKey, String), i64> {
        let mut gone = self.clone();
        let used: BTreeSet<usize> = gone.pods.values().map(|pod| pod.host).collect();
        for (at, host) in gone.hosts.iter_mut().enumerate() {
            if host.is_drained && !used.contains(&at) {
                host.labels.clear();
            }
        }
        let mut broken = BTreeMap::new();
        for (key, pod) in &gone.pods {
            let shape = gone.shape(pod);
            for constraint in &shape.spread {
                let counts = gone.counts(pod, constraint);
                let least = counts.values().min().copied().unwrap_or(0);
                let domain = gone.hosts[pod.host].labels.get(&constraint.topology_key);
                let here = domain.and_then(|domain| counts.get(domain)).copied().unwrap_or(0);
                let excess = here - least - i64::from(constraint.max_skew);
                if excess > 0 {
                    let kind = if constraint.hard { "spread" } else { "preferred spread" };
                    broken.insert((key.clone(), format!("{kind} over {}", constraint.topology_key)), excess);
                }
            }
            let host = &gone.hosts[pod.host];
            let lacks = |weighted: &&model::Weighted<model::NodeSelectorTerm>| !is_met(&weighted.term, host);
            let lacking = i64::try_from(shape.preferred_node_affinity.iter().filter(lacks).count());
            if let Some(lacking) = lacking.ok().filter(|lacking| *lacking > 0) {
                broken.insert((key.clone(), "preferred node affinity".to_owned()), lacking);
            }
        }
        broken
    }
}

/// The pods that wait and the nodes with room for them, by index: they are bound before a command begins.
pub fn places_of_waiting_pods(input: &PlanningInput) -> Vec<(u32, u32)> {
    let mut without_search = input.clone();
    without_search.policy.search_steps = 0;
    planner::plan(&without_search).expect("an input that the verifier accepts").plan.placements
}

fn is_tolerated(shape: &PodShape, host: &Host) -> bool {
    let drained = host.is_drained.then(|| Text::from("karpenter.sh/disrupted"));
    let tolerates = |key: &Text| {
        let tolerations = &shape.tolerations;
        tolerations.iter().any(|toleration| toleration.key.is_empty() || toleration.key == *key)
    };
    host.taints.iter().chain(drained.as_ref()).all(tolerates)
}

fn is_selected(shape: &PodShape, host: &Host) -> bool {
    let selected = shape.node_selector.iter().all(|(key, value)| host.labels.get(key) == Some(value));
    selected && (shape.node_affinity.is_empty() || shape.node_affinity.iter().any(|term| is_met(term, host)))
}

fn is_met(term: &model::NodeSelectorTerm, host: &Host) -> bool {
    term.expressions.iter().all(|requirement| label_satisfies(&host.labels, requirement))
        && term.names.iter().all(|requirement| requirement.has(&host.name))
}

/// The host that the launch becomes: its first option in its first zone.
fn launched(input: &PlanningInput, launch: &PlannedNode) -> Host {
    let pool = &input.pools[launch.pool as usize];
    let kind = &pool.catalogue.types[launch.types[0] as usize];
    let mut labels = Labels::clone(&launch.labels);
    labels.insert(Text::from(ZONE), launch.zones[0].as_text().clone());
    labels.insert(Text::from(HOSTNAME), launch.name.as_text().clone());
    labels.insert(Text::from(INSTANCE_TYPE), kind.name.as_text().clone());
    labels.insert(Text::from(NODEPOOL), pool.name.as_text().clone());
    labels.insert(Text::from(CAPACITY_TYPE), launch.capacity_type.as_str().into());
    let taints = launch.taints.iter().map(|taint| taint.key.clone()).collect();
    Host { name: launch.name.clone(), labels, taints, allocatable: kind.allocatable.clone(), is_drained: false }
}
