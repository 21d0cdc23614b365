//! `fleetwright quote`: what pods would need, in each cluster.

use clap::Args;
use fleetwright_proto::v1;
use tonic::Request;

use super::cluster_names;
use super::fleet::cells::usd;
use super::fleet::output_format::message_document;
use super::pod_flags::{PodFlags, counted_pods};
use super::remote::{ServerFlags, rpc_failure};
use api_messages::{enum_values, resource_names as names};
use command::escape::escape_unprintable;
use command::exit::{Failure, Status};
use command::output;
use command::rows::{Format, table};

/// Blockers of a cluster that the table shows.
const BLOCKERS_SHOWN: usize = 3;

/// Names of clusters with equal blockers that it shows.
const CLUSTERS_SHOWN: usize = 5;

/// Quote pods that do not exist yet: in which clusters they fit, what would be launched, the price, the odds of getting it,
/// and the time to ready. Nothing is booked or changed
///
/// The pods are those of manifests (Pod, Deployment, ReplicaSet, StatefulSet, Job, or PodTemplate), or equal ones by --pods, --cpu and
/// --memory. All of them fit in a cluster, or the answer says what would have to give way.
#[derive(Debug, Args)]
#[command(
    after_help = "Exit status: 0 the pods fit in a cluster; 1 they fit in none; 2 the request is refused; 3 internal failure."
)]
pub struct QuoteFlags {
    #[command(flatten)]
    server: ServerFlags,
    #[command(flatten)]
    pods: PodFlags,
    /// Only this cluster; repeatable
    #[arg(short = 'C', long = "cluster", value_name = "NAME", add = cluster_names::completer())]
    clusters: Vec<String>,
    /// Number of clusters to print at most
    #[arg(long, value_name = "NUMBER", default_value_t = 10, value_parser = clap::value_parser!(i32).range(1..=1_000))]
    limit: i32,
    /// Output format
    #[arg(short, long, value_enum, default_value_t = Format::Table)]
    output: Format,
}

/// Runs the command.
///
/// # Errors
/// What failed, and its remedy.
pub fn run(flags: &QuoteFlags) -> Result<Status, Failure> {
    let request = v1::QuoteClustersRequest {
        pod_sets: flags.pods.pod_sets()?,
        clusters: flags.clusters.iter().map(|cluster| names::cluster(cluster)).collect(),
        max_clusters: flags.limit,
    };
    let response = flags.server.ask_capacity(async |mut client| {
        Ok(client.quote_clusters(Request::new(request)).await.map_err(rpc_failure)?.into_inner())
    })?;
    let document =
        message_document("fleetwright.v1.QuoteClustersResponse", &response, flags.output, || text(&response))?;
    output::print_document(&document)?;
    for cluster in &response.unreachable {
        eprintln!("warning: {cluster} is missing: no replica that answers decides for it now");
    }
    let fits = response.quotes.iter().any(|quote| quote.fits);
    Ok(if fits { Status::Done } else { Status::Leftover })
}

fn text(response: &v1::QuoteClustersResponse) -> String {
    let rows: Vec<[String; 7]> = response.quotes.iter().map(row).collect();
    let mut text = table(["CLUSTER", "FITS", "$/HOUR", "ODDS", "READY P50", "P95", "NEW NODES"], rows);
    for (clusters, lines) in blocked(response) {
        let clusters = shown_clusters(&clusters);
        for line in lines {
            text.push_str(&format!("{}: {}\n", escape_unprintable(&clusters), escape_unprintable(&line)));
        }
    }
    text
}

/// Clusters with equal blockers, in the order of the answer, and a line for each blocker.
fn blocked(response: &v1::QuoteClustersResponse) -> Vec<(Vec<&str>, Vec<String>)> {
    let mut groups: Vec<(Vec<&str>, Vec<String>)> = Vec::new();
    for quote in response.quotes.iter().filter(|quote| !quote.fits) {
        let lines: Vec<String> = quote.blockers.iter().take(BLOCKERS_SHOWN).map(blocker).collect();
        match groups.iter_mut().find(|(_, known)| *known == lines) {
            Some((clusters, _)) => clusters.push(cluster(quote)),
            None => groups.push((vec![cluster(quote)], lines)),
        }
    }
    groups
}

/// `a, b, c and 7 more clusters`.
fn shown_clusters(clusters: &[&str]) -> String {
    let shown = clusters.iter().take(CLUSTERS_SHOWN).copied().collect::<Vec<_>>().join(", ");
    match clusters.len().saturating_sub(CLUSTERS_SHOWN) {
        0 => shown,
        1 => format!("{shown} and 1 more cluster"),
        more => format!("{shown} and {more} more clusters"),
    }
}

fn row(quote: &v1::ClusterQuote) -> [String; 7] {
    let name = escape_unprintable(cluster(quote)).into_owned();
    if !quote.fits {
        let none = String::new;
        return [name, "no".to_owned(), none(), none(), none(), none(), none()];
    }
    let seconds = |time: &Option<prost_types::Duration>| {
        time.as_ref().map(|time| format!("{}s", time.seconds)).unwrap_or_default()
    };
    let probability = quote.odds.as_ref().map_or(1.0, |odds| odds.probability);
    [
        name,
        "yes".to_owned(),
        usd(quote.price_micro_usd_per_hour),
        format!("{:.0}%", 100.0 * probability),
        seconds(&quote.ready_p50),
        seconds(&quote.ready_p95),
        new_nodes(quote),
    ]
}

