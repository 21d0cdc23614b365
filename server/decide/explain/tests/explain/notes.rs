//! Notes about surprising results of a plan.

use explain::notes;
use model::labels::{ARCH, CAPACITY_TYPE, ZONE};
use model::{
    DaemonSet, Effect, NodeSelectorTerm, NotReady, Operator, Requirement, Resources, VolumeAlternatives, Weighted,
};

use crate::fixture::{ARM, Fixture, LARGE, SMALL, asks, near, pool, resources, selecting, spread, taint};

fn notes_of(fixture: &Fixture) -> Vec<String> {
    notes(&fixture.input, &fixture.plan)
}

const ONE_ZONE: &str = "whole workloads run in one zone although their pods could run in others: ";
const ONE_ZONE_ADVICE: &str =
    "; a topology spread constraint, or fleetwright.dev/zone-balance on the NodePool, spreads them";

#[test]
fn an_avoidable_single_zone_workload_is_noted() {
    let fixture = Fixture::new().pool(pool("general")).pods(2, "web", asks(500, 1)).launches(&[SMALL], "a", &[0, 1]);
    assert_eq!(notes_of(&fixture), [format!("{ONE_ZONE}Deployment/web in default (2 pods, a){ONE_ZONE_ADVICE}")]);
}

#[test]
fn a_workload_on_one_node_is_in_one_zone_wherever_the_node_launches() {
    let fixture = Fixture::new().pool(pool("general")).pods(3, "web", asks(100, 1)).launches(&[SMALL], "a", &[0, 1, 2]);
    let anywhere = fixture.zones_of_last(&["a", "b"]);
    assert_eq!(notes_of(&anywhere), [format!("{ONE_ZONE}Deployment/web in default (3 pods, a){ONE_ZONE_ADVICE}")]);
    // Two nodes may launch in two zones.
    let fixture = Fixture::new().pool(pool("general")).pods(2, "web", asks(500, 1));
    let fixture = fixture.launches(&[SMALL], "a", &[0]).zones_of_last(&["a", "b"]);
    let fixture = fixture.launches(&[SMALL], "a", &[1]).zones_of_last(&["a", "b"]);
    assert_eq!(notes_of(&fixture), [""; 0]);
}

#[test]
fn workloads_in_two_zones_single_pods_and_pinned_pods_are_not_noted() {
    let fixture = Fixture::new()
        .pool(pool("general"))
        .pods(2, "spread", asks(500, 1))
        .pods(1, "single", asks(500, 1))
        .pods(2, "pinned", selecting(asks(500, 1), ZONE, "a"))
        .launches(&[SMALL], "a", &[0, 2])
        .launches(&[SMALL], "b", &[1])
        .launches(&[SMALL], "a", &[3, 4]);
    assert_eq!(notes_of(&fixture), [""; 0]);
}

#[test]
fn workloads_bound_to_a_zone_by_volumes_are_not_noted() {
    let here = Requirement::new(ZONE, Operator::In, ["a".into()]);
    let volumes = VolumeAlternatives { any_of: vec![[here].into_iter().collect()], ..VolumeAlternatives::default() };
    let fixture = Fixture::new().pool(pool("general")).volumes(volumes).pods(2, "db", asks(500, 1)).launches(
        &[SMALL],
        "a",
        &[0, 1],
    );
    assert_eq!(notes_of(&fixture), [""; 0]);
}

#[test]
fn pods_without_an_architecture_constraint_are_noted_on_arm() {
    let fixture = Fixture::new()
        .pool(pool("general"))
        .pod("web", asks(500, 1))
        .pod("chose", selecting(asks(500, 1), ARCH, "arm64"))
        .pod("intel", asks(500, 1))
        .launches(&[ARM], "a", &[0, 1])
        .launches(&[SMALL], "a", &[2]);
    assert_eq!(
        notes_of(&fixture),
        [
            "pods without an architecture constraint land on arm64, or may: Deployment/web in default (1 pod); their images \
          must be built for it, else set kubernetes.io/arch or fleetwright.dev/safe-architectures"
        ]
    );
}

