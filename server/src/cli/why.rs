//! `fleetwright why node`: why a node is still there, or why it went.

mod departure;
pub mod kubectl;
pub(super) mod pod;

use clap::{Args, Subcommand};
use fleetwright_proto::v1;
use serde::Serialize;

use super::archive::ServerArchive;
use super::cluster_names;
use super::exit::{Failure, Status};
use super::history::dollars;
use super::output;
use super::remote::{Format, ServerFlags, moment, rpc_failure, table};
use crate::escape::escape_unprintable;
use crate::fleet::encode::to_millis;
use crate::fleet::resource_names as names;
use departure::Departure;

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
    departure: Option<Departure>,
}

/// What is known of a node that is there.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Presence {
    usd_per_hour: f64,
    pods: u32,
    #[serde(skip_serializing_if = "String::is_empty")]
    leaves_because: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_ms: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    planned_at_ms: Option<i64>,
    reasons: Vec<Reason>,
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
                true => departure::search(archive, &flags.cluster, &present.node, None).await?,
                false => None,
            };
            let state = if leaves { "leaves" } else { "stays" };
            let (node, node_claim, pool) = (present.node.clone(), present.node_claim.clone(), present.pool.clone());
            Ok(Report { node, state, node_claim, pool, present: Some(presence(present)), departure, ..report })
        }
        (None, removed) => {
            let node = removed.as_ref().map_or_else(|| flags.node.clone(), |removed| removed.node.clone());
            let node_claim = removed.as_ref().map(|removed| removed.node_claim.clone()).unwrap_or_default();
            let found = departure::search(archive, &flags.cluster, &node, removed).await?;
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
        reason: verdict.reason,
        evidence: verdict.evidence,
        held_by: verdict.blocks.into_iter().map(held).collect(),
    };
    Presence {
        usd_per_hour: dollars(model::MicroUsd(node.price_micro_usd_per_hour)),
        pods: node.pod_count,
        leaves_because: node.removal_reason,
        expires_ms: node.expire_time.as_ref().map(to_millis),
        planned_at_ms: node.plan_time.as_ref().map(to_millis),
        reasons: node.verdicts.into_iter().map(reason).collect(),
    }
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
    }
    lines.extend(report.departure.iter().flat_map(Departure::lines).map(|(name, value)| field(name, &value)));
    let mut text = lines.join("\n") + "\n";
    for reason in report.present.iter().flat_map(|present| &present.reasons) {
        text.push_str(&format!("\nas {}: {}\n", reason.reason, escape_unprintable(&reason.evidence)));
        text.push_str(&blocks(&reason.held_by));
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
