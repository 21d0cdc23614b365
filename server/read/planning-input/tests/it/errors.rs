//! Objects that an API server would reject are errors, with the field and the allowed values.

use manifests::Source;
use planning_input::Options;

use crate::{POOL, captured, pod, refused, source};

/// The only error of a pod with this specification, without source and object.
fn line(spec: &str) -> String {
    let mut lines = refused(&format!("apiVersion: v1\nkind: Pod\nmetadata: {{name: p}}\nspec: {{{spec}}}\n"));
    assert_eq!(lines.len(), 1, "{spec}: {lines:?}");
    let line = lines.remove(0);
    line.strip_prefix("in.yaml, document 1, Pod/default/p, ").unwrap_or_else(|| panic!("{line}")).to_owned()
}

#[test]
fn amounts_are_checked() {
    let container = |resources: &str| format!("containers: [{{name: a, resources: {{{resources}}}}}]");
    // Each case has one error, so that its line is the only one.
    for (resources, expected) in [
        (
            "requests: {cpu: '-1'}",
            "spec.containers[0].resources.requests.cpu: found \"-1\", allowed: a quantity of zero or more",
        ),
        ("requests: {memory: 1Gib}", "spec.containers[0].resources.requests.memory: \"1Gib\" is not a quantity"),
        (
            "requests: {cpu: '2'}, limits: {cpu: '1'}",
            "spec.containers[0].resources.requests.cpu: found 2, allowed: at most the limit of 1",
        ),
        (
            "requests: {gpu: 1}, limits: {gpu: 1}",
            "spec.containers[0].resources.limits.gpu: found the resource name \"gpu\"",
        ),
        (
            "requests: {nvidia.com/gpu: 1}",
            "spec.containers[0].resources.requests[\"nvidia.com/gpu\"]: nvidia.com/gpu cannot be overcommitted",
        ),
        (
            "limits: {nvidia.com/gpu: 500m}",
            "spec.containers[0].resources.limits[\"nvidia.com/gpu\"]: found \"500m\", allowed: a whole number",
        ),
        ("requests: [1]", "spec.containers[0].resources.requests: found a list, allowed: a map"),
    ] {
        let line = match resources {
            "requests: {gpu: 1}, limits: {gpu: 1}" => refused(&format!(
                "apiVersion: v1\nkind: Pod\nmetadata: {{name: p}}\nspec: {{{}}}\n",
                container(resources)
            ))
            .remove(0)
            .replace("in.yaml, document 1, Pod/default/p, ", ""),
            _ => line(&container(resources)),
        };
        assert!(line.starts_with(expected), "{line}");
    }
}

#[test]
fn containers_need_different_names() {
    assert_eq!(line("containers: [{image: x}]"), "spec.containers[0].name: missing, but required");
    assert_eq!(line("containers: []"), "spec.containers: empty, a pod needs at least one container");
    assert_eq!(line("nodeSelector: {}"), "spec.containers: missing, but required");
    assert!(line("containers: [{name: a}, {name: a}]").starts_with("spec.containers[1].name: \"a\" occurs twice"));
    assert!(line("containers: [{name: A_b}]").starts_with("spec.containers[0].name: found \"A_b\", allowed: 1 to 63"));
}

