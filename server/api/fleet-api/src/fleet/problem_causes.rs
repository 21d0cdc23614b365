//! Which problem follows from which other one. A problem has at most one cause, and each of its causes comes before it in the order of
//! [`RANKS`]: so there is no circle. An effect does not begin before its cause, but for what names its cause.

use std::collections::BTreeMap;

use fleetwright_proto::v1;

use api_messages::to_millis;

/// Codes of problems from which others follow, causes of causes first.
const RANKS: [&str; 15] = [
    "StoreUnavailable",
    "LeasesNotRenewed",
    "CloudUnavailable",
    "CloudCredentialsRefused",
    "CloudActionDenied",
    "ReplicaUnreachable",
    "Frozen",
    "NoOwner",
    "AgentDisconnected",
    "Quarantined",
    "NotSynced",
    "CircuitBreakerOpen",
    "ListingRejected",
    "LaunchesBlocked",
    "NodePoolNotReady",
];

/// What of the cloud itself follows when it does not answer.
const OF_CLOUD_ITSELF: [&str; 4] = ["ListingOld", "QueueUnavailable", "CatalogueOld", "CloudActionDenied"];

/// What follows in the clusters of an account and region whose cloud does not answer.
const OF_CLOUD: [&str; 8] = [
    "PodsWaitForNode",
    "PodsWaitForPlan",
    "LaunchBackoff",
    "CircuitBreakerOpen",
    "ListingRejected",
    "RemovalsWaiting",
    "NodePoolNotReady",
    "PodsUnschedulable",
];

/// What follows in a cluster for which nothing is decided.
const OF_NO_DECISIONS: [&str; 5] =
    ["PodsWaitForNode", "PodsWaitForPlan", "PodsUnschedulable", "LaunchBackoff", "RemovalsWaiting"];

/// How much earlier than its cause an effect may be noticed: each is checked every few seconds.
const SLACK_MS: i64 = 30_000;

/// The cause of each problem, by their places.
pub(super) struct Causes(Vec<Option<usize>>);

impl Causes {
    /// `region_of` tells the account and region of a cluster, as problems name them.
    pub(super) fn of(problems: &[v1::Problem], region_of: impl Fn(&str) -> String) -> Self {
        let mut by_cluster: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for (index, problem) in problems.iter().enumerate().filter(|(_, problem)| rank(problem).is_some()) {
            by_cluster.entry(cluster_of(problem)).or_default().push(index);
        }
        for causes in by_cluster.values_mut() {
            causes.sort_by_key(|index| rank(&problems[*index]));
        }
        let none = Vec::new();
        let cause = |effect: &v1::Problem| {
            let cluster = cluster_of(effect);
            let of_fleet = by_cluster.get("").unwrap_or(&none);
            let own = if cluster.is_empty() { &none } else { by_cluster.get(cluster).unwrap_or(&none) };
            let follows = |index: &&usize| {
                let cause = &problems[**index];
                let is_before = rank(effect).is_none_or(|of_effect| rank(cause) < Some(of_effect));
                is_before && follows(cause, effect, &region_of)
            };
            of_fleet.iter().chain(own).find(follows).copied()
        };
        Self(problems.iter().map(cause).collect())
    }

    /// The first cause of the problem at this place; `None` if it follows from none.
    pub(super) fn root(&self, index: usize) -> Option<usize> {
        // Ranks grow from cause to effect, so this ends.
        let mut root = (*self.0.get(index)?)?;
        while let Some(Some(cause)) = self.0.get(root) {
            root = *cause;
        }
        Some(root)
    }
}

fn rank(problem: &v1::Problem) -> Option<usize> {
    RANKS.iter().position(|code| *code == problem.code)
}

/// The cluster of a problem; empty for one of the fleet.
fn cluster_of(problem: &v1::Problem) -> &str {
    problem.resource.split('/').nth(1).unwrap_or_default()
}

fn kind_of(problem: &v1::Problem) -> &str {
    problem.code.split('.').next().unwrap_or_default()
}

/// Whether the problem began when the cause was there.
fn began_after(cause: &v1::Problem, effect: &v1::Problem) -> bool {
    let (cause, effect) = (cause.start_time.as_ref().map(to_millis), effect.start_time.as_ref().map(to_millis));
    cause.zip(effect).is_none_or(|(cause, effect)| effect + SLACK_MS >= cause)
}

/// Whether the effect says the reason of its cause.
fn names(effect: &v1::Problem, reason: &str) -> bool {
    !reason.is_empty() && effect.reason.contains(reason)
}

fn follows(cause: &v1::Problem, effect: &v1::Problem, region_of: &impl Fn(&str) -> String) -> bool {
    let kind = kind_of(effect);
    match &*cause.code {
        "StoreUnavailable" | "LeasesNotRenewed" => {
            let is_of_store = ["LeasesNotRenewed", "NoOwner", "NotSynced"].contains(&kind);
            (is_of_store || OF_NO_DECISIONS.contains(&kind)) && began_after(cause, effect)
        }
        "CloudUnavailable" | "CloudCredentialsRefused" => {
            let is_there = match cluster_of(effect) {
                "" => OF_CLOUD_ITSELF.contains(&kind) && is_of_region(effect, place(cause)),
                cluster => OF_CLOUD.contains(&kind) && region_of(cluster) == place(cause),
            };
            is_there && began_after(cause, effect)
        }
        "CloudActionDenied" => {
            let is_there = match cluster_of(effect) {
                "" => kind == "ListingOld" && is_of_region(cause, place(effect)),
                cluster => OF_CLOUD.contains(&kind) && is_of_region(cause, &region_of(cluster)),
            };
            is_there && began_after(cause, effect)
        }
        "ReplicaUnreachable" => kind == "NoOwner" && began_after(cause, effect),
        // What a freeze stops says which one stops it.
        "Frozen" => cause.name.rsplit('.').next().is_some_and(|id| names(effect, &format!("(freeze {id})"))),
        "NoOwner" | "AgentDisconnected" | "Quarantined" | "NotSynced" => {
            OF_NO_DECISIONS.contains(&kind) && began_after(cause, effect)
        }
        "CircuitBreakerOpen" => ["RemovalsBlocked", "RemovalsWaiting"].contains(&kind) && names(effect, &cause.reason),
        "ListingRejected" => kind == "RemovalsWaiting" && names(effect, &cause.reason),
        "LaunchesBlocked" => kind == "PodsUnschedulable" && names(effect, &cause.reason),
        "NodePoolNotReady" => kind == "PodsUnschedulable" && names(effect, &cause.reason),
        _ => false,
    }
}

/// What follows its code in the name of a problem of the fleet: account, region, and what part of the cloud it is about.
fn place(problem: &v1::Problem) -> &str {
    problem.name.split_once('.').map(|(_, place)| place).unwrap_or_default()
}

/// Whether a problem of the fleet is about this account and region.
pub(super) fn is_of_region(problem: &v1::Problem, region: &str) -> bool {
    let place = place(problem);
    place == region || place.strip_prefix(region).is_some_and(|part| part.starts_with('.'))
}

#[cfg(test)]
mod tests;
