//! Lookahead: which queued classes would fill the rest of a machine to be opened.
//!
//! The value of spare capacity at shadow prices ignores the shapes of pods. For the few candidates
//! with the best scores, the next classes of the queue are tried on the remaining capacity, and the
//! candidate with the least cost per value wins.

use smallvec::SmallVec;

use super::classes::PreferenceSet;
use super::packing::Packing;
use super::resource_vector::{self, Amounts, CPU_AT};
use model::MicroUsd;

/// Candidates tried per opening. More have never improved the choice enough to justify their cost.
const MAX_CANDIDATES: usize = 8;

/// Queued classes tried per candidate: enough to fill any machine with what is placed next, few
/// enough that an opening costs less than placing its pods.
const MAX_NEXT_CLASSES: usize = 64;

/// An instance type that could be opened for a class.
#[derive(Debug, Clone, Copy)]
pub(super) struct Candidate {
    pub(super) instance_type: u32,
    /// Pods of the class per machine.
    pub(super) each: u32,
    /// Estimated cost per pod, in micro-dollars per hour.
    pub(super) score: f64,
    pub(super) price: MicroUsd,
    /// Cost of one machine with its pods of the class.
    pub(super) cost: MicroUsd,
}

/// The candidates with the least scores, best first.
#[derive(Debug, Default)]
pub(super) struct Shortlist(SmallVec<[Candidate; MAX_CANDIDATES]>);

impl Shortlist {
    /// Whether no candidate with a score of at least `bound` can enter the list. A thousandth is
    /// left for rounding.
    pub(super) fn excludes(&self, bound: f64) -> bool {
        self.0.len() == MAX_CANDIDATES && self.0.last().is_some_and(|last| bound - bound.abs() / 1000.0 > last.score)
    }

    pub(super) fn insert(&mut self, candidate: Candidate) {
        let before =
            |known: &Candidate| known.score.total_cmp(&candidate.score).then(known.cost.cmp(&candidate.cost)).is_le();
        let at = self.0.iter().take_while(|known| before(known)).count();
        if at < MAX_CANDIDATES {
            self.0.truncate(MAX_CANDIDATES - 1);
            self.0.insert(at, candidate);
        }
    }
}

impl Packing<'_, '_> {
    /// The candidate with the least cost per value once the next classes of the queue have joined.
    pub(super) fn choose_by_lookahead(
        &mut self,
        pool: u32,
        class: u32,
        count: u32,
        shortlist: Shortlist,
    ) -> Option<Candidate> {
        let candidates = shortlist.0;
        if candidates.len() < 2 || self.queue.is_empty() {
            return candidates.first().copied();
        }
        let next_classes = self.next_classes(pool);
        let mut best: Option<(f64, Candidate)> = None;
        for candidate in candidates {
            let cost = self.cost_per_value(pool, class, count, &candidate, &next_classes);
            if best.as_ref().is_none_or(|(least, _)| cost < *least) {
                best = Some((cost, candidate));
            }
        }
        best.map(|(_, candidate)| candidate)
    }

    /// The next classes of the queue that may use machines of `pool`, with their unplaced pods.
    fn next_classes(&mut self, pool: u32) -> SmallVec<[(u32, u32); MAX_NEXT_CLASSES]> {
        let mut next_classes = SmallVec::new();
        let mut at = self.queue_position;
        while next_classes.len() < MAX_NEXT_CLASSES && at < self.queue.len() {
            let (class, left) = self.queue[at];
            if left > 0 && !self.class_fits(class, PreferenceSet::default(), pool).is_empty() {
                next_classes.push((class, left));
            }
            at += 1;
        }
        next_classes
    }

    /// Cost over the value of all pods on the machine. Rules between pods are ignored, except that
    /// of classes which exclude each other from a host one joins, with one pod.
    fn cost_per_value(
        &self,
        pool: u32,
        class: u32,
        count: u32,
        candidate: &Candidate,
        next_classes: &[(u32, u32)],
    ) -> f64 {
        let problem = self.problem;
        let Some(supply) = &problem.supplies[pool as usize] else { return f64::INFINITY };
        let mut free: Amounts = supply.net_allocatable[candidate.instance_type as usize].clone();
        let request = &problem.classes[class as usize].request;
        resource_vector::subtract(&mut free, request, candidate.each);
        let machines = count.div_ceil(candidate.each).max(1);
        let mut value = self.value_of(request) * f64::from(candidate.each);
        let mut excluded: SmallVec<[u32; 4]> = problem.classes[class as usize].self_exclusive.into_iter().collect();
        for (class, left) in next_classes {
            let needs = &problem.classes[*class as usize];
            if needs.self_exclusive.is_some_and(|group| excluded.contains(&group)) {
                continue;
            }
            let most = if needs.self_exclusive.is_some() { 1 } else { (left / machines).max(1) };
            let each = resource_vector::copies(&needs.request, &free, most);
            if each > 0 {
                excluded.extend(needs.self_exclusive);
                // Fewer pods than machines: only some of the machines get one.
                let share = (f64::from(*left) / f64::from(machines)).min(f64::from(each));
                for (have, ask) in free.iter_mut().zip(&needs.request) {
                    *have -= (*ask as f64 * share).ceil() as i64;
                }
                value += self.value_of(&needs.request) * share;
            }
        }
        let at = candidate.instance_type as usize;
        let cpu = supply.net_allocatable[at][CPU_AT] - free[CPU_AT];
        supply.cost(at, candidate.price, cpu).0 as f64 / value.max(f64::MIN_POSITIVE)
    }

    fn value_of(&self, request: &[i64]) -> f64 {
        request.iter().zip(&self.problem.shadow_prices).map(|(ask, price)| *ask as f64 * price).sum()
    }
}
