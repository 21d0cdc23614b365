//! Input that `convert` rejects and a plan accepts.

use super::{assert_noted, objects, planned};

const POOL: &str =
    "apiVersion: karpenter.sh/v1alpha5\nkind: Provisioner\nmetadata: {name: a}\nspec: {ttlSecondsUntilExpired: 7200}\n";

#[test]
fn a_pool_without_class_is_planned_with_a_placeholder() {
    let converted = planned(POOL);
    let all = objects(&converted);
    assert_eq!(all[0]["spec"]["template"]["spec"]["nodeClassRef"]["name"], "stand-in");
    assert_eq!(all[1]["metadata"]["name"], "stand-in");
    assert_eq!(all[1]["spec"]["amiSelectorTerms"][0]["alias"], "al2023@latest");
    assert_noted(&converted, &["Provisioner/a spec.providerRef", "stand-in"]);
}

#[test]
fn a_missing_field_that_only_launches_need_is_a_note() {
    let text = "apiVersion: karpenter.k8s.aws/v1alpha1\nkind: AWSNodeTemplate\nmetadata: {name: t}\nspec: {launchTemplate: mine}\nstatus: {subnets: [{id: s, zone: eu-west-1a}]}\n";
    let converted = planned(text);
    let class = objects(&converted)[0];
    assert_eq!(class["spec"]["amiFamily"], "Custom");
    assert_eq!(class["status"]["subnets"][0]["zone"], "eu-west-1a", "status bounds zones");
    assert_noted(&converted, &["spec.launchTemplate", "planning goes on"]);
    assert_noted(&converted, &["spec.instanceProfile", "planning goes on"]);
}

#[test]
fn machines_become_claims() {
    let text = format!(
        "{POOL}---\n{}",
        "apiVersion: karpenter.sh/v1alpha5\nkind: Machine\nmetadata: {name: a-1, labels: {karpenter.sh/provisioner-name: a}}\n\
         spec: {machineTemplateRef: {name: t}, requirements: [], kubelet: {maxPods: 9}}\n\
         status: {providerID: x, conditions: [{type: MachineLaunched, status: 'True'}, {type: MachineEmpty, status: 'True'}, {type: Ready, status: 'True'}]}\n"
    );
    let converted = planned(&text);
    let claim = *objects(&converted).last().unwrap();
    assert_eq!((claim["kind"].as_str(), claim["apiVersion"].as_str()), (Some("NodeClaim"), Some("karpenter.sh/v1")));
    assert_eq!(claim["metadata"]["labels"], serde_json::json!({"karpenter.sh/nodepool": "a"}));
    let spec = serde_json::json!({"requirements": [], "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "t"}, "expireAfter": "2h"});
    assert_eq!(claim["spec"], spec, "its pool's 7200 s are 2 h");
    let conditions: Vec<_> = claim["status"]["conditions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|condition| condition["type"].as_str().unwrap())
        .collect();
    assert_eq!(conditions, ["Launched", "Ready"]);
}

#[test]
fn pods_and_nodes_of_an_old_cluster_refer_to_pools() {
    let pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: p, annotations: {karpenter.sh/do-not-evict: 'true'}}\nspec:\n  nodeSelector: {karpenter.sh/provisioner-name: a}\n  \
               affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: karpenter.sh/provisioner-name, operator: DoesNotExist}]}]}}}\n  \
               tolerations: [{key: karpenter.sh/disruption, operator: Equal, value: disrupting, effect: NoSchedule}]\n";
    let node = "apiVersion: v1\nkind: Node\nmetadata: {name: n, labels: {karpenter.sh/provisioner-name: a}}\n";
    let converted = planned(&format!("{pod}---\n{node}---\n{POOL}"));
    let all = objects(&converted);
    assert_eq!(all[0]["metadata"]["annotations"], serde_json::json!({"karpenter.sh/do-not-disrupt": "true"}));
    assert_eq!(all[0]["spec"]["nodeSelector"], serde_json::json!({"karpenter.sh/nodepool": "a"}));
    assert_eq!(
        all[0]["spec"]["tolerations"],
        serde_json::json!([{"key": "karpenter.sh/disrupted", "operator": "Exists", "effect": "NoSchedule"}])
    );
    assert!(all[0]["spec"]["affinity"].to_string().contains("karpenter.sh/nodepool"));
    assert_eq!(all[1]["metadata"]["labels"], serde_json::json!({"karpenter.sh/nodepool": "a"}));
    let alone = planned(&format!("{pod}---\n{node}"));
    assert_eq!(
        objects(&alone)[0]["spec"]["nodeSelector"],
        serde_json::json!({"karpenter.sh/provisioner-name": "a"}),
        "no Provisioner, no renaming"
    );
}

#[test]
fn objects_of_other_groups_are_unchanged() {
    let text = "apiVersion: v1\nkind: Service\nmetadata: {name: s, namespace: x}\n---\napiVersion: cluster.x-k8s.io/v1beta1\nkind: Machine\nmetadata: {name: m}\nspec: {a: b}\n---\n\
                apiVersion: eks.amazonaws.com/v1\nkind: NodeClass\nmetadata: {name: n}\nspec: {role: r}\n";
    let converted = planned(text);
    assert_eq!(converted.documents, super::documents(text));
    assert_eq!(converted.notes, [""; 0]);
}

#[test]
fn v1_objects_keep_status_and_annotations() {
    let text = "apiVersion: karpenter.sh/v1\nkind: NodeClaim\nmetadata: {name: a-1, annotations: {karpenter.k8s.aws/tagged: 'true', karpenter.sh/nodepool-hash: '1'}, finalizers: [karpenter.sh/termination]}\n\
                spec: {requirements: [], nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: c}, expireAfter: 720h}\nstatus: {providerID: x}\n---\n\
                apiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata: {name: a, annotations: {karpenter.sh/nodepool-hash: '1'}}\n\
                spec: {weight: 3, template: {spec: {requirements: [], nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: c}}}}\nstatus: {nodes: 1}\n";
    let converted = planned(text);
    assert_eq!(converted.documents, super::documents(text));
    assert_eq!(converted.notes, [""; 0]);
}
