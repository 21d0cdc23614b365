//! Why a node went: the decision in the log that removed it.

use decision_log::replay::{LogReader, RecordedPlan};
use fleetwright_proto::v1;
use model::disruption_plan::Command;
use model::removal::RemovalReason;
use serde::Serialize;
use store::Archive;
use store::lease::Scope;
use store::log::{DecisionFilter, StoredDecision};

use crate::archive::failed;
use api_messages::to_millis;
use command::exit::Failure;
use command::rows::moment;
use command::wording::{counted, dollars};

/// Number of decisions that are read at once.
const PAGE: u32 = 500;

/// Maximum number of decisions that are searched, latest first.
const SEARCHED: usize = 20_000;

/// Maximum number of plans of disruption that are read for the one that chose the node.
const PLANS_READ: usize = 20;

/// The kind of decisions by consolidation.
const CONSOLIDATION: &str = RemovalReason::Underutilized.kind();

/// Why a node went, or leaves.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct RemovalHistory {
    /// `Fleetwright`, or what is known of whatever else it was.
    removed_by: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    removed_at_ms: Option<i64>,
    reason: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    decision: Option<RemovalDecision>,
    #[serde(skip_serializing_if = "Option::is_none")]
    plan: Option<PlannedRemoval>,
}

/// The decision that removed the node.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct RemovalDecision {
    number: u64,
    at_ms: i64,
    method: String,
    summary: String,
}

/// The plan of disruption that chose the node.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct PlannedRemoval {
    decision: u64,
    at_ms: i64,
    /// Nodes that the command removes together.
    nodes: Vec<String>,
    /// Machines that replace them.
    launched: usize,
    moved_pods: usize,
    savings_usd_per_hour: f64,
    replay: String,
}

/// The departure of `node`: what the server saw of it, and the decision in the log. `None` when neither is known.
///
/// # Errors
/// The log cannot be read.
pub(super) async fn search(
    archive: &dyn Archive,
    cluster: &str,
    node: &str,
    removed: Option<v1::RemovedNode>,
) -> Result<Option<RemovalHistory>, Failure> {
    // A node that something else removed was removed by no decision, whatever decisions about it were not carried out.
    let by_other = removed.as_ref().is_some_and(|removed| removed.reason.is_empty());
    let found = if by_other { None } else { find(archive, cluster, node).await? };
    let Some((decision, reason)) = found else { return Ok(removed.map(without_decision)) };
    let plan = match decision.decision.kind.as_str() {
        CONSOLIDATION => plan_of(archive, cluster, node, decision.decision.number).await?,
        _ => None,
    };
    let row = decision.decision;
    Ok(Some(RemovalHistory {
        removed_by: "Fleetwright".to_owned(),
        removed_at_ms: removed.and_then(|removed| removed.remove_time.as_ref().map(to_millis)),
        reason,
        decision: Some(RemovalDecision {
            number: row.number,
            at_ms: row.decided_at_ms,
            method: row.kind,
            summary: row.summary,
        }),
        plan,
    }))
}

fn without_decision(removed: v1::RemovedNode) -> RemovalHistory {
    let (removed_by, reason) = match (removed.reason.as_str(), removed.external_reason.as_str()) {
        ("", "") => (
            "something else than Fleetwright",
            "its Node, its NodeClaim or its instance was deleted, and Fleetwright was not removing it".to_owned(),
        ),
        ("", external) => {
            ("something else than Fleetwright", format!("{external}, and Fleetwright finished its removal"))
        }
        (reason, _) => ("Fleetwright, without a decision", reason.to_owned()),
    };
    let removed_at_ms = removed.remove_time.as_ref().map(to_millis);
    RemovalHistory { removed_by: removed_by.to_owned(), removed_at_ms, reason, decision: None, plan: None }
}

/// The decisions of `cluster` below `before`, a page at a time.
async fn page(archive: &dyn Archive, cluster: &str, before: Option<u64>) -> Result<Vec<StoredDecision>, Failure> {
    let filter = DecisionFilter { scope: Some(Scope::cluster(cluster)), limit: PAGE, before };
    archive.decisions(&filter).await.map_err(failed)
}

