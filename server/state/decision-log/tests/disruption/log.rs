//! A decision log in memory, and decisions for captured clusters.

use std::sync::Arc;
use std::time::Duration;

use controller::{Decision, DecisionAnswer, DecisionId, DecisionInput, DecisionReason, DisruptionRequest};
use decision_log::DecisionLog;
use decision_log::replay::{LogReader, RecordedDecision};
use disruption::{DisruptionPlan, Settings};
use manifests::Source;
use model::removal::RemovalReason;
use model::{ClusterName, Timestamp};
use planner::CompileCache;
use planning_input::{Captured, Options};
use store::lease::{Lease, LeaseOutcome, Scope};
use store::log::{DecisionRow, Entry};
use store::memory::MemoryStore;
use store::{Archive, Store};

/// `box` with 4 CPUs for 0.20 an hour and `big` with 8 for 0.40, 0.08 and 0.16 as spot; with `bargain`, `box` costs
/// 0.10.
pub(crate) fn catalogue(bargain: bool) -> Source {
    let kind = |name: &str, cpus: u32, price: f64, spot: f64| {
        let offering = |zone: &str, capacity_type: &str, price: f64| serde_json::json!({"zone": zone, "capacityType": capacity_type, "priceUsdPerHour": price});
        serde_json::json!({
            "name": name, "labels": {"kubernetes.io/arch": "amd64", "kubernetes.io/os": "linux"}, "overhead": {},
            "capacity": {"cpu": cpus.to_string(), "memory": format!("{}Gi", 4 * cpus), "pods": "110"},
            "offerings": [
                offering("lab-a", "on-demand", price), offering("lab-b", "on-demand", price),
                offering("lab-a", "spot", spot), offering("lab-b", "spot", spot),
            ],
        })
    };
    let document = serde_json::json!({
        "apiVersion": "fleetwright.dev/v1", "kind": "Catalogue",
        "regions": [{"name": "lab", "zones": ["lab-a", "lab-b"]}],
        "types": [kind("box", 4, if bargain { 0.1 } else { 0.2 }, 0.08), kind("big", 8, 0.4, 0.16)],
    });
    Source { name: "catalogue.json".to_owned(), bytes: document.to_string().into_bytes() }
}

/// 2026-01-01T12:00:00Z, the time that the objects of the tests are made for: day 20,454 after 1970-01-01.
pub(crate) const NOW: Timestamp = Timestamp::from_millis((20_454 * 24 + 12) * 3_600_000);

pub(crate) fn captured(manifests: &str) -> Captured {
    let options = Options { disrupt: true, catalogue: Some(catalogue(false)), now: NOW, ..Options::default() };
    let source = Source { name: "in.yaml".to_owned(), bytes: manifests.as_bytes().to_vec() };
    planning_input::read(&[source], &options).unwrap_or_else(|errors| panic!("refused: {errors:?}\n{manifests}"))
}

pub(crate) fn plan(captured: &Captured, settings: &Settings) -> DisruptionPlan {
    let planned = disruption::plan(&captured.input, &captured.running, settings, &mut CompileCache::default());
    planned.expect("an input that the verifier accepts")
}

pub(crate) struct Log {
    pub(crate) store: MemoryStore,
    pub(crate) lease: Lease,
    log: DecisionLog,
}

impl Log {
    pub(crate) async fn new() -> Self {
        let store = MemoryStore::new();
        let granted = store
            .acquire_lease(&Scope::cluster("blue"), "test", 1, Duration::from_secs(3600))
            .await
            .expect("a store in memory");
        let LeaseOutcome::Granted { lease, .. } = granted else { panic!("{granted:?}") };
        Self { store, lease, log: DecisionLog::default() }
    }

    /// Plans disruption of `captured`, and records the decision.
    pub(crate) async fn decide(&self, number: u64, captured: &Captured, settings: &Settings) -> DisruptionPlan {
        let planned = plan(captured, settings);
        let request = DisruptionRequest { running: captured.running.clone(), settings: *settings };
        let answer = DecisionAnswer::Disruption { request: Box::new(request), plan: Box::new(planned.clone()) };
        self.record(number, DecisionReason::Disruption(RemovalReason::Underutilized), captured, answer).await;
        planned
    }

    /// Plans the pods of `captured` that wait, and records the decision.
    pub(crate) async fn provision(&self, number: u64, captured: &Captured) {
        let planned = planner::plan(&captured.input).expect("a plan");
        let answer = DecisionAnswer::Pods(Box::new((planned.plan, planned.report)));
        self.record(number, DecisionReason::Provision, captured, answer).await;
    }

    async fn record(&self, number: u64, reason: DecisionReason, captured: &Captured, answer: DecisionAnswer) {
        let basis = Some(Arc::new(DecisionInput { opened: None, input: captured.input.clone(), answer }));
        let cluster = ClusterName::from("blue");
        let decision = Decision { basis, ..Decision::new(DecisionId(number), cluster, reason, 0, NOW) };
        let kind = decision.reason.as_str().to_owned();
        let row = DecisionRow { number, decided_at_ms: decision.at.as_millis(), kind, ..DecisionRow::default() };
        let entry = Entry { decision: row, ..Entry::default() };
        self.log.record(&self.store, &self.lease, &decision, entry).await.expect("a store in memory");
    }

    pub(crate) async fn load(&self, number: u64) -> RecordedDecision {
        let stored = self.store.decision(number).await.expect("a store in memory").remove(0);
        LogReader::new(&self.store).load(stored).await.unwrap_or_else(|error| panic!("{number}: {error}"))
    }
}