#[test]
fn scheduling_fields_are_checked() {
    let affinity = |expression: &str| {
        format!(
            "affinity: {{nodeAffinity: {{requiredDuringSchedulingIgnoredDuringExecution: {{nodeSelectorTerms: [{{matchExpressions: [{expression}]}}]}}}}}}"
        )
    };
    let expressions = "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchExpressions[0]";
    let spread = |fields: &str| format!("topologySpreadConstraints: [{{{fields}}}]");
    let anti = |fields: &str| {
        format!("affinity: {{podAntiAffinity: {{requiredDuringSchedulingIgnoredDuringExecution: [{{{fields}}}]}}}}")
    };
    // Each case has one error, so that its line is the only one.
    for (spec, expected) in [
        (affinity("{key: a, operator: Within, values: [b]}"), format!("{expressions}.operator: found \"Within\", allowed: In, NotIn, Exists, DoesNotExist, Gt, Lt")),
        (affinity("{key: a, operator: In}"), format!("{expressions}.values: missing, operator In needs at least one value")),
        (affinity("{key: a, operator: Exists, values: [b]}"), format!("{expressions}.values: found 1 values, operator Exists allows none")),
        (affinity("{key: a, operator: Gt, values: [many]}"), format!("{expressions}.values: found \"many\", allowed: one whole number in quotes")),
        (affinity("{key: a, operator: Lt, values: ['1', '2']}"), format!("{expressions}.values: found 2 values, allowed for Gt and Lt")),
        (affinity("{key: 'a b', operator: Exists}"), format!("{expressions}.key: found \"a b\", allowed: an optional DNS prefix")),
        (spread("maxSkew: 0, topologyKey: z, whenUnsatisfiable: DoNotSchedule"), "spec.topologySpreadConstraints[0].maxSkew: found \"0\", allowed: 1 or more".to_owned()),
        (spread("maxSkew: 1, whenUnsatisfiable: DoNotSchedule"), "spec.topologySpreadConstraints[0].topologyKey: missing, but required".to_owned()),
        (spread("maxSkew: 1, topologyKey: z"), "spec.topologySpreadConstraints[0].whenUnsatisfiable: missing, but required".to_owned()),
        (spread("maxSkew: 1, topologyKey: z, whenUnsatisfiable: ScheduleAnyway, minDomains: 2"), "spec.topologySpreadConstraints[0].minDomains: only allowed with".to_owned()),
        (spread("maxSkew: 1, topologyKey: z, whenUnsatisfiable: DoNotSchedule, matchLabelKeys: [a]"), "spec.topologySpreadConstraints[0].matchLabelKeys: only allowed beside a labelSelector".to_owned()),
        (anti("labelSelector: {}"), "spec.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].topologyKey: missing".to_owned()),
        (anti("topologyKey: z, labelSelector: {matchExpressions: [{key: a, operator: In}]}"), "spec.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].labelSelector.matchExpressions[0].values: missing".to_owned()),
        ("tolerations: [{operator: Equal, value: x}]".to_owned(), "spec.tolerations[0].operator: an empty key needs the operator Exists".to_owned()),
        ("tolerations: [{key: a, operator: Exists, value: x}]".to_owned(), "spec.tolerations[0].value: must be left out".to_owned()),
        ("tolerations: [{key: a, effect: Never}]".to_owned(), "spec.tolerations[0].effect: found \"Never\", allowed: NoSchedule, PreferNoSchedule, NoExecute".to_owned()),
        ("tolerations: [{key: a, operator: Exists, effect: NoSchedule, tolerationSeconds: 5}]".to_owned(), "spec.tolerations[0].tolerationSeconds: only allowed with".to_owned()),
        ("nodeSelector: {a: 1}".to_owned(), "spec.nodeSelector.a: found a number (1), allowed: a text (put it in quotes)".to_owned()),
        ("nodeSelector: {a: 'b c'}".to_owned(), "spec.nodeSelector.a: found \"b c\", allowed: nothing, or at most 63".to_owned()),
    ] {
        let line = line(&format!("containers: [{{name: a}}], {spec}"));
        assert!(line.starts_with(&expected), "{line}");
    }
}

#[test]
fn preferred_terms_need_a_weight() {
    let preferred = |weight: &str| {
        line(&format!(
            "containers: [{{name: a}}], affinity: {{nodeAffinity: {{preferredDuringSchedulingIgnoredDuringExecution: [{{{weight}preference: {{matchExpressions: [{{key: a, operator: Exists}}]}}}}]}}}}"
        ))
    };
    let at = "spec.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].weight";
    assert_eq!(preferred("weight: 101, "), format!("{at}: found \"101\", allowed: 1 to 100"));
    assert_eq!(preferred(""), format!("{at}: missing, but required"));
}

#[test]
fn all_errors_are_reported_at_once_and_at_most_fifty() {
    let three = refused(
        &[pod("A", ""), pod("b", "tolerations: [{effect: x, key: a}]"), pod("c", "nodeSelector: {a: 1}")].concat(),
    );
    assert_eq!(three.len(), 3, "{three:?}");
    let many: String = (0..60).map(|number| pod(&format!("p{number}"), "nodeSelector: {a: 1}")).collect();
    let many = refused(&many);
    assert_eq!(many.len(), 50);
    assert!(many[49].ends_with("(and 10 more errors)"), "{}", many[49]);
}

