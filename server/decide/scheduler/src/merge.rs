//! Revision of small plans: two or three machines become one when one cheaper machine carries their
//! pods.
//!
//! Machines are opened class after class, and the last classes may get a machine to themselves. In
//! a large plan that cost is negligible; in a small one it is not. Only plans of few machines are
//! revised, so the cost is bounded. In larger ones pairs of equal machines become one.

use std::collections::BTreeMap;

use super::classes::{ClassRule, RuleKind};
use super::fits::FitId;
use super::machines::{Destination, PlacementEvent, ports_free};
use super::packing::Packing;
use super::resource_vector::{self, Amounts, CPU_AT};
use super::topology::{GroupId, Topology};
use model::MicroUsd;

/// Maximum number of machines in a revised plan: trying all pairs of a larger one costs more than
/// it saves.
const MAX_MACHINES: usize = 48;
/// Maximum number of machines for which triples are tried.
const MAX_MACHINES_FOR_TRIPLES: usize = 20;

/// Maximum number of machines of a plan in which equal machines become larger ones.
const MAX_EQUAL_MACHINES: usize = 4_096;

/// Machines (by cohort) that one machine would replace, and the saving.
struct MergeCandidate {
    parts: Vec<usize>,
    fit: FitId,
    target: u32,
    saving: i64,
}

impl Packing<'_, '_> {
    /// Merges machines while that saves money; returns whether any was merged.
    pub(super) fn merge(&mut self) -> bool {
        if self.cohort_of.len() > MAX_MACHINES {
            return false;
        }
        self.split_all_cohorts();
        let separating = self.separating_groups();
        let mut any = false;
        while let Some(candidate) = self.best_merge(&separating) {
            self.apply_merge(&candidate);
            any = true;
        }
        any
    }

    /// Merges pairs of machines of one type where one machine costs no more than both: of plans that cost the
    /// same, the one with fewer nodes is the better. For larger plans than [`Packing::merge`] revises, without
    /// required rules between the pods of a host.
    pub(super) fn merge_equal_machines(&mut self) {
        let separating = self.separating_groups();
        if !(MAX_MACHINES + 1..=MAX_EQUAL_MACHINES).contains(&self.cohort_of.len()) || !separating.is_empty() {
            return;
        }
        self.split_all_cohorts();
        let mut merged = true;
        while merged {
            merged = false;
            for machines in self.machines_by_type() {
                for pair in machines.chunks_exact(2) {
                    if let Some(candidate) = self.merge_candidate(pair.to_vec(), &separating, 0) {
                        self.apply_merge(&candidate);
                        merged = true;
                    }
                }
            }
        }
    }

    /// Mergeable machines that have the same pool, launch options and type.
    fn machines_by_type(&self) -> Vec<Vec<usize>> {
        let mut by_type: BTreeMap<(u32, FitId, u32), Vec<usize>> = BTreeMap::new();
        for at in (0..self.cohorts.len()).filter(|at| self.is_mergeable(*at)) {
            let cohort = &self.cohorts[at];
            by_type.entry((cohort.pool, cohort.fit, cohort.target_type)).or_default().push(at);
        }
        by_type.into_values().filter(|machines| machines.len() > 1).collect()
    }

    /// Hostname groups with a required spread or anti-affinity. Merging must not bring their
    /// members closer.
    fn separating_groups(&self) -> Vec<GroupId> {
        let keeps_distance = |rule: &&ClassRule| {
            rule.key == Topology::HOST && rule.preference.is_none() && !matches!(rule.kind, RuleKind::Affinity { .. })
        };
        let rules = self.problem.classes.iter().flat_map(|class| &class.rules);
        let mut groups: Vec<GroupId> = rules.filter(keeps_distance).map(|rule| rule.group).collect();
        groups.sort_unstable();
        groups.dedup();
        groups
    }

    /// Splits cohorts into one per machine, so that each can be merged alone.
    fn split_all_cohorts(&mut self) {
        for at in 0..self.cohorts.len() {
            while self.cohorts[at].ids.len() > 1 {
                self.split_cohort(at, 1);
            }
        }
    }

