//! The tests of one pod before one pool, each as a step that either leaves something or names the obstacle.

use std::collections::BTreeSet;
use std::rc::Rc;

use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

use crate::explain::ask::{Alternative, Ask, Waiver};
use crate::explain::catalogue::may_be_defined;
use crate::explain::market::{Closed, Market, Wanted};
use crate::explain::topology::{Barrier, Site, Topology};
use crate::explain::world::World;
use crate::input::MinValuesPolicy;
use crate::model::labels::{ARCH, CAPACITY_TYPE, HOSTNAME, ZONE};
use crate::model::resources::{ATTACHABLE_VOLUMES_PREFIX, NODES};
use crate::model::taints::first_barring;
use crate::model::{HostPort, InstanceType, NodePool, Operator, Requirement, Requirements, Text};

use super::{Blocked, Launch};

/// A pod before a pool.
pub(super) struct Trial<'t> {
    /// The finished plan.
    pub(super) world: &'t World<'t>,
    /// The pod.
    pub(super) ask: &'t Ask<'t>,
    /// Its topology rules.
    pub(super) topology: &'t Topology,
    /// Index of the pool.
    pub(super) index: u32,
    /// The pool.
    pub(super) pool: &'t NodePool,
}

impl Trial<'_> {
    /// What has nothing to do with the machine.
    pub(super) fn gate(&self) -> Result<(), Blocked> {
        if let Some(why) = &self.pool.not_ready
            && !self.ask.waives(&Waiver::Ready(self.index))
        {
            return Err(Blocked::NotReady(why.clone()));
        }
        match first_barring(&self.pool.taints, &self.ask.shape.tolerations) {
            Some(taint) => Err(Blocked::Taint(taint.clone())),
            None => Ok(()),
        }
    }

    /// One OR-term with one volume alternative.
    pub(super) fn along(&self, way: &Alternative, volumes: &Requirements) -> Result<Vec<Launch>, Blocked> {
        let own = self.own(way)?;
        let merged = self.with_volumes(&own, volumes)?;
        let market = Market::new(self.world, self.ask, self.index);
        let roomy = self.roomy(&market, &merged)?;
        let launches = self.on_sale(&market, &roomy, &merged).map_err(|blocked| match blocked {
            // The place, not the market, is the trouble when the pod would find an offering without its volumes.
            Blocked::Offering { .. } if !volumes.is_empty() && self.on_sale(&market, &roomy, &own).is_ok() => {
                let place = volumes.get(ZONE).or_else(|| volumes.iter().next());
                place.map_or(blocked, |place| Blocked::Volume(place.clone()))
            }
            other => other,
        })?;
        self.varied(&launches)?;
        let launches = self.within_limits(launches)?;
        // Limits take options away, and what is left must be varied enough as well.
        self.varied(&launches)?;
        self.in_place(launches, &merged)
    }

    /// The pool's labels and the pod's.
    pub(super) fn own(&self, way: &Alternative) -> Result<Requirements, Blocked> {
        if let Some(key) = &way.contradiction {
            return Err(Blocked::Contradiction(key.clone()));
        }
        if let Some(names) = way.names.iter().find(|names| names.finite_values().is_some()) {
            return Err(Blocked::Named(names.clone()));
        }
        let waived = |key: &str| self.ask.waives(&Waiver::Label(self.index, key.into()));
        let mut base = self.world.pools[self.index as usize].base.clone();
        for requirement in way.requirements.iter().filter(|r| waived(r.key())) {
            base.remove(requirement.key());
            base.add(requirement.clone());
        }
        let known = |key: &str| key != HOSTNAME && may_be_defined(self.pool, key);
        if let Some(refused) = base.first_incompatible(&way.requirements, known) {
            return Err(Blocked::Label(refused.clone()));
        }
        base.add_all(&way.requirements);
        if !self.pool.rules.safe_architectures.is_empty() && !self.ask.names_architecture() {
            let safe = self.pool.rules.safe_architectures.iter().cloned();
            base.add(Requirement::new(ARCH, Operator::In, safe));
        }
        if self.types(&base).is_empty() { Err(Blocked::Types(base)) } else { Ok(base) }
    }

    /// Types that agree with `merged`; labels that the trial gives the pool are nobody else's business.
    pub(super) fn types(&self, merged: &Requirements) -> Rc<[u32]> {
        let mut merged = merged.clone();
        for waiver in &self.ask.waived {
            if let Waiver::Label(pool, key) = waiver
                && *pool == self.index
                && !may_be_defined(self.pool, key)
            {
                merged.remove(key);
            }
        }
        self.world.types(self.index, &merged)
    }

    pub(super) fn with_volumes(&self, own: &Requirements, volumes: &Requirements) -> Result<Requirements, Blocked> {
        let known = |key: &str| key != HOSTNAME && may_be_defined(self.pool, key);
        if let Some(refused) = own.first_incompatible(volumes, known) {
            return Err(Blocked::Volume(refused.clone()));
        }
        let mut merged = own.clone();
        merged.add_all(volumes);
        if self.types(&merged).is_empty() {
            return Err(volumes.iter().next().map_or(Blocked::Types(merged.clone()), |r| Blocked::Volume(r.clone())));
        }
        Ok(merged)
    }

    /// Types that attach the volumes, are large enough beside their DaemonSets, and have the ports free.
    fn roomy(&self, market: &Market<'_>, merged: &Requirements) -> Result<Vec<u32>, Blocked> {
        let all = self.types(merged);
        let free = self.world.free_room(self.index);
        let (freed, asked) = (&free.types, free.asked(&self.ask.shape.requests));
        let drivers = self.ask.drivers();
        if let Some(driver) = drivers.iter().find(|driver| !all.iter().any(|&t| self.attaches(t, driver))) {
            return Err(Blocked::Attach((*driver).clone()));
        }
        let attaches = |t: &u32| drivers.iter().all(|driver| self.attaches(*t, driver));
        let large: Vec<u32> = all.iter().copied().filter(|t| asked.fits(*t)).filter(attaches).collect();
        let wanted = market.wanted(merged);
        let capped = |t: u32| self.capped(market, t, &wanted);
        if large.iter().all(|t| capped(*t)) {
            let within: Rc<[u32]> = all.iter().copied().filter(|&t| !capped(t)).collect();
            if large.is_empty() || !within.is_empty() {
                let types = if within.is_empty() { all } else { within };
                return Err(Blocked::Room { types, capped: !large.is_empty() });
            }
        }
        let conflict = |t: u32| {
            let taken = freed[t as usize].ports.iter();
            taken
                .flat_map(|(port, who)| self.ask.shape.host_ports.iter().map(move |own| (own, port, who)))
                .find_map(|(own, port, who)| own.conflicts_with(port).then(|| Blocked::Port(own.clone(), who.clone())))
        };
        let open: Vec<u32> = large.iter().copied().filter(|&t| conflict(t).is_none()).collect();
        match large.first().and_then(|&t| conflict(t)) {
            Some(blocked) if open.is_empty() => Err(blocked),
            _ => Ok(open),
        }
    }

    /// Whether the pool's ceilings leave no way to buy the type that would else be open.
    fn capped(&self, market: &Market<'_>, t: u32, wanted: &Wanted<'_>) -> bool {
        let instance = self.instance(t);
        let rules = &self.pool.rules;
        let priced = rules.max_node_price.is_some() || rules.max_price_per_vcpu.is_some();
        let too_dear = || {
            let mut closed = instance.offerings.iter().map(|offering| market.closed(instance, offering, wanted));
            closed.clone().any(|why| why == Some(Closed::Price)) && closed.all(|why| why.is_some())
        };
        market.oversized(instance) || (priced && too_dear())
    }

    fn instance(&self, t: u32) -> &InstanceType {
        &self.pool.catalogue.types[t as usize]
    }

    fn attaches(&self, t: u32, driver: &Text) -> bool {
        let limit = format!("{ATTACHABLE_VOLUMES_PREFIX}{driver}");
        let allocatable = &self.instance(t).allocatable;
        let wanted = self.ask.volumes.attachments.iter().filter(|(of, _)| of == driver).count();
        !allocatable.contains(&limit) || i64::try_from(wanted).unwrap_or(i64::MAX) <= allocatable.get(&limit)
    }

    fn on_sale(&self, market: &Market<'_>, types: &[u32], merged: &Requirements) -> Result<Vec<Launch>, Blocked> {
        let open = market.open(merged);
        let mut launches = Vec::new();
        for &t in types.iter().filter(|&&t| !market.oversized(self.instance(t))) {
            launches.extend(open[t as usize].iter().map(|at| self.launch(t, *at)));
        }
        if !launches.is_empty() {
            return Ok(launches);
        }
        let nearest = market.why_closed(types, merged).into_keys().next_back();
        match nearest {
            Some(Closed::SpotShare) => Err(Blocked::SpotShare),
            _ => Err(Blocked::Offering { types: types.to_vec(), merged: merged.clone() }),
        }
    }

    fn varied(&self, launches: &[Launch]) -> Result<(), Blocked> {
        let strict = self.world.input.policy.min_values == MinValuesPolicy::Strict;
        if !strict || self.ask.waives(&Waiver::MinValues(self.index)) {
            return Ok(());
        }
        for requirement in self.world.pools[self.index as usize].base.iter() {
            let Some(wanted) = requirement.min_values() else { continue };
            let key = requirement.key();
            let found = self.different_values(launches, key, wanted);
            if found < wanted {
                return Err(Blocked::MinValues { key: key.clone(), wanted, found });
            }
        }
        Ok(())
    }

    /// How many different values of `key` the launches have; no more than `enough` are looked for.
    fn different_values(&self, launches: &[Launch], key: &Text, enough: u32) -> u32 {
        let mut values: FxHashSet<&str> = FxHashSet::default();
        // A type's own values are the same wherever it is bought.
        let mut of_type = None;
        let found = |values: &FxHashSet<&str>| u32::try_from(values.len()).unwrap_or(u32::MAX);
        for launch in launches {
            let instance = self.instance(launch.instance);
            let offering = &instance.offerings[launch.offering as usize];
            match key.as_ref() {
                ZONE => drop(values.insert(&offering.zone)),
                CAPACITY_TYPE => drop(values.insert(offering.capacity_type.as_str())),
                _ => match offering.labels.get(key) {
                    Some(value) => drop(values.insert(value)),
                    None if of_type == Some(launch.instance) => continue,
                    None => {
                        of_type = Some(launch.instance);
                        let known = instance.labels.get(key).and_then(|r| r.finite_values());
                        values.extend(known.into_iter().flatten().map(AsRef::as_ref));
                    }
                },
            }
            if found(&values) >= enough {
                break;
            }
        }
        found(&values)
    }

    fn within_limits(&self, launches: Vec<Launch>) -> Result<Vec<Launch>, Blocked> {
        if self.ask.waives(&Waiver::Limits(self.index)) {
            return Ok(launches);
        }
        if self.has_no_node_left() {
            return Err(Blocked::NodeLimit);
        }
        let keeps = |launch: &Launch| self.world.keeps_limits(self.index, launch.instance);
        let kept: Vec<Launch> = launches.iter().copied().filter(keeps).collect();
        if kept.is_empty() {
            let types: BTreeSet<u32> = launches.iter().map(|launch| launch.instance).collect();
            return Err(Blocked::Limits(types.into_iter().collect()));
        }
        Ok(kept)
    }

    pub(super) fn has_no_node_left(&self) -> bool {
        self.world.left(self.index, NODES).is_some_and(|left| left < 1)
    }

    fn launch(&self, t: u32, offering: u32) -> Launch {
        Launch { price: self.instance(t).offerings[offering as usize].price, instance: t, offering }
    }

    /// Whether one machine of `types` passes all tests from room on.
    pub(super) fn would_do(&self, market: &Market<'_>, merged: &Requirements, types: &[u32]) -> bool {
        let asked = self.world.free_room(self.index).asked(&self.ask.shape.requests);
        let mut roomy = types.iter().copied().filter(|t| asked.fits(*t)).peekable();
        if roomy.peek().is_none() {
            return false;
        }
        let open = market.open(merged);
        let mut sites = Sites::new(self, merged);
        roomy.any(|t| {
            self.has_room(market, t) && open[t as usize].iter().any(|at| sites.barrier(&self.launch(t, *at)).is_none())
        })
    }

    /// Whether a machine of type `t`, which is large enough, has the ports free, attaches the volumes and keeps the limits.
    fn has_room(&self, market: &Market<'_>, t: u32) -> bool {
        let freed = &self.world.freed(self.index)[t as usize];
        let instance = self.instance(t);
        let conflicts = |own: &HostPort| freed.ports.iter().any(|(port, _)| own.conflicts_with(port));
        let limits = self.ask.waives(&Waiver::Limits(self.index));
        !market.oversized(instance)
            && !self.ask.shape.host_ports.iter().any(conflicts)
            && self.ask.drivers().into_iter().all(|driver| self.attaches(t, driver))
            && (limits || self.world.keeps_limits(self.index, t))
    }

    /// Keeps the launches that no topology rule bars.
    fn in_place(&self, launches: Vec<Launch>, merged: &Requirements) -> Result<Vec<Launch>, Blocked> {
        if self.topology.keys.is_empty() {
            return Ok(launches);
        }
        let mut sites = Sites::new(self, merged);
        let mut kept = Vec::new();
        let mut barriers = BTreeSet::new();
        for launch in launches {
            match sites.barrier(&launch) {
                None => kept.push(launch),
                Some(barrier) => drop(barriers.insert(barrier)),
            }
        }
        match barriers.into_iter().next() {
            Some(barrier) if kept.is_empty() => Err(Blocked::Topology(barrier, sites.looked_at())),
            _ => Ok(kept),
        }
    }

    /// What type and offering say of the label `key` of a machine to be launched; a hostname that nobody has yet is the
    /// empty one.
    fn label(&self, launch: &Launch, key: &Text) -> Option<&str> {
        let instance = self.instance(launch.instance);
        let offering = &instance.offerings[launch.offering as usize];
        match key.as_ref() {
            HOSTNAME => Some(""),
            ZONE => Some(&offering.zone),
            CAPACITY_TYPE => Some(offering.capacity_type.as_str()),
            _ => match offering.labels.get(key) {
                Some(value) => Some(value),
                None => instance.labels.get(key)?.finite_values()?.first().map(AsRef::as_ref),
            },
        }
    }
}

