//! Default topology spread constraints: the configuration, the pods that they apply to, and their
//! selectors.

use manifests::Source;
use model::{LabelSelector, PodShape, SelectorOperator};
use planning_input::{Captured, Options};

use crate::{POOL, source};

/// Spread over zones, hard, in Karpenter's short form.
const ZONES: &str = "podTopologySpread: {defaultConstraints: [{maxSkew: 2, topologyKey: topology.kubernetes.io/zone, whenUnsatisfiable: DoNotSchedule}]}";

fn read(text: &str, config: &str) -> Result<Captured, Vec<String>> {
    let config = Source { name: "scheduler.yaml".into(), bytes: config.as_bytes().to_vec() };
    let options = Options { scheduler_config: Some(config), ..Options::default() };
    let sources = [Source { name: "pool.yaml".into(), bytes: POOL.as_bytes().to_vec() }, source(text)];
    planning_input::read(&sources, &options).map_err(|errors| errors.iter().map(ToString::to_string).collect())
}

/// The selector of the default constraint of the first planned pod of `text`: `key=value` and other
/// terms, or that it is not spread.
fn counts(text: &str) -> String {
    let captured = read(text, ZONES).expect("read");
    match first_shape(&captured).spread.as_slice() {
        [] => "not spread".to_owned(),
        [only] => only.selector.as_ref().map_or_else(|| "nothing".to_owned(), written),
        more => panic!("{more:?}"),
    }
}

fn first_shape(captured: &Captured) -> &PodShape {
    &captured.input.shapes[captured.input.pods[0].shape as usize]
}

fn written(selector: &LabelSelector) -> String {
    let term = |term: &model::SelectorTerm| match (term.operator, term.values.as_slice()) {
        (SelectorOperator::In, [value]) => format!("{}={value}", term.key),
        (operator, values) => format!("{} {operator:?} {values:?}", term.key),
    };
    selector.terms.iter().map(term).collect::<Vec<String>>().join(",")
}

/// A pod with the labels `app: web, track: blue`, its owner in flow YAML, and further fields.
fn pod(owner: &str, labels: &str, spec: &str) -> String {
    let owners =
        if owner.is_empty() { String::new() } else { format!(", ownerReferences: [{{{owner}, controller: true}}]") };
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: p, labels: {{app: web, track: blue{labels}}}{owners}}}\nspec: {{containers: [{{name: a}}]{spec}}}\n---\n"
    )
}

fn service(name: &str, namespace: &str, selector: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Service\nmetadata: {{name: {name}, namespace: {namespace}}}\nspec: {{{selector}ports: [{{port: 80}}]}}\n---\n"
    )
}

fn workload(kind: &str, selector: &str, template: &str) -> String {
    let version = if kind == "Job" { "batch/v1" } else { "apps/v1" };
    format!(
        "apiVersion: {version}\nkind: {kind}\nmetadata: {{name: web}}\nspec:\n  {selector}\n  template: {{metadata: {{labels: {{app: web, track: blue}}}}, spec: {{containers: [{{name: a}}]{template}}}}}\n---\n"
    )
}

#[test]
fn services_that_select_the_pod_are_merged() {
    let text = pod("", "", "")
        + &service("one", "default", "selector: {app: web}, ")
        + &service("two", "default", "selector: {track: blue}, ")
        + &service("green", "default", "selector: {track: green}, ")
        + &service("elsewhere", "other", "selector: {app: web, track: blue}, ")
        + &service("selectorless", "default", "");
    assert_eq!(counts(&text), "app=web,track=blue");
}

#[test]
fn a_controller_adds_its_selector() {
    let exists = "selector: {matchExpressions: [{key: app, operator: Exists}]}";
    let set = workload("StatefulSet", exists, "") + &service("one", "default", "selector: {track: blue}, ");
    assert_eq!(counts(&set), "app Exists [],track=blue");
    let selector = "selector: {matchLabels: {app: web}}";
    assert_eq!(counts(&workload("ReplicaSet", selector, "")), "app=web");
    assert_eq!(counts(&workload("Deployment", selector, "")), "app=web");
    let live = pod("kind: StatefulSet, name: web", "", "")
        + &workload("StatefulSet", &format!("replicas: 1\n  {selector}"), "");
    assert_eq!(counts(&live), "app=web");
}

