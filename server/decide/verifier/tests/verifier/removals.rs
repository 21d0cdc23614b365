//! Removals: correct ones, and one planted fault for each rule.

mod opt_in;

use std::collections::{BTreeMap, BTreeSet};

use model::disruption_policy::{Budget, BudgetLimit, BudgetWindow, DisruptionReason};
use model::removal::{
    ClusterBudget, DoNotDisrupt, NodeRemoval, PodBudget, RemovalInput, RemovalNode, RemovalPlan, RemovalPod,
    RemovalPool, RemovalReason, ReplicaCount,
};
use model::{ClaimName, Cron, Millis, NodeName, NodeStage, PodKey, PoolName, TimeZone, Timestamp};
use verifier::{RemovalRule, RemovalViolation, check_removals, check_removals_but_last_pods};

use crate::fixture::text;

const NOW: Timestamp = Timestamp::from_millis(1_000_000);

/// Ten nodes in the NodePool `p`, three of which are removed: `empty` (Empty), `old` (Drifted) and
/// `big` (Underutilized). `big` has the pod `web-0`, one of three of its ReplicaSet, of which one
/// is ready elsewhere, and the pod `db-0`, which the PodDisruptionBudget `db` selects; both move
/// to `n-stays`.
struct Removals {
    input: RemovalInput,
    plan: RemovalPlan,
}

fn pod_key(name: &str) -> PodKey {
    PodKey { namespace: text("shop"), name: text(name) }
}

fn pod(name: &str, workload: &str) -> RemovalPod {
    RemovalPod {
        key: pod_key(name),
        workload: text(workload),
        node_bound: false,
        terminating: false,
        ready: true,
        tolerates_drain: false,
        do_not_disrupt: None,
        started: Some(Timestamp::from_millis(400_000)),
        pod_budgets: Vec::new(),
    }
}

fn daemon(name: &str) -> RemovalPod {
    RemovalPod { node_bound: true, ..pod(name, "DaemonSet/agent") }
}

fn node(claim: &str, pods: Vec<RemovalPod>) -> RemovalNode {
    RemovalNode {
        claim: ClaimName::from(claim),
        node: NodeName::from(format!("n-{claim}")),
        ours: true,
        pool: PoolName::from("p"),
        stage: NodeStage::Initialized,
        created: Some(Timestamp::from_millis(0)),
        do_not_disrupt: None,
        pods,
    }
}

fn budget(limit: BudgetLimit, reasons: Option<Vec<DisruptionReason>>) -> Budget {
    Budget { limit, reasons, window: None }
}

impl Removals {
    fn new() -> Self {
        let db = RemovalPod { pod_budgets: vec![text("shop/db")], ..pod("db-0", "StatefulSet/db") };
        let nodes = vec![
            node("empty", vec![daemon("agent-1")]),
            node("old", vec![daemon("agent-2")]),
            node("big", vec![daemon("agent-3"), pod("web-0", "ReplicaSet/web"), db]),
        ];
        // One of the ten nodes is not ready, and three leave: 40 % of the nodes are unavailable.
        let budgets = vec![budget(BudgetLimit::Percent(40), None)];
        let pool = RemovalPool {
            name: PoolName::from("p"),
            budgets,
            windows: Vec::new(),
            total: 10,
            unavailable: 1,
            not_ready: 0,
        };
        let web = (text("shop"), text("ReplicaSet/web"));
        let input = RemovalInput {
            now: NOW,
            pools: vec![pool],
            cluster_budget: None,
            nodes,
            pod_budgets: BTreeMap::from([(text("shop/db"), PodBudget { allowed: 1, evicts_unhealthy_always: false })]),
            elsewhere: BTreeMap::from([(web, ReplicaCount { pods: 2, ready: 1 })]),
            destinations: BTreeSet::from([NodeName::from("n-stays")]),
            opt_in: Vec::new(),
        };
        let mut removals = Self { input, plan: RemovalPlan::default() };
        // Removals are judged by the precedence of their reasons, whatever the order of the list.
        removals.remove("big", RemovalReason::Underutilized);
        removals.remove("old", RemovalReason::Drifted);
        removals.remove("empty", RemovalReason::Empty);
        removals.place("web-0", "n-stays");
        removals.place("db-0", "n-stays");
        removals
    }

