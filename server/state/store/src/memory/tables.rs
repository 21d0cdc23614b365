//! Tables and rows in memory, as in the PostgreSQL schema.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use ::api_budget::{Bucket, Waiting};
use cost::CostInterval;

use super::browser_sessions::BrowserSessionTable;
use super::outcomes::OutcomeTable;
use crate::counters::CounterValues;
use crate::guardrails::{AuditEntry, Freeze};
use crate::holds::{HoldRow, HoldState};
use crate::interruptions::InterruptionRow;
use crate::lease::{Lease, ObservedExtent, Scope};
use crate::listing::ListedInstanceRow;
use crate::log::{Blob, BlobHash, LogSegment, StoredDecision};
use crate::offerings::{OfferingKey, OfferingRow};
use crate::operations::{Intent, IntentState};
use crate::replacements::{BackoffRow, ReplacementRow};
use crate::replicas::{ClusterSummaryRow, ReplicaRow};
use crate::{StoreError, StoreResult};

/// Tables of the PostgreSQL schema. Every operation is atomic under one lock.
#[derive(Debug, Default)]
pub(super) struct Tables {
    pub(super) leases: BTreeMap<Scope, LeaseRow>,
    pub(super) extents: BTreeMap<Scope, ObservedExtent>,
    pub(super) replacements: BTreeMap<Scope, ReplacementTables>,
    /// By id.
    pub(super) holds: BTreeMap<String, HoldTable>,
    /// Number of commands of clients.
    pub(super) hold_changes: u64,
    pub(super) intents: BTreeMap<Scope, BTreeMap<(String, u32), IntentRow>>,
    pub(super) decisions: BTreeMap<Scope, Vec<StoredDecision>>,
    pub(super) segments: BTreeMap<(Scope, u64), LogSegment>,
    pub(super) blobs: BTreeMap<BlobHash, (Blob, i64)>,
    /// By region and key.
    pub(super) offerings: BTreeMap<(String, OfferingKey), RefusedOffering>,
    pub(super) offerings_version: u64,
    pub(super) freezes: Vec<FreezeRow>,
    pub(super) audit: Vec<AuditEntry>,
    pub(super) listings: BTreeMap<Scope, ListingRow>,
    pub(super) interruptions: BTreeMap<Scope, NoticeTable>,
    pub(super) last_interruption: u64,
    pub(super) outcomes: OutcomeTable,
    pub(super) browser_sessions: BrowserSessionTable,
    /// Intervals by start and NodeClaim.
    pub(super) costs: BTreeMap<Scope, BTreeMap<(i64, String), CostInterval>>,
    pub(super) releases: BTreeMap<String, u64>,
    pub(super) confirmations: BTreeMap<String, u64>,
    pub(super) counters: BTreeMap<(String, i64), BucketRow>,
    pub(super) api_buckets: BTreeMap<(Scope, String), ApiBucketTable>,
    pub(super) replicas: BTreeMap<String, HeartbeatRow>,
    pub(super) summaries: BTreeMap<String, ClusterSummaryRow>,
}

/// Row of a lease.
#[derive(Debug)]
pub(super) struct LeaseRow {
    pub(super) owner: String,
    pub(super) epoch: u64,
    pub(super) expires_ms: i64,
    /// Cluster UID bound to the name.
    pub(super) uid: Option<String>,
    pub(super) wanted_by: Option<String>,
}

/// Row of an attempt.
#[derive(Debug)]
pub(super) struct IntentRow {
    pub(super) intent: Intent,
    pub(super) state: IntentState,
    pub(super) begun_ms: i64,
    pub(super) closed_ms: Option<i64>,
}

/// Replacements and back-offs of a scope. Their distances to the present count from the time beside each.
#[derive(Debug, Default)]
pub(super) struct ReplacementTables {
    pub(super) replacements: Vec<(ReplacementRow, i64)>,
    pub(super) backoffs: Vec<(BackoffRow, i64)>,
}

/// One hold with what is kept of its request.
#[derive(Debug, Clone)]
pub(super) struct HoldTable {
    pub(super) row: HoldRow,
    pub(super) request_id: String,
    pub(super) fingerprint: Vec<u8>,
    /// Who pays for it once it is committed.
    pub(super) committed_by: Option<String>,
    pub(super) ended: Option<HoldState>,
}

/// Row of a refused offering.
#[derive(Debug)]
pub(super) struct RefusedOffering {
    pub(super) row: OfferingRow,
    pub(super) changed_ms: i64,
    /// Holder of the probe, and until when.
    pub(super) probe: Option<(String, i64)>,
}

/// Row of a freeze.
#[derive(Debug)]
pub(super) struct FreezeRow {
    pub(super) freeze: Freeze,
    pub(super) thawed: bool,
}

/// Row of a listing.
#[derive(Debug, Default)]
pub(super) struct ListingRow {
    pub(super) number: u64,
    pub(super) asked_ms: i64,
    pub(super) machines: Vec<ListedInstanceRow>,
}

/// Notices about instances of a scope.
#[derive(Debug, Default)]
pub(super) struct NoticeTable {
    pub(super) by_number: BTreeMap<u64, StoredNotice>,
    /// Instance, kind and time of each.
    pub(super) keys: BTreeSet<(String, String, i64)>,
}

/// Row of a notice about an instance.
#[derive(Debug)]
pub(super) struct StoredNotice {
    pub(super) received_ms: i64,
    pub(super) row: InterruptionRow,
}

/// A bucket of the API budget, and the calls that wait at each process with the time at which they expire.
#[derive(Debug)]
pub(super) struct ApiBucketTable {
    pub(super) bucket: Bucket,
    pub(super) waiting: BTreeMap<String, (Waiting, i64)>,
}

/// Row of a time bucket.
#[derive(Debug)]
pub(super) struct BucketRow {
    pub(super) at_ms: i64,
    pub(super) machines: i64,
    pub(super) seen: CounterValues,
}

/// Row of a replica.
#[derive(Debug)]
pub(super) struct HeartbeatRow {
    pub(super) row: ReplicaRow,
    pub(super) began_ms: i64,
    pub(super) reported_ms: i64,
}

/// Whole milliseconds of `duration`.
pub(super) fn milliseconds(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

impl Tables {
    pub(super) fn held_row(&mut self, lease: &Lease) -> Option<&mut LeaseRow> {
        self.leases.get_mut(&lease.scope).filter(|row| row.owner == lease.owner && row.epoch == lease.epoch)
    }

    /// Fence of every write: the lease must be held at its epoch.
    pub(super) fn check_lease(&mut self, lease: &Lease) -> StoreResult<()> {
        if self.held_row(lease).is_some() {
            return Ok(());
        }
        Err(StoreError::LeaseLost { scope: lease.scope.clone(), epoch: lease.epoch })
    }
}
