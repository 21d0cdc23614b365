//! The possible outcomes of a launch: every option in every zone that the launch may use.
//!
//! Planned nodes with equal values share one [`Launch`], so the work grows with distinct launches,
//! not with nodes.

use rustc_hash::FxHashMap;

use model::input::{PlanningInput, Policy};
use model::labels::{CAPACITY_TYPE, HOSTNAME, INITIALIZED, INSTANCE_TYPE, NODECLASS, NODEPOOL, REGISTERED, ZONE};
use model::plan::{Plan, PlannedNode};
use model::{
    CapacityType, InstanceType, Labels, MicroUsd, NodeName, NodePool, Offering, Requirement, Taint, Text, Zone,
};

/// A value that no label has and no selector can name: the hostname of a node that does not exist
/// yet.
const UNNAMEABLE: &str = "\0";

/// One possible outcome of a launch.
#[derive(Debug, Clone, Copy)]
pub struct Outcome<'a> {
    /// Index of the type in the pool's catalogue.
    pub option: u32,
    pub machine: &'a InstanceType,
    /// The offering by which it launches.
    pub offering: &'a Offering,
}

#[derive(Debug)]
pub struct Launch<'a> {
    /// One of these nodes; names and pods differ.
    pub node: &'a PlannedNode,
    pub pool: &'a NodePool,
    pub(super) pool_index: usize,
    pub(super) count: i64,
    /// Options found in the catalogue, in the order of the plan.
    pub(super) options: Vec<u32>,
    /// All possible outcomes, by option.
    pub outcomes: Vec<Outcome<'a>>,
    policy: &'a Policy,
}

/// The value of one label on one outcome, as far as it is decided.
enum LabelValue<'a> {
    Value(&'a str),
    /// One of these values, undecided.
    OneOf(Vec<&'a str>),
    Absent,
    /// Neither pool nor catalogue define the label, and the node may have it.
    Unknown,
}

/// Required certainty of an answer about an undecided label.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Certainty {
    /// The requirement holds for every possible value.
    Certain,
    /// The requirement holds for some possible value.
    Possible,
}

