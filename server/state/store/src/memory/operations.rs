//! Operations in flight: launches.

use std::collections::BTreeMap;

use super::super::lease::{Lease, Scope};
use super::super::operations::{AttemptOutcome, Intent, IntentState, OpenIntent, RecentAttempt};
use super::super::{StoreError, StoreResult};
use super::tables::{IntentRow, Tables};

impl IntentRow {
    fn failed(&self) -> bool {
        matches!(self.state, IntentState::Ended(AttemptOutcome::Failed { .. }))
    }

    fn read(&self) -> OpenIntent {
        let mut intent = self.intent.clone();
        if matches!(self.state, IntentState::Ended(AttemptOutcome::Launched { .. })) {
            intent.request.clear();
            intent.claim_order.clear();
        }
        OpenIntent { intent, state: self.state.clone() }
    }
}

impl Tables {
    /// Inserts all attempts or none.
    pub(super) fn insert_intents(&mut self, scope: &Scope, intents: &[Intent], now: i64) -> StoreResult<()> {
        for intent in intents {
            self.check_attempt(scope, intent)?;
        }
        let rows = self.intents.entry(scope.clone()).or_default();
        for intent in intents {
            let earlier = (intent.claim.clone(), 0)..(intent.claim.clone(), intent.attempt);
            for (_, row) in rows.range_mut(earlier) {
                row.closed_ms.get_or_insert(now);
            }
            let row = || IntentRow { intent: intent.clone(), state: IntentState::Open, begun_ms: now, closed_ms: None };
            rows.entry((intent.claim.clone(), intent.attempt)).or_insert_with(row);
        }
        Ok(())
    }

    fn check_attempt(&self, scope: &Scope, intent: &Intent) -> StoreResult<()> {
        let none = BTreeMap::new();
        let rows = self.intents.get(scope).unwrap_or(&none);
        let (claim, attempt) = (&intent.claim, intent.attempt);
        if rows.contains_key(&(claim.clone(), attempt)) {
            return Ok(());
        }
        let before = rows.get(&(claim.clone(), attempt.saturating_sub(1)));
        let why = match before {
            Some(row) if row.failed() && row.closed_ms.is_none() => return Ok(()),
            Some(_) => "the previous attempt has not failed",
            None if attempt > 1 => "there is no previous attempt",
            None if rows
                .range((claim.clone(), 0)..=(claim.clone(), u32::MAX))
                .any(|(_, row)| row.closed_ms.is_none()) =>
            {
                "another attempt is open"
            }
            None => return Ok(()),
        };
        Err(StoreError::AttemptRefused { scope: scope.clone(), claim: claim.clone(), attempt, why: why.to_owned() })
    }

    pub(super) fn begin_attempt(&mut self, lease: &Lease, intent: &Intent, now: i64) -> StoreResult<()> {
        self.check_lease(lease)?;
        self.insert_intents(&lease.scope, std::slice::from_ref(intent), now)
    }

    pub(super) fn finish_attempt(
        &mut self,
        lease: &Lease,
        claim: &str,
        attempt: u32,
        outcome: &AttemptOutcome,
    ) -> StoreResult<()> {
        self.check_lease(lease)?;
        let rows = self.intents.entry(lease.scope.clone()).or_default();
        if let Some(row) = rows.get_mut(&(claim.to_owned(), attempt))
            && row.state == IntentState::Open
        {
            row.state = IntentState::Ended(outcome.clone());
        }
        Ok(())
    }

    pub(super) fn close_intents(&mut self, lease: &Lease, claims: &[String], now: i64) -> StoreResult<()> {
        self.check_lease(lease)?;
        let rows = self.intents.entry(lease.scope.clone()).or_default();
        for claim in claims {
            for (_, row) in rows.range_mut((claim.clone(), 0)..=(claim.clone(), u32::MAX)) {
                row.closed_ms.get_or_insert(now);
            }
        }
        Ok(())
    }

    /// Closes every launch of `scope`.
    pub(super) fn close_all_intents(&mut self, scope: &Scope, now: i64) {
        for row in self.intents.get_mut(scope).into_iter().flat_map(BTreeMap::values_mut) {
            row.closed_ms.get_or_insert(now);
        }
    }

    pub(super) fn open_intents(&self, scope: &Scope) -> Vec<OpenIntent> {
        let rows = self.intents.get(scope).into_iter().flat_map(BTreeMap::values);
        rows.filter(|row| row.closed_ms.is_none()).map(IntentRow::read).collect()
    }

    pub(super) fn recent_attempts(&self, scope: &Scope, within_ms: i64, now: i64) -> Vec<RecentAttempt> {
        let rows = self.intents.get(scope).into_iter().flat_map(BTreeMap::values);
        let lately = rows.filter(|row| row.closed_ms.is_none_or(|closed| now - closed < within_ms));
        let read = |row: &IntentRow| RecentAttempt {
            claim: row.intent.claim.clone(),
            claim_order: row.intent.claim_order.clone(),
            launched: match &row.state {
                IntentState::Open => None,
                IntentState::Ended(end) => Some(matches!(end, AttemptOutcome::Launched { .. })),
            },
            begun_ago_ms: now - row.begun_ms,
            closed_ago_ms: row.closed_ms.map(|closed| now - closed),
        };
        lately.map(read).collect()
    }

    /// Deletes open launches; closed ones are pruned by age.
    pub(super) fn forget_open_intents(&mut self, scope: &Scope) {
        if let Some(rows) = self.intents.get_mut(scope) {
            rows.retain(|_, row| row.closed_ms.is_some());
        }
    }

    pub(super) fn prune_intents(&mut self, before: i64) -> u64 {
        let mut pruned = 0;
        for rows in self.intents.values_mut() {
            let count = rows.len();
            rows.retain(|_, row| row.closed_ms.is_none_or(|at| at >= before));
            pruned += (count - rows.len()) as u64;
        }
        pruned
    }
}
