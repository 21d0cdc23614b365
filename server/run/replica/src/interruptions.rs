//! Notices about instances, without I/O: which notice concerns which cluster of this process.
//!
//! Any replica receives a notice and stores it; every replica reads all notices of its account and region. A notice
//! names an instance and no cluster, so each one is kept for as long as a replica may still learn that the instance
//! is its own: it may have been launched, or its cluster acquired, a moment before. Notices that were passed to a
//! cluster are passed again when this process has lost and acquired it, because what followed from them may have been
//! lost with its controller.

use std::collections::BTreeMap;

use controller::{ClusterEvent, Event, RegionState};
use model::interruption::InterruptionKind;
use model::{ClusterName, Millis, Text, Timestamp};
use store::StoreError;
use store::interruptions::{INTERRUPTIONS_AT_ONCE, StoredInterruption};
use store::lease::Scope;
use tracing::{info, warn};

use crate::call::Call;

/// How long a notice may find its cluster. A replica that crashed is replaced within a lease, and an agent reconnects
/// within seconds; the instance of an older notice has ended, or a listing shows what became of it.
pub const NOTICE_TTL: Millis = Millis::from_mins(15);

/// Interval of polls of instance status, by the replica that lists the region.
const STATUS_POLL_INTERVAL: Millis = Millis::from_mins(1);

/// Notices of the account and region, as one replica sees them.
#[derive(Debug)]
pub(crate) struct Interruptions {
    scope: Scope,
    /// Number of the last notice that was read.
    last: u64,
    is_reading: bool,
    /// By number.
    recent: BTreeMap<u64, Recent>,
    /// [`RegionState::instances_version`] at the last search for owners; `None` if another search is due.
    searched: Option<u64>,
    is_failing: bool,
    is_polling: bool,
    next_poll: Timestamp,
    /// Why the last poll failed.
    poll_failure: Option<String>,
}

/// A notice that is not older than [`NOTICE_TTL`].
#[derive(Debug)]
struct Recent {
    instance: Text,
    kind: InterruptionKind,
    ends: Option<Timestamp>,
    stored_at: Timestamp,
    passed_to: Option<ClusterName>,
}

impl Interruptions {
    pub(crate) fn new(scope: Scope) -> Self {
        Self {
            scope,
            last: 0,
            is_reading: false,
            recent: BTreeMap::new(),
            searched: None,
            is_failing: false,
            is_polling: false,
            next_poll: Timestamp::default(),
            poll_failure: None,
        }
    }

    /// Begins to read the notices that were stored since the last read.
    pub(crate) fn begin_read(&mut self) -> Option<Call> {
        if std::mem::replace(&mut self.is_reading, true) {
            return None;
        }
        Some(Call::ReadInterruptions { scope: self.scope.clone(), after: self.last, within: NOTICE_TTL })
    }

    /// Adds the notices that were read. Returns the next read if more are stored.
    pub(crate) fn finish_read(
        &mut self,
        answer: Result<Vec<StoredInterruption>, StoreError>,
        now: Timestamp,
    ) -> Option<Call> {
        self.is_reading = false;
        let rows = match answer {
            Ok(rows) => rows,
            Err(error) => {
                if !std::mem::replace(&mut self.is_failing, true) {
                    warn!(region = %self.scope, %error, "cannot read interruption notices; retrying");
                }
                return None;
            }
        };
        if std::mem::replace(&mut self.is_failing, false) {
            info!(region = %self.scope, "reading interruption notices again");
        }
        let is_full = rows.len() >= INTERRUPTIONS_AT_ONCE;
        for stored in rows {
            self.last = self.last.max(stored.number);
            self.add(stored, now);
        }
        is_full.then(|| self.begin_read()).flatten()
    }

    fn add(&mut self, stored: StoredInterruption, now: Timestamp) {
        let StoredInterruption { number, age, row } = stored;
        let Some(kind) = InterruptionKind::from_name(&row.kind) else {
            // Written by a newer program.
            warn!(kind = row.kind, instance = row.instance, "skipped interruption notice of an unknown kind");
            return;
        };
        let age = Millis::new(i64::try_from(age.as_millis()).unwrap_or(i64::MAX));
        let recent = Recent {
            instance: Text::from(row.instance),
            kind,
            ends: row.ends_ms.map(Timestamp::from_millis),
            stored_at: now - age,
            passed_to: None,
        };
        self.recent.insert(number, recent);
        self.searched = None;
    }

    /// The events of notices whose instance belongs to a cluster that this process `owns`, oldest first.
    pub(crate) fn take_owned(
        &mut self,
        shared: &RegionState,
        owns: impl Fn(&ClusterName) -> bool,
        now: Timestamp,
    ) -> Vec<ClusterEvent> {
        self.recent.retain(|_, notice| now.duration_since(notice.stored_at) < NOTICE_TTL);
        let version = shared.instances_version();
        if self.searched.replace(version) == Some(version) {
            return Vec::new();
        }
        let mut events = Vec::new();
        for notice in self.recent.values_mut().filter(|notice| notice.passed_to.is_none()) {
            let owner = shared.owner_of_instance(&notice.instance).filter(|(cluster, _)| owns(cluster));
            let Some((cluster, provider_id)) = owner else { continue };
            notice.passed_to = Some(cluster.clone());
            events.push(Event::Interrupted { provider_id, kind: notice.kind, ends: notice.ends }.of(cluster));
        }
        events
    }

    /// Begins a poll of instance status if one is due. This replica lists the region.
    pub(crate) fn begin_poll(&mut self, now: Timestamp) -> Option<Call> {
        if now < self.next_poll || std::mem::replace(&mut self.is_polling, true) {
            return None;
        }
        self.next_poll = now + STATUS_POLL_INTERVAL;
        Some(Call::PollInstanceStatus(self.scope.clone()))
    }

    /// Handles the end of a poll. A failure is logged once while its reason is the same.
    pub(crate) fn finish_poll(&mut self, answer: Result<(), String>) {
        self.is_polling = false;
        let failure = answer.err();
        let before = std::mem::replace(&mut self.poll_failure, failure);
        match &self.poll_failure {
            Some(error) if before.as_ref() != Some(error) => {
                warn!(region = %self.scope, error, "cannot poll instance status; retrying every minute");
            }
            None if before.is_some() => info!(region = %self.scope, "polling instance status again"),
            _ => {}
        }
    }

    /// This process does not own the cluster any more.
    pub(crate) fn forget_cluster(&mut self, cluster: &ClusterName) {
        for notice in self.recent.values_mut().filter(|notice| notice.passed_to.as_ref() == Some(cluster)) {
            notice.passed_to = None;
        }
        self.searched = None;
    }

    /// A cluster was acquired, whose notices may have been skipped until now.
    pub(crate) fn search_again(&mut self) {
        self.searched = None;
    }
}

#[cfg(test)]
mod tests;
