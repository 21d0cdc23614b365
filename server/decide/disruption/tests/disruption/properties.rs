//! Properties of plans for random small clusters. `DISRUPTION_CLUSTERS=5000` sets the number of clusters of each
//! property, and `DISRUPTION_SEED=17` the first seed; a failure names the seed of its cluster.

mod bought;
mod clusters;
mod replay;

use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use disruption::{BlockCode, DisruptionPlan};
use model::MicroUsd;
use model::input::PlanningInput;
use model::removal::RemovalReason;
use verifier::check;

use crate::{CATALOGUE, NOW, plan_of, read_at, render};
use clusters::Cluster;
use replay::Replay;

const CLUSTERS: u64 = 300;

#[expect(clippy::disallowed_methods, reason = "which clusters a test looks at configures no decision")]
fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

fn clusters_of_each_property() -> u64 {
    number("DISRUPTION_CLUSTERS").unwrap_or(CLUSTERS)
}

/// Runs `property` for each seed.
fn for_each_seed(property: impl Fn(u64)) {
    let first = number("DISRUPTION_SEED").unwrap_or(0);
    for seed in first..first + clusters_of_each_property() {
        let result = catch_unwind(AssertUnwindSafe(|| property(seed)));
        if let Err(panic) = result {
            eprintln!("run this cluster alone with DISRUPTION_SEED={seed} DISRUPTION_CLUSTERS=1");
            resume_unwind(panic);
        }
    }
}

fn planned(cluster: &Cluster) -> DisruptionPlan {
    plan_of(&read_at(NOW, CATALOGUE, &cluster.text()), &cluster.settings)
}

fn removed(plan: &DisruptionPlan) -> Vec<u32> {
    plan.commands.iter().flat_map(|command| command.nodes.iter().copied()).collect()
}

#[test]
fn every_node_of_the_pools_is_removed_or_held() {
    for_each_seed(|seed| {
        let cluster = Cluster::random(seed, true);
        let plan = planned(&cluster);
        let mut listed = removed(&plan);
        listed.extend(plan.held.iter().map(|held| held.node));
        listed.sort_unstable();
        let all: Vec<u32> =
            (0..).zip(&plan.input.nodes).filter(|(_, node)| node.pool.is_some()).map(|(at, _)| at).collect();
        assert_eq!(listed, all, "{}", render(&plan));
        assert!(plan.held.iter().all(|held| !held.by.is_empty()), "{}", render(&plan));
    });
}

#[test]
fn the_verifier_accepts_what_is_planned() {
    for_each_seed(|seed| {
        let cluster = Cluster::random(seed, true);
        let plan = planned(&cluster);
        let violations: Vec<String> = check(&plan.input, &plan.plan).iter().map(ToString::to_string).collect();
        assert_eq!(violations, Vec::<String>::new(), "{}", render(&plan));
    });
}

#[test]
fn savings_add_up_and_exceed_what_is_required() {
    for_each_seed(|seed| {
        let cluster = Cluster::random(seed, true);
        let plan = planned(&cluster);
        let saved: i64 = plan.commands.iter().map(|command| command.savings.0).sum();
        assert_eq!(plan.cost.after, MicroUsd(plan.cost.before.0 - saved), "{}", render(&plan));
        assert!(plan.cost.lower_bound <= plan.cost.after, "{:?}", plan.cost);
        let consolidated = || plan.commands.iter().filter(|command| command.reason == RemovalReason::Underutilized);
        for command in consolidated() {
            assert!(command.savings > cluster.settings.min_savings, "{}", render(&plan));
        }
        let moved: usize = consolidated().map(|command| command.placements.len()).sum();
        let saved: i64 = consolidated().map(|command| command.savings.0).sum();
        let moves = i64::try_from(moved).unwrap_or(i64::MAX) * cluster.settings.churn_price.0;
        assert!(consolidated().count() == 0 || saved > moves, "{}", render(&plan));
    });
}

