//! NodePools.

use manifests::karpenter::NodePoolManifest;
use model::labels::{NODECLASS, NODEPOOL};
use model::{Budget, BudgetLimit, ConsolidationPolicy, DisruptionReason, MicroUsd, Millis, NotReady, Operator};

use super::{messages, read_with};

/// A NodePool with additional `metadata`, `spec` (indented by two spaces) and `inner`
/// (`spec.template.spec`, indented by six).
fn pool(metadata: &str, spec: &str, inner: &str) -> String {
    format!(
        "apiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata:\n  name: web\n{metadata}\nspec:\n{spec}\n  template:\n    metadata:\n      \
         labels: {{tier: front}}\n    spec:\n      nodeClassRef: {{group: karpenter.k8s.aws, kind: EC2NodeClass, name: base}}\n{inner}\n"
    )
}

const NO_REQUIREMENTS: &str = "      requirements: []";

fn read(yaml: &str) -> (Option<NodePoolManifest>, Vec<String>, Vec<String>) {
    let mut notes = Vec::new();
    let (pool, errors) = read_with(yaml, |at| NodePoolManifest::read(at, &mut notes));
    (pool, messages(&errors), notes)
}

fn good(yaml: &str) -> NodePoolManifest {
    let (pool, errors, _) = read(yaml);
    assert_eq!(errors, [""; 0]);
    pool.unwrap()
}

#[test]
fn a_pool_has_its_fields_and_karpenters_defaults() {
    let read = good(&pool("", "  limits: {cpu: 100, nodes: 7}\n  weight: 30", NO_REQUIREMENTS));
    assert_eq!((read.name.as_ref(), read.class.name.as_ref(), read.weight), ("web", "base", 30));
    assert_eq!(read.limits.to_string(), "cpu=100 nodes=7");
    assert_eq!(read.disruption.budgets, [Budget { limit: BudgetLimit::Percent(10), reasons: None, window: None }]);
    assert_eq!(read.disruption.policy, ConsolidationPolicy::WhenEmptyOrUnderutilized);
    assert_eq!(read.disruption.consolidate_after, Some(Millis::ZERO));
    assert_eq!(read.disruption.expire_after, Some(Millis::from_hours(30 * 24)), "720h are 30 days");
    assert_eq!(read.not_ready, None);
}

#[test]
fn requirements_are_met_with_labels_and_the_names_of_pool_and_class() {
    let inner = "      requirements:\n      - {key: tier, operator: In, values: [front, back]}\n      - {key: karpenter.k8s.aws/instance-cpu, operator: Gt, values: ['3'], minValues: 2}";
    let read = good(&pool("", "", inner));
    let tier = read.requirements.get("tier").unwrap();
    assert!(tier.has("front") && !tier.has("back"));
    let cpu = read.requirements.get("karpenter.k8s.aws/instance-cpu").unwrap();
    assert_eq!((cpu.bounds(), cpu.min_values()), ((Some(4), None), Some(2)), "greater than 3 is at least 4");
    assert!(read.requirements.get(NODEPOOL).unwrap().has("web"));
    assert_eq!(read.requirements.get(NODECLASS).unwrap().operator(), Operator::In);
}