    fn remove(&mut self, claim: &str, reason: RemovalReason) {
        self.plan.removals.push(NodeRemoval { claim: ClaimName::from(claim), reason, deadline: None });
    }

    /// Adds a node to the input, and its removal to the plan.
    fn add(&mut self, node: RemovalNode, reason: RemovalReason) {
        self.remove(&node.claim, reason);
        self.input.nodes.push(node);
        self.pool().budgets.clear();
    }

    fn place(&mut self, pod: &str, node: &str) {
        self.plan.placements.insert(pod_key(pod), NodeName::from(node));
    }

    fn pool(&mut self) -> &mut RemovalPool {
        &mut self.input.pools[0]
    }

    fn node(&mut self, claim: &str) -> &mut RemovalNode {
        let index = self.input.nodes.iter().position(|node| node.claim == claim).expect("the node is in the fixture");
        &mut self.input.nodes[index]
    }

    /// The pod at `index` of the node.
    fn pod(&mut self, claim: &str, index: usize) -> &mut RemovalPod {
        &mut self.node(claim).pods[index]
    }

    fn web(&mut self) -> &mut RemovalPod {
        self.pod("big", 1)
    }

    fn db(&mut self) -> &mut RemovalPod {
        self.pod("big", 2)
    }

    fn set_web_elsewhere(&mut self, pods: usize, ready: usize) {
        self.input.elsewhere.insert((text("shop"), text("ReplicaSet/web")), ReplicaCount { pods, ready });
    }

    fn set_reason(&mut self, claim: &str, reason: RemovalReason, deadline: Option<Timestamp>) {
        let removal = self.plan.removals.iter_mut().find(|removal| removal.claim == claim);
        let removal = removal.expect("the node is removed");
        (removal.reason, removal.deadline) = (reason, deadline);
    }

    fn violations(&self) -> Vec<RemovalViolation> {
        check_removals(&self.input, &self.plan)
    }

    #[track_caller]
    fn assert_clean(&self) {
        assert_eq!(self.violations(), []);
    }

    /// The removal of `claim` breaks `rule`, and nothing else is broken.
    #[track_caller]
    fn assert_breaks(&self, rule: RemovalRule, claim: &str) {
        let violations = self.violations();
        let found: Vec<(RemovalRule, &str)> =
            violations.iter().map(|found| (found.rule, found.claim.as_ref())).collect();
        assert_eq!(found, [(rule, claim)], "{violations:?}");
    }
}

#[test]
fn correct_removals_are_clean() {
    Removals::new().assert_clean();
}

#[test]
fn an_unknown_or_foreign_node_is_not_removed_for_any_reason() {
    for reason in [RemovalReason::Empty, RemovalReason::Interrupted] {
        let mut removals = Removals::new();
        removals.remove("ghost", reason);
        removals.assert_breaks(RemovalRule::Unmanaged, "ghost");
        let mut removals = Removals::new();
        removals.node("empty").ours = false;
        removals.set_reason("empty", reason, None);
        removals.assert_breaks(RemovalRule::Unmanaged, "empty");
    }
}

#[test]
fn a_node_of_an_unmanaged_pool_leaves_only_by_force() {
    let mut removals = Removals::new();
    removals.node("empty").pool = PoolName::from("theirs");
    removals.assert_breaks(RemovalRule::Unmanaged, "empty");
    removals.set_reason("empty", RemovalReason::Interrupted, None);
    removals.assert_clean();
}

#[test]
fn a_node_is_removed_once() {
    for reason in [RemovalReason::Empty, RemovalReason::Expired] {
        let mut removals = Removals::new();
        removals.remove("empty", reason);
        removals.assert_breaks(RemovalRule::Terminating, "empty");
    }
    let mut removals = Removals::new();
    removals.node("old").stage = NodeStage::Deleting;
    removals.assert_breaks(RemovalRule::Terminating, "old");
    removals.set_reason("old", RemovalReason::Interrupted, None);
    removals.assert_clean();
}

