//! `fleetwright hold`, `commit` and `release`: room for pods that do not exist yet.

use std::time::Duration;

use clap::{Args, ValueEnum};
use fleetwright_proto::v1;
use tonic::Request;

use super::cluster_names;
use super::fleet::cells::{lower, usd};
use super::fleet::output_format::message_document;
use super::pod_flags::{PodFlags, counted_pods};
use super::remote::{ServerFlags, rpc_failure};
use api_messages::{resource_names as names, to_millis};
use command::escape::escape_unprintable;
use command::exit::{Failure, Status};
use command::output;
use command::rows::{Format, moment};

/// Interval at which `--wait` looks.
const POLL: Duration = Duration::from_millis(500);

/// Hold room for pods that do not exist yet: all of it, or none
///
/// The pods are those of manifests, or equal ones by --pods, --cpu and --memory. The hold is durable when the command returns,
/// and its room is there when it is active; without `fleetwright commit` it ends after the time of --for. Pods take its room by
/// the label, the node selector and the toleration that are printed.
#[derive(Debug, Args)]
#[command(
    after_help = "Exit status: 0 the hold was created, with --wait also that it is active; 1 it ended while waiting; 2 the request is \
                        refused; 3 internal failure."
)]
pub struct HoldFlags {
    #[command(flatten)]
    server: ServerFlags,
    #[command(flatten)]
    pods: PodFlags,
    /// The cluster [default: the one with the best quote]
    #[arg(short = 'C', long, value_name = "NAME", add = cluster_names::completer())]
    cluster: Option<String>,
    /// What is held
    #[arg(long, value_enum, default_value_t = Kind::Dedicated)]
    kind: Kind,
    /// How long the hold lasts unless it is committed
    #[arg(long = "for", value_name = "DURATION", default_value = "10m", value_parser = command::duration::parse_duration_flag)]
    ttl: Duration,
    /// Price of the nodes that are launched at most, in dollars per hour
    #[arg(long, value_name = "DOLLARS")]
    max_price: Option<f64>,
    /// UUID of the request: repeating the command with it holds once
    #[arg(long, value_name = "UUID", default_value = "", hide_default_value = true)]
    request_id: String,
    /// Run every check, and hold nothing
    #[arg(long)]
    validate_only: bool,
    /// Wait until the room is there, or the hold has ended
    #[arg(long, conflicts_with = "validate_only")]
    wait: bool,
    /// Output format
    #[arg(short, long, value_enum, default_value_t = Format::Table)]
    output: Format,
}

/// What is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Kind {
    /// Nodes of its own, which only pods of the hold tolerate
    Dedicated,
    /// Room on any node, which kube-scheduler may give away; it is booked again then
    Shared,
}

/// End the expiry of an active hold: it lasts until it is released
#[derive(Debug, Args)]
pub struct CommitFlags {
    #[command(flatten)]
    hold: NamedHold,
}

/// End a hold: its nodes are removed once no pod is left on them
#[derive(Debug, Args)]
pub struct ReleaseFlags {
    #[command(flatten)]
    hold: NamedHold,
}

/// One of the holds.
#[derive(Debug, Args)]
struct NamedHold {
    #[command(flatten)]
    server: ServerFlags,
    /// Name of the hold, such as clusters/prod/holds/h-0123456789abcdef
    name: String,
    /// Etag of the hold that is meant; another one is refused
    #[arg(long, value_name = "ETAG", default_value = "", hide_default_value = true)]
    etag: String,
    /// Run every check, and change nothing
    #[arg(long)]
    validate_only: bool,
    /// Output format
    #[arg(short, long, value_enum, default_value_t = Format::Table)]
    output: Format,
}

/// Runs `fleetwright hold`.
///
/// # Errors
/// What failed, and its remedy.
pub fn run(flags: &HoldFlags) -> Result<Status, Failure> {
    let max_price = match flags.max_price {
        None => 0,
        Some(usd) if usd > 0.0 && usd < 1e9 => (usd * 1e6).round() as i64,
        Some(usd) => return Err(Failure::refused(format!("--max-price {usd}: give more than 0 dollars per hour"))),
    };
    let kind = match flags.kind {
        Kind::Dedicated => v1::HoldKind::Dedicated,
        Kind::Shared => v1::HoldKind::Shared,
    };
    let hold = v1::Hold {
        pod_sets: flags.pods.pod_sets()?,
        kind: kind.into(),
        ttl: flags.ttl.try_into().ok(),
        max_price_micro_usd_per_hour: max_price,
        ..v1::Hold::default()
    };
    let request = v1::CreateHoldRequest {
        parent: names::cluster(flags.cluster.as_deref().unwrap_or("-")),
        hold: Some(hold),
        clusters: Vec::new(),
        request_id: flags.request_id.clone(),
        validate_only: flags.validate_only,
    };
    let created = flags.server.ask_capacity(async |mut client| {
        Ok(client.create_hold(Request::new(request)).await.map_err(rpc_failure)?.into_inner())
    })?;
    let hold = if flags.wait { wait(&flags.server, created)? } else { created };
    print(&hold, flags.output)?;
    let is_over = flags.wait && !matches!(hold.state(), v1::HoldState::Active | v1::HoldState::Committed);
    Ok(if is_over { Status::Leftover } else { Status::Done })
}

