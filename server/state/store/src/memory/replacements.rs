//! Replacements under way, by the store's clock.

use super::super::StoreResult;
use super::super::lease::{Lease, Scope};
use super::super::replacements::{BackoffRow, ReplacementRow, ReplacementsEnd};
use super::tables::Tables;

impl Tables {
    pub(super) fn put_replacements(&mut self, scope: &Scope, rows: &[ReplacementRow], now: i64) {
        if rows.is_empty() {
            return;
        }
        let kept = &mut self.replacements.entry(scope.clone()).or_default().replacements;
        kept.retain(|(old, _)| rows.iter().all(|row| row.claim != old.claim));
        kept.extend(rows.iter().map(|row| (row.clone(), now)));
        kept.sort_by(|(one, _), (other, _)| one.claim.cmp(&other.claim));
    }

    pub(super) fn end_replacements(&mut self, lease: &Lease, end: &ReplacementsEnd, now: i64) -> StoreResult<()> {
        self.check_lease(lease)?;
        let tables = self.replacements.entry(lease.scope.clone()).or_default();
        tables.replacements.retain(|(row, _)| !end.claims.contains(&row.claim));
        let is_new = |pool: &String| end.backoffs.iter().any(|row| row.pool == *pool);
        tables.backoffs.retain(|(row, _)| !is_new(&row.pool) && !end.ended_backoffs.contains(&row.pool));
        tables.backoffs.extend(end.backoffs.iter().map(|row| (row.clone(), now)));
        tables.backoffs.sort_by(|(one, _), (other, _)| one.pool.cmp(&other.pool));
        Ok(())
    }

    pub(super) fn open_replacements(&self, scope: &Scope, now: i64) -> (Vec<ReplacementRow>, Vec<BackoffRow>) {
        let Some(tables) = self.replacements.get(scope) else { return Default::default() };
        let replacement = |(row, at): &(ReplacementRow, i64)| ReplacementRow {
            begun_ago_ms: row.begun_ago_ms + (now - at),
            ..row.clone()
        };
        let backoff = |(row, at): &(BackoffRow, i64)| BackoffRow { left_ms: row.left_ms - (now - at), ..row.clone() };
        (tables.replacements.iter().map(replacement).collect(), tables.backoffs.iter().map(backoff).collect())
    }
}
