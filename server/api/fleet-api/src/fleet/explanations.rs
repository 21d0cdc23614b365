//! Encodes why a node or a pod is where it is.

use controller::node_report::{NodePod, NodeReport, PresentNode, RemovedNode, ReportedNode, Verdict};
use controller::pod_report::{PodDecision, PodReport, ReportedPod};
use fleetwright_proto::v1;
use model::ClusterName;
use model::disruption_plan::Block;
use tonic::Status;

use super::access::Access;
use super::api::FleetApi;
use super::directory::Source;
use super::encode;
use super::lists::unanswered;
use crate::questions::NoAnswer;
use api_messages::{enum_values, resource_names as names};
use settings::suggest::nearest;

impl FleetApi {
    /// Answers a question about a node, or has the replica that decides for its cluster do so.
    pub(super) async fn explain_node_now(
        &self,
        request: v1::ExplainNodeRequest,
        access: &Access,
    ) -> Result<v1::ExplainNodeResponse, Status> {
        let (cluster, node) = names::parse_child(&request.name, "nodes")?;
        match self.source(&cluster, access).await? {
            Source::Own => {
                let report = self.questions.about_node(cluster.clone(), node.clone()).await;
                Ok(node_response(&cluster, report.map_err(|why| no_answer(why, &cluster))?, &node))
            }
            Source::Replica(instance) if !access.part => {
                let mut client = self.replicas.get(&instance, &access.clusters).ok_or_else(|| unanswered(&cluster))?;
                Ok(client.explain_node(request).await?.into_inner())
            }
            Source::Replica(_) | Source::Stored => Err(unanswered(&cluster)),
        }
    }

    /// Answers a question about a pod, or has the replica that decides for its cluster do so.
    pub(super) async fn explain_pod_now(
        &self,
        request: v1::ExplainPodRequest,
        access: &Access,
    ) -> Result<v1::ExplainPodResponse, Status> {
        let (cluster, key) = names::parse_pod(&request.name)?;
        match self.source(&cluster, access).await? {
            Source::Own => {
                let report = self.questions.about_pod(cluster.clone(), key.clone()).await;
                Ok(pod_response(&cluster, report.map_err(|why| no_answer(why, &cluster))?, &key.name))
            }
            Source::Replica(instance) if !access.part => {
                let mut client = self.replicas.get(&instance, &access.clusters).ok_or_else(|| unanswered(&cluster))?;
                Ok(client.explain_pod(request).await?.into_inner())
            }
            Source::Replica(_) | Source::Stored => Err(unanswered(&cluster)),
        }
    }
}

fn no_answer(why: NoAnswer, cluster: &str) -> Status {
    match why {
        NoAnswer::Busy => Status::unavailable(format!("cluster {cluster:?} does not answer at the moment; try again")),
        NoAnswer::NotOwned => unanswered(cluster),
    }
}

fn node_response(cluster: &str, report: NodeReport, asked: &str) -> v1::ExplainNodeResponse {
    let report_time = Some(api_messages::timestamp(report.at));
    let response = v1::ExplainNodeResponse { report_time, ..Default::default() };
    match report.node {
        ReportedNode::Present(node) => {
            v1::ExplainNodeResponse { present: Some(present_node(cluster, *node)), ..response }
        }
        ReportedNode::Removed(node) => v1::ExplainNodeResponse { removed: Some(removed_node(node)), ..response },
        ReportedNode::Unknown(known) => {
            let known = known.into_iter().map(|name| name.to_string());
            v1::ExplainNodeResponse { similar_node: nearest(asked, known).unwrap_or_default(), ..response }
        }
    }
}

fn node_pod(cluster: &str, pod: NodePod) -> v1::NodePod {
    v1::NodePod {
        name: names::pod(cluster, &pod.key),
        workload: pod.workload.to_string(),
        daemon_set: pod.is_daemon,
        terminating: pod.is_terminating,
        cpu_millis: pod.requests.cpu_millis,
        memory_bytes: pod.requests.memory_bytes,
    }
}

fn present_node(cluster: &str, node: PresentNode) -> v1::PresentNode {
    v1::PresentNode {
        node: node.name.to_string(),
        node_claim: node.claim.map(|claim| claim.to_string()).unwrap_or_default(),
        pool: node.pool.map(|pool| pool.to_string()).unwrap_or_default(),
        price_micro_usd_per_hour: node.price.0,
        pod_count: api_messages::number(node.pods),
        removal_reason: node.leaves.map(|why| why.to_string()).unwrap_or_default(),
        verdicts: node.verdicts.into_iter().map(verdict).collect(),
        expire_time: node.expires.map(api_messages::timestamp),
        plan_time: node.planned_at.map(api_messages::timestamp),
        pods: node.running.into_iter().map(|pod| node_pod(cluster, pod)).collect(),
        unusable_reason: node.unusable.map(|why| why.to_string()).unwrap_or_default(),
    }
}

fn verdict(verdict: Verdict) -> v1::NodeVerdict {
    v1::NodeVerdict {
        reason: enum_values::disruption_reason(verdict.reason.as_str()).into(),
        evidence: verdict.evidence.to_string(),
        blocks: verdict.by.into_iter().map(block).collect(),
    }
}

fn block(block: Block) -> v1::DisruptionBlock {
    let Block { code, object, message } = block;
    v1::DisruptionBlock { code: code.as_str().to_owned(), object, message, remedy: code.remedy().to_owned() }
}

fn removed_node(node: RemovedNode) -> v1::RemovedNode {
    v1::RemovedNode {
        node: node.node.to_string(),
        node_claim: node.claim.to_string(),
        remove_time: Some(api_messages::timestamp(node.at)),
        reason: node.reason.map(|why| why.to_string()).unwrap_or_default(),
        external_reason: node.external_reason.map(|why| why.to_string()).unwrap_or_default(),
    }
}

fn pod_response(cluster: &ClusterName, report: PodReport, asked: &str) -> v1::ExplainPodResponse {
    let report_time = Some(api_messages::timestamp(report.at));
    let response = v1::ExplainPodResponse { report_time, ..Default::default() };
    let name = |decision: &PodDecision| names::child(cluster, "decisions", &decision.id.0.to_string());
    let reason =
        |decision: Option<PodDecision>| decision.and_then(|decision| decision.reason).map(|text| text.to_string());
    match report.pod {
        ReportedPod::Bound { node, decision } => v1::ExplainPodResponse {
            node: node.to_string(),
            decision: decision.as_ref().map(name).unwrap_or_default(),
            reasons: reason(decision).into_iter().collect(),
            ..response
        },
        ReportedPod::Pending { pod, reasons, decision } => {
            // NodePools with the same reason say it once.
            let mut said: Vec<String> = Vec::new();
            for reason in pod.outlook.reasons() {
                let reason = format!("{}: {}", reason.code.as_str(), reason.message);
                if !said.contains(&reason) {
                    said.push(reason);
                }
            }
            let waits = reasons.iter().map(ToString::to_string);
            v1::ExplainPodResponse {
                decision: decision.as_ref().map(name).unwrap_or_default(),
                reasons: waits.chain(said).chain(reason(decision)).collect(),
                pending: Some(encode::pod(cluster, &pod)),
                ..response
            }
        }
        ReportedPod::Unknown(known) => {
            let known = known.into_iter().map(|name| name.to_string());
            v1::ExplainPodResponse { similar_pod: nearest(asked, known).unwrap_or_default(), ..response }
        }
    }
}
