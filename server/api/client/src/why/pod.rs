//! `fleetwright why pod`: why a pod waits, or where it runs.

use clap::Args;
use fleetwright_proto::v1;
use model::PodKey;
use serde::Serialize;

use crate::cluster_names;
use crate::remote::{ServerFlags, rpc_failure, warn_of_outages};
use api_messages::{resource_names as names, to_millis};
use command::escape::escape_unprintable;
use command::exit::{Failure, Status};
use command::output;
use command::rows::{Format, moment};

/// Flags of `why pod`.
#[derive(Debug, Args)]
pub struct PodFlags {
    /// Name of the pod
    pub(crate) pod: String,
    /// Namespace of the pod
    #[arg(short, long, default_value = "default", value_name = "NAME")]
    pub(crate) namespace: String,
    /// Name of the cluster
    #[arg(long, value_name = "NAME", add = cluster_names::completer())]
    pub cluster: String,
    #[command(flatten)]
    pub server: ServerFlags,
    /// Output format
    #[arg(short, long, value_enum, default_value_t = Format::Table)]
    pub output: Format,
}

/// What is printed.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Report {
    cluster: String,
    namespace: String,
    pod: String,
    /// `bound`, `waiting`, `planned` or `unschedulable`.
    state: &'static str,
    at_ms: i64,
    /// The Node that it is bound to, or the Node or NodeClaim that it is planned on.
    #[serde(skip_serializing_if = "String::is_empty")]
    node: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    created_ms: Option<i64>,
    /// Number of the decision that concerned it last.
    #[serde(skip_serializing_if = "String::is_empty")]
    decision: String,
    reasons: Vec<String>,
}

/// Asks the server, and prints its answer.
///
/// # Errors
/// What failed, and its remedy.
pub(super) fn run(flags: &PodFlags) -> Result<Status, Failure> {
    let key = PodKey { namespace: flags.namespace.as_str().into(), name: flags.pod.as_str().into() };
    let request = v1::ExplainPodRequest { name: names::pod(&flags.cluster, &key) };
    let answer = flags.server.ask(async |mut client| {
        let answer = client.explain_pod(request).await.map_err(rpc_failure)?.into_inner();
        warn_of_outages(&mut client).await;
        Ok(answer)
    })?;
    let report = report(flags, answer)?;
    match flags.output {
        Format::Table => output::print_text(&text(&report))?,
        Format::Json => {
            output::print_document(&(serde_json::to_string_pretty(&report).map_err(Failure::internal)? + "\n"))?;
        }
        Format::Yaml => output::print_document(&serde_saphyr::to_string(&report).map_err(Failure::internal)?)?,
    }
    Ok(Status::Done)
}

fn report(flags: &PodFlags, answer: v1::ExplainPodResponse) -> Result<Report, Failure> {
    let report = Report {
        cluster: flags.cluster.clone(),
        namespace: flags.namespace.clone(),
        pod: flags.pod.clone(),
        at_ms: answer.report_time.as_ref().map_or(0, to_millis),
        decision: answer.decision.rsplit('/').next().unwrap_or_default().to_owned(),
        reasons: answer.reasons,
        ..Report::default()
    };
    match answer.pending {
        Some(pod) => {
            let state = match pod.state() {
                v1::PodState::Planned => "planned",
                v1::PodState::Unschedulable => "unschedulable",
                v1::PodState::Waiting | v1::PodState::Unspecified => "waiting",
            };
            let created_ms = pod.create_time.as_ref().map(to_millis);
            Ok(Report { state, node: pod.planned_node, created_ms, ..report })
        }
        None if !answer.node.is_empty() => Ok(Report { state: "bound", node: answer.node, ..report }),
        None => {
            let similar = answer.similar_pod;
            let near = if similar.is_empty() { String::new() } else { format!("; did you mean {similar:?}?") };
            Err(Failure::refused(format!(
                "there is no pod {:?} in namespace {:?} of cluster {:?}{near}",
                flags.pod, flags.namespace, flags.cluster
            )))
        }
    }
}

fn text(report: &Report) -> String {
    let Report { namespace, pod, cluster, state, .. } = report;
    let field = |name: &str, value: &str| format!("  {name:<12} {}\n", escape_unprintable(value));
    let mut text = format!("pod {namespace}/{pod} of cluster {cluster} is {state}\n");
    if let Some(created) = report.created_ms {
        text.push_str(&field("created", &format!("{} UTC", moment(created))));
    }
    if !report.node.is_empty() {
        text.push_str(&field(if report.state == "bound" { "runs on" } else { "planned on" }, &report.node));
    }
    if !report.decision.is_empty() {
        text.push_str(&field("decision", &format!("{} (fleetwright history {0})", report.decision)));
    }
    report.reasons.iter().for_each(|reason| text.push_str(&field("because", reason)));
    text
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        flags: PodFlags,
    }

    fn flags() -> PodFlags {
        Line::try_parse_from(["why", "web-1", "-n", "shop", "--cluster", "prod"]).map(|line| line.flags).unwrap()
    }

    #[test]
    fn a_pod_without_a_place_is_printed_with_every_reason() {
        let pending = v1::Pod { state: v1::PodState::Unschedulable.into(), ..v1::Pod::default() };
        let answer = v1::ExplainPodResponse {
            pending: Some(pending),
            decision: "clusters/prod/decisions/17".to_owned(),
            reasons: vec!["Taints: NodePool gpu has taint gpu=true".to_owned(), "Limits: cpu 64".to_owned()],
            ..v1::ExplainPodResponse::default()
        };
        let expected = "\
pod shop/web-1 of cluster prod is unschedulable
  decision     17 (fleetwright history 17)
  because      Taints: NodePool gpu has taint gpu=true
  because      Limits: cpu 64
";
        assert_eq!(text(&report(&flags(), answer).unwrap()), expected);
    }

    #[test]
    fn a_bound_pod_is_printed_with_its_node_and_an_unknown_one_with_the_nearest_name() {
        let bound = v1::ExplainPodResponse { node: "ip-1".to_owned(), ..v1::ExplainPodResponse::default() };
        let expected = "pod shop/web-1 of cluster prod is bound\n  runs on      ip-1\n";
        assert_eq!(text(&report(&flags(), bound).unwrap()), expected);
        let unknown = v1::ExplainPodResponse { similar_pod: "web-2".to_owned(), ..v1::ExplainPodResponse::default() };
        let refused = report(&flags(), unknown).unwrap_err();
        let expected = "there is no pod \"web-1\" in namespace \"shop\" of cluster \"prod\"; did you mean \"web-2\"?";
        assert_eq!(refused.messages, [expected]);
    }
}
