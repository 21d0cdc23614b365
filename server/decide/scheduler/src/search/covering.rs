//! The covering problem: pods as rows that planning cannot tell apart by size, and the machines that
//! may carry them.

use std::collections::{BTreeMap, BTreeSet};

use rustc_hash::FxHashMap;

use super::launched::ClassDemand;
use crate::bit_set::BitSet;
use crate::classes::{PreferenceSet, RuleKind};
use crate::machines::HostTallies;
use crate::packing::Packing;
use crate::pool_supply::PoolSupply;
use crate::resource_vector::{self, Amounts, CPU_AT};
use crate::topology::{GroupId, Pin, Topology};
use model::{CapacityType, MicroUsd};

/// Maximum number of rows: the basis of the linear program is a dense matrix of rows × rows.
const MAX_ROWS: usize = 160;

/// Number of machines above which there is no search: comparing them with one another would take longer
/// than the search itself. EC2 has 800 types for a pool; zones, capacity types and pools multiply them.
const MAX_CANDIDATES: usize = 8_000;

/// Maximum number of machines in one domain.
const MAX_MACHINES: usize = 72;

/// Pods that the same machines may carry, with one request: the largest of each resource.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) request: Amounts,
    /// Machines that may carry them, by index.
    pub(crate) machines: BitSet,
    /// Maximum number on one machine, by the hostname rules.
    pub(crate) most: u32,
    /// The hostname group whose members exclude each other.
    pub(crate) exclusive: Option<GroupId>,
    /// The domain that its pods run in, if rules between pods decide it.
    pub(crate) pin: Option<Pin>,
    /// Classes in the order of the queue, with their pods.
    pub(crate) classes: Vec<(u32, u32)>,
}

impl Row {
    pub(crate) fn pods(&self) -> u32 {
        self.classes.iter().map(|(_, pods)| pods).sum()
    }
}

/// An instance type as a pool offers it under one capacity type, in one domain if pods are pinned.
#[derive(Debug)]
pub(crate) struct Machine {
    pub(super) pool: u32,
    pub(super) pin: Option<Pin>,
    pub(super) capacity_type: CapacityType,
    /// Index in the pool's supply.
    pub(super) instance_type: u32,
    /// Cost at the price of the cheapest offering, in micro-dollars per hour.
    pub(super) price: f64,
    pub(super) capacity: Amounts,
    /// Rows that it may carry, in the order of the rows; empty when another machine dominates it.
    pub(super) rows: Vec<u32>,
}

/// Pool, instance type in its supply, capacity type and domain of a machine.
type MachineKey = (u32, u32, CapacityType, Option<Pin>);

impl Machine {
    /// A machine that costs `price` in micro-dollars per hour.
    pub(crate) fn new((pool, instance_type, capacity_type, pin): MachineKey, price: f64, capacity: Amounts) -> Self {
        Self { pool, pin, capacity_type, instance_type, price, capacity, rows: Vec::new() }
    }
}

/// The covering problem: machines that cover all rows at least cost.
#[derive(Debug)]
pub(crate) struct Covering {
    pub(super) rows: Vec<Row>,
    pub(super) machines: Vec<Machine>,
    /// Machines by price.
    by_price: Vec<u32>,
}

/// What the pods of a row have in common besides their size.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct RowKind {
    pin: Option<Pin>,
    machines: Vec<u32>,
    most: u32,
    exclusive: Option<GroupId>,
}

/// Rows of a machine, and its size on a logarithmic scale.
type SizeClass<'a> = (&'a [u32], Vec<i64>);

/// Classes of one row, with their pods.
type Classes = Vec<(u32, u32)>;

#[derive(Default)]
struct Machines {
    all: Vec<Machine>,
    by_type: FxHashMap<(MachineKey, i64), u32>,
}

