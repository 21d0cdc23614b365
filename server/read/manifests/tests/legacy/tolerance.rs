//! Mistakes that are converted, and that are errors with `strict`.

use super::{good, objects, strict};

const CLASS: &str = "apiVersion: karpenter.k8s.aws/v1\nkind: EC2NodeClass\nmetadata: {name: c}\nspec:\n  role: r\n  subnetSelectorTerms: [{tags: {a: b}}]\n  securityGroupSelectorTerms: [{tags: {a: b}}]\n";
const ALIAS: &str = "  amiSelectorTerms: [{alias: al2023@latest}]\n";
const REFERENCE: &str = "nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: c}";

/// A v1 pool with `spec` in its spec and `inner` in the spec of its template.
fn pool(spec: &str, inner: &str) -> String {
    format!(
        "apiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata: {{name: a}}\nspec:\n{spec}\n  template:\n    spec:\n      {REFERENCE}\n{inner}\n---\n{CLASS}{ALIAS}"
    )
}

const EMPTY: &str = "      requirements: []";

/// Asserts that the conversion of `text` has `value` at `path` of its first object, and that
/// `strict` reports an error that contains `named`.
fn assert_converts(text: &str, path: &str, value: &str, named: &str) {
    let converted = good(text);
    let found = path.split('.').fold(objects(&converted)[0], |value, step| {
        step.parse::<usize>().map_or_else(|_| &value[step], |index| &value[index])
    });
    assert_eq!(found.to_string(), value, "{path} of\n{text}");
    let refused = strict(text);
    assert!(refused.contains(named), "{named}\n{refused}");
}

#[test]
fn fields_in_the_wrong_place_are_moved() {
    let inner = "spec.template.spec";
    // Too deep, too high, and fields of other versions; each has one misplaced field.
    assert_converts(
        &pool("  limits: {resources: {cpu: 5}}", EMPTY),
        "spec.limits",
        r#"{"cpu":5}"#,
        "spec.limits.resources",
    );
    assert_converts(
        &pool("  disruption: {consolidateAfter: 0s, expireAfter: 24h}", EMPTY),
        &format!("{inner}.expireAfter"),
        "\"24h\"",
        "spec.disruption.expireAfter",
    );
    assert_converts(
        &pool("  disruption: {expireAfter: 24h}", EMPTY),
        "spec.disruption",
        "null",
        "spec.disruption.expireAfter",
    );
    assert_converts(
        &pool("  requirements: []", ""),
        &format!("{inner}.requirements"),
        "[]",
        "spec.requirements: is in the wrong place; write spec.template.spec.requirements (refused by --strict)",
    );
    assert_converts(
        &pool("  labels: {team: web}", EMPTY),
        "spec.template.metadata.labels.team",
        "\"web\"",
        "spec.template.metadata.labels",
    );
    assert_converts(&pool("", &format!("{EMPTY}\n    weight: 7")), "spec.weight", "7", "spec.template.weight");
    assert_converts(
        &pool("  ttlSecondsUntilExpired: 3600", EMPTY),
        &format!("{inner}.expireAfter"),
        "\"1h\"",
        "spec.ttlSecondsUntilExpired",
    );
    assert_converts(
        &pool("  ttlSecondsAfterEmpty: 30", EMPTY),
        "spec.disruption.consolidateAfter",
        "\"30s\"",
        "spec.ttlSecondsAfterEmpty",
    );
    assert_converts(
        &pool("  zones: [eu-west-1a]", EMPTY),
        &format!("{inner}.requirements.0.key"),
        "\"topology.kubernetes.io/zone\"",
        "spec.zones",
    );
    assert_converts(
        &pool("", &format!("{EMPTY}\n      kubeletConfiguration: {{maxPods: 9}}")),
        &format!("{inner}.kubelet"),
        "null",
        "kubeletConfiguration",
    );
}