/// Runs `fleetwright commit`.
///
/// # Errors
/// What failed, and its remedy.
pub fn commit(flags: &CommitFlags) -> Result<Status, Failure> {
    let NamedHold { server, name, etag, validate_only, output } = &flags.hold;
    let request = v1::CommitHoldRequest { name: name.clone(), etag: etag.clone(), validate_only: *validate_only };
    let hold = server.ask_capacity(async |mut client| {
        Ok(client.commit_hold(Request::new(request)).await.map_err(rpc_failure)?.into_inner())
    })?;
    print(&hold, *output)?;
    Ok(Status::Done)
}

/// Runs `fleetwright release`.
///
/// # Errors
/// What failed, and its remedy.
pub fn release(flags: &ReleaseFlags) -> Result<Status, Failure> {
    let NamedHold { server, name, etag, validate_only, output } = &flags.hold;
    let request = v1::ReleaseHoldRequest { name: name.clone(), etag: etag.clone(), validate_only: *validate_only };
    let hold = server.ask_capacity(async |mut client| {
        Ok(client.release_hold(Request::new(request)).await.map_err(rpc_failure)?.into_inner())
    })?;
    print(&hold, *output)?;
    Ok(Status::Done)
}

/// The hold once it is active or has ended. What it waits for is told when it changes.
fn wait(server: &ServerFlags, created: v1::Hold) -> Result<v1::Hold, Failure> {
    server.ask(async |mut client| {
        let mut hold = created;
        while hold.state() == v1::HoldState::Pending {
            tokio::time::sleep(POLL).await;
            let request = v1::GetHoldRequest { name: hold.name.clone() };
            let next = client.get_hold(request).await.map_err(rpc_failure)?.into_inner();
            if next.message != hold.message && !next.message.is_empty() {
                eprintln!("{}", escape_unprintable(&next.message));
            }
            hold = next;
        }
        Ok(hold)
    })
}

fn print(hold: &v1::Hold, format: Format) -> Result<(), Failure> {
    output::print_document(&message_document("fleetwright.v1.Hold", hold, format, || text(hold))?)
}

/// A line for each thing that the holder needs to know.
fn text(hold: &v1::Hold) -> String {
    let name = if hold.name.is_empty() { "the hold would be created" } else { &hold.name };
    let why = if hold.message.is_empty() { String::new() } else { format!(": {}", hold.message) };
    let mut lines = vec![format!("{name} ({}){why}", lower(hold.state().as_str_name(), "HOLD_STATE_"))];
    if let Some(expires) = &hold.expire_time {
        lines.push(format!("expires {} UTC unless it is committed", moment(to_millis(expires))));
    }
    for node in &hold.nodes {
        let pods: Vec<String> = node.pods.iter().map(counted_pods).collect();
        lines.push(format!("node {}: {}", node.node, pods.join(", ")));
    }
    if hold.price_micro_usd_per_hour > 0 {
        lines.push(format!("its nodes cost ${} an hour", usd(hold.price_micro_usd_per_hour)));
    }
    for (key, value) in &hold.pod_labels {
        lines.push(format!("label of its pods: {key}={value}"));
    }
    for (key, value) in &hold.node_selector {
        lines.push(format!("nodeSelector of its pods: {key}={value}"));
    }
    for v1::HoldToleration { key, operator, value, effect } in &hold.tolerations {
        lines.push(format!(
            "toleration of its pods: {{key: {key}, operator: {operator}, value: {value}, effect: {effect}}}"
        ));
    }
    lines.iter().map(|line| format!("{}\n", escape_unprintable(line))).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    #[test]
    fn the_text_says_what_the_holder_needs_and_no_more() {
        let label = || HashMap::from([("fleetwright.dev/hold".to_owned(), "h-1".to_owned())]);
        let hold = v1::Hold {
            name: "clusters/prod/holds/h-1".to_owned(),
            state: v1::HoldState::Active.into(),
            expire_time: Some(prost_types::Timestamp { seconds: 1_764_201_600, nanos: 0 }),
            nodes: vec![v1::ExistingNodePods {
                node: "general-1".to_owned(),
                pods: vec![v1::PodSetCount { pod_set: "workers".to_owned(), pods: 4 }],
            }],
            price_micro_usd_per_hour: 192_000,
            pod_labels: label(),
            node_selector: label(),
            ..v1::Hold::default()
        };
        let expected = "\
clusters/prod/holds/h-1 (active)
expires 2025-11-27 00:00:00 UTC unless it is committed
node general-1: 4 pods of workers
its nodes cost $0.1920 an hour
label of its pods: fleetwright.dev/hold=h-1
nodeSelector of its pods: fleetwright.dev/hold=h-1
";
        assert_eq!(text(&hold), expected);
        let shared = v1::Hold { message: "2 of 4 pods have no room yet".to_owned(), ..v1::Hold::default() };
        let line = "the hold would be created (unspecified): 2 of 4 pods have no room yet\n";
        assert_eq!(text(&shared), line);
    }
}
