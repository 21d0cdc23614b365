//! Constants and tables shared by all inputs of these tests.

use model::input::PlanningInput;
use model::labels::{HOSTNAME, ZONE};
use model::{
    Effect, HostPort, LabelSelector, Labels, Operator, Requirement, Requirements, Resources, SelectorOperator,
    SelectorTerm, Taint, Text, Toleration, TolerationOperator, VolumeAlternatives,
};

pub const GIB: i64 = 1 << 30;
pub const ZONES: [&str; 3] = ["a", "b", "c"];
/// Values of the label `app` in small inputs.
pub const APPS: [&str; 3] = ["web", "db", "job"];
/// As a selector, this number selects every app.
pub const EVERY_APP: usize = APPS.len();
/// Numbers of apps, [`EVERY_APP`] among them.
pub const LABEL_SETS: usize = 24;
pub const NAMESPACES: [&str; 2] = ["default", "other"];

pub fn text(value: &str) -> Text {
    Text::from(value)
}

pub fn labels(pairs: &[(&str, &str)]) -> Labels {
    pairs.iter().map(|(key, value)| (text(key), text(value))).collect()
}

pub fn amounts(cpu: i64, memory: i64, pods: i64) -> Resources {
    Resources::from_iter([("cpu", cpu), ("memory", memory), ("pods", pods)])
}

pub fn taint(key: &str, effect: Effect) -> Taint {
    Taint { key: text(key), value: text(""), effect }
}

pub fn tolerating(key: &str) -> Toleration {
    Toleration { key: text(key), operator: TolerationOperator::Exists, value: text(""), effect: None }
}

pub fn port(port: u16) -> HostPort {
    HostPort { ip: text(""), protocol: text("TCP"), port }
}

/// The value of the label `app` with this number.
pub fn app_name(app: usize) -> String {
    APPS.get(app).map_or_else(|| format!("app-{app}"), ToString::to_string)
}

/// Selector of the pods of app number `app`.
pub fn selecting(app: usize) -> Option<LabelSelector> {
    let (operator, values) = match app {
        EVERY_APP => (SelectorOperator::Exists, Vec::new()),
        app => (SelectorOperator::In, vec![text(&app_name(app))]),
    };
    Some(LabelSelector::new(vec![SelectorTerm { key: text("app"), operator, values }]))
}

/// Volumes of pods: 0 a volume in zone a, 1 one in b or c, 2 two attachments, 3 a volume of node-0
/// only, 4 a missing claim, 5 a claim that one pod of the cluster may use.
pub fn volumes() -> Vec<VolumeAlternatives> {
    let within = |key: &str, values: &[&str]| -> Requirements {
        [Requirement::new(key, Operator::In, values.iter().map(|value| text(value)))].into_iter().collect()
    };
    let disk = |name: &str| (text("ebs"), text(name));
    let plain = VolumeAlternatives::default();
    vec![
        VolumeAlternatives { any_of: vec![within(ZONE, &["a"])], attachments: vec![disk("v0")], ..plain.clone() },
        VolumeAlternatives { any_of: vec![within(ZONE, &["b"]), within(ZONE, &["c"])], ..plain.clone() },
        VolumeAlternatives { attachments: vec![disk("v1"), disk("v2")], ..plain.clone() },
        VolumeAlternatives { any_of: vec![within(HOSTNAME, &["node-0"])], ..plain.clone() },
        VolumeAlternatives { blocked: Some(text("the claim is missing")), ..plain.clone() },
        VolumeAlternatives { exclusive_claims: vec![text("default/only")], attachments: vec![disk("v3")], ..plain },
    ]
}

/// `input` with its tables rotated by these amounts and every index adapted.
pub fn turned(input: &PlanningInput, (shapes, labels, volumes, daemons): (u8, u8, u8, u8)) -> PlanningInput {
    let mut input = input.clone();
    let shapes = turn(&mut input.shapes, shapes);
    let labels = turn(&mut input.label_sets, labels);
    let volumes = turn(&mut input.volume_sets, volumes);
    for pod in &mut input.pods {
        (pod.shape, pod.labels) = (shapes(pod.shape), labels(pod.labels));
        pod.volumes = pod.volumes.map(&volumes);
    }
    for pod in input.nodes.iter_mut().flat_map(|node| &mut node.pods) {
        (pod.shape, pod.labels) = (shapes(pod.shape), labels(pod.labels));
        pod.volumes = pod.volumes.map(&volumes);
    }
    for daemon in &mut input.daemons {
        (daemon.shape, daemon.labels) = (shapes(daemon.shape), labels(daemon.labels));
    }
    drop(turn(&mut input.daemons, daemons));
    input
}

/// Rotates `table` and returns the new position of each index.
fn turn<T>(table: &mut [T], by: u8) -> impl Fn(u32) -> u32 + use<T> {
    let size = table.len().max(1) as u32;
    let by = u32::from(by) % size;
    table.rotate_right(by as usize);
    move |at| (at + by) % size
}
