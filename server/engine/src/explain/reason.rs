//! What bars a pod, in words: the values wanted and found, the nearest machine, and by how much it misses.

mod rules;

use std::collections::BTreeSet;

use crate::model::labels::ZONE;
use crate::model::resources::{ATTACHABLE_VOLUMES_PREFIX, CPU, NODES};
use crate::model::{NodePool, NotReady, Requirement, Requirements, Text};
use crate::plan::ReasonCode;

use super::ask::Ask;
use super::catalogue::may_be_defined;
use super::launch::{Blocked, excess, nearest_type};
use super::market::{Closed, Market, time_left};
use super::topology::{Barrier, Topology};
use super::wording::{amount, amounts, and, count, duration, meant, needed, some, taint};
use super::world::{World, living};

/// Domains, values and types that a message lists before it counts the rest.
const LISTED: usize = 6;

/// The code of what bars a pod.
pub(super) fn code(blocked: &Blocked) -> ReasonCode {
    match blocked {
        Blocked::NotReady(NotReady::NodeClass(_)) => ReasonCode::NodeClassNotReady,
        Blocked::NotReady(NotReady::NodePool(_)) => ReasonCode::NodePoolNotReady,
        Blocked::Taint(_) => ReasonCode::Taints,
        Blocked::NoTerm | Blocked::Contradiction(_) | Blocked::Named(_) | Blocked::Label(_) | Blocked::Types(_) => {
            ReasonCode::Requirements
        }
        Blocked::Volume(_) | Blocked::Attach(_) => ReasonCode::Volumes,
        Blocked::Room { .. } => ReasonCode::Resources,
        Blocked::Port(..) => ReasonCode::HostPorts,
        Blocked::Offering { .. } => ReasonCode::NoOffering,
        Blocked::MinValues { .. } => ReasonCode::MinValues,
        Blocked::SpotShare | Blocked::NodeLimit | Blocked::Limits(_) => ReasonCode::Limits,
        Blocked::Topology(barrier, _) => barrier_code(*barrier),
    }
}

/// The code of a topology rule.
pub(super) fn barrier_code(barrier: Barrier) -> ReasonCode {
    match barrier {
        Barrier::Spread(_) => ReasonCode::TopologySpread,
        Barrier::Affinity(_) => ReasonCode::PodAffinity,
        Barrier::AntiAffinity(_) | Barrier::Foe => ReasonCode::PodAntiAffinity,
    }
}

/// Words for what bars `ask` from the pool with index `pool`.
pub(super) struct Speaker<'s> {
    /// The finished plan.
    pub world: &'s World<'s>,
    /// The pod.
    pub ask: &'s Ask<'s>,
    /// Its topology rules.
    pub topology: &'s Topology,
    /// The pool.
    pub pool: u32,
}

