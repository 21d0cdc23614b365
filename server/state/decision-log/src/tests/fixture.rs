//! A cluster whose decisions are logged in a memory store.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use controller::disruption::selection::RemovalRecord;
use controller::{Decision, DecisionAnswer, DecisionId, DecisionInput, DecisionReason};
use manifests::Source;
use model::input::PlanningInput;
use model::removal::RemovalReason;
use model::{ClusterName, Timestamp};
use planning_input::Options;

use crate::{DecisionLog, replay_all};
use store::lease::{Lease, LeaseOutcome, Scope};
use store::log::{Blob, DecisionRow, Entry, LogChunk, LogSegment, StoredDecision};
use store::memory::MemoryStore;
use store::{Archive, Store, StoreError};

pub(super) struct LoggedDecision {
    pub(super) number: u64,
    pub(super) basis: Arc<DecisionInput>,
}

pub(super) struct LoggedCluster {
    pub(super) store: MemoryStore,
    pub(super) lease: Lease,
    pub(super) made: Mutex<Vec<LoggedDecision>>,
    log: DecisionLog,
}

impl LoggedCluster {
    pub(super) async fn new() -> Self {
        let store = MemoryStore::new();
        let lease = acquire_lease(&store).await;
        Self { store, lease, made: Mutex::default(), log: DecisionLog::default() }
    }

    /// Plans for the cluster of `manifests`, modified by `arrange`, and logs the decision.
    pub(super) async fn decide(
        &self,
        number: u64,
        manifests: &Source,
        arrange: impl FnOnce(&mut PlanningInput),
    ) -> Result<(), StoreError> {
        let now = Timestamp::from_millis(1_000_000 + i64::try_from(number).unwrap());
        let options =
            Options { region: Some("lab".to_owned()), catalogue: Some(catalogue(false)), now, ..Options::default() };
        let sources = [manifests.clone(), source("pool", pool("on-demand")), source("class", class())];
        let mut input = planning_input::read(&sources, &options).unwrap().input;
        arrange(&mut input);
        let planned = planner::plan(&input).unwrap();
        let answer = DecisionAnswer::Pods(Box::new((planned.plan, planned.report)));
        let basis = Arc::new(DecisionInput { opened: None, input, answer });
        self.record(&decision(number, DecisionReason::Provision, now, Some(Arc::clone(&basis)))).await?;
        self.made.lock().unwrap().push(LoggedDecision { number, basis });
        Ok(())
    }

    /// Logs removals that were made from `basis`.
    pub(super) async fn remove_by(&self, number: u64, basis: RemovalRecord) {
        let (at, reason) = (basis.input.now, DecisionReason::Disruption(RemovalReason::Empty));
        let removal_record = Some(Arc::new(basis));
        self.record(&Decision { removal_record, ..decision(number, reason, at, None) }).await.unwrap();
    }

    /// Logs a decision as an earlier release did, without what it was made from.
    pub(super) async fn remove(&self, number: u64) {
        self.record(&decision(
            number,
            DecisionReason::Disruption(RemovalReason::Empty),
            Timestamp::from_millis(1_000_000),
            None,
        ))
        .await
        .unwrap();
    }

    async fn record(&self, decision: &Decision) -> Result<(), StoreError> {
        let row = DecisionRow {
            number: decision.id.0,
            decided_at_ms: decision.at.as_millis(),
            kind: decision.reason.as_str().to_owned(),
            ..DecisionRow::default()
        };
        let entry = Entry { decision: row, ..Entry::default() };
        self.log.record(&self.store, &self.lease, decision, entry).await
    }

    pub(super) async fn segment(&self, number: u64) -> LogSegment {
        self.store.log_segment(&self.lease.scope, number).await.unwrap().unwrap()
    }
}

async fn acquire_lease(store: &MemoryStore) -> Lease {
    let answer = store.acquire_lease(&Scope::cluster("blue"), "test", 1, Duration::from_secs(3600)).await.unwrap();
    let LeaseOutcome::Granted { lease, .. } = answer else { panic!("{answer:?}") };
    lease
}

fn decision(number: u64, reason: DecisionReason, at: Timestamp, basis: Option<Arc<DecisionInput>>) -> Decision {
    Decision { basis, ..Decision::new(DecisionId(number), ClusterName::from("blue"), reason, 0, at) }
}

