//! The store, as one process reaches it.

use std::time::Duration;

use engine::model::Text;
use futures::future::FutureExt;
use tokio::sync::watch;

use super::Port;
use crate::simulation::guard::Guard;
use crate::simulation::outside::Held;
use crate::store::lease::{Identity, Lease, LeaseAnswer, ObservedExtent, Renewal, Scope};
use crate::store::listing::{KeptListing, ListedMachine};
use crate::store::log::{
    Blob, BlobHash, DecisionFilter, Entry, LogChunk, LogSegment, Pruned, Retention, StoredDecision,
};
use crate::store::rails::{AuditEntry, AuditRow, Changes, Freeze, FreezeOrder, OfferingEntry};
use crate::store::replicas::ReplicaRow;
use crate::store::shares::{CounterRow, RemoteCounters};
use crate::store::undertaking::{
    DisruptionEnd, InstructionEnd, InstructionRow, Intent, OpenIntent, PastAttempt, Settlement,
};
use crate::store::{Answer, Archive, Store};

impl Archive for Port {
    fn decisions<'a>(&'a self, filter: &'a DecisionFilter) -> Answer<'a, Vec<StoredDecision>> {
        self.ask("read decisions", move |store| store.decisions(filter))
    }

    fn decision(&self, number: u64) -> Answer<'_, Vec<StoredDecision>> {
        self.ask("read a decision", move |store| store.decision(number))
    }

    fn log_of<'a>(&'a self, scope: &'a Scope, segment: u64) -> Answer<'a, Option<LogSegment>> {
        self.ask("read the log", move |store| store.log_of(scope, segment))
    }

    fn blob<'a>(&'a self, hash: &'a BlobHash) -> Answer<'a, Option<Blob>> {
        self.ask("read a content", move |store| store.blob(hash))
    }
}