#[test]
fn all_errors_are_reported_at_once_with_their_path() {
    let inner = "      requirements:\n      - {key: a b, operator: In, values: [x]}\n      - {key: a, operator: in, values: [x]}\n      - {key: a, operator: In}\n      \
                 - {key: a, operator: Lt, values: ['-1']}\n      - {key: karpenter.sh/nodepool, operator: Exists}\n      - {key: a, operator: In, values: [x], minValues: 2}\n      \
                 taints:\n      - {key: a}\n      expireAfter: 30d";
    let spec = "  weight: 101\n  disruption: {consolidationPolicy: Always, consolidateAfter: 5, budgets: [{nodes: 101%}, {nodes: '1', schedule: '@daily'}]}";
    let (_, errors, _) = read(&pool("", spec, inner));
    let expected = [
        "spec.disruption.budgets[0].nodes: found \"101%\", allowed: a number such as 5, or 0% to 100%",
        "spec.disruption.budgets[1]: schedule and duration belong together; write both or neither",
        "spec.disruption.consolidateAfter: found a number (5), allowed: a text (put it in quotes)",
        "spec.disruption.consolidationPolicy: found \"Always\", allowed: WhenEmpty, WhenEmptyOrUnderutilized, Balanced",
        "spec.template.spec.expireAfter: found \"30d\", allowed: whole numbers with s, m or h, such as 90s or 1h30m; or Never",
        "spec.template.spec.requirements[1].operator: found \"in\", allowed: In, NotIn, Exists, DoesNotExist, Gt, Lt, Gte, Lte; did you mean In?",
        "spec.template.spec.requirements[2].values: operator In needs at least one value",
        "spec.template.spec.requirements[5].minValues: found 2, allowed: at most the number of values, which is 1",
        "spec.template.spec.taints[0].effect: missing, but required",
        "spec.weight: found \"101\", allowed: 1 to 100",
    ];
    for line in expected {
        assert!(errors.iter().any(|error| error == line), "{line}\nis not among\n{}", errors.join("\n"));
    }
    for path in ["requirements[0].key", "requirements[3].values", "requirements[4].key"] {
        assert!(errors.iter().any(|error| error.contains(path)), "{path}\n{}", errors.join("\n"));
    }
    assert_eq!(errors.len(), expected.len() + 3, "{}", errors.join("\n"));
}

#[test]
fn missing_required_fields_are_errors() {
    let (read, errors, _) =
        read("{apiVersion: karpenter.sh/v1, kind: NodePool, metadata: {name: x}, spec: {template: {spec: {}}}}");
    assert_eq!(read, None);
    let missing = ["spec.template.spec.nodeClassRef", "spec.template.spec.requirements"];
    assert_eq!(errors, missing.map(|path| format!("{path}: missing, but required")));
}

#[test]
fn restricted_labels_are_rejected() {
    let yaml = pool("", "", NO_REQUIREMENTS)
        .replace("tier: front", "karpenter.sh/x: a, mykarpenter.sh/y: a, karpenter.sh/capacity-type: spot, b: 'a b'");
    let (_, errors, _) = read(&yaml);
    assert_eq!(errors.len(), 3, "{errors:?}");
    assert!(errors.iter().all(|error| !error.contains("capacity-type")), "{errors:?}");
}

#[test]
fn budgets_are_read_with_reasons_and_windows() {
    let budgets =
        "[{nodes: '0', reasons: [Drifted], schedule: '0 9 * * mon-fri', duration: 8h}, {nodes: 25%, reasons: []}]";
    let read =
        good(&pool("", &format!("  disruption: {{consolidateAfter: Never, budgets: {budgets}}}"), NO_REQUIREMENTS));
    let [night, share] = &read.disruption.budgets[..] else { panic!("{:?}", read.disruption) };
    assert_eq!(
        (night.limit, night.reasons.as_deref()),
        (BudgetLimit::Nodes(0), Some(&[DisruptionReason::Drifted][..]))
    );
    assert_eq!(night.window.as_ref().map(|window| window.duration), Some(Millis::from_hours(8)));
    assert_eq!((share.limit, share.reasons.as_deref()), (BudgetLimit::Percent(25), Some(&[][..])));
    assert_eq!(read.disruption.consolidate_after, None);
    let (_, errors, _) = self::read(&pool(
        "",
        "  disruption: {consolidateAfter: 0s, budgets: [{nodes: '1', schedule: 0 25 * * *, duration: 1h}]}",
        NO_REQUIREMENTS,
    ));
    assert!(errors[0].starts_with("spec.disruption.budgets[0].schedule: not a schedule: hour \"25\""), "{errors:?}");
}

/// Karpenter 1.15.
#[test]
fn budgets_name_repairs_and_consolidate_after_has_a_default() {
    let disruption = "  disruption: {consolidationPolicy: WhenEmpty, budgets: [{nodes: '0', reasons: [Unhealthy]}]}";
    let read = good(&pool("", disruption, NO_REQUIREMENTS));
    assert_eq!(read.disruption.budgets[0].reasons.as_deref(), Some(&[DisruptionReason::Unhealthy][..]));
    assert_eq!(read.disruption.consolidate_after, Some(Millis::ZERO));
}

