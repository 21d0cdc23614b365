//! What the quotes of one thread share: odds, times to ready, and what is known of plans.

use std::fmt;
use std::sync::Arc;

use model::{CapacityType, InstanceTypeName};
use odds::{LaunchRequest, Odds, OddsSnapshot};
use planner::CompileCache;

use crate::answer::NewNodes;
use crate::launch_plans::LaunchPlans;
use crate::ready::ReadyTime;

/// Time from launch to readiness of nodes of an instance type and capacity type.
pub type ReadyTimeOf<'m> = dyn Fn(&InstanceTypeName, CapacityType) -> ReadyTime + 'm;

/// What the quotes of one thread share.
pub struct QuoteContext<'m> {
    odds: OddsSnapshot<'m>,
    ready_time: &'m ReadyTimeOf<'m>,
    pub(crate) cache: &'m mut CompileCache,
    /// For inputs without NodePools.
    pub(crate) cache_of_nodes: CompileCache,
    pub(crate) launch_plans: Arc<LaunchPlans>,
    /// Odds of the last orders.
    known_odds: Vec<(Vec<LaunchRequest>, Odds)>,
}

/// Number of orders whose odds are remembered: clusters of one setting mostly launch the same.
const KNOWN_ORDERS: usize = 16;

impl<'m> QuoteContext<'m> {
    /// Quotes with these odds and times. `cache` has compiled NodePools, and is kept from one quote to the next.
    #[must_use]
    pub fn new(odds: OddsSnapshot<'m>, ready_time: &'m ReadyTimeOf<'m>, cache: &'m mut CompileCache) -> Self {
        let (cache_of_nodes, launch_plans) = (CompileCache::default(), Arc::default());
        Self { odds, ready_time, cache, cache_of_nodes, launch_plans, known_odds: Vec::new() }
    }

    /// The context with the plans of a quote whose clusters are quoted on several threads, at one time and with equal odds.
    #[must_use]
    pub fn sharing(self, launch_plans: &Arc<LaunchPlans>) -> Self {
        Self { launch_plans: Arc::clone(launch_plans), ..self }
    }

    /// Probability that all of `requests` are filled.
    pub(crate) fn odds_of(&mut self, requests: &[LaunchRequest]) -> Odds {
        if requests.is_empty() {
            return Odds { probability: 1.0, samples: 0.0, neighbour_samples: 0.0 };
        }
        if let Some((_, known)) = self.known_odds.iter().find(|(known, _)| known == requests) {
            return *known;
        }
        let odds = self.odds.order_odds(requests);
        self.known_odds.truncate(KNOWN_ORDERS - 1);
        self.known_odds.insert(0, (requests.to_vec(), odds));
        odds
    }

    /// Time until all of `nodes` are ready, by the first option of each.
    pub(crate) fn ready_time_of(&self, nodes: &[NewNodes]) -> ReadyTime {
        let time = |nodes: &NewNodes| Some((self.ready_time)(nodes.instance_types.first()?, nodes.capacity_type));
        let times: Vec<_> = nodes.iter().filter_map(|nodes| Some((time(nodes)?, nodes.count))).collect();
        ReadyTime::of_all(&times)
    }
}

impl fmt::Debug for QuoteContext<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QuoteContext")
            .field("odds", &self.odds)
            .field("launch_plans", &self.launch_plans)
            .finish_non_exhaustive()
    }
}
