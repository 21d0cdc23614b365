//! Relaxations in words, each tightened to what is really needed: the largest amount, the least skew, the lowest limit.

use crate::explain::ask::{Ask, Waiver};
use crate::explain::launch::{Blocked, Launch, excess, launches};
use crate::explain::market::time_left;
use crate::explain::topology::Topology;
use crate::explain::wording::{amount, and, count, duration, needed, selector, taint};
use crate::explain::world::World;
use crate::model::resources::{ATTACHABLE_VOLUMES_PREFIX, CPU, NODES};
use crate::model::taints::first_barring;
use crate::model::{MicroUsd, NotReady, Requirement, Taint, Text};

use super::{Relaxation, fits_by};

impl Relaxation {
    /// What has to change, exactly, for `ask` to fit; everything else that gives way is applied to `ask` already.
    pub(super) fn sentence(&self, world: &World<'_>, ask: &Ask<'_>) -> Option<String> {
        let shape = &ask.shape;
        Some(match self {
            Self::Selector(key) => format!("nodeSelector {key}={} is dropped", shape.node_selector.get(key)?),
            Self::Affinity(key) => format!("required node affinity on {key} is dropped"),
            Self::Names => "required node affinity on metadata.name is dropped".to_owned(),
            Self::Tolerate(pool) => tolerate(world, ask, *pool),
            Self::Amount(name) => less(world, ask, name)?,
            Self::VolumePlace => "its volumes are not bound to their zone or node".to_owned(),
            Self::Attachments => fewer_volumes(world, ask)?,
            Self::Port(port) => format!("host port {}/{} is dropped", port.port, port.protocol),
            Self::Spread(at) => wider(world, ask, *at)?,
            Self::PodAffinity(term) => {
                let pods = selector(term.selector.as_ref());
                format!("the required pod affinity with {pods} per {} is dropped", term.topology_key)
            }
            Self::PodAntiAffinity(term) => {
                let pods = selector(term.selector.as_ref());
                format!("the required pod anti-affinity against {pods} per {} is dropped", term.topology_key)
            }
            Self::Waive(waiver) => waived(world, ask, waiver)?,
        })
    }
}

fn tolerate(world: &World<'_>, ask: &Ask<'_>, pool: u32) -> String {
    let pool = &world.input.pools[pool as usize];
    let barring = |t: &&Taint| first_barring(std::slice::from_ref(*t), &ask.shape.tolerations).is_some();
    let taints: Vec<String> = pool.taints.iter().filter(barring).map(taint).collect();
    let noun = if taints.len() == 1 { "taint" } else { "taints" };
    format!("it tolerates {noun} {} of NodePool {}", and(&taints), pool.name)
}

