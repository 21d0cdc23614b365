//! A small linear program solver: covers every row at least cost, with column generation.
//!
//! Minimises the cost of columns such that every row reaches its need. The basis is kept as a dense
//! inverse; the caller finds columns by their value at the present row prices. IEEE arithmetic in a
//! fixed order gives equal results on every machine; the result is approximate, and the caller
//! makes it exact.

/// Smaller pivots are lost in rounding.
const MIN_PIVOT: f64 = 1e-11;

/// Columns entered between two computations of the row prices from the whole basis: each entry
/// changes them by a small step, with a rounding error.
const REFRESH_AFTER: usize = 64;

/// A basis and its inverse. It starts with one column per row.
#[derive(Debug)]
pub(super) struct Simplex {
    rows: usize,
    inverse: Vec<Vec<f64>>,
    level: Vec<f64>,
    cost: Vec<f64>,
    /// The column in each place of the basis.
    basis: Vec<BasisColumn>,
    entered: usize,
    prices: Vec<f64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BasisColumn {
    /// The column that covers this row alone from the start.
    Initial(usize),
    /// The column that entered as this one, counted from 0.
    Entered(usize),
}

impl Simplex {
    /// Rows with `need`, each covered by a separate column that gives one unit at `unit_cost`.
    pub(super) fn new(need: Vec<f64>, unit_cost: Vec<f64>) -> Self {
        let rows = need.len();
        let unit = |at: usize| (0..rows).map(|column| if column == at { 1.0 } else { 0.0 }).collect();
        Self {
            rows,
            inverse: (0..rows).map(unit).collect(),
            level: need,
            prices: unit_cost.clone(),
            cost: unit_cost,
            basis: (0..rows).map(BasisColumn::Initial).collect(),
            entered: 0,
        }
    }

    /// The columns in use, with their amounts.
    pub(super) fn solution(&self) -> impl Iterator<Item = (BasisColumn, f64)> {
        self.basis.iter().copied().zip(self.level.iter().copied())
    }

    /// The cost of the columns in use.
    pub(super) fn value(&self) -> f64 {
        self.cost.iter().zip(&self.level).map(|(cost, level)| cost * level).sum()
    }

    /// Dual price of one unit of each row, kept up to date with every column that enters. They
    /// differ from [`Simplex::row_prices`] by rounding.
    pub(super) fn prices(&self) -> &[f64] {
        &self.prices
    }

    /// Dual price of one unit of each row, computed from the whole basis.
    pub(super) fn row_prices(&self) -> Vec<f64> {
        let mut prices = vec![0.0; self.rows];
        for (cost, row) in self.cost.iter().zip(&self.inverse) {
            for (price, entry) in prices.iter_mut().zip(row) {
                *price += cost * entry;
            }
        }
        prices
    }

    /// Enters a column into the basis. False when nothing limits it, which cannot happen while
    /// costs are not negative.
    pub(super) fn enter(&mut self, column: &[(usize, f64)], cost: f64) -> bool {
        let step: Vec<f64> =
            self.inverse.iter().map(|row| column.iter().map(|(at, amount)| row[*at] * amount).sum()).collect();
        let mut leaving: Option<(f64, usize)> = None;
        for (row, step) in step.iter().enumerate().filter(|(_, step)| **step > MIN_PIVOT) {
            let ratio = self.level[row] / step;
            if leaving.is_none_or(|(least, _)| ratio < least) {
                leaving = Some((ratio, row));
            }
        }
        let Some((ratio, pivot)) = leaving else { return false };
        let scale = step[pivot];
        self.inverse[pivot].iter_mut().for_each(|entry| *entry /= scale);
        let pivot_row = self.inverse[pivot].clone();
        for (row, step) in step.iter().enumerate().filter(|(row, step)| *row != pivot && **step != 0.0) {
            for (entry, of_pivot) in self.inverse[row].iter_mut().zip(&pivot_row) {
                *entry -= step * of_pivot;
            }
            self.level[row] = (self.level[row] - step * ratio).max(0.0);
        }
        self.level[pivot] = ratio;
        self.cost[pivot] = cost;
        self.basis[pivot] = BasisColumn::Entered(self.entered);
        self.entered += 1;
        let gain = cost - column.iter().map(|(at, amount)| self.prices[*at] * amount).sum::<f64>();
        if self.entered.is_multiple_of(REFRESH_AFTER) {
            self.prices = self.row_prices();
        } else {
            self.prices.iter_mut().zip(&pivot_row).for_each(|(price, entry)| *price += gain * entry);
        }
        true
    }
}
