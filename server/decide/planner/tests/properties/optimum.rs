//! Small inputs whose cheapest plan is found by trying everything: how often the search finds it, and
//! whether the lower bound is ever above it.
//!
//! `SMALL_INPUTS=5000` sets the number of inputs; without it a few hundred are planned.

use model::CapacityType::OnDemand;
use model::labels::HOSTNAME;

use crate::cases::{Case, ShapeCase};
use crate::regressions::{affinity_term, fixture, instance_type, pod, small};

/// Share of the inputs in which the search must find the cheapest plan, in percent.
const FOUND_PERCENT: usize = 95;
/// Shapes with odd indices exclude each other from a node.
const APPS: usize = 2;

/// The SplitMix64 generator (Steele, Lea, Flood 2014).
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: i64) -> i64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        i64::try_from((mixed ^ (mixed >> 31)) % u64::try_from(bound).unwrap_or(1)).unwrap_or(0)
    }
}

/// Three to nine pods of up to four shapes, and two to five types whose prices follow their sizes
/// roughly. Pods of the second app exclude each other from a node in every other input.
fn input(seed: u64) -> Case {
    let mut numbers = Numbers(seed);
    let types = (0..2 + numbers.below(4)).map(|_| {
        let (cpus, gib) = (1 + numbers.below(8), 1 + numbers.below(16));
        let price = 10 * cpus + 3 * gib + numbers.below(1 + 4 * cpus);
        instance_type(cpus, gib, &[("a", OnDemand, price)])
    });
    let types = types.collect();
    let excludes = seed.is_multiple_of(2);
    let shapes: Vec<ShapeCase> = (0..1 + numbers.below(4))
        .map(|at| ShapeCase {
            half_cpus: 1 + numbers.below(6),
            gib: 1 + numbers.below(6),
            anti_affinity: if excludes && at % 2 == 1 { vec![affinity_term(HOSTNAME, 1)] } else { Vec::new() },
            ..small()
        })
        .collect();
    let count = i64::try_from(shapes.len()).unwrap_or(1);
    let pods = (0..3 + numbers.below(7)).map(|_| {
        let shape = usize::try_from(numbers.below(count)).unwrap_or(0);
        pod(shape, shape % APPS)
    });
    let pods = pods.collect();
    fixture(types, shapes, pods)
}

/// Cost of the cheapest plan in thousandths of a dollar: every set of pods is tried as the content of
/// one node. `None` when some pod fits no type.
fn least_cost(case: &Case) -> Option<i64> {
    let sets = 1_usize << case.pods.len();
    let members = |set: usize| (0..case.pods.len()).filter(move |at| set >> at & 1 == 1);
    let price_of = |set: usize| {
        let shapes: Vec<&ShapeCase> = members(set).map(|at| &case.shapes[case.pods[at].shape]).collect();
        let (half_cpus, gib) =
            shapes.iter().fold((0, 0), |(cpus, gib), shape| (cpus + shape.half_cpus, gib + shape.gib));
        let exclusive = shapes.iter().filter(|shape| !shape.anti_affinity.is_empty()).count();
        let holds = case.types.iter().filter(|kind| {
            half_cpus <= 2 * kind.cpus && gib <= kind.gib && shapes.len() <= usize::try_from(kind.pods).unwrap_or(0)
        });
        holds.map(|kind| kind.offerings[0].2).min().filter(|_| exclusive < 2)
    };
    let mut least: Vec<Option<i64>> = vec![Some(0)];
    for set in 1..sets {
        let lowest = 1_usize << set.trailing_zeros();
        let mut best: Option<i64> = None;
        // All parts of the set that contain its lowest pod, as the content of one node.
        let (rest, mut part) = (set ^ lowest, set ^ lowest);
        loop {
            let node = part | lowest;
            if let (Some(price), Some(others)) = (price_of(node), least[set ^ node]) {
                best = Some(best.map_or(price + others, |known| known.min(price + others)));
            }
            if part == 0 {
                break;
            }
            part = (part - 1) & rest;
        }
        least.push(best);
    }
    least[sets - 1]
}

#[expect(clippy::disallowed_methods, reason = "how many inputs a test looks at configures no decision")]
fn inputs() -> u64 {
    std::env::var("SMALL_INPUTS").ok().and_then(|given| given.parse().ok()).unwrap_or(300)
}

#[test]
fn the_search_finds_the_cheapest_plan_of_small_inputs_and_no_bound_is_above_it() {
    let (mut all, mut first, mut found) = (0, 0, 0);
    for seed in 0..inputs() {
        let case = input(seed);
        let Some(least) = least_cost(&case) else { continue };
        let least = least * 1_000;
        let mut planned = case.input();
        let packed = planner::plan(&planned).expect("a sound plan");
        planned.policy.search_steps = 1_000_000;
        let searched = planner::plan(&planned).expect("a sound plan");
        assert!(searched.plan.unschedulable.is_empty(), "input {seed}: {:?}", searched.plan.unschedulable);
        for (decision, what) in [(&packed, "first packing"), (&searched, "search")] {
            assert!(decision.report.new_cost.0 >= least, "input {seed}, {what}: cheaper than possible");
            assert!(decision.report.lower_bound.0 <= least, "input {seed}, {what}: the bound is above {least}");
        }
        all += 1;
        first += usize::from(packed.report.new_cost.0 == least);
        found += usize::from(searched.report.new_cost.0 == least);
    }
    println!("{all} inputs: the first packing is the cheapest plan in {first}, the search finds it in {found}");
    assert!(found * 100 >= all * FOUND_PERCENT, "found in {found} of {all}");
}