#[test]
fn a_node_that_is_not_initialized_leaves_only_by_force() {
    for stage in [NodeStage::InFlight, NodeStage::Registered] {
        let mut removals = Removals::new();
        removals.node("old").stage = stage;
        removals.assert_breaks(RemovalRule::NotInitialized, "old");
        removals.set_reason("old", RemovalReason::Unhealthy, None);
        removals.assert_clean();
    }
}

#[test]
fn budgets_bound_the_unavailable_nodes() {
    // The fourth removal makes five of ten nodes unavailable; 40 % are four. Underutilized is last.
    let mut removals = Removals::new();
    removals.input.nodes.push(node("extra", Vec::new()));
    removals.remove("extra", RemovalReason::Empty);
    removals.assert_breaks(RemovalRule::Budget, "big");
    // 41 % of ten nodes are 4.1, rounded up 5.
    removals.pool().budgets = vec![budget(BudgetLimit::Percent(41), None)];
    removals.assert_clean();
}

#[test]
fn the_smallest_budget_for_the_reason_at_the_time_applies() {
    let of = |budgets: Vec<Budget>| {
        let mut removals = Removals::new();
        removals.pool().budgets = budgets;
        removals
    };
    let five = || budget(BudgetLimit::Nodes(5), None);
    let none = |reasons| budget(BudgetLimit::Nodes(0), reasons);
    of(vec![]).assert_clean();
    of(vec![five(), none(Some(vec![]))]).assert_clean();
    of(vec![five(), none(Some(vec![DisruptionReason::Drifted]))]).assert_breaks(RemovalRule::Budget, "old");
    // Empty nodes leave first: with the unready node and `empty` two are unavailable, with `old`
    // three, with `big` four.
    of(vec![five(), budget(BudgetLimit::Nodes(2), Some(vec![DisruptionReason::Empty]))]).assert_clean();
    of(vec![budget(BudgetLimit::Nodes(3), None)]).assert_breaks(RemovalRule::Budget, "big");
    let unreadable = Budget { window: None, ..budget(BudgetLimit::Unreadable, Some(vec![])) };
    assert_eq!(of(vec![unreadable]).violations().len(), 3, "no node may be removed at all");
    // 1,000 s after the epoch is 00:16:40 UTC. A window opens at midnight.
    let midnight = Cron::parse("0 0 * * *").expect("a valid schedule");
    let from_midnight = |minutes, zone: &TimeZone| {
        let window =
            Some(BudgetWindow { schedule: midnight, zone: zone.clone(), duration: Millis::from_mins(minutes) });
        Budget { window, ..none(Some(vec![DisruptionReason::Empty])) }
    };
    of(vec![from_midnight(16, &TimeZone::UTC)]).assert_clean();
    of(vec![from_midnight(17, &TimeZone::UTC)]).assert_breaks(RemovalRule::Budget, "empty");
    // Kolkata is five and a half hours ahead: there it is 05:46:40, 346 full minutes after midnight.
    let kolkata = TimeZone::named("Asia/Kolkata").expect("a time zone of the database");
    of(vec![from_midnight(346, &kolkata)]).assert_clean();
    of(vec![from_midnight(347, &kolkata)]).assert_breaks(RemovalRule::Budget, "empty");
}

#[test]
fn the_budget_of_the_cluster_counts_the_nodes_of_every_pool() {
    let of = |limit: BudgetLimit| {
        let mut removals = Removals::new();
        removals.pool().budgets = Vec::new();
        // Of 40 nodes in all pools 2 are unavailable; the plan removes three more.
        removals.input.cluster_budget = Some(ClusterBudget { limit, total: 40, unavailable: 2, not_ready: 0 });
        removals
    };
    of(BudgetLimit::Nodes(5)).assert_clean();
    of(BudgetLimit::Nodes(4)).assert_breaks(RemovalRule::ClusterBudget, "big");
    // 10 % of 40 are 4, 11 % are 4.4, rounded up 5.
    of(BudgetLimit::Percent(11)).assert_clean();
    of(BudgetLimit::Percent(10)).assert_breaks(RemovalRule::ClusterBudget, "big");
    assert_eq!(of(BudgetLimit::Nodes(0)).violations().len(), 3);
    let mut forceful = of(BudgetLimit::Nodes(4));
    for claim in ["empty", "old", "big"] {
        forceful.set_reason(claim, RemovalReason::Expired, None);
    }
    forceful.assert_clean();
    // A forceful removal leaves first, and the voluntary ones after it count it.
    let mut spot = of(BudgetLimit::Nodes(5));
    spot.input.nodes.push(node("spot", Vec::new()));
    spot.remove("spot", RemovalReason::Interrupted);
    spot.assert_breaks(RemovalRule::ClusterBudget, "big");
}