/// `3 × m5.large spot, 1 × c5.xlarge on-demand`, by the cheapest type of each; `none` if existing nodes have room. Nodes that
/// differ in their zones or pods alone are counted together.
fn new_nodes(quote: &v1::ClusterQuote) -> String {
    let mut counts: Vec<(String, i32)> = Vec::new();
    for nodes in &quote.new_nodes {
        let first = nodes.instance_types.first().map(String::as_str).unwrap_or_default();
        let kind = format!("{first} {}", enum_values::capacity_type_label(nodes.capacity_type()));
        match counts.iter_mut().find(|(known, _)| *known == kind) {
            Some((_, count)) => *count = count.saturating_add(nodes.count),
            None => counts.push((kind, nodes.count)),
        }
    }
    let listed: Vec<String> =
        counts.iter().map(|(kind, count)| format!("{count} × {}", escape_unprintable(kind))).collect();
    if listed.is_empty() { "none".to_owned() } else { listed.join(", ") }
}

fn cluster(quote: &v1::ClusterQuote) -> &str {
    quote.cluster.strip_prefix("clusters/").unwrap_or(&quote.cluster)
}

/// The pods without a place, why, and what would make them fit.
fn blocker(blocker: &v1::Blocker) -> String {
    let pods = blocker.pods.as_ref().map(|pods| format!("{}: ", counted_pods(pods))).unwrap_or_default();
    let reasons: Vec<String> = blocker
        .reasons
        .iter()
        .map(|reason| {
            let pool = if reason.pool.is_empty() { String::new() } else { format!("NodePool {}: ", reason.pool) };
            format!("{pool}{}", reason.message)
        })
        .collect();
    // Each is a sentence that begins so.
    let changes = blocker.fits_if.iter().map(|sentence| sentence.strip_prefix("fits if ").unwrap_or(sentence));
    let changes: Vec<&str> = changes.collect();
    let fits_if = if changes.is_empty() { String::new() } else { format!("; fits if {}", changes.join(", or if ")) };
    format!("{pods}{}{fits_if}", reasons.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_has_a_line_for_each_cluster_and_the_blockers_below() {
        let fits = v1::ClusterQuote {
            cluster: "clusters/prod".to_owned(),
            fits: true,
            new_nodes: vec![v1::NewNodes {
                count: 3,
                capacity_type: v1::CapacityType::Spot.into(),
                instance_types: vec!["m5.large".to_owned(), "m5a.large".to_owned()],
                ..Default::default()
            }],
            price_micro_usd_per_hour: 123_456,
            odds: Some(v1::Odds { probability: 0.954, ..Default::default() }),
            ready_p50: Some(prost_types::Duration { seconds: 45, nanos: 0 }),
            ready_p95: Some(prost_types::Duration { seconds: 90, nanos: 0 }),
            ..Default::default()
        };
        let reason = v1::Reason { pool: "gpu".to_owned(), code: "Taints".to_owned(), message: "a taint".to_owned() };
        let blocker = v1::Blocker {
            pods: Some(v1::PodSetCount { pod_set: "web".to_owned(), pods: 2 }),
            reasons: vec![reason],
            fits_if: vec!["fits if it tolerates x".to_owned(), "fits if cpu is at most 2".to_owned()],
        };
        let blocked = |cluster: &str| v1::ClusterQuote {
            cluster: format!("clusters/{cluster}"),
            blockers: vec![blocker.clone()],
            ..Default::default()
        };
        let response =
            v1::QuoteClustersResponse { quotes: vec![fits, blocked("b"), blocked("c")], ..Default::default() };
        let expected = "\
CLUSTER  FITS  $/HOUR  ODDS  READY P50  P95  NEW NODES
prod     yes   0.1235  95%   45s        90s  3 × m5.large spot
b        no
c        no
b, c: 2 pods of web: NodePool gpu: a taint; fits if it tolerates x, or if cpu is at most 2
";
        assert_eq!(text(&response), expected);
    }

    #[test]
    fn what_is_equal_is_said_once() {
        let nodes = |zone: &str, kind: &str| v1::NewNodes {
            count: 1,
            capacity_type: v1::CapacityType::OnDemand.into(),
            instance_types: vec![kind.to_owned()],
            zones: vec![zone.to_owned()],
            ..Default::default()
        };
        let listed = vec![nodes("a", "m5.large"), nodes("b", "c5.large"), nodes("b", "m5.large")];
        let quote = v1::ClusterQuote { new_nodes: listed, ..Default::default() };
        assert_eq!(new_nodes(&quote), "2 × m5.large on-demand, 1 × c5.large on-demand");
        assert_eq!(new_nodes(&v1::ClusterQuote::default()), "none");
        assert_eq!(shown_clusters(&["a", "b", "c", "d", "e", "f", "g"]), "a, b, c, d, e and 2 more clusters");
        assert_eq!(shown_clusters(&["a"]), "a");
    }
}
