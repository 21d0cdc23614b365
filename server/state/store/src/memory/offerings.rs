//! Refused offerings and their probes.

use super::super::offerings::{OfferingChange, OfferingKey, OfferingRow, ProbeAnswer, last_changes};
use super::tables::{RefusedOffering, Tables};

impl Tables {
    /// Returns whether the exclusion of an offering changed.
    pub(super) fn change_offerings(&mut self, region: &str, changes: &[OfferingChange], now: i64) -> bool {
        let version = self.offerings_version + 1;
        let mut changed = false;
        for change in last_changes(changes) {
            changed |= match change {
                OfferingChange::Refused(row) => self.refuse(region, row, version, now),
                OfferingChange::Cleared(key) => self.clear(region, key, version, now),
                OfferingChange::ProbeReleased { key, holder } => {
                    self.release_probe(region, key, holder);
                    false
                }
            };
        }
        self.offerings_version += u64::from(changed);
        changed
    }

    fn refuse(&mut self, region: &str, row: &OfferingRow, version: u64, now: i64) -> bool {
        let key = (region.to_owned(), row.key.clone());
        let is_kept = |kept: &RefusedOffering| kept.row.failures > 0 && kept.row.until_ms >= row.until_ms;
        if self.offerings.get(&key).is_some_and(is_kept) {
            return false;
        }
        let row = OfferingRow { version, ..row.clone() };
        self.offerings.insert(key, RefusedOffering { row, changed_ms: now, probe: None });
        true
    }

    fn clear(&mut self, region: &str, key: &OfferingKey, version: u64, now: i64) -> bool {
        let Some(kept) = self.offerings.get_mut(&(region.to_owned(), key.clone())) else { return false };
        if kept.row.failures == 0 {
            return false;
        }
        kept.row = OfferingRow { failures: 0, until_ms: now, version, ..kept.row.clone() };
        (kept.changed_ms, kept.probe) = (now, None);
        true
    }

    fn release_probe(&mut self, region: &str, key: &OfferingKey, holder: &str) {
        let Some(kept) = self.offerings.get_mut(&(region.to_owned(), key.clone())) else { return };
        kept.probe.take_if(|(held_by, _)| held_by == holder);
    }

    pub(super) fn unavailable_offerings(&self, region: &str, account: &str, within: i64, now: i64) -> Vec<OfferingRow> {
        let concerns = |key: &OfferingKey| key.account.as_deref().is_none_or(|of| of == account);
        let kept = self
            .offerings
            .iter()
            .filter(|((of, key), kept)| of == region && concerns(key) && kept.changed_ms > now.saturating_sub(within));
        kept.map(|(_, kept)| kept.row.clone()).collect()
    }

    pub(super) fn claim_probes(
        &mut self,
        region: &str,
        keys: &[OfferingKey],
        holder: &str,
        lease: i64,
        now: i64,
    ) -> Vec<ProbeAnswer> {
        let mut answers = Vec::with_capacity(keys.len());
        for key in keys {
            let kept = self.offerings.get_mut(&(region.to_owned(), key.clone()));
            answers.push(match kept.filter(|kept| kept.row.failures > 0) {
                None => ProbeAnswer::Absent,
                Some(kept) => {
                    let is_held = |(held_by, until): &(String, i64)| held_by != holder && *until > now;
                    if kept.row.until_ms > now || kept.probe.as_ref().is_some_and(is_held) {
                        ProbeAnswer::Denied
                    } else {
                        kept.probe = Some((holder.to_owned(), now.saturating_add(lease)));
                        ProbeAnswer::Granted
                    }
                }
            });
        }
        answers
    }

    /// Deletes offerings that have not changed since `before`.
    pub(super) fn prune_offerings(&mut self, before: i64) {
        self.offerings.retain(|_, kept| kept.changed_ms >= before);
    }
}
