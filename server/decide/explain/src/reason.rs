//! Messages for obstacles: required and found values, the nearest instance type, and what it lacks.

mod rules;

use std::collections::BTreeSet;

use model::labels::ZONE;
use model::plan::ReasonCode;
use model::resources::{ATTACHABLE_VOLUMES_PREFIX, CPU, NODES};
use model::{NodePool, NotReady, Requirement, Requirements, Taint, Text, Toleration, TolerationOperator};
use verifier::kernel::{active_nodes, may_be_defined, remaining_spot_wait};

use super::launch::{Blocked, excess, nearest_type};
use super::offering_filter::{OfferingFilter, Rejection};
use super::pod_requirements::PodRequirements;
use super::snapshot::PlanSnapshot;
use super::topology::{Topology, TopologyConflict};
use super::unsatisfied::{
    Conflict, class_not_ready, pool_without_types, values, values_among, zones_without_offerings,
};
use super::wording::{amount, amounts, and, closest_match, count, duration, needed, some, taint};

/// Maximum number of domains, values or types that a message lists before it counts the rest.
const LISTED: usize = 6;

pub(super) fn code(blocked: &Blocked) -> ReasonCode {
    match blocked {
        Blocked::NotReady(NotReady::NodeClass(_)) => ReasonCode::NodeClassNotReady,
        Blocked::NotReady(NotReady::NodePool(_)) => ReasonCode::NodePoolNotReady,
        Blocked::Taint(_) => ReasonCode::Taints,
        Blocked::NoTerm | Blocked::Contradiction(_) | Blocked::Named(_) | Blocked::Label(_) | Blocked::Types(_) => {
            ReasonCode::Requirements
        }
        Blocked::Volume(_) | Blocked::Attach(_) => ReasonCode::Volumes,
        Blocked::Resources { .. } => ReasonCode::Resources,
        Blocked::Port(..) => ReasonCode::HostPorts,
        Blocked::Offering { .. } => ReasonCode::NoOffering,
        Blocked::MinValues { .. } => ReasonCode::MinValues,
        Blocked::SpotShare | Blocked::NodeLimit | Blocked::Limits(_) => ReasonCode::Limits,
        Blocked::Topology(conflict, _) => conflict_code(*conflict),
    }
}

pub(super) fn conflict_code(conflict: TopologyConflict) -> ReasonCode {
    match conflict {
        TopologyConflict::Spread(_) => ReasonCode::TopologySpread,
        TopologyConflict::Affinity(_) => ReasonCode::PodAffinity,
        TopologyConflict::AntiAffinity(_) | TopologyConflict::OtherPod => ReasonCode::PodAntiAffinity,
    }
}

/// Describes the obstacles of a pod in the pool with index `pool`.
pub(super) struct Describer<'s, 'i> {
    pub snapshot: &'s PlanSnapshot<'i>,
    pub pod_reqs: &'s PodRequirements<'s>,
    pub topology: &'s Topology,
    /// Index of the pool.
    pub pool: u32,
}

impl Describer<'_, '_> {
    fn nodepool(&self) -> &NodePool {
        &self.snapshot.input.pools[self.pool as usize]
    }

    fn type_name(&self, t: u32) -> &str {
        &self.nodepool().catalogue.types[t as usize].name
    }

    /// Describes an obstacle in one sentence.
    pub(super) fn describe(&self, blocked: &Blocked) -> String {
        // In the order of the checks, as the variants of `Blocked`.
        match blocked {
            Blocked::NotReady(NotReady::NodeClass(why)) => class_not_ready(self.nodepool(), why),
            Blocked::NotReady(NotReady::NodePool(why)) => format!("NodePool {}: {why}", self.nodepool().name),
            Blocked::Taint(barring) => {
                format!("its taint {} is not tolerated{}", taint(barring), self.similar_toleration(barring))
            }
            Blocked::NoTerm => no_term().to_owned(),
            Blocked::Contradiction(key) => contradiction(key),
            Blocked::Named(names) => {
                format!("wants a node by its name ({names}); a machine to be launched has none yet")
            }
            Blocked::Label(wanted) => self.label(wanted),
            Blocked::Types(merged) => self.types(merged),
            Blocked::Volume(required) => self.volume(required),
            Blocked::Attach(driver) => self.attach(driver),
            Blocked::Resources { types, capped } => self.resources(types, *capped),
            Blocked::Port(port, daemon) => format!(
                "host port {}/{} is taken on every machine that would do by the DaemonSet {daemon}",
                port.port, port.protocol
            ),
            Blocked::Offering { types, merged } => self.offering(types, merged),
            Blocked::SpotShare => self.spot_share(),
            Blocked::MinValues { key, wanted, found } => {
                format!("only {found} different {key} are left to launch from, but minValues asks for {wanted}")
            }
            Blocked::NodeLimit => self.node_limit(),
            Blocked::Limits(types) => self.limits(types),
            Blocked::Topology(conflict, locations) => self.topology(*conflict, locations),
        }
    }

