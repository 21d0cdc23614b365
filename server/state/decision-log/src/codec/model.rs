//! Encodings of the types of `model`, field by field, in encoding order.

use std::collections::BTreeMap;

use model::input::{MinValuesPolicy, Policy, PreferencePolicy};
use model::plan::{Plan, PlanReport, PlannedNode, Reason, ReasonCode, Unschedulable};
use model::{
    Burstable, CapacityType, Catalogue, Effect, HostPort, InstanceType, InstanceTypeName, LabelSelector, MicroUsd,
    Millis, NodeName, NodeSelectorTerm, NodeStage, NotReady, Offering, OptInRules, PodAffinityTerm, PodShape, PoolName,
    Requirement, RequirementParts, Requirements, Reservation, Resources, SelectorOperator, SelectorTerm,
    SpreadConstraint, Taint, Text, Timestamp, Toleration, TolerationOperator, VolumeAlternatives, Weighted, Zone,
};

use super::{Codec, DecodeError, Reader};

/// Encodes a struct as its fields, in this order.
macro_rules! fields {
    ($($name:ident { $($field:ident),* $(,)? })*) => { $(
        impl Codec for $name {
            fn put(&self, out: &mut Vec<u8>) {
                let Self { $($field),* } = self;
                $($field.put(out);)*
            }

            fn get(from: &mut Reader<'_>) -> Result<Self, DecodeError> {
                Ok(Self { $($field: Codec::get(from)?),* })
            }
        }
    )* };
}

/// Encodes a name as its text.
macro_rules! names {
    ($($name:ident),* $(,)?) => { $(
        impl Codec for $name {
            fn put(&self, out: &mut Vec<u8>) {
                self.as_text().put(out);
            }

            fn get(from: &mut Reader<'_>) -> Result<Self, DecodeError> {
                Text::get(from).map(Self::from)
            }
        }
    )* };
}

/// Encodes a fieldless enum as a number.
macro_rules! fieldless_enums {
    ($($name:ident { $($variant:ident = $number:literal),* $(,)? })*) => { $(
        impl Codec for $name {
            fn put(&self, out: &mut Vec<u8>) {
                let number: u8 = match self { $(Self::$variant => $number),* };
                number.put(out);
            }

            fn get(from: &mut Reader<'_>) -> Result<Self, DecodeError> {
                match u8::get(from)? {
                    $($number => Ok(Self::$variant),)*
                    _ => Err(DecodeError(stringify!($name))),
                }
            }
        }
    )* };
}

pub(super) use {fieldless_enums, fields, names};

names! { InstanceTypeName, NodeName, PoolName, Zone }

fieldless_enums! {
    CapacityType { Reserved = 0, Spot = 1, OnDemand = 2 }
    Effect { NoSchedule = 0, PreferNoSchedule = 1, NoExecute = 2 }
    TolerationOperator { Equal = 0, Exists = 1, Lt = 2, Gt = 3 }
    SelectorOperator { In = 0, NotIn = 1, Exists = 2, DoesNotExist = 3 }
    NodeStage { InFlight = 0, Registered = 1, Initialized = 2, Deleting = 3 }
    PreferencePolicy { Respect = 0, Ignore = 1 }
    MinValuesPolicy { Strict = 0, BestEffort = 1 }
    ReasonCode {
        Requirements = 0, Taints = 1, Resources = 2, Limits = 3, TopologySpread = 4, PodAffinity = 5, PodAntiAffinity = 6,
        HostPorts = 7, Volumes = 8, MinValues = 9, NoOffering = 10, NodeClassNotReady = 11, NodePoolNotReady = 12,
        NoNodePool = 13, InvalidPod = 14, HeldBack = 15, Internal = 16, StepLimit = 17,
    }
}

