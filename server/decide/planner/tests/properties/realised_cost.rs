//! The realised cost of any plan.

use model::Text;
use model::labels::REGISTERED;
use planner::{CompileCache, REALISED_COST_STEPS, plan, realised_cost};
use proptest::prelude::{prop_assert, prop_assert_eq, proptest};

use crate::config;
use crate::strategies::cases;

proptest! {
    #![proptest_config(config())]

    #[test]
    fn the_realised_cost_is_not_below_the_planned_one_and_depends_on_the_seed_only(case in cases()) {
        let mut input = case.input();
        input.policy.search_steps = 1;
        let (Ok(first), Ok(second)) = (plan(&input), plan(&input)) else { return Ok(()) };
        prop_assert!(first.report.realised_cost.is_some_and(|realised| realised >= first.report.new_cost));
        prop_assert_eq!(first.report.realised_cost, second.report.realised_cost);
        let again = realised_cost(&input, &first.plan, REALISED_COST_STEPS, &mut CompileCache::default());
        prop_assert_eq!(again, first.report.realised_cost);
    }

    #[test]
    fn with_nominations_the_realised_cost_is_the_planned_one(case in cases()) {
        let mut input = case.input();
        input.policy.nominations = true;
        let Ok(decision) = plan(&input) else { return Ok(()) };
        prop_assert_eq!(decision.report.realised_cost, Some(decision.report.new_cost));
    }

    #[test]
    fn a_daemon_set_that_selects_registered_nodes_costs_what_it_does_without_that(case in cases()) {
        let mut input = case.input();
        input.policy.search_steps = 1;
        let mut selecting = input.clone();
        for daemon in &input.daemons {
            let shape = &mut selecting.shapes[daemon.shape as usize];
            shape.node_selector.insert(Text::from(REGISTERED), Text::from("true"));
        }
        let (Ok(first), Ok(second)) = (plan(&input), plan(&selecting)) else { return Ok(()) };
        prop_assert_eq!(first.report.new_cost, second.report.new_cost);
        prop_assert_eq!(first.report.realised_cost, second.report.realised_cost);
    }

    #[test]
    fn a_plan_without_a_search_has_no_realised_cost(case in cases()) {
        let Ok(decision) = plan(&case.input()) else { return Ok(()) };
        prop_assert_eq!(decision.report.realised_cost, None);
    }
}