#[test]
fn kinds_need_a_version_that_is_read() {
    let lines = refused("apiVersion: v1\nkind: Deployment\nmetadata: {name: a}\n");
    assert_eq!(
        lines,
        ["in.yaml, document 1, Deployment/a, apiVersion: found \"v1\", allowed: apps/v1 for kind Deployment"]
    );
    let lines = refused("kind: Pod\nmetadata: {name: a}\n");
    assert_eq!(lines, ["in.yaml, document 1, Pod/a, apiVersion: missing, but required"]);
    let lines = refused("apiVersion: v1\nkind: Pod\nmetadata: {generateName: a-}\n");
    assert_eq!(lines, ["in.yaml, document 1, Pod/?, metadata.name: missing, but required"]);
}

#[test]
fn workloads_select_their_own_pods() {
    let deployment = |selector: &str| {
        format!(
            "apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: a}}\nspec: {{{selector}template: {{metadata: {{labels: {{app: a}}}}, spec: {{containers: [{{name: a}}]}}}}}}\n"
        )
    };
    let at = "in.yaml, document 1, Deployment/default/a, spec.selector";
    assert_eq!(refused(&deployment("")), [format!("{at}: missing, but required")]);
    assert_eq!(
        refused(&deployment("selector: {matchLabels: {app: b}}, ")),
        [format!("{at}: does not select the labels of spec.template.metadata.labels; write the same labels in both")]
    );
    let lines = refused(&deployment("replicas: -1, selector: {matchLabels: {app: a}}, "));
    assert!(
        lines[0].starts_with("in.yaml, document 1, Deployment/default/a, spec.replicas: found \"-1\""),
        "{lines:?}"
    );
}

#[test]
fn unknown_fields_are_noted_and_refused_by_strict() {
    let text = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec: {replica: 3, selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: a}]}}}\n";
    let note =
        "spec.replica: ignored, Kubernetes 1.37 has no such field; did you mean replicas?: Deployment/default/web";
    let notes = captured(text).notes;
    assert!(notes.iter().any(|line| line == note), "{notes:?}");
    let strict = Options { strict: true, ..Options::default() };
    let errors = planning_input::read(&[source(POOL), source(text)], &strict).expect_err("an unknown field");
    assert_eq!(
        errors.iter().map(ToString::to_string).collect::<Vec<_>>(),
        [
            "in.yaml, document 1, Deployment/default/web, spec.replica: Kubernetes 1.37 has no such field; did you mean replicas? (refused by --strict)"
        ]
    );
}

#[test]
fn a_misspelt_kind_of_kubernetes_is_refused_and_a_foreign_one_is_noted() {
    let text = "apiVersion: apps/v1\nkind: Deploymnet\nmetadata: {name: web}\n";
    assert_eq!(
        refused(text),
        [
            "in.yaml, document 1, Deploymnet/web, kind: found \"Deploymnet\", allowed: a kind of apps/v1; did you mean Deployment?"
        ]
    );
    let foreign = "apiVersion: example.com/v1\nkind: Deploymnet\nmetadata: {name: web}\n";
    assert!(captured(foreign).notes.iter().any(|line| line.starts_with("not read: kind Deploymnet (example.com/v1)")));
    let unread = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: web}\n";
    assert!(captured(unread).notes.iter().any(|line| line.starts_with("not read: kind ConfigMap (v1)")));
}

#[test]
fn input_without_an_object_is_refused() {
    let named = |name: &str, text: &str| Source { name: name.into(), bytes: text.as_bytes().to_vec() };
    let lines = |sources: &[Source]| match planning_input::read(sources, &Options::default()) {
        Ok(_) => Vec::new(),
        Err(errors) => errors.iter().map(ToString::to_string).collect(),
    };
    let empty = "-: standard input is empty; did the command before the pipe fail?";
    assert_eq!(lines(&[named("-", " \n")]), [empty]);
    let none = "-: standard input has no object; did the command before the pipe find any?";
    assert_eq!(lines(&[named("-", "{\"kind\": \"List\", \"apiVersion\": \"v1\", \"items\": []}")]), [none]);
    assert_eq!(
        lines(&[named("a.yaml", "# nothing\n")]),
        ["a.yaml: the file has no object; write the objects to plan into it"]
    );
    // Beside objects, only standard input has to have one.
    assert_eq!(lines(&[named("-", ""), named("pool.yaml", POOL)]), [empty]);
    assert!(lines(&[named("a.yaml", ""), named("pool.yaml", POOL)]).is_empty());
    let server = Options { allow_no_objects: true, ..Options::default() };
    assert!(planning_input::read(&[named("-", "")], &server).is_ok());
}