    /// The toleration of the pod that has the key of `barring`, and how it differs from the taint.
    fn similar_toleration(&self, barring: &Taint) -> String {
        let of_key = |toleration: &&Toleration| toleration.key == barring.key;
        let Some(similar) = self.pod_reqs.shape.tolerations.iter().find(of_key) else { return String::new() };
        let key = &barring.key;
        if similar.operator == TolerationOperator::Equal && similar.value != barring.value {
            return format!(
                "; the pod tolerates {key} with the value {:?}: write value {:?}, or operator Exists",
                similar.value.as_ref(),
                barring.value.as_ref()
            );
        }
        match similar.effect.filter(|effect| *effect != barring.effect) {
            Some(effect) => format!("; the pod tolerates {key} with the effect {} only", effect.as_str()),
            None => String::new(),
        }
    }

    fn label(&self, wanted: &Requirement) -> String {
        let pool = self.nodepool();
        let base = &self.snapshot.pools[self.pool as usize].base;
        match base.get(wanted.key()) {
            Some(offered) => {
                format!("wants {wanted}, but NodePool {} has {offered}{}", pool.name, suggestion(wanted, offered))
            }
            None => {
                let known: BTreeSet<Text> = base
                    .iter()
                    .chain(pool.catalogue.types.first().into_iter().flat_map(|t| t.labels.iter()))
                    .map(|r| r.key().clone())
                    .chain(self.snapshot.input.policy.well_known_labels.iter().cloned())
                    .collect();
                let hint =
                    closest_match(wanted.key(), &known).map_or(String::new(), |key| format!("; did you mean {key}?"));
                format!("wants {wanted}, but NodePool {} does not define {}{hint}", pool.name, wanted.key())
            }
        }
    }

    /// No instance type has all labels: names the condition of the pod that excludes every type,
    /// alone or with another one.
    fn types(&self, merged: &Requirements) -> String {
        let base = &self.snapshot.pools[self.pool as usize].base;
        if let Some(message) = pool_without_types(self.nodepool(), base) {
            return message;
        }
        let own: Vec<&Requirement> = merged.iter().filter(|r| base.get(r.key()) != Some(r)).collect();
        let excludes_all = |conditions: &[&Requirement]| {
            let mut some = base.clone();
            conditions.iter().for_each(|condition| some.add((*condition).clone()));
            self.snapshot.types(self.pool, &some).is_empty()
        };
        match Conflict::smallest(&own, excludes_all) {
            Conflict::One(one) => {
                let offered = values(one.key(), &self.values_of(one.key()), one);
                format!("wants {one}, but no instance type of the NodePool has it: {offered}")
            }
            Conflict::Two(one, other) => format!("no instance type of the NodePool has both {one} and {other}"),
            Conflict::All(all) => {
                let all: Vec<String> = all.iter().map(ToString::to_string).collect();
                format!("no instance type of the NodePool has all of {}", and(&all))
            }
        }
    }

    /// Values of `key` on the instance types of the pool.
    fn values_of(&self, key: &str) -> BTreeSet<Text> {
        let types = self.snapshot.types(self.pool, &self.snapshot.pools[self.pool as usize].base);
        values_among(types.iter().map(|&t| &self.nodepool().catalogue.types[t as usize]), key)
    }

    fn volume(&self, required: &Requirement) -> String {
        let name = &self.nodepool().name;
        let base = &self.snapshot.pools[self.pool as usize].base;
        match base.get(required.key()) {
            Some(offered) if !offered.intersects(required) => {
                format!("its volumes need {required}, but NodePool {name} has {offered}")
            }
            _ if required.key().as_ref() == ZONE => {
                format!("its volumes need {required}, where NodePool {name} has no available offering that would fit")
            }
            _ if !may_be_defined(self.nodepool(), required.key()) => {
                format!("its volumes need {required}, but NodePool {name} does not define {}", required.key())
            }
            _ => format!(
                "its volumes need {required}, which no machine of NodePool {name} has together with what the pod wants"
            ),
        }
    }

