//! A NodeClaim of the round, and how it grows (Karpenter core §3.12).

use std::collections::{BTreeMap, BTreeSet};

use model::input::{MinValuesPolicy, PlanningInput};
use model::labels::HOSTNAME;
use model::{CapacityType, HostPort, Requirement, Requirements, Text};

use crate::amounts::Amounts;
use crate::pods::{PodKind, Variant};
use crate::reservations::Reservations;
use crate::supply::{PoolSupply, TypeSupply};
use crate::topology::{Topology, VariantId};

/// A machine to launch, with every instance type that still holds its pods.
#[derive(Clone)]
pub(crate) struct Claim {
    /// Index into the pools of the round.
    pub(crate) pool: usize,
    /// Placeholder of the hostname, unique in the round.
    host: Text,
    pub(crate) requirements: Requirements,
    /// Indices into the types of the pool.
    pub(crate) types: Vec<usize>,
    pub(crate) pods: Vec<u32>,
    /// Ids of the reservations of which it holds an instance.
    pub(crate) reserved: BTreeSet<Text>,
    requests: Amounts,
    ports: Vec<HostPort>,
    /// `minValues` that were lowered to what there is (`BestEffort`).
    lowered: BTreeMap<Text, u32>,
    /// Variants that can never join, since a NodeClaim only gets narrower.
    refused: BTreeSet<VariantId>,
}

/// Why a pod does not join a NodeClaim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// It never will.
    Permanent,
    /// It may after other pods were placed.
    Temporary,
    /// The reservations that it would use have no instance left.
    Reserved,
}

/// A NodeClaim after a pod joined.
pub(crate) struct Growth {
    requirements: Requirements,
    types: Vec<usize>,
    reserved: BTreeSet<Text>,
    lowered: BTreeMap<Text, u32>,
}

/// What evaluations of a round read.
pub(crate) struct RoundState<'r, 'i> {
    pub(crate) input: &'i PlanningInput,
    pub(crate) topology: &'r Topology<'i>,
    pub(crate) reservations: &'r Reservations,
}

impl Claim {
    /// An empty NodeClaim of `pool`, with the types that the limits of the pool allow.
    pub(crate) fn new(pool: usize, supply: &PoolSupply<'_>, number: usize, nothing: Amounts) -> Self {
        let host = Text::from(format!("new-node-{number:06}"));
        let mut requirements = supply.template.clone();
        requirements.add(Requirement::equals(HOSTNAME, host.clone()));
        let within = |at: &usize| supply.types[*at].capacity.fits_into(&supply.limits_left);
        Self {
            pool,
            host,
            requirements,
            types: (0..supply.types.len()).filter(within).collect(),
            pods: Vec::new(),
            reserved: BTreeSet::new(),
            requests: nothing,
            ports: Vec::new(),
            lowered: BTreeMap::new(),
            refused: BTreeSet::new(),
        }
    }

    pub(crate) fn host(&self) -> &Text {
        &self.host
    }

    /// What the NodeClaim becomes if a pod of the variant joins.
    pub(crate) fn try_pod(
        &self,
        supply: &PoolSupply<'_>,
        pod: &PodKind,
        id: VariantId,
        around: &RoundState<'_, '_>,
    ) -> Result<Growth, Refusal> {
        let variant = &pod.variants[id.1];
        if self.refused.contains(&id) {
            return Err(Refusal::Permanent);
        }
        if !around.topology.allows_host(id, &self.host) {
            return Err(Refusal::Temporary);
        }
        let requests = self.requests.plus(&pod.requests);
        if !self.may_ever_join(supply, variant, &requests, around.input) {
            return Err(Refusal::Permanent);
        }
        let mut joined = self.requirements.clone();
        joined.add_all(&variant.requirements);
        let mut last = Refusal::Temporary;
        for volumes in volume_alternatives(pod, around.input) {
            let well_known = |key: &str| around.input.policy.is_well_known(key);
            let mut wanted = joined.clone();
            if let Some(volumes) = volumes {
                if joined.first_incompatible(volumes, well_known).is_some() {
                    continue;
                }
                wanted.add_all(volumes);
            }
            let Some(restricted) = around.topology.restrict(id, &variant.strict, &wanted) else { continue };
            if wanted.first_incompatible(&restricted, well_known).is_some() {
                continue;
            }
            match self.grow(supply, variant, restricted, &requests, around) {
                Ok(growth) => return Ok(growth),
                Err(refusal) => last = refusal,
            }
        }
        Err(last)
    }

