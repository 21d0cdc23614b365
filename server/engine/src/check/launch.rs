//! What a machine may turn out to be: every option in every zone that the launch may use.
//!
//! Machines that a plan describes with equal values are one [`Launch`]; whatever holds for one of them holds for all, so
//! the work here grows with distinct launches, not with machines.

use rustc_hash::FxHashMap;

use super::{Findings, Rule};
use crate::input::{PlanningInput, Policy};
use crate::model::labels::{
    CAPACITY_TYPE, HOSTNAME, INITIALIZED, INSTANCE_TYPE, NODECLASS, NODEPOOL, REGISTERED, ZONE,
};
use crate::model::{CapacityType, InstanceType, Labels, MicroUsd, NodePool, Offering, Requirement, Taint, Text};
use crate::plan::{Plan, PlannedNode};

/// A value that no label has and no selector can name: the hostname of a machine that does not exist yet.
const UNNAMEABLE: &str = "\0";

/// One way in which a launch may end.
#[derive(Clone, Copy)]
pub(super) struct Outcome<'a> {
    /// Index of the type in the pool's catalogue.
    pub(super) option: u32,
    pub(super) machine: &'a InstanceType,
    pub(super) offering: &'a Offering,
}

/// Machines that a plan describes with equal values.
pub(super) struct Launch<'a> {
    /// One of them; their names and pods differ.
    pub(super) node: &'a PlannedNode,
    pub(super) pool: &'a NodePool,
    pub(super) pool_index: usize,
    /// Options that the catalogue has, in the plan's order.
    pub(super) options: Vec<u32>,
    /// All ways in which the launch may end, by option.
    pub(super) outcomes: Vec<Outcome<'a>>,
    policy: &'a Policy,
}

/// What is known about one label of one outcome.
enum Known<'a> {
    Value(&'a str),
    /// One of these values, nobody has settled which.
    OneOf(Vec<&'a str>),
    Absent,
    /// Neither pool nor catalogue define the label, and a machine may turn out to have it.
    Untold,
}

/// How sure an answer about an unsettled label must be.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Sure {
    /// It holds whatever the label turns out to be.
    Certainly,
    /// It may hold.
    Possibly,
}

