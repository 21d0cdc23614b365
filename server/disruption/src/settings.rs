//! Settings of the operator.

use model::MicroUsd;

/// What consolidation requires, and which features are on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Settings {
    /// What a removal must save per hour at least, beyond the price of the moves; it must save more than 0.
    pub min_savings: MicroUsd,
    /// What a moved pod costs, in micro-dollars per hour that must be saved for it.
    pub churn_price: MicroUsd,
    /// Feature gate `SpotToSpotConsolidation`.
    pub spot_to_spot: bool,
    /// Feature gate `NodeRepair`.
    pub node_repair: bool,
}

impl Settings {
    /// Whether `saved` per hour is worth moving so many pods.
    pub(crate) fn is_worth(&self, saved: MicroUsd, moved: usize) -> bool {
        saved.0 > self.least(moved)
    }

    /// What every launch option of machines that replace nodes of `price` must cost less than; `None` if
    /// nothing can be saved.
    pub(crate) fn most_for_replacement(&self, price: MicroUsd, moved: usize) -> Option<MicroUsd> {
        Some(MicroUsd(price.0.saturating_sub(self.least(moved)))).filter(|most| most.0 > 0)
    }

    /// What must be saved more than.
    fn least(&self, moved: usize) -> i64 {
        let moves = i64::try_from(moved).unwrap_or(i64::MAX).saturating_mul(self.churn_price.0);
        moves.saturating_add(self.min_savings.0).max(0)
    }
}