    fn best_merge(&mut self, separating: &[GroupId]) -> Option<MergeCandidate> {
        let alive: Vec<usize> = (0..self.cohorts.len()).filter(|at| self.is_mergeable(*at)).collect();
        let threes = alive.len() <= MAX_MACHINES_FOR_TRIPLES;
        let mut best: Option<MergeCandidate> = None;
        for (first, a) in alive.iter().enumerate() {
            for (second, b) in alive.iter().enumerate().skip(first + 1) {
                self.consider_merge(vec![*a, *b], separating, &mut best);
                for c in alive.iter().skip(second + 1).filter(|_| threes) {
                    self.consider_merge(vec![*a, *b, *c], separating, &mut best);
                }
            }
        }
        best
    }

    fn is_mergeable(&self, at: usize) -> bool {
        let cohort = &self.cohorts[at];
        !cohort.ids.is_empty()
            && !self.pool_counts.is_stateful(cohort.pool)
            && !self.pool_counts.has_min_nodes(cohort.pool)
    }

    fn consider_merge(&mut self, parts: Vec<usize>, separating: &[GroupId], best: &mut Option<MergeCandidate>) {
        if let Some(candidate) = self.merge_candidate(parts, separating, 1)
            && best.as_ref().is_none_or(|known| candidate.saving > known.saving)
        {
            *best = Some(candidate);
        }
    }

    /// The cheapest machine for all pods of `parts`, when it saves at least `least` micro-dollars per hour.
    fn merge_candidate(&mut self, parts: Vec<usize>, separating: &[GroupId], least: i64) -> Option<MergeCandidate> {
        let pool = self.cohorts[parts[0]].pool;
        if parts.iter().any(|at| self.cohorts[*at].pool != pool) || !self.can_share_machine(&parts, separating) {
            return None;
        }
        let supply = self.problem.supplies[pool as usize].as_ref()?;
        let mut fit = self.cohorts[parts[0]].fit;
        let mut used: Amounts = self.problem.resources.zero();
        let mut cost = 0;
        for at in &parts {
            fit = self.fits.intersect(fit, self.cohorts[*at].fit, supply)?;
            resource_vector::add(&mut used, &self.cohorts[*at].used.clone(), 1);
            cost += self.cheapest(self.cohorts[*at].fit, pool, &self.cohorts[*at].used.clone(), &[*at])?.1.0;
        }
        let (target, merged) = self.cheapest(fit, pool, &used, &parts)?;
        let nothing = self.problem.resources.zero();
        let mut charged = vec![0; self.limits[pool as usize].len()];
        for part in &parts {
            charged.iter_mut().zip(&self.cohorts[*part].charged).for_each(|(sum, own)| *sum += own);
        }
        let flexible = self.count_meeting_min_values(pool, (fit, target), (&used, &charged), &nothing, 1) > 0;
        let saving = cost - merged.0;
        (saving >= least && flexible).then_some(MergeCandidate { parts, fit, target, saving })
    }

    /// The type of `fit` with the least cost that carries `used`, with a charge within that of `parts` plus
    /// the pool's limits left.
    fn cheapest(&mut self, fit: FitId, pool: u32, used: &[i64], parts: &[usize]) -> Option<(u32, MicroUsd)> {
        let supply = self.problem.supplies[pool as usize].as_ref()?;
        let ranked = self.fits.ranked(fit, supply);
        let charged = |place: usize| -> i64 {
            let charge = |at: &usize| self.cohorts[*at].charged[place];
            parts.iter().map(charge).sum()
        };
        let within = |kind: usize| {
            let charges = supply.instance_types[kind].charge.iter().zip(&self.limits[pool as usize]).enumerate();
            charges.into_iter().all(|(place, (charge, left))| *charge <= charged(place) + (*left).max(0))
        };
        let ordinary = ranked.iter().any(|(_, kind)| {
            !supply.instance_types[*kind].exotic && resource_vector::fits(used, &supply.net_allocatable[*kind])
        });
        let is_suitable = |kind: usize| {
            let instance_type = &supply.instance_types[kind];
            resource_vector::fits(used, &supply.net_allocatable[kind])
                && (!instance_type.exotic || !ordinary)
                && within(kind)
        };
        let cost = |(price, kind): &(MicroUsd, usize)| supply.cost(*kind, *price, used[CPU_AT]);
        let mut best: Option<(MicroUsd, usize)> = None;
        for one in ranked.iter() {
            // No type costs less than its price and the overhead of a node.
            if best.is_some_and(|(least, _)| one.0.0 + supply.overhead.0 >= least.0) {
                break;
            }
            if is_suitable(one.1) && best.is_none_or(|(least, _)| cost(one) < least) {
                best = Some((cost(one), one.1));
            }
        }
        let (cost, kind) = best?;
        Some((u32::try_from(kind).ok()?, cost))
    }

