//! Causes with what follows from them, and the same problem of several resources as one row: an operator who is called at night
//! reads causes, not a thousand lines.

use std::collections::{BTreeMap, BTreeSet};

use fleetwright_proto::v1;

use super::problem_causes::Causes;
use api_messages::to_millis;

/// What is the same of problems in one group. Freezes are the same while their reason is.
type Group<'p> = (&'p str, &'p str, &'p str);

/// The problems with one row for each cause, and one for each problem that several resources have. A row of several has the reason
/// of the one that has it longest, and the command that lists all of them. A cause is as bad as the worst that follows from it.
/// `region_of` tells the account and region of a cluster, as problems name them.
pub(super) fn grouped(problems: &[v1::Problem], region_of: impl Fn(&str) -> String) -> Vec<v1::Problem> {
    let causes = Causes::of(problems, region_of);
    let mut effects: BTreeMap<usize, Vec<&v1::Problem>> = BTreeMap::new();
    let mut roots = Vec::new();
    for (index, problem) in problems.iter().enumerate() {
        match causes.root(index) {
            Some(root) => effects.entry(root).or_default().push(problem),
            None => roots.push(index),
        }
    }
    let mut groups: BTreeMap<Group<'_>, Vec<usize>> = BTreeMap::new();
    for index in roots {
        groups.entry(group_of(&problems[index])).or_default().push(index);
    }
    let rows = groups.into_values().filter_map(|members| {
        let followed: Vec<&v1::Problem> =
            members.iter().filter_map(|index| effects.get(index)).flatten().copied().collect();
        let of_group: Vec<&v1::Problem> = members.iter().map(|index| &problems[*index]).collect();
        let row = row(&of_group)?;
        let severity = followed.iter().map(|effect| effect.severity).max().unwrap_or_default().max(row.severity);
        Some(v1::Problem { severity, effects: sentences(&followed), ..row })
    });
    rows.collect()
}

fn group_of(problem: &v1::Problem) -> Group<'_> {
    match &*problem.code {
        // Each of the fleet is a problem of its own.
        _ if problem.resource.is_empty() => ("", "", &problem.name),
        "Frozen" => (&problem.code, &problem.summary, &problem.reason),
        code => (code, &problem.summary, ""),
    }
}

/// The one problem, or the row of several.
fn row(problems: &[&v1::Problem]) -> Option<v1::Problem> {
    if let [only] = problems {
        return Some((*only).clone());
    }
    let since = |problem: &v1::Problem| problem.start_time.as_ref().map_or(i64::MAX, to_millis);
    let longest = problems.iter().min_by_key(|problem| (since(problem), &problem.name))?;
    let clusters = clusters_of(problems);
    let parent = match clusters.first() {
        Some(cluster) if clusters.len() == 1 => format!("clusters/{cluster}"),
        _ => String::new(),
    };
    let of = if parent.is_empty() { String::new() } else { format!("{parent}/") };
    let first = longest.resource.strip_prefix(&of).unwrap_or(&longest.resource).trim_start_matches("clusters/");
    let reason = if longest.reason.is_empty() { first.to_owned() } else { format!("{first}: {}", longest.reason) };
    let total = |read: fn(&v1::Problem) -> i64| problems.iter().map(|problem| read(problem)).sum::<i64>();
    Some(v1::Problem {
        name: format!("{of}problems/{}", longest.name.rsplit('/').next().unwrap_or_default()),
        severity: problems.iter().map(|problem| problem.severity).max().unwrap_or_default(),
        resource: parent,
        summary: format!("{}, {}", longest.summary, extent(problems, clusters.len())),
        reason,
        count: total(|problem| i64::from(problem.count)).try_into().unwrap_or_default(),
        price_micro_usd_per_hour: total(|problem| problem.price_micro_usd_per_hour),
        end_time: problems.iter().filter_map(|problem| problem.end_time).max_by_key(to_millis),
        command: format!("fleetwright fleet problems --filter 'code = \"{}\"'", longest.code),
        ..(*longest).clone()
    })
}

fn clusters_of<'p>(problems: &[&'p v1::Problem]) -> BTreeSet<&'p str> {
    problems.iter().filter_map(|problem| problem.resource.split('/').nth(1)).collect()
}

fn extent(problems: &[&v1::Problem], clusters: usize) -> String {
    let pools = problems.iter().filter(|problem| problem.resource.split('/').nth(2) == Some("pools")).count();
    match (pools, clusters) {
        (0, clusters) => format!("in {clusters} clusters"),
        (pools, 1) => format!("for {pools} NodePools"),
        (pools, clusters) => format!("for {pools} NodePools of {clusters} clusters"),
    }
}

/// What follows from a cause: a sentence for each kind of problem, the worst first.
fn sentences(effects: &[&v1::Problem]) -> Vec<String> {
    let mut kinds: BTreeMap<(std::cmp::Reverse<i32>, &str, &str), Vec<&v1::Problem>> = BTreeMap::new();
    for effect in effects {
        kinds.entry((std::cmp::Reverse(effect.severity), &effect.code, &effect.summary)).or_default().push(effect);
    }
    let sentence = |of_kind: Vec<&v1::Problem>| {
        let row = row(&of_kind)?;
        let count = if row.count == 0 { String::new() } else { format!("{} ", row.count) };
        let resource = match &of_kind[..] {
            [only] if !only.resource.is_empty() => format!(" ({})", only.resource.trim_start_matches("clusters/")),
            _ => String::new(),
        };
        Some(format!("{count}{}{resource}", row.summary))
    };
    kinds.into_values().filter_map(sentence).collect()
}

#[cfg(test)]
mod tests;