#[test]
fn values_in_the_wrong_form_are_converted() {
    let requirement = |entry: &str| pool("", &format!("      requirements: [{entry}]"));
    let at = |step: &str| format!("spec.template.spec.requirements.0.{step}");
    // Operators and values of requirements first, then label keys, taints, weight and durations.
    assert_converts(
        &requirement("{key: a, operator: in, values: [x]}"),
        &at("operator"),
        "\"In\"",
        "requirements[0].operator",
    );
    assert_converts(
        &requirement("{key: a, operator: In, values: x}"),
        &at("values"),
        r#"["x"]"#,
        "requirements[0].values",
    );
    assert_converts(
        &requirement("{key: a, operator: Gt, values: [3]}"),
        &at("values"),
        r#"["3"]"#,
        "requirements[0].values",
    );
    assert_converts(
        &requirement("{key: a, operator: In, value: [x]}"),
        &at("values"),
        r#"["x"]"#,
        "requirements[0].value",
    );
    assert_converts(
        &requirement("{key: karpenter.sh/instance-family, operator: In, values: [m7g]}"),
        &at("key"),
        "\"karpenter.k8s.aws/instance-family\"",
        "karpenter.sh/instance-family",
    );
    assert_converts(
        &requirement("{key: capacity-type, operator: In, values: [spot]}"),
        &at("key"),
        "\"karpenter.sh/capacity-type\"",
        "capacity-type",
    );
    assert_converts(
        &pool("", &format!("{EMPTY}\n      taints: [{{key: a, operator: Equal, value: b, effect: NoSchedule}}]")),
        "spec.template.spec.taints.0",
        r#"{"key":"a","value":"b","effect":"NoSchedule"}"#,
        "taints[0].operator",
    );
    assert_converts(&pool("  weight: 0", EMPTY), "spec.weight", "null", "spec.weight");
    for (written, read) in [("30d", "720h"), ("1.5h", "90m"), ("never", "Never"), ("90", "90s")] {
        assert_converts(
            &pool("", &format!("{EMPTY}\n      expireAfter: {written}")),
            "spec.template.spec.expireAfter",
            &format!("{read:?}"),
            "spec.template.spec.expireAfter",
        );
    }
}

#[test]
fn misspelt_disruption_settings_are_converted() {
    let policy = pool("  disruption: {consolidationPolicy: WhenUnderutilized, consolidateAfter: 1m}", EMPTY);
    assert_converts(
        &policy,
        "spec.disruption.consolidationPolicy",
        "\"WhenEmptyOrUnderutilized\"",
        "consolidationPolicy",
    );
    assert_converts(
        &pool("  disruption: {consolidateAfter: 0s, budgets: [{nodes: 5}]}", EMPTY),
        "spec.disruption.budgets.0.nodes",
        "\"5\"",
        "budgets[0].nodes",
    );
}

#[test]
fn unknown_fields_are_dropped_with_a_hint() {
    assert_converts(
        &pool("  disruptions: {}", EMPTY),
        "spec.disruptions",
        "null",
        "spec.disruptions: there is no such field; did you mean disruption? (refused by --strict)",
    );
}

#[test]
fn a_refusal_of_strict_says_what_to_write_and_not_what_was_read() {
    let requirement = |entry: &str| pool("", &format!("      requirements: [{entry}]"));
    let cases = [
        pool("  limits: {resources: {cpu: 5}}", EMPTY),
        pool("  disruption: {expireAfter: 24h}", EMPTY),
        pool("  disruption: {consolidateAfter: 0s, budgets: [{nodes: 5}]}", EMPTY),
        pool("  labels: {team: web}", EMPTY),
        pool("  weight: 0", EMPTY),
        pool("  zones: [eu-west-1a]", EMPTY),
        pool("  ttlSecondsAfterEmpty: 30", EMPTY),
        pool("", &format!("{EMPTY}\n    weight: 7")),
        pool("", &format!("{EMPTY}\n      expireAfter: 30d")),
        requirement("{key: a, operator: in, values: [x]}"),
        requirement("{key: a, operator: In, values: x}"),
        requirement("{key: a, operator: Gt, values: [3]}"),
        requirement("{key: capacity-type, operator: In, values: [spot]}"),
    ];
    for text in cases {
        let refused = strict(&text);
        for line in refused.lines() {
            assert!(line.ends_with(" (refused by --strict)"), "{line}");
            let remedy = ["write ", "remove ", "did you mean "].iter().any(|verb| line.contains(verb));
            let reading =
                ["moved", "ignored", "dropped", "added", "read as", "kept"].iter().find(|word| line.contains(**word));
            assert!(remedy && reading.is_none(), "{line}");
        }
        assert!(!refused.is_empty(), "{text}");
    }
}

#[test]
fn a_misplaced_field_is_told_where_it_belongs() {
    let note = |text: &str| good(text).notes.join("\n");
    assert!(
        note(&pool("  budgets: []", EMPTY))
            .contains("spec.budgets: ignored, there is no such field; it belongs at spec.disruption.budgets")
    );
    assert!(
        note(&pool("", EMPTY).replace("metadata: {name: a}\n", "metadata: {name: a}\nspce: {}\n"))
            .contains("spce: ignored, there is no such field; did you mean spec?")
    );
}