impl<'a> Launch<'a> {
    /// Name, for messages.
    pub(super) fn name(&self) -> &'a Text {
        &self.node.name
    }

    /// The machine types of the options, in the plan's order.
    pub(super) fn machines(&self) -> impl Iterator<Item = &'a InstanceType> {
        let types = &self.pool.catalogue.types;
        self.options.iter().map(move |option| &types[*option as usize])
    }

    /// Whether the label `key` depends on where and how the machine is bought.
    fn depends_on_offering(&self, key: &str) -> bool {
        key == ZONE || self.pool.catalogue.offering_keys.iter().any(|known| known.as_ref() == key)
    }

    fn label(&self, outcome: &Outcome<'a>, key: &str) -> Known<'a> {
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
            return Known::Value(value);
        }
        match outcome.machine.labels.get(key) {
            Some(requirement) => self.settled(key, requirement),
            None => self.promised(key),
        }
    }

    /// A label that the type defines: its value, or what pool and plan narrow its values to.
    fn settled(&self, key: &str, defined: &'a Requirement) -> Known<'a> {
        let Some(values) = defined.finite_values() else { return self.promised(key) };
        if let (Some(pinned), true) = (self.node.labels.get(key), values.len() > 1)
            && values.contains(pinned)
        {
            return Known::Value(pinned);
        }
        let pool = self.pool.requirements.get(key);
        one_of(
            values.iter().filter(|v| values.len() == 1 || pool.is_none_or(|p| p.has(v))).map(AsRef::as_ref).collect(),
        )
    }

    /// A label that comes from the pool, if it comes at all.
    fn promised(&self, key: &str) -> Known<'a> {
        if let Some(value) = self.pool.labels.get(key).or_else(|| self.node.labels.get(key)) {
            return Known::Value(value);
        }
        if let Some(requirement) = self.pool.requirements.get(key) {
            return match requirement.finite_values() {
                Some(values) => one_of(values.iter().map(AsRef::as_ref).collect()),
                None if requirement.allows_absence() => self.undefined(key),
                None => Known::Value(UNNAMEABLE),
            };
        }
        self.undefined(key)
    }

    fn undefined(&self, key: &str) -> Known<'a> {
        if self.is_untold(key) { Known::Untold } else { Known::Absent }
    }

    /// Whether a machine may turn out to have a label that neither catalogue nor pool can tell.
    pub(super) fn is_untold(&self, key: &str) -> bool {
        let types = &self.pool.catalogue.types;
        let told = || self.depends_on_offering(key) || types.iter().any(|machine| machine.labels.get(key).is_some());
        self.policy.is_well_known(key) && !told()
    }

    /// Whether `requirement` holds on one outcome.
    pub(super) fn holds(&self, outcome: &Outcome<'a>, requirement: &Requirement, sure: Sure) -> bool {
        let key = requirement.key().as_ref();
        if sure == Sure::Possibly && matches!(key, REGISTERED | INITIALIZED) {
            return requirement.has("true");
        }
        match self.label(outcome, key) {
            Known::Value(value) => requirement.has(value),
            Known::OneOf(values) if sure == Sure::Certainly => values.iter().all(|value| requirement.has(value)),
            Known::OneOf(values) => values.iter().any(|value| requirement.has(value)),
            Known::Absent => requirement.allows_absence(),
            Known::Untold => true,
        }
    }

    /// Whether `requirement` holds whatever the launch ends in.
    pub(super) fn always(&self, requirement: &Requirement) -> bool {
        let mut looked_at = None;
        let varies = self.depends_on_offering(requirement.key());
        self.outcomes.iter().all(|outcome| {
            if !varies && looked_at == Some(outcome.option) {
                return true;
            }
            looked_at = Some(outcome.option);
            self.holds(outcome, requirement, Sure::Certainly)
        })
    }

    /// The values that the label may have on those outcomes that `keep` keeps, without doubles.
    pub(super) fn values_where(&self, key: &str, keep: impl Fn(&Outcome<'a>) -> bool) -> Vec<&'a str> {
        let mut values = Vec::new();
        for outcome in self.outcomes.iter().filter(|outcome| keep(outcome)) {
            let known = match self.label(outcome, key) {
                Known::Value(value) => vec![value],
                Known::OneOf(several) => several,
                Known::Absent | Known::Untold => Vec::new(),
            };
            for value in known {
                if !values.contains(&value) {
                    values.push(value);
                }
            }
        }
        values
    }

    /// All values that the label may have, without doubles; `None` among them when it may be absent or is untold.
    pub(super) fn values(&self, key: &str) -> Vec<Option<&'a str>> {
        let mut values = Vec::new();
        let mut note = |value| {
            if !values.contains(&value) {
                values.push(value)
            }
        };
        let mut looked_at = None;
        let varies = self.depends_on_offering(key);
        for outcome in &self.outcomes {
            if !varies && looked_at == Some(outcome.option) {
                continue;
            }
            looked_at = Some(outcome.option);
            match self.label(outcome, key) {
                Known::Value(value) => note(Some(value)),
                Known::OneOf(several) => several.into_iter().for_each(|value| note(Some(value))),
                Known::Absent | Known::Untold => note(None),
            }
        }
        values
    }
}

fn one_of<'a>(values: Vec<&'a str>) -> Known<'a> {
    match values.as_slice() {
        [] => Known::Absent,
        [value] => Known::Value(value),
        _ => Known::OneOf(values),
    }
}

/// Everything that the plan launches, machines for pods and machines of static pools.
pub(super) struct Launches<'a> {
    pub(super) list: Vec<Launch<'a>>,
    /// The launch of each of the plan's nodes; `None` where the plan names no pool that exists.
    pub(super) of_node: Vec<Option<u32>>,
    /// The same for static nodes.
    pub(super) of_static: Vec<Option<u32>>,
}

type Parts = (u32, CapacityType, u32, u32, u32, u32, MicroUsd, Option<Text>);