/// A NodePool with `spec` below `spec.template.spec`, and `beside` below `spec`.
fn pool_with(name: &str, inner: &str, beside: &str) -> String {
    format!(
        "---\napiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata: {{name: {name}}}\nspec: {{{beside}template: {{{inner}}}}}\n"
    )
}

#[test]
fn a_missing_field_names_the_misspelt_or_misplaced_one() {
    const REFERENCE: &str = "{group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}";
    let high = pool_with("high", &format!("requirements: [], spec: {{nodeClassRef: {REFERENCE}}}"), "");
    let case = pool_with("case", &format!("spec: {{requirements: [], nodeclassRef: {REFERENCE}}}"), "");
    let at = |object: &str| format!("in.yaml, document 1, NodePool/{object}, spec.template.spec");
    assert_eq!(
        refused(&high),
        [format!(
            "{}.requirements: missing, but required; spec.template.requirements is 1 level too high: write spec.template.spec.requirements",
            at("high")
        )]
    );
    assert_eq!(
        refused(&case),
        [format!(
            "{}.nodeClassRef: missing, but required; nodeclassRef is no field, did you mean nodeClassRef?",
            at("case")
        )]
    );
    let workload = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec: {selector: {}, templat: {}}\n";
    let lines = refused(workload);
    let template = "spec.template: missing, but required; templat is no field, did you mean template?";
    assert!(lines.iter().any(|line| line.ends_with(template)), "{lines:?}");
}

#[test]
fn errors_of_all_kinds_and_of_every_field_are_reported_in_one_run() {
    let text = "
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: a}
spec:
  weight: 101
  limits: {cpu: -1}
  disruption: {consolidateAfter: soon, budgets: [{nodes: 110%}]}
  template: {spec: {requirements: [{key: a, operator: Within, values: [b]}], terminationGracePeriod: 1 hour}}
---
apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata: {name: default}
spec: {role: r, instanceProfile: p, amiFamily: AL3, amiSelectorTerms: [], subnetSelectorTerms: [], securityGroupSelectorTerms: [{id: sg-1}]}
---
apiVersion: karpenter.sh/v1
kind: NodeClaim
metadata: {name: c}
spec: {requirements: [{key: a, operator: Within}], taints: [{key: b, effect: Never}]}
---
apiVersion: karpenter.sh/v1alpha1
kind: NodeOverlay
metadata: {name: o}
spec: {requirement: [], price: cheap, weight: 0}
---
apiVersion: v1
kind: Pod
metadata: {name: p}
spec: {containers: []}
";
    let lines = refused(text);
    // Every field below is wrong for a reason of its own.
    for part in [
        "NodePool/a, spec.weight: found \"101\", allowed: 1 to 100",
        "NodePool/a, spec.limits.cpu: found \"-1\"",
        "NodePool/a, spec.disruption.consolidateAfter: found \"soon\"",
        "NodePool/a, spec.disruption.budgets[0].nodes: found \"110%\"",
        "NodePool/a, spec.template.spec.requirements[0].operator: found \"Within\"",
        "NodePool/a, spec.template.spec.terminationGracePeriod: found \"1 hour\"",
        "EC2NodeClass/default, spec: found both of role and instanceProfile",
        "EC2NodeClass/default, spec.subnetSelectorTerms",
        "NodeClaim/c, spec.nodeClassRef: missing, but required",
        "NodeClaim/c, spec.taints[0].effect: found \"Never\"",
        "NodeOverlay/o, spec.requirements: missing, but required; requirement is no field, did you mean requirements?",
        "NodeOverlay/o, spec.price: found \"cheap\"",
        "NodeOverlay/o, spec.weight: found \"0\"",
        "Pod/default/p, spec.containers: empty",
    ] {
        assert!(lines.iter().any(|line| line.contains(part)), "{part}\n{}", lines.join("\n"));
    }
}