    /// Whether no hostname rule and no host port separates the pods of `parts`. Separating groups
    /// may have members on one of the machines only.
    fn can_share_machine(&self, parts: &[usize], separating: &[GroupId]) -> bool {
        let port_clash = parts.iter().enumerate().any(|(place, at)| {
            parts[..place].iter().any(|other| {
                let daemons =
                    self.problem.supplies[self.cohorts[*at].pool as usize].as_ref().map_or(0, |m| m.daemon_ports.len());
                !ports_free(&self.cohorts[*at].ports[daemons..], &self.cohorts[*other].ports[daemons..])
            })
        });
        let touched = |at: usize, group: u32| {
            let tally = self.cohorts[at].host.get(group);
            tally.matched > 0 || tally.carriers > 0
        };
        let divided = |group: u32| parts.iter().filter(|at| touched(**at, group)).count() > 1;
        !port_clash && !separating.iter().any(|group| divided(*group))
    }

    fn apply_merge(&mut self, candidate: &MergeCandidate) {
        let [first, others @ ..] = candidate.parts.as_slice() else { return };
        let machine = self.cohorts[*first].ids[0];
        for at in others {
            let gone = self.cohorts[*at].clone();
            let host = &mut self.cohorts[*first].host;
            gone.host.iter().for_each(|(group, tally)| host.add(group, tally.matched, tally.carriers));
            resource_vector::add(&mut self.cohorts[*first].used, &gone.used, 1);
            self.cohorts[*first].growth = None;
            self.cohorts[*first].ports.extend(gone.ports.iter().cloned());
            self.remove_machine(*at, machine);
        }
        self.cohorts[*first].fit = candidate.fit;
        self.retarget(*first, candidate.target);
    }

    /// Removes the machine of cohort `at`, whose pods moved to `machine`.
    fn remove_machine(&mut self, at: usize, machine: u32) {
        let pool = self.cohorts[at].pool;
        for (left, charge) in self.limits[pool as usize].iter_mut().zip(&self.cohorts[at].charged) {
            *left += charge;
        }
        self.nodes_left[pool as usize] += 1;
        let ids = std::mem::take(&mut self.cohorts[at].ids);
        let moved =
            |event: &&mut PlacementEvent| matches!(event.destination, Destination::New(id) if ids.contains(&id));
        self.events.iter_mut().filter(moved).for_each(|event| event.destination = Destination::New(machine));
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::pool;
    use crate::{CompileCache, schedule, schedule_by_search};
    use model::input::PlanningInput;
    use model::{Pod, PodShape, Resources, Text};

    /// `count` pods of two cores.
    fn input(count: u32) -> PlanningInput {
        let pod = |at: u32| Pod {
            namespace: "default".into(),
            name: Text::from(format!("pod-{at:03}")),
            workload: Text::from("Deployment/web"),
            ..Pod::default()
        };
        let requests = Resources::from_iter([("cpu", 2_000), ("pods", 1)]);
        PlanningInput {
            pools: vec![pool()],
            pods: (0..count).map(pod).collect(),
            shapes: vec![PodShape { requests, ..PodShape::default() }],
            label_sets: vec![model::Labels::new()],
            ..PlanningInput::default()
        }
    }

    #[test]
    fn of_plans_that_cost_the_same_a_search_finds_the_one_with_fewer_nodes() {
        // A t.4 costs as much as two t.2: 50 of those carry 100 pods for $2.00.
        let input = input(100);
        let mut first = schedule(&input);
        let small = first.nodes[0].clone();
        first.order = (0..100).collect();
        first.nodes = (0..100)
            .map(|at| model::plan::PlannedNode {
                name: format!("p-{at}").into(),
                pods: vec![at],
                types: [0].into(),
                price: model::MicroUsd(20_000),
                ..small.clone()
            })
            .collect();
        let (found, _) = schedule_by_search(&input, &first, (0, 1_000_000), &mut CompileCache::default());
        let cost: i64 = found.plan.nodes.iter().map(|node| node.price.0).sum();
        assert_eq!((found.plan.nodes.len(), cost, found.plan.unschedulable.len()), (50, 2_000_000, 0));
    }
}