impl Machines {
    /// The machines of the type of `key`, by index. A type that pays for CPU beyond a baseline is two
    /// machines: one up to the baseline, and one with all its CPU at the cost of using it.
    fn of_type(&mut self, supply: &PoolSupply, key: MachineKey, price: MicroUsd) -> impl Iterator<Item = u32> {
        let at = key.1 as usize;
        let full = &supply.net_allocatable[at];
        let free = supply.cpu_without_credits(at);
        let uses = (free < full[CPU_AT]).then_some(full[CPU_AT]);
        [Some(free), uses].into_iter().flatten().map(move |cpu| {
            let cost = supply.cost(at, price, cpu).0 as f64;
            let index = *self.by_type.entry((key, cpu)).or_insert_with(|| {
                let mut capacity = full.clone();
                capacity[CPU_AT] = cpu;
                self.all.push(Machine::new(key, cost, capacity));
                u32::try_from(self.all.len() - 1).unwrap_or(u32::MAX)
            });
            let known = &mut self.all[index as usize].price;
            *known = known.min(cost);
            index
        })
    }
}

impl Covering {
    /// The covering problem of `demand`, in the order of the queue. Classes whose pods must share a
    /// machine with others are left out.
    pub(super) fn of(packing: &mut Packing<'_, '_>, demand: &[ClassDemand]) -> Self {
        let mut machines = Machines::default();
        let mut sizes: BTreeMap<(RowKind, Amounts), Classes> = BTreeMap::new();
        let pins: BTreeSet<Pin> = demand.iter().filter_map(|demand| demand.pin).collect();
        let pins: Vec<Pin> = pins.into_iter().collect();
        for of_class in demand.iter().filter(|demand| demand.pods > 0) {
            if let Some(kind) = packing.row_kind(of_class, &pins, &mut machines) {
                let request = packing.problem.classes[of_class.class as usize].request.clone();
                sizes.entry((kind, request)).or_default().push((of_class.class, of_class.pods));
            }
        }
        let machines = machines.all;
        if machines.len() > MAX_CANDIDATES {
            return Self { rows: Vec::new(), machines, by_price: Vec::new() };
        }
        let row = |((kind, request), classes): ((RowKind, Amounts), Classes)| {
            let mut carrying = BitSet::empty(machines.len());
            let holds = |machine: &&u32| resource_vector::fits(&request, &machines[**machine as usize].capacity);
            kind.machines.iter().filter(holds).for_each(|machine| carrying.insert(*machine as usize));
            Row { request, machines: carrying, most: kind.most, exclusive: kind.exclusive, pin: kind.pin, classes }
        };
        let rows = combined(sizes).into_iter().map(row).filter(|row| row.machines.iter().next().is_some());
        let mut covering = Self::new(rows.collect(), machines);
        covering.thin_out();
        covering
    }

    /// The covering problem of `rows`, each with the machines that may carry it.
    pub(crate) fn new(rows: Vec<Row>, machines: Vec<Machine>) -> Self {
        let mut by_price: Vec<u32> = (0_u32..).zip(&machines).map(|(at, _)| at).collect();
        by_price.sort_by(|one, other| {
            machines[*one as usize].price.total_cmp(&machines[*other as usize].price).then(one.cmp(other))
        });
        let mut covering = Self { rows, machines, by_price };
        covering.keep_undominated();
        covering
    }

    pub(crate) fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// Row of each class, by the domain of its pods.
    pub(super) fn rows_by_class(&self) -> FxHashMap<(u32, Option<Pin>), u32> {
        let classes = |(at, row): (u32, &Row)| -> Vec<((u32, Option<Pin>), u32)> {
            row.classes.iter().map(|(class, _)| ((*class, row.pin), at)).collect()
        };
        (0_u32..).zip(&self.rows).flat_map(classes).collect()
    }

    /// The cheapest machine for `pods` of each row; (row, pods).
    pub(super) fn cheapest_for(&self, pods: &[(u32, u32)]) -> Option<u32> {
        let mut request = self.machines.first()?.capacity.clone();
        request.iter_mut().for_each(|amount| *amount = 0);
        for (row, count) in pods {
            resource_vector::add(&mut request, &self.rows[*row as usize].request, *count);
        }
        let carries = |at: &&u32| {
            resource_vector::fits(&request, &self.machines[**at as usize].capacity)
                && pods.iter().all(|(row, _)| self.rows[*row as usize].machines.contains(**at as usize))
        };
        self.by_price.iter().find(carries).copied()
    }