/// Copies the store of `world` with modifications into another store.
pub(super) async fn copy(
    cluster: &LoggedCluster,
    chunk: impl Fn(&mut LogChunk),
    blob: impl Fn(&mut Blob),
    row: impl Fn(&mut DecisionRow),
) -> MemoryStore {
    let store = MemoryStore::new();
    let lease = acquire_lease(&store).await;
    let mut decisions: Vec<StoredDecision> = replay_all::read(&cluster.store, None, 100, |_| true).await.unwrap();
    decisions.reverse();
    for StoredDecision { decision, .. } in decisions {
        let mut entry = Entry { decision, ..Entry::default() };
        let replay = entry.decision.replay.clone().unwrap();
        for hash in replay.hashes() {
            entry.blobs.extend(cluster.store.blob(hash).await.unwrap());
        }
        let chunks = cluster.segment(replay.segment).await.chunks;
        entry.chunks.extend(chunks.into_iter().filter(|chunk| chunk.first_sequence == replay.sequence));
        entry.chunks.iter_mut().for_each(&chunk);
        entry.blobs.iter_mut().for_each(&blob);
        row(&mut entry.decision);
        store.record_decision(&lease, &entry).await.unwrap();
    }
    store
}

pub(super) fn source(name: &str, text: String) -> Source {
    Source { name: name.to_owned(), bytes: text.into_bytes() }
}

/// `count` pending pods of 3 cores each.
pub(super) fn pods(count: usize) -> Source {
    let pod = |number| {
        format!(
            "apiVersion: v1\nkind: Pod\nmetadata: {{name: web-{number:03}, namespace: shop, labels: {{app: web}}}}\n\
             spec: {{containers: [{{name: web, image: web, resources: {{requests: {{cpu: 3, memory: 1Gi}}}}}}]}}\n---\n"
        )
    };
    source("pods", (0..count).map(pod).collect())
}

/// The pool `general`, restricted to this capacity type.
pub(super) fn pool(capacity_type: &str) -> String {
    format!(
        "apiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata: {{name: general}}\nspec: {{template: {{spec: {{\
         nodeClassRef: {{group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}}, \
         requirements: [{{key: karpenter.sh/capacity-type, operator: In, values: [{capacity_type}]}}]}}}}}}\n"
    )
}

fn class() -> String {
    "apiVersion: karpenter.k8s.aws/v1\nkind: EC2NodeClass\nmetadata: {name: default}\nspec: {role: nodes, \
     amiSelectorTerms: [{alias: al2023@latest}], subnetSelectorTerms: [{tags: {a: b}}], \
     securityGroupSelectorTerms: [{tags: {a: b}}]}\n"
        .to_owned()
}

/// Type `box` with 4 cores for $0.20, $0.08 as spot; with `crates` also type `crate` with 8 cores
/// for $0.30.
pub(super) fn catalogue(crates: bool) -> Source {
    let kind = |name: &str, cores: u32, offerings: serde_json::Value| {
        serde_json::json!({
            "name": name,
            "labels": {"kubernetes.io/arch": "amd64", "kubernetes.io/os": "linux"},
            "capacity": {"cpu": cores.to_string(), "memory": "64Gi", "pods": "110", "ephemeral-storage": "100Gi"},
            "overhead": {}, "offerings": offerings,
        })
    };
    let sale = |zone: &str, capacity_type: &str, price: f64| serde_json::json!({"zone": zone, "capacityType": capacity_type, "priceUsdPerHour": price});
    let boxes = serde_json::json!([
        sale("lab-a", "on-demand", 0.2),
        sale("lab-b", "on-demand", 0.2),
        sale("lab-a", "spot", 0.08),
    ]);
    let mut types = vec![kind("box", 4, boxes)];
    if crates {
        types.push(kind("crate", 8, serde_json::json!([sale("lab-a", "on-demand", 0.3)])));
    }
    let document = serde_json::json!({
        "apiVersion": "fleetwright.dev/v1", "kind": "Catalogue",
        "regions": [{"name": "lab", "zones": ["lab-a", "lab-b"]}], "types": types,
    });
    source("catalogue", document.to_string())
}
