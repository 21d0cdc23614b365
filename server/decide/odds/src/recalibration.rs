//! Corrects statements by what happened after earlier ones.

use crate::tally::Tally;
use model::Millis;

/// Number of intervals of the probability.
pub const INTERVALS: usize = 20;

/// Upper ends of the groups by age of the evidence, in seconds. A refusal of a minute ago says more than one of an hour
/// ago, and launches come more often soon after another one than quotes do.
const AGES: [i64; 6] = [30, 120, 300, 900, 2_700, 10_800];

/// Number of groups by age; the last is older evidence, and none.
pub const GROUPS: usize = AGES.len() + 1;

/// Number of statements in an interval that its correction remembers.
const MEMORY: f64 = 2_000.0;

/// Number of statements that weigh as much as what is known without them: for all statements, that they are correct; for
/// those of a group, the correction of all.
const STRENGTH: f64 = 10.0;

/// What was said in one interval of the probability, and what happened.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Interval {
    /// Outcomes after statements of the interval.
    pub outcomes: Tally,
    /// Sum of the stated probabilities, with the weights of the outcomes.
    pub stated: f64,
}

impl Interval {
    fn record(&mut self, stated: f64, success: bool) {
        let kept = 1.0 - 1.0 / MEMORY;
        self.outcomes = self.outcomes.scaled(kept);
        self.outcomes.add(success);
        self.stated = self.stated * kept + stated;
    }
}

/// What was said in each interval of the probability, from the lowest to the highest.
pub type Intervals = [Interval; INTERVALS];

/// The correction of statements: one of all, and on top of it one for each group by age of the evidence.
#[derive(Debug, Clone, PartialEq)]
pub struct Recalibration {
    all: Intervals,
    groups: [Intervals; GROUPS],
}

impl Default for Recalibration {
    fn default() -> Self {
        let none = [Interval::default(); INTERVALS];
        Self { all: none, groups: [none; GROUPS] }
    }
}

impl Recalibration {
    /// The intervals of all statements (`None`) or of a group.
    #[must_use]
    pub fn intervals(&self, group: Option<usize>) -> Option<&Intervals> {
        group.map_or(Some(&self.all), |group| self.groups.get(group))
    }

    /// The same, to restore them.
    pub fn intervals_mut(&mut self, group: Option<usize>) -> Option<&mut Intervals> {
        group.map_or(Some(&mut self.all), |group| self.groups.get_mut(group))
    }

    /// Records what happened after a statement of `stated` from evidence of `age`; `None` if there was none.
    pub fn record(&mut self, stated: f64, age: Option<Millis>, success: bool) {
        let interval = interval_of(stated);
        self.all[interval].record(stated, success);
        self.groups[group_of(age)][interval].record(stated, success);
    }

    /// The correction of statements from evidence of one group: never lower for a higher statement.
    pub(crate) fn curve(&self, group: usize) -> Curve {
        let all = Curve::of(&self.all, |stated| stated);
        Curve::of(&self.groups[group], |stated| all.at(stated))
    }
}

/// (statement, corrected value) of each interval, both ascending. In between, values are interpolated; beyond the first and
/// the last, statements are corrected as much as there.
#[derive(Debug)]
pub(crate) struct Curve([(f64, f64); INTERVALS]);

impl Curve {
    /// The curve through the intervals, which is `known` where they have no outcomes.
    fn of(intervals: &Intervals, known: impl Fn(f64) -> f64) -> Self {
        let mut at = 0;
        let mut points = intervals.map(|interval| {
            let centre = (f64::from(at) + 0.5) / INTERVALS as f64;
            at += 1;
            let weight = STRENGTH + interval.outcomes.samples();
            let stated = (centre * STRENGTH + interval.stated) / weight;
            (stated, interval.outcomes.mean(known(stated), STRENGTH), weight)
        });
        pool_adjacent_violators(&mut points);
        Self(points.map(|(stated, corrected, _)| (stated, corrected)))
    }

    /// The corrected probability for a statement.
    pub fn at(&self, stated: f64) -> f64 {
        let points = &self.0;
        let above = points.partition_point(|(from, _)| *from <= stated);
        let Some(before) = above.checked_sub(1).map(|at| points[at]) else { return beyond(points[0], stated) };
        let Some(after) = points.get(above) else { return beyond(before, stated) };
        before.1 + (stated - before.0) / (after.0 - before.0) * (after.1 - before.1)
    }
}

fn beyond(end: (f64, f64), stated: f64) -> f64 {
    (end.1 + stated - end.0).clamp(0.0, 1.0)
}

/// Replaces values that fall while statements rise by their weighted mean.
fn pool_adjacent_violators(points: &mut [(f64, f64, f64); INTERVALS]) {
    // Blocks of equal value: (value, weight, number of points).
    let mut blocks: Vec<(f64, f64, usize)> = Vec::with_capacity(INTERVALS);
    for (_, value, weight) in points.iter() {
        let mut block = (*value, *weight, 1);
        while let Some(last) = blocks.pop_if(|last| last.0 > block.0) {
            let weight = last.1 + block.1;
            block = ((last.0 * last.1 + block.0 * block.1) / weight, weight, last.2 + block.2);
        }
        blocks.push(block);
    }
    let values = blocks.into_iter().flat_map(|(value, _, count)| std::iter::repeat_n(value, count));
    points.iter_mut().zip(values).for_each(|(point, value)| point.1 = value);
}

fn interval_of(stated: f64) -> usize {
    ((stated * INTERVALS as f64) as usize).min(INTERVALS - 1)
}

/// The group of evidence of this age; `None` if there is none.
pub(crate) fn group_of(age: Option<Millis>) -> usize {
    age.map_or(GROUPS - 1, |age| AGES.partition_point(|end| *end <= age.as_secs()))
}