    fn attach(&self, driver: &Text) -> String {
        let wanted = self.pod_reqs.volumes.attachments.iter().filter(|(of, _)| of == driver).count();
        let limit = format!("{ATTACHABLE_VOLUMES_PREFIX}{driver}");
        let types = self.nodepool().catalogue.types.iter();
        let most = types.max_by_key(|t| t.allocatable.get(&limit));
        let most = most.map_or(String::new(), |t| format!("; {} attaches {}", t.name, t.allocatable.get(&limit)));
        format!("attaches {} of {driver}, more than any type that would do{most}", count(wanted, "volume"))
    }

    fn resources(&self, types: &[u32], capped: bool) -> String {
        let requested = amounts(&self.pod_reqs.shape.requests);
        let Some((nearest, short)) = nearest_type(self.snapshot, self.pod_reqs, self.pool, types) else {
            return format!("asks for {requested}, and no type is allowed");
        };
        let free = &self.snapshot.type_capacities(self.pool)[nearest as usize].free;
        let has: Vec<String> =
            short.iter().map(|(name, _)| format!("{} {name}", amount(name, free.get(name).max(0)))).collect();
        let misses: Vec<String> = short.iter().map(|(name, by)| format!("{} {name}", needed(name, *by))).collect();
        let of = if types.len() == 1 {
            "the only type allowed".to_owned()
        } else {
            format!("the nearest of {} types allowed", types.len())
        };
        let nearest = self.type_name(nearest);
        let mut message = format!(
            "asks for {requested}; {of}, {nearest}, has {} free after DaemonSets: {} short",
            and(&has),
            and(&misses)
        );
        if capped {
            message.push_str("; larger machines exceed the NodePool's price or size ceilings");
        } else if let Some(larger) = self.larger_elsewhere(types) {
            message.push_str(&larger);
        }
        message
    }

    /// The smallest type that would be large enough but is excluded by labels, and the source of
    /// the exclusion.
    fn larger_elsewhere(&self, types: &[u32]) -> Option<String> {
        let catalogue = &self.nodepool().catalogue;
        let requested = self.snapshot.free_capacity(self.pool).request_columns(&self.pod_reqs.shape.requests);
        let enough = |t: &u32| requested.fits(*t) && !types.contains(t);
        let all = 0..u32::try_from(catalogue.types.len()).unwrap_or(u32::MAX);
        let t = all.filter(enough).min_by_key(|&t| (catalogue.types[t as usize].capacity.get(CPU), t))?;
        let labels = &catalogue.types[t as usize].labels;
        let base = &self.snapshot.pools[self.pool as usize].base;
        let refusal = match labels.first_conflict(base) {
            Some(refusing) => format!("NodePool {} has {refusing}", self.nodepool().name),
            None => {
                let alternatives = self.pod_reqs.alternatives();
                let refusing =
                    alternatives.iter().find_map(|alternative| labels.first_conflict(&alternative.requirements))?;
                format!("the pod wants {refusing}")
            }
        };
        Some(format!("; {} would be large enough, but {refusal}", catalogue.types[t as usize].name))
    }

    fn offering(&self, types: &[u32], merged: &Requirements) -> String {
        let filter = OfferingFilter::new(self.snapshot, self.pod_reqs, self.pool);
        let rejections = filter.count_rejections(types, merged);
        // The types with the least restrictive rejection: one change of an offering or rule would
        // help these.
        let furthest = rejections.keys().next_back();
        let near = |t: &&u32| filter.count_rejections(&[**t], merged).keys().next_back() == furthest;
        let first: Vec<&str> = types.iter().filter(near).map(|&t| self.type_name(t)).collect();
        let mut message = format!("{} would fit, but ", some(&first, 3));
        if let Some(zones) = merged.get(ZONE).and_then(|wanted| zones_without_offerings(self.nodepool(), wanted)) {
            return message + &zones;
        }
        message.push_str("no offering is available");
        let why: Vec<String> =
            rejections.iter().map(|(why, number)| self.describe_rejection(*why, *number, merged)).collect();
        if !why.is_empty() {
            message.push_str(": ");
            message.push_str(&why.join("; "));
        }
        message
    }

