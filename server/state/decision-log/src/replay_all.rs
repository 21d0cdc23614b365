//! Replays many decisions.

use std::fmt;

use super::replay::{LogReader, ReplayError, ReplayOutcome};
use store::lease::Scope;
use store::log::{DecisionFilter, Replay, StoredDecision};
use store::{Archive, StoreError};

const AT_ONCE: u32 = 500;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ReplaySummary {
    /// Same input and same plan, bit for bit.
    pub identical: u64,
    pub different: u64,
    /// Replay data is missing or was modified.
    pub unreadable: u64,
    /// Decisions of which nothing was recorded.
    pub(crate) not_recorded: u64,
}

impl ReplaySummary {
    /// Whether every replayed decision was identical.
    pub fn is_success(&self) -> bool {
        self.different == 0 && self.unreadable == 0
    }
}

impl fmt::Display for ReplaySummary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { identical, different, unreadable, not_recorded } = self;
        let replayed = identical + different + unreadable;
        write!(
            f,
            "replayed {replayed} decisions: {identical} identical, {different} different, {unreadable} unreadable"
        )?;
        match not_recorded {
            0 => Ok(()),
            number => write!(f, " (of {number} the log does not have what they were made from)"),
        }
    }
}

/// Decisions that match `keep`, latest first, at most `limit`. Reading ends with the first page
/// whose last decision does not match.
///
/// # Errors
/// [`StoreError`].
pub async fn read(
    store: &dyn Archive,
    scope: Option<Scope>,
    limit: usize,
    keep: impl Fn(&StoredDecision) -> bool,
) -> Result<Vec<StoredDecision>, StoreError> {
    let mut found: Vec<StoredDecision> = Vec::new();
    let mut before = None;
    loop {
        let page = store.decisions(&DecisionFilter { scope: scope.clone(), limit: AT_ONCE, before }).await?;
        let Some(last) = page.last() else { break };
        before = Some(last.decision.number);
        let last = page.len() < AT_ONCE as usize || !keep(last);
        found.extend(page.into_iter().filter(&keep));
        if last || found.len() >= limit {
            break;
        }
    }
    found.truncate(limit);
    Ok(found)
}

/// Replays `decisions` and passes each outcome to `report`.
///
/// # Errors
/// [`StoreError`] when the store fails; a decision that cannot be replayed is reported and counted.
pub async fn replay(
    store: &dyn Archive,
    mut decisions: Vec<StoredDecision>,
    mut report: impl FnMut(&StoredDecision, &Result<ReplayOutcome, ReplayError>),
) -> Result<ReplaySummary, StoreError> {
    let position = |replay: &Replay| (replay.segment, replay.sequence);
    decisions.sort_by_key(|one| (one.scope.clone(), one.decision.replay.as_ref().map(position), one.decision.number));
    let (mut reader, mut summary) = (LogReader::new(store), ReplaySummary::default());
    for stored in decisions {
        let outcome = match reader.load(stored.clone()).await {
            Ok(recorded) => Ok(recorded.replay()),
            Err(ReplayError::Store(error)) => return Err(error),
            Err(error) => Err(error),
        };
        match &outcome {
            Ok(outcome) if outcome.is_identical() => summary.identical += 1,
            Ok(_) => summary.different += 1,
            Err(ReplayError::NotRecorded { .. }) => summary.not_recorded += 1,
            Err(_) => summary.unreadable += 1,
        }
        report(&stored, &outcome);
    }
    Ok(summary)
}

/// `replayed decision 17 of cluster blue: input identical, plan identical (sha256 …)`, or the error.
pub fn describe_outcome(stored: &StoredDecision, outcome: &Result<ReplayOutcome, ReplayError>) -> String {
    let (number, scope) = (stored.decision.number, scope_name(&stored.scope));
    match outcome {
        Err(error) => error.to_string(),
        Ok(outcome) => {
            let input = outcome.input.as_ref().map_or("identical".to_owned(), |why| format!("DIFFERENT ({why})"));
            let plan = outcome.plan.as_ref().map_or("identical".to_owned(), |why| format!("DIFFERENT ({why})"));
            format!(
                "replayed decision {number} of {scope}: input {input}, plan {plan} (sha256 of input {}, of plan {})",
                outcome.input_digest, outcome.plan_digest
            )
        }
    }
}

/// `cluster blue`.
pub fn scope_name(scope: &Scope) -> String {
    scope.cluster_name().map_or_else(|| scope.key(), |name| format!("cluster {name}"))
}
