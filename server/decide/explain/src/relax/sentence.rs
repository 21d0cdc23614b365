//! Sentences for relaxations, each with the tightest sufficient value: the largest amount, the
//! smallest skew, the lowest limit.

use crate::launch::{Blocked, Launch, excess, launches};
use crate::pod_requirements::{IgnoredRule, PodRequirements};
use crate::snapshot::PlanSnapshot;
use crate::topology::Topology;
use crate::wording::{amount, and, count, duration, needed, selector, taint};
use model::resources::{ATTACHABLE_VOLUMES_PREFIX, CPU, NODES};
use model::taints::first_untolerated;
use model::{MicroUsd, NotReady, Requirement, Taint, Text};
use verifier::kernel::remaining_spot_wait;

use super::{Relaxation, fits_by};

impl Relaxation {
    /// Describes the exact change by which the pod fits; other relaxations are already applied to
    /// `pod_reqs`.
    pub(super) fn describe(&self, snapshot: &PlanSnapshot<'_>, pod_reqs: &PodRequirements<'_>) -> Option<String> {
        let shape = &pod_reqs.shape;
        Some(match self {
            Self::Selector(key) => format!("nodeSelector {key}={} is dropped", shape.node_selector.get(key)?),
            Self::Affinity(key) => format!("required node affinity on {key} is dropped"),
            Self::Names => "required node affinity on metadata.name is dropped".to_owned(),
            Self::Tolerate(pool) => tolerate(snapshot, pod_reqs, *pool),
            Self::Amount(name) => smaller_amount(snapshot, pod_reqs, name)?,
            Self::VolumePlace => "its volumes are not bound to their zone or node".to_owned(),
            Self::Attachments => fewer_volumes(snapshot, pod_reqs)?,
            Self::Port(port) => format!("host port {}/{} is dropped", port.port, port.protocol),
            Self::Spread(at) => larger_skew(snapshot, pod_reqs, *at)?,
            Self::PodAffinity(term) => {
                let pods = selector(term.selector.as_ref());
                format!("the required pod affinity with {pods} per {} is dropped", term.topology_key)
            }
            Self::PodAntiAffinity(term) => {
                let pods = selector(term.selector.as_ref());
                format!("the required pod anti-affinity against {pods} per {} is dropped", term.topology_key)
            }
            Self::Ignore(ignored_rule) => describe_ignored_rule(snapshot, pod_reqs, ignored_rule)?,
        })
    }
}

fn tolerate(snapshot: &PlanSnapshot<'_>, pod_reqs: &PodRequirements<'_>, pool: u32) -> String {
    let pool = &snapshot.input.pools[pool as usize];
    let barring = |t: &&Taint| first_untolerated(std::slice::from_ref(*t), &pod_reqs.shape.tolerations).is_some();
    let taints: Vec<String> = pool.taints.iter().filter(barring).map(taint).collect();
    let noun = if taints.len() == 1 { "taint" } else { "taints" };
    format!("it tolerates {noun} {} of NodePool {}", and(&taints), pool.name)
}

/// The largest amount of `name` that fits. Fit is monotonic in the amount, so the search bisects.
fn smaller_amount(snapshot: &PlanSnapshot<'_>, pod_reqs: &PodRequirements<'_>, name: &Text) -> Option<String> {
    let requested = pod_reqs.shape.requests.get(name);
    let free = snapshot.free_amounts(name);
    let amounts: Vec<i64> = free.iter().copied().filter(|amount| (0..requested).contains(amount)).collect();
    // Topology counts do not depend on the amount.
    let topology = Topology::of(snapshot, pod_reqs);
    let with = |amount: i64| {
        let mut smaller = pod_reqs.clone();
        smaller.shape.requests.set(name.clone(), amount);
        fits_by(snapshot, &smaller, &topology)
    };
    let (mut low, mut high) = (0, amounts.len());
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if with(amounts[middle]) { low = middle } else { high = middle }
    }
    let most = *amounts.get(low)?;
    if most == 0 {
        return with(0).then(|| format!("it asks for no {name}"));
    }
    Some(format!("{name} is at most {}", amount(name, most)))
}

fn fewer_volumes(snapshot: &PlanSnapshot<'_>, pod_reqs: &PodRequirements<'_>) -> Option<String> {
    let of_types = |name: &str| {
        let types = snapshot.open_pools().flat_map(|(_, pool)| &pool.catalogue.types);
        types.map(|t| t.allocatable.get(name)).max()
    };
    let drivers = pod_reqs.drivers();
    let driver = drivers.first()?;
    let most = of_types(&format!("{ATTACHABLE_VOLUMES_PREFIX}{driver}"))?;
    Some(format!("it attaches at most {} of {driver}", count(usize::try_from(most).unwrap_or(0), "volume")))
}

/// The smallest sufficient `maxSkew`.
fn larger_skew(snapshot: &PlanSnapshot<'_>, pod_reqs: &PodRequirements<'_>, at: usize) -> Option<String> {
    let constraint = pod_reqs.shape.spread.get(at)?;
    let key = &constraint.topology_key;
    // Topology counts do not depend on the skew.
    let mut topology = Topology::of(snapshot, pod_reqs);
    let mut with = |skew: i32| {
        let own = topology.spread.iter_mut().find(|rule| rule.index == at);
        own.into_iter().for_each(|rule| rule.max_skew = i64::from(skew));
        fits_by(snapshot, pod_reqs, &topology)
    };
    // A skew above the number of all pods is no constraint.
    let pods = snapshot.input.pods.len() + snapshot.input.nodes.iter().map(|node| node.pods.len()).sum::<usize>();
    let (mut low, mut high) = (constraint.max_skew, i32::try_from(pods).unwrap_or(i32::MAX - 1) + 1);
    if high <= low || !with(high) {
        return Some(format!("its spread over {key} is ScheduleAnyway"));
    }
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if with(middle) { high = middle } else { low = middle }
    }
    Some(format!("maxSkew of its spread over {key} is raised from {} to {high}", constraint.max_skew))
}

