//! Encodings of the types of `model`, field by field, in encoding order.

use std::collections::BTreeMap;

use model::input::{MinValuesPolicy, Policy, PreferencePolicy};
use model::offering::SharedCatalogue;
use model::plan::{Plan, PlanReport, PlannedNode, Reason, ReasonCode, Unschedulable};
use model::{
    Burstable, CapacityType, Catalogue, Effect, HostPort, InstanceType, InstanceTypeName, LabelSelector, MicroUsd,
    Millis, Node, NodeName, NodePool, NodeSelectorTerm, NodeStage, NotReady, Offering, OptInRules, PodAffinityTerm,
    PodShape, PoolName, Requirement, RequirementParts, Requirements, Reservation, Resources, SelectorOperator,
    SelectorTerm, SpreadConstraint, Taint, Text, Timestamp, Toleration, TolerationOperator, VolumeAlternatives,
    Weighted, Zone,
};

use super::{Codec, DecodeError, Reader};

/// Encodes a struct as its fields, in this order. Those after the minus sign are encoded elsewhere, and decoded as what
/// follows them.
macro_rules! fields {
    ($($name:ident { $($field:ident),* $(,)? } $(- { $($left:ident: $value:expr),* $(,)? })?)*) => { $(
        impl Codec for $name {
            fn put(&self, out: &mut Vec<u8>) {
                let Self { $($field,)* $($($left: _,)*)? } = self;
                $($field.put(out);)*
            }

            fn get(from: &mut Reader<'_>) -> Result<Self, DecodeError> {
                Ok(Self { $($field: Codec::get(from)?,)* $($($left: $value,)*)? })
            }
        }
    )* };
}

/// Encodes a struct that ends its blob or record as its fields, in this order, and then what later releases added: each
/// addition unless it and all after it have these values, which those have that are not there.
macro_rules! extended_fields {
    ($($name:ident { $($field:ident),* $(,)? } $(+ { $($added:ident: $absent:expr),* $(,)? })*)*) => { $(
        impl Codec for $name {
            fn put(&self, out: &mut Vec<u8>) {
                let Self { $($field,)* $($($added,)*)* } = self;
                $($field.put(out);)*
                let is_set = [$($($added.ne(&$absent))||*),*];
                let mut written = 0..is_set.iter().rposition(|is_set| *is_set).map_or(0, |last| last + 1);
                $(if written.next().is_some() {
                    $($added.put(out);)*
                })*
            }

            fn get(from: &mut Reader<'_>) -> Result<Self, DecodeError> {
                let mut value = Self { $($field: Codec::get(from)?,)* $($($added: $absent,)*)* };
                $(if !from.is_empty() {
                    $(value.$added = Codec::get(from)?;)*
                })*
                Ok(value)
            }
        }
    )* };
}

/// Encodes a type as another one.
macro_rules! converted {
    ($($name:ident as $other:ty: $to:expr, $back:expr;)*) => { $(
        impl Codec for $name {
            fn put(&self, out: &mut Vec<u8>) {
                let to: fn(&Self) -> $other = $to;
                to(self).put(out);
            }

            fn get(from: &mut Reader<'_>) -> Result<Self, DecodeError> {
                <$other as Codec>::get(from).map($back)
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

pub(super) use {converted, fieldless_enums, fields, names};

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
    // The costs follow with the credits of the nodes.
    PlanReport { unschedulable, new_cost, lower_bound, notes, search_steps } - { realised_cost: None, first_cost: None }
    // The credits follow the report of a plan.
    PlannedNode {
        name, pool, capacity_type, zones, types, price, reservation, pods, labels, taints, requests,
    } - { credits: MicroUsd(0) }
    // The baselines of burstable types follow all types of a catalogue.
    InstanceType { name, labels, capacity, allocatable, exotic, offerings } - { burstable: None }
    // The availability changes with every refusal and is in the record of the pool, so that the catalogue keeps its hash; the
    // price of the catalogue follows all types.
    Offering { zone, capacity_type, price, estimated, reservation, labels } - { catalogue_price: None, available: true }
    // The pods are records of their own.
    Node {
        name, pool, labels, taints, unschedulable, allocatable, capacity, stage, attach_limits, created,
    } - { pods: Vec::new() }
    // The reference to the catalogue follows, and then the rules.
    NodePool {
        name, node_class, weight, labels, taints, startup_taints, requirements, limits, replicas, not_ready, unhealthy,
    } - { catalogue: SharedCatalogue::default(), rules: OptInRules::default() }
}

extended_fields! {
    OptInRules {
        zone_balance, safe_architectures, spot_fallback_after, max_price_per_vcpu, max_node_price, spot_max_percent,
        on_demand_min_nodes, max_node_vcpu, min_nodes,
    } + { ignores_credits: false, node_overhead: None }
    Policy { preferences, min_values, well_known_labels, search_steps, seed }
        + { step_limit: 0, preferred_terms: 0 } + { nominations: false }
}

converted! {
    MicroUsd as i64: |price| price.0, MicroUsd;
    Millis as i64: |time| time.get(), Millis::new;
    Timestamp as i64: |time| time.as_millis(), Timestamp::from_millis;
    Resources as BTreeMap<Text, i64>:
        |all| all.iter().map(|(name, amount)| (name.clone(), amount)).collect(), |all| all.into_iter().collect();
    Requirement as RequirementParts: |requirement| requirement.clone().into(), Requirement::from;
    Requirements as Vec<Requirement>: |all| all.iter().cloned().collect(), |all| all.into_iter().collect();
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

impl<T: Codec> Codec for Weighted<T> {
    fn put(&self, out: &mut Vec<u8>) {
        self.weight.put(out);
        self.term.put(out);
    }

    fn get(from: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self { weight: Codec::get(from)?, term: Codec::get(from)? })
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
