//! The compile cache changes no plan, whatever inputs filled it: the same catalogue under other
//! pools, other pods, and dropped catalogues.

use model::input::PlanningInput;
use model::offering::SharedCatalogue;
use proptest::prelude::{prop_assert, prop_assert_eq, proptest};
use scheduler::bound::{lower_bound, lower_bound_with};
use scheduler::{CompileCache, schedule, schedule_with};

use crate::cases::Case;
use crate::config;
use crate::strategies::cases;

/// `case` with the catalogues of `other_input`.
fn with_catalogues_of(case: &Case, other_input: &PlanningInput) -> PlanningInput {
    let mut input = case.input();
    for (pool, other) in input.pools.iter_mut().zip(other_input.pools.iter().cycle()) {
        pool.catalogue = SharedCatalogue::clone(&other.catalogue);
    }
    input
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn a_cache_filled_by_other_pools_and_pods_changes_no_plan(first in cases(), second in cases()) {
        let one = first.input();
        let other = with_catalogues_of(&second, &one);
        let mut cache = CompileCache::default();
        for input in [&one, &other, &one, &other] {
            let plan = schedule(input);
            prop_assert_eq!(&schedule_with(input, &mut cache), &plan);
            prop_assert_eq!(lower_bound_with(input, &plan, &mut cache), lower_bound(input, &plan));
        }
    }

    #[test]
    fn a_cache_never_mistakes_a_catalogue_for_a_dropped_one(first in cases(), second in cases()) {
        let mut cache = CompileCache::default();
        for case in [&first, &second, &first, &second] {
            let expected = {
                let input = case.input();
                let plan = schedule(&input);
                (lower_bound(&input, &plan), plan)
            };
            // The previous input is dropped before the next is built, which may reuse its address.
            let input = case.input();
            let plan = schedule_with(&input, &mut cache);
            prop_assert_eq!((lower_bound_with(&input, &plan, &mut cache), plan), expected);
        }
    }

    #[test]
    fn a_decision_with_a_cache_equals_the_decision_without(case in cases()) {
        let (input, mut cache) = (case.input(), CompileCache::default());
        let plain = planner::plan(&input);
        for _ in 0..2 {
            match (planner::plan_with(&input, &mut cache), &plain) {
                (Ok(own), Ok(plain)) => {
                    prop_assert_eq!(&own.plan, &plain.plan);
                    prop_assert_eq!(&own.report, &plain.report);
                }
                (own, plain) => prop_assert!(false, "{own:?}\n{plain:?}"),
            }
        }
    }
}
