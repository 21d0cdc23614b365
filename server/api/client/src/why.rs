//! `fleetwright why node`: why a node is still there, or why it went.

pub mod kubectl;
pub(super) mod pod;
mod removal_history;

use clap::{Args, Subcommand};
use fleetwright_proto::v1;
use serde::Serialize;

use super::archive::ServerArchive;
use super::cluster_names;
use super::remote::{ServerFlags, rpc_failure, warn_of_outages};
use api_messages::{enum_values, resource_names as names, to_millis};
use command::escape::escape_unprintable;
use command::exit::{Failure, Status};
use command::output;
use command::rows::{Format, moment, table};
use command::wording::dollars;
use removal_history::RemovalHistory;

/// Ask a running server why something is as it is
#[derive(Debug, Subcommand)]
pub enum WhyCommand {
    /// Why a node is still there, or why it went
    ///
    /// Of a node that is there, every reason for which it would go is printed with all that holds it: the code, the
    /// object, and what to do. Of a node that went, the decision that removed it is printed, and how to replay it.
    Node(NodeFlags),
    /// Why a pod waits, or where it runs
    ///
    /// Of a pod that waits, it is printed what it waits for, where it is planned, or the reasons of each NodePool. Of one
    /// that is bound, the decision that planned it, as far as the server remembers.
    Pod(pod::PodFlags),
}

/// Flags of `why node`.
#[derive(Debug, Args)]
pub struct NodeFlags {
    /// Name of the Node, or of its NodeClaim
    pub(super) node: String,
    /// Name of the cluster
    #[arg(long, value_name = "NAME", add = cluster_names::completer())]
    pub(super) cluster: String,
    #[command(flatten)]
    pub(super) server: ServerFlags,
    /// Output format
    #[arg(short, long, value_enum, default_value_t = Format::Table)]
    pub(super) output: Format,
}

/// What is printed.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Report {
    cluster: String,
    node: String,
    /// `stays`, `leaves` or `gone`.
    state: &'static str,
    at_ms: i64,
    #[serde(skip_serializing_if = "String::is_empty")]
    node_claim: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pool: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    present: Option<Presence>,
    #[serde(skip_serializing_if = "Option::is_none")]
    departure: Option<RemovalHistory>,
}

/// What is known of a node that is there.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Presence {
    usd_per_hour: f64,
    pods: i32,
    #[serde(skip_serializing_if = "String::is_empty")]
    leaves_because: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    unusable_because: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_ms: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    planned_at_ms: Option<i64>,
    reasons: Vec<Reason>,
    running: Vec<RunningPod>,
}