    fn describe_rejection(&self, why: Rejection, number: usize, merged: &Requirements) -> String {
        let rules = &self.nodepool().rules;
        let offers = count(number, "offering");
        let allowed = |key| merged.get(key).map_or(String::new(), |r| format!(" ({r})"));
        match why {
            Rejection::Zone => format!("{offers} outside the zones allowed{}", allowed(ZONE)),
            Rejection::CapacityType => {
                let key = model::labels::CAPACITY_TYPE;
                format!("{offers} of another capacity type{}", allowed(key))
            }
            Rejection::Label => format!("{offers} with other labels"),
            Rejection::Unavailable => format!("{offers} without capacity at present"),
            Rejection::Reservation => format!("{offers} whose reservation is used up"),
            Rejection::Price => {
                let ceilings = [(rules.max_node_price, "per node"), (rules.max_price_per_vcpu, "per vCPU")];
                let parts: Vec<String> =
                    ceilings.iter().filter_map(|(p, what)| p.map(|p| format!("${p} {what}"))).collect();
                format!("{offers} dearer than {} per hour", and(&parts))
            }
            Rejection::SpotShare => format!("{offers} kept off spot by the NodePool's share"),
            Rejection::SpotWait => {
                let left = remaining_spot_wait(self.nodepool(), self.pod_reqs.created, self.snapshot.input.now)
                    .unwrap_or_default();
                format!("{offers} on demand for which it waits another {} (spot-fallback-after)", duration(left))
            }
        }
    }

    fn spot_share(&self) -> String {
        let rules = &self.nodepool().rules;
        let share = rules.spot_max_percent.map(|p| format!("at most {p} % of its vCPUs on spot"));
        let floor = rules
            .on_demand_min_nodes
            .map(|n| format!("{} on demand before spot is used", count(usize::try_from(n).unwrap_or(0), "node")));
        let parts: Vec<String> = share.into_iter().chain(floor).collect();
        format!("only spot would do, and the NodePool keeps {}", and(&parts))
    }

    fn node_limit(&self) -> String {
        let (limit, left) = (self.nodepool().limits.get(NODES), self.snapshot.left(self.pool, NODES).unwrap_or(0));
        format!(
            "its limit of {} is reached: {} exist or are planned",
            count(usize::try_from(limit).unwrap_or(0), "node"),
            limit - left
        )
    }

    fn limits(&self, types: &[u32]) -> String {
        let Some(&smallest) = types.iter().min_by_key(|&&t| (self.snapshot.over(self.pool, t), t)) else {
            return "its limits are used up".to_owned();
        };
        let pool = self.nodepool();
        let capacity = &pool.catalogue.types[smallest as usize].capacity;
        let describe = |(name, _): &(Text, i64)| {
            let (limit, left) = (pool.limits.get(name), self.snapshot.left(self.pool, name).unwrap_or(0));
            format!(
                "of its limit {name} {} it uses {} and has {} left, but the smallest machine that would do, {}, has {}",
                amount(name, limit),
                amount(name, limit - left),
                amount(name, left.max(0)),
                self.type_name(smallest),
                amount(name, capacity.get(name)),
            )
        };
        let parts: Vec<String> = excess(self.snapshot, self.pool, smallest).iter().map(describe).collect();
        let planned = self.snapshot.plan.nodes.iter().filter(|node| node.pool == self.pool).count();
        let nodes = active_nodes(self.snapshot.input, pool).count();
        format!("{} (it has {} and {} planned)", parts.join("; "), count(nodes, "node"), planned)
    }
}

/// Message for affinity with only empty terms, which match nothing.
pub(super) fn no_term() -> &'static str {
    "its required node affinity has only empty terms, and an empty term matches no node"
}

/// Message for contradictory requirements of one pod.
pub(super) fn contradiction(key: &str) -> String {
    format!("its nodeSelector and required node affinity contradict each other about {key}: no value satisfies both")
}

fn suggestion(wanted: &Requirement, offered: &Requirement) -> String {
    let known = offered.finite_values();
    let closest = wanted
        .finite_values()
        .into_iter()
        .flatten()
        .find_map(|value| closest_match(value, known.into_iter().flatten()));
    closest.map_or(String::new(), |value| format!("; did you mean {value}?"))
}
