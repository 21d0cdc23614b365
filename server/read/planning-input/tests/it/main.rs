//! The planning input that small manifests produce. Expectations are worked out by hand.

mod documents;
mod drains;
mod errors;
mod nodes;
mod overlays;
mod pods;
mod realised_cost;
mod region;
mod running;
mod shapes;
mod spread_defaults;
mod volumes;
mod workloads;

use std::collections::BTreeMap;

use manifests::Source;
use model::input::PlanningInput;
use model::{NodeStage, Pod, PodShape, VolumeAlternatives};
use planning_input::{Captured, Options};

/// A NodePool and its EC2NodeClass, which a complete input needs.
pub const POOL: &str = "
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: default}
spec:
  template:
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}
      startupTaints: [{key: example.com/starting, effect: NoSchedule}]
      requirements: [{key: topology.kubernetes.io/zone, operator: In, values: [us-east-1a]}]
---
apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata: {name: default}
spec:
  role: nodes
  amiSelectorTerms: [{alias: al2023@latest}]
  subnetSelectorTerms: [{tags: {a: b}}]
  securityGroupSelectorTerms: [{tags: {a: b}}]
---
";

/// `text` as the source `in.yaml`.
pub fn source(text: &str) -> Source {
    Source { name: "in.yaml".into(), bytes: text.as_bytes().to_vec() }
}

/// The result of reading the pool and `text`.
pub fn captured(text: &str) -> Captured {
    captured_with(text, &Options::default())
}

pub fn captured_with(text: &str, options: &Options) -> Captured {
    let sources = [Source { name: "pool.yaml".into(), bytes: POOL.as_bytes().to_vec() }, source(text)];
    match planning_input::read(&sources, options) {
        Ok(captured) => captured,
        Err(errors) => panic!("refused: {}", lines(&errors).join("\n")),
    }
}

/// The planning input of the pool and `text`.
pub fn input(text: &str) -> PlanningInput {
    captured(text).input
}

/// The errors of `text`.
pub fn refused(text: &str) -> Vec<String> {
    match planning_input::read(&[source(text)], &Options::default()) {
        Ok(_) => panic!("was read:\n{text}"),
        Err(errors) => lines(&errors),
    }
}

fn lines(errors: &[manifests::InputError]) -> Vec<String> {
    errors.iter().map(ToString::to_string).collect()
}

/// A pod with one container and `spec`, further fields in flow YAML.
pub fn pod(name: &str, spec: &str) -> String {
    let comma = if spec.is_empty() { "" } else { ", " };
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}, labels: {{app: {name}}}}}\nspec: {{containers: [{{name: a}}]{comma}{spec}}}\n---\n"
    )
}

/// The shape of the only pod of `text`.
pub fn shape(text: &str) -> PodShape {
    let input = input(text);
    assert_eq!(input.pods.len(), 1, "{}", planned(&input));
    input.shapes[input.pods[0].shape as usize].clone()
}

/// The volume requirements of the only pod of `text`.
pub fn volumes(text: &str) -> VolumeAlternatives {
    let input = input(text);
    assert_eq!(input.pods.len(), 1, "{}", planned(&input));
    input.pods[0].volumes.map(|index| input.volume_sets[index as usize].clone()).unwrap_or_default()
}

/// Pods to plan, one per line: `namespace/name workload`, and the node that they move from.
pub fn planned(input: &PlanningInput) -> String {
    let line = |pod: &Pod| {
        let leaves = pod.moved_from.as_ref().map(|node| format!(" leaves {node}")).unwrap_or_default();
        let invalid = pod.invalid.as_ref().map(|_| " invalid").unwrap_or_default();
        format!("{}/{} {}{leaves}{invalid}", pod.namespace, pod.name, pod.workload)
    };
    input.pods.iter().map(line).collect::<Vec<String>>().join("\n")
}

/// Nodes, one per line: name, stage, taint keys, and pods in brackets.
pub fn nodes(input: &PlanningInput) -> String {
    let stages = BTreeMap::from([
        (NodeStage::InFlight, "in flight"),
        (NodeStage::Registered, "registered"),
        (NodeStage::Initialized, "initialized"),
        (NodeStage::Deleting, "deleting"),
    ]);
    let mut lines = Vec::new();
    for node in &input.nodes {
        let taints: Vec<&str> = node.taints.iter().map(|taint| taint.key.as_ref()).collect();
        let pods = node.pods.iter().map(|pod| {
            let marks =
                [(pod.daemon.is_some(), " daemon"), (pod.terminating, " terminating"), (pod.leaving, " leaving")];
            let marks: String = marks.iter().filter(|(is, _)| *is).map(|(_, mark)| *mark).collect();
            format!("{}{marks}", pod.name)
        });
        lines.push(format!(
            "{} {} taints {taints:?} pods [{}]",
            node.name,
            stages[&node.stage],
            pods.collect::<Vec<_>>().join(", ")
        ));
    }
    lines.join("\n")
}
