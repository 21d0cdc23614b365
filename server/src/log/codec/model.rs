//! The engine's types, field by field, in the order in which they are written.

use std::collections::BTreeMap;

use engine::input::{MinValuesPolicy, Policy, PreferencePolicy};
use engine::model::{
    CapacityType, Catalogue, Effect, HostPort, InstanceType, LabelSelector, MicroUsd, NodeSelectorTerm, NodeStage,
    NotReady, Offering, OptInRules, PodAffinityTerm, PodShape, Requirement, RequirementParts, Requirements,
    Reservation, Resources, SelectorOperator, SelectorTerm, SpreadConstraint, Taint, Text, Timestamp, Toleration,
    TolerationOperator, VolumeAlternatives, Weighted,
};
use engine::plan::{Plan, PlanReport, PlannedNode, Reason, ReasonCode, Unschedulable};

use super::{Coded, Corrupt, Reader};

/// A struct as its fields, in this order.
macro_rules! fields {
    ($($name:ident { $($field:ident),* $(,)? })*) => { $(
        impl Coded for $name {
            fn put(&self, out: &mut Vec<u8>) {
                let Self { $($field),* } = self;
                $($field.put(out);)*
            }

            fn get(from: &mut Reader<'_>) -> Result<Self, Corrupt> {
                Ok(Self { $($field: Coded::get(from)?),* })
            }
        }
    )* };
}

/// An enum without contents as numbers.
macro_rules! words {
    ($($name:ident { $($variant:ident = $number:literal),* $(,)? })*) => { $(
        impl Coded for $name {
            fn put(&self, out: &mut Vec<u8>) {
                let number: u8 = match self { $(Self::$variant => $number),* };
                number.put(out);
            }

            fn get(from: &mut Reader<'_>) -> Result<Self, Corrupt> {
                match u8::get(from)? {
                    $($number => Ok(Self::$variant),)*
                    _ => Err(Corrupt(stringify!($name))),
                }
            }
        }
    )* };
}

words! {
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
    VolumeAlternatives { any_of, attachments, blocked }
    OptInRules {
        zone_balance, safe_architectures, spot_fallback_after_ms, max_price_per_vcpu, max_node_price, spot_max_percent,
        on_demand_min_nodes, max_node_vcpu, min_nodes,
    }
    Reservation { id, remaining }
    InstanceType { name, labels, capacity, allocatable, exotic, offerings }
    Catalogue { types, offering_keys }
    RequirementParts { key, complement, values, gte, lte, absence, min_values }
    PlannedNode {
        name, pool, capacity_type, zones, types, price, reservation, pods, labels, taints, requests,
    }
    Plan { nodes, static_nodes, placements, unschedulable, order }
    Reason { pool, code, message }
    Unschedulable { pod, reasons, fits_if }
    PlanReport { unschedulable, new_cost, lower_bound, notes, search_steps }
}

/// A policy is a value of its own in the log, so what was added to it stands at its end, and is not there in older ones: those
/// had no such bounds.
impl Coded for Policy {
    fn put(&self, out: &mut Vec<u8>) {
        let Self { preferences, min_values, well_known_labels, search_steps, seed, step_limit, preferred_terms } = self;
        preferences.put(out);
        min_values.put(out);
        well_known_labels.put(out);
        search_steps.put(out);
        seed.put(out);
        if (*step_limit, *preferred_terms) != (0, 0) {
            step_limit.put(out);
            preferred_terms.put(out);
        }
    }

    fn get(from: &mut Reader<'_>) -> Result<Self, Corrupt> {
        let (preferences, min_values) = (Coded::get(from)?, Coded::get(from)?);
        let (well_known_labels, search_steps, seed) = (Coded::get(from)?, Coded::get(from)?, Coded::get(from)?);
        let (step_limit, preferred_terms) =
            if from.is_empty() { (0, 0) } else { (Coded::get(from)?, Coded::get(from)?) };
        Ok(Self { preferences, min_values, well_known_labels, search_steps, seed, step_limit, preferred_terms })
    }
}

impl<T: Coded> Coded for Weighted<T> {
    fn put(&self, out: &mut Vec<u8>) {
        self.weight.put(out);
        self.term.put(out);
    }

    fn get(from: &mut Reader<'_>) -> Result<Self, Corrupt> {
        Ok(Self { weight: Coded::get(from)?, term: Coded::get(from)? })
    }
}

impl Coded for MicroUsd {
    fn put(&self, out: &mut Vec<u8>) {
        self.0.put(out);
    }

    fn get(from: &mut Reader<'_>) -> Result<Self, Corrupt> {
        i64::get(from).map(Self)
    }
}

impl Coded for Timestamp {
    fn put(&self, out: &mut Vec<u8>) {
        self.0.put(out);
    }

    fn get(from: &mut Reader<'_>) -> Result<Self, Corrupt> {
        i64::get(from).map(Self)
    }
}

impl Coded for NotReady {
    fn put(&self, out: &mut Vec<u8>) {
        let (number, why): (u8, &Text) = match self {
            Self::NodeClass(why) => (0, why),
            Self::NodePool(why) => (1, why),
        };
        number.put(out);
        why.put(out);
    }

    fn get(from: &mut Reader<'_>) -> Result<Self, Corrupt> {
        match u8::get(from)? {
            0 => Text::get(from).map(Self::NodeClass),
            1 => Text::get(from).map(Self::NodePool),
            _ => Err(Corrupt("NotReady")),
        }
    }
}

impl Coded for Resources {
    fn put(&self, out: &mut Vec<u8>) {
        let amounts: BTreeMap<Text, i64> = self.iter().map(|(name, amount)| (name.clone(), amount)).collect();
        amounts.put(out);
    }

    fn get(from: &mut Reader<'_>) -> Result<Self, Corrupt> {
        Ok(<BTreeMap<Text, i64> as Coded>::get(from)?.into_iter().collect())
    }
}

impl Coded for Requirement {
    fn put(&self, out: &mut Vec<u8>) {
        RequirementParts::from(self.clone()).put(out);
    }

    fn get(from: &mut Reader<'_>) -> Result<Self, Corrupt> {
        RequirementParts::get(from).map(Self::from)
    }
}

impl Coded for Requirements {
    fn put(&self, out: &mut Vec<u8>) {
        self.iter().cloned().collect::<Vec<Requirement>>().put(out);
    }

    fn get(from: &mut Reader<'_>) -> Result<Self, Corrupt> {
        Ok(Vec::<Requirement>::get(from)?.into_iter().collect())
    }
}

/// All but whether it is available: that changes with every refusal of the cloud, and is written apart, so that one
/// catalogue stays one content.
impl Coded for Offering {
    fn put(&self, out: &mut Vec<u8>) {
        let Self { zone, capacity_type, price, estimated, available: _, reservation, labels } = self;
        zone.put(out);
        capacity_type.put(out);
        price.put(out);
        estimated.put(out);
        reservation.put(out);
        labels.put(out);
    }

    fn get(from: &mut Reader<'_>) -> Result<Self, Corrupt> {
        Ok(Self {
            zone: Coded::get(from)?,
            capacity_type: Coded::get(from)?,
            price: Coded::get(from)?,
            estimated: Coded::get(from)?,
            available: true,
            reservation: Coded::get(from)?,
            labels: Coded::get(from)?,
        })
    }
}
