//! The search for cheaper machines: which machines, filled how, carry the pods at least cost.
//!
//! The pods that a first packing launches machines for (`launched`) are rows, by request and by the
//! machines that may carry them (`covering`). A pattern is a machine with its pods. A linear program
//! finds how many machines of which pattern cover all pods at least cost, and generates patterns
//! where they lower it (`master`; `knapsack` with `weights`, `fractional_knapsack` and `beam`). Whole
//! machines are made from its fractions, and
//! improved a few at a time (`rounding`, `random`). Limits and rules between pods are not part of
//! the problem, except that pods of a zone rule stay in the zones of the first packing: the patterns
//! guide a second packing, which keeps every rule ([`super::patterns`]).

mod beam;
mod covering;
mod feasible_prices;
mod fractional_knapsack;
mod item;
mod knapsack;
mod launched;
mod master;
mod random;
mod resource_cover;
mod rounding;
mod substitutions;
mod weights;

use std::collections::BTreeMap;

pub(super) use self::covering::{Covering, Machine, Row};
pub(super) use self::feasible_prices::{lower_to_feasible, value_of_machine};
pub(super) use self::launched::LaunchedPods;
use self::master::Pattern;
pub(super) use self::master::{Effort, Fractions, Master, PatternPool};
use self::rounding::Cover;
use super::packing::Packing;
use super::patterns::MachinePattern;
use super::step_budget::StepBudget;

/// Patterns for the pods of `launched`.
pub(super) fn patterns(
    packing: &mut Packing<'_, '_>,
    launched: &LaunchedPods,
    seed: u64,
    steps: &StepBudget,
) -> Vec<MachinePattern> {
    let covering = Covering::of(packing, &launched.demand);
    let pods: Vec<u32> = covering.rows.iter().map(Row::pods).collect();
    let start = cover_of(&covering, launched, steps);
    let cover = rounding::cover(&covering, &pods, start, seed, steps);
    let mut by_class = ClassPods::of(&covering);
    cover.machines.into_iter().flat_map(|(pattern, machines)| by_class.assign(&covering, &pattern, machines)).collect()
}

/// The cover that the launched machines are, each as cheap as possible.
fn cover_of(covering: &Covering, launched: &LaunchedPods, steps: &StepBudget) -> Cover {
    let rows = covering.rows_by_class();
    let mut cover = Cover::default();
    for (filling, machines) in &launched.machines {
        steps.consume(covering.machines.len());
        let mut pods: BTreeMap<u32, u32> = BTreeMap::new();
        for demand in filling {
            if let Some(row) = rows.get(&(demand.class, demand.pin)) {
                *pods.entry(*row).or_default() += demand.pods;
            }
        }
        if pods.is_empty() {
            continue;
        }
        let pods: item::Pods = pods.into_iter().collect();
        match covering.cheapest_for(&pods) {
            Some(machine) => cover.add(covering, Pattern { machine, pods }, *machines),
            // The sizes of rows are rounded up: no machine may carry these pods together.
            None => cover.cost = f64::INFINITY,
        }
    }
    cover
}

/// Pods of each class that no pattern has yet, by row.
struct ClassPods(Vec<Vec<(u32, u32)>>);

impl ClassPods {
    fn of(covering: &Covering) -> Self {
        let reversed = |row: &Row| row.classes.iter().rev().copied().collect();
        Self(covering.rows.iter().map(reversed).collect())
    }

    /// Gives `machines` machines of `pattern` pods of classes, in the order of the queue.
    fn assign(&mut self, covering: &Covering, pattern: &Pattern, machines: u32) -> Vec<MachinePattern> {
        let machine = &covering.machines[pattern.machine as usize];
        let mut assigned = Vec::new();
        let mut left = machines;
        while left > 0 {
            let alike = pattern.pods.iter().map(|(row, each)| self.machines_alike(*row, *each)).min();
            let alike = alike.unwrap_or(0).clamp(1, left);
            let taken = pattern.pods.iter().map(|(row, each)| self.take(*row, *each, alike));
            let mut pods: Vec<(u32, u32)> = taken.flatten().collect();
            pods.sort_unstable();
            assigned.push(MachinePattern {
                pool: machine.pool,
                pin: machine.pin,
                capacity_type: machine.capacity_type,
                instance_type: machine.instance_type,
                pods,
                machines: alike,
            });
            left -= alike;
        }
        assigned
    }

    /// Machines that the present class of `row` gives `each` pods.
    fn machines_alike(&self, row: u32, each: u32) -> u32 {
        self.0[row as usize].last().map_or(0, |(_, pods)| pods / each)
    }

    /// Takes `each` pods for each of `machines`; of several classes for one machine only.
    fn take(&mut self, row: u32, each: u32, machines: u32) -> Vec<(u32, u32)> {
        let (mut taken, mut left) = (Vec::new(), each);
        while let Some((class, pods)) = self.0[row as usize].last_mut().filter(|_| left > 0) {
            let count = left.min(*pods / machines);
            if count > 0 {
                taken.push((*class, count));
                *pods -= count * machines;
                left -= count;
            }
            if *pods == 0 || count == 0 {
                self.0[row as usize].pop();
            }
        }
        taken
    }
}