#[test]
fn references_and_kinds_of_other_versions_are_converted() {
    let at = "spec.template.spec.nodeClassRef";
    let wanted = r#"{"group":"karpenter.k8s.aws","kind":"EC2NodeClass","name":"c"}"#;
    let with = |reference: &str| pool("", EMPTY).replace(REFERENCE, &format!("nodeClassRef: {reference}"));
    assert_converts(
        &with("{apiVersion: karpenter.k8s.aws/v1, kind: EC2NodeClass, name: c}"),
        at,
        wanted,
        "nodeClassRef",
    );
    assert_converts(&with("{group: karpenter.k8s.aws/v1, kind: EC2NodeClass, name: c}"), at, wanted, "nodeClassRef");
    assert_converts(
        &pool("", EMPTY).replace("kind: EC2NodeClass\nmetadata", "kind: NodeClass\nmetadata"),
        "kind",
        "\"NodePool\"",
        "apiVersion: found karpenter.k8s.aws/v1 NodeClass",
    );
    assert_converts(
        &pool("", EMPTY).replace("apiVersion: karpenter.sh/v1\n", "version: karpenter.sh/v1\n"),
        "apiVersion",
        "\"karpenter.sh/v1\"",
        "apiVersion",
    );
    assert_converts(
        &pool("", EMPTY).replace("name: a}", "name: a, namespace: karpenter}"),
        "metadata",
        r#"{"name":"a"}"#,
        "metadata.namespace",
    );
}

#[test]
fn classes_with_common_mistakes_are_converted() {
    let class = |fields: &str| format!("{CLASS}{fields}\n");
    // Families and aliases first, then disks and selectors.
    assert_converts(
        &class("  amiFamily: AL2023"),
        "spec.amiSelectorTerms",
        r#"[{"alias":"al2023@latest"}]"#,
        "spec.amiSelectorTerms",
    );
    assert_converts(
        &class("  amiSelectorTerms: [{alias: AL2023@latest}]"),
        "spec.amiSelectorTerms",
        r#"[{"alias":"al2023@latest"}]"#,
        "lower case",
    );
    assert_converts(
        &class("  amiSelectorTerms: [{alias: al2@latest}, {id: ami-0a}]"),
        "spec.amiSelectorTerms",
        r#"[{"alias":"al2@latest"}]"#,
        "must be the only term",
    );
    assert_converts(
        &class(&format!("{ALIAS}  blockDeviceMappings: [{{deviceName: /dev/xvda, ebs: {{volumeSize: 100}}}}]")),
        "spec.blockDeviceMappings.0.ebs.volumeSize",
        "\"100Gi\"",
        "volumeSize",
    );
    assert_converts(
        &class(ALIAS).replace("subnetSelectorTerms: [{tags: {a: b}}]", "subnetSelector: {a: b}"),
        "spec.subnetSelectorTerms",
        r#"[{"tags":{"a":"b"}}]"#,
        "spec.subnetSelector",
    );
}

#[test]
fn a_provisioner_with_all_fields_inline_is_converted() {
    let converted = good(
        "
apiVersion: karpenter.sh/v1alpha5
kind: Provisioner
metadata: {name: default}
spec:
  kubernetesVersion: '1.24'
  amiFamily: AmazonLinux
  instanceTypes: [c5.large, m5.large]
  labels: {nodegroup: karpenter}
  taints: [{key: example.com/taint, value: 'true', effect: NoSchedule}]
  subnetSelector: {karpenter.sh/discovery: mine}
  securityGroupSelector: {karpenter.sh/discovery: mine}
  role: node-role
  blockDeviceMappings: [{deviceName: /dev/xvda, ebs: {volumeSize: 50Gi, volumeType: gp3, deleteOnTermination: true}}]
  consolidation: {enabled: true}
  deprovisioning: {enabled: true}
",
    );
    // Unknown fields are dropped. `role` replaces the missing instance profile, and AmazonLinux is
    // a spelling of AL2.
    super::assert_becomes(
        &converted,
        "
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: default}
spec:
  template:
    metadata: {labels: {nodegroup: karpenter}}
    spec:
      requirements:
      - {key: node.kubernetes.io/instance-type, operator: In, values: [c5.large, m5.large]}
      - {key: kubernetes.io/os, operator: In, values: [linux]}
      - {key: kubernetes.io/arch, operator: In, values: [amd64]}
      - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
      taints: [{key: example.com/taint, value: 'true', effect: NoSchedule}]
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}
      expireAfter: Never
  disruption: {consolidationPolicy: WhenEmptyOrUnderutilized, consolidateAfter: 0s}
---
apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata: {name: default}
spec:
  amiSelectorTerms: [{alias: al2@latest}]
  subnetSelectorTerms: [{tags: {karpenter.sh/discovery: mine}}]
  securityGroupSelectorTerms: [{tags: {karpenter.sh/discovery: mine}}]
  role: node-role
  blockDeviceMappings: [{deviceName: /dev/xvda, ebs: {volumeSize: 50Gi, volumeType: gp3, deleteOnTermination: true}}]
  metadataOptions: {httpPutResponseHopLimit: 2}
",
    );
}