#[test]
fn schedules_are_in_the_time_zone_of_the_pool() {
    let budgets = "  disruption: {consolidateAfter: 0s, budgets: [{nodes: '0', schedule: 0 9 * * *, duration: 8h}]}";
    let zone = |annotations: &str| {
        let read = good(&pool(annotations, budgets, NO_REQUIREMENTS));
        read.disruption.budgets[0].window.as_ref().map(|window| window.zone.name().to_owned())
    };
    assert_eq!(zone("").as_deref(), Some("UTC"));
    let annotated = zone("  annotations: {fleetwright.dev/budget-time-zone: America/New_York}");
    assert_eq!(annotated.as_deref(), Some("America/New_York"));
    let windows = "  annotations:\n    fleetwright.dev/budget-time-zone: Asia/Tokyo\n    fleetwright.dev/disruption-windows: 0 22 * * *;6h";
    let read = good(&pool(windows, "", NO_REQUIREMENTS)).disruption.windows;
    let facts: Vec<_> = read.iter().map(|window| (window.zone.name(), window.duration)).collect();
    assert_eq!(facts, [("Asia/Tokyo", Millis::from_hours(6))]);
    let jitter = good(&pool("  annotations: {fleetwright.dev/expire-jitter: 24h}", "", NO_REQUIREMENTS));
    assert_eq!(jitter.disruption.expire_jitter, Some(Millis::from_hours(24)));
}

#[test]
fn a_pool_that_only_karpenters_validation_rejects_is_unready() {
    let of_values = |values: &str| {
        let inner = format!("      requirements: [{{key: karpenter.sh/capacity-type, operator: In, {values}}}]");
        match good(&pool("", "", &inner)).not_ready {
            Some(NotReady::NodePool(text)) => text.to_string(),
            other => panic!("{other:?}"),
        }
    };
    let key = "requirement karpenter.sh/capacity-type";
    for (written, meant) in [("sopt", "spot"), ("ondemand", "on-demand"), ("On-Demand", "on-demand")] {
        assert_eq!(
            of_values(&format!("values: [{written}]")),
            format!("{key}: {written:?} is no capacity type; did you mean {meant}?")
        );
    }
    assert_eq!(
        of_values("values: [cheap]"),
        format!("{key}: \"cheap\" is no capacity type; allowed: on-demand, reserved, spot")
    );
    let taints = format!(
        "{NO_REQUIREMENTS}\n      taints: [{{key: a, effect: NoSchedule}}]\n      startupTaints: [{{key: a, value: x, effect: NoSchedule}}]"
    );
    assert_eq!(
        good(&pool("", "", &taints)).not_ready,
        Some(NotReady::NodePool("taint a:NoSchedule occurs twice in taints and startupTaints".into()))
    );
}

#[test]
fn readiness_follows_status_and_class() {
    let with = |status: &str| format!("{}status: {{conditions: [{status}]}}\n", pool("", "", NO_REQUIREMENTS));
    assert_eq!(good(&with("{type: Ready, status: 'True'}")).not_ready, None);
    let unready = good(&with("{type: Ready, status: 'Unknown', reason: AwaitingReconciliation}")).not_ready;
    assert_eq!(unready, Some(NotReady::NodePool("its condition Ready is Unknown: AwaitingReconciliation".into())));
    let class =
        good(&with("{type: NodeClassReady, status: 'False', message: no subnets}, {type: Ready, status: 'False'}"))
            .not_ready;
    assert_eq!(class, Some(NotReady::NodeClass("its condition NodeClassReady is False: no subnets".into())));
    assert!(good(&with("{type: NodeRegistrationHealthy, status: 'False'}")).unhealthy);
    let deleting = good(&pool("  deletionTimestamp: 2026-01-01T00:00:00Z", "", NO_REQUIREMENTS)).not_ready;
    assert_eq!(deleting, Some(NotReady::NodePool("it is being deleted".into())));
    let missing = good(&pool("", "", NO_REQUIREMENTS)).into_pool(&[], Default::default()).not_ready;
    assert_eq!(missing, Some(NotReady::NodeClass("there is no EC2NodeClass base in the input; add it".into())));
}