    /// Whether taints, labels, host ports and the sum of requests allow the variant; what they refuse,
    /// they refuse for good.
    fn may_ever_join(
        &self,
        supply: &PoolSupply<'_>,
        variant: &Variant,
        requests: &Amounts,
        input: &PlanningInput,
    ) -> bool {
        let well_known = |key: &str| input.policy.is_well_known(key);
        variant.tolerates(&supply.pool.taints)
            && !conflict(&variant.shape.host_ports, &self.ports)
            && self.requirements.first_incompatible(&variant.requirements, well_known).is_none()
            && self.types.iter().any(|at| requests.fits_into(&supply.types[*at].free))
    }

    fn grow(
        &self,
        supply: &PoolSupply<'_>,
        variant: &Variant,
        wanted: Requirements,
        requests: &Amounts,
        around: &RoundState<'_, '_>,
    ) -> Result<Growth, Refusal> {
        let offerings = supply.allowed_offerings(&wanted, around.input);
        let narrowed: Requirements = wanted
            .iter()
            .filter(|new| self.pods.is_empty() || self.requirements.get(new.key()) != Some(new))
            .cloned()
            .collect();
        let holds = |machine: &TypeSupply<'_>| {
            requests.fits_into(&machine.free)
                && !conflict(&variant.shape.host_ports, &machine.ports)
                && machine.offerings.iter().any(|(kind, _)| offerings[*kind])
                && narrowed.first_conflict(&machine.requirements).is_none()
        };
        let types: Vec<usize> = self.types.iter().copied().filter(|at| holds(&supply.types[*at])).collect();
        if types.is_empty() {
            return Err(Refusal::Temporary);
        }
        let lowered = self.check_min_values(supply, &wanted, &types, around.input)?;
        let reserved = self.reservations(supply, &types, &offerings, around.reservations)?;
        Ok(Growth { requirements: wanted, types, reserved, lowered })
    }

    /// Counts the values of every key with `minValues`. Too few refuse the pod; the first pod of a
    /// NodeClaim lowers them instead under `BestEffort`.
    fn check_min_values(
        &self,
        supply: &PoolSupply<'_>,
        wanted: &Requirements,
        types: &[usize],
        input: &PlanningInput,
    ) -> Result<BTreeMap<Text, u32>, Refusal> {
        let mut lowered = self.lowered.clone();
        for requirement in wanted.iter() {
            let Some(stated) = requirement.min_values() else { continue };
            let least = lowered.get(requirement.key()).copied().unwrap_or(stated);
            let types = types.iter().map(|at| &supply.types[*at]);
            let count = distinct_values(requirement.key(), types);
            if count >= least {
                continue;
            }
            if input.policy.min_values == MinValuesPolicy::Strict || !self.pods.is_empty() {
                return Err(Refusal::Temporary);
            }
            lowered.insert(requirement.key().clone(), count);
        }
        Ok(lowered)
    }

    /// The reservations that the NodeClaim would hold: all that it may use and that have an instance
    /// left.
    fn reservations(
        &self,
        supply: &PoolSupply<'_>,
        types: &[usize],
        allowed: &[bool],
        reservations: &Reservations,
    ) -> Result<BTreeSet<Text>, Refusal> {
        let offerings = types.iter().flat_map(|at| &supply.types[*at].offerings).filter(|(kind, _)| allowed[*kind]);
        let reserved = offerings.filter(|(_, offering)| offering.capacity_type == CapacityType::Reserved);
        let usable: BTreeSet<&Text> = reserved
            .filter_map(|(_, offering)| offering.reservation.as_ref())
            .map(|reservation| &reservation.id)
            .collect();
        let is_free = |id: &&Text| self.reserved.contains(*id) || reservations.has_capacity(id);
        let held: BTreeSet<Text> = usable.iter().copied().filter(is_free).cloned().collect();
        let none_left = held.is_empty() && (!usable.is_empty() || !self.reserved.is_empty());
        if none_left { Err(Refusal::Reserved) } else { Ok(held) }
    }

    /// Adds the pod that `growth` was evaluated for.
    pub(crate) fn accept(&mut self, pod: u32, kind: &PodKind, variant: &Variant, growth: Growth) {
        self.requirements = growth.requirements;
        self.types = growth.types;
        self.reserved = growth.reserved;
        self.lowered = growth.lowered;
        self.requests = self.requests.plus(&kind.requests);
        self.ports.extend(variant.shape.host_ports.iter().cloned());
        self.pods.push(pod);
    }

    /// What the NodeClaim requests: its pods, and the least that DaemonSets request on a node of any of its
    /// types. A group of types without DaemonSets lowers that to nothing, but the next group then counts in
    /// full (L30), so that a type which holds the pods may be lost. Karpenter takes groups in the order of a
    /// map; here they are in the order of the types.
    pub(crate) fn final_requests(&self, supply: &PoolSupply<'_>) -> Amounts {
        let groups: BTreeSet<usize> = self.types.iter().map(|at| supply.types[*at].daemon_group).collect();
        let groups = groups.into_iter().map(|at| &supply.daemon_groups[at]);
        let least = groups.cloned().reduce(|least, next| if least.is_zero() { next } else { least.least(&next) });
        least.map_or_else(|| self.requests.clone(), |least| self.requests.plus(&least))
    }

    pub(crate) fn refuse_for_good(&mut self, id: VariantId) {
        self.refused.insert(id);
    }

    /// Whether `minValues` holds for `types`.
    pub(crate) fn has_min_values(&self, supply: &PoolSupply<'_>, types: &[usize]) -> bool {
        self.requirements.iter().all(|requirement| {
            let stated = self.lowered.get(requirement.key()).copied().or_else(|| requirement.min_values());
            stated.is_none_or(|least| {
                distinct_values(requirement.key(), types.iter().map(|at| &supply.types[*at])) >= least
            })
        })
    }
}

