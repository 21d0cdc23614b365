//! One cluster, prepared for quotes.

use std::sync::Arc;

use model::input::PlanningInput;
use model::plan::{Plan, Reason, ReasonCode};
use model::{ClusterName, MicroUsd, Text};

use crate::answer::{Answer, Blocker, ClusterQuote, Fit};
use crate::context::QuoteContext;
use crate::existing_nodes::{ExistingNodes, bear_on_launches};
use crate::launch_plans::{LaunchPlan, Launches};
use crate::launch_setting::{LaunchSetting, LaunchSettings};
use crate::pod_set::{PodSet, TableLengths, add_pods, remove_pods};
use crate::{combine, launches, places};

/// The planning input of a cluster, prepared for any number of quotes. It is valid while the cluster does not change.
#[derive(Debug)]
pub struct PreparedCluster {
    name: ClusterName,
    /// The account that it launches in.
    account: Text,
    /// Why nothing may be launched in it: a freeze, a quarantine.
    launch_block: Option<Text>,
    full: PlanningInput,
    nodes: ExistingNodes,
    /// Whether its nodes make a difference to what may be launched.
    nodes_bear_on_launches: bool,
    setting: Option<Arc<LaunchSetting>>,
}

/// A plan for all pods that passed the check, or why there is none.
type PlanOrBlockers = Result<(Plan, MicroUsd), Vec<Blocker>>;

impl PreparedCluster {
    /// Prepares `input` for quotes. Its pending pods are left out: pods that the server has planned already are on its
    /// nodes, assigned. With a `launch_block`, which says why nothing may be launched, only existing nodes are quoted.
    #[must_use]
    pub fn new(
        name: ClusterName,
        account: Text,
        input: PlanningInput,
        launch_block: Option<Text>,
        settings: &LaunchSettings,
    ) -> Self {
        let (nodes, setting) = (ExistingNodes::new(&input), settings.of(&input));
        let nodes_bear_on_launches = bear_on_launches(&input);
        let mut full = PlanningInput { pods: Vec::new(), ..input };
        // Realised costs and searches are no part of a quote.
        (full.policy.search_steps, full.policy.nominations) = (0, true);
        Self { name, account, launch_block, full, nodes, nodes_bear_on_launches, setting }
    }

    #[must_use]
    pub fn name(&self) -> &ClusterName {
        &self.name
    }

    /// Number of the launch setting. Quotes are fastest where one context gets all clusters of a setting.
    #[must_use]
    pub fn setting_number(&self) -> usize {
        self.setting.as_ref().map_or(0, |setting| Arc::as_ptr(setting) as usize)
    }

    /// What the pods of `sets`, all of them, would need in this cluster. It changes nothing: the next quote is that of the
    /// same cluster.
    pub fn quote(&mut self, sets: &[PodSet], context: &mut QuoteContext<'_>) -> ClusterQuote {
        let before = add_pods(&mut self.full, sets);
        let answer = match self.answer_in_parts(sets, before, context) {
            Some(answer) => answer,
            None => self.answer_as_whole(sets, before, context),
        };
        remove_pods(&mut self.full, before);
        ClusterQuote { cluster: self.name.clone(), answer }
    }