#[test]
fn nodes_that_are_only_not_ready_do_not_hold_a_repair() {
    // One of the ten nodes is unavailable, and the budgets allow one.
    let of = |reason: RemovalReason, not_ready: usize| {
        let mut removals = Removals::new();
        removals.plan.removals.retain(|removal| removal.claim == "old");
        removals.set_reason("old", reason, None);
        let pool = removals.pool();
        (pool.budgets, pool.not_ready) = (vec![budget(BudgetLimit::Nodes(1), None)], not_ready);
        let limit = BudgetLimit::Nodes(1);
        removals.input.cluster_budget = Some(ClusterBudget { limit, total: 10, unavailable: 1, not_ready });
        removals
    };
    of(RemovalReason::Repaired, 1).assert_clean();
    for kept in [of(RemovalReason::Repaired, 0), of(RemovalReason::Drifted, 1)] {
        let rules: Vec<RemovalRule> = kept.violations().iter().map(|violation| violation.rule).collect();
        assert_eq!(rules, [RemovalRule::Budget, RemovalRule::ClusterBudget]);
    }
}

#[test]
fn voluntary_removals_begin_in_a_window_of_the_pool() {
    // 1,000 s after the epoch is 00:16:40 UTC.
    let daily = |schedule: &str| {
        let schedule = Cron::parse(schedule).expect("a valid schedule");
        BudgetWindow { schedule, zone: TimeZone::UTC, duration: Millis::from_mins(10) }
    };
    let of = |schedules: &[&str]| {
        let mut removals = Removals::new();
        removals.pool().budgets = Vec::new();
        removals.pool().windows = schedules.iter().map(|schedule| daily(schedule)).collect();
        removals
    };
    of(&[]).assert_clean();
    of(&["0 0 * * *", "10 0 * * *"]).assert_clean();
    let mut closed = of(&["0 0 * * *", "20 0 * * *"]);
    let violations = closed.violations();
    assert_eq!(violations.len(), 3, "Empty, Drifted and Underutilized: {violations:?}");
    assert!(violations.iter().all(|violation| violation.rule == RemovalRule::Budget), "{violations:?}");
    for claim in ["empty", "old", "big"] {
        closed.set_reason(claim, RemovalReason::Expired, None);
    }
    closed.assert_clean();
}

#[test]
fn forceful_removals_use_the_budget_and_are_not_held_by_it() {
    let mut removals = Removals::new();
    removals.input.nodes.push(node("spot", Vec::new()));
    removals.remove("spot", RemovalReason::Interrupted);
    removals.assert_breaks(RemovalRule::Budget, "big");
    let mut removals = Removals::new();
    removals.pool().budgets = vec![budget(BudgetLimit::Nodes(0), None)];
    for claim in ["empty", "old", "big"] {
        removals.set_reason(claim, RemovalReason::Expired, None);
    }
    removals.assert_clean();
}

#[test]
fn do_not_disrupt_protects_the_node() {
    let mut removals = Removals::new();
    removals.node("empty").do_not_disrupt = Some(DoNotDisrupt::Always);
    removals.assert_breaks(RemovalRule::DoNotDisrupt, "empty");
    // Created at 0; it is 1,000 s later.
    removals.node("empty").do_not_disrupt = Some(DoNotDisrupt::For(Millis::from_secs(1_001)));
    removals.assert_breaks(RemovalRule::DoNotDisrupt, "empty");
    removals.node("empty").do_not_disrupt = Some(DoNotDisrupt::For(Millis::from_secs(1_000)));
    removals.assert_clean();
}

