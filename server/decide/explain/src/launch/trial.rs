//! The checks of one pod against one pool. Each check returns what remains, or the obstacle.

use std::collections::BTreeSet;
use std::rc::Rc;

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use crate::offering_filter::{OfferingFilter, Rejection, Wanted};
use crate::pod_requirements::{Alternative, IgnoredRule, PodRequirements};
use crate::snapshot::PlanSnapshot;
use crate::topology::{Location, Topology, TopologyConflict};
use model::labels::{ARCH, CAPACITY_TYPE, HOSTNAME, ZONE};
use model::resources::NODES;
use model::taints::first_untolerated;
use model::{InstanceType, NodePool, Operator, Requirement, Requirements, Text};
use verifier::kernel::{
    attach_limit_of_type, conflicting_port, excess_volumes, may_be_defined, names_architecture, unmet_min_values,
};

use super::blocked::{Blocked, Launch};

/// The trial of one pod against one pool.
pub(super) struct Trial<'t, 'i> {
    pub(super) snapshot: &'t PlanSnapshot<'i>,
    pub(super) pod_reqs: &'t PodRequirements<'t>,
    pub(super) topology: &'t Topology,
    /// Index of the pool.
    pub(super) index: u32,
    pub(super) pool: &'t NodePool,
}

impl Trial<'_, '_> {
    /// Checks that do not depend on the instance type: readiness and taints.
    pub(super) fn check_pool(&self) -> Result<(), Blocked> {
        if let Some(why) = &self.pool.not_ready
            && !self.pod_reqs.ignores(&IgnoredRule::Ready(self.index))
        {
            return Err(Blocked::NotReady(why.clone()));
        }
        match first_untolerated(&self.pool.taints, &self.pod_reqs.shape.tolerations) {
            Some(taint) => Err(Blocked::Taint(taint.clone())),
            None => Ok(()),
        }
    }

    /// The possible launches for one OR-term with one volume alternative.
    pub(super) fn launches_for(
        &self,
        alternative: &Alternative,
        volumes: &Requirements,
    ) -> Result<Vec<Launch>, Blocked> {
        let own = self.merge_with_pool(alternative)?;
        let merged = self.with_volumes(&own, volumes)?;
        let filter = OfferingFilter::new(self.snapshot, self.pod_reqs, self.index);
        let fitting = self.fitting(&filter, &merged)?;
        let launches = self.open_launches(&filter, &fitting, &merged).map_err(|blocked| match blocked {
            // The volumes are the obstacle if the pod would find an offering without them.
            Blocked::Offering { .. } if !volumes.is_empty() && self.open_launches(&filter, &fitting, &own).is_ok() => {
                let required = volumes.get(ZONE).or_else(|| volumes.iter().next());
                required.map_or(blocked, |required| Blocked::Volume(required.clone()))
            }
            other => other,
        })?;
        self.check_min_values(&launches)?;
        let launches = self.within_limits(launches)?;
        // Limits remove options, so `minValues` is checked again on the rest.
        self.check_min_values(&launches)?;
        self.topology_permits(launches, &merged)
    }

    /// Merges the requirements of pool and pod.
    pub(super) fn merge_with_pool(&self, alternative: &Alternative) -> Result<Requirements, Blocked> {
        if let Some(key) = &alternative.contradiction {
            return Err(Blocked::Contradiction(key.clone()));
        }
        if let Some(names) = alternative.names.iter().find(|names| names.finite_values().is_some()) {
            return Err(Blocked::Named(names.clone()));
        }
        let ignored = |key: &str| self.pod_reqs.ignores(&IgnoredRule::Label(self.index, key.into()));
        let mut base = self.snapshot.pools[self.index as usize].base.clone();
        for requirement in alternative.requirements.iter().filter(|r| ignored(r.key())) {
            base.remove(requirement.key());
            base.add(requirement.clone());
        }
        for (key, value) in self.other_values() {
            base.remove(key);
            base.add(Requirement::equals(key, value.clone()));
        }
        let known = |key: &str| key != HOSTNAME && may_be_defined(self.pool, key);
        if let Some(refused) = base.first_incompatible(&alternative.requirements, known) {
            return Err(Blocked::Label(refused.clone()));
        }
        base.add_all(&alternative.requirements);
        if !self.pool.rules.safe_architectures.is_empty() && !names_architecture(&self.pod_reqs.shape) {
            let safe = self.pool.rules.safe_architectures.iter().cloned();
            base.add(Requirement::new(ARCH, Operator::In, safe));
        }
        if self.types(&base).is_empty() { Err(Blocked::Types(base)) } else { Ok(base) }
    }