/// Numbers for values that are shared by pointer more often than not.
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
    /// Groups the plan's machines and works out what each group may turn out to be.
    pub(super) fn of(input: &'a PlanningInput, plan: &'a Plan, found: &mut Findings<'_>) -> Self {
        let mut zones: Interned<'a, [Text]> = Interned::new();
        let mut types: Interned<'a, [u32]> = Interned::new();
        let mut labels: Interned<'a, Labels> = Interned::new();
        let mut taints: Interned<'a, [Taint]> = Interned::new();
        let mut ids: FxHashMap<(Parts, bool), u32> = FxHashMap::default();
        let mut shelves: Vec<Shelf<'a>> = input.pools.iter().map(|pool| Shelf::new(input, pool)).collect();
        let mut list: Vec<Launch<'a>> = Vec::new();
        let mut group = |node: &'a PlannedNode, fixed: bool, found: &mut Findings<'_>| {
            let pool_index = node.pool as usize;
            let Some(pool) = input.pools.get(pool_index) else {
                found.node(Rule::Pool, &node.name, format!("pool {pool_index} does not exist"));
                return None;
            };
            let (z, t, l, s) =
                (zones.id(&node.zones), types.id(&node.types), labels.id(&node.labels), taints.id(&node.taints));
            let parts = (node.pool, node.capacity_type, z, t, l, s, node.price, node.reservation.clone());
            let next = u32::try_from(list.len()).ok()?;
            let id = *ids.entry((parts, fixed)).or_insert(next);
            if id == next {
                let (options, outcomes) = shelves[pool_index].outcomes(node);
                list.push(Launch { node, pool, pool_index, options, outcomes, policy: &input.policy });
            }
            Some(id)
        };
        let of_node = plan.nodes.iter().map(|node| group(node, false, found)).collect();
        let of_static = plan.static_nodes.iter().map(|node| group(node, true, found)).collect();
        Self { list, of_node, of_static }
    }

    /// The launch of a host beyond the input's nodes.
    pub(super) fn of_host(&self, existing: usize, host: u32) -> Option<&Launch<'a>> {
        self.number_of_host(existing, host).map(|id| &self.list[id as usize])
    }

    /// The number of that launch.
    pub(super) fn number_of_host(&self, existing: usize, host: u32) -> Option<u32> {
        self.of_node.get((host as usize).checked_sub(existing)?).copied().flatten()
    }
}

/// What a pool can buy: per type the offerings that its requirements and price ceilings admit, looked up when asked for.
struct Shelf<'a> {
    input: &'a PlanningInput,
    pool: &'a NodePool,
    on_sale: Vec<Option<Vec<&'a Offering>>>,
}

impl<'a> Shelf<'a> {
    fn new(input: &'a PlanningInput, pool: &'a NodePool) -> Self {
        Self { input, pool, on_sale: vec![None; pool.catalogue.types.len()] }
    }

    fn on_sale(&mut self, option: usize) -> &[&'a Offering] {
        let (pool, policy) = (self.pool, &self.input.policy);
        let machine = &pool.catalogue.types[option];
        self.on_sale[option].get_or_insert_with(|| {
            machine.offerings.iter().filter(|offering| sells(policy, pool, machine, offering)).collect()
        })
    }

    fn outcomes(&mut self, node: &PlannedNode) -> (Vec<u32>, Vec<Outcome<'a>>) {
        let pool = self.pool;
        let known = |option: &&u32| (**option as usize) < pool.catalogue.types.len();
        let options: Vec<u32> = node.types.iter().filter(known).copied().collect();
        let mut outcomes = Vec::with_capacity(options.len() * node.zones.len());
        for option in &options {
            let machine = &pool.catalogue.types[*option as usize];
            for offering in self.on_sale(*option as usize) {
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

fn sells(policy: &Policy, pool: &NodePool, machine: &InstanceType, offering: &Offering) -> bool {
    offering.available
        && within_ceilings(pool, machine, offering)
        && pool.requirements.iter().all(|requirement| match requirement.key().as_ref() {
            ZONE => requirement.has(&offering.zone),
            CAPACITY_TYPE => requirement.has(offering.capacity_type.as_str()),
            key => match offering.labels.get(key) {
                Some(value) => requirement.has(value),
                None if !pool.catalogue.offering_keys.iter().any(|k| k.as_ref() == key) => true,
                None => requirement.allows_absence() || policy.is_well_known(key),
            },
        })
}

/// Whether the price ceilings of the pool's opt-in rules admit an offering. A ceiling per vCPU looks at what the machine has.
pub(super) fn within_ceilings(pool: &NodePool, machine: &InstanceType, offering: &Offering) -> bool {
    let price = i128::from(offering.price.0);
    let millicores = i128::from(machine.capacity.get(crate::model::resources::CPU));
    pool.rules.max_node_price.is_none_or(|ceiling| price <= i128::from(ceiling.0))
        && pool.rules.max_price_per_vcpu.is_none_or(|ceiling| price * 1000 <= i128::from(ceiling.0) * millicores)
}