#[test]
fn do_not_disrupt_on_a_pod_protects_its_node() {
    let protected = |pod: fn(&mut Removals) -> &mut RemovalPod, value| {
        let mut removals = Removals::new();
        pod(&mut removals).do_not_disrupt = Some(value);
        removals
    };
    protected(Removals::web, DoNotDisrupt::Always).assert_breaks(RemovalRule::DoNotDisrupt, "big");
    protected(|removals| removals.pod("empty", 0), DoNotDisrupt::Always)
        .assert_breaks(RemovalRule::DoNotDisrupt, "empty");
    // The pod started 600 s ago.
    let for_secs = |secs| DoNotDisrupt::For(Millis::from_secs(secs));
    protected(Removals::web, for_secs(601)).assert_breaks(RemovalRule::DoNotDisrupt, "big");
    protected(Removals::web, for_secs(600)).assert_clean();
    let mut removals = protected(Removals::web, for_secs(1));
    removals.web().started = None;
    removals.assert_breaks(RemovalRule::DoNotDisrupt, "big");
    let mut removals = protected(Removals::web, DoNotDisrupt::Always);
    removals.web().terminating = true;
    removals.assert_clean();
}

#[test]
fn a_pod_disruption_budget_without_an_eviction_left_holds_the_node() {
    let mut removals = Removals::new();
    removals.input.pod_budgets.insert(text("shop/db"), PodBudget::default());
    removals.assert_breaks(RemovalRule::PodDisruptionBudget, "big");
    // A pod that is not ready may always be evicted under AlwaysAllow.
    removals.input.pod_budgets.insert(text("shop/db"), PodBudget { allowed: 0, evicts_unhealthy_always: true });
    removals.assert_breaks(RemovalRule::PodDisruptionBudget, "big");
    removals.db().ready = false;
    removals.assert_clean();
    let mut removals = Removals::new();
    removals.input.pod_budgets.clear();
    removals.assert_breaks(RemovalRule::PodDisruptionBudget, "big");
    removals.db().tolerates_drain = true;
    removals.assert_clean();
}

#[test]
fn a_budget_of_a_daemon_set_s_pods_holds_the_nodes_of_those_that_a_drain_evicts() {
    let mut removals = Removals::new();
    let guarded = RemovalPod { pod_budgets: vec![text("shop/agent")], ..daemon("agent-1") };
    removals.node("big").pods.push(guarded);
    removals.assert_breaks(RemovalRule::PodDisruptionBudget, "big");
    let last = removals.node("big").pods.len() - 1;
    removals.node("big").pods[last].tolerates_drain = true;
    removals.assert_clean();
    removals.node("big").pods[last].tolerates_drain = false;
    removals.input.pod_budgets.insert(text("shop/agent"), PodBudget { allowed: 1, evicts_unhealthy_always: false });
    removals.assert_clean();
    // It needs no place: it ends with its node.
    assert!(!removals.plan.placements.contains_key(&pod_key("agent-1")));
}

#[test]
fn a_terminating_pod_of_a_stateful_set_needs_a_place() {
    let mut removals = Removals::new();
    removals.plan.placements.remove(&pod_key("db-0"));
    removals.db().terminating = true;
    removals.assert_breaks(RemovalRule::Room, "big");
    // No eviction: do-not-disrupt and budgets say nothing about it.
    removals.db().pod_budgets = vec![text("shop/db"), text("shop/all")];
    removals.assert_breaks(RemovalRule::Room, "big");
    removals.place("db-0", "n-stays");
    removals.assert_clean();
}

#[test]
fn a_pod_with_two_pod_disruption_budgets_is_never_evicted() {
    let mut removals = Removals::new();
    removals.db().pod_budgets.push(text("shop/all"));
    removals.assert_breaks(RemovalRule::PodDisruptionBudget, "big");
    removals.db().terminating = true;
    removals.assert_clean();
}