fn describe_ignored_rule(
    snapshot: &PlanSnapshot<'_>,
    pod_reqs: &PodRequirements<'_>,
    ignored_rule: &IgnoredRule,
) -> Option<String> {
    // Sentences name exact values, so each rule is looked up or the pool is tried again with the
    // rule ignored.
    let pool_of = |at: u32| &snapshot.input.pools[at as usize];
    let relaxed = Relaxation::Ignore(ignored_rule.clone()).apply(snapshot, pod_reqs)?;
    let topology = Topology::of(snapshot, pod_reqs);
    let found = |pool: u32| launches(snapshot, &relaxed, &topology, pool).ok();
    let why_not = |pool: u32| launches(snapshot, pod_reqs, &topology, pool).err();
    Some(match ignored_rule {
        IgnoredRule::Ready(pool) => match pool_of(*pool).not_ready.as_ref()? {
            NotReady::NodeClass(_) => format!("EC2NodeClass {} exists and is ready", pool_of(*pool).node_class),
            NotReady::NodePool(_) => format!("NodePool {} becomes ready", pool_of(*pool).name),
        },
        IgnoredRule::Limits(pool) => raised_limits(snapshot, *pool, &found(*pool)?)?,
        IgnoredRule::MinValues(pool) => {
            let Some(Blocked::MinValues { key, wanted, found }) = why_not(*pool) else { return None };
            format!("minValues of {key} in NodePool {} is lowered from {wanted} to {found}", pool_of(*pool).name)
        }
        IgnoredRule::Ceilings(pool) => higher_ceilings(snapshot, *pool, found(*pool)?.first()?)?,
        IgnoredRule::SpotWait(pool) => {
            let left = remaining_spot_wait(pool_of(*pool), pod_reqs.created, snapshot.input.now)?;
            format!("it has waited another {} for spot in NodePool {}", duration(left), pool_of(*pool).name)
        }
        IgnoredRule::SpotShare(pool) => {
            format!(
                "NodePool {} may run a larger share on spot (spot-max-percent, on-demand-min-nodes)",
                pool_of(*pool).name
            )
        }
        IgnoredRule::Availability(pool) => {
            let launch = *found(*pool)?.first()?;
            let instance = &pool_of(*pool).catalogue.types[launch.instance as usize];
            let offering = &instance.offerings[launch.offering as usize];
            let kind = offering.capacity_type.as_str();
            format!("{} can be launched in {} ({kind}) again", instance.name, offering.zone)
        }
        IgnoredRule::Label(pool, key) => {
            let wanted: Requirement =
                pod_reqs.alternatives().iter().find_map(|alternative| alternative.requirements.get(key).cloned())?;
            format!("NodePool {} has {wanted}", pool_of(*pool).name)
        }
        IgnoredRule::OtherValue(pool, key, value) => {
            format!("NodePool {} allows {key} {value} too", pool_of(*pool).name)
        }
        IgnoredRule::OtherPodsAntiAffinity => {
            let pod = topology.conflicting_pods.values().next()?;
            format!("{pod} and its like drop their required pod anti-affinity against it")
        }
    })
}

/// The limits required by the node that exceeds them least.
fn raised_limits(snapshot: &PlanSnapshot<'_>, pool: u32, launches: &[Launch]) -> Option<String> {
    let nodepool = &snapshot.input.pools[pool as usize];
    let cheapest = launches.iter().min_by_key(|launch| (snapshot.over(pool, launch.instance), **launch))?;
    let capacity = &nodepool.catalogue.types[cheapest.instance as usize].capacity;
    let used = snapshot.used(pool);
    let mut raised = Vec::new();
    if snapshot.left(pool, NODES).is_some_and(|left| left < 1) {
        raised.push(format!("nodes is raised from {} to at least {}", nodepool.limits.get(NODES), used.get(NODES) + 1));
    }
    for (name, _) in excess(snapshot, pool, cheapest.instance) {
        let least = used.get(&name) + capacity.get(&name);
        let limit = nodepool.limits.get(&name);
        raised.push(format!("{name} is raised from {} to at least {}", amount(&name, limit), needed(&name, least)));
    }
    (!raised.is_empty()).then(|| format!("NodePool {}'s limit {}", nodepool.name, raised.join(" and its limit ")))
}

fn higher_ceilings(snapshot: &PlanSnapshot<'_>, pool: u32, launch: &Launch) -> Option<String> {
    let nodepool = &snapshot.input.pools[pool as usize];
    let rules = &nodepool.rules;
    let millicores = nodepool.catalogue.types[launch.instance as usize].capacity.get(CPU);
    let mut raised = Vec::new();
    if rules.max_node_price.is_some_and(|most| launch.price > most) {
        raised.push(format!("max-node-price is raised to at least {}", launch.price));
    }
    let per_vcpu = (launch.price.0 * 1000 + millicores - 1).checked_div(millicores)?;
    if rules.max_price_per_vcpu.is_some_and(|most| per_vcpu > most.0) {
        raised.push(format!("max-price-per-vcpu is raised to at least {}", MicroUsd(per_vcpu)));
    }
    let vcpus = (millicores + 999) / 1000;
    if rules.max_node_vcpu.is_some_and(|most| vcpus > most) {
        raised.push(format!("max-node-vcpu is raised to at least {vcpus}"));
    }
    (!raised.is_empty())
        .then(|| format!("fleetwright.dev/{} on NodePool {}", raised.join(" and fleetwright.dev/"), nodepool.name))
}
