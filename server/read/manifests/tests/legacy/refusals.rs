//! Objects that cannot be converted.

use manifests::legacy::Options;

use super::{good, objects, refused, run};

/// An AWSNodeTemplate with instance profile, subnets, security groups, and `fields`.
fn template(fields: &str) -> String {
    format!(
        "apiVersion: karpenter.k8s.aws/v1alpha1\nkind: AWSNodeTemplate\nmetadata: {{name: t}}\nspec: {{instanceProfile: p, subnetSelector: {{a: b}}, securityGroupSelector: {{a: b}}, {fields}}}\n"
    )
}

#[test]
fn fields_without_an_equivalent_in_v1_are_errors_with_object_and_field() {
    let many: String = (0..31).map(|n| format!("v{n},")).collect();
    // Each case has one error; the message contains object, field and remedy.
    for (text, parts) in [
        (template("launchTemplate: mine"), ["AWSNodeTemplate/t", "spec.launchTemplate", "amiSelectorTerms"]),
        (template("amiFamily: Ubuntu"), ["AWSNodeTemplate/t", "spec.amiFamily", "Ubuntu"]),
        (template("amiFamily: Custom"), ["AWSNodeTemplate/t", "spec.amiFamily", "amiSelectorTerms"]),
        (
            template("").replace("instanceProfile: p, ", ""),
            ["AWSNodeTemplate/t", "spec.instanceProfile", "--node-role"],
        ),
        (
            template("blockDeviceMappings: [{deviceName: /dev/xvda}]"),
            ["AWSNodeTemplate/t", "spec.blockDeviceMappings[0].ebs", "missing"],
        ),
        (
            template("").replace("subnetSelector: {a: b}", &format!("subnetSelector: {{a: '{many}'}}")),
            ["spec.subnetSelector", "31 terms", "at most 30"],
        ),
        (
            template("").replace("subnetSelector: {a: b}", "subnetSelector: subnet-1"),
            ["spec.subnetSelector", "tags: {key: value}", "id: subnet-"],
        ),
        (
            pool("  kubeletConfiguration: {imageGCHighThresholdPercent: 50, imageGCLowThresholdPercent: 50}"),
            ["imageGCHighThresholdPercent", "found 50", "more than"],
        ),
        (pool("  ttlSecondsUntilExpired: -1"), ["Provisioner/a", "spec.ttlSecondsUntilExpired", "-1"]),
        (
            pool("  requirements: [{key: karpenter.sh/foo, operator: Exists}]"),
            ["spec.requirements[0].key", "karpenter.sh/foo", "well-known"],
        ),
        (pool("  requirements: [{key: a, operator: Has}]"), ["requirements[0].operator", "Has", "allowed"]),
        (pool("  labels: {karpenter.sh/x: y}"), ["labels", "karpenter.sh/x", "own"]),
    ] {
        let errors = refused(&text);
        assert!(parts.iter().all(|part| errors.contains(part)), "{parts:?}\n{errors}");
    }
}

/// A Provisioner with `fields`, and its class.
fn pool(fields: &str) -> String {
    format!(
        "apiVersion: karpenter.sh/v1alpha5\nkind: Provisioner\nmetadata: {{name: a}}\nspec:\n  providerRef: {{name: t}}\n{fields}\n---\n{}",
        template("")
    )
}

#[test]
fn too_many_combinations_are_an_error_before_they_are_built() {
    let list: String = (0..10_000).map(|n| format!("v{n},")).collect();
    let text = template("").replace(
        "subnetSelector: {a: b}",
        &format!("subnetSelector: {{a: '{list}', b: '{list}', c: '{list}', d: '{list}', e: '{list}'}}"),
    );
    assert!(refused(&text).contains("at most 30"));
}

#[test]
fn lost_indentation_is_an_error_and_never_guessed() {
    let errors =
        refused("apiVersion: karpenter.sh/v1alpha5\nkind: Provisioner\nmetadata:\nname: a\nspec:\nrequirements: []\n");
    assert!(errors.contains("name is at the top level of the object") && errors.contains("indentation"), "{errors}");
}

#[test]
fn a_schedule_needs_a_duration() {
    let text = "apiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata: {name: a}\nspec:\n  template: {spec: {requirements: [], nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: c}}}\n  disruption: {consolidateAfter: 0s, budgets: [{nodes: '1', schedule: '@daily'}]}\n";
    assert!(
        refused(text).contains("NodePool/a, spec.disruption.budgets[0]: schedule and duration belong together"),
        "{}",
        refused(text)
    );
}

#[test]
fn a_pool_without_class_is_an_error_when_the_input_has_none_or_two() {
    let pool = "apiVersion: karpenter.sh/v1beta1\nkind: NodePool\nmetadata: {name: a}\nspec: {template: {spec: {requirements: []}}}\n";
    assert!(refused(pool).contains("classes of the input: none"));
    let two = format!("{pool}---\n{}---\n{}", template(""), template("").replace("name: t", "name: u"));
    assert!(refused(&two).contains("classes of the input: t, u"));
}

#[test]
fn profile_or_role_may_come_from_the_command_line() {
    let text = template("").replace("instanceProfile: p, ", "");
    let spec = |options: &Options| run(&text, options).unwrap().documents[0].value["spec"].clone();
    let role = spec(&Options { node_role: Some("r".to_owned()), ..Options::default() });
    assert_eq!((role["role"].as_str(), role.get("instanceProfile")), (Some("r"), None));
    assert_eq!(spec(&Options { instance_profile: Some("q".to_owned()), ..Options::default() })["instanceProfile"], "q");
    assert_eq!(objects(&good(&template("")))[0]["spec"]["instanceProfile"], "p");
}

#[test]
fn huge_and_odd_values_are_no_panic() {
    for spec in [
        "[]",
        "3",
        "{ttlSecondsAfterEmpty: 99999999999999999999}",
        "{limits: [], requirements: {a: b}}",
        "{requirements: [1, [], null]}",
        "{provider: 7}",
        "{taints: x, labels: [y]}",
        "{kubeletConfiguration: []}",
    ] {
        let text =
            format!("apiVersion: karpenter.sh/v1alpha5\nkind: Provisioner\nmetadata: {{name: a}}\nspec: {spec}\n");
        assert!(!refused(&text).is_empty(), "{spec}");
    }
}