#[test]
fn one_allowed_eviction_is_enough_for_a_node_and_several_nodes_need_the_sum() {
    let db = |name| RemovalPod { pod_budgets: vec![text("shop/db")], ..pod(name, "StatefulSet/db") };
    let mut removals = Removals::new();
    removals.node("big").pods.push(db("db-1"));
    removals.place("db-1", "n-stays");
    removals.assert_clean();
    removals.add(node("other", vec![db("db-2")]), RemovalReason::Underutilized);
    removals.place("db-2", "n-stays");
    removals.assert_breaks(RemovalRule::PodDisruptionBudget, "other");
    removals.input.pod_budgets.insert(text("shop/db"), PodBudget { allowed: 3, evicts_unhealthy_always: false });
    removals.assert_clean();
    // The evictions of a node that leaves by force count as well.
    removals.input.pod_budgets.insert(text("shop/db"), PodBudget { allowed: 2, evicts_unhealthy_always: false });
    removals.set_reason("other", RemovalReason::Interrupted, None);
    removals.assert_breaks(RemovalRule::PodDisruptionBudget, "big");
}

#[test]
fn a_pod_that_must_run_again_needs_a_place() {
    let mut removals = Removals::new();
    removals.plan.placements.remove(&pod_key("web-0"));
    removals.assert_breaks(RemovalRule::Room, "big");
    type Change = fn(&mut RemovalPod);
    let exempt: [(&str, Change); 3] = [
        ("nothing recreates it", |pod| pod.workload = text("Pod/web-0")),
        ("it is terminating", |pod| pod.terminating = true),
        ("it ends with its node", |pod| pod.node_bound = true),
    ];
    for (why, change) in exempt {
        let mut removals = Removals::new();
        removals.plan.placements.remove(&pod_key("web-0"));
        change(removals.web());
        assert_eq!(removals.violations(), [], "{why}");
    }
}

#[test]
fn a_place_on_a_node_that_leaves_or_does_not_exist_is_none() {
    for to in ["n-empty", "n-ghost"] {
        let mut removals = Removals::new();
        removals.place("web-0", to);
        removals.assert_breaks(RemovalRule::Room, "big");
    }
    // Even if the node is named among those that stay.
    let mut removals = Removals::new();
    removals.input.destinations.insert(NodeName::from("n-empty"));
    removals.place("web-0", "n-empty");
    removals.assert_breaks(RemovalRule::Room, "big");
}

#[test]
fn an_empty_node_has_only_pods_that_end_with_it() {
    let with = |pod: RemovalPod| {
        let mut removals = Removals::new();
        removals.place(&pod.key.name, "n-stays");
        removals.node("empty").pods.push(pod);
        removals
    };
    let job = || pod("job-1", "Job/nightly");
    with(job()).assert_breaks(RemovalRule::Room, "empty");
    with(pod("alone", "Pod/alone")).assert_breaks(RemovalRule::Room, "empty");
    with(RemovalPod { terminating: true, ..job() }).assert_clean();
    // The next pod of that name runs where the last one ends.
    with(RemovalPod { terminating: true, ..pod("db-7", "StatefulSet/db") }).assert_breaks(RemovalRule::Room, "empty");
}

#[test]
fn the_only_ready_pod_of_several_replicas_is_not_evicted() {
    let mut removals = Removals::new();
    removals.set_web_elsewhere(2, 0);
    removals.assert_breaks(RemovalRule::LastReadyPod, "big");
    assert!(check_removals_but_last_pods(&removals.input, &removals.plan).is_empty());
    // It is not ready itself, so no ready pod is lost.
    removals.web().ready = false;
    removals.assert_clean();
    // The only replica there is.
    let mut removals = Removals::new();
    removals.set_web_elsewhere(0, 0);
    removals.assert_clean();
    // A PodDisruptionBudget is in charge, and allows it.
    let mut removals = Removals::new();
    removals.set_web_elsewhere(2, 0);
    removals.web().pod_budgets = vec![text("shop/web")];
    let allowing = PodBudget { allowed: 1, evicts_unhealthy_always: false };
    removals.input.pod_budgets.insert(text("shop/web"), allowing);
    removals.assert_clean();
}