fields! {
    Taint { key, value, effect }
    Toleration { key, operator, value, effect }
    SelectorTerm { key, operator, values }
    LabelSelector { terms }
    HostPort { ip, protocol, port }
    NodeSelectorTerm { expressions, names }
    PodAffinityTerm { topology_key, selector, namespaces, namespace_selector }
    SpreadConstraint {
        topology_key, max_skew, min_domains, hard, selector, honor_node_affinity, honor_node_taints,
    }
    PodShape {
        requests, node_selector, node_affinity, preferred_node_affinity, pod_affinity, preferred_pod_affinity,
        pod_anti_affinity, preferred_pod_anti_affinity, spread, tolerations, host_ports, priority,
    }
    VolumeAlternatives { any_of, attachments, exclusive_claims, blocked }
    Reservation { id, remaining }
    Burstable { baseline, credit_price }
    RequirementParts { key, complement, values, gte, lte, absence, min_values }
    Plan { nodes, static_nodes, placements, unschedulable, order }
    Reason { pool, code, message }
    Unschedulable { pod, reasons, fits_if }
}

/// Encodes everything but the realised cost and the cost of the first packing, which follow with the
/// credits of the nodes.
impl Codec for PlanReport {
    fn put(&self, out: &mut Vec<u8>) {
        let Self { unschedulable, new_cost, lower_bound, realised_cost: _, first_cost: _, notes, search_steps } = self;
        unschedulable.put(out);
        new_cost.put(out);
        lower_bound.put(out);
        notes.put(out);
        search_steps.put(out);
    }

    fn get(from: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let (unschedulable, new_cost, lower_bound) = (Codec::get(from)?, Codec::get(from)?, Codec::get(from)?);
        let (notes, search_steps) = (Codec::get(from)?, Codec::get(from)?);
        Ok(Self { unschedulable, new_cost, lower_bound, realised_cost: None, first_cost: None, notes, search_steps })
    }
}

/// The rules are the end of a pool's record, so newer fields are appended, and absent in older
/// records: those had neither.
impl Codec for OptInRules {
    fn put(&self, out: &mut Vec<u8>) {
        let Self {
            zone_balance,
            safe_architectures,
            spot_fallback_after,
            max_price_per_vcpu,
            max_node_price,
            spot_max_percent,
            on_demand_min_nodes,
            max_node_vcpu,
            min_nodes,
            ignores_credits,
            node_overhead,
        } = self;
        zone_balance.put(out);
        safe_architectures.put(out);
        spot_fallback_after.put(out);
        max_price_per_vcpu.put(out);
        max_node_price.put(out);
        spot_max_percent.put(out);
        on_demand_min_nodes.put(out);
        max_node_vcpu.put(out);
        min_nodes.put(out);
        if (*ignores_credits, *node_overhead) != (false, None) {
            ignores_credits.put(out);
            node_overhead.put(out);
        }
    }

    fn get(from: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let mut rules = Self {
            zone_balance: Codec::get(from)?,
            safe_architectures: Codec::get(from)?,
            spot_fallback_after: Codec::get(from)?,
            max_price_per_vcpu: Codec::get(from)?,
            max_node_price: Codec::get(from)?,
            spot_max_percent: Codec::get(from)?,
            on_demand_min_nodes: Codec::get(from)?,
            max_node_vcpu: Codec::get(from)?,
            min_nodes: Codec::get(from)?,
            ignores_credits: false,
            node_overhead: None,
        };
        if !from.is_empty() {
            (rules.ignores_credits, rules.node_overhead) = (Codec::get(from)?, Codec::get(from)?);
        }
        Ok(rules)
    }
}

/// Encodes everything but the baseline of burstable types, which follows all types of a catalogue.
impl Codec for InstanceType {
    fn put(&self, out: &mut Vec<u8>) {
        let Self { name, labels, capacity, allocatable, exotic, burstable: _, offerings } = self;
        name.put(out);
        labels.put(out);
        capacity.put(out);
        allocatable.put(out);
        exotic.put(out);
        offerings.put(out);
    }

    fn get(from: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            name: Codec::get(from)?,
            labels: Codec::get(from)?,
            capacity: Codec::get(from)?,
            allocatable: Codec::get(from)?,
            exotic: Codec::get(from)?,
            burstable: None,
            offerings: Codec::get(from)?,
        })
    }
}

