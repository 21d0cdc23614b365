//! The pricing problem with fractions of pods: its dual prices of the resources of one machine.
//!
//! A dual simplex for few rows and many columns that have an upper bound each. Every step walks along
//! a line of prices through all pods whose place on the machine changes on the way, so that about two
//! steps for each resource suffice. The result is approximate, and the caller makes a bound of it.

use smallvec::SmallVec;

/// Values along the resources of a machine.
pub(super) type Vector = SmallVec<[f64; 8]>;

/// Amounts and pivots below this are rounding.
const EPSILON: f64 = 1e-9;

#[derive(Debug)]
pub(super) struct Column {
    /// Parts of the machine that one pod takes.
    pub(super) parts: Vector,
    pub(super) most: f64,
    pub(super) value: f64,
    is_taken: bool,
    is_basic: bool,
    /// The value of one pod less what its parts cost.
    gain: f64,
}

impl Column {
    pub(super) fn new(parts: Vector, most: u32, value: f64) -> Self {
        Self { parts, most: f64::from(most), value, is_taken: true, is_basic: false, gain: value }
    }
}

/// What is in a place of the basis, or enters it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Member {
    /// The part of this resource that is left over.
    Rest(usize),
    Pods(usize),
}

/// A basis and its inverse; pods outside it are taken if they gain, and left out otherwise.
struct DualSimplex<'a> {
    columns: &'a mut [Column],
    basis: SmallVec<[Member; 8]>,
    inverse: SmallVec<[Vector; 8]>,
    /// What the pods that are taken whole leave of each resource.
    left: Vector,
    prices: Vector,
}

/// Prices of the whole of each resource, at which pods and rest of the machine are worth least, and
/// the number of steps.
pub(super) fn resource_prices(resources: usize, columns: &mut [Column]) -> (Vector, usize) {
    let mut simplex = DualSimplex::new(resources, columns);
    let most = 4 * resources + 4;
    let steps = (0..most).find(|_| !simplex.step()).unwrap_or(most);
    (simplex.prices.into_iter().map(|price| price.max(0.0)).collect(), steps + 1)
}

impl<'a> DualSimplex<'a> {
    /// Without a price, all pods gain.
    fn new(resources: usize, columns: &'a mut [Column]) -> Self {
        let unit = |at: usize| (0..resources).map(|other| if other == at { 1.0 } else { 0.0 }).collect();
        let mut left: Vector = SmallVec::from_elem(1.0, resources);
        for column in columns.iter() {
            left.iter_mut().zip(&column.parts).for_each(|(left, part)| *left -= part * column.most);
        }
        Self {
            columns,
            basis: (0..resources).map(Member::Rest).collect(),
            inverse: (0..resources).map(unit).collect(),
            left,
            prices: SmallVec::from_elem(0.0, resources),
        }
    }

    /// One step towards a filling that the machine carries; false when there is nothing left to do.
    fn step(&mut self) -> bool {
        let Some((place, excess)) = self.most_exceeded() else { return false };
        let row = self.inverse[place].clone();
        let sign = if excess < 0.0 { 1.0 } else { -1.0 };
        let mut candidates = self.candidates(&row, sign);
        candidates.sort_unstable_by(|one, other| one.0.total_cmp(&other.0));
        let mut slope = excess.abs();
        let mut entering = None;
        for (distance, change, member) in candidates {
            slope -= match member {
                Member::Pods(at) => change.abs() * self.columns[at].most,
                Member::Rest(_) => f64::INFINITY,
            };
            if slope <= 0.0 {
                entering = Some((distance, member));
                break;
            }
            if let Member::Pods(at) = member {
                self.turn(at);
            }
        }
        let Some((distance, member)) = entering else { return false };
        self.move_prices(&row, sign * distance);
        self.pivot(place, member, sign)
    }

    /// The place of the basis that is furthest outside its bounds, and by how much.
    fn most_exceeded(&self) -> Option<(usize, f64)> {
        let mut worst: Option<(usize, f64)> = None;
        for (place, row) in self.inverse.iter().enumerate() {
            let level = dot(row, &self.left);
            let most = match self.basis[place] {
                Member::Rest(_) => f64::INFINITY,
                Member::Pods(at) => self.columns[at].most,
            };
            let excess = if level < 0.0 { level } else { (level - most).max(0.0) };
            if excess.abs() > EPSILON && worst.is_none_or(|(_, known)| excess.abs() > known.abs()) {
                worst = Some((place, excess));
            }
        }
        worst
    }

