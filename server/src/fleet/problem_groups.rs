//! The same problem of many clusters as one row: an operator who is called at night reads causes, not a thousand lines.

use std::collections::{BTreeMap, BTreeSet};

use fleetwright_proto::v1;

use super::encode::to_millis;

/// Clusters with the same problem above which it is one row.
const CLUSTERS: usize = 10;

/// What is the same of problems in one group.
type Group<'p> = (i32, &'p str, &'p str);

/// The problems of the fleet, with one row for each that more than [`CLUSTERS`] clusters have. It has the reason of the cluster
/// that has the problem longest, and the command that lists all of them.
pub(super) fn grouped(problems: &[v1::Problem]) -> Vec<v1::Problem> {
    let mut groups: BTreeMap<Group<'_>, Vec<&v1::Problem>> = BTreeMap::new();
    for problem in problems.iter().filter(|problem| !problem.resource.is_empty()) {
        groups.entry((problem.severity, &problem.code, &problem.summary)).or_default().push(problem);
    }
    let mut rows: Vec<v1::Problem> = problems.iter().filter(|problem| problem.resource.is_empty()).cloned().collect();
    for of_group in groups.into_values() {
        let clusters: BTreeSet<&str> =
            of_group.iter().filter_map(|problem| problem.resource.split('/').nth(1)).collect();
        if clusters.len() <= CLUSTERS {
            rows.extend(of_group.into_iter().cloned());
        } else {
            rows.extend(row(&of_group, clusters.len()));
        }
    }
    rows
}

fn row(problems: &[&v1::Problem], clusters: usize) -> Option<v1::Problem> {
    let since = |problem: &v1::Problem| problem.start_time.as_ref().map_or(i64::MAX, to_millis);
    let longest = problems.iter().min_by_key(|problem| (since(problem), &problem.name))?;
    let first = longest.resource.split('/').nth(1).unwrap_or_default();
    let reason = if longest.reason.is_empty() { first.to_owned() } else { format!("{first}: {}", longest.reason) };
    Some(v1::Problem {
        name: format!("problems/{}", longest.code),
        resource: String::new(),
        summary: format!("{}, in {clusters} clusters", longest.summary),
        reason,
        count: problems.iter().fold(0, |sum: u32, problem| sum.saturating_add(problem.count)),
        command: format!("fleetwright fleet problems --filter 'code = \"{}\"'", longest.code),
        ..(*longest).clone()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fleet::encode::from_millis;

    fn problem(cluster: usize, code: &str, since_ms: Option<i64>) -> v1::Problem {
        v1::Problem {
            name: format!("clusters/c{cluster}/problems/{code}"),
            severity: v1::Severity::Critical.into(),
            code: code.to_owned(),
            resource: format!("clusters/c{cluster}"),
            summary: "pods have no place".to_owned(),
            reason: format!("reason {cluster}"),
            start_time: since_ms.map(from_millis),
            count: 2,
            command: "one".to_owned(),
        }
    }

    #[test]
    fn a_problem_of_more_than_ten_clusters_is_one_row_with_the_oldest() {
        let of_ten: Vec<v1::Problem> = (0..10).map(|cluster| problem(cluster, "A", None)).collect();
        assert_eq!(grouped(&of_ten), of_ten);
        let since = |cluster: usize| (cluster == 7).then_some(5_000);
        let of_all: Vec<v1::Problem> = (0..11).map(|cluster| problem(cluster, "A", since(cluster))).collect();
        let expected = v1::Problem {
            name: "problems/A".to_owned(),
            resource: String::new(),
            summary: "pods have no place, in 11 clusters".to_owned(),
            reason: "c7: reason 7".to_owned(),
            count: 22,
            command: "fleetwright fleet problems --filter 'code = \"A\"'".to_owned(),
            ..problem(7, "A", Some(5_000))
        };
        assert_eq!(grouped(&of_all), [expected]);
    }

    #[test]
    fn other_problems_stay_and_eleven_of_one_cluster_are_no_group() {
        let pools = (0..11).map(|pool| v1::Problem {
            name: format!("clusters/c/pools/p{pool}/problems/NodePoolNotReady"),
            resource: format!("clusters/c/pools/p{pool}"),
            ..problem(0, "NodePoolNotReady", None)
        });
        let of_fleet = v1::Problem { resource: String::new(), ..problem(0, "StoreUnavailable", None) };
        let other = problem(1, "B", None);
        let all: Vec<v1::Problem> = pools.chain([of_fleet, other]).collect();
        let names = |rows: &[v1::Problem]| rows.iter().map(|row| row.name.clone()).collect::<BTreeSet<_>>();
        let rows = grouped(&all);
        assert_eq!((names(&rows), rows.len()), (names(&all), 13));
    }
}
