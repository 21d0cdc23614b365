//! Scenario of workloads: when each has how many replicas.

use std::sync::Arc;

use cloud::simulated::SeededRng;
use engine::model::labels::CAPACITY_TYPE;
use engine::model::{Labels, PodShape, Resources, Text, resources};

use crate::cluster::Workload;

/// One change of one workload's replicas.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScaleEvent {
    /// Time since the start, in milliseconds.
    pub at_ms: i64,
    /// Workload to scale.
    pub workload: Workload,
    /// New number of replicas.
    pub replicas: usize,
}

/// A burst, mixed requirements, then a scale-down, all within `length_ms`: the last tenth is left
/// for the controller to finish. Seeds differ in sizes and times.
#[must_use]
pub fn standard(seed: u64, length_ms: i64) -> Vec<ScaleEvent> {
    let rng = SeededRng::new(seed).child("script");
    let at = |percent: i64| length_ms.saturating_mul(percent) / 100;
    let count = |name: &str, from: i64, to: i64| usize::try_from(rng.child(name).between((from, to))).unwrap_or(1);
    let moment = |name: &str, from: i64, to: i64| rng.child(name).between((at(from), at(to)));
    let gib = 1 << 30;
    let web = workload("web", 250, gib / 2, None);
    let batch = workload("batch", 1000, 2 * gib, Some("spot"));
    let steady = workload("steady", 500, gib, Some("on-demand"));
    let large = workload("large", 1500, 3 * gib, None);
    let event =
        |at_ms: i64, workload: &Workload, replicas: usize| ScaleEvent { at_ms, workload: workload.clone(), replicas };
    let mut events = vec![
        event(moment("web burst", 1, 5), &web, count("web", 8, 30)),
        event(moment("batch burst", 5, 15), &batch, count("batch", 1, 10)),
        event(moment("steady burst", 5, 20), &steady, count("steady", 1, 6)),
        event(moment("large burst", 10, 25), &large, count("large", 1, 5)),
        event(moment("web growth", 25, 35), &web, count("more web", 10, 40)),
        event(moment("batch end", 40, 45), &batch, 0),
        event(moment("large end", 40, 50), &large, 0),
        event(moment("web end", 45, 50), &web, count("less web", 0, 3)),
    ];
    events.sort_by(|a, b| (a.at_ms, &a.workload.name).cmp(&(b.at_ms, &b.workload.name)));
    events
}

/// A workload with CPU in millicores, memory in bytes, and optionally a required capacity type.
#[must_use]
pub fn workload(name: &str, cpu: i64, memory: i64, capacity_type: Option<&str>) -> Workload {
    let requests = [(resources::CPU, cpu), (resources::MEMORY, memory), (resources::PODS, 1)];
    let selector = capacity_type.map(|value| (Text::from(CAPACITY_TYPE), Text::from(value)));
    let shape = PodShape {
        requests: Resources::from_iter(requests),
        node_selector: selector.into_iter().collect(),
        ..PodShape::default()
    };
    let label = (Text::from("app"), Text::from(name));
    Workload {
        namespace: Text::from("default"),
        name: Text::from(name),
        shape: Arc::new(shape),
        labels: Arc::new(Labels::from_iter([label])),
        do_not_disrupt: None,
    }
}