#[test]
fn static_pools_have_no_weight_and_limit_nodes_only() {
    assert_eq!(good(&pool("", "  replicas: 3\n  limits: {nodes: 5}", NO_REQUIREMENTS)).replicas, Some(3));
    let (_, errors, _) = read(&pool("", "  replicas: 3\n  weight: 1\n  limits: {cpu: 5}", NO_REQUIREMENTS));
    assert_eq!(errors.len(), 2, "{errors:?}");
}

#[test]
fn opt_in_rules_are_annotations_of_the_pool() {
    let annotations = "  annotations:\n    fleetwright.dev/zone-balance: 'true'\n    fleetwright.dev/safe-architectures: arm64, amd64\n    fleetwright.dev/spot-fallback-after: 10m\n    \
                       fleetwright.dev/max-price-per-vcpu: '0.05'\n    fleetwright.dev/max-node-price: '2'\n    fleetwright.dev/spot-max-percent: '0'\n    fleetwright.dev/on-demand-min-nodes: '2'\n    \
                       fleetwright.dev/max-node-vcpu: '64'\n    fleetwright.dev/min-nodes: '3'\n    fleetwright.dev/unheard-of: x";
    let template = "  template:\n    metadata:\n      annotations: {fleetwright.dev/zone-balance: 'true'}";
    let yaml = pool(annotations, "", NO_REQUIREMENTS).replace("  template:\n    metadata:", template);
    let (read, errors, notes) = read(&yaml);
    assert_eq!(errors, [""; 0]);
    let rules = read.unwrap().rules;
    assert!(rules.zone_balance);
    assert_eq!(rules.safe_architectures.iter().map(|a| a.as_ref()).collect::<Vec<_>>(), ["amd64", "arm64"]);
    assert_eq!(rules.spot_fallback_after, Some(Millis::from_mins(10)));
    assert_eq!((rules.max_price_per_vcpu, rules.max_node_price), (Some(MicroUsd(50_000)), Some(MicroUsd(2_000_000))));
    assert_eq!((rules.spot_max_percent, rules.on_demand_min_nodes), (Some(0), Some(2)));
    assert_eq!((rules.max_node_vcpu, rules.min_nodes), (Some(64), Some(3)));
    assert_eq!(notes.len(), 2, "{notes:?}");
    assert!(notes[0].contains("unheard-of") && notes[1].contains("template"), "{notes:?}");
}

#[test]
fn an_invalid_rule_is_an_error_that_names_the_allowed_values() {
    for (name, value, allowed) in [
        ("zone-balance", "'yes'", "true, false"),
        ("safe-architectures", "x86", "amd64, arm64"),
        ("spot-fallback-after", "0s", "above zero"),
        ("max-node-price", "'0'", "above zero"),
        ("spot-max-percent", "'101'", "0 to 100"),
        ("min-nodes", "'0'", "above zero"),
        ("min-nodes", "3", "a text"),
        ("budget-time-zone", "Berlin", "IANA"),
        ("disruption-windows", "0 25 * * *;1h", "0 to 23"),
        ("disruption-windows", "0 22 * * *", "semicolon"),
        ("expire-jitter", "1d", "above zero"),
        ("expire-replace-first", "'yes'", "true, false"),
    ] {
        let (_, errors, _) =
            read(&pool(&format!("  annotations: {{fleetwright.dev/{name}: {value}}}"), "", NO_REQUIREMENTS));
        assert!(
            errors.len() == 1 && errors[0].contains(allowed) && errors[0].contains(name),
            "{name} {value}: {errors:?}"
        );
    }
    assert!(
        !good(&pool("  annotations: {fleetwright.dev/zone-balance: 'false'}", "", NO_REQUIREMENTS)).rules.zone_balance
    );
}
