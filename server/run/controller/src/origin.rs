//! The decision that a message follows from, as Events and drains of pods say it: the only place that writes it.

use std::fmt;

use super::DecisionId;
use super::nodeclaim::{ManagedClaim, TerminationReason};
use model::MicroUsd;

/// The decision that a message follows from, and the price of the machine that it is about. What is unknown is left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Origin {
    /// Number of the decision, in the decision log.
    pub decision: Option<DecisionId>,
    /// Price per hour. Zero is unknown.
    pub price: MicroUsd,
}

impl Origin {
    /// What `decision` follows with, without a price.
    pub fn of(decision: DecisionId) -> Self {
        Self { decision: Some(decision), ..Self::default() }
    }
}

impl fmt::Display for Origin {
    /// What follows the sentence, such as ` (decision 42, $0.0416/h)`; empty if nothing is known.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.decision, self.price) {
            (Some(DecisionId(number)), MicroUsd(0)) => write!(f, " (decision {number})"),
            (Some(DecisionId(number)), price) => write!(f, " (decision {number}, ${price}/h)"),
            (None, MicroUsd(0)) => Ok(()),
            (None, price) => write!(f, " (${price}/h)"),
        }
    }
}

impl ManagedClaim {
    /// The decision that launched it. Its price is that of the best launch option until it is launched.
    pub(crate) fn launch_origin(&self) -> Origin {
        Origin { decision: self.launch_decision(), price: self.price() }
    }

    /// The decision that removes it; empty where the reason of a previous process says it.
    pub(crate) fn removal_origin(&self) -> Origin {
        if matches!(self.termination_reason(), Some(TerminationReason::BegunBeforeTakeover { why }) if !why.is_empty())
        {
            return Origin::default();
        }
        let decision = self.termination_reason().and_then(|reason| reason.decision());
        Origin { decision, price: self.price() }
    }

    fn price(&self) -> MicroUsd {
        let planned = || self.planned().and_then(|machine| machine.launch.options.first()).map(|option| option.price);
        self.instance().map(|instance| instance.price).or_else(planned).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_unknown_is_left_out() {
        let said = |decision: Option<u64>, price| {
            Origin { decision: decision.map(DecisionId), price: MicroUsd(price) }.to_string()
        };
        assert_eq!(said(Some(42), 41_600), " (decision 42, $0.0416/h)");
        assert_eq!(said(Some(42), 0), " (decision 42)");
        assert_eq!(said(None, 41_600), " ($0.0416/h)");
        assert_eq!(said(None, 0), "");
    }
}
