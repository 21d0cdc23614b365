//! v1beta1 NodePool and EC2NodeClass.

use super::{assert_becomes, assert_noted, good, objects};

#[test]
fn a_pool_and_its_class_move_to_v1() {
    let converted = good(
        "
apiVersion: karpenter.sh/v1beta1
kind: NodePool
metadata: {name: steady, annotations: {karpenter.sh/nodepool-hash: '1', karpenter.sh/nodepool-hash-version: v2}}
spec:
  template:
    metadata: {labels: {tier: steady}}
    spec:
      nodeClassRef: {apiVersion: karpenter.k8s.aws/v1beta1, kind: EC2NodeClass, name: core}
      requirements:
      - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
      - {key: karpenter.k8s.aws/instance-family, operator: In, values: [m6i, m7i, m7a], minValues: 2}
      kubelet: {maxPods: 58, evictionHard: {memory.available: 5%}}
  disruption:
    consolidationPolicy: WhenUnderutilized
    expireAfter: Never
    budgets: [{nodes: 20%}, {nodes: '0', schedule: 0 8 * * mon-fri, duration: 10h}]
  limits: {cpu: '400'}
---
apiVersion: karpenter.k8s.aws/v1beta1
kind: EC2NodeClass
metadata: {name: core}
spec:
  amiFamily: AL2023
  role: nodes
  subnetSelectorTerms: [{tags: {karpenter.sh/discovery: c}}]
  securityGroupSelectorTerms: [{name: nodes}]
  tags: {team: x}
",
    );
    assert_becomes(
        &converted,
        "
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: steady}
spec:
  template:
    metadata: {labels: {tier: steady}}
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: core}
      requirements:
      - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
      - {key: karpenter.k8s.aws/instance-family, operator: In, values: [m6i, m7i, m7a], minValues: 2}
      expireAfter: Never
  disruption:
    consolidationPolicy: WhenEmptyOrUnderutilized
    budgets: [{nodes: 20%}, {nodes: '0', schedule: 0 8 * * mon-fri, duration: 10h}]
    consolidateAfter: 0s
  limits: {cpu: '400'}
---
apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata: {name: core}
spec:
  amiSelectorTerms: [{alias: al2023@latest}]
  role: nodes
  subnetSelectorTerms: [{tags: {karpenter.sh/discovery: c}}]
  securityGroupSelectorTerms: [{name: nodes}]
  tags: {team: x}
  metadataOptions: {httpPutResponseHopLimit: 2}
  kubelet: {maxPods: 58, evictionHard: {memory.available: 5%}}
",
    );
    // The two fields that v1 has in another place.
    assert_noted(&converted, &["spec.disruption.expireAfter: is in spec.template.spec in v1"]);
    assert_noted(&converted, &["spec.template.spec.kubelet: is in spec.kubelet of the EC2NodeClass"]);
}

/// `disruption` and `expireAfter` of a converted v1beta1 pool with `fields` in its `disruption`.
fn disruption(fields: &str) -> String {
    let text = format!(
        "apiVersion: karpenter.sh/v1beta1\nkind: NodePool\nmetadata: {{name: a}}\nspec:\n  template: {{spec: {{requirements: [], nodeClassRef: {{name: c}}}}}}\n  disruption: {fields}\n"
    );
    let converted = good(&text);
    let spec = &objects(&converted)[0]["spec"];
    let part = |key: &str| spec["disruption"][key].as_str().unwrap_or("-").to_owned();
    format!(
        "{} {} {}",
        part("consolidationPolicy"),
        part("consolidateAfter"),
        spec["template"]["spec"]["expireAfter"].as_str().unwrap_or("-")
    )
}

#[test]
fn disruption_follows_the_table() {
    assert_eq!(disruption("{consolidationPolicy: WhenUnderutilized}"), "WhenEmptyOrUnderutilized 0s 720h");
    assert_eq!(
        disruption("{consolidationPolicy: WhenUnderutilized, consolidateAfter: Never}"),
        "WhenEmptyOrUnderutilized Never 720h"
    );
    assert_eq!(
        disruption("{consolidationPolicy: WhenUnderutilized, consolidateAfter: 30s}"),
        "WhenEmptyOrUnderutilized 30s 720h"
    );
    assert_eq!(
        disruption("{consolidationPolicy: WhenEmpty, consolidateAfter: 5m, expireAfter: 24h}"),
        "WhenEmpty 5m 24h"
    );
    assert_eq!(disruption("{consolidationPolicy: WhenEmpty}"), "WhenEmpty 0s 720h");
    assert_eq!(disruption("null"), "WhenEmptyOrUnderutilized 0s 720h");
}