impl Store for Port {
    fn take_lease<'a>(
        &'a self,
        scope: &'a Scope,
        owner: &'a str,
        seen: u64,
        duration: Duration,
    ) -> Answer<'a, LeaseAnswer> {
        self.ask("take a lease", move |store| {
            async move {
                let mut answer = store.take_lease(scope, owner, seen, duration).await;
                if let (Ok(LeaseAnswer::Granted { open, .. }), Some(Guard::Adoption)) = (&mut answer, self.off) {
                    open.intents.clear();
                }
                if let (Ok(LeaseAnswer::Granted { lease, .. }), Some(cluster)) = (&answer, scope.cluster_name()) {
                    let held = Held { by: self.me, epoch: lease.epoch };
                    self.outside.books().held.insert(Text::from(cluster), held);
                }
                answer
            }
            .boxed()
        })
    }

    fn renew_leases<'a>(&'a self, leases: &'a [Lease], duration: Duration) -> Answer<'a, Renewal> {
        self.ask("renew leases", move |store| store.renew_leases(leases, duration))
    }

    fn release_leases<'a>(&'a self, leases: &'a [Lease]) -> Answer<'a, ()> {
        self.ask("release leases", move |store| store.release_leases(leases))
    }

    fn ask_for<'a>(&'a self, scope: &'a Scope, by: &'a str) -> Answer<'a, ()> {
        self.ask("ask for a lease", move |store| store.ask_for(scope, by))
    }

    fn cluster_identity<'a>(&'a self, cluster: &'a str) -> Answer<'a, Option<Identity>> {
        self.ask("read which cluster has a name", move |store| store.cluster_identity(cluster))
    }

    fn keep_identity<'a>(&'a self, lease: &'a Lease, uid: &'a str) -> Answer<'a, ()> {
        self.ask("write down which cluster has a name", move |store| {
            async move { self.written(lease, store.keep_identity(&self.shown(lease), uid).await) }.boxed()
        })
    }

    fn accept_uid<'a>(&'a self, cluster: &'a str, uid: &'a str, by: &'a str) -> Answer<'a, bool> {
        self.ask("accept the UID of a cluster", move |store| store.accept_uid(cluster, uid, by))
    }

    fn keep_extent<'a>(&'a self, lease: &'a Lease, extent: &'a ObservedExtent) -> Answer<'a, ()> {
        self.ask("write down how much there is in a cluster", move |store| {
            async move {
                if self.off == Some(Guard::Extents) {
                    return Ok(());
                }
                self.written(lease, store.keep_extent(&self.shown(lease), extent).await)
            }
            .boxed()
        })
    }

    fn record<'a>(&'a self, lease: &'a Lease, entry: &'a Entry) -> Answer<'a, ()> {
        self.ask("record a decision", move |store| {
            async move { self.written(lease, store.record(&self.shown(lease), entry).await) }.boxed()
        })
    }

    fn begin_attempt<'a>(&'a self, lease: &'a Lease, intent: &'a Intent) -> Answer<'a, ()> {
        self.ask("begin an attempt", move |store| {
            async move { self.written(lease, store.begin_attempt(&self.shown(lease), intent).await) }.boxed()
        })
    }

    fn settle<'a>(
        &'a self,
        lease: &'a Lease,
        claim: &'a str,
        attempt: u32,
        settlement: &'a Settlement,
    ) -> Answer<'a, ()> {
        self.ask("settle a launch", move |store| {
            async move { self.written(lease, store.settle(&self.shown(lease), claim, attempt, settlement).await) }
                .boxed()
        })
    }

    fn close_intents<'a>(&'a self, lease: &'a Lease, claims: &'a [String]) -> Answer<'a, ()> {
        self.ask("close launches", move |store| {
            async move { self.written(lease, store.close_intents(&self.shown(lease), claims).await) }.boxed()
        })
    }

    fn open_intents<'a>(&'a self, scope: &'a Scope) -> Answer<'a, Vec<OpenIntent>> {
        self.ask("read open launches", move |store| store.open_intents(scope))
    }

    fn past_attempts<'a>(&'a self, scope: &'a Scope, within: Duration) -> Answer<'a, Vec<PastAttempt>> {
        self.ask("read past launches", move |store| store.past_attempts(scope, within))
    }

    fn write_instructions<'a>(&'a self, lease: &'a Lease, rows: &'a [InstructionRow]) -> Answer<'a, ()> {
        self.ask("write instructions", move |store| {
            async move { self.written(lease, store.write_instructions(&self.shown(lease), rows).await) }.boxed()
        })
    }

    fn end_instructions<'a>(&'a self, lease: &'a Lease, ends: &'a [InstructionEnd]) -> Answer<'a, ()> {
        self.ask("end instructions", move |store| {
            async move { self.written(lease, store.end_instructions(&self.shown(lease), ends).await) }.boxed()
        })
    }

    fn end_disruptions<'a>(&'a self, lease: &'a Lease, ends: &'a [DisruptionEnd]) -> Answer<'a, ()> {
        self.ask("end disruptions", move |store| {
            async move { self.written(lease, store.end_disruptions(&self.shown(lease), ends).await) }.boxed()
        })
    }

    fn append_log<'a>(&'a self, lease: &'a Lease, chunks: &'a [LogChunk]) -> Answer<'a, ()> {
        self.ask("append to the log", move |store| store.append_log(lease, chunks))
    }

    fn put_blobs<'a>(&'a self, blobs: &'a [Blob]) -> Answer<'a, ()> {
        self.ask("keep contents", move |store| store.put_blobs(blobs))
    }

    fn prune<'a>(&'a self, retention: &'a Retention) -> Answer<'a, Pruned> {
        self.ask("let go of old rows", move |store| store.prune(retention))
    }

    fn remember_offerings<'a>(&'a self, region: &'a str, entries: &'a [OfferingEntry]) -> Answer<'a, ()> {
        self.ask("remember offerings", move |store| store.remember_offerings(region, entries))
    }

    fn recall_offerings<'a>(&'a self, region: &'a str) -> Answer<'a, Vec<OfferingEntry>> {
        self.ask("recall offerings", move |store| store.recall_offerings(region))
    }

    fn freeze<'a>(&'a self, order: &'a FreezeOrder) -> Answer<'a, i64> {
        self.ask("freeze", move |store| store.freeze(order))
    }

    fn thaw<'a>(&'a self, id: i64, by: &'a str) -> Answer<'a, bool> {
        self.ask("thaw", move |store| store.thaw(id, by))
    }

    fn freezes(&self) -> Answer<'_, Vec<Freeze>> {
        self.ask("read freezes", |store| store.freezes())
    }

    fn keep_listing<'a>(&'a self, lease: &'a Lease, ago: Duration, machines: &'a [ListedMachine]) -> Answer<'a, bool> {
        self.ask("keep a listing", move |store| store.keep_listing(lease, ago, machines))
    }

    fn last_listing<'a>(&'a self, scope: &'a Scope, clusters: &'a [String]) -> Answer<'a, Option<KeptListing>> {
        self.ask("read a listing", move |store| store.last_listing(scope, clusters))
    }

    fn release_quarantine<'a>(&'a self, cluster: &'a str, by: &'a str) -> Answer<'a, bool> {
        self.ask("release a quarantine", move |store| store.release_quarantine(cluster, by))
    }

    fn clusters(&self) -> Answer<'_, Vec<String>> {
        self.ask("read which clusters there are", |store| store.clusters())
    }

    fn confirm_removals<'a>(&'a self, cluster: &'a str, by: &'a str) -> Answer<'a, bool> {
        self.ask("confirm removals", move |store| store.confirm_removals(cluster, by))
    }

    fn removal_confirmations(&self) -> Answer<'_, Vec<(String, u64)>> {
        self.ask("read confirmations", |store| store.removal_confirmations())
    }

    fn quarantine_releases(&self) -> Answer<'_, Vec<(String, u64)>> {
        self.ask("read releases", |store| store.quarantine_releases())
    }

    fn tell_shares<'a>(&'a self, process: &'a str, machines: i64, rows: &'a [CounterRow]) -> Answer<'a, ()> {
        self.ask("tell what came and went", move |store| store.tell_shares(process, machines, rows))
    }

    fn shares_elsewhere<'a>(&'a self, process: &'a str, within: Duration) -> Answer<'a, RemoteCounters> {
        self.ask("read what came and went elsewhere", move |store| {
            async move {
                let heard = store.shares_elsewhere(process, within).await;
                if self.off == Some(Guard::Hearing) { Ok(RemoteCounters::default()) } else { heard }
            }
            .boxed()
        })
    }

    fn tell_replica<'a>(&'a self, row: &'a ReplicaRow) -> Answer<'a, Vec<ReplicaRow>> {
        self.ask("tell which settings this server runs by", move |store| store.tell_replica(row))
    }

    fn audit<'a>(&'a self, entry: &'a AuditEntry) -> Answer<'a, ()> {
        self.ask("write an audit line", move |store| store.audit(entry))
    }

    fn read_audit(&self, limit: u32, before: Option<i64>) -> Answer<'_, Vec<AuditRow>> {
        self.ask("read the audit", move |store| store.read_audit(limit, before))
    }

    fn changes(&self) -> watch::Receiver<Changes> {
        self.outside.store().changes()
    }

    fn ping(&self) -> Answer<'_, ()> {
        self.ask("answer", |store| store.ping())
    }

    fn schema_version(&self) -> Answer<'_, i64> {
        self.ask("tell its schema", |store| store.schema_version())
    }
}
