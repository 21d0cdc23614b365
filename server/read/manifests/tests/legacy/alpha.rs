//! v1alpha5 Provisioner and v1alpha1 AWSNodeTemplate.

use super::{assert_becomes, assert_noted, field_notes, good, objects};

const SPOT: &str = "
apiVersion: karpenter.sh/v1alpha5
kind: Provisioner
metadata: {name: spot, uid: 1-2, resourceVersion: '7'}
spec:
  requirements:
  - {key: karpenter.sh/capacity-type, operator: In, values: [spot]}
  providerRef: {name: shared}
  ttlSecondsAfterEmpty: 45
status: {}
---
apiVersion: karpenter.k8s.aws/v1alpha1
kind: AWSNodeTemplate
metadata: {name: shared}
spec:
  instanceProfile: worker-profile
  subnetSelector: {net: 'blue, green'}
  securityGroupSelector: {aws-ids: 'sg-0a1,sg-0b2'}
";

#[test]
fn a_provisioner_and_its_template_become_a_pool_and_a_class() {
    let converted = good(SPOT);
    assert_becomes(
        &converted,
        "
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: spot}
spec:
  template:
    spec:
      requirements:
      - {key: karpenter.sh/capacity-type, operator: In, values: [spot]}
      - {key: kubernetes.io/os, operator: In, values: [linux]}
      - {key: kubernetes.io/arch, operator: In, values: [amd64]}
      - {key: karpenter.k8s.aws/instance-category, operator: In, values: [c, m, r]}
      - {key: karpenter.k8s.aws/instance-generation, operator: Gt, values: ['2']}
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: shared}
      expireAfter: Never
  disruption: {consolidationPolicy: WhenEmpty, consolidateAfter: 45s}
---
apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata: {name: shared}
spec:
  instanceProfile: worker-profile
  subnetSelectorTerms: [{tags: {net: blue}}, {tags: {net: green}}]
  securityGroupSelectorTerms: [{id: sg-0a1}, {id: sg-0b2}]
  amiSelectorTerms: [{alias: al2@latest}]
  metadataOptions: {httpPutResponseHopLimit: 2}
",
    );
    for key in ["kubernetes.io/os", "kubernetes.io/arch", "instance-category", "instance-generation"] {
        assert_noted(&converted, &["in.yaml#1 karpenter.sh/v1alpha5 Provisioner/spot spec.requirements", key, "added"]);
    }
    assert_noted(&converted, &["Provisioner/spot spec.template.spec.expireAfter: added: Never"]);
    assert_noted(
        &converted,
        &[
            "in.yaml#2 karpenter.k8s.aws/v1alpha1 AWSNodeTemplate/shared spec.metadataOptions.httpPutResponseHopLimit: added: 2",
        ],
    );
    assert_noted(&converted, &["AWSNodeTemplate/shared: AWS publishes no AL2 images"]);
    // 4 requirements, expiry, ttl, class reference; family, two selectors, hop limit.
    assert_eq!(field_notes(&converted).len(), 7 + 4, "{:#?}", converted.notes);
}

#[test]
fn the_order_of_fields_in_a_converted_class_is_that_of_the_template() {
    let converted = good(SPOT);
    let keys: Vec<&String> = objects(&converted)[1]["spec"].as_object().unwrap().keys().collect();
    assert_eq!(
        keys,
        ["instanceProfile", "subnetSelectorTerms", "securityGroupSelectorTerms", "amiSelectorTerms", "metadataOptions"]
    );
}

