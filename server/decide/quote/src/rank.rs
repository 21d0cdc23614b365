//! The order of clusters in a quote.

use model::{Millis, Timestamp};

use crate::{ClusterQuote, Quote};

/// How long a quote is worth acting on. Evidence of odds loses half its weight in ten minutes, and other pods take room in
/// less.
pub const VALIDITY: Millis = Millis::from_mins(1);

/// The quote of these answers: best cluster first, by [`ClusterQuote::cmp_rank`].
#[must_use]
pub fn rank(mut clusters: Vec<ClusterQuote>, now: Timestamp) -> Quote {
    clusters.sort_by(ClusterQuote::cmp_rank);
    Quote { clusters, expires: now + VALIDITY }
}
