//! A memo changes no plan, whatever it has served before: the same catalogue under other pools, other pods, and
//! catalogues that are gone.

use engine::decide;
use engine::input::PlanningInput;
use engine::model::offering::SharedCatalogue;
use engine::schedule::{CompileCache, schedule, schedule_with};
use proptest::prelude::{prop_assert, prop_assert_eq, proptest};

use crate::cases::Case;
use crate::config;
use crate::strategies::cases;

/// `case`, whose pools buy what those of `shop` buy.
fn buying_at(case: &Case, shop: &PlanningInput) -> PlanningInput {
    let mut input = case.input();
    for (pool, other) in input.pools.iter_mut().zip(shop.pools.iter().cycle()) {
        pool.catalogue = SharedCatalogue::clone(&other.catalogue);
    }
    input
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn a_memo_that_has_served_other_pools_and_pods_changes_no_plan(first in cases(), second in cases()) {
        let one = first.input();
        let other = buying_at(&second, &one);
        let mut memo = CompileCache::default();
        for input in [&one, &other, &one, &other] {
            prop_assert_eq!(schedule_with(input, &mut memo), schedule(input));
        }
    }

    #[test]
    fn a_memo_takes_no_catalogue_for_one_that_is_gone(first in cases(), second in cases()) {
        let mut memo = CompileCache::default();
        for case in [&first, &second, &first, &second] {
            let expected = schedule(&case.input());
            // What served the memo is gone before the next is made, and may leave its address to it.
            prop_assert_eq!(schedule_with(&case.input(), &mut memo), expected);
        }
    }

    #[test]
    fn a_decision_with_a_memo_is_the_decision_without(case in cases()) {
        let (input, mut memo) = (case.input(), CompileCache::default());
        let plain = decide::plan(&input);
        for _ in 0..2 {
            match (decide::plan_with(&input, &mut memo), &plain) {
                (Ok(own), Ok(plain)) => {
                    prop_assert_eq!(&own.plan, &plain.plan);
                    prop_assert_eq!(&own.report, &plain.report);
                }
                (own, plain) => prop_assert!(false, "{own:?}\n{plain:?}"),
            }
        }
    }
}