impl<'a> Launch<'a> {
    /// Name of the representative node, for messages.
    pub(super) fn name(&self) -> &'a NodeName {
        &self.node.name
    }

    /// The instance types of the options, in the order of the plan.
    pub(super) fn machines(&self) -> impl Iterator<Item = &'a InstanceType> + Clone {
        let types = &self.pool.catalogue.types;
        self.options.iter().map(move |option| &types[*option as usize])
    }

    /// Whether the label `key` may differ between outcomes of one option. All outcomes have the
    /// same capacity type.
    fn depends_on_offering(&self, key: &str) -> bool {
        key != CAPACITY_TYPE && belongs_to_offerings(self.pool, key)
    }

    fn label(&self, outcome: &Outcome<'a>, key: &str) -> LabelValue<'a> {
        let fixed: Option<&'a str> = match key {
            ZONE => Some(&outcome.offering.zone),
            CAPACITY_TYPE => Some(outcome.offering.capacity_type.as_str()),
            INSTANCE_TYPE => Some(&outcome.machine.name),
            NODEPOOL => Some(&self.pool.name),
            NODECLASS => Some(&self.pool.node_class),
            HOSTNAME => Some(UNNAMEABLE),
            _ => outcome.offering.labels.get(key).map(AsRef::as_ref),
        };
        if let Some(value) = fixed {
            return LabelValue::Value(value);
        }
        match outcome.machine.labels.get(key) {
            Some(requirement) => self.type_label(key, requirement),
            None => self.pool_label(key),
        }
    }

    /// A label defined by the instance type: its value, or the values that pool and plan leave.
    fn type_label(&self, key: &str, defined: &'a Requirement) -> LabelValue<'a> {
        let Some(values) = defined.finite_values() else { return self.pool_label(key) };
        if let (Some(pinned), true) = (self.node.labels.get(key), values.len() > 1)
            && values.contains(pinned)
        {
            return LabelValue::Value(pinned);
        }
        let pool = self.pool.requirements.get(key);
        one_of(
            values.iter().filter(|v| values.len() == 1 || pool.is_none_or(|p| p.has(v))).map(AsRef::as_ref).collect(),
        )
    }

    /// A label defined by the pool, if any.
    fn pool_label(&self, key: &str) -> LabelValue<'a> {
        if let Some(value) = self.pool.labels.get(key).or_else(|| self.node.labels.get(key)) {
            return LabelValue::Value(value);
        }
        if let Some(requirement) = self.pool.requirements.get(key) {
            return match requirement.finite_values() {
                Some(values) => one_of(values.iter().map(AsRef::as_ref).collect()),
                None if requirement.allows_absence() => self.undefined_label(key),
                None => LabelValue::Value(UNNAMEABLE),
            };
        }
        self.undefined_label(key)
    }

    fn undefined_label(&self, key: &str) -> LabelValue<'a> {
        if self.is_unknown(key) { LabelValue::Unknown } else { LabelValue::Absent }
    }

    /// Whether a node may have a label that neither catalogue nor pool defines.
    pub(super) fn is_unknown(&self, key: &str) -> bool {
        self.policy.is_well_known(key) && !may_be_defined(self.pool, key)
    }

    /// Whether `requirement` holds on one outcome.
    pub(super) fn holds(&self, outcome: &Outcome<'a>, requirement: &Requirement, certainty: Certainty) -> bool {
        let key = requirement.key().as_ref();
        if certainty == Certainty::Possible && matches!(key, REGISTERED | INITIALIZED) {
            return requirement.has("true");
        }
        match self.label(outcome, key) {
            LabelValue::Value(value) => requirement.has(value),
            LabelValue::OneOf(values) if certainty == Certainty::Certain => {
                values.iter().all(|value| requirement.has(value))
            }
            LabelValue::OneOf(values) => values.iter().any(|value| requirement.has(value)),
            LabelValue::Absent => requirement.allows_absence(),
            LabelValue::Unknown => true,
        }
    }

    /// Whether `requirement` holds on every outcome.
    pub(super) fn always(&self, requirement: &Requirement) -> bool {
        let mut last_option = None;
        let varies = self.depends_on_offering(requirement.key());
        self.outcomes.iter().all(|outcome| {
            if !varies && last_option == Some(outcome.option) {
                return true;
            }
            last_option = Some(outcome.option);
            self.holds(outcome, requirement, Certainty::Certain)
        })
    }

    /// The possible values of the label on the outcomes selected by `keep`, without duplicates.
    pub(super) fn values_where(&self, key: &str, keep: impl Fn(&Outcome<'a>) -> bool) -> Vec<&'a str> {
        let mut values = Vec::new();
        for outcome in self.outcomes.iter().filter(|outcome| keep(outcome)) {
            let known = match self.label(outcome, key) {
                LabelValue::Value(value) => vec![value],
                LabelValue::OneOf(several) => several,
                LabelValue::Absent | LabelValue::Unknown => Vec::new(),
            };
            for value in known {
                if !values.contains(&value) {
                    values.push(value);
                }
            }
        }
        values
    }

    /// All possible values of the label, without duplicates; includes `None` if the label may be
    /// absent or is unknown.
    pub(super) fn values(&self, key: &str) -> Vec<Option<&'a str>> {
        let mut values = Vec::new();
        let mut add = |value| {
            if !values.contains(&value) {
                values.push(value)
            }
        };
        let mut last_option = None;
        let varies = self.depends_on_offering(key);
        for outcome in &self.outcomes {
            if !varies && last_option == Some(outcome.option) {
                continue;
            }
            last_option = Some(outcome.option);
            match self.label(outcome, key) {
                LabelValue::Value(value) => add(Some(value)),
                LabelValue::OneOf(several) => several.into_iter().for_each(|value| add(Some(value))),
                LabelValue::Absent | LabelValue::Unknown => add(None),
            }
        }
        values
    }
}