#[test]
fn pods_of_a_deployment_count_those_of_their_own_replica_set() {
    let deployment = workload("Deployment", "replicas: 1\n  selector: {matchLabels: {app: web}}", "");
    let live = pod("kind: ReplicaSet, name: web-5d", ", pod-template-hash: 5d", "");
    // The ReplicaSet is not in the input: its selector is that of the Deployment and the hash.
    assert_eq!(counts(&(live.clone() + &deployment)), "app=web,pod-template-hash=5d");
    let set = "apiVersion: apps/v1\nkind: ReplicaSet\nmetadata: {name: web-5d, ownerReferences: [{kind: Deployment, name: web, controller: true}]}\nspec:\n  replicas: 1\n  selector: {matchLabels: {track: blue, pod-template-hash: 5d}}\n  template: {metadata: {labels: {app: web, track: blue, pod-template-hash: 5d}}, spec: {containers: [{name: a}]}}\n---\n";
    assert_eq!(counts(&(live + &deployment + set)), "pod-template-hash=5d,track=blue");
}

#[test]
fn a_pod_without_service_and_controller_is_not_spread() {
    assert_eq!(counts(&pod("", "", "")), "not spread");
    assert_eq!(counts(&workload("Job", "parallelism: 1", ", restartPolicy: Never")), "not spread");
    let captured = read(&pod("", "", ""), ZONES).expect("read");
    let note = "pods that no Service selects, and that no ReplicaSet or StatefulSet owns, are not spread by default: default/p";
    assert!(captured.notes.iter().any(|line| line == note), "{:?}", captured.notes);
}

#[test]
fn a_pod_that_declares_constraints_keeps_its_own_alone() {
    let own = "topologySpreadConstraints: [{maxSkew: 1, topologyKey: rack, whenUnsatisfiable: ScheduleAnyway, labelSelector: {matchLabels: {a: b}}}]";
    let text = pod("", "", &format!(", {own}")) + &service("one", "default", "selector: {app: web}, ");
    assert_eq!(counts(&text), "a=b");
}

#[test]
fn running_pods_are_spread_when_they_move() {
    let node = "apiVersion: v1\nkind: Node\nmetadata: {name: node-1, labels: {topology.kubernetes.io/zone: us-east-1a}}\nstatus: {allocatable: {cpu: 4, memory: 8Gi, pods: 10}, capacity: {cpu: 4, memory: 8Gi, pods: 10}}\n---\n";
    let text =
        node.to_owned() + &pod("", "", ", nodeName: node-1") + &service("one", "default", "selector: {app: web}, ");
    let captured = read(&text, ZONES).expect("read");
    assert!(captured.input.pods.is_empty() && captured.input.nodes[0].pods.len() == 1);
    let shape = captured.input.nodes[0].pods[0].shape;
    assert_eq!(captured.input.shapes[shape as usize].spread.len(), 1);
}

#[test]
fn both_forms_are_equivalent() {
    let constraints = r#"[{"maxSkew": 3, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "ScheduleAnyway"}, {"maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "DoNotSchedule", "minDomains": 2}]"#;
    let short = format!("{{\"podTopologySpread\": {{\"defaultConstraints\": {constraints}}}}}");
    let full = format!(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles:\n- schedulerName: other\n  pluginConfig: [{{name: PodTopologySpread, args: {{defaultingType: System}}}}]\n- pluginConfig:\n  - {{name: NodeResourcesFit, args: {{}}}}\n  - {{name: PodTopologySpread, args: {{defaultingType: List, defaultConstraints: {constraints}}}}}\n"
    );
    let text = pod("", "", "") + &service("one", "default", "selector: {app: web}, ");
    for config in [short, full] {
        let captured = read(&text, &config).expect("read");
        let spread = &first_shape(&captured).spread;
        let facts: Vec<_> = spread
            .iter()
            .map(|rule| (rule.topology_key.as_ref(), rule.max_skew, rule.hard, rule.min_domains))
            .collect();
        assert_eq!(
            facts,
            [("kubernetes.io/hostname", 3, false, None), ("topology.kubernetes.io/zone", 1, true, Some(2))]
        );
    }
}