impl Growth {
    pub(crate) fn requirements(&self) -> &Requirements {
        &self.requirements
    }

    pub(crate) fn types(&self) -> &[usize] {
        &self.types
    }

    pub(crate) fn reserved(&self) -> &BTreeSet<Text> {
        &self.reserved
    }
}

/// Number of different values of the label `key` among `types`.
fn distinct_values<'t>(key: &str, types: impl Iterator<Item = &'t TypeSupply<'t>>) -> u32 {
    let values: BTreeSet<&Text> =
        types.filter_map(|machine| machine.requirements.get(key)?.finite_values()).flatten().collect();
    u32::try_from(values.len()).unwrap_or(u32::MAX)
}

pub(crate) fn conflict(wanted: &[HostPort], taken: &[HostPort]) -> bool {
    wanted.iter().any(|port| taken.iter().any(|other| port.conflicts_with(other)))
}

/// Node requirements of the pod's volumes, in the order in which they are tried.
pub(crate) fn volume_alternatives<'i>(pod: &PodKind, input: &'i PlanningInput) -> Vec<Option<&'i Requirements>> {
    match pod.volumes.map(|index| &input.volume_sets[index as usize].any_of) {
        Some(any_of) if !any_of.is_empty() => any_of.iter().map(Some).collect(),
        _ => vec![None],
    }
}