#[test]
fn long_lists_of_workloads_end_in_a_number() {
    let mut fixture = Fixture::new().pool(pool("general"));
    for number in 0..9 {
        fixture = fixture.pod(&format!("app-{number}"), asks(100, 0));
    }
    let fixture = fixture.launches(&[ARM], "a", &[0, 1, 2, 3, 4, 5, 6, 7, 8]);
    let notes = notes_of(&fixture);
    assert_eq!(notes.len(), 1);
    // Six are listed, 9 − 6 = 3 are counted.
    assert!(notes[0].contains("Deployment/app-5 in default (1 pod) and 3 more;"), "{}", notes[0]);
}

#[test]
fn pools_that_can_never_launch_are_noted_with_the_cause() {
    let (mut unready, mut typeless, mut nowhere, mut full) = (pool("1"), pool("2"), pool("3"), pool("4"));
    unready.not_ready = Some(NotReady::NodeClass("its status is not Ready".into()));
    typeless.requirements.add(Requirement::new(ARCH, Operator::In, ["s390x".into()]));
    nowhere.requirements.add(Requirement::new(ZONE, Operator::In, ["c".into()]));
    full.limits = Resources::from_iter([("cpu", 5000)]);
    let mut fixture = Fixture::new().pool(unready).pool(typeless).pool(nowhere).pool(full).pool(pool("5"));
    fixture = fixture.node("n", "a", resources(4000, 8 << 30));
    fixture.input.nodes[0].pool = Some("4".into());
    // 5 − 4 = 1 cpu is left, the smallest type has 2.
    assert_eq!(
        notes_of(&fixture),
        [
            "NodePool 1 can launch nothing: EC2NodeClass default: its status is not Ready",
            "NodePool 2 can launch nothing: the NodePool's requirement kubernetes.io/arch In [s390x] excludes every \
             instance type: they have amd64 and arm64",
            "NodePool 3 can launch nothing: topology.kubernetes.io/zone In [c] has no zone with offerings; these are a and b",
            "NodePool 4 can launch nothing: its limit cpu 5 has 1 left and no type that fits (the smallest has 2)",
        ]
    );
}

#[test]
fn a_misspelt_value_beside_a_good_one_is_noted() {
    let mut general = pool("general");
    general.requirements.add(Requirement::new(CAPACITY_TYPE, Operator::In, ["spot".into(), "ondemand".into()]));
    general.requirements.add(Requirement::new(ARCH, Operator::In, ["amd64".into(), "x86_64".into(), "s390x".into()]));
    // No machine has s390x, and nothing similar.
    assert_eq!(
        notes_of(&Fixture::new().pool(general)),
        [
            "NodePool general requires karpenter.sh/capacity-type ondemand, which no machine has; did you mean on-demand?",
            "NodePool general requires kubernetes.io/arch x86_64, which no machine has; did you mean amd64?",
        ]
    );
}