#[test]
fn a_configuration_without_constraints_is_noted() {
    let config = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles: [{schedulerName: default-scheduler}]\n";
    let captured = read(&pod("", "", ""), config).expect("read");
    let noted = captured
        .notes
        .iter()
        .any(|note| note.starts_with("the scheduler configuration scheduler.yaml lists no default"));
    assert!(noted, "{:?}", captured.notes);
}

#[test]
fn a_configuration_that_kube_scheduler_rejects_is_an_error() {
    let constraint = |fields: &str| format!("podTopologySpread: {{defaultConstraints: [{{{fields}}}]}}");
    let fits = "maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule";
    let first = "podTopologySpread.defaultConstraints[0]";
    let kube = |args: &str| {
        format!(
            "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles: [{{pluginConfig: [{{name: PodTopologySpread, args: {{{args}}}}}]}}]"
        )
    };
    // Each case has one error; fields of kube-scheduler's own file and of the short form differ in
    // their paths.
    for (config, expected) in [
        (constraint(&format!("{fits}, labelSelector: {{}}")), format!("{first}.labelSelector: must be left out")),
        (constraint(&format!("{fits}, matchLabelKeys: [a]")), format!("{first}.matchLabelKeys: must be left out")),
        (
            constraint("maxSkew: 0, topologyKey: zone, whenUnsatisfiable: DoNotSchedule"),
            format!("{first}.maxSkew: found \"0\", allowed: 1 or more"),
        ),
        (
            constraint("maxSkew: 1, whenUnsatisfiable: DoNotSchedule"),
            format!("{first}.topologyKey: missing, but required"),
        ),
        (constraint("maxSkew: 1, topologyKey: zone"), format!("{first}.whenUnsatisfiable: missing, but required")),
        (
            constraint("maxSkew: 1, topologyKey: zone, whenUnsatisfiable: Never"),
            format!("{first}.whenUnsatisfiable: found \"Never\", allowed: DoNotSchedule, ScheduleAnyway"),
        ),
        (
            constraint(&format!("{fits}}}, {{{fits}")),
            "podTopologySpread.defaultConstraints[1]: occurs twice".to_owned(),
        ),
        (constraint(&format!("{fits}, skew: 1")), format!("{first}.skew: not a field here, allowed: maxSkew, ")),
        (
            "podTopologySpreading: {}\npodTopologySpread: {}".to_owned(),
            "podTopologySpreading: not a field here, allowed: podTopologySpread".to_owned(),
        ),
        ("{}".to_owned(), "podTopologySpread: missing, but required".to_owned()),
        (
            kube(&format!("defaultConstraints: [{{{fits}}}]")),
            "profiles[0].pluginConfig[0].args.defaultConstraints: only allowed with defaultingType: List".to_owned(),
        ),
        (
            "apiVersion: v1\nkind: ConfigMap".to_owned(),
            "kind: found \"ConfigMap\", allowed: KubeSchedulerConfiguration".to_owned(),
        ),
    ] {
        let lines = read(&pod("", "", ""), &config).expect_err(&config);
        assert_eq!(lines.len(), 1, "{lines:?}");
        assert!(lines[0].starts_with(&format!("scheduler.yaml, document 1, {expected}")), "{lines:?}");
    }
    let lines = read(&pod("", "", ""), "").expect_err("empty");
    assert_eq!(lines, ["scheduler.yaml: found 0 documents, allowed: one, the configuration of the scheduler"]);
}
