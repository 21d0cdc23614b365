//! What a voluntary disruption must keep at every instant: the budget of the NodePool, PodDisruptionBudgets, and
//! capacity that is there before pods are evicted.

use std::collections::BTreeMap;
use std::fmt;

use anyhow::bail;

use super::capacity::{Amount, units, without_room};
use super::history::{Change, NodeState, Object, PodState};

/// A PodDisruptionBudget, and the Deployment that it is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodBudget {
    /// The Deployment: label `app` of its pods.
    pub app: String,
    pub replicas: usize,
    /// Its `maxUnavailable`.
    pub max_unavailable: usize,
}

#[derive(Debug, Clone)]
pub struct Rules {
    /// Share of the initialized nodes that may be disrupted at one time, in percent, rounded up as Karpenter does.
    pub node_percent: usize,
    pub budgets: Vec<PodBudget>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Observed {
    /// Changes after each of which the rules held.
    pub instants: usize,
    /// Most nodes that were disrupted at one time, and what was allowed then.
    pub most_disrupted: (usize, usize),
    /// Nodes that began to be disrupted.
    pub nodes_disrupted: usize,
    pub evictions: usize,
    /// Fewest pods that a budget had beyond those that it requires.
    pub least_spare: usize,
}

impl fmt::Display for Observed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { instants, most_disrupted: (most, allowed), nodes_disrupted, evictions, least_spare } = self;
        write!(
            f,
            "{nodes_disrupted} nodes disrupted, at most {most} at one time of {allowed} allowed then; {evictions} pods evicted, and no \
             PodDisruptionBudget had fewer than {least_spare} pods to spare; all rules held after each of {instants} changes"
        )
    }
}

/// Judges the state after every change after `since`. `changes` are ordered and begin with every object that existed.
///
/// # Errors
/// The first rule that is broken, on what and when.
pub fn verify(changes: &[Change], since: u64, rules: &Rules) -> anyhow::Result<Observed> {
    let mut state = State::default();
    let mut observed = Observed { least_spare: usize::MAX, ..Observed::default() };
    for change in changes {
        if change.revision <= since {
            state.apply(change);
            continue;
        }
        let broken = state.verify_change(change, rules, &mut observed);
        state.apply(change);
        let broken = broken.and_then(|()| state.verify_instant(rules, &mut observed));
        if let Err(broken) = broken {
            bail!("after revision {} of {}, received {}: {broken:#}", change.revision, change.name, change.received);
        }
        observed.instants += 1;
    }
    Ok(observed)
}

#[derive(Debug, Default)]
struct State {
    nodes: BTreeMap<String, NodeState>,
    pods: BTreeMap<String, PodState>,
}

impl State {
    fn apply(&mut self, change: &Change) {
        let name = change.name.clone();
        match &change.object {
            Object::Node(Some(node)) => drop(self.nodes.insert(name, node.clone())),
            Object::Pod(Some(pod)) => drop(self.pods.insert(name, pod.clone())),
            Object::Node(None) => drop(self.nodes.remove(&name)),
            Object::Pod(None) => drop(self.pods.remove(&name)),
        }
    }

    /// What may not change in this way.
    fn verify_change(&self, change: &Change, rules: &Rules, observed: &mut Observed) -> anyhow::Result<()> {
        match &change.object {
            Object::Node(after) => {
                let Some(before) = self.nodes.get(&change.name) else { return Ok(()) };
                if after.is_none() && before.is_initialized && !before.is_disrupted {
                    bail!("the node disappears and was never disrupted");
                }
                if before.is_disrupted || after.as_ref().is_none_or(|after| !after.is_disrupted) {
                    return Ok(());
                }
                observed.nodes_disrupted += 1;
                self.verify_begin(&change.name, rules)
            }
            Object::Pod(after) => {
                let Some(before) = self.pods.get(&change.name).filter(|before| !before.is_leaving) else {
                    return Ok(());
                };
                if after.as_ref().is_some_and(|after| !after.is_leaving) {
                    return Ok(());
                }
                observed.evictions += 1;
                self.verify_eviction(before, rules)
            }
        }
    }

