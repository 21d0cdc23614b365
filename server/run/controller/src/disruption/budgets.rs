//! Disruption budgets of NodePools and of the cluster: how many of the nodes that a method selected may leave now.

use std::collections::BTreeMap;

use super::candidates::{Candidate, Candidates};
use super::selection::{Budgeted, PoolSelection, divide};
use model::disruption_policy::DisruptionReason;
use model::{PoolName, Timestamp};

/// Divides `selected`, which a method removes for `reason`, by the budgets of their NodePools and by that of the
/// cluster, which NodePools use up in the order of their names.
pub(crate) fn apply_budgets<'v>(
    candidates: &Candidates<'v>,
    selected: &[Candidate<'v>],
    reason: DisruptionReason,
    now: Timestamp,
) -> Budgeted<Candidate<'v>> {
    let mut pools: BTreeMap<&PoolName, PoolSelection<'_, Candidate<'v>>> = BTreeMap::new();
    for candidate in selected {
        let (name, policy) = (&candidate.pool.pool.name, &candidate.pool.disruption);
        let nodes = candidates.nodes_of(name);
        let of_pool = || PoolSelection { policy, nodes, selected: Vec::new() };
        pools.entry(name).or_insert_with(of_pool).selected.push(*candidate);
    }
    divide(pools, candidates.cluster_allowance(reason), reason, now)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disruption::method::DisruptionView;
    use cluster::testing::{claim, initialized_cluster, observe, pool, pool_with, text};
    use cluster::{ClaimRecord, ClusterState, Object, PoolRecord};
    use model::{BudgetLimit, BudgetWindow, Cron, Millis, NodePool, TimeZone};

    /// Nodes allowed and held of three selected ones, the first of which leaves.
    fn divided(pool: PoolRecord) -> (Vec<String>, usize) {
        let mut state: ClusterState = initialized_cluster(pool, &["m0", "m1", "m2", "m3"]);
        state.mark_for_deletion(&"m0".into());
        let now = Timestamp::from_millis(1_000);
        let candidates = Candidates::collect(&DisruptionView::of(&state, now));
        let selected: Vec<Candidate<'_>> = candidates.iter().copied().collect();
        let Budgeted { allowed, held } = apply_budgets(&candidates, &selected, DisruptionReason::Empty, now);
        (allowed.iter().map(|candidate| candidate.claim.name.to_string()).collect(), held.values().sum())
    }

    #[test]
    fn nodes_that_leave_already_use_up_the_budget() {
        // Three candidates of four nodes. Half of four are 2, of which m0 uses 1.
        assert_eq!(divided(pool_with(BudgetLimit::Percent(50))), (vec!["m1".to_owned()], 2));
        assert_eq!(divided(pool_with(BudgetLimit::Nodes(1))), (Vec::new(), 3));
        assert_eq!(divided(pool_with(BudgetLimit::Nodes(9))).1, 0);
    }

    /// Nodes allowed and held of three empty nodes in two pools, beside one that leaves, under a budget of the cluster.
    fn in_cluster(limit: Option<BudgetLimit>) -> (Vec<String>, BTreeMap<PoolName, usize>) {
        let mut state: ClusterState = initialized_cluster(pool(), &["m0", "m1", "m2", "m3"]);
        let other = PoolRecord { pool: NodePool { name: text("q"), ..pool().pool }, ..pool() };
        let moved = ClaimRecord { pool: text("q"), ..claim("m3") };
        observe(&mut state, 0, [Object::Pool(other), Object::Claim(moved)]);
        state.mark_for_deletion(&"m0".into());
        let now = Timestamp::from_millis(1_000);
        let view = DisruptionView { max_unavailable_nodes: limit, ..DisruptionView::of(&state, now) };
        let candidates = Candidates::collect(&view);
        let selected: Vec<Candidate<'_>> = candidates.iter().copied().collect();
        let Budgeted { allowed, held } = apply_budgets(&candidates, &selected, DisruptionReason::Empty, now);
        (allowed.iter().map(|candidate| candidate.claim.name.to_string()).collect(), held)
    }

    #[test]
    fn the_budget_of_the_cluster_counts_the_nodes_of_all_pools() {
        let held = |p: usize, q: usize| [(text("p"), p), (text("q"), q)].into_iter().filter(|(_, held)| *held > 0);
        // m0 leaves. With 3 two more may leave: m1 and m2 of p, and q has to wait.
        let (allowed, waiting) = in_cluster(Some(BudgetLimit::Nodes(3)));
        assert_eq!((allowed, waiting), (vec!["m1".to_owned(), "m2".to_owned()], held(0, 1).collect()));
        // 26 % of four nodes are 1.04, rounded up 2.
        let (allowed, waiting) = in_cluster(Some(BudgetLimit::Percent(26)));
        assert_eq!((allowed, waiting), (vec!["m1".to_owned()], held(1, 1).collect()));
        assert_eq!(in_cluster(Some(BudgetLimit::Nodes(0))), (Vec::new(), held(2, 1).collect()));
    }

    #[test]
    fn sabotage_without_a_budget_of_the_cluster_all_pools_remove_at_once() {
        assert_eq!(in_cluster(None), (["m1", "m2", "m3"].map(str::to_owned).to_vec(), BTreeMap::new()));
    }

    /// A pool whose nodes may leave within half an hour after each time of `schedule`.
    fn pool_with_window(schedule: &str) -> PoolRecord {
        let mut pool = pool();
        let schedule = Cron::parse(schedule).unwrap();
        pool.disruption.windows.push(BudgetWindow { schedule, zone: TimeZone::UTC, duration: Millis::from_mins(30) });
        pool
    }

    #[test]
    fn outside_its_windows_a_pool_holds_all() {
        // One second after midnight.
        assert_eq!(divided(pool_with_window("0 12 * * *")), (Vec::new(), 3));
        assert_eq!(divided(pool_with_window("0 0 * * *")).1, 0);
    }

    #[test]
    fn sabotage_without_windows_or_budgets_all_may_leave() {
        assert_eq!(divided(pool()), (["m1", "m2", "m3"].map(str::to_owned).to_vec(), 0));
    }
}