/// A Provisioner with all fields inline, including its provider.
const INLINE: &str = "
apiVersion: karpenter.sh/v1alpha5
kind: Provisioner
metadata: {name: batch}
spec:
  labels: {tier: batch}
  annotations: {karpenter.sh/do-not-consolidate: 'true'}
  taints: [{key: tier, value: batch, effect: NoSchedule}]
  startupTaints: [{key: agent, effect: NoExecute}]
  requirements:
  - {key: kubernetes.io/arch, operator: In, values: [arm64]}
  - {key: karpenter.k8s.aws/instance-family, operator: In, values: [c6g, c7g]}
  - {key: karpenter.k8s.aws/instance-pods, operator: Gt, values: ['20']}
  limits: {resources: {cpu: 200, memory: 400Gi}}
  weight: 30
  consolidation: {enabled: true}
  ttlSecondsUntilExpired: 604800
  kubeletConfiguration: {maxPods: 60, containerRuntime: containerd, systemReserved: {cpu: 1}}
  provider:
    apiVersion: extensions.karpenter.sh/v1alpha1
    kind: AWS
    amiFamily: Bottlerocket
    instanceProfile: p
    subnetSelector: {karpenter.sh/discovery: c}
    securityGroupSelector: {karpenter.sh/discovery: c}
    metadataOptions: {httpTokens: required}
    blockDeviceMappings: [{deviceName: /dev/xvdb, ebs: {volumeSize: 200Gi, volumeType: gp3}}]
";

#[test]
fn a_provisioner_with_everything_inline_becomes_two_objects() {
    let converted = good(INLINE);
    assert_becomes(
        &converted,
        "
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: batch}
spec:
  template:
    metadata:
      labels: {tier: batch}
      annotations: {karpenter.sh/do-not-disrupt: 'true'}
    spec:
      requirements:
      - {key: kubernetes.io/arch, operator: In, values: [arm64]}
      - {key: karpenter.k8s.aws/instance-family, operator: In, values: [c6g, c7g]}
      - {key: kubernetes.io/os, operator: In, values: [linux]}
      - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
      taints: [{key: tier, value: batch, effect: NoSchedule}]
      startupTaints: [{key: agent, effect: NoExecute}]
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: batch}
      expireAfter: 168h
  disruption: {consolidationPolicy: WhenEmptyOrUnderutilized, consolidateAfter: 0s}
  limits: {cpu: 200, memory: 400Gi}
  weight: 30
---
apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata: {name: batch}
spec:
  amiSelectorTerms: [{alias: bottlerocket@latest}]
  instanceProfile: p
  subnetSelectorTerms: [{tags: {karpenter.sh/discovery: c}}]
  securityGroupSelectorTerms: [{tags: {karpenter.sh/discovery: c}}]
  metadataOptions: {httpTokens: required, httpEndpoint: enabled, httpProtocolIPv6: disabled, httpPutResponseHopLimit: 1}
  blockDeviceMappings: [{deviceName: /dev/xvdb, ebs: {volumeSize: 200Gi, volumeType: gp3}}]
  kubelet: {maxPods: 60, systemReserved: {cpu: '1'}}
",
    );
    // Fields of the Provisioner without an equivalent in v1.
    assert_noted(&converted, &["instance-pods", "dropped"]);
    assert_noted(&converted, &["containerRuntime", "dropped"]);
    assert_noted(&converted, &["do-not-consolidate", "holds drift as well"]);
    assert_noted(&converted, &["Provisioner/batch: expiry is forceful in v1"]);
}

/// Provisioners that refer to the class `shared`, with or without `maxPods`.
fn pools(blocks: &[(&str, Option<u32>)]) -> String {
    let pool = |(name, most): &(&str, Option<u32>)| {
        let kubelet = most.map_or(String::new(), |most| format!("  kubeletConfiguration: {{maxPods: {most}}}\n"));
        format!(
            "apiVersion: karpenter.sh/v1alpha5\nkind: Provisioner\nmetadata: {{name: {name}}}\nspec:\n  providerRef: {{name: shared}}\n{kubelet}---\n"
        )
    };
    let class = "apiVersion: karpenter.k8s.aws/v1alpha1\nkind: AWSNodeTemplate\nmetadata: {name: shared}\nspec:\n  instanceProfile: p\n  subnetSelector: {a: b}\n  securityGroupSelector: {a: b}\n";
    blocks.iter().map(pool).chain([class.to_owned()]).collect()
}