    /// Values that the trial requires instead of those that the pool allows.
    fn other_values(&self) -> impl Iterator<Item = (&Text, &Text)> {
        self.pod_reqs.ignored_rules.iter().filter_map(|rule| match rule {
            IgnoredRule::OtherValue(pool, key, value) if *pool == self.index => Some((key, value)),
            _ => None,
        })
    }

    /// Instance types that match `merged`, without the labels that the trial ignores.
    pub(super) fn types(&self, merged: &Requirements) -> Rc<[u32]> {
        let mut merged = merged.clone();
        for ignored_rule in &self.pod_reqs.ignored_rules {
            if let IgnoredRule::Label(pool, key) = ignored_rule
                && *pool == self.index
                && !may_be_defined(self.pool, key)
            {
                merged.remove(key);
            }
        }
        self.snapshot.types(self.index, &merged)
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

    /// Instance types that attach the volumes, fit the pod beside their DaemonSets, and have the
    /// host ports free.
    fn fitting(&self, filter: &OfferingFilter<'_, '_>, merged: &Requirements) -> Result<Vec<u32>, Blocked> {
        let all = self.types(merged);
        let free = self.snapshot.free_capacity(self.index);
        let (capacities, requested) = (&free.types, free.request_columns(&self.pod_reqs.shape.requests));
        let drivers = self.pod_reqs.drivers();
        if let Some(driver) = drivers.iter().find(|driver| !all.iter().any(|&t| self.attaches(t, driver))) {
            return Err(Blocked::Attach((*driver).clone()));
        }
        // Ceilings are considered before ports: a type above a ceiling is no candidate at all.
        let attaches = |t: &u32| drivers.iter().all(|driver| self.attaches(*t, driver));
        let large: Vec<u32> = all.iter().copied().filter(|t| requested.fits(*t)).filter(attaches).collect();
        let wanted = filter.wanted(merged);
        let capped = |t: u32| self.capped(filter, t, &wanted);
        if large.iter().all(|t| capped(*t)) {
            let within: Rc<[u32]> = all.iter().copied().filter(|&t| !capped(t)).collect();
            if large.is_empty() || !within.is_empty() {
                let types = if within.is_empty() { all } else { within };
                return Err(Blocked::Resources { types, capped: !large.is_empty() });
            }
        }
        let conflict = |t: u32| {
            let taken = capacities[t as usize].ports.iter();
            taken
                .flat_map(|(port, daemon)| self.pod_reqs.shape.host_ports.iter().map(move |own| (own, port, daemon)))
                .find_map(|(own, port, daemon)| {
                    own.conflicts_with(port).then(|| Blocked::Port(own.clone(), daemon.clone()))
                })
        };
        let open: Vec<u32> = large.iter().copied().filter(|&t| conflict(t).is_none()).collect();
        match large.first().and_then(|&t| conflict(t)) {
            Some(blocked) if open.is_empty() => Err(blocked),
            _ => Ok(open),
        }
    }

    /// Whether the ceilings of the pool reject every offering of a type that would otherwise be
    /// open.
    fn capped(&self, filter: &OfferingFilter<'_, '_>, t: u32, wanted: &Wanted<'_>) -> bool {
        let instance = self.instance(t);
        let rules = &self.pool.rules;
        let priced = rules.max_node_price.is_some() || rules.max_price_per_vcpu.is_some();
        let too_expensive = || {
            let mut rejections = instance.offerings.iter().map(|offering| filter.rejection(instance, offering, wanted));
            rejections.clone().any(|why| why == Some(Rejection::Price)) && rejections.all(|why| why.is_some())
        };
        filter.oversized(instance) || (priced && too_expensive())
    }

    fn instance(&self, t: u32) -> &InstanceType {
        &self.pool.catalogue.types[t as usize]
    }

    fn attaches(&self, t: u32, driver: &str) -> bool {
        let limit = attach_limit_of_type(self.instance(t), driver);
        excess_volumes(&BTreeSet::new(), &self.pod_reqs.volumes.attachments, driver, limit).is_none()
    }

    fn open_launches(
        &self,
        filter: &OfferingFilter<'_, '_>,
        types: &[u32],
        merged: &Requirements,
    ) -> Result<Vec<Launch>, Blocked> {
        let open = filter.open(merged);
        let mut launches = Vec::new();
        for &t in types.iter().filter(|&&t| !filter.oversized(self.instance(t))) {
            launches.extend(open[t as usize].iter().map(|at| self.launch(t, *at)));
        }
        if !launches.is_empty() {
            return Ok(launches);
        }
        let nearest = filter.count_rejections(types, merged).into_keys().next_back();
        match nearest {
            Some(Rejection::SpotShare) => Err(Blocked::SpotShare),
            _ => Err(Blocked::Offering { types: types.to_vec(), merged: merged.clone() }),
        }
    }

    fn check_min_values(&self, launches: &[Launch]) -> Result<(), Blocked> {
        if self.pod_reqs.ignores(&IgnoredRule::MinValues(self.index)) {
            return Ok(());
        }
        let (policy, base) = (&self.snapshot.input.policy, &self.snapshot.pools[self.index as usize].base);
        // The launches of one type are adjacent, so each type is counted once.
        let of_types = launches.chunk_by(|a, b| a.instance == b.instance);
        let types = of_types.filter_map(|of_type| Some(self.instance(of_type.first()?.instance)));
        match unmet_min_values(policy.min_values, base, types).next() {
            Some(unmet) => Err(Blocked::MinValues { key: unmet.key.clone(), wanted: unmet.wanted, found: unmet.found }),
            None => Ok(()),
        }
    }

    fn within_limits(&self, launches: Vec<Launch>) -> Result<Vec<Launch>, Blocked> {
        if self.pod_reqs.ignores(&IgnoredRule::Limits(self.index)) {
            return Ok(launches);
        }
        if self.has_no_node_left() {
            return Err(Blocked::NodeLimit);
        }
        let keeps = |launch: &Launch| self.snapshot.keeps_limits(self.index, launch.instance);
        let kept: Vec<Launch> = launches.iter().copied().filter(keeps).collect();
        if kept.is_empty() {
            let types: BTreeSet<u32> = launches.iter().map(|launch| launch.instance).collect();
            return Err(Blocked::Limits(types.into_iter().collect()));
        }
        Ok(kept)
    }

    pub(super) fn has_no_node_left(&self) -> bool {
        self.snapshot.left(self.index, NODES).is_some_and(|left| left < 1)
    }

    fn launch(&self, t: u32, offering: u32) -> Launch {
        Launch { price: self.instance(t).offerings[offering as usize].price, instance: t, offering }
    }

    /// Whether any of `types` passes all checks from resources on.
    pub(super) fn any_fits(&self, filter: &OfferingFilter<'_, '_>, merged: &Requirements, types: &[u32]) -> bool {
        let requested = self.snapshot.free_capacity(self.index).request_columns(&self.pod_reqs.shape.requests);
        let mut fitting = types.iter().copied().filter(|t| requested.fits(*t)).peekable();
        if fitting.peek().is_none() {
            return false;
        }
        let open = filter.open(merged);
        let mut locations = Locations::new(self, merged);
        fitting.any(|t| {
            self.fits_node(filter, t)
                && open[t as usize].iter().any(|at| locations.conflict(&self.launch(t, *at)).is_none())
        })
    }

    /// Whether a node of type `t`, known to have the resources, has the ports free, attaches the
    /// volumes and keeps the limits.
    fn fits_node(&self, filter: &OfferingFilter<'_, '_>, t: u32) -> bool {
        let capacity = &self.snapshot.type_capacities(self.index)[t as usize];
        let instance = self.instance(t);
        let taken = capacity.ports.iter().map(|(port, _)| port);
        let limits = self.pod_reqs.ignores(&IgnoredRule::Limits(self.index));
        !filter.oversized(instance)
            && conflicting_port(&self.pod_reqs.shape.host_ports, taken).is_none()
            && self.pod_reqs.drivers().into_iter().all(|driver| self.attaches(t, driver))
            && (limits || self.snapshot.keeps_limits(self.index, t))
    }

    /// Retains the launches that no topology rule excludes.
    fn topology_permits(&self, launches: Vec<Launch>, merged: &Requirements) -> Result<Vec<Launch>, Blocked> {
        if self.topology.keys.is_empty() {
            return Ok(launches);
        }
        let mut locations = Locations::new(self, merged);
        let mut kept = Vec::new();
        let mut conflicts = BTreeSet::new();
        for launch in launches {
            match locations.conflict(&launch) {
                None => kept.push(launch),
                Some(conflict) => drop(conflicts.insert(conflict)),
            }
        }
        match conflicts.into_iter().next() {
            Some(conflict) if kept.is_empty() => Err(Blocked::Topology(conflict, locations.into_locations())),
            _ => Ok(kept),
        }
    }

    /// The value of the label `key` on a new node, from offering and type. The hostname, not yet
    /// known, is the empty string.
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

/// The topology labels of launches; each distinct set is checked once.
struct Locations<'s, 't, 'i> {
    trial: &'s Trial<'t, 'i>,
    /// Values of labels that neither type nor offering decides.
    fallback: Vec<Option<Text>>,
    checked: FxHashMap<LabelValues<'s>, (Location, Option<TopologyConflict>)>,
}

/// Values of the topology keys, as far as type and offering decide them.
type LabelValues<'s> = SmallVec<[Option<&'s str>; 3]>;