/// A pod on the node.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct RunningPod {
    namespace: String,
    name: String,
    workload: String,
    daemon_set: bool,
    terminating: bool,
    cpu_millis: i64,
    memory_bytes: i64,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Reason {
    reason: String,
    evidence: String,
    held_by: Vec<HeldBy>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct HeldBy {
    code: String,
    object: String,
    message: String,
    remedy: String,
}

/// Runs the command.
///
/// # Errors
/// What failed, and its remedy.
pub fn run(command: WhyCommand) -> Result<Status, Failure> {
    let flags = match command {
        WhyCommand::Node(flags) => flags,
        WhyCommand::Pod(flags) => return pod::run(&flags),
    };
    let report = flags.server.ask(async |mut client| {
        let request = v1::ExplainNodeRequest { name: names::child(&flags.cluster, "nodes", &flags.node) };
        let answer = client.explain_node(request).await.map_err(rpc_failure)?.into_inner();
        warn_of_outages(&mut client).await;
        report(&flags, answer, &ServerArchive(client)).await
    })?;
    match flags.output {
        Format::Table => output::print_text(&text(&report))?,
        Format::Json => {
            output::print_document(&(serde_json::to_string_pretty(&report).map_err(Failure::internal)? + "\n"))?;
        }
        Format::Yaml => output::print_document(&serde_saphyr::to_string(&report).map_err(Failure::internal)?)?,
    }
    Ok(Status::Done)
}

async fn report(
    flags: &NodeFlags,
    answer: v1::ExplainNodeResponse,
    archive: &ServerArchive,
) -> Result<Report, Failure> {
    let report = Report {
        cluster: flags.cluster.clone(),
        at_ms: answer.report_time.as_ref().map_or(0, to_millis),
        ..Report::default()
    };
    match (answer.present, answer.removed) {
        (Some(present), _) => {
            let leaves = !present.removal_reason.is_empty();
            let departure = match leaves {
                true => removal_history::search(archive, &flags.cluster, &present.node, None).await?,
                false => None,
            };
            let state = if leaves { "leaves" } else { "stays" };
            let (node, node_claim, pool) = (present.node.clone(), present.node_claim.clone(), present.pool.clone());
            Ok(Report { node, state, node_claim, pool, present: Some(presence(present)), departure, ..report })
        }
        (None, removed) => {
            let node = removed.as_ref().map_or_else(|| flags.node.clone(), |removed| removed.node.clone());
            let node_claim = removed.as_ref().map(|removed| removed.node_claim.clone()).unwrap_or_default();
            let found = removal_history::search(archive, &flags.cluster, &node, removed).await?;
            let departure = found.ok_or_else(|| unknown(flags, &answer.similar_node))?;
            Ok(Report { node, state: "gone", node_claim, departure: Some(departure), ..report })
        }
    }
}

fn unknown(flags: &NodeFlags, similar: &str) -> Failure {
    let near = if similar.is_empty() { String::new() } else { format!("; did you mean {similar:?}?") };
    Failure::refused(format!(
        "there is no node {:?} in cluster {:?}, and no decision of the log removed it: it never was there, or something other \
         than Fleetwright removed it before the server was started, or the decision was pruned{near}",
        flags.node, flags.cluster
    ))
}

fn presence(node: v1::PresentNode) -> Presence {
    let held = |block: v1::DisruptionBlock| {
        let v1::DisruptionBlock { code, object, message, remedy } = block;
        HeldBy { code, object, message, remedy }
    };
    let reason = |verdict: v1::NodeVerdict| Reason {
        reason: enum_values::disruption_reason_word(verdict.reason()),
        evidence: verdict.evidence,
        held_by: verdict.blocks.into_iter().map(held).collect(),
    };
    Presence {
        usd_per_hour: dollars(model::MicroUsd(node.price_micro_usd_per_hour)),
        pods: node.pod_count,
        leaves_because: node.removal_reason,
        unusable_because: node.unusable_reason,
        expires_ms: node.expire_time.as_ref().map(to_millis),
        planned_at_ms: node.plan_time.as_ref().map(to_millis),
        reasons: node.verdicts.into_iter().map(reason).collect(),
        running: node.pods.into_iter().map(running).collect(),
    }
}

fn running(pod: v1::NodePod) -> RunningPod {
    let id = |at: usize| pod.name.split('/').nth(at).unwrap_or_default().to_owned();
    RunningPod {
        namespace: id(3),
        name: id(5),
        daemon_set: pod.daemon_set,
        terminating: pod.terminating,
        cpu_millis: pod.cpu_millis,
        memory_bytes: pod.memory_bytes,
        workload: pod.workload,
    }
}

/// A line for each pod on the node; those of DaemonSets last.
fn pods(running: &[RunningPod]) -> String {
    let cells = |pod: &RunningPod| {
        let name = format!("{}/{}", pod.namespace, pod.name);
        let of = if pod.daemon_set { format!("{} (DaemonSet)", pod.workload) } else { pod.workload.clone() };
        let of = if pod.terminating { format!("{of}, terminating") } else { of };
        let (cpu, memory) = (format!("{}m", pod.cpu_millis), format!("{}Mi", pod.memory_bytes >> 20));
        [name, of, cpu, memory].map(|cell| escape_unprintable(&cell).into_owned())
    };
    let (daemons, others): (Vec<&RunningPod>, Vec<&RunningPod>) = running.iter().partition(|pod| pod.daemon_set);
    table(["POD", "OF", "CPU", "MEMORY"], others.into_iter().chain(daemons).map(cells).collect())
}

fn text(report: &Report) -> String {
    let mut lines = vec![format!("node {} of cluster {} {}", report.node, report.cluster, report.state)];
    let field = |name: &str, value: &str| format!("  {name:<12} {}", escape_unprintable(value));
    if !report.node_claim.is_empty() {
        lines.push(field("nodeclaim", &report.node_claim));
    }
    if let Some(present) = &report.present {
        lines.push(field("nodepool", if report.pool.is_empty() { "none" } else { &report.pool }));
        lines.push(field("runs", &format!("{} pods at ${} an hour", present.pods, present.usd_per_hour)));
        lines.extend(present.expires_ms.map(|at| field("expires", &format!("{} UTC", moment(at)))));
        let planned = present.planned_at_ms.map_or_else(|| "never".to_owned(), |at| format!("{} UTC", moment(at)));
        lines.push(field("last plan", &format!("{planned} (of disruption)")));
        if !present.leaves_because.is_empty() {
            lines.push(field("leaves", &present.leaves_because));
        }
        if !present.unusable_because.is_empty() {
            lines.push(field("unusable", &present.unusable_because));
        }
    }
    lines.extend(report.departure.iter().flat_map(RemovalHistory::lines).map(|(name, value)| field(name, &value)));
    let mut text = lines.join("\n") + "\n";
    for reason in report.present.iter().flat_map(|present| &present.reasons) {
        text.push_str(&format!("\nas {}: {}\n", reason.reason, escape_unprintable(&reason.evidence)));
        text.push_str(&blocks(&reason.held_by));
    }
    let running = report.present.as_ref().map(|present| present.running.as_slice()).unwrap_or_default();
    if !running.is_empty() {
        text.push_str(&format!("\npods on it:\n{}", pods(running)));
    }
    text
}

fn blocks(held: &[HeldBy]) -> String {
    if held.is_empty() {
        return "nothing holds it: it goes with the next pass\n".to_owned();
    }
    let cells = |held: &HeldBy| {
        [&held.code, &held.object, &held.message, &held.remedy].map(|cell| escape_unprintable(cell).into_owned())
    };
    table(["CODE", "HELD BY", "WHICH", "WHAT TO DO"], held.iter().map(cells).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(namespace: &str, name: &str, workload: &str, cpu_millis: i64, mebibytes: i64) -> v1::NodePod {
        v1::NodePod {
            name: format!("clusters/blue/namespaces/{namespace}/pods/{name}"),
            workload: workload.to_owned(),
            cpu_millis,
            memory_bytes: mebibytes << 20,
            ..v1::NodePod::default()
        }
    }

    /// What is printed of a node with these pods.
    fn printed(pods: Vec<v1::NodePod>) -> String {
        let node = v1::PresentNode { node: "n-1".to_owned(), pods, ..v1::PresentNode::default() };
        let (cluster, node, present) = ("blue".to_owned(), node.node.clone(), Some(presence(node)));
        text(&Report { cluster, node, state: "stays", present, ..Report::default() })
    }

    #[test]
    fn the_pods_on_a_node_are_printed_with_their_owners_and_requests() {
        let daemon = pod("kube-system", "agent-1", "DaemonSet/agent", 100, 64);
        let ending = pod("shop", "web-1", "ReplicaSet/web", 500, 2048);
        let text = printed(vec![
            v1::NodePod { daemon_set: true, ..daemon },
            pod("shop", "web-0", "ReplicaSet/web", 1500, 128),
            v1::NodePod { terminating: true, ..ending },
        ]);
        let (head, pods) = text.split_once("\npods on it:\n").expect("they are printed");
        assert!(head.starts_with("node n-1 of cluster blue stays\n"), "{head}");
        assert_eq!(
            pods,
            "POD                  OF                           CPU    MEMORY\n\
             shop/web-0           ReplicaSet/web               1500m  128Mi\n\
             shop/web-1           ReplicaSet/web, terminating  500m   2048Mi\n\
             kube-system/agent-1  DaemonSet/agent (DaemonSet)  100m   64Mi\n"
        );
        assert!(!printed(Vec::new()).contains("pods on it"), "an empty node");
    }
}
