//! Which hosts a spread constraint looks at: its inclusion policies, and all its pod's hard keys (kube-scheduler looks only
//! at nodes that have every topology key of the pod's hard constraints).

use super::super::launch::{Launch, Launches, Sure};
use super::super::seat::{Demand, cordon, tolerates_node};
use crate::input::PlanningInput;
use crate::model::taints::first_barring;
use crate::model::{Node, NodeStage, Taint, Toleration};
use crate::plan::Plan;

/// What a host must be like to be looked at.
pub(super) struct Filter<'a> {
    /// Labels that it must have: the pod's hard topology keys.
    pub(super) keys: Vec<&'a str>,
    /// Shape whose node selector and affinity are honoured.
    pub(super) demand: Option<u32>,
    /// Tolerations against which the host's taints are honoured.
    pub(super) tolerations: Option<&'a [Toleration]>,
}

/// How sure it is that a host is looked at.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Admitted {
    No,
    /// Depends on what the launch ends in.
    Perhaps,
    Yes,
    /// Its pods count, but it does not make a domain: it is being deleted.
    PodsOnly,
}

/// For each filter, how it sees each host.
pub(super) fn admissions(
    input: &PlanningInput,
    plan: &Plan,
    launches: &Launches<'_>,
    filters: &[Filter<'_>],
) -> Vec<Vec<Admitted>> {
    let cordon = cordon();
    let see = |filter: &Filter<'_>| {
        let demand = filter.demand.map(|shape| Demand::of(&input.shapes[shape as usize]));
        let of_launch: Vec<Admitted> =
            launches.list.iter().map(|launch| on_launch(filter, demand.as_ref(), launch)).collect();
        let nodes = input.nodes.iter().map(|node| on_node(filter, demand.as_ref(), node, &cordon));
        let new = launches.of_node.iter().take(plan.nodes.len());
        let new = new.map(|launch| launch.map_or(Admitted::No, |launch| of_launch[launch as usize]));
        nodes.chain(new).collect()
    };
    filters.iter().map(see).collect()
}

/// The values of `key` that a machine of `launch` may have where `filter` looks at it.
pub(super) fn values_looked_at<'a>(
    input: &PlanningInput,
    filter: &Filter<'_>,
    launch: &Launch<'a>,
    key: &str,
) -> Vec<&'a str> {
    let demand = filter.demand.map(|shape| Demand::of(&input.shapes[shape as usize]));
    launch.values_where(key, |outcome| {
        demand.as_ref().is_none_or(|demand| demand.met_by_outcome(launch, outcome, Sure::Possibly))
    })
}

fn on_node(filter: &Filter<'_>, demand: Option<&Demand<'_>>, node: &Node, cordon: &Taint) -> Admitted {
    let admitted = filter.keys.iter().all(|key| node.labels.contains_key(*key))
        && demand.is_none_or(|demand| demand.met_by(node))
        && filter.tolerations.is_none_or(|tolerations| tolerates_node(node, tolerations, cordon));
    match (admitted, node.stage) {
        (false, _) => Admitted::No,
        (true, NodeStage::Deleting) => Admitted::PodsOnly,
        (true, _) => Admitted::Yes,
    }
}

fn on_launch(filter: &Filter<'_>, demand: Option<&Demand<'_>>, launch: &Launch<'_>) -> Admitted {
    let barred = |tolerations| first_barring(&launch.pool.taints, tolerations).is_some();
    if filter.tolerations.is_some_and(barred) || launch.outcomes.is_empty() {
        return Admitted::No;
    }
    let keys: Vec<_> = filter.keys.iter().map(|key| launch.values(key)).collect();
    let lacks = |sometimes: bool| {
        keys.iter().any(|values| if sometimes { values.contains(&None) } else { values.iter().all(Option::is_none) })
    };
    let possible =
        |demand: &Demand<'_>| launch.outcomes.iter().any(|o| demand.met_by_outcome(launch, o, Sure::Possibly));
    if lacks(false) || !demand.is_none_or(possible) {
        Admitted::No
    } else if lacks(true) || !demand.is_none_or(|demand| demand.always_met_by(launch)) {
        Admitted::Perhaps
    } else {
        Admitted::Yes
    }
}