impl<'s, 't, 'i> Locations<'s, 't, 'i> {
    fn new(trial: &'s Trial<'t, 'i>, merged: &Requirements) -> Self {
        let value = |key: &Text| merged.get(key).and_then(Requirement::representative);
        Self { trial, fallback: trial.topology.keys.iter().map(value).collect(), checked: FxHashMap::default() }
    }

    /// The rule that excludes `launch`.
    fn conflict(&mut self, launch: &Launch) -> Option<TopologyConflict> {
        let (trial, topology) = (self.trial, self.trial.topology);
        if topology.keys.is_empty() {
            return None;
        }
        let own: LabelValues<'s> = topology.keys.iter().map(|key| trial.label(launch, key)).collect();
        if let Some((_, conflict)) = self.checked.get(&own) {
            return *conflict;
        }
        let value = |(own, fallback): (&Option<&str>, &Option<Text>)| own.map(Text::from).or_else(|| fallback.clone());
        let mut values = own.iter().zip(&self.fallback).map(value);
        let location = topology.location(|_| values.next().flatten());
        let conflict = topology.conflict(&location);
        self.checked.insert(own, (location, conflict));
        conflict
    }

    /// Every distinct location, in order.
    fn into_locations(self) -> Vec<Location> {
        self.checked.into_values().map(|(location, _)| location).collect::<BTreeSet<Location>>().into_iter().collect()
    }
}