    /// Existing nodes first, then the launches of the cluster's setting for the other pods. `None` where a rule between
    /// pods or nodes connects the two, or where the verifier refuses them together, for example because of a limit.
    fn answer_in_parts(
        &mut self,
        sets: &[PodSet],
        before: TableLengths,
        context: &mut QuoteContext<'_>,
    ) -> Option<Answer> {
        let setting = self.setting.as_ref().filter(|_| !sets.iter().any(PodSet::has_rules_between_pods))?;
        let on_nodes = self.nodes.schedule(sets, &mut context.cache_of_nodes);
        let mut counts = vec![0; sets.len()];
        on_nodes.unschedulable.iter().for_each(|pod| counts[before.pod_set_of(&self.full.pods[*pod as usize])] += 1);
        let launch_plans = Arc::clone(&context.launch_plans);
        let launched = launch_plans.plan(setting, sets, &counts, context.cache);
        let launches = match launched.get()? {
            LaunchPlan::Nodes(launches) => launches,
            LaunchPlan::Unplaced(blockers) => return Some(Answer::DoesNotFit(blockers.clone())),
            LaunchPlan::Invalid => return None,
        };
        let existing = places::on_existing_nodes(&self.full, &on_nodes, sets, before);
        if !self.accept_parts(on_nodes, launches, sets, before) {
            return None;
        }
        if let Some(blocked) = self.blocked(launches.nodes.is_empty()) {
            return Some(blocked);
        }
        let (odds, ready) = launches.known_of(&self.account, || {
            let nodes = launches.nodes.iter().map(|(node, _)| node);
            let odds = context.odds_of(&launches::requests(&self.full, nodes, &self.account));
            (odds, context.ready_time_of(&launches.new_nodes))
        });
        Some(Answer::Fits(Fit {
            existing,
            new_nodes: launches.new_nodes.clone(),
            price: launches::price(&launches.new_nodes),
            lower_bound: launches.lower_bound,
            odds,
            ready,
        }))
    }

    /// Whether the verifier accepts both parts together. It has accepted the launches by themselves.
    fn accept_parts(&mut self, on_nodes: Plan, launches: &Launches, sets: &[PodSet], before: TableLengths) -> bool {
        if !self.nodes_bear_on_launches {
            return on_nodes.placements.is_empty() || self.nodes.accept_places(&on_nodes, sets);
        }
        let set_of = |pod: u32| before.pod_set_of(&self.full.pods[pod as usize]);
        let plan = combine::combined(on_nodes, &launches.nodes, &launches.order, sets.len(), set_of);
        self.nodes.accept(&plan, sets, &mut self.full.pools)
    }

    /// The answer if nodes would have to be launched and may not be.
    fn blocked(&self, launches_none: bool) -> Option<Answer> {
        let why = self.launch_block.as_ref().filter(|_| !launches_none)?;
        Some(Answer::DoesNotFit(vec![for_all_pods(ReasonCode::HeldBack, why.to_string())]))
    }

    /// The answer by the planner's plan of the whole cluster.
    fn answer_as_whole(&self, sets: &[PodSet], before: TableLengths, context: &mut QuoteContext<'_>) -> Answer {
        let (plan, lower_bound) = match self.plan_whole(sets, before, context) {
            Ok(planned) => planned,
            Err(blockers) => return Answer::DoesNotFit(blockers),
        };
        if let Some(blocked) = self.blocked(plan.nodes.is_empty()) {
            return blocked;
        }
        let new_nodes = launches::new_nodes(&self.full, &plan, sets, before);
        Answer::Fits(Fit {
            existing: places::on_existing_nodes(&self.full, &plan, sets, before),
            price: launches::price(&new_nodes),
            lower_bound,
            odds: context.odds_of(&launches::requests(&self.full, &plan.nodes, &self.account)),
            ready: context.ready_time_of(&new_nodes),
            new_nodes,
        })
    }

    /// The planner's plan for the cluster.
    fn plan_whole(&self, sets: &[PodSet], before: TableLengths, context: &mut QuoteContext<'_>) -> PlanOrBlockers {
        let decision = planner::plan_with(&self.full, context.cache).map_err(|found| {
            let first = found.first().map(ToString::to_string).unwrap_or_default();
            let message = format!(
                "the verifier refuses the cluster without the pods as well ({first}); please report this with its planning input"
            );
            vec![for_all_pods(ReasonCode::Internal, message)]
        })?;
        if decision.plan.unschedulable.is_empty() {
            return Ok((decision.plan, decision.report.lower_bound));
        }
        Err(places::blockers(&self.full, &decision.plan, sets, before))
    }
}

fn for_all_pods(code: ReasonCode, message: String) -> Blocker {
    Blocker { pods: None, reasons: vec![Reason { pool: None, code, message }], fits_if: Vec::new() }
}