#[test]
fn several_nodes_do_not_take_the_last_ready_pods_together() {
    let second = |reason| {
        let mut removals = Removals::new();
        removals.set_web_elsewhere(1, 0);
        removals.add(node("other", vec![pod("web-1", "ReplicaSet/web")]), reason);
        removals.place("web-1", "n-stays");
        removals
    };
    second(RemovalReason::Underutilized).assert_breaks(RemovalRule::LastReadyPod, "other");
    second(RemovalReason::Interrupted).assert_breaks(RemovalRule::LastReadyPod, "big");
    let mut removals = second(RemovalReason::Underutilized);
    removals.set_web_elsewhere(1, 1);
    removals.assert_clean();
    // Two ready pods on one node: neither is the only one.
    let mut removals = Removals::new();
    removals.set_web_elsewhere(1, 0);
    removals.node("big").pods.push(pod("web-1", "ReplicaSet/web"));
    removals.place("web-1", "n-stays");
    removals.assert_clean();
}

#[test]
fn the_pods_of_a_job_are_no_replicas() {
    let mut removals = Removals::new();
    removals.web().workload = text("Job/nightly");
    let other = ReplicaCount { pods: 2, ready: 0 };
    removals.input.elsewhere.insert((text("shop"), text("Job/nightly")), other);
    removals.assert_clean();
}

/// `big` breaks every rule that its pods and its Node can break.
fn unprotected() -> Removals {
    let mut removals = Removals::new();
    removals.plan.placements.clear();
    removals.set_web_elsewhere(2, 0);
    removals.input.pod_budgets.clear();
    removals.node("big").do_not_disrupt = Some(DoNotDisrupt::Always);
    removals.pool().budgets = vec![budget(BudgetLimit::Nodes(3), None)];
    removals
}

#[test]
fn a_forceful_reason_is_exempt_from_every_rule_about_pods_and_budgets() {
    let rules: BTreeSet<RemovalRule> = unprotected().violations().iter().map(|found| found.rule).collect();
    let all = [
        RemovalRule::Budget,
        RemovalRule::DoNotDisrupt,
        RemovalRule::PodDisruptionBudget,
        RemovalRule::Room,
        RemovalRule::LastReadyPod,
    ];
    assert_eq!(rules, BTreeSet::from(all));
    let others = check_removals_but_last_pods(&unprotected().input, &unprotected().plan);
    let others: BTreeSet<RemovalRule> = others.iter().map(|found| found.rule).collect();
    assert_eq!(others, all[..4].iter().copied().collect());
    for reason in [RemovalReason::Expired, RemovalReason::Unhealthy, RemovalReason::Interrupted] {
        let mut removals = unprotected();
        removals.set_reason("big", reason, None);
        // It counts against the budget of three, so `old`, the last one, exceeds it.
        removals.assert_breaks(RemovalRule::Budget, "old");
    }
}

#[test]
fn drift_with_a_deadline_ignores_what_protects_pods_and_not_what_protects_the_node() {
    let deadline = Some(NOW + Millis::from_hours(1));
    let mut removals = Removals::new();
    removals.web().do_not_disrupt = Some(DoNotDisrupt::Always);
    removals.input.pod_budgets.insert(text("shop/db"), PodBudget::default());
    // Pods that are held from eviction have no place yet.
    removals.plan.placements.clear();
    removals.set_reason("big", RemovalReason::Drifted, None);
    let rules: Vec<RemovalRule> = removals.violations().iter().map(|found| found.rule).collect();
    assert_eq!(rules, [RemovalRule::DoNotDisrupt, RemovalRule::PodDisruptionBudget]);
    removals.set_reason("big", RemovalReason::Drifted, deadline);
    removals.assert_clean();
    removals.set_reason("big", RemovalReason::Underutilized, deadline);
    assert_eq!(removals.violations().len(), 2, "a deadline changes nothing for other reasons");
    removals.set_reason("big", RemovalReason::Drifted, deadline);
    removals.node("big").do_not_disrupt = Some(DoNotDisrupt::Always);
    removals.assert_breaks(RemovalRule::DoNotDisrupt, "big");
}

#[test]
fn a_violation_names_rule_node_claim_and_pod() {
    let mut removals = Removals::new();
    removals.plan.placements.remove(&pod_key("web-0"));
    let violations = removals.violations();
    assert_eq!(violations[0].to_string(), "Room on NodeClaim big: pod shop/web-0 has no place after the removal");
    assert_eq!((violations[0].node.as_ref(), violations[0].pod.as_ref()), ("n-big", Some(&pod_key("web-0"))));
}
