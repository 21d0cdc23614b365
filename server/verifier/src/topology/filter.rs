//! The hosts that a spread constraint counts: those admitted by its inclusion policies and carrying
//! all hard topology keys of the pod (kube-scheduler counts only nodes with every topology key of
//! the hard constraints).

use super::super::launch::{Certainty, Launch, Launches};
use super::super::node_fit::{RequiredNodeAffinity, cordon_taint, tolerates_node};
use model::input::PlanningInput;
use model::plan::Plan;
use model::taints::first_untolerated;
use model::{Node, NodeStage, Taint, Toleration};

/// Criteria for counting a host.
pub(super) struct Filter<'a> {
    /// Required labels: the hard topology keys of the pod.
    pub(super) keys: Vec<&'a str>,
    /// Index of the shape whose node selector and affinity are honoured.
    pub(super) node_affinity: Option<u32>,
    /// Tolerations checked against the taints of the host, if honoured.
    pub(super) tolerations: Option<&'a [Toleration]>,
}

/// Whether a host is counted.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Admission {
    No,
    /// Depends on the outcome of the launch.
    Depends,
    Yes,
    /// Its pods count, but the host makes no domain: it is being deleted.
    PodsOnly,
}

/// For each filter, the admission of each host.
pub(super) fn admissions(
    input: &PlanningInput,
    plan: &Plan,
    launches: &Launches<'_>,
    filters: &[Filter<'_>],
) -> Vec<Vec<Admission>> {
    let cordon = cordon_taint();
    let admissions_of = |filter: &Filter<'_>| {
        let node_affinity = filter.node_affinity.map(|shape| RequiredNodeAffinity::of(&input.shapes[shape as usize]));
        let of_launch: Vec<Admission> =
            launches.list.iter().map(|launch| on_launch(filter, node_affinity.as_ref(), launch)).collect();
        let nodes = input.nodes.iter().map(|node| on_node(filter, node_affinity.as_ref(), node, &cordon));
        let new = launches.of_node.iter().take(plan.nodes.len());
        let new = new.map(|launch| launch.map_or(Admission::No, |launch| of_launch[launch as usize]));
        nodes.chain(new).collect()
    };
    filters.iter().map(admissions_of).collect()
}

/// The values of `key` on those outcomes of `launch` that `filter` admits.
pub(super) fn admitted_values<'a>(
    input: &PlanningInput,
    filter: &Filter<'_>,
    launch: &Launch<'a>,
    key: &str,
) -> Vec<&'a str> {
    let node_affinity = filter.node_affinity.map(|shape| RequiredNodeAffinity::of(&input.shapes[shape as usize]));
    launch.values_where(key, |outcome| {
        node_affinity
            .as_ref()
            .is_none_or(|node_affinity| node_affinity.matches_outcome(launch, outcome, Certainty::Possible))
    })
}

fn on_node(
    filter: &Filter<'_>,
    node_affinity: Option<&RequiredNodeAffinity<'_>>,
    node: &Node,
    cordon: &Taint,
) -> Admission {
    let admitted = filter.keys.iter().all(|key| node.labels.contains_key(*key))
        && node_affinity.is_none_or(|node_affinity| node_affinity.matches_node(node))
        && filter.tolerations.is_none_or(|tolerations| tolerates_node(node, tolerations, cordon));
    match (admitted, node.stage) {
        (false, _) => Admission::No,
        (true, NodeStage::Deleting) => Admission::PodsOnly,
        (true, _) => Admission::Yes,
    }
}

fn on_launch(filter: &Filter<'_>, node_affinity: Option<&RequiredNodeAffinity<'_>>, launch: &Launch<'_>) -> Admission {
    let barred = |tolerations| first_untolerated(&launch.pool.taints, tolerations).is_some();
    if filter.tolerations.is_some_and(barred) || launch.outcomes.is_empty() {
        return Admission::No;
    }
    let keys: Vec<_> = filter.keys.iter().map(|key| launch.values(key)).collect();
    let lacks = |sometimes: bool| {
        keys.iter().any(|values| if sometimes { values.contains(&None) } else { values.iter().all(Option::is_none) })
    };
    let possible = |node_affinity: &RequiredNodeAffinity<'_>| {
        launch.outcomes.iter().any(|o| node_affinity.matches_outcome(launch, o, Certainty::Possible))
    };
    if lacks(false) || !node_affinity.is_none_or(possible) {
        Admission::No
    } else if lacks(true) || !node_affinity.is_none_or(|node_affinity| node_affinity.always_matches(launch)) {
        Admission::Depends
    } else {
        Admission::Yes
    }
}