/// A catalogue is a blob of its own, so the burstable types are appended, and absent in older blobs: credits were not
/// charged then. The prices that overlays have changed follow them, for each offering of each type, and are absent where
/// none has.
impl Codec for Catalogue {
    fn put(&self, out: &mut Vec<u8>) {
        let Self { types, offering_keys } = self;
        types.put(out);
        offering_keys.put(out);
        let catalogue_prices = types.iter().flat_map(|kind| &kind.offerings).map(|offering| offering.catalogue_price);
        let has_changed = catalogue_prices.clone().any(|price| price.is_some());
        if has_changed || types.iter().any(|kind| kind.burstable.is_some()) {
            types.iter().map(|kind| kind.burstable).collect::<Vec<_>>().put(out);
        }
        if has_changed {
            catalogue_prices.collect::<Vec<_>>().put(out);
        }
    }

    fn get(from: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let mut catalogue = Self { types: Codec::get(from)?, offering_keys: Codec::get(from)? };
        if !from.is_empty() {
            let burstable: Vec<Option<Burstable>> = Codec::get(from)?;
            catalogue.types.iter_mut().zip(burstable).for_each(|(kind, burstable)| kind.burstable = burstable);
        }
        if !from.is_empty() {
            let catalogue_prices: Vec<Option<MicroUsd>> = Codec::get(from)?;
            let offerings = catalogue.types.iter_mut().flat_map(|kind| &mut kind.offerings);
            offerings.zip(catalogue_prices).for_each(|(offering, price)| offering.catalogue_price = price);
        }
        Ok(catalogue)
    }
}

/// Encodes everything but the credits, which follow the report of a plan.
impl Codec for PlannedNode {
    fn put(&self, out: &mut Vec<u8>) {
        let Self {
            name,
            pool,
            capacity_type,
            zones,
            types,
            price,
            credits: _,
            reservation,
            pods,
            labels,
            taints,
            requests,
        } = self;
        name.put(out);
        pool.put(out);
        capacity_type.put(out);
        zones.put(out);
        types.put(out);
        price.put(out);
        reservation.put(out);
        pods.put(out);
        labels.put(out);
        taints.put(out);
        requests.put(out);
    }

    fn get(from: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            name: Codec::get(from)?,
            pool: Codec::get(from)?,
            capacity_type: Codec::get(from)?,
            zones: Codec::get(from)?,
            types: Codec::get(from)?,
            price: Codec::get(from)?,
            credits: MicroUsd(0),
            reservation: Codec::get(from)?,
            pods: Codec::get(from)?,
            labels: Codec::get(from)?,
            taints: Codec::get(from)?,
            requests: Codec::get(from)?,
        })
    }
}

/// Encodes the credits of the nodes of `plan`.
pub(crate) fn put_credits(plan: &Plan, bytes: &mut Vec<u8>) {
    let credits = |nodes: &[PlannedNode]| nodes.iter().map(|node| node.credits).collect::<Vec<_>>();
    credits(&plan.nodes).put(bytes);
    credits(&plan.static_nodes).put(bytes);
}

/// Decodes the credits of the nodes of `plan`.
pub(crate) fn get_credits(plan: &mut Plan, from: &mut Reader<'_>) -> Result<(), DecodeError> {
    for nodes in [&mut plan.nodes, &mut plan.static_nodes] {
        let credits: Vec<MicroUsd> = Codec::get(from)?;
        nodes.iter_mut().zip(credits).for_each(|(node, credits)| node.credits = credits);
    }
    Ok(())
}

/// A policy is a blob of its own, so newer fields are appended, and absent in older blobs: those
/// had no such bounds, and no nominations.
impl Codec for Policy {
    fn put(&self, out: &mut Vec<u8>) {
        let Self {
            preferences,
            min_values,
            well_known_labels,
            search_steps,
            seed,
            step_limit,
            nominations,
            preferred_terms,
        } = self;
        preferences.put(out);
        min_values.put(out);
        well_known_labels.put(out);
        search_steps.put(out);
        seed.put(out);
        if (*step_limit, *preferred_terms, *nominations) != (0, 0, false) {
            step_limit.put(out);
            preferred_terms.put(out);
        }
        if *nominations {
            nominations.put(out);
        }
    }

