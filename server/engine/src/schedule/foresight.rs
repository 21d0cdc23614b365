//! Looking ahead: who would fill the rest of a machine that is about to be opened.
//!
//! What spare room is worth is an estimate that ignores shapes. For the few machines that it likes best, the classes next
//! in line are put on trial into what is left, and the machine whose contents come cheapest wins.

use smallvec::SmallVec;

use super::axis::{self, Amounts};
use super::packing::{Packing, PreferenceSet};
use crate::model::MicroUsd;

/// Machines on trial for each purchase. Beyond a handful the estimate has never hidden the winner far enough to pay for
/// the trials.
const TRIALS: usize = 8;

/// Classes next in line that are put on trial: enough to fill any machine with what will really come, few enough that a
/// purchase stays cheaper than the pods it is for.
const LINE: usize = 64;

/// A machine that could be opened for a class.
#[derive(Debug, Clone, Copy)]
pub(super) struct Candidate {
    pub(super) machine: u32,
    /// Pods of the class on each.
    pub(super) each: u32,
    /// Estimated cost per pod, in micro-dollars per hour.
    pub(super) score: f64,
    pub(super) price: MicroUsd,
}

/// The candidates with the least estimates, best first.
#[derive(Debug, Default)]
pub(super) struct Shortlist(SmallVec<[Candidate; TRIALS]>);

impl Shortlist {
    /// Whether no candidate with an estimate of at least `bound` gets onto the list. A thousandth is left for rounding.
    pub(super) fn excludes(&self, bound: f64) -> bool {
        self.0.len() == TRIALS && self.0.last().is_some_and(|last| bound - bound.abs() / 1000.0 > last.score)
    }

    pub(super) fn offer(&mut self, candidate: Candidate) {
        let before =
            |known: &Candidate| known.score.total_cmp(&candidate.score).then(known.price.cmp(&candidate.price)).is_le();
        let at = self.0.iter().take_while(|known| before(known)).count();
        if at < TRIALS {
            self.0.truncate(TRIALS - 1);
            self.0.insert(at, candidate);
        }
    }
}

impl Packing<'_, '_> {
    /// The candidate whose contents, once those next in line have joined, come cheapest for what they are worth.
    pub(super) fn foresee(&mut self, pool: u32, class: u32, count: u32, shortlist: Shortlist) -> Option<Candidate> {
        let candidates = shortlist.0;
        if candidates.len() < 2 || self.line.is_empty() {
            return candidates.first().copied();
        }
        let line = self.joiners(pool);
        let mut best: Option<(f64, Candidate)> = None;
        for candidate in candidates {
            let cost = self.cost_of_contents(pool, class, count, &candidate, &line);
            if best.as_ref().is_none_or(|(least, _)| cost < *least) {
                best = Some((cost, candidate));
            }
        }
        best.map(|(_, candidate)| candidate)
    }

    /// The classes next in line that may use machines of `pool`, with the pods that wait.
    fn joiners(&mut self, pool: u32) -> SmallVec<[(u32, u32); LINE]> {
        let mut joiners = SmallVec::new();
        let mut at = self.line_at;
        while joiners.len() < LINE && at < self.line.len() {
            let (class, left) = self.line[at];
            if left > 0 && !self.class_fits(class, PreferenceSet::default(), pool).is_empty() {
                joiners.push((class, left));
            }
            at += 1;
        }
        joiners
    }

    /// Price over the worth of everything that would stand on the machine. Rules between pods are left out, except that
    /// classes which refuse their own kind get one pod on a machine, and one class of a kind.
    fn cost_of_contents(&self, pool: u32, class: u32, count: u32, candidate: &Candidate, line: &[(u32, u32)]) -> f64 {
        let problem = self.problem;
        let Some(market) = &problem.markets[pool as usize] else { return f64::INFINITY };
        let mut room: Amounts = market.rooms[candidate.machine as usize].clone();
        let request = &problem.classes[class as usize].request;
        axis::take(&mut room, request, candidate.each);
        let machines = count.div_ceil(candidate.each).max(1);
        let mut worth = self.worth_of(request) * f64::from(candidate.each);
        let mut refused: SmallVec<[u32; 4]> = problem.classes[class as usize].alone.into_iter().collect();
        for (class, left) in line {
            let needs = &problem.classes[*class as usize];
            if needs.alone.is_some_and(|group| refused.contains(&group)) {
                continue;
            }
            let most = if needs.alone.is_some() { 1 } else { (left / machines).max(1) };
            let each = axis::times(&needs.request, &room, most);
            if each > 0 {
                refused.extend(needs.alone);
                // Fewer pods than machines: only some of the machines get one.
                let share = (f64::from(*left) / f64::from(machines)).min(f64::from(each));
                for (have, ask) in room.iter_mut().zip(&needs.request) {
                    *have -= (*ask as f64 * share).ceil() as i64;
                }
                worth += self.worth_of(&needs.request) * share;
            }
        }
        candidate.price.0 as f64 / worth.max(f64::MIN_POSITIVE)
    }

    fn worth_of(&self, request: &[i64]) -> f64 {
        request.iter().zip(&self.problem.worth).map(|(ask, worth)| *ask as f64 * worth).sum()
    }
}
