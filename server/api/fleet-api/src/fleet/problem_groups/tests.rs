use super::*;
use api_messages::from_millis;

const WARNING: i32 = v1::Severity::Warning as i32;
const CRITICAL: i32 = v1::Severity::Critical as i32;
const INFO: i32 = v1::Severity::Info as i32;

/// A problem of a resource, since this second.
fn problem(resource: &str, code: &str, severity: i32, since: i64) -> v1::Problem {
    let of = if resource.is_empty() { String::new() } else { format!("{resource}/") };
    v1::Problem {
        name: format!("{of}problems/{code}"),
        severity,
        code: code.to_owned(),
        resource: resource.to_owned(),
        summary: format!("{code} happens"),
        reason: format!("reason of {resource}"),
        start_time: Some(from_millis(since * 1_000)),
        ..v1::Problem::default()
    }
}

fn rows(problems: &[v1::Problem]) -> Vec<v1::Problem> {
    grouped(problems, |_| "1.eu".to_owned())
}

fn names(rows: &[v1::Problem]) -> Vec<&str> {
    rows.iter().map(|row| &*row.name).collect()
}

#[test]
fn a_problem_of_two_clusters_is_one_row_with_the_reason_of_the_oldest() {
    let one = v1::Problem { count: 2, ..problem("clusters/a", "Odd", WARNING, 9) };
    assert_eq!(rows(std::slice::from_ref(&one)), std::slice::from_ref(&one));
    let other = v1::Problem { count: 3, ..problem("clusters/b", "Odd", CRITICAL, 5) };
    let expected = v1::Problem {
        name: "problems/Odd".to_owned(),
        severity: CRITICAL,
        resource: String::new(),
        summary: "Odd happens, in 2 clusters".to_owned(),
        reason: "b: reason of clusters/b".to_owned(),
        count: 5,
        command: "fleetwright fleet problems --filter 'code = \"Odd\"'".to_owned(),
        ..problem("clusters/b", "Odd", CRITICAL, 5)
    };
    assert_eq!(rows(&[one, other]), [expected]);
}

#[test]
fn a_problem_of_two_node_pools_of_a_cluster_is_one_row_of_the_cluster() {
    let pools = ["a", "b"].map(|pool| problem(&format!("clusters/shop/pools/{pool}"), "NodePoolNotReady", WARNING, 7));
    let [row] = &rows(&pools)[..] else { panic!("one row") };
    assert_eq!(
        (&*row.name, &*row.resource, &*row.summary, &*row.reason),
        (
            "clusters/shop/problems/NodePoolNotReady",
            "clusters/shop",
            "NodePoolNotReady happens, for 2 NodePools",
            "pools/a: reason of clusters/shop/pools/a"
        )
    );
}

/// The case of an operator who froze the fleet: the freeze is the row, and says what it stops.
#[test]
fn a_freeze_of_the_fleet_is_one_row_with_what_it_stops_and_as_bad_as_that() {
    let text = "the fleet is frozen by kim: incident 4 (freeze 7)";
    let freeze = v1::Problem { name: "problems/Frozen.7".to_owned(), ..problem("", "Frozen", INFO, 100) };
    let stopped = |resource: &str, code: &str, severity, since| v1::Problem {
        reason: format!("web/a waits longest: {text}"),
        ..problem(resource, code, severity, since)
    };
    let problems = [
        stopped("clusters/a/pools/x", "NodePoolNotReady", WARNING, 100),
        stopped("clusters/a/pools/y", "NodePoolNotReady", WARNING, 100),
        stopped("clusters/b/pools/x", "NodePoolNotReady", WARNING, 100),
        stopped("clusters/a", "RemovalsBlocked", WARNING, 101),
        // Created before the freeze, and it waits for it now.
        v1::Problem { count: 4, ..stopped("clusters/b", "PodsUnschedulable.NodePoolNotReady", CRITICAL, 40) },
        freeze,
        problem("clusters/c", "AgentDisconnected", CRITICAL, 90),
        v1::Problem { reason: "freeze 70".to_owned(), ..problem("clusters/d", "RemovalsBlocked", WARNING, 120) },
    ];
    let rows = rows(&problems);
    assert_eq!(
        names(&rows),
        ["problems/Frozen.7", "clusters/c/problems/AgentDisconnected", "clusters/d/problems/RemovalsBlocked"]
    );
    assert_eq!(rows[0].severity, CRITICAL, "pods wait for it");
    let effects = [
        "4 PodsUnschedulable.NodePoolNotReady happens (b)",
        "NodePoolNotReady happens, for 3 NodePools of 2 clusters",
        "RemovalsBlocked happens (a)",
    ];
    assert_eq!(rows[0].effects, effects);
}

#[test]
fn problems_of_the_fleet_and_freezes_for_other_reasons_stay_apart() {
    let named = |name: &str, problem: v1::Problem| v1::Problem { name: format!("problems/{name}"), ..problem };
    let shortages = ["Shortage.m5.spot", "Shortage.c5.spot"].map(|name| named(name, problem("", "Shortage", INFO, 1)));
    let freezes = ["a", "b"].map(|cluster| problem(&format!("clusters/{cluster}"), "Frozen", INFO, 1));
    assert_eq!(rows(&[&shortages[..], &freezes[..]].concat()).len(), 4);
    let same = freezes.map(|freeze| v1::Problem { reason: "incident 4".to_owned(), ..freeze });
    assert_eq!(rows(&same).len(), 1);
}
