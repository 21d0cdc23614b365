//! Many decisions replayed, one after the other.

use std::fmt;

use super::replay::{LogReader, ReplayError, Verdict};
use crate::store::lease::Scope;
use crate::store::log::{DecisionFilter, Replay, StoredDecision};
use crate::store::{Archive, StoreError};

/// Rows that are read at once.
const AT_ONCE: u32 = 500;

/// How many ended how.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    /// The same input, the same plan, bit for bit.
    pub(crate) identical: u64,
    /// Something differs.
    pub(crate) different: u64,
    /// What it takes is gone or changed.
    pub(crate) unreadable: u64,
    /// No plan was made.
    pub(crate) without_plan: u64,
}

impl Tally {
    /// Whether whatever could be repeated came out the same.
    pub(crate) fn is_well(&self) -> bool {
        self.different == 0 && self.unreadable == 0
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { identical, different, unreadable, without_plan } = self;
        let replayed = identical + different + unreadable;
        write!(
            f,
            "replayed {replayed} decisions: {identical} identical, {different} different, {unreadable} unreadable"
        )?;
        match without_plan {
            0 => Ok(()),
            number => write!(f, " ({number} were made without a plan: removals and interruptions)"),
        }
    }
}

/// The decisions that pass `keep`, latest first, at most `limit`. None is looked for beyond the first page that ends with one
/// that does not.
///
/// # Errors
/// [`StoreError`].
pub(crate) async fn read(
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

/// Replays `decisions` and hands what came of each to `tell`.
///
/// # Errors
/// [`StoreError`] when the store fails; a decision that cannot be replayed is told and counted.
pub(crate) async fn replay(
    store: &dyn Archive,
    mut decisions: Vec<StoredDecision>,
    mut tell: impl FnMut(&StoredDecision, &Result<Verdict, ReplayError>),
) -> Result<Tally, StoreError> {
    let place = |replay: &Replay| (replay.segment, replay.sequence);
    decisions.sort_by_key(|one| (one.scope.clone(), one.decision.replay.as_ref().map(place), one.decision.number));
    let (mut reader, mut tally) = (LogReader::new(store), Tally::default());
    for stored in decisions {
        let verdict = match reader.recall(stored.clone()).await {
            Ok(recorded) => Ok(recorded.replay()),
            Err(ReplayError::Store(error)) => return Err(error),
            Err(error) => Err(error),
        };
        match &verdict {
            Ok(verdict) if verdict.is_identical() => tally.identical += 1,
            Ok(_) => tally.different += 1,
            Err(ReplayError::NoPlan { .. }) => tally.without_plan += 1,
            Err(_) => tally.unreadable += 1,
        }
        tell(&stored, &verdict);
    }
    Ok(tally)
}

/// `replayed decision 17 of cluster blue: input identical, plan identical (sha256 …)`, or what is wrong.
pub(crate) fn sentence(stored: &StoredDecision, verdict: &Result<Verdict, ReplayError>) -> String {
    let (number, scope) = (stored.decision.number, name_of(&stored.scope));
    match verdict {
        Err(error) => error.to_string(),
        Ok(verdict) => {
            let input = verdict.input.as_ref().map_or("identical".to_owned(), |why| format!("DIFFERENT ({why})"));
            let plan = verdict.plan.as_ref().map_or("identical".to_owned(), |why| format!("DIFFERENT ({why})"));
            format!(
                "replayed decision {number} of {scope}: input {input}, plan {plan} (sha256 of input {}, of plan {})",
                verdict.input_digest, verdict.plan_digest
            )
        }
    }
}

/// `cluster blue`.
pub(crate) fn name_of(scope: &Scope) -> String {
    scope.cluster_name().map_or_else(|| scope.key(), |name| format!("cluster {name}"))
}
