//! Options of a load run.

use std::net::SocketAddr;
use std::time::Duration;

use clap::Args;
use command::duration::parse_duration_flag;

/// Connect many simulated clusters to a server and measure its resource usage
///
/// Every cluster starts with nodes full of pods; once per period a burst of pods arrives that fits
/// nowhere, and ends after half of it. Without --target everything is started here: a PostgreSQL, a
/// simulated cloud, a server; after the measurement the server is killed and restarted, a second
/// replica joins, and one of the two is killed, then shut down. Latencies are the server's own
/// metrics: from the end of a batch window to the decision, and to the instruction after the
/// decision is persisted. Each phase is reported when it ends: on standard output as a table, on
/// standard error when the result is JSON. Exit status 1 means that at the end a cluster has no
/// lease holder, a pod of a burst does not run, or an instance was launched twice by the cloud's
/// ledger.
#[derive(Debug, Clone, Default, Args)]
pub struct Plan {
    /// Number of clusters
    #[arg(long, default_value_t = 1_000)]
    pub clusters: usize,
    /// Nodes per cluster
    #[arg(long, default_value_t = 100)]
    pub nodes: usize,
    /// Running pods per cluster
    #[arg(long, default_value_t = 2_000)]
    pub pods: usize,
    /// Pods per burst and cluster
    #[arg(long, default_value_t = 10)]
    pub burst: usize,
    /// Time between two bursts of a cluster; those of different clusters are spread evenly
    #[arg(long, default_value = "60s", value_name = "DURATION", value_parser = parse_duration_flag)]
    pub period: Duration,
    /// Address of a running server, as http://host:port; it is not restarted
    #[arg(long, value_name = "URL", requires = "page")]
    pub target: Option<String>,
    /// Address of that server's metrics, as host:port; given once for each replica behind --target
    #[arg(long, value_name = "ADDRESS", requires = "target")]
    pub page: Vec<SocketAddr>,
    /// Address of that server's simulated cloud, as http://host:port; without it, that cloud has no instances of the
    /// nodes that clusters start with
    #[arg(long, value_name = "URL", requires = "target")]
    pub cloud_address: Option<String>,
    /// Process id of that server on this host, for its memory and CPU time; given once for each replica
    #[arg(long, value_name = "PID", requires = "target")]
    pub server_pid: Vec<u32>,
    /// PostgreSQL of the servers; without it, and without --target, one is started from the local
    /// binaries
    #[arg(long, value_name = "URL", hide_env_values = true)]
    pub database_url: Option<String>,
    /// Duration of the measurement
    #[arg(long = "for", default_value = "5m", value_name = "DURATION", value_parser = parse_duration_flag)]
    pub measured_for: Duration,
    /// Meanwhile a client requests quotes over all clusters, this long apart
    #[arg(long, value_name = "DURATION", value_parser = parse_duration_flag)]
    pub quote_interval: Option<Duration>,
    /// Measure only, without restarts
    #[arg(long)]
    pub steady: bool,
    /// After the measurement, only kill and restart the one server
    #[arg(long, conflicts_with = "steady")]
    pub only_restart: bool,
    /// Random seed
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Log filter for standard error, of this process and the servers
    #[arg(long, default_value = "error", value_name = "FILTER")]
    pub log: String,
}
