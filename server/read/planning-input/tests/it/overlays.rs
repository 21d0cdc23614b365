//! NodeOverlays: what choices are made by, and what launches are charged.

use manifests::Source;
use model::plan::Plan;
use planning_input::Options;

/// A NodePool of p5.48xlarge, which costs $55.04 an hour, and two pods that need one each; `overlay` is the `spec` of a
/// NodeOverlay, without its requirements.
fn planned(overlay: Option<&str>) -> (model::input::PlanningInput, Plan) {
    let mut text = "
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: default}
spec:
  template:
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}
      requirements:
        - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
        - {key: node.kubernetes.io/instance-type, operator: In, values: [p5.48xlarge]}
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
apiVersion: apps/v1
kind: Deployment
metadata: {name: large}
spec:
  replicas: 2
  selector: {matchLabels: {app: large}}
  template:
    metadata: {labels: {app: large}}
    spec: {containers: [{name: main, image: a, resources: {requests: {cpu: 150}}}]}
"
    .to_owned();
    if let Some(overlay) = overlay {
        text += &format!(
            "---\napiVersion: karpenter.sh/v1alpha1\nkind: NodeOverlay\nmetadata: {{name: sly}}\nspec:\n  {overlay}\n  \
             requirements: [{{key: kubernetes.io/os, operator: In, values: [linux]}}]\n"
        );
    }
    let options = Options { region: Some("us-east-1".to_owned()), ..Options::default() };
    let source = Source { name: "in.yaml".into(), bytes: text.into_bytes() };
    let input = planning_input::read(&[source], &options).expect("valid manifests").input;
    let plan = planner::plan(&input).expect("a valid plan").plan;
    (input, plan)
}

#[test]
fn an_overlay_that_lowers_a_price_does_not_lower_what_launches_are_charged() {
    let charged = |overlay: Option<&str>| {
        let (input, plan) = planned(overlay);
        let each = plan.nodes.iter().map(|node| (node.price.0, node.charged_cost(&input.pools[0]).0));
        each.collect::<Vec<_>>()
    };
    let honest = charged(None);
    let [(price, _), _] = honest[..] else { panic!("two pods, two nodes: {honest:?}") };
    assert_eq!((price, honest[0]), (55_040_000, (price, price)));
    for overlay in ["price: \"0\"", "priceAdjustment: \"-100%\""] {
        assert_eq!(charged(Some(overlay)), [(0, price), (0, price)], "{overlay}");
    }
    assert_eq!(charged(Some("priceAdjustment: \"-25%\"")), [(41_280_000, price), (41_280_000, price)]);
    assert_eq!(charged(Some("price: \"60\"")), [(60_000_000, 60_000_000), (60_000_000, 60_000_000)]);
}