/// The labels that topology rules look at, as launches have them, each distinct set judged once.
struct Sites<'s, 't> {
    trial: &'s Trial<'t>,
    /// Values of labels that neither type nor offering settles.
    fallback: Vec<Option<Text>>,
    judged: FxHashMap<Labelled<'s>, (Site, Option<Barrier>)>,
}

/// Values along the keys of a topology, as far as type and offering settle them.
type Labelled<'s> = SmallVec<[Option<&'s str>; 3]>;

impl<'s, 't> Sites<'s, 't> {
    fn new(trial: &'s Trial<'t>, merged: &Requirements) -> Self {
        let value = |key: &Text| merged.get(key).and_then(Requirement::representative);
        Self { trial, fallback: trial.topology.keys.iter().map(value).collect(), judged: FxHashMap::default() }
    }

    /// The rule that bars `launch`.
    fn barrier(&mut self, launch: &Launch) -> Option<Barrier> {
        let (trial, topology) = (self.trial, self.trial.topology);
        if topology.keys.is_empty() {
            return None;
        }
        let own: Labelled<'s> = topology.keys.iter().map(|key| trial.label(launch, key)).collect();
        if let Some((_, barrier)) = self.judged.get(&own) {
            return *barrier;
        }
        let value = |(own, fallback): (&Option<&str>, &Option<Text>)| own.map(Text::from).or_else(|| fallback.clone());
        let mut values = own.iter().zip(&self.fallback).map(value);
        let site = topology.site(|_| values.next().flatten());
        let barrier = topology.barrier(&site);
        self.judged.insert(own, (site, barrier));
        barrier
    }

    /// Every distinct site, in order.
    fn looked_at(self) -> Vec<Site> {
        self.judged.into_values().map(|(site, _)| site).collect::<BTreeSet<Site>>().into_iter().collect()
    }
}
