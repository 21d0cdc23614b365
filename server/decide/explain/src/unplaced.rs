//! Reasons for unschedulable pods. Equivalent pods share one explanation, so ten thousand failed
//! replicas cost one.

use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use model::input::PlanningInput;
use model::plan::{Plan, Reason, ReasonCode, Unschedulable};
use model::{NodePool, Pod, PodAffinityTerm, Stop, Text, Timestamp};
use verifier::kernel::exclusive_claims_in_use;

use super::catalogue::{distance, shortage};
use super::existing::NodeTrial;
use super::launch::Blocked;
use super::placed_pods::PlacedGroup;
use super::pod_requirements::PodRequirements;
use super::reason::{Describer, code, contradiction, no_term};
use super::relax::{fits_if, obstacles};
use super::snapshot::PlanSnapshot;
use super::topology::{Topology, selects_pod};
use super::wording::{amount, and, needed, selector, some};

/// Maximum number of kinds of failed pods with relaxations. Each kind costs a search of all pools.
/// Reasons are given for every kind.
const MAX_RELAXED: usize = 100;
/// Maximum missing share of the requests, in millionths, at which an existing node is named.
const NEAR_MISS: i64 = 500_000;

/// Attributes that distinguish pods in explanations. Labels are reduced to the results of the
/// topology rules on them.
type Kind<'i> = (u32, Rc<[bool]>, Option<u32>, &'i Text, Option<Timestamp>, Option<&'i Text>);

/// Why each pod of `plan.unschedulable` is unschedulable, by pod: one reason per non-static pool,
/// or reasons without a pool if no pool could change anything; and the relaxations that would make
/// it fit.
#[must_use]
pub fn unschedulable(input: &PlanningInput, plan: &Plan) -> Vec<Unschedulable> {
    unschedulable_among(input, plan, plan.unschedulable.iter().copied().collect())
}

/// The same explanations, for `pods` only.
#[must_use]
pub fn unschedulable_among(input: &PlanningInput, plan: &Plan, pods: BTreeSet<u32>) -> Vec<Unschedulable> {
    unschedulable_until(input, plan, pods, &Stop::never())
}

/// The same explanations, of a part of the pods and the pools once `stop` is due.
#[must_use]
pub fn unschedulable_until(input: &PlanningInput, plan: &Plan, pods: BTreeSet<u32>, stop: &Stop) -> Vec<Unschedulable> {
    if pods.is_empty() {
        return Vec::new();
    }
    let snapshot = PlanSnapshot::new(input, plan).until(stop.clone());
    let mut known: FxHashMap<Kind<'_>, usize> = FxHashMap::default();
    let mut explained: Vec<Unschedulable> = Vec::new();
    let mut matches = SelectorMatches::of(&snapshot);
    for pod in pods {
        let kind = kind(input, &input.pods[pod as usize], &mut matches);
        let kinds = known.len();
        let like = *known.entry(kind).or_insert(explained.len());
        let (reasons, fits_if) = match explained.get(like) {
            Some(like) => (Arc::clone(&like.reasons), Arc::clone(&like.fits_if)),
            None if stop.is_due() => break,
            None => {
                let (reasons, fits_if) = explain(&snapshot, &input.pods[pod as usize], kinds < MAX_RELAXED);
                (reasons.into(), fits_if.into())
            }
        };
        explained.push(Unschedulable { pod, reasons, fits_if });
    }
    explained
}

/// The kind of a pod. Creation time counts only if some pool waits for spot.
fn kind<'i>(input: &'i PlanningInput, pod: &'i Pod, matches: &mut SelectorMatches<'_>) -> Kind<'i> {
    let waits = input.pools.iter().any(|pool| pool.rules.spot_fallback_after.is_some());
    let created = pod.created.filter(|_| waits);
    (pod.shape, matches.of_pod(pod), pod.volumes, &pod.namespace, created, pod.invalid.as_ref())
}

/// Results of the topology rules on the labels of a pod: its own hard rules, and the required
/// anti-affinity of placed pods.
struct SelectorMatches<'w> {
    snapshot: &'w PlanSnapshot<'w>,
    /// Namespace and anti-affinity term of placed pods.
    anti_affinity: BTreeSet<(&'w Text, &'w PodAffinityTerm)>,
    known: FxHashMap<(u32, u32, Text), Rc<[bool]>>,
}