/// The most of `name` that finds room somewhere: a smaller request fits wherever a larger one does, so it can be bisected.
fn less(world: &World<'_>, ask: &Ask<'_>, name: &Text) -> Option<String> {
    let asked = ask.shape.requests.get(name);
    let free = world.free_amounts(name);
    let amounts: Vec<i64> = free.iter().copied().filter(|amount| (0..asked).contains(amount)).collect();
    // The amount changes no count.
    let topology = Topology::of(world, ask);
    let with = |amount: i64| {
        let mut smaller = ask.clone();
        smaller.shape.requests.set(name.clone(), amount);
        fits_by(world, &smaller, &topology)
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

fn fewer_volumes(world: &World<'_>, ask: &Ask<'_>) -> Option<String> {
    let of_types = |name: &str| {
        let types = world.open_pools().flat_map(|(_, pool)| &pool.catalogue.types);
        types.map(|t| t.allocatable.get(name)).max()
    };
    let drivers = ask.drivers();
    let driver = drivers.first()?;
    let most = of_types(&format!("{ATTACHABLE_VOLUMES_PREFIX}{driver}"))?;
    Some(format!("it attaches at most {} of {driver}", count(usize::try_from(most).unwrap_or(0), "volume")))
}

/// The least `maxSkew` that would do.
fn wider(world: &World<'_>, ask: &Ask<'_>, at: usize) -> Option<String> {
    let constraint = ask.shape.spread.get(at)?;
    let key = &constraint.topology_key;
    // The skew changes no count.
    let mut topology = Topology::of(world, ask);
    let mut with = |skew: i32| {
        let own = topology.spread.iter_mut().find(|rule| rule.index == at);
        own.into_iter().for_each(|rule| rule.max_skew = i64::from(skew));
        fits_by(world, ask, &topology)
    };
    // More than all pods there are is as good as no constraint.
    let pods = world.input.pods.len() + world.input.nodes.iter().map(|node| node.pods.len()).sum::<usize>();
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

fn waived(world: &World<'_>, ask: &Ask<'_>, waiver: &Waiver) -> Option<String> {
    let pool_of = |at: u32| &world.input.pools[at as usize];
    let relaxed = Relaxation::Waive(waiver.clone()).apply(world, ask)?;
    let topology = Topology::of(world, ask);
    let found = |pool: u32| launches(world, &relaxed, &topology, pool).ok();
    let why_not = |pool: u32| launches(world, ask, &topology, pool).err();
    Some(match waiver {
        Waiver::Ready(pool) => match pool_of(*pool).not_ready.as_ref()? {
            NotReady::NodeClass(_) => format!("EC2NodeClass {} becomes ready", pool_of(*pool).node_class),
            NotReady::NodePool(_) => format!("NodePool {} becomes ready", pool_of(*pool).name),
        },
        Waiver::Limits(pool) => raised_limits(world, *pool, &found(*pool)?)?,
        Waiver::MinValues(pool) => {
            let Some(Blocked::MinValues { key, wanted, found }) = why_not(*pool) else { return None };
            format!("minValues of {key} in NodePool {} is lowered from {wanted} to {found}", pool_of(*pool).name)
        }
        Waiver::Ceilings(pool) => higher_ceilings(world, *pool, found(*pool)?.first()?)?,
        Waiver::SpotWait(pool) => {
            let left = time_left(world, ask, *pool)?;
            format!("it has waited another {} for spot in NodePool {}", duration(left), pool_of(*pool).name)
        }
        Waiver::SpotShare(pool) => {
            format!(
                "NodePool {} may run a larger share on spot (spot-max-percent, on-demand-min-nodes)",
                pool_of(*pool).name
            )
        }
        Waiver::Stock(pool) => {
            let launch = *found(*pool)?.first()?;
            let instance = &pool_of(*pool).catalogue.types[launch.instance as usize];
            let offering = &instance.offerings[launch.offering as usize];
            let kind = offering.capacity_type.as_str();
            format!("{} can be launched in {} ({kind}) again", instance.name, offering.zone)
        }
        Waiver::Label(pool, key) => {
            let wanted: Requirement = ask.alternatives().iter().find_map(|way| way.requirements.get(key).cloned())?;
            format!("NodePool {} has {wanted}", pool_of(*pool).name)
        }
        Waiver::ForeignAntiAffinity => {
            let pod = topology.foes.values().next()?;
            format!("{pod} and its like drop their required pod anti-affinity against it")
        }
    })
}

/// By how much the limits must be raised for the machine that needs least.
fn raised_limits(world: &World<'_>, pool: u32, launches: &[Launch]) -> Option<String> {
    let nodepool = &world.input.pools[pool as usize];
    let cheapest = launches.iter().min_by_key(|launch| (world.over(pool, launch.instance), **launch))?;
    let capacity = &nodepool.catalogue.types[cheapest.instance as usize].capacity;
    let used = world.used(pool);
    let mut raised = Vec::new();
    if world.left(pool, NODES).is_some_and(|left| left < 1) {
        raised.push(format!("nodes is raised from {} to at least {}", nodepool.limits.get(NODES), used.get(NODES) + 1));
    }
    for (name, _) in excess(world, pool, cheapest.instance) {
        let least = used.get(&name) + capacity.get(&name);
        let limit = nodepool.limits.get(&name);
        raised.push(format!("{name} is raised from {} to at least {}", amount(&name, limit), needed(&name, least)));
    }
    (!raised.is_empty()).then(|| format!("NodePool {}'s limit {}", nodepool.name, raised.join(" and its limit ")))
}

fn higher_ceilings(world: &World<'_>, pool: u32, launch: &Launch) -> Option<String> {
    let nodepool = &world.input.pools[pool as usize];
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
