//! Sessions of browsers.

use std::collections::BTreeMap;

use super::super::browser_sessions::{BrowserSessionRow, MAX_SESSIONS_PER_CLIENT};

/// Sessions by id, each with its number: a later one has a higher number.
#[derive(Debug, Default)]
pub(super) struct BrowserSessionTable {
    by_id: BTreeMap<Vec<u8>, (u64, BrowserSessionRow)>,
    last: u64,
}

impl BrowserSessionTable {
    pub(super) fn create(&mut self, row: &BrowserSessionRow, now: i64) {
        self.last += 1;
        self.by_id.entry(row.id_sha256.clone()).or_insert_with(|| (self.last, row.clone()));
        self.by_id.retain(|_, (_, session)| session.expires_ms > now);
        let of_client = self.by_id.values().filter(|(_, session)| session.client == row.client);
        let mut numbers: Vec<u64> = of_client.map(|(number, _)| *number).collect();
        numbers.sort_unstable();
        let Some(excess) = numbers.len().checked_sub(MAX_SESSIONS_PER_CLIENT) else { return };
        self.by_id.retain(|_, (number, _)| !numbers[..excess].contains(number));
    }

    pub(super) fn find(&self, id_sha256: &[u8]) -> Option<BrowserSessionRow> {
        self.by_id.get(id_sha256).map(|(_, row)| row.clone())
    }

    pub(super) fn delete(&mut self, id_sha256: &[u8]) {
        self.by_id.remove(id_sha256);
    }

    pub(super) fn delete_of(&mut self, client: &str, credential: &str) {
        self.by_id.retain(|_, (_, session)| session.client != client || session.credential != credential);
    }
}