/// `pool -> class` and `class = maxPods` in order of output.
fn split(blocks: &[(&str, Option<u32>)]) -> Vec<String> {
    let converted = good(&pools(blocks));
    let shown = objects(&converted).into_iter().map(|object| {
        let name = object["metadata"]["name"].as_str().unwrap();
        match object["kind"].as_str().unwrap() {
            "NodePool" => {
                format!("{name} -> {}", object["spec"]["template"]["spec"]["nodeClassRef"]["name"].as_str().unwrap())
            }
            _ => format!("{name} = {}", object["spec"]["kubelet"]["maxPods"]),
        }
    });
    shown.collect()
}

#[test]
fn pools_that_differ_in_kubelet_settings_get_classes_of_their_own() {
    assert_eq!(
        split(&[("misc", None), ("web", Some(30)), ("ml", Some(110))]),
        [
            "misc -> shared",
            "web -> shared-web",
            "shared-web = 30",
            "ml -> shared-ml",
            "shared-ml = 110",
            "shared = null"
        ]
    );
    assert_eq!(
        split(&[("web", Some(30)), ("ml", Some(110))]),
        ["web -> shared-web", "shared-web = 30", "ml -> shared", "shared = 110"],
        "ml is alphabetically first and keeps the class"
    );
    assert_eq!(
        split(&[("web", Some(30)), ("ml", Some(30)), ("misc", Some(30))]),
        ["web -> shared", "ml -> shared", "misc -> shared", "shared = 30"]
    );
}

/// A Provisioner with `spec` and its class.
fn provisioner(spec: &str) -> serde_json::Value {
    let text = format!(
        "{}---\n{CLASS}",
        format_args!(
            "apiVersion: karpenter.sh/v1alpha5\nkind: Provisioner\nmetadata: {{name: a}}\nspec:\n  providerRef: {{name: c}}\n{spec}"
        )
    );
    objects(&good(&text))[0]["spec"].clone()
}

const CLASS: &str = "apiVersion: karpenter.k8s.aws/v1alpha1\nkind: AWSNodeTemplate\nmetadata: {name: c}\nspec: {instanceProfile: p, subnetSelector: {a: b}, securityGroupSelector: {a: b}}\n";

#[test]
fn emptiness_and_consolidation_follow_the_table() {
    for (fields, policy, after) in [
        ("  consolidation: {enabled: true}\n", "WhenEmptyOrUnderutilized", "0s"),
        ("  ttlSecondsAfterEmpty: 30\n", "WhenEmpty", "30s"),
        ("  consolidation: {}\n  ttlSecondsAfterEmpty: 120\n", "WhenEmpty", "2m"),
        ("  consolidation: {enabled: false}\n", "WhenEmpty", "Never"),
        ("", "WhenEmpty", "Never"),
        ("  consolidation: {enabled: true}\n  ttlSecondsAfterEmpty: 30\n", "WhenEmptyOrUnderutilized", "30s"),
    ] {
        let disruption = &provisioner(fields)["disruption"];
        assert_eq!(
            (disruption["consolidationPolicy"].as_str(), disruption["consolidateAfter"].as_str()),
            (Some(policy), Some(after)),
            "{fields:?}"
        );
    }
}

#[test]
fn defaults_are_not_added_where_the_key_is_required_or_labelled() {
    let keys = |spec: &str| -> Vec<String> {
        let spec = provisioner(spec);
        let entries = spec["template"]["spec"]["requirements"].as_array().unwrap().clone();
        entries.iter().map(|entry| entry["key"].as_str().unwrap().rsplit('/').next().unwrap().to_owned()).collect()
    };
    assert_eq!(
        keys("  requirements: [{key: kubernetes.io/arch, operator: Exists}]\n"),
        ["arch", "os", "capacity-type", "instance-category", "instance-generation"]
    );
    assert_eq!(
        keys("  labels: {kubernetes.io/arch: arm64}\n"),
        ["os", "capacity-type", "instance-category", "instance-generation"]
    );
    assert_eq!(
        keys("  requirements: [{key: node.kubernetes.io/instance-type, operator: In, values: [m5.large]}]\n"),
        ["instance-type", "os", "arch", "capacity-type"]
    );
    assert_eq!(
        keys("  requirements: [{key: karpenter.k8s.aws/instance-size, operator: In, values: [large]}]\n").len(),
        6,
        "a size suppresses nothing"
    );
}

