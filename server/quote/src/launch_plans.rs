//! What clusters with one launch setting launch for the same pods: planned once.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use model::plan::PlannedNode;
use model::{MicroUsd, Text};
use odds::Odds;
use planner::CompileCache;
use rustc_hash::FxHashMap;
use scheduler::bound::{PodValues, lower_bound_with};

use crate::answer::{Blocker, NewNodes};
use crate::launch_setting::LaunchSetting;
use crate::pod_set::{PodSet, add_pods};
use crate::ready::ReadyTime;
use crate::{launches, places};

/// What is launched for pods in a cluster without nodes.
#[derive(Debug)]
pub(crate) enum LaunchPlan {
    /// Nodes for all of the pods.
    Nodes(Launches),
    /// Some pods have no place on any node that may be launched.
    Unplaced(Vec<Blocker>),
    /// No plan passed the check.
    Invalid,
}

/// Nodes for all of the pods, which the verifier accepts.
#[derive(Debug)]
pub(crate) struct Launches {
    /// The nodes, each with the pod set of each of its pods.
    pub nodes: Vec<(PlannedNode, Vec<usize>)>,
    /// Pod sets in the order in which pods were placed.
    pub order: Vec<usize>,
    /// Lower bound on the price of the nodes.
    pub lower_bound: MicroUsd,
    /// The nodes as a quote states them.
    pub new_nodes: Vec<NewNodes>,
    /// What is known of them in each account.
    known: RefCell<BTreeMap<Text, (Odds, ReadyTime)>>,
}

impl Launches {
    /// Price of the nodes.
    pub fn price(&self) -> MicroUsd {
        MicroUsd(self.nodes.iter().map(|(node, _)| node.cost().0).sum())
    }

    /// What `compute` returns for the account, computed once.
    pub fn known_of(&self, account: &Text, compute: impl FnOnce() -> (Odds, ReadyTime)) -> (Odds, ReadyTime) {
        *self.known.borrow_mut().entry(account.clone()).or_insert_with(compute)
    }
}

/// Plans for the pod sets of one quote.
#[derive(Debug, Default)]
pub(crate) struct LaunchPlans {
    sets: Vec<PodSet>,
    /// By the address of the setting, which is held, so that the address is not reused.
    known: FxHashMap<*const LaunchSetting, KnownPlans>,
}

/// What is known of one setting.
#[derive(Debug)]
struct KnownPlans {
    setting: Arc<LaunchSetting>,
    /// What the pods are worth, for the lower bound; `None` if launches are not all that they need.
    values: Option<PodValues>,
    /// By number of pods of each set.
    plans: FxHashMap<Vec<u32>, Rc<LaunchPlan>>,
}

impl LaunchPlans {
    /// What is launched for so many pods of each of `sets`.
    pub fn plan(
        &mut self,
        setting: &Arc<LaunchSetting>,
        sets: &[PodSet],
        counts: &[u32],
        cache: &mut CompileCache,
    ) -> Rc<LaunchPlan> {
        if self.sets != sets {
            self.sets = sets.to_vec();
            self.known.clear();
        }
        let known = (self.known.entry(Arc::as_ptr(setting))).or_insert_with(|| KnownPlans::new(setting, sets, cache));
        if let Some(plan) = known.plans.get(counts) {
            return Rc::clone(plan);
        }
        let plan = Rc::new(known.planned(sets, counts, cache));
        known.plans.insert(counts.to_vec(), Rc::clone(&plan));
        plan
    }
}

impl KnownPlans {
    fn new(setting: &Arc<LaunchSetting>, sets: &[PodSet], cache: &mut CompileCache) -> Self {
        let mut input = setting.empty_cluster();
        add_pods(&mut input, sets);
        let values = PodValues::of(&input, cache);
        Self { setting: Arc::clone(setting), values, plans: FxHashMap::default() }
    }

    fn planned(&self, sets: &[PodSet], counts: &[u32], cache: &mut CompileCache) -> LaunchPlan {
        let mut input = self.setting.empty_cluster();
        let sets: Vec<PodSet> =
            sets.iter().zip(counts).map(|(set, count)| PodSet { count: *count, ..set.clone() }).collect();
        let before = add_pods(&mut input, &sets);
        let mut plan = scheduler::schedule_with(&input, cache);
        if !plan.unschedulable.is_empty() {
            let Ok(decision) = planner::plan_with(&input, cache) else { return LaunchPlan::Invalid };
            plan = decision.plan;
        }
        if !plan.unschedulable.is_empty() {
            return LaunchPlan::Unplaced(places::blockers(&input, &plan, &sets, before));
        }
        if !verifier::check(&input, &plan).is_empty() {
            return LaunchPlan::Invalid;
        }
        let lower_bound = match &self.values {
            Some(values) => values.bound((0..).zip(counts).map(|(set, count)| (before.shape_of(set), *count))),
            None => lower_bound_with(&input, &plan, cache),
        };
        let set_of = |pod: &u32| before.pod_set_of(&input.pods[*pod as usize]);
        let sets_of = |node: PlannedNode| {
            let sets = node.pods.iter().map(set_of).collect();
            (node, sets)
        };
        LaunchPlan::Nodes(Launches {
            order: plan.order.iter().map(set_of).collect(),
            new_nodes: launches::new_nodes(&input, &plan, &sets, before),
            nodes: plan.nodes.into_iter().map(sets_of).collect(),
            lower_bound,
            known: RefCell::default(),
        })
    }
}
