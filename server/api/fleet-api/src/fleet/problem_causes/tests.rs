use super::*;
use api_messages::from_millis;

/// A problem with its name, since this second.
fn problem(name: &str, since: i64) -> v1::Problem {
    let (resource, id) = name.rsplit_once("problems/").unwrap_or(("", name));
    let code = if id.starts_with("Pods") { id } else { id.split(['.', '-']).next().unwrap_or_default() };
    v1::Problem {
        name: name.to_owned(),
        code: code.to_owned(),
        resource: resource.trim_end_matches('/').to_owned(),
        start_time: Some(from_millis(since * 1_000)),
        ..v1::Problem::default()
    }
}

/// The root of each problem, by name. Clusters whose names begin with `eu` are in one region, all others in another.
fn roots(problems: &[v1::Problem]) -> Vec<(&str, Option<&str>)> {
    let region = |cluster: &str| if cluster.starts_with("eu") { "1.eu".to_owned() } else { "1.us".to_owned() };
    let causes = Causes::of(problems, region);
    let root = |index: usize| causes.root(index).map(|root| &*problems[root].name);
    problems.iter().enumerate().map(|(index, problem)| (&*problem.name, root(index))).collect()
}

#[test]
fn what_waits_for_a_cloud_that_is_away_follows_from_it_in_its_region_alone() {
    let problems = [
        problem("problems/CloudUnavailable.1.eu", 100),
        problem("problems/ListingOld.1.eu", 90),
        problem("problems/CatalogueOld.1.eu.spot", 130),
        problem("problems/ListingOld.1.us", 130),
        problem("clusters/eu-1/problems/PodsWaitForNode", 110),
        // It waited long before.
        problem("clusters/eu-2/problems/PodsWaitForNode", 20),
        problem("clusters/us-1/problems/PodsWaitForNode", 110),
        problem("clusters/eu-1/problems/PlanFailed", 110),
    ];
    let cloud = Some("problems/CloudUnavailable.1.eu");
    let found: Vec<Option<&str>> = roots(&problems).into_iter().map(|(_, root)| root).collect();
    assert_eq!(found, [None, cloud, cloud, None, cloud, None, None, None]);
}

#[test]
fn a_store_that_is_away_explains_leases_owners_and_waiting_pods() {
    let problems = [
        problem("clusters/a/problems/PodsWaitForPlan", 105),
        problem("problems/LeasesNotRenewed", 99),
        problem("clusters/a/problems/NoOwner", 120),
        problem("problems/StoreUnavailable", 100),
        problem("clusters/b/problems/AgentDisconnected", 120),
    ];
    let store = Some("problems/StoreUnavailable");
    let found: Vec<Option<&str>> = roots(&problems).into_iter().map(|(_, root)| root).collect();
    assert_eq!(found, [store, store, store, None, None]);
}

#[test]
fn a_cluster_without_decisions_explains_its_own_pods_and_a_lost_replica_its_clusters() {
    let problems = [
        problem("clusters/a/problems/AgentDisconnected", 100),
        problem("clusters/a/problems/PodsUnschedulable.Taints", 110),
        problem("clusters/b/problems/PodsUnschedulable.Taints", 110),
        problem("problems/ReplicaUnreachable-two/1", 100),
        problem("clusters/c/problems/NoOwner", 101),
        problem("clusters/c/problems/PodsWaitForPlan", 140),
    ];
    let (agent, replica) = (Some("clusters/a/problems/AgentDisconnected"), Some("problems/ReplicaUnreachable-two/1"));
    let found: Vec<Option<&str>> = roots(&problems).into_iter().map(|(_, root)| root).collect();
    assert_eq!(found, [None, agent, None, None, replica, replica]);
}

#[test]
fn what_names_its_cause_follows_from_it() {
    let with = |name: &str, reason: &str| v1::Problem { reason: reason.to_owned(), ..problem(name, 10) };
    let limit = "cluster a may launch no more than 3 machines within 10 min";
    let problems = [
        with("clusters/a/problems/LaunchesBlocked", limit),
        with("clusters/a/problems/PodsUnschedulable.HeldBack", &format!("web/a waits longest: {limit}")),
        with("clusters/a/problems/PodsUnschedulable.Taints", "web/b waits longest: Taints"),
        with("clusters/b/problems/PodsUnschedulable.HeldBack", &format!("web/a waits longest: {limit}")),
        with("clusters/b/pools/x/problems/NodePoolNotReady", "EC2NodeClass x is not ready"),
        with("clusters/b/problems/PodsUnschedulable.NodePoolNotReady", "NodePool x: EC2NodeClass x is not ready"),
        // Nothing names a cause without a reason.
        with("clusters/c/problems/CircuitBreakerOpen", ""),
        with("clusters/c/problems/RemovalsBlocked", "3 of 4 launches failed"),
    ];
    let found: Vec<Option<&str>> = roots(&problems).into_iter().map(|(_, root)| root).collect();
    let (blocked, pool) =
        (Some("clusters/a/problems/LaunchesBlocked"), Some("clusters/b/pools/x/problems/NodePoolNotReady"));
    assert_eq!(found, [None, blocked, None, None, None, pool, None, None]);
}
