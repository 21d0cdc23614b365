//! The order in which the pools of a fleet are tried.

use super::request::Strategy;
use super::resolve::Candidate;

/// Orders candidates; equal ones stay in the order of the request.
pub(crate) fn order(candidates: &mut [Candidate], strategy: Strategy) {
    match strategy {
        // A pool without a price comes last.
        Strategy::Price => candidates.sort_by_key(|candidate| candidate.price.map_or(i64::MAX, |price| price.0)),
        // An override without a priority comes last (EC2: prioritize instance types).
        Strategy::Priority => candidates.sort_by(|a, b| {
            let priority = |candidate: &Candidate| candidate.priority.unwrap_or(f64::INFINITY);
            priority(a).total_cmp(&priority(b))
        }),
        Strategy::Request => {}
    }
}