    /// The drain of a node begins while each of its pods has a place on a node that is initialized. It is judged when no
    /// other drain is in progress: kube-scheduler may have bound pods of the other node elsewhere than planned.
    fn verify_begin(&self, name: &str, rules: &Rules) -> anyhow::Result<()> {
        if self.nodes.values().any(|node| node.is_disrupted) || !self.pods_to_place(None, rules).is_empty() {
            return Ok(());
        }
        let homeless = without_room(self.pods_to_place(Some(name), rules), self.free_room(Some(name)));
        if homeless > 0 {
            bail!("the drain begins, and {homeless} of the pods have no room on initialized nodes");
        }
        Ok(())
    }

    /// A pod is evicted from a disrupted node only, and while there is room on initialized nodes for all pods that have
    /// to move.
    fn verify_eviction(&self, pod: &PodState, rules: &Rules) -> anyhow::Result<()> {
        let Some(node) = &pod.node else { bail!("a pod of {} leaves that ran nowhere", pod.app) };
        if self.nodes.get(node).is_none_or(|node| !node.is_disrupted) {
            bail!("a pod of {} leaves node {node}, which is not disrupted", pod.app);
        }
        let Some(unit) = self.pods.values().map(|pod| pod.requests).min() else { return Ok(()) };
        let sum = |amounts: Vec<Amount>| amounts.into_iter().map(|amount| units(amount, unit)).sum::<i64>();
        let (needed, free) = (sum(self.pods_to_place(None, rules)), sum(self.free_room(None)));
        if needed > free {
            let app = &pod.app;
            bail!("a pod of {app} leaves node {node}, and initialized nodes have room for {free} of {needed} units");
        }
        Ok(())
    }

    /// Requests of the pods that do not run on a node that accepts pods, as if `drained` accepted none.
    fn pods_to_place(&self, drained: Option<&str>, rules: &Rules) -> Vec<Amount> {
        let accepts = |name: &str| drained != Some(name) && self.nodes.get(name).is_some_and(NodeState::accepts_pods);
        let of_budget = |budget: &PodBudget| {
            let pods = || self.pods.values().filter(|pod| pod.app == budget.app);
            let placed = pods().filter(|pod| !pod.is_leaving && pod.node.as_deref().is_some_and(accepts));
            let requests = pods().next().map(|pod| pod.requests).unwrap_or_default();
            vec![requests; budget.replicas.saturating_sub(placed.count())]
        };
        rules.budgets.iter().flat_map(of_budget).collect()
    }

    /// What the nodes that accept pods have left, without `drained`.
    fn free_room(&self, drained: Option<&str>) -> Vec<Amount> {
        let accepts = |name: &str, node: &NodeState| drained != Some(name) && node.accepts_pods();
        let accepting = self.nodes.iter().filter(|(name, node)| accepts(name, node));
        let mut free: BTreeMap<&str, Amount> =
            accepting.map(|(name, node)| (name.as_str(), node.allocatable)).collect();
        for pod in self.pods.values() {
            if let Some(room) = pod.node.as_deref().and_then(|node| free.get_mut(node)) {
                *room -= pod.requests;
            }
        }
        free.into_values().collect()
    }