/// Whether the label depends on the offering.
#[must_use]
pub fn belongs_to_offerings(pool: &NodePool, key: &str) -> bool {
    matches!(key, ZONE | CAPACITY_TYPE) || pool.catalogue.offering_keys.iter().any(|known| known.as_ref() == key)
}

/// Whether the catalogue defines the label for new nodes of `pool`. A well-known label missing from
/// the catalogue is not guaranteed on any node.
#[must_use]
pub fn may_be_defined(pool: &NodePool, key: &str) -> bool {
    belongs_to_offerings(pool, key) || pool.catalogue.types.iter().any(|machine| machine.labels.get(key).is_some())
}

fn one_of<'a>(values: Vec<&'a str>) -> LabelValue<'a> {
    match values.as_slice() {
        [] => LabelValue::Absent,
        [value] => LabelValue::Value(value),
        _ => LabelValue::OneOf(values),
    }
}

/// All launches of the plan, for pods and for static pools.
#[derive(Debug)]
pub struct Launches<'a> {
    /// The launches, numbered in order of first appearance.
    pub list: Vec<Launch<'a>>,
    /// Launch number of each planned node; `None` if the pool of the node does not exist.
    pub of_node: Vec<Option<u32>>,
    /// Launch number of each static node.
    pub(super) of_static: Vec<Option<u32>>,
}

type Parts = (u32, CapacityType, u32, u32, u32, u32, MicroUsd, Option<Text>);

/// Interned values, most of which are shared by pointer.
struct Interned<'a, T: ?Sized> {
    by_address: FxHashMap<(usize, usize), u32>,
    by_value: FxHashMap<&'a T, u32>,
}

impl<'a, T: ?Sized + std::hash::Hash + Eq> Interned<'a, T> {
    fn new() -> Self {
        Self { by_address: FxHashMap::default(), by_value: FxHashMap::default() }
    }

    fn id(&mut self, value: &'a T) -> u32 {
        let address = (std::ptr::from_ref(value).cast::<()>() as usize, size_of_val(value));
        let next = u32::try_from(self.by_value.len()).unwrap_or(u32::MAX);
        *self.by_address.entry(address).or_insert_with(|| *self.by_value.entry(value).or_insert(next))
    }
}

impl<'a> Launches<'a> {
    /// Groups the planned nodes and computes the outcomes of each group.
    #[must_use]
    pub fn of(input: &'a PlanningInput, plan: &'a Plan) -> Self {
        let mut zones: Interned<'a, [Zone]> = Interned::new();
        let mut types: Interned<'a, [u32]> = Interned::new();
        let mut labels: Interned<'a, Labels> = Interned::new();
        let mut taints: Interned<'a, [Taint]> = Interned::new();
        let mut ids: FxHashMap<(Parts, bool), u32> = FxHashMap::default();
        let mut admitted: Vec<AdmittedOfferings<'a>> =
            input.pools.iter().map(|pool| AdmittedOfferings::new(input, pool)).collect();
        let mut list: Vec<Launch<'a>> = Vec::new();
        let mut group = |node: &'a PlannedNode, fixed: bool| {
            let pool_index = node.pool as usize;
            let pool = input.pools.get(pool_index)?;
            let (z, t, l, s) =
                (zones.id(&node.zones), types.id(&node.types), labels.id(&node.labels), taints.id(&node.taints));
            let parts = (node.pool, node.capacity_type, z, t, l, s, node.price, node.reservation.clone());
            let next = u32::try_from(list.len()).ok()?;
            let id = *ids.entry((parts, fixed)).or_insert(next);
            if id == next {
                let (options, outcomes) = admitted[pool_index].outcomes(node);
                list.push(Launch { node, pool, pool_index, count: 0, options, outcomes, policy: &input.policy });
            }
            list[id as usize].count += 1;
            Some(id)
        };
        let of_node = plan.nodes.iter().map(|node| group(node, false)).collect();
        let of_static = plan.static_nodes.iter().map(|node| group(node, true)).collect();
        Self { list, of_node, of_static }
    }

    /// The launches of the pool with this index.
    pub(super) fn of_pool(&self, pool: usize) -> impl Iterator<Item = &Launch<'a>> {
        self.list.iter().filter(move |launch| launch.pool_index == pool)
    }

    /// The launch of a host numbered after the nodes of the input.
    pub(super) fn of_host(&self, existing: usize, host: u32) -> Option<&Launch<'a>> {
        self.number_of_host(existing, host).map(|id| &self.list[id as usize])
    }

    /// The number of the launch of such a host.
    pub(super) fn number_of_host(&self, existing: usize, host: u32) -> Option<u32> {
        self.of_node.get((host as usize).checked_sub(existing)?).copied().flatten()
    }
}

