//! Stories of pods and nodes, as people read them.

use engine::explain::{node_story, pod_story};
use engine::model::labels::ARCH;
use engine::model::{Effect, Operator, Requirement};

use crate::world::{ARM, LARGE, SMALL, World, asks, pool, resources, selecting, taint};

fn pod(world: &World, pod: u32) -> String {
    pod_story(&world.input, &world.plan, pod).to_string()
}

fn on_demand() -> engine::model::NodePool {
    let mut pool = pool("general");
    pool.requirements.add(Requirement::new("karpenter.sh/capacity-type", Operator::In, ["on-demand".into()]));
    pool
}

#[test]
fn a_pod_on_a_new_node_is_told_with_the_runner_up() {
    let mut world = World::new()
        .pool(on_demand())
        .node("full", "a", resources(100, 1 << 30))
        .node("tainted", "a", resources(8000, 16 << 30))
        .pods(2, "web", asks(500, 1))
        .buys(&[SMALL, ARM, LARGE], "a", &[0, 1]);
    world.input.nodes[1].taints = vec![taint("team", "x", Effect::NoSchedule)];
    // arm costs 0.12 − 0.10 = 0.02 more than small.
    assert_eq!(
        pod(&world, 0),
        "default/web-0 goes to the new node general-0: small in a, on-demand, at $0.10 per hour (NodePool general).\n\
         It shares the node with 1 other pod.\n\
         2 existing nodes refused: 1 by Taints and 1 by Resources.\n\
         Runner-up for this pod alone: arm in a, on-demand, at $0.12 per hour (NodePool general), $0.02 more.\n"
    );
}

#[test]
fn a_pod_on_an_existing_node_costs_nothing_more() {
    let world = World::new()
        .pool(on_demand())
        .node("one", "a", resources(1000, 4 << 30))
        .node("two", "b", resources(1000, 4 << 30))
        .pod("web", asks(500, 1))
        .placed(&[0], 0);
    assert_eq!(
        pod(&world, 0),
        "default/web-0 goes to the existing node one (a), which has room: nothing is bought.\n\
         1 other existing node would take it too.\n\
         The cheapest new machine for it alone would be small in a, on-demand, at $0.10 per hour (NodePool general).\n"
    );
}

#[test]
fn a_pod_without_a_place_is_told_with_reasons_and_ways_out() {
    let mut ml = pool("ml");
    ml.taints = vec![taint("dedicated", "ml", Effect::NoSchedule)];
    let world = World::new().pool(ml).pod("web", asks(500, 1));
    assert_eq!(
        pod(&world, 0),
        "default/web-0 has no place.\n\
         - NodePool ml, Taints: its taint dedicated=ml:NoSchedule is not tolerated\n\
         It fits if it tolerates taint dedicated=ml:NoSchedule of NodePool ml.\n"
    );
}

#[test]
fn a_planned_node_is_told_step_by_step() {
    let world = World::new().pool(on_demand()).pods(3, "web", selecting(asks(500, 1), ARCH, "amd64")).buys(
        &[SMALL, LARGE],
        "a",
        &[0, 1, 2],
    );
    // 3 × 0.5 = 1.5 cpu and 3Gi. arm falls by architecture; small and large carry them; small is sold at 0.10 in a and b.
    assert_eq!(
        node_story(&world.input, &world.plan, "general-0").unwrap().to_string(),
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
         On demand: reserved and spot capacity are not allowed or not for sale.\n\
         Runner-up: large in a, on-demand, at $0.40 per hour (NodePool general), $0.30 more.\n"
    );
}

#[test]
fn types_that_are_too_small_or_kept_away_by_limits_are_counted() {
    let mut general = pool("general");
    general.limits = engine::model::Resources::from_iter([("cpu", 6000)]);
    let world = World::new().pool(general).pod("web", asks(3000, 1)).buys(&[ARM], "a", &[0]);
    let story = node_story(&world.input, &world.plan, "general-0").unwrap();
    let dropped: Vec<(&str, usize)> =
        story.funnel.iter().map(|s| (s.step, s.dropped)).filter(|(_, n)| *n > 0).collect();
    // small has 1.9 cpu; large (8 cpu) exceeds the limit of 6.
    assert_eq!(dropped, [("resources", 1), ("limits", 1)]);
    assert_eq!(story.runner_up, None);
    assert_eq!(story.zone, "a is the cheapest zone for it; elsewhere: b $0.13");
}

#[test]
fn an_existing_node_is_told_with_what_is_left() {
    let world = World::new().node("one", "a", resources(1000, 4 << 30)).pod("web", asks(400, 1)).placed(&[0], 0);
    assert_eq!(
        node_story(&world.input, &world.plan, "one").unwrap().to_string(),
        "one exists already (a).\nThe plan puts 1 pod there; 600m cpu and 3Gi memory are left.\n"
    );
    assert_eq!(node_story(&world.input, &world.plan, "nobody"), None);
}