impl<'w> SelectorMatches<'w> {
    fn of(snapshot: &'w PlanSnapshot<'w>) -> Self {
        let terms = |group: &'w PlacedGroup| {
            let terms = &snapshot.input.shapes[group.shape as usize].pod_anti_affinity;
            terms.iter().map(move |term| (&group.namespace, term))
        };
        Self { snapshot, anti_affinity: snapshot.groups.iter().flat_map(terms).collect(), known: FxHashMap::default() }
    }

    /// Whether each rule matches `pod`, in a fixed order.
    fn of_pod(&mut self, pod: &Pod) -> Rc<[bool]> {
        let key = (pod.shape, pod.labels, pod.namespace.clone());
        if let Some(known) = self.known.get(&key) {
            return Rc::clone(known);
        }
        let (snapshot, labels) = (self.snapshot, &self.snapshot.input.label_sets[pod.labels as usize]);
        let shape = &snapshot.input.shapes[pod.shape as usize];
        let selected =
            |owner: &Text, term: &PodAffinityTerm| selects_pod(snapshot, term, owner, &pod.namespace, labels);
        let spread = shape.spread.iter().map(|own| own.selector.as_ref().is_some_and(|it| it.matches(labels)));
        let affinity = shape.pod_affinity.iter().map(|term| selected(&pod.namespace, term));
        let anti_affinity = self.anti_affinity.iter().map(|(owner, term)| selected(owner, term));
        let results: Rc<[bool]> = spread.chain(affinity).chain(anti_affinity).collect();
        self.known.insert(key, Rc::clone(&results));
        results
    }
}

/// Reasons and relaxations for one pod.
pub(super) fn explain(snapshot: &PlanSnapshot<'_>, pod: &Pod, relax: bool) -> (Vec<Reason>, Vec<String>) {
    if let Some(why) = &pod.invalid {
        return (vec![without_pool(ReasonCode::InvalidPod, why.to_string())], Vec::new());
    }
    let pod_reqs = PodRequirements::of(snapshot.input, pod);
    if let Some(why) = &pod_reqs.volumes.blocked {
        return (vec![without_pool(ReasonCode::Volumes, why.to_string())], Vec::new());
    }
    if let Some(reason) = claim_in_use(snapshot, pod, &pod_reqs) {
        return (vec![reason], Vec::new());
    }
    let topology = Topology::of(snapshot, &pod_reqs);
    let obstacles = obstacles(snapshot, &pod_reqs, &topology);
    let mut reasons = match reason_beyond_pools(snapshot, &pod_reqs, &topology) {
        Some(reason) => vec![reason],
        None => by_pool(snapshot, &pod_reqs, &topology, &obstacles),
    };
    reasons.extend(near_miss(snapshot, &pod_reqs, &topology));
    let fits_if = if relax { fits_if(snapshot, &pod_reqs, &topology, &obstacles) } else { Vec::new() };
    (reasons, fits_if)
}

fn without_pool(code: ReasonCode, message: String) -> Reason {
    Reason { pool: None, code, message }
}

/// Another pod uses a claim of `pod` that one pod of the cluster may use.
fn claim_in_use(snapshot: &PlanSnapshot<'_>, pod: &Pod, pod_reqs: &PodRequirements<'_>) -> Option<Reason> {
    let claims = &pod_reqs.volumes.exclusive_claims;
    if claims.is_empty() {
        return None;
    }
    let (input, plan) = (snapshot.input, snapshot.plan);
    let running = exclusive_claims_in_use(input);
    let reason = |claim: &Text| {
        let user = match running.get(claim) {
            Some((node, user)) => format!("pod {}/{} on node {} uses it", user.namespace, user.name, node.name),
            None => {
                let mut placed = plan.order.iter().map(|at| &input.pods[*at as usize]);
                let uses = |other: &&Pod| {
                    let set = other.volumes.map(|set| &input.volume_sets[set as usize]);
                    other.key() != pod.key() && set.is_some_and(|set| set.exclusive_claims.contains(claim))
                };
                let user = placed.find(uses)?;
                format!("pod {}/{} is planned to use it", user.namespace, user.name)
            }
        };
        let message = format!("PersistentVolumeClaim/{claim} is ReadWriteOncePod, for one pod at a time, and {user}");
        Some(without_pool(ReasonCode::Volumes, message))
    };
    claims.iter().find_map(reason)
}

/// A reason that does not depend on any pool.
fn reason_beyond_pools(
    snapshot: &PlanSnapshot<'_>,
    pod_reqs: &PodRequirements<'_>,
    topology: &Topology,
) -> Option<Reason> {
    let alternatives = pod_reqs.alternatives();
    if alternatives.is_empty() {
        return Some(without_pool(ReasonCode::Requirements, no_term().to_owned()));
    }
    if alternatives.iter().all(|alternative| alternative.contradiction.is_some()) {
        let key = alternatives.first()?.contradiction.as_ref()?;
        return Some(without_pool(ReasonCode::Requirements, contradiction(key)));
    }
    no_affinity_target(snapshot, pod_reqs, topology).or_else(|| no_pool(snapshot))
}

