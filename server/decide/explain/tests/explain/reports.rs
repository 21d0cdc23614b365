//! Reports about pods and nodes, as printed.

use explain::{node_report, pod_report};
use model::labels::ARCH;
use model::{Effect, Operator, Requirement};

use crate::fixture::{ARM, Fixture, LARGE, SMALL, asks, pool, resources, selecting, taint};

fn pod(fixture: &Fixture, pod: u32) -> String {
    pod_report(&fixture.input, &fixture.plan, pod).to_string()
}

fn on_demand() -> model::NodePool {
    let mut pool = pool("general");
    pool.requirements.add(Requirement::new("karpenter.sh/capacity-type", Operator::In, ["on-demand".into()]));
    pool
}

#[test]
fn a_pod_on_a_new_node_is_reported_with_the_runner_up() {
    let mut fixture = Fixture::new()
        .pool(on_demand())
        .node("full", "a", resources(100, 1 << 30))
        .node("tainted", "a", resources(8000, 16 << 30))
        .pods(2, "web", asks(500, 1))
        .launches(&[SMALL, ARM, LARGE], "a", &[0, 1]);
    fixture.input.nodes[1].taints = vec![taint("team", "x", Effect::NoSchedule)];
    // arm costs 0.12 − 0.10 = 0.02 more than small.
    assert_eq!(
        pod(&fixture, 0),
        "default/web-0 goes to the new node general-0: small in a, on-demand, at $0.10 per hour (NodePool general).\n\
         It shares the node with 1 other pod.\n\
         2 existing nodes refused: 1 by Taints and 1 by Resources.\n\
         Runner-up for this pod alone: arm in a, on-demand, at $0.12 per hour (NodePool general), $0.02 more.\n"
    );
}

#[test]
fn a_cheaper_runner_up_is_reported_with_the_reason_against_it() {
    let shared =
        Fixture::new().pool(on_demand()).pods(5, "web", asks(500, 1)).launches(&[LARGE], "a", &[0, 1, 2, 3, 4]);
    // large costs 0.40 for five pods; five times small, one for each pod, cost 0.50.
    assert!(
        pod(&shared, 0).ends_with(
            "$0.30 less; one such machine for each of the 5 pods of the node would cost $0.50, and the node costs $0.40.\n"
        ),
        "{}",
        pod(&shared, 0)
    );
    let two = Fixture::new().pool(on_demand()).pods(2, "web", asks(500, 1)).launches(&[LARGE], "a", &[0, 1]);
    // Twice small cost 0.20, less than 0.40.
    assert!(
        pod(&two, 0)
            .ends_with("$0.30 less; the plan is the cheapest found for all pods together, not for this pod alone.\n"),
        "{}",
        pod(&two, 0)
    );
    let mut heavy = on_demand();
    heavy.name = "heavy".into();
    heavy.weight = 10;
    let weighted = Fixture::new().pool(heavy).pool(on_demand()).pod("web", asks(500, 1)).launches(&[LARGE], "a", &[0]);
    assert!(pod(&weighted, 0).contains("$0.30 less"), "{}", pod(&weighted, 0));
}

#[test]
fn a_pod_on_an_existing_node_costs_nothing() {
    let fixture = Fixture::new()
        .pool(on_demand())
        .node("one", "a", resources(1000, 4 << 30))
        .node("two", "b", resources(1000, 4 << 30))
        .pod("web", asks(500, 1))
        .placed(&[0], 0);
    assert_eq!(
        pod(&fixture, 0),
        "default/web-0 fits the existing node one (a): no node is launched.\n\
         1 other existing node would take it too.\n\
         The cheapest new machine for it alone would be small in a, on-demand, at $0.10 per hour (NodePool general).\n"
    );
}

#[test]
fn an_unschedulable_pod_is_reported_with_reasons_and_relaxations() {
    let mut ml = pool("ml");
    ml.taints = vec![taint("dedicated", "ml", Effect::NoSchedule)];
    let fixture = Fixture::new().pool(ml).pod("web", asks(500, 1));
    assert_eq!(
        pod(&fixture, 0),
        "default/web-0 has no place.\n\
         - NodePool ml, Taints: its taint dedicated=ml:NoSchedule is not tolerated\n\
         It fits if it tolerates taint dedicated=ml:NoSchedule of NodePool ml.\n"
    );
}

#[test]
fn a_planned_node_is_reported_step_by_step() {
    let fixture = Fixture::new().pool(on_demand()).pods(3, "web", selecting(asks(500, 1), ARCH, "amd64")).launches(
        &[SMALL, LARGE],
        "a",
        &[0, 1, 2],
    );
    // 3 × 0.5 = 1.5 cpu and 3Gi. arm is excluded by architecture; small and large fit; small costs
    // 0.10 in a and b.
    assert_eq!(
        node_report(&fixture.input, &fixture.plan, &"general-0".into()).unwrap().to_string(),
        "general-0: small in a, on-demand, at $0.10 per hour (NodePool general).\n\
         It carries 3 pods that, with its DaemonSets, ask for 1.5 cpu and 3Gi memory.\n\
         - karpenter.sh/capacity-type In [on-demand]: asked for by NodePool general\n\
         - kubernetes.io/arch In [amd64]: asked for by default/web-0, default/web-1 and default/web-2\n\
         Of 3 types in the catalogue:\n\
         - requirements: 1 dropped, 2 left\n\
         - resources: 0 dropped, 2 left\n\
         - offerings: 0 dropped, 2 left\n\
         - capacity type and zone: 0 dropped, 2 left\n\
         - limits: 0 dropped, 2 left\n\
         - exotic machines: 0 dropped, 2 left\n\
         - price and number of options: 0 dropped, 2 left\n\
         Zone: a is as cheap as any; among equals the zone where the pool has fewest nodes comes first; elsewhere: b $0.10.\n\
         On demand: reserved and spot capacity are not allowed or not available.\n\
         Runner-up: large in a, on-demand, at $0.40 per hour (NodePool general), $0.30 more.\n"
    );
}

#[test]
fn types_that_are_too_small_or_exceed_limits_are_counted() {
    let mut general = pool("general");
    general.limits = model::Resources::from_iter([("cpu", 6000)]);
    let fixture = Fixture::new().pool(general).pod("web", asks(3000, 1)).launches(&[ARM], "a", &[0]);
    let report = node_report(&fixture.input, &fixture.plan, &"general-0".into()).unwrap();
    let dropped: Vec<(&str, usize)> =
        report.filter_steps.iter().map(|s| (s.step, s.dropped)).filter(|(_, n)| *n > 0).collect();
    // small has 1.9 cpu; large (8 cpu) exceeds the limit of 6.
    assert_eq!(dropped, [("resources", 1), ("limits", 1)]);
    assert_eq!(report.runner_up, None);
    assert_eq!(report.zone, "a is the cheapest zone for it; elsewhere: b $0.13");
}

#[test]
fn an_existing_node_is_reported_with_its_free_resources() {
    let fixture = Fixture::new().node("one", "a", resources(1000, 4 << 30)).pod("web", asks(400, 1)).placed(&[0], 0);
    assert_eq!(
        node_report(&fixture.input, &fixture.plan, &"one".into()).unwrap().to_string(),
        "one exists already (a).\nThe plan puts 1 pod there; 600m cpu and 3Gi memory are left.\n"
    );
    assert_eq!(node_report(&fixture.input, &fixture.plan, &"absent".into()), None);
}