/// The latest decision that removed `node`, and why.
async fn find(archive: &dyn Archive, cluster: &str, node: &str) -> Result<Option<(StoredDecision, String)>, Failure> {
    let (mut before, mut searched) = (None, 0);
    while searched < SEARCHED {
        let decisions = page(archive, cluster, before).await?;
        let Some(last) = decisions.last() else { break };
        (before, searched) = (Some(last.decision.number), searched + decisions.len());
        let removal =
            |stored: StoredDecision| removal_in(&stored.decision.report, node).map(|why| (stored.clone(), why));
        if let Some(found) = decisions.into_iter().find_map(removal) {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

/// Why the decision with this report removes `node`: its line is `<node>: <reason>`.
fn removal_in(report: &str, node: &str) -> Option<String> {
    report.lines().find_map(|line| line.strip_prefix(node)?.strip_prefix(": ")).map(str::to_owned)
}

/// The command of the plan that chose `node`, at or before the decision `number`.
async fn plan_of(
    archive: &dyn Archive,
    cluster: &str,
    node: &str,
    number: u64,
) -> Result<Option<PlannedRemoval>, Failure> {
    let (mut reader, mut read, mut before) = (LogReader::new(archive), 0, Some(number.saturating_add(1)));
    while read < PLANS_READ {
        let decisions = page(archive, cluster, before).await?;
        let Some(last) = decisions.last() else { break };
        before = Some(last.decision.number);
        let planned =
            decisions.into_iter().filter(|one| one.decision.kind == CONSOLIDATION && one.decision.replay.is_some());
        for stored in planned {
            read += 1;
            // What was pruned or changed is not shown; `replay` says so.
            let Ok(recorded) = reader.load(stored).await else { continue };
            let RecordedPlan::Disruption { answer, .. } = &recorded.planned else { continue };
            let name = |at: &u32| recorded.input.nodes.get(*at as usize).map(|node| node.name.to_string());
            let names = |command: &Command| command.nodes.iter().filter_map(name).collect::<Vec<String>>();
            let chosen = answer.commands.iter().find(|command| names(command).iter().any(|name| name == node));
            if let Some(command) = chosen {
                return Ok(Some(planned_removal(&recorded.stored, command, names(command))));
            }
        }
    }
    Ok(None)
}

fn planned_removal(stored: &StoredDecision, command: &Command, nodes: Vec<String>) -> PlannedRemoval {
    let number = stored.decision.number;
    PlannedRemoval {
        decision: number,
        at_ms: stored.decision.decided_at_ms,
        nodes,
        launched: command.replacements.len(),
        moved_pods: command.placements.len(),
        savings_usd_per_hour: dollars(command.savings),
        replay: format!("fleetwright replay {number}"),
    }
}

impl RemovalHistory {
    /// Names and values for people.
    pub(super) fn lines(&self) -> Vec<(&'static str, String)> {
        let mut lines = vec![("removed by", self.removed_by.clone())];
        lines.extend(self.removed_at_ms.map(|at| ("removed at", format!("{} UTC", moment(at)))));
        lines.push(("because", self.reason.clone()));
        if let Some(decision) = &self.decision {
            let RemovalDecision { number, at_ms, method, summary } = decision;
            lines.push(("decision", format!("{number} ({method}) at {} UTC: {summary}", moment(*at_ms))));
            if self.plan.is_none() {
                lines.push(("more", format!("fleetwright history {number}")));
            }
        }
        if let Some(plan) = &self.plan {
            let PlannedRemoval { nodes, launched, moved_pods, savings_usd_per_hour, .. } = plan;
            let command = format!(
                "removes {}, launches {}, moves {} and saves ${savings_usd_per_hour} an hour",
                nodes.join(", "),
                counted(*launched, "node", "nodes"),
                counted(*moved_pods, "pod", "pods"),
            );
            lines.push(("plan", format!("decision {} at {} UTC: {command}", plan.decision, moment(plan.at_ms))));
            lines.push(("replay", plan.replay.clone()));
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use api_messages::from_millis;

    #[test]
    fn the_line_of_a_node_is_its_own_and_no_other_ones() {
        let report = "n-10: not needed\nwould remove n-1 (m1): not needed\nn-1: it is empty: no pods\nx is unschedulable: n-1: y";
        assert_eq!(removal_in(report, "n-1").as_deref(), Some("it is empty: no pods"));
        assert_eq!(removal_in(report, "n-10").as_deref(), Some("not needed"));
        assert_eq!((removal_in(report, "n"), removal_in("", "n-1")), (None, None));
    }

    #[test]
    fn a_node_that_something_else_removed_is_said_to_be() {
        let removed =
            v1::RemovedNode { node: "n-1".to_owned(), remove_time: Some(from_millis(5)), ..v1::RemovedNode::default() };
        let departure = without_decision(removed.clone());
        assert_eq!(
            (departure.removed_by.as_str(), departure.removed_at_ms),
            ("something else than Fleetwright", Some(5))
        );
        let timed_out = v1::RemovedNode { reason: "the node did not register within 15 minutes".to_owned(), ..removed };
        assert_eq!(without_decision(timed_out).reason, "the node did not register within 15 minutes");
    }

    #[test]
    fn a_node_that_was_deleted_by_hand_is_said_to_be_drained_by_fleetwright() {
        let external_reason = "the NodeClaim or its Node was deleted in the cluster".to_owned();
        let departure = without_decision(v1::RemovedNode { external_reason, ..v1::RemovedNode::default() });
        assert_eq!(departure.removed_by, "something else than Fleetwright");
        assert_eq!(
            departure.reason,
            "the NodeClaim or its Node was deleted in the cluster, and Fleetwright finished its removal"
        );
    }
}