/// The offerings of a pool admitted by its requirements and price ceilings, per instance type,
/// computed on first use.
struct AdmittedOfferings<'a> {
    input: &'a PlanningInput,
    pool: &'a NodePool,
    by_type: Vec<Option<Vec<&'a Offering>>>,
}

impl<'a> AdmittedOfferings<'a> {
    fn new(input: &'a PlanningInput, pool: &'a NodePool) -> Self {
        Self { input, pool, by_type: vec![None; pool.catalogue.types.len()] }
    }

    fn of_type(&mut self, option: usize) -> &[&'a Offering] {
        let (pool, policy) = (self.pool, &self.input.policy);
        let machine = &pool.catalogue.types[option];
        self.by_type[option].get_or_insert_with(|| {
            machine.offerings.iter().filter(|offering| admits_offering(policy, pool, machine, offering)).collect()
        })
    }

    fn outcomes(&mut self, node: &PlannedNode) -> (Vec<u32>, Vec<Outcome<'a>>) {
        let pool = self.pool;
        let known = |option: &&u32| (**option as usize) < pool.catalogue.types.len();
        let options: Vec<u32> = node.types.iter().filter(known).copied().collect();
        let mut outcomes = Vec::with_capacity(options.len() * node.zones.len());
        for option in &options {
            let machine = &pool.catalogue.types[*option as usize];
            for offering in self.of_type(*option as usize) {
                let drawn = offering.reservation.as_ref().map(|reservation| &reservation.id);
                if offering.capacity_type == node.capacity_type
                    && drawn == node.reservation.as_ref()
                    && node.zones.contains(&offering.zone)
                {
                    outcomes.push(Outcome { option: *option, machine, offering });
                }
            }
        }
        (options, outcomes)
    }
}

fn admits_offering(policy: &Policy, pool: &NodePool, machine: &InstanceType, offering: &Offering) -> bool {
    offering.available
        && within_ceilings(pool, machine, offering)
        && pool.requirements.iter().all(|requirement| match requirement.key().as_ref() {
            ZONE => requirement.has(&offering.zone),
            CAPACITY_TYPE => requirement.has(offering.capacity_type.as_str()),
            key => match offering.labels.get(key) {
                Some(value) => requirement.has(value),
                None if !belongs_to_offerings(pool, key) => true,
                None => requirement.allows_absence() || policy.is_well_known(key),
            },
        })
}

/// Whether the price ceilings of the opt-in rules admit an offering. The ceiling per vCPU uses the
/// capacity of the instance type.
#[must_use]
pub fn within_ceilings(pool: &NodePool, machine: &InstanceType, offering: &Offering) -> bool {
    let price = i128::from(offering.price.0);
    let millicores = i128::from(machine.capacity.get(model::resources::CPU));
    pool.rules.max_node_price.is_none_or(|ceiling| price <= i128::from(ceiling.0))
        && pool.rules.max_price_per_vcpu.is_none_or(|ceiling| price * 1000 <= i128::from(ceiling.0) * millicores)
}
