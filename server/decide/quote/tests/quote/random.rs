//! Random clusters: quotes that are planned in parts agree with the planner's plan of the whole cluster.

use model::input::{PlanningInput, Policy};
use model::resources::CPU;
use model::{Pod, Resources};
use planner::plan;
use quote::{Answer, PodSet};

use crate::fixture::{add_node, cluster, pods, pool, prepared, quote};

/// SplitMix64.
struct Random(u64);

impl Random {
    fn below(&mut self, count: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ mixed >> 31) % count
    }
}

fn random_cluster(random: &mut Random) -> PlanningInput {
    let mut pool = pool();
    if random.below(2) == 0 {
        pool.limits = Resources::from_iter([(CPU, 1_000 * random.below(80) as i64)]);
    }
    let mut input = cluster(pool);
    for node in 0..random.below(5) {
        let running: Vec<(i64, &str)> = (0..random.below(5)).map(|_| (1 + random.below(2) as i64, "web")).collect();
        add_node(&mut input, &format!("n{node}"), &running);
    }
    input
}

/// Whether the planner places all pods of the sets in the cluster.
fn fits(mut input: PlanningInput, sets: &[PodSet]) -> bool {
    input.policy = Policy { nominations: true, ..input.policy };
    for set in sets {
        input.shapes.push(set.shape.clone());
        input.label_sets.push(set.labels.clone());
        let (shape, labels) = (input.shapes.len() as u32 - 1, input.label_sets.len() as u32 - 1);
        input.pods.extend((0..set.count).map(|nth| Pod {
            namespace: set.namespace.clone(),
            name: format!("{}-{nth:03}", set.name).into(),
            shape,
            labels,
            workload: "Job/x".into(),
            ..Pod::default()
        }));
    }
    input.pods.sort_by_key(Pod::key);
    plan(&input).expect("the cluster is valid").plan.unschedulable.is_empty()
}

#[test]
fn a_quote_fits_where_the_planner_places_all_pods() {
    let mut random = Random(11);
    let (mut fitting, mut others) = (0, 0);
    for _ in 0..300 {
        let input = random_cluster(&mut random);
        let mut sets = vec![pods("a", 1 + random.below(12) as u32, 1 + random.below(3) as i64)];
        if random.below(2) == 0 {
            sets.push(pods("b", 1 + random.below(6) as u32, 1 + random.below(9) as i64));
        }
        let found = quote(&mut prepared("c", input.clone()), &sets);
        match found.answer {
            Answer::Fits(fit) => {
                assert!(fits(input, &sets), "the planner leaves pods out");
                assert!(fit.lower_bound <= fit.price, "{fit:?}");
                let placed = fit.existing.iter().flat_map(|node| &node.pods).map(|pods| pods.pods).sum::<u32>()
                    + fit
                        .new_nodes
                        .iter()
                        .map(|node| node.count * node.pods.iter().map(|pods| pods.pods).sum::<u32>())
                        .sum::<u32>();
                assert_eq!(placed, sets.iter().map(|set| set.count).sum::<u32>());
                fitting += 1;
            }
            Answer::DoesNotFit(blockers) => {
                assert!(!fits(input, &sets), "the planner places all pods: {blockers:?}");
                assert!(blockers.iter().all(|blocker| !blocker.reasons.is_empty()), "{blockers:?}");
                others += 1;
            }
        }
    }
    assert!(fitting > 50 && others > 50, "{fitting} and {others}");
}
