//! Small clusters, repacked. Expectations are worked out by hand.
//!
//! Machine types of `lab-a`, on-demand, in dollars an hour: `box` has 4 CPUs and costs 0.20, `big`
//! has 8 and costs 0.40. Two `box` are as dear as one `big`, and fewer nodes win.

mod blocks;
mod outcome;

use manifests::Source;
use model::Timestamp;
use planning_input::{Captured, Options};
use repack::Repacking;

const CATALOGUE: &str = r#"{"apiVersion":"fleetwright.dev/v1","kind":"Catalogue",
 "regions":[{"name":"lab","zones":["lab-a"]}],"types":[
  {"name":"box","labels":{"kubernetes.io/arch":"amd64","kubernetes.io/os":"linux"},"overhead":{},
   "capacity":{"cpu":"4","memory":"16Gi","pods":"110"},
   "offerings":[{"zone":"lab-a","capacityType":"on-demand","priceUsdPerHour":0.2}]},
  {"name":"big","labels":{"kubernetes.io/arch":"amd64","kubernetes.io/os":"linux"},"overhead":{},
   "capacity":{"cpu":"8","memory":"32Gi","pods":"110"},
   "offerings":[{"zone":"lab-a","capacityType":"on-demand","priceUsdPerHour":0.4}]}]}"#;

/// A NodePool that may launch both types.
const POOL: &str = "
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: default}
spec:
  template:
    spec:
      nodeClassRef: {group: lab.dev, kind: LabClass, name: default}
      requirements: [{key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}]
---
";

/// 2026-01-01T12:00:00Z, in milliseconds: 20,454 days and twelve hours after 1970-01-01.
const NOW: i64 = (20_454 * 24 + 12) * 3_600_000;

/// A Node `name` of the machine type `machine`; `metadata` is further metadata in flow YAML.
pub fn node(name: &str, machine: &str, metadata: &str) -> String {
    let cpu = if machine == "box" { 4 } else { 8 };
    format!(
        "apiVersion: v1\nkind: Node\nmetadata: {{name: {name}, creationTimestamp: 2026-01-01T00:00:00Z, labels: \
         {{node.kubernetes.io/instance-type: {machine}, topology.kubernetes.io/zone: lab-a, \
         karpenter.sh/capacity-type: on-demand}}{metadata}}}\nstatus: {{allocatable: {{cpu: {cpu}, memory: {}Gi, \
         pods: 110}}}}\n---\n",
        4 * cpu
    )
}

/// A pod of the Deployment `app` with a request of one CPU that has run on `node` since 11:00.
pub fn pod(name: &str, app: &str, node: &str, annotations: &str, spec: &str) -> String {
    owned_pod(name, app, node, annotations, spec, "ReplicaSet")
}

/// As [`pod`], with an owner of `kind`; none if `kind` is empty.
pub fn owned_pod(name: &str, app: &str, node: &str, annotations: &str, spec: &str, kind: &str) -> String {
    let owner = match kind {
        "" => String::new(),
        kind => format!(", ownerReferences: [{{kind: {kind}, name: {app}, controller: true}}]"),
    };
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}, namespace: shop, labels: {{app: {app}}}, annotations: \
         {{{annotations}}}{owner}}}\nspec: {{nodeName: {node}{spec}, containers: [{{name: a, resources: {{requests: \
         {{cpu: 1}}}}}}]}}\nstatus: {{phase: Running, startTime: 2026-01-01T11:00:00Z, conditions: [{{type: Ready, \
         status: \"True\"}}]}}\n---\n"
    )
}

/// Three nodes `n-1` to `n-3` of the type `big`, each with one pod `web-N`. They cost 1.20; a
/// `box`, which costs 0.20, can carry the three CPUs of the pods.
pub fn three_nodes() -> String {
    (1..4)
        .map(|n| node(&format!("n-{n}"), "big", "") + &pod(&format!("web-{n}"), "web", &format!("n-{n}"), "", ""))
        .collect()
}

/// The pool and `text`, read for repacking.
pub fn read(text: &str) -> Captured {
    read_all(POOL.to_owned() + text)
}

fn read_all(manifests: String) -> Captured {
    let options = Options {
        repack: true,
        catalogue: Some(Source { name: "catalogue.json".into(), bytes: CATALOGUE.into() }),
        now: Timestamp::from_millis(NOW),
        search_steps: 1_000_000,
        ..Options::default()
    };
    let source = Source { name: "in.yaml".into(), bytes: manifests.into_bytes() };
    planning_input::read(&[source], &options).unwrap_or_else(|errors| panic!("refused: {errors:?}"))
}

/// The cluster of `text`, repacked.
pub fn repack(text: &str) -> Repacking {
    repack_all(&read(text))
}

fn repack_all(captured: &Captured) -> Repacking {
    repack::repack(&captured.input, &captured.running).expect("a valid plan")
}

/// The repacked cluster as text: costs, launched nodes, moved pods, and what blocks each node.
pub fn rendered(text: &str) -> String {
    render(&repack(text))
}

/// As [`rendered`], with a limit of `cpu` for the pool.
pub fn rendered_with_limit(cpu: u32, text: &str) -> String {
    let limited = POOL.replace("spec:\n  template", &format!("spec:\n  limits: {{cpu: {cpu}}}\n  template"));
    render(&repack_all(&read_all(limited + text)))
}

fn render(repacking: &Repacking) -> String {
    let (input, plan, cost) = (&repacking.input, &repacking.decision.plan, repacking.summary.cost);
    let mut lines = vec![format!("now {}, needed {}, held {}", cost.now, cost.needed, cost.held)];
    for node in &plan.nodes {
        let machine = &input.pools[node.pool as usize].catalogue.types[node.types[0] as usize];
        let pods: Vec<&str> = node.pods.iter().map(|pod| input.pods[*pod as usize].name.as_ref()).collect();
        lines.push(format!("launch {}: {}", machine.name, pods.join(" ")));
    }
    for (pod, node) in &plan.placements {
        lines.push(format!("move {} to {}", input.pods[*pod as usize].name, input.nodes[*node as usize].name));
    }
    for entry in &repacking.decision.report.unschedulable {
        lines.push(format!("no place for {}", input.pods[entry.pod as usize].name));
    }
    for held in &repacking.summary.held {
        let name = &input.nodes[held.node as usize].name;
        let line = |by: &model::disruption_plan::Block| {
            format!("{name} stays ({}): {}: {} {}", held.reason, by.code.as_str(), by.object, by.message)
        };
        lines.extend(held.by.iter().map(line));
    }
    lines.extend(repacking.summary.notes.iter().map(|note| format!("note: {note}")));
    lines.join("\n") + "\n"
}