/// As in published examples of v1beta1: old selectors, misplaced limits, and no references.
const ARTICLE: &str = "
apiVersion: karpenter.sh/v1beta1
kind: NodePool
metadata: {name: general}
spec:
  template:
    spec:
      requirements: [{key: kubernetes.io/arch, operator: In, values: [amd64]}]
      nodeClassRef: {name: base}
  limits: {resources: {cpu: 1000, memory: 4Ti}}
  disruption: {consolidationPolicy: WhenUnderutilized, consolidateAfter: 30s}
---
apiVersion: karpenter.k8s.aws/v1beta1
kind: EC2NodeClass
metadata: {name: base}
spec:
  amiFamily: AL2
  role: NodeRole
  subnetSelector: {karpenter.sh/discovery: mine}
  securityGroupSelector: {karpenter.sh/discovery: mine}
---
apiVersion: karpenter.sh/v1beta1
kind: NodePool
metadata: {name: gpu}
spec:
  template:
    spec:
      requirements: [{key: node.kubernetes.io/instance-type, operator: In, values: [p4d.24xlarge]}]
  weight: 80
---
apiVersion: karpenter.sh/v1beta1
kind: NodePool
metadata: {name: batch}
spec:
  template:
    spec:
      requirements: [{key: karpenter.sh/capacity-type, operator: In, values: [spot]}]
  weight: 20
";

#[test]
fn a_manifest_with_common_mistakes_is_converted() {
    let converted = good(ARTICLE);
    let all = objects(&converted);
    assert_eq!(all[0]["spec"]["limits"], serde_json::json!({"cpu": 1000, "memory": "4Ti"}));
    assert_eq!(all[0]["spec"]["disruption"]["consolidateAfter"], "30s");
    assert_eq!(
        all[0]["spec"]["template"]["spec"]["requirements"].as_array().unwrap().len(),
        1,
        "v1beta1 added no defaults"
    );
    assert_eq!(
        all[1]["spec"]["subnetSelectorTerms"],
        serde_json::json!([{"tags": {"karpenter.sh/discovery": "mine"}}])
    );
    for (at, weight) in [(2, 80), (3, 20)] {
        assert_eq!(all[at]["spec"]["template"]["spec"]["nodeClassRef"]["name"], "base");
        assert_eq!(all[at]["spec"]["weight"], weight);
        assert_eq!(all[at]["spec"]["template"]["spec"]["expireAfter"], "720h");
    }
    // limits, consolidateAfter, two selectors, two references.
    let refused = super::strict(ARTICLE);
    assert_eq!(refused.lines().count(), 6, "{refused}");
    for part in [
        "spec.limits.resources",
        "spec.disruption.consolidateAfter",
        "spec.subnetSelector",
        "spec.securityGroupSelector",
        "NodePool/gpu",
        "NodePool/batch",
    ] {
        assert!(refused.contains(part), "{part}\n{refused}");
    }
}

#[test]
fn a_release_1_0_object_keeps_its_kubelet_annotation_as_a_block_of_the_class() {
    let text = "
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: a, annotations: {compatibility.karpenter.sh/v1beta1-kubelet-conversion: '{\"maxPods\": 42}'}}
spec:
  template: {spec: {requirements: [], nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: c}}}
---
apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata: {name: c}
spec: {amiSelectorTerms: [{alias: al2023@latest}], role: r, subnetSelectorTerms: [{tags: {a: b}}], securityGroupSelectorTerms: [{tags: {a: b}}]}
";
    let converted = good(text);
    assert_eq!(objects(&converted)[1]["spec"]["kubelet"]["maxPods"], 42);
    assert_eq!(objects(&converted)[0]["metadata"], serde_json::json!({"name": "a"}));
}