#[test]
fn selectors_multiply_out_with_the_first_key_fastest() {
    let text = CLASS.replace("subnetSelector: {a: b}", "subnetSelector: {z: 'p,q', b: '1, 2', Name: '*'}");
    let converted = good(&text);
    let terms: Vec<String> = objects(&converted)[0]["spec"]["subnetSelectorTerms"]
        .as_array()
        .unwrap()
        .iter()
        .map(|term| format!("{}{}", term["tags"]["b"].as_str().unwrap(), term["tags"]["z"].as_str().unwrap()))
        .collect();
    assert_eq!(terms, ["1p", "2p", "1q", "2q"]);
}

#[test]
fn images_are_chosen_by_family_or_selector() {
    let class = |fields: &str| {
        let converted = good(&CLASS.replace("instanceProfile: p", &format!("instanceProfile: p, {fields}")));
        let spec = objects(&converted)[0]["spec"].clone();
        format!("{} {}", spec["amiFamily"].as_str().unwrap_or("-"), spec["amiSelectorTerms"])
    };
    assert_eq!(class("amiFamily: AL2"), r#"- [{"alias":"al2@latest"}]"#);
    assert_eq!(class("amiFamily: Windows2022"), r#"- [{"alias":"windows2022@latest"}]"#);
    assert_eq!(class("amiSelector: {aws-ids: 'ami-1, ami-2'}"), r#"AL2 [{"id":"ami-1"},{"id":"ami-2"}]"#);
    assert_eq!(
        class("amiFamily: Custom, amiSelector: {'aws::name': 'x*', 'aws::owners': 'self,123456789012', t: u}"),
        r#"Custom [{"name":"x*","owner":"self","tags":{"t":"u"}},{"name":"x*","owner":"123456789012","tags":{"t":"u"}}]"#
    );
    assert_eq!(
        class("amiFamily: Bottlerocket, amiSelector: {'aws::owners': self}"),
        r#"Bottlerocket [{"name":"*","owner":"self"}]"#
    );
    assert_eq!(class("amiFamily: Ubuntu, amiSelector: {'aws::name': ubuntu}"), r#"AL2 [{"name":"ubuntu"}]"#);
    assert_eq!(class("amiFamily: CoreOS"), r#"- [{"alias":"al2@latest"}]"#);
}

#[test]
fn the_settings_config_map_sets_profile_and_tags() {
    let text = format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: karpenter-global-settings}}\ndata: {{aws.defaultInstanceProfile: from-settings, aws.tags: '{{\"team\": \"x\", \"own\": \"y\"}}'}}\n---\n{}",
        CLASS.replace("instanceProfile: p, ", "tags: {own: z, karpenter.sh/managed-by: c}, ")
    );
    let converted = good(&text);
    let spec = &objects(&converted)[1]["spec"];
    assert_eq!(spec["instanceProfile"], "from-settings");
    assert_eq!(spec["tags"], serde_json::json!({"own": "z", "team": "x"}));
    assert_noted(&converted, &["managed-by", "dropped"]);
}

#[test]
fn an_ipv6_cluster_keeps_its_metadata_service_on_ipv6() {
    let text = format!(
        "apiVersion: karpenter.sh/v1alpha5\nkind: Provisioner\nmetadata: {{name: a}}\nspec: {{providerRef: {{name: c}}, kubeletConfiguration: {{clusterDNS: ['fd00::a']}}}}\n---\n{CLASS}"
    );
    let converted = good(&text);
    assert_eq!(
        objects(&converted)[1]["spec"]["metadataOptions"],
        serde_json::json!({"httpProtocolIPv6": "enabled", "httpPutResponseHopLimit": 2})
    );
}
