//! Whole machines from a solution with fractions, and their improvement: some machines are given up,
//! and their pods are covered anew.

use super::covering::Covering;
use super::master::{self, COARSE, FINE, Pattern, PatternPool, Solution};
use super::random::Random;
use crate::step_budget::StepBudget;

/// Relative distance from the solution with fractions at which whole machines are good enough.
const MAX_GAP: f64 = 0.0005;
/// Solutions with fractions on the way to whole machines.
const MAX_ROUNDS: usize = 60;
/// Parts of the fractions that become whole machines at once, one after another of the attempts.
const PARTS: [usize; 4] = [4, 8, 2, 16];
/// Machines that are given up at once, at least and at most.
const GIVEN_UP: (usize, usize) = (2, 24);
/// Attempts in a row that did not help, after which the improvement ends.
const MAX_FAILURES: u32 = 300;

/// Machines in whole numbers, by pattern.
#[derive(Debug, Clone, Default)]
pub(super) struct Cover {
    pub(super) machines: Vec<(Pattern, u32)>,
    /// In micro-dollars per hour.
    pub(super) cost: f64,
}

impl Cover {
    pub(super) fn add(&mut self, covering: &Covering, pattern: Pattern, machines: u32) {
        self.cost += covering.price(pattern.machine) * f64::from(machines);
        self.machines.push((pattern, machines));
    }

    /// Fixes up to `machines` machines with the pods of `pattern`, as far as those are left: the
    /// cheapest that carry them.
    fn fix(&mut self, covering: &Covering, pattern: &Pattern, machines: u32, left: &mut [u32]) {
        let Some(mut pattern) = pattern.truncated(left) else { return };
        if let Some(cheapest) = covering.cheapest_for(&pattern.pods) {
            pattern.machine = cheapest;
        }
        let full = pattern.pods.iter().map(|(row, pods)| left[*row as usize] / pods).min().unwrap_or(0);
        let machines = machines.min(full);
        if machines > 0 {
            pattern.pods.iter().for_each(|(row, pods)| left[*row as usize] -= pods * machines);
            self.add(covering, pattern, machines);
        }
    }
}

/// A cover of `demand` pods of each row, the best that `steps` and `seed` lead to from `start`, a
/// cover of the same pods.
pub(super) fn cover(covering: &Covering, demand: &[u32], start: Cover, seed: u64, steps: &StepBudget) -> Cover {
    let mut pool = PatternPool::new(covering, start.machines.iter().map(|(pattern, _)| pattern.clone()).collect());
    let first = steps.with_percent(60, || master::solve(covering, demand, &mut pool, FINE, steps));
    let enough = first.cost * (1.0 + MAX_GAP);
    let mut best = start;
    for part in PARTS {
        let found = whole_machines(covering, demand.to_vec(), &first, part, &mut pool, steps);
        if found.cost < best.cost {
            best = found;
        }
        if best.cost <= enough || steps.is_exhausted() {
            return best;
        }
    }
    improve(covering, best, enough, &mut Random::new(seed), &mut pool, steps)
}

/// Whole machines: those of `solution` first, and then of solutions for the pods that are left.
fn whole_machines(
    covering: &Covering,
    mut left: Vec<u32>,
    solution: &Solution,
    part: usize,
    pool: &mut PatternPool,
    steps: &StepBudget,
) -> Cover {
    let mut cover = Cover::default();
    let mut levels = solution.levels.clone();
    for _ in 0..MAX_ROUNDS {
        // The largest fractions first: the pods of the last ones may be gone by then.
        let fraction = |level: f64| level - level.floor();
        levels.sort_by(|one, other| fraction(other.1).total_cmp(&fraction(one.1)).then_with(|| one.0.cmp(&other.0)));
        steps.consume(levels.len() * 32);
        let before = cover.machines.len();
        for (pattern, level) in &levels {
            if *level >= 1.0 {
                cover.fix(covering, pattern, level.floor() as u32, &mut left);
            }
        }
        if cover.machines.len() == before {
            for (pattern, _) in levels.iter().take(levels.len().div_ceil(part)) {
                cover.fix(covering, pattern, 1, &mut left);
            }
        }
        levels = master::solve(covering, &left, pool, COARSE, steps).levels;
        if levels.is_empty() {
            break;
        }
    }
    cover
}

/// Gives up some machines at a time and covers their pods anew, while that lowers the cost.
fn improve(
    covering: &Covering,
    mut best: Cover,
    enough: f64,
    random: &mut Random,
    pool: &mut PatternPool,
    steps: &StepBudget,
) -> Cover {
    let mut failures = 0;
    while failures < MAX_FAILURES && best.cost > enough && !steps.is_exhausted() {
        failures += 1;
        let (kept, given_up) = split(covering, &best, random);
        let solution = master::solve(covering, &given_up, pool, COARSE, steps);
        let limit = best.cost - kept.cost;
        if solution.cost >= limit * (1.0 - 1e-9) {
            continue;
        }
        let part = PARTS[random.below(PARTS.len())];
        let found = whole_machines(covering, given_up, &solution, part, pool, steps);
        if found.cost < limit * (1.0 - 1e-9) {
            best = kept;
            best.cost += found.cost;
            best.machines.extend(found.machines);
            failures = 0;
        }
    }
    best
}

/// `cover` without some of its machines, and their pods by row.
fn split(covering: &Covering, cover: &Cover, random: &mut Random) -> (Cover, Vec<u32>) {
    let all: usize = cover.machines.iter().map(|(_, machines)| *machines as usize).sum();
    let count = GIVEN_UP.0 + random.below(GIVEN_UP.1.min(all).saturating_sub(GIVEN_UP.0) + 1);
    let mut left: Vec<(Pattern, u32)> = cover.machines.clone();
    let mut pods = vec![0; covering.rows.len()];
    for _ in 0..count {
        let open = left.iter().filter(|(_, machines)| *machines > 0).count();
        if open == 0 {
            break;
        }
        let chosen = random.below(open);
        if let Some((pattern, machines)) = left.iter_mut().filter(|(_, machines)| *machines > 0).nth(chosen) {
            *machines -= 1;
            pattern.pods.iter().for_each(|(row, each)| pods[*row as usize] += each);
        }
    }
    let mut kept = Cover::default();
    for (pattern, machines) in left.into_iter().filter(|(_, machines)| *machines > 0) {
        kept.add(covering, pattern, machines);
    }
    (kept, pods)
}