    /// Closes machines that differ little from another one that is cheaper for its size, until at
    /// most [`MAX_MACHINES`] are open in each domain: the launch may take a smaller type than the
    /// packing planned, so that little is lost.
    fn thin_out(&mut self) {
        let pins: BTreeSet<Option<Pin>> = self.machines.iter().map(|machine| machine.pin).collect();
        for pin in pins {
            let own = self.machines.iter().enumerate();
            let own = own.filter(|(_, machine)| machine.pin == pin && !machine.rows.is_empty());
            let mut kept: Vec<usize> = own.map(|(at, _)| at).collect();
            let mut percent = 2;
            while kept.len() > MAX_MACHINES && percent < 100 {
                kept = self.best_of_sizes(&kept, percent);
                percent *= 2;
            }
            for (at, machine) in self.machines.iter_mut().enumerate().filter(|(_, machine)| machine.pin == pin) {
                if kept.binary_search(&at).is_err() {
                    machine.rows.clear();
                }
            }
        }
    }

    /// Of the machines whose resources differ by less than `percent`, the cheapest for its size.
    fn best_of_sizes(&self, machines: &[usize], percent: u32) -> Vec<usize> {
        let step = (1.0 + f64::from(percent) / 100.0).ln();
        let mut best: BTreeMap<SizeClass<'_>, (f64, usize)> = BTreeMap::new();
        for at in machines {
            let machine = &self.machines[*at];
            let size = machine.capacity.iter().map(|amount| ((*amount).max(1) as f64).ln());
            let per_size = machine.price.max(1.0).ln() - size.clone().take(2).sum::<f64>() / 2.0;
            let place = size.map(|size| (size / step).floor() as i64).collect();
            let known = best.entry((&machine.rows, place)).or_insert((per_size, *at));
            if per_size < known.0 {
                *known = (per_size, *at);
            }
        }
        let mut kept: Vec<usize> = best.into_values().map(|(_, at)| at).collect();
        kept.sort_unstable();
        kept
    }

    /// Price of a machine, in micro-dollars per hour.
    pub(super) fn price(&self, machine: u32) -> f64 {
        self.machines[machine as usize].price
    }

    /// Machines that carry a row and that no other dominates, with their indices.
    pub(super) fn open_machines(&self) -> impl Iterator<Item = (usize, &Machine)> {
        self.machines.iter().enumerate().filter(|(_, machine)| !machine.rows.is_empty())
    }

    /// Sets the rows of each machine, except of those that another one dominates: no dearer, no
    /// smaller, and open to the same rows.
    fn keep_undominated(&mut self) {
        let mut open = vec![BitSet::empty(self.rows.len()); self.machines.len()];
        for (at, row) in self.rows.iter().enumerate() {
            row.machines.iter().for_each(|machine| open[machine].insert(at));
        }
        let mut order: Vec<usize> = (0..self.machines.len()).collect();
        // Of two at one price the larger first, so that it dominates the other.
        order.sort_by(|one, other| {
            let (one, other) = (&self.machines[*one], &self.machines[*other]);
            one.price.total_cmp(&other.price).then_with(|| other.capacity.cmp(&one.capacity))
        });
        let mut kept: Vec<usize> = Vec::new();
        for at in order {
            let machine = &self.machines[at];
            let dominates = |other: &usize| {
                let larger = &self.machines[*other];
                machine.capacity.iter().zip(&larger.capacity).all(|(own, theirs)| own <= theirs)
                    && open[at].intersection(&open[*other]) == open[at]
            };
            if !kept.iter().any(dominates) {
                kept.push(at);
                self.machines[at].rows = open[at].iter().filter_map(|row| u32::try_from(row).ok()).collect();
            }
        }
    }
}