    /// What changes sides when prices move along `row`: (distance, change of the place, member).
    fn candidates(&self, row: &Vector, sign: f64) -> SmallVec<[(f64, f64, Member); 64]> {
        let mut candidates = SmallVec::new();
        for (at, column) in self.columns.iter().enumerate().filter(|(_, column)| !column.is_basic) {
            let change = sign * dot(row, &column.parts);
            if (column.is_taken && change > EPSILON) || (!column.is_taken && change < -EPSILON) {
                candidates.push(((column.gain / change).max(0.0), change, Member::Pods(at)));
            }
        }
        for (at, entry) in row.iter().enumerate().filter(|(at, _)| !self.basis.contains(&Member::Rest(*at))) {
            let change = sign * entry;
            if change < -EPSILON {
                candidates.push(((-self.prices[at] / change).max(0.0), change, Member::Rest(at)));
            }
        }
        candidates
    }

    /// Takes the pods of a column, or leaves them out.
    fn turn(&mut self, at: usize) {
        let column = &mut self.columns[at];
        let amount = if column.is_taken { column.most } else { -column.most };
        column.is_taken = !column.is_taken;
        self.left.iter_mut().zip(&column.parts).for_each(|(left, part)| *left += part * amount);
    }

    fn move_prices(&mut self, row: &Vector, distance: f64) {
        self.prices.iter_mut().zip(row).for_each(|(price, entry)| *price += distance * entry);
        for column in self.columns.iter_mut() {
            column.gain = column.value - dot(&self.prices, &column.parts);
        }
    }

    /// Replaces the member in `place`, which leaves at its upper bound if `sign` is negative.
    fn pivot(&mut self, place: usize, member: Member, sign: f64) -> bool {
        let step: Vector = match member {
            Member::Pods(at) => self.inverse.iter().map(|row| dot(row, &self.columns[at].parts)).collect(),
            Member::Rest(at) => self.inverse.iter().map(|row| row[at]).collect(),
        };
        if step[place].abs() <= EPSILON {
            return false;
        }
        if let Member::Pods(at) = self.basis[place] {
            self.columns[at].is_basic = false;
            self.columns[at].is_taken = false;
            if sign < 0.0 {
                self.turn(at);
            }
        }
        if let Member::Pods(at) = member {
            if self.columns[at].is_taken {
                self.turn(at);
            }
            self.columns[at].is_basic = true;
        }
        self.basis[place] = member;
        let scale = step[place];
        self.inverse[place].iter_mut().for_each(|entry| *entry /= scale);
        let pivot_row = self.inverse[place].clone();
        for (at, row) in self.inverse.iter_mut().enumerate().filter(|(at, _)| *at != place) {
            row.iter_mut().zip(&pivot_row).for_each(|(entry, of_pivot)| *entry -= step[at] * of_pivot);
        }
        true
    }
}

fn dot(one: &[f64], other: &[f64]) -> f64 {
    one.iter().zip(other).map(|(one, other)| one * other).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prices(columns: &[(&[f64], u32, f64)]) -> Vec<f64> {
        let column =
            |(parts, most, value): &(&[f64], u32, f64)| Column::new(parts.iter().copied().collect(), *most, *value);
        let mut columns: Vec<Column> = columns.iter().map(column).collect();
        let resources = columns[0].parts.len();
        resource_prices(resources, &mut columns).0.iter().map(|price| (price * 1e6).round() / 1e6).collect()
    }

    #[test]
    fn a_resource_costs_what_the_pods_that_are_cut_are_worth() {
        // 6.6 / 0.6 = 11 for each machine comes before 5 / 0.5 = 10, which fills the other 0.4.
        assert_eq!(prices(&[(&[0.6], 1, 6.6), (&[0.5], 2, 5.0)]), [10.0]);
        // All pods fit, so that more of the machine is worth nothing.
        assert_eq!(prices(&[(&[0.6], 1, 6.6), (&[0.1], 2, 5.0)]), [0.0]);
    }

    #[test]
    fn resources_that_different_pods_fill_have_prices_of_their_own() {
        assert_eq!(prices(&[(&[1.0, 0.0], 2, 3.0), (&[0.0, 0.5], 4, 2.0)]), [3.0, 4.0]);
        // Both kinds are cut: prices a and b with 0.4 a + 0.2 b = 4 and 0.2 a + 0.4 b = 5.
        assert_eq!(prices(&[(&[0.4, 0.2], 9, 4.0), (&[0.2, 0.4], 9, 5.0)]), [5.0, 10.0]);
    }
}