/// Required affinity to pods of which none is placed.
fn no_affinity_target(
    snapshot: &PlanSnapshot<'_>,
    pod_reqs: &PodRequirements<'_>,
    topology: &Topology,
) -> Option<Reason> {
    // The first pod of a group that selects itself needs no target, so it is excluded here.
    let none_match = topology.affinity.iter().all(|rule| rule.domains.is_empty());
    if topology.affinity.is_empty() || !none_match || topology.may_be_first {
        return None;
    }
    let terms = &pod_reqs.shape.pod_affinity;
    let wanted: Vec<String> = terms.iter().map(|term| selector(term.selector.as_ref())).collect();
    let waiting = snapshot.plan.unschedulable.iter().map(|&pod| &snapshot.input.pods[pod as usize]).filter(|pod| {
        let labels = &snapshot.input.label_sets[pod.labels as usize];
        terms.iter().all(|term| selects_pod(snapshot, term, pod_reqs.namespace, &pod.namespace, labels))
    });
    let waiting: Vec<String> = waiting.map(|pod| format!("{}/{}", pod.namespace, pod.name)).collect();
    let others = match waiting.len() {
        0 => String::new(),
        _ => format!(
            "; {} would match but {} no place either",
            some(&waiting, 3),
            if waiting.len() == 1 { "has" } else { "have" }
        ),
    };
    let message = format!(
        "its required pod affinity needs a pod with {} in the same {}, and no such pod runs or is planned{others}",
        and(&wanted),
        and(&terms.iter().map(|term| term.topology_key.as_ref()).collect::<Vec<&str>>()),
    );
    Some(without_pool(ReasonCode::PodAffinity, message))
}

fn no_pool(snapshot: &PlanSnapshot<'_>) -> Option<Reason> {
    if snapshot.open_pools().next().is_some() {
        return None;
    }
    let message = match snapshot.input.pools.len() {
        0 => "there is no NodePool, and no existing node takes it".to_owned(),
        n => format!(
            "{} static (spec.replicas), which pending pods do not grow, and no existing node takes it",
            if n == 1 { "the only NodePool is".to_owned() } else { format!("all {n} NodePools are") }
        ),
    };
    Some(without_pool(ReasonCode::NoNodePool, message))
}

fn by_pool(
    snapshot: &PlanSnapshot<'_>,
    pod_reqs: &PodRequirements<'_>,
    topology: &Topology,
    obstacles: &[(u32, Blocked)],
) -> Vec<Reason> {
    let reason = |(at, pool): (u32, &NodePool)| match obstacles.iter().find(|(of, _)| *of == at) {
        Some((_, blocked)) => {
            let describer = Describer { snapshot, pod_reqs, topology, pool: at };
            Reason { pool: Some(pool.name.clone()), code: code(blocked), message: describer.describe(blocked) }
        }
        // Rules over the whole plan (zone balance, order of launches) may exclude what each node
        // alone would accept.
        None => Reason {
            pool: Some(pool.name.clone()),
            code: ReasonCode::NoOffering,
            message: "no single constraint bars it; planning again on top of this plan may find it a place".to_owned(),
        },
    };
    snapshot.open_pools().map(reason).collect()
}

/// The existing node that lacks least, if it lacks only resources and not much of them.
fn near_miss(snapshot: &PlanSnapshot<'_>, pod_reqs: &PodRequirements<'_>, topology: &Topology) -> Option<Reason> {
    let requested = &pod_reqs.shape.requests;
    let nodes = 0..u32::try_from(snapshot.input.nodes.len()).unwrap_or(u32::MAX);
    let nearly_fits = |at: &u32| (1..=NEAR_MISS).contains(&distance(requested, snapshot.free_on_node(*at)));
    let trial = NodeTrial::new(snapshot, pod_reqs, topology);
    let allowed = |at: &u32| trial.obstacle_besides_resources(*at).is_none() && trial.topology_obstacle(*at).is_none();
    let nearest = nodes
        .filter(nearly_fits)
        .filter(allowed)
        .min_by_key(|&at| (distance(requested, snapshot.free_on_node(at)), at))?;
    let free = snapshot.free_on_node(nearest);
    let short: Vec<String> = shortage(requested, free)
        .iter()
        .map(|(name, by)| format!("{} {name} ({} left)", needed(name, *by), amount(name, free.get(name).max(0))))
        .collect();
    let name = &snapshot.input.nodes[nearest as usize].name;
    Some(without_pool(ReasonCode::Resources, format!("the nearest existing node, {name}, misses only {}", and(&short))))
}