impl Speaker<'_> {
    fn nodepool(&self) -> &NodePool {
        &self.world.input.pools[self.pool as usize]
    }

    fn type_name(&self, t: u32) -> &str {
        &self.nodepool().catalogue.types[t as usize].name
    }

    /// The reason in a sentence.
    pub(super) fn say(&self, blocked: &Blocked) -> String {
        match blocked {
            Blocked::NotReady(NotReady::NodeClass(why)) => {
                format!("EC2NodeClass {}: {why}", self.nodepool().node_class)
            }
            Blocked::NotReady(NotReady::NodePool(why)) => format!("NodePool {}: {why}", self.nodepool().name),
            Blocked::Taint(barring) => format!("its taint {} is not tolerated", taint(barring)),
            Blocked::NoTerm => no_term().to_owned(),
            Blocked::Contradiction(key) => contradiction(key),
            Blocked::Named(names) => {
                format!("wants a node by its name ({names}); a machine to be launched has none yet")
            }
            Blocked::Label(wanted) => self.label(wanted),
            Blocked::Types(merged) => self.types(merged),
            Blocked::Volume(place) => self.volume(place),
            Blocked::Attach(driver) => self.attach(driver),
            Blocked::Room { types, capped } => self.room(types, *capped),
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
            Blocked::Topology(barrier, sites) => self.topology(*barrier, sites),
        }
    }

    fn label(&self, wanted: &Requirement) -> String {
        let pool = self.nodepool();
        let base = &self.world.pools[self.pool as usize].base;
        match base.get(wanted.key()) {
            Some(offered) => {
                format!("wants {wanted}, but NodePool {} has {offered}{}", pool.name, typo(wanted, offered))
            }
            None => {
                let known: BTreeSet<Text> = base
                    .iter()
                    .chain(pool.catalogue.types.first().into_iter().flat_map(|t| t.labels.iter()))
                    .map(|r| r.key().clone())
                    .chain(self.world.input.policy.well_known_labels.iter().cloned())
                    .collect();
                let hint = meant(wanted.key(), &known).map_or(String::new(), |key| format!("; did you mean {key}?"));
                format!("wants {wanted}, but NodePool {} does not define {}{hint}", pool.name, wanted.key())
            }
        }
    }

    /// No type has all the labels: which of the pod's own conditions leaves none, alone or with another.
    fn types(&self, merged: &Requirements) -> String {
        let base = &self.world.pools[self.pool as usize].base;
        if self.world.types(self.pool, base).is_empty() {
            return "no instance type satisfies the NodePool's own requirements".to_owned();
        }
        let own: Vec<&Requirement> = merged.iter().filter(|r| base.get(r.key()) != Some(r)).collect();
        let left = |conditions: &[&Requirement]| {
            let mut some = base.clone();
            conditions.iter().for_each(|condition| some.add((*condition).clone()));
            self.world.types(self.pool, &some).len()
        };
        if let Some(one) = own.iter().find(|r| left(&[r]) == 0) {
            let offered = self.values_of(one.key());
            let list: Vec<&str> = offered.iter().map(AsRef::as_ref).collect();
            let hint = one
                .finite_values()
                .and_then(|wanted| wanted.iter().find_map(|value| meant(value, &offered)))
                .map_or(String::new(), |value| format!("; did you mean {value}?"));
            let has = if list.is_empty() {
                "none has that label".to_owned()
            } else {
                format!("they have {}", some(&list, LISTED))
            };
            return format!("wants {one}, but no instance type of the NodePool has it: {has}{hint}");
        }
        for (at, one) in own.iter().enumerate() {
            if let Some(other) = own[at + 1..].iter().find(|other| left(&[one, other]) == 0) {
                return format!("no instance type of the NodePool has both {one} and {other}");
            }
        }
        let all: Vec<String> = own.iter().map(ToString::to_string).collect();
        format!("no instance type of the NodePool has all of {}", and(&all))
    }

    /// Values that the pool's types have for `key`.
    fn values_of(&self, key: &str) -> BTreeSet<Text> {
        let types = self.world.types(self.pool, &self.world.pools[self.pool as usize].base);
        let labels = types.iter().filter_map(|&t| self.nodepool().catalogue.types[t as usize].labels.get(key));
        labels.filter_map(|r| r.finite_values()).flatten().cloned().collect()
    }

    fn volume(&self, place: &Requirement) -> String {
        let name = &self.nodepool().name;
        let base = &self.world.pools[self.pool as usize].base;
        match base.get(place.key()) {
            Some(offered) if !offered.intersects(place) => {
                format!("its volumes need {place}, but NodePool {name} has {offered}")
            }
            _ if place.key().as_ref() == ZONE => {
                format!("its volumes need {place}, where NodePool {name} has nothing for sale that would do")
            }
            _ if !may_be_defined(self.nodepool(), place.key()) => {
                format!("its volumes need {place}, but NodePool {name} does not define {}", place.key())
            }
            _ => format!(
                "its volumes need {place}, which no machine of NodePool {name} has together with what the pod wants"
            ),
        }
    }

    fn attach(&self, driver: &Text) -> String {
        let wanted = self.ask.volumes.attachments.iter().filter(|(of, _)| of == driver).count();
        let limit = format!("{ATTACHABLE_VOLUMES_PREFIX}{driver}");
        let types = self.nodepool().catalogue.types.iter();
        let most = types.max_by_key(|t| t.allocatable.get(&limit));
        let most = most.map_or(String::new(), |t| format!("; {} attaches {}", t.name, t.allocatable.get(&limit)));
        format!("attaches {} of {driver}, more than any type that would do{most}", count(wanted, "volume"))
    }

    fn room(&self, types: &[u32], capped: bool) -> String {
        let asked = amounts(&self.ask.shape.requests);
        let Some((nearest, short)) = nearest_type(self.world, self.ask, self.pool, types) else {
            return format!("asks for {asked}, and no type is allowed");
        };
        let free = &self.world.freed(self.pool)[nearest as usize].room;
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
            "asks for {asked}; {of}, {nearest}, has {} free after DaemonSets: {} short",
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

    /// The smallest type that would be large enough but is refused by labels, and who refuses it.
    fn larger_elsewhere(&self, types: &[u32]) -> Option<String> {
        let catalogue = &self.nodepool().catalogue;
        let asked = self.world.free_room(self.pool).asked(&self.ask.shape.requests);
        let enough = |t: &u32| asked.fits(*t) && !types.contains(t);
        let all = 0..u32::try_from(catalogue.types.len()).unwrap_or(u32::MAX);
        let t = all.filter(enough).min_by_key(|&t| (catalogue.types[t as usize].capacity.get(CPU), t))?;
        let labels = &catalogue.types[t as usize].labels;
        let base = &self.world.pools[self.pool as usize].base;
        let who = match labels.first_conflict(base) {
            Some(refusing) => format!("NodePool {} has {refusing}", self.nodepool().name),
            None => {
                let ways = self.ask.alternatives();
                let refusing = ways.iter().find_map(|way| labels.first_conflict(&way.requirements))?;
                format!("the pod wants {refusing}")
            }
        };
        Some(format!("; {} would be large enough, but {who}", catalogue.types[t as usize].name))
    }

    fn offering(&self, types: &[u32], merged: &Requirements) -> String {
        let market = Market::new(self.world, self.ask, self.pool);
        let closed = market.why_closed(types, merged);
        // Types that came as far as any: those that a change in the market, or in one rule, would help.
        let furthest = closed.keys().next_back();
        let near = |t: &&u32| market.why_closed(&[**t], merged).keys().next_back() == furthest;
        let first: Vec<&str> = types.iter().filter(near).map(|&t| self.type_name(t)).collect();
        let mut message = format!("{} would do, but nothing is for sale", some(&first, 3));
        let why: Vec<String> = closed.iter().map(|(why, number)| self.say_closed(*why, *number, merged)).collect();
        if !why.is_empty() {
            message.push_str(": ");
            message.push_str(&why.join("; "));
        }
        message
    }

    fn say_closed(&self, why: Closed, number: usize, merged: &Requirements) -> String {
        let rules = &self.nodepool().rules;
        let offers = count(number, "offering");
        let allowed = |key| merged.get(key).map_or(String::new(), |r| format!(" ({r})"));
        match why {
            Closed::Zone => format!("{offers} outside the zones allowed{}", allowed(ZONE)),
            Closed::CapacityType => {
                let key = crate::model::labels::CAPACITY_TYPE;
                format!("{offers} of another capacity type{}", allowed(key))
            }
            Closed::Label => format!("{offers} with other labels"),
            Closed::Unavailable => format!("{offers} without capacity at present"),
            Closed::Reservation => format!("{offers} whose reservation is used up"),
            Closed::Price => {
                let ceilings = [(rules.max_node_price, "per node"), (rules.max_price_per_vcpu, "per vCPU")];
                let said: Vec<String> =
                    ceilings.iter().filter_map(|(p, what)| p.map(|p| format!("${p} {what}"))).collect();
                format!("{offers} dearer than {} per hour", and(&said))
            }
            Closed::SpotShare => format!("{offers} kept off spot by the NodePool's share"),
            Closed::SpotWait => {
                let left = time_left(self.world, self.ask, self.pool).unwrap_or(0);
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
        let said: Vec<String> = share.into_iter().chain(floor).collect();
        format!("only spot would do, and the NodePool keeps {}", and(&said))
    }

    fn node_limit(&self) -> String {
        let (limit, left) = (self.nodepool().limits.get(NODES), self.world.left(self.pool, NODES).unwrap_or(0));
        format!(
            "its limit of {} is reached: {} exist or are planned",
            count(usize::try_from(limit).unwrap_or(0), "node"),
            limit - left
        )
    }

    fn limits(&self, types: &[u32]) -> String {
        let Some(&smallest) = types.iter().min_by_key(|&&t| (self.world.over(self.pool, t), t)) else {
            return "its limits are used up".to_owned();
        };
        let pool = self.nodepool();
        let capacity = &pool.catalogue.types[smallest as usize].capacity;
        let say = |(name, _): &(Text, i64)| {
            let (limit, left) = (pool.limits.get(name), self.world.left(self.pool, name).unwrap_or(0));
            format!(
                "of its limit {name} {} it uses {} and has {} left, but the smallest machine that would do, {}, has {}",
                amount(name, limit),
                amount(name, limit - left),
                amount(name, left.max(0)),
                self.type_name(smallest),
                amount(name, capacity.get(name)),
            )
        };
        let parts: Vec<String> = excess(self.world, self.pool, smallest).iter().map(say).collect();
        let planned = self.world.plan.nodes.iter().filter(|node| node.pool == self.pool).count();
        let nodes = living(self.world.input, pool).count();
        format!("{} (it has {} and {} planned)", parts.join("; "), count(nodes, "node"), planned)
    }
}

/// A term without expressions matches nothing.
pub(super) fn no_term() -> &'static str {
    "its required node affinity has only empty terms, and an empty term matches no node"
}

/// A pod that contradicts itself.
pub(super) fn contradiction(key: &str) -> String {
    format!("its nodeSelector and required node affinity contradict each other about {key}: no value satisfies both")
}

fn typo(wanted: &Requirement, offered: &Requirement) -> String {
    let known = offered.finite_values();
    let guess =
        wanted.finite_values().into_iter().flatten().find_map(|value| meant(value, known.into_iter().flatten()));
    guess.map_or(String::new(), |value| format!("; did you mean {value}?"))
}
