//! Encodes why a node is there, or that it went.

use controller::node_report::{NodeReport, PresentNode, RemovedNode, ReportedNode, Verdict};
use fleetwright_proto::v1;
use model::disruption_plan::Hold;
use model::{ClusterName, Timestamp};
use tonic::Status;

use super::operations::unavailable;
use crate::node_questions::{NoReport, NodeQuestions};
use crate::suggest::nearest;
use store::Store;

/// Answers a question about a node.
pub(super) async fn explain(
    store: &dyn Store,
    questions: &NodeQuestions,
    request: v1::ExplainNodeRequest,
) -> Result<v1::ExplainNodeResponse, Status> {
    let v1::ExplainNodeRequest { cluster_name, node_name } = request;
    match questions.ask(ClusterName::from(cluster_name.as_str()), node_name.clone()).await {
        Ok(report) => Ok(response(report, &node_name)),
        Err(NoReport::Busy) => {
            Err(Status::unavailable(format!("cluster {cluster_name:?} does not answer at the moment; try again")))
        }
        Err(NoReport::NotOwned) => Err(not_owned(&cluster_name, store.clusters().await.map_err(unavailable)?)),
    }
}

fn not_owned(cluster: &str, known: Vec<String>) -> Status {
    if known.iter().any(|name| name == cluster) {
        return Status::failed_precondition(format!(
            "this replica does not decide for cluster {cluster:?} now: ask the replica that its agent is connected to, or \
             connect an agent"
        ));
    }
    let near = nearest(cluster, known.into_iter()).map(|near| format!("; did you mean {near:?}?")).unwrap_or_default();
    Status::not_found(format!("there is no cluster {cluster:?}{near}"))
}

fn response(report: NodeReport, asked: &str) -> v1::ExplainNodeResponse {
    let response = v1::ExplainNodeResponse { reported_at_ms: report.at.as_millis(), ..Default::default() };
    match report.node {
        ReportedNode::Present(present) => v1::ExplainNodeResponse { present: Some(message(*present)), ..response },
        ReportedNode::Removed(removed) => v1::ExplainNodeResponse { removed: Some(removed_node(removed)), ..response },
        ReportedNode::Unknown(known) => {
            let known = known.into_iter().map(|name| name.to_string());
            v1::ExplainNodeResponse { similar_name: nearest(asked, known).unwrap_or_default(), ..response }
        }
    }
}

fn message(node: PresentNode) -> v1::PresentNode {
    let millis = |at: Option<Timestamp>| at.map_or(0, Timestamp::as_millis);
    v1::PresentNode {
        name: node.name.to_string(),
        node_claim: node.claim.map(|claim| claim.to_string()).unwrap_or_default(),
        pool: node.pool.map(|pool| pool.to_string()).unwrap_or_default(),
        price_micro_usd: node.price.0,
        pod_count: u32::try_from(node.pods).unwrap_or(u32::MAX),
        leaving_reason: node.leaves.map(|why| why.to_string()).unwrap_or_default(),
        verdicts: node.verdicts.into_iter().map(verdict).collect(),
        expires_ms: millis(node.expires),
        planned_at_ms: millis(node.planned_at),
    }
}

fn verdict(verdict: Verdict) -> v1::NodeVerdict {
    v1::NodeVerdict {
        reason: verdict.reason.to_string(),
        evidence: verdict.evidence.to_string(),
        holds: verdict.by.into_iter().map(hold).collect(),
    }
}

fn hold(hold: Hold) -> v1::NodeHold {
    let Hold { code, object, message } = hold;
    v1::NodeHold { code: code.as_str().to_owned(), object, message, remedy: code.remedy().to_owned() }
}

fn removed_node(node: RemovedNode) -> v1::RemovedNode {
    v1::RemovedNode {
        name: node.node.to_string(),
        node_claim: node.claim.to_string(),
        removed_at_ms: node.at.as_millis(),
        reason: node.reason.map(|why| why.to_string()).unwrap_or_default(),
    }
}