#[test]
fn violated_preferences_are_noted_by_kind() {
    let mut shape = asks(100, 0);
    let arm = Requirement::new(ARCH, Operator::In, ["arm64".into()]);
    let term = NodeSelectorTerm { expressions: vec![arm], names: Vec::new() };
    shape.preferred_node_affinity = vec![Weighted { weight: 1, term }];
    shape.preferred_pod_affinity = vec![Weighted { weight: 1, term: near("db", ZONE) }];
    shape.preferred_pod_anti_affinity = vec![Weighted { weight: 1, term: near("web", ZONE) }];
    shape.spread = vec![spread("web", ZONE, 1, false)];
    let mut soft = pool("general");
    soft.taints = vec![taint("old", "", Effect::PreferNoSchedule)];
    // All three run in a on amd64; b has a node, so 3 − 0 exceeds the skew of 1; no db runs.
    let fixture = Fixture::new()
        .pool(soft)
        .node("other", "b", resources(0, 0))
        .pods(3, "web", selecting(shape, "topology.kubernetes.io/region", "r"))
        .launches(&[LARGE], "a", &[0, 1, 2]);
    let mut fixture = fixture;
    fixture.input.shapes[0].node_selector.clear();
    let workload = "Deployment/web in default (3 pods of 3)";
    let kinds = [
        format!("ScheduleAnyway topology spread could not be kept: {workload}"),
        format!("pods run on nodes with a PreferNoSchedule taint that they do not tolerate: {workload}"),
        format!("preferred node affinity could not be kept: {workload}"),
        format!("preferred pod affinity could not be kept: {workload}"),
        format!("preferred pod anti-affinity could not be kept: {workload}"),
        format!("{ONE_ZONE}Deployment/web in default (3 pods, a){ONE_ZONE_ADVICE}"),
    ];
    assert_eq!(notes_of(&fixture), kinds);
    fixture.input.policy.preferences = model::input::PreferencePolicy::Ignore;
    assert_eq!(notes_of(&fixture), kinds[5..]);
}

#[test]
fn a_preference_that_the_weight_of_a_nodepool_goes_before_is_noted_with_both_nodepools() {
    let arch = |value: &str| Requirement::new(ARCH, Operator::In, [value.into()]);
    let (mut heavy, mut light) = (pool("heavy"), pool("light"));
    (heavy.weight, light.weight) = (20, 10);
    heavy.requirements.add(arch("amd64"));
    let mut shape = asks(500, 1);
    let term = NodeSelectorTerm { expressions: vec![arch("arm64")], names: Vec::new() };
    shape.preferred_node_affinity = vec![Weighted { weight: 1, term }];
    let mut fixture = Fixture::new().pool(heavy).pool(light).pod("web", shape).launches(&[SMALL], "a", &[0]);
    let workload = "Deployment/web in default (1 pod of 1)";
    let by_weight = "NodePool heavy (weight 20) went before the preferred node affinity, which NodePool light (weight 10) \
                     could keep";
    assert_eq!(notes_of(&fixture), [format!("{by_weight}: {workload}")]);
    assert_eq!(explain::violated_preferences(&fixture.input, &fixture.plan), 1);
    // Between equal weights it is the price that decides.
    fixture.input.pools[1].weight = 20;
    let not_kept = format!("preferred node affinity could not be kept: {workload}");
    assert_eq!(notes_of(&fixture), [not_kept.as_str()]);
    // No NodePool could keep it.
    fixture.input.pools[1].weight = 10;
    fixture.input.pools[1].requirements.add(arch("amd64"));
    assert_eq!(notes_of(&fixture), [not_kept.as_str()]);
}

#[test]
fn an_undefined_well_known_label_is_noted() {
    let fixture = Fixture::new()
        .pool(pool("general"))
        .pod("web", selecting(asks(500, 1), "topology.k8s.aws/zone-id", "use1-az1"))
        .launches(&[SMALL], "a", &[0]);
    assert_eq!(
        notes_of(&fixture),
        [
            "the well-known label topology.k8s.aws/zone-id is required, but no NodePool and no instance type defines it: \
          Deployment/web in default (1 pod); kube-scheduler binds them only if the node turns out to have it"
        ]
    );
}

#[test]
fn daemonsets_without_capacity_are_noted() {
    // 1 − 0.9 = 0.1 cpu is left for an agent that requests 0.2.
    let mut fixture = Fixture::new().node("n1", "a", resources(1000, 8 << 30)).pod("agent", asks(200, 0));
    fixture.plan.unschedulable.clear();
    fixture.input.pods.clear();
    let daemon = DaemonSet { namespace: "kube-system".into(), name: "agent".into(), shape: 0, labels: 0 };
    fixture.input.daemons.push(daemon);
    let fixture = fixture.pod("web", asks(900, 1)).placed(&[0], 0);
    assert_eq!(notes_of(&fixture), ["DaemonSet pods do not fit beside the pods planned there: node n1"]);
}
