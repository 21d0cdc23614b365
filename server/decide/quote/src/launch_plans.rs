//! What clusters with one launch setting launch for the same pods: planned once, on whichever thread needs it first.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

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
    known: Mutex<BTreeMap<Text, (Odds, ReadyTime)>>,
}

impl Launches {
    /// What `compute` returns for the account, computed once: other threads wait for it.
    pub fn known_of(&self, account: &Text, compute: impl FnOnce() -> (Odds, ReadyTime)) -> (Odds, ReadyTime) {
        *lock(&self.known).entry(account.clone()).or_insert_with(compute)
    }
}

/// Plans for the pod sets of one quote, which the threads of the quote share.
#[derive(Debug, Default)]
pub struct LaunchPlans(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    sets: Vec<PodSet>,
    /// By the address of the setting, which is held, so that the address is not reused.
    known: FxHashMap<usize, Arc<KnownPlans>>,
}

/// What is known of one setting.
#[derive(Debug)]
struct KnownPlans {
    setting: Arc<LaunchSetting>,
    /// What the pods are worth, for the lower bound; `None` if launches are not all that they need.
    values: OnceLock<Option<PodValues>>,
    /// By number of pods of each set.
    plans: Mutex<FxHashMap<Vec<u32>, Arc<OnceLock<LaunchPlan>>>>,
}

impl LaunchPlans {
    /// What is launched for so many pods of each of `sets`: set when this returns. A plan that another thread is making is
    /// waited for.
    pub(crate) fn plan(
        &self,
        setting: &Arc<LaunchSetting>,
        sets: &[PodSet],
        counts: &[u32],
        cache: &mut CompileCache,
    ) -> Arc<OnceLock<LaunchPlan>> {
        let known = self.known_of(setting, sets);
        let plan = Arc::clone(lock(&known.plans).entry(counts.to_vec()).or_default());
        plan.get_or_init(|| known.planned(sets, counts, cache));
        plan
    }

    fn known_of(&self, setting: &Arc<LaunchSetting>, sets: &[PodSet]) -> Arc<KnownPlans> {
        let mut state = lock(&self.0);
        if state.sets != sets {
            *state = State { sets: sets.to_vec(), known: FxHashMap::default() };
        }
        let known = state.known.entry(Arc::as_ptr(setting) as usize);
        Arc::clone(known.or_insert_with(|| Arc::new(KnownPlans::new(setting))))
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl KnownPlans {
    fn new(setting: &Arc<LaunchSetting>) -> Self {
        Self { setting: Arc::clone(setting), values: OnceLock::new(), plans: Mutex::default() }
    }

    fn values(&self, sets: &[PodSet], cache: &mut CompileCache) -> Option<&PodValues> {
        let values = || {
            let mut input = self.setting.empty_cluster();
            add_pods(&mut input, sets);
            PodValues::of(&input, cache)
        };
        self.values.get_or_init(values).as_ref()
    }

    fn planned(&self, sets: &[PodSet], counts: &[u32], cache: &mut CompileCache) -> LaunchPlan {
        let mut input = self.setting.empty_cluster();
        let all_sets = sets;
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
        let lower_bound = match self.values(all_sets, cache) {
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
            known: Mutex::default(),
        })
    }
}