    fn verify_instant(&self, rules: &Rules, observed: &mut Observed) -> anyhow::Result<()> {
        let initialized = || self.nodes.values().filter(|node| node.is_initialized);
        let disrupted: Vec<&str> = (self.nodes.iter())
            .filter(|(_, node)| node.is_initialized && node.is_disrupted)
            .map(|(name, _)| name.as_str())
            .collect();
        let allowed = (initialized().count() * rules.node_percent).div_ceil(100);
        if disrupted.len() > allowed {
            bail!("{} nodes are disrupted, and {allowed} may be: {}", disrupted.len(), disrupted.join(", "));
        }
        observed.most_disrupted = observed.most_disrupted.max((disrupted.len(), allowed));
        for budget in &rules.budgets {
            let serves = |pod: &&PodState| pod.app == budget.app && pod.is_ready && !pod.is_leaving;
            let ready = self.pods.values().filter(serves).count();
            let required = budget.replicas.saturating_sub(budget.max_unavailable);
            let Some(spare) = ready.checked_sub(required) else {
                bail!("{ready} pods of {} are ready, and its PodDisruptionBudget requires {required}", budget.app)
            };
            observed.least_spare = observed.least_spare.min(spare);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::Timestamp;

    fn node() -> NodeState {
        let allocatable = Amount { millicores: 2_000, bytes: 2 << 30, pods: 10 };
        NodeState { is_initialized: true, is_ready: true, is_disrupted: false, allocatable }
    }

    fn pod(node: &str) -> PodState {
        let requests = Amount { millicores: 2_000, bytes: 2 << 30, pods: 1 };
        PodState { app: "web".to_owned(), node: Some(node.to_owned()), is_ready: true, is_leaving: false, requests }
    }

    fn changes(changes: Vec<(&str, Object)>) -> Vec<Change> {
        let change = |(revision, (name, object)): (u64, (&str, Object))| Change {
            revision,
            received: Timestamp::UNIX_EPOCH,
            name: name.to_owned(),
            object,
        };
        (1..).zip(changes).map(change).collect()
    }

    fn some_node(node: NodeState) -> Object {
        Object::Node(Some(node))
    }

    fn some_pod(pod: PodState) -> Object {
        Object::Pod(Some(pod))
    }

    /// Two pods on n1 and n2, beside an empty n3. n1 is drained and its pod runs on n3.
    fn drain_of_one() -> Vec<(&'static str, Object)> {
        vec![
            ("n1", some_node(node())),
            ("n2", some_node(node())),
            ("n3", some_node(node())),
            ("p1", some_pod(pod("n1"))),
            ("p2", some_pod(pod("n2"))),
            ("n1", some_node(NodeState { is_disrupted: true, ..node() })),
            ("p1", some_pod(PodState { is_leaving: true, ..pod("n1") })),
            ("p1", Object::Pod(None)),
            ("p3", some_pod(PodState { is_ready: false, node: None, ..pod("n3") })),
            ("p3", some_pod(pod("n3"))),
            ("n1", Object::Node(None)),
        ]
    }

    /// What exists is five changes; ten percent of three nodes are one.
    fn judged(history: Vec<(&str, Object)>) -> anyhow::Result<Observed> {
        let budgets = vec![PodBudget { app: "web".to_owned(), replicas: 2, max_unavailable: 1 }];
        verify(&changes(history), 5, &Rules { node_percent: 10, budgets })
    }

    fn broken(history: Vec<(&str, Object)>) -> String {
        judged(history).unwrap_err().to_string()
    }

    #[test]
    fn a_drain_within_its_budgets_keeps_the_rules() {
        let expected = Observed {
            instants: 6,
            most_disrupted: (1, 1),
            nodes_disrupted: 1,
            evictions: 1,
            // One of two pods is required, and one is left.
            least_spare: 0,
        };
        assert_eq!(judged(drain_of_one()).unwrap(), expected);
    }

    #[test]
    fn sabotage_two_nodes_at_once_exceed_the_budget() {
        let mut history = drain_of_one();
        history.insert(6, ("n2", some_node(NodeState { is_disrupted: true, ..node() })));
        assert!(broken(history).ends_with("2 nodes are disrupted, and 1 may be: n1, n2"));
    }

    #[test]
    fn sabotage_a_second_pod_exceeds_the_pod_disruption_budget() {
        let mut history = drain_of_one();
        history.insert(8, ("p2", some_pod(PodState { is_ready: false, ..pod("n2") })));
        assert!(broken(history).contains("0 pods of web are ready, and its PodDisruptionBudget requires 1"));
    }

    #[test]
    fn sabotage_an_eviction_before_the_replacement_is_initialized_is_found() {
        let mut history = drain_of_one();
        let booting = || some_node(NodeState { is_initialized: false, ..node() });
        history[2] = ("n3", booting());
        assert!(broken(history).contains("the drain begins, and 1 of the pods have no room on initialized nodes"));
        // It is lost when the drain has begun.
        let mut history = drain_of_one();
        history.insert(6, ("n3", booting()));
        assert!(
            broken(history).contains("a pod of web leaves node n1, and initialized nodes have room for 0 of 1 units")
        );
    }

    #[test]
    fn sabotage_a_node_that_is_lost_or_a_pod_that_is_deleted_elsewhere_is_found() {
        let mut history = drain_of_one();
        history.insert(5, ("n3", Object::Node(None)));
        assert!(broken(history).contains("the node disappears and was never disrupted"));
        let mut history = drain_of_one();
        history.insert(6, ("p2", Object::Pod(None)));
        assert!(broken(history).contains("a pod of web leaves node n2, which is not disrupted"));
    }
}