    fn get(from: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let (preferences, min_values) = (Codec::get(from)?, Codec::get(from)?);
        let (well_known_labels, search_steps, seed) = (Codec::get(from)?, Codec::get(from)?, Codec::get(from)?);
        let (step_limit, preferred_terms) =
            if from.is_empty() { (0, 0) } else { (Codec::get(from)?, Codec::get(from)?) };
        let nominations = if from.is_empty() { false } else { Codec::get(from)? };
        Ok(Self {
            preferences,
            min_values,
            well_known_labels,
            search_steps,
            seed,
            step_limit,
            nominations,
            preferred_terms,
        })
    }
}

impl<T: Codec> Codec for Weighted<T> {
    fn put(&self, out: &mut Vec<u8>) {
        self.weight.put(out);
        self.term.put(out);
    }

    fn get(from: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self { weight: Codec::get(from)?, term: Codec::get(from)? })
    }
}

impl Codec for MicroUsd {
    fn put(&self, out: &mut Vec<u8>) {
        self.0.put(out);
    }

    fn get(from: &mut Reader<'_>) -> Result<Self, DecodeError> {
        i64::get(from).map(Self)
    }
}

impl Codec for Millis {
    fn put(&self, out: &mut Vec<u8>) {
        self.get().put(out);
    }

    fn get(from: &mut Reader<'_>) -> Result<Self, DecodeError> {
        i64::get(from).map(Self::new)
    }
}

impl Codec for Timestamp {
    fn put(&self, out: &mut Vec<u8>) {
        self.as_millis().put(out);
    }

    fn get(from: &mut Reader<'_>) -> Result<Self, DecodeError> {
        i64::get(from).map(Self::from_millis)
    }
}

impl Codec for NotReady {
    fn put(&self, out: &mut Vec<u8>) {
        let (number, why): (u8, &Text) = match self {
            Self::NodeClass(why) => (0, why),
            Self::NodePool(why) => (1, why),
        };
        number.put(out);
        why.put(out);
    }

    fn get(from: &mut Reader<'_>) -> Result<Self, DecodeError> {
        match u8::get(from)? {
            0 => Text::get(from).map(Self::NodeClass),
            1 => Text::get(from).map(Self::NodePool),
            _ => Err(DecodeError("NotReady")),
        }
    }
}

impl Codec for Resources {
    fn put(&self, out: &mut Vec<u8>) {
        let amounts: BTreeMap<Text, i64> = self.iter().map(|(name, amount)| (name.clone(), amount)).collect();
        amounts.put(out);
    }

    fn get(from: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(<BTreeMap<Text, i64> as Codec>::get(from)?.into_iter().collect())
    }
}

impl Codec for Requirement {
    fn put(&self, out: &mut Vec<u8>) {
        RequirementParts::from(self.clone()).put(out);
    }

    fn get(from: &mut Reader<'_>) -> Result<Self, DecodeError> {
        RequirementParts::get(from).map(Self::from)
    }
}

impl Codec for Requirements {
    fn put(&self, out: &mut Vec<u8>) {
        self.iter().cloned().collect::<Vec<Requirement>>().put(out);
    }

    fn get(from: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Vec::<Requirement>::get(from)?.into_iter().collect())
    }
}

/// Encodes everything but the availability, which changes with every refusal and is encoded
/// separately, so that the catalogue keeps its hash, and the price of the catalogue, which follows all types.
impl Codec for Offering {
    fn put(&self, out: &mut Vec<u8>) {
        let Self { zone, capacity_type, price, estimated, catalogue_price: _, available: _, reservation, labels } =
            self;
        zone.put(out);
        capacity_type.put(out);
        price.put(out);
        estimated.put(out);
        reservation.put(out);
        labels.put(out);
    }

    fn get(from: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            zone: Codec::get(from)?,
            capacity_type: Codec::get(from)?,
            price: Codec::get(from)?,
            estimated: Codec::get(from)?,
            catalogue_price: None,
            available: true,
            reservation: Codec::get(from)?,
            labels: Codec::get(from)?,
        })
    }
}