#[test]
fn every_evicted_pod_that_must_run_again_has_one_place_that_stays() {
    for_each_seed(|seed| {
        let cluster = Cluster::random(seed, true);
        let plan = planned(&cluster);
        let gone: BTreeSet<&str> =
            removed(&plan).iter().map(|at| plan.input.nodes[*at as usize].name.as_ref()).collect();
        let placements = plan.commands.iter().flat_map(|command| &command.placements);
        let mut places: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        placements.for_each(|(pod, to)| places.entry(pod.name.as_ref()).or_default().push(to.as_ref()));
        let staying: BTreeSet<&str> =
            plan.input.nodes.iter().map(|node| node.name.as_ref()).filter(|name| !gone.contains(name)).collect();
        let launched: BTreeSet<&str> = plan.plan.nodes.iter().map(|node| node.name.as_ref()).collect();
        let used: BTreeSet<u32> =
            plan.commands.iter().flat_map(|command| command.replacements.iter().copied()).collect();
        assert_eq!(used.len(), plan.plan.nodes.len(), "each launch belongs to a command: {}", render(&plan));
        for pod in &cluster.pods {
            let place = places.remove(pod.name.as_str()).unwrap_or_default();
            let must_move = gone.contains(pod.node.as_str()) && cluster.needs_place(pod);
            // A pod of a node that goes in any case may have no place at all, and a note names it.
            let is_noted = plan.notes.iter().any(|note| note.contains(&format!("pod shop/{} ", pod.name)));
            assert_eq!(place.len(), usize::from(must_move && !is_noted), "{}: {}", pod.name, render(&plan));
            assert!(place.iter().all(|to| staying.contains(to) || launched.contains(to)), "{}", render(&plan));
        }
        assert!(places.is_empty(), "{places:?}");
    });
}

#[test]
fn every_moved_pod_is_bound_while_its_node_is_drained_and_nothing_is_bought_again() {
    for_each_seed(|seed| {
        let cluster = Cluster::random(seed, true);
        let captured = read_at(NOW, CATALOGUE, &cluster.text());
        let plan = plan_of(&captured, &cluster.settings);
        let unbound = Replay::of(&captured.input, &plan).run(&plan);
        assert!(unbound.is_empty(), "{unbound:?}\n{}\n{}", render(&plan), cluster.text());
        let cluster = with_waiting_pods_bound(&cluster, &captured.input);
        for (number, command) in plan.commands.iter().enumerate() {
            let mut so_far = plan.clone();
            so_far.commands.truncate(number + 1);
            let carried_out = cluster.carried_out(&so_far);
            let order: Vec<&str> = command.placements.iter().map(|(pod, _)| pod.name.as_ref()).collect();
            // kube-scheduler binds the evicted pods one after another: one waits, those before it are where they go, those
            // after it are nowhere yet, and those of later commands are where they were.
            for (at, waiting) in order.iter().enumerate() {
                let mut now = carried_out.clone();
                now.pods.retain(|pod| !order[at + 1..].contains(&pod.name.as_str()));
                let pod = now.pods.iter_mut().find(|pod| pod.name == *waiting);
                pod.expect("a moved pod of the cluster").node.clear();
                let again = read_at(NOW, CATALOGUE, &now.text());
                let bought = planner::plan(&again.input).expect("an input that the verifier accepts").plan.nodes;
                assert!(bought.is_empty(), "{waiting} of command {number}\n{}\n{}", render(&plan), now.text());
            }
        }
    });
}

/// The cluster with the pods that wait on the nodes that have room for them, and without the others.
fn with_waiting_pods_bound(cluster: &Cluster, input: &PlanningInput) -> Cluster {
    let mut bound = cluster.clone();
    for (pod, node) in replay::places_of_waiting_pods(input) {
        let name = &input.pods[pod as usize].name;
        let pod = bound.pods.iter_mut().find(|pod| pod.name == name.as_ref());
        pod.expect("a pod of the cluster").node = input.nodes[node as usize].name.to_string();
    }
    bound.pods.retain(|pod| !pod.node.is_empty());
    bound
}

#[test]
fn planning_again_on_the_result_proposes_nothing() {
    for_each_seed(|seed| {
        let cluster = Cluster::random(seed, false);
        let plan = planned(&cluster);
        let is_limited =
            |block: &disruption::Block| matches!(block.code, BlockCode::Budget | BlockCode::PodDisruptionBudget);
        // While pods that are spread over zones move, machines in further zones would break their spread. Once they run,
        // nothing evicts them.
        let mut placements = plan.commands.iter().flat_map(|command| &command.placements);
        let moves_spread_pods = placements.any(|(pod, _)| cluster.is_spread(&pod.name));
        if moves_spread_pods || plan.held.iter().flat_map(|held| &held.by).any(is_limited) {
            return;
        }
        let after = cluster.carried_out(&plan);
        let again = planned(&after);
        assert_eq!(again.cost.before, plan.cost.after, "{}\n{}", render(&plan), render(&again));
        assert!(again.commands.is_empty(), "first:\n{}then:\n{}", render(&plan), render(&again));
    });
}

#[test]
fn the_order_of_objects_changes_nothing() {
    for_each_seed(|seed| {
        let cluster = Cluster::random(seed, true);
        let text = cluster.text();
        let mut documents: Vec<&str> = text.split("---\n").filter(|document| !document.is_empty()).collect();
        documents.reverse();
        let turned = documents.join("---\n");
        let plan = |text: &str| render(&plan_of(&read_at(NOW, CATALOGUE, text), &cluster.settings));
        assert_eq!(plan(&text), plan(&turned));
    });
}
