//! Pods on machines of lighter NodePools, where the limits of a heavier one decide which pods get its machines.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use model::NodePool;
use model::input::PlanningInput;
use model::plan::{Plan, PlannedNode};

/// Number of pods on new machines of NodePools that are lighter than one with limits, by priority, highest first:
/// (priority, pods). The less, the better the heavier NodePool serves the important pods. Pods of the lowest
/// priority do not count: nobody has to give way to them.
#[must_use]
pub fn pods_on_lighter_pools(input: &PlanningInput, plan: &Plan) -> Vec<(i32, u32)> {
    let Some(limited) = heaviest_with_limits(input) else { return Vec::new() };
    let lowest = input.pods.iter().map(|pod| input.shapes[pod.shape as usize].priority).min();
    let mut by_priority: BTreeMap<Reverse<i32>, u32> = BTreeMap::new();
    for node in plan.nodes.iter().filter(|node| input.pools[node.pool as usize].weight < limited) {
        for priority in priorities(input, node).filter(|priority| Some(*priority) > lowest) {
            *by_priority.entry(Reverse(priority)).or_default() += 1;
        }
    }
    by_priority.into_iter().map(|(Reverse(priority), pods)| (priority, pods)).collect()
}

/// Whether a pod runs on a lighter NodePool while one of lower priority has a machine of a heavier one with limits.
pub(crate) fn serve_lower_priorities_first(input: &PlanningInput, plan: &Plan) -> bool {
    let Some((highest, _)) = pods_on_lighter_pools(input, plan).first().copied() else { return false };
    let lightest = input.pools.iter().map(|pool| pool.weight).min();
    let is_heavier = |node: &&PlannedNode| {
        let pool = &input.pools[node.pool as usize];
        has_limits(pool) && lightest.is_some_and(|lightest| pool.weight > lightest)
    };
    plan.nodes.iter().filter(is_heavier).flat_map(|node| priorities(input, node)).any(|priority| priority < highest)
}

fn heaviest_with_limits(input: &PlanningInput) -> Option<i32> {
    input.pools.iter().filter(|pool| has_limits(pool)).map(|pool| pool.weight).max()
}

fn has_limits(pool: &NodePool) -> bool {
    pool.not_ready.is_none() && pool.limits.iter().next().is_some()
}

fn priorities<'p>(input: &'p PlanningInput, node: &'p PlannedNode) -> impl Iterator<Item = i32> {
    node.pods.iter().map(|pod| input.shapes[input.pods[*pod as usize].shape as usize].priority)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule;
    use crate::testing::pool;
    use model::resources::NODES;
    use model::{Pod, PodShape, Resources, Text};

    /// Pods of three cores, one for each of `priorities`, and two NodePools: the heavier one is limited to a node.
    fn input(of_pods: &[i32]) -> PlanningInput {
        let mut heavy = NodePool { name: "heavy".into(), weight: 9, ..pool() };
        heavy.limits.set(NODES, 1);
        let shape = |priority: &i32| PodShape {
            priority: *priority,
            requests: Resources::from_iter([("cpu", 3_000), ("pods", 1)]),
            ..PodShape::default()
        };
        let pod = |shape: u32| Pod {
            namespace: "default".into(),
            name: Text::from(format!("pod-{shape}")),
            shape,
            labels: 0,
            volumes: None,
            created: None,
            workload: Text::from(format!("Pod/pod-{shape}")),
            moved_from: None,
            invalid: None,
        };
        PlanningInput {
            pools: vec![heavy, pool()],
            pods: (0..).zip(of_pods).map(|(at, _)| pod(at)).collect(),
            shapes: of_pods.iter().map(shape).collect(),
            label_sets: vec![model::Labels::new()],
            ..PlanningInput::default()
        }
    }

    /// The priorities of the pods on each NodePool.
    fn by_pool(input: &PlanningInput, plan: &Plan) -> [Vec<i32>; 2] {
        [0, 1].map(|pool| {
            let nodes = plan.nodes.iter().filter(|node| node.pool == pool);
            nodes.flat_map(|node| priorities(input, node)).collect()
        })
    }

    #[test]
    fn the_machine_of_the_limited_pool_goes_to_the_pod_of_the_highest_priority() {
        let input = input(&[0, 5, 2]);
        let plan = schedule(&input);
        let [heavy, mut light] = by_pool(&input, &plan);
        light.sort_unstable();
        assert_eq!((heavy, light), (vec![5], vec![0, 2]));
        // The pod of the lowest priority does not count.
        assert_eq!(pods_on_lighter_pools(&input, &plan), [(2, 1)]);
        assert!(!serve_lower_priorities_first(&input, &plan));
    }

    #[test]
    fn pods_on_lighter_pools_count_by_priority_and_only_beside_a_heavier_pool_with_limits() {
        let mut input = input(&[0, 5, 2]);
        let mut plan = schedule(&input);
        // The pod of priority 0 has the machine of the heavier NodePool instead.
        let heavy = plan.nodes.iter().position(|node| node.pool == 0).expect("a machine of the heavier NodePool");
        let light = plan.nodes.iter().position(|node| node.pods == [0]).expect("a machine for the first pod");
        let pods = std::mem::replace(&mut plan.nodes[heavy].pods, vec![0]);
        plan.nodes[light].pods = pods;
        assert_eq!(pods_on_lighter_pools(&input, &plan), [(5, 1), (2, 1)]);
        assert!(serve_lower_priorities_first(&input, &plan));
        input.pools[0].limits = Resources::new();
        assert_eq!(pods_on_lighter_pools(&input, &plan), []);
        assert!(!serve_lower_priorities_first(&input, &plan));
    }

    #[test]
    fn pods_of_one_priority_do_not_count() {
        let input = input(&[4, 4, 4]);
        assert_eq!(pods_on_lighter_pools(&input, &schedule(&input)), []);
    }
}