/// At most [`MAX_ROWS`] rows: sizes that differ little become one, as large as the largest of each
/// resource.
fn combined(sizes: BTreeMap<(RowKind, Amounts), Classes>) -> BTreeMap<(RowKind, Amounts), Classes> {
    let mut percent = 0;
    let mut rows = sizes;
    while rows.len() > MAX_ROWS && percent < 100 {
        percent = (percent * 2).clamp(1, 100);
        let step = (1.0 + f64::from(percent) / 100.0).ln();
        let bucket = |amount: &i64| ((*amount).max(1) as f64).ln() / step;
        let mut alike: BTreeMap<(RowKind, Vec<i64>), (Amounts, Classes)> = BTreeMap::new();
        for ((kind, request), classes) in rows {
            let place = request.iter().map(|amount| bucket(amount).floor() as i64).collect();
            let (largest, all) = alike.entry((kind, place)).or_insert_with(|| (request.clone(), Classes::new()));
            largest.iter_mut().zip(&request).for_each(|(most, own)| *most = (*most).max(*own));
            all.extend(classes);
        }
        rows = BTreeMap::new();
        for ((kind, _), (request, classes)) in alike {
            rows.entry((kind, request)).or_default().extend(classes);
        }
    }
    rows.values_mut().for_each(|classes| classes.sort_unstable());
    rows
}

impl Packing<'_, '_> {
    fn row_kind(&mut self, demand: &ClassDemand, pins: &[Pin], machines: &mut Machines) -> Option<RowKind> {
        let problem = self.problem;
        let needs = &problem.classes[demand.class as usize];
        let shares = needs.rules.iter().any(|rule| {
            rule.preference.is_none() && rule.key == Topology::HOST && matches!(rule.kind, RuleKind::Affinity { .. })
        });
        if !needs.possible || shares {
            return None;
        }
        let shape = &problem.input.shapes[needs.shape as usize];
        let most = self.host_cap(demand.class, &HostTallies::default(), PreferenceSet::default());
        let most = if shape.host_ports.is_empty() { most } else { most.min(1) };
        // Where some pods are pinned, each machine is in one of their domains.
        let domains: Vec<Option<Pin>> = match demand.pin {
            None if pins.is_empty() => vec![None],
            None => pins.iter().copied().map(Some).collect(),
            pin => vec![pin],
        };
        let mut own: Vec<u32> = Vec::new();
        for pin in domains {
            own.extend(self.machines_of(demand.class, pin, machines));
        }
        own.sort_unstable();
        own.dedup();
        (most > 0 && !own.is_empty()).then_some(RowKind {
            pin: demand.pin,
            machines: own,
            most,
            exclusive: needs.self_exclusive,
        })
    }

    /// The machines for `class` in the first tier that has one, under the capacity type that comes
    /// first: price decides among these only.
    fn machines_of(&mut self, class: u32, pin: Option<Pin>, machines: &mut Machines) -> Vec<u32> {
        let problem = self.problem;
        let preferences = 0..problem.classes[class as usize].preferences.len();
        let all = preferences.fold(PreferenceSet::default(), PreferenceSet::with);
        let mut own = Vec::new();
        for tier in &problem.tiers {
            for pool in tier {
                let preferred = self.class_fits(class, all, *pool);
                let fits = if preferred.is_empty() {
                    self.class_fits(class, PreferenceSet::default(), *pool)
                } else {
                    preferred
                };
                for fit in fits.iter() {
                    let fit = pin.map_or(Some(*fit), |pin| self.pin(*fit, *pool, pin));
                    if let Some(fit) = fit {
                        self.add_machines((class, *pool, fit, pin), machines, &mut own);
                    }
                }
            }
            if !own.is_empty() {
                break;
            }
        }
        own
    }

    fn add_machines(
        &mut self,
        (class, pool, fit, pin): (u32, u32, u32, Option<Pin>),
        machines: &mut Machines,
        own: &mut Vec<u32>,
    ) {
        let problem = self.problem;
        let Some(supply) = &problem.supplies[pool as usize] else { return };
        let request = &problem.classes[class as usize].request;
        for (capacity_type, slots) in self.slots_by_capacity(class, fit, pool) {
            let Some(fit) = self.fits.within_slots(fit, &slots, supply) else { continue };
            let ranked = self.fits.ranked(fit, supply);
            if !ranked.iter().any(|(_, at)| resource_vector::fits(request, &supply.net_allocatable[*at])) {
                continue;
            }
            // Pods join exotic types that others need, so that those are machines of every row.
            for (price, at) in ranked.iter() {
                let key = (pool, u32::try_from(*at).unwrap_or(u32::MAX), capacity_type, pin);
                own.extend(machines.of_type(supply, key, *price));
            }
            return;
        }
    }
}
