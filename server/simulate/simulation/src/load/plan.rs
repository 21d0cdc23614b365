//! Options of a load run.

use std::net::SocketAddr;
use std::time::Duration;

#[derive(Debug, Clone)]
pub struct Plan {
    pub clusters: usize,
    /// Nodes per cluster.
    pub nodes: usize,
    /// Running pods per cluster.
    pub pods: usize,
    /// Pods of a burst; each cluster gets one per period.
    pub burst: usize,
    /// Interval between two bursts of a cluster; halfway the pods of the last one are deleted.
    pub period: Duration,
    /// An external server; if absent, one is started.
    pub external: Option<ExternalServer>,
    /// The server's database; if absent and no server is external, one is started.
    pub database_url: Option<String>,
    pub measured_for: Duration,
    /// Interval at which a client requests quotes over all clusters during the measurement; none if absent.
    pub quote_interval: Option<Duration>,
    /// Disturbances after the measurement.
    pub disturbances: Disturbances,
    pub seed: u64,
    pub log: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Disturbances {
    None,
    /// The only server is killed and restarted.
    Restart,
    /// In addition a second replica joins, one of the two is killed, and one is shut down.
    All,
}

#[derive(Debug, Clone)]
pub struct ExternalServer {
    /// gRPC address, as `http://host:port`.
    pub target: String,
    /// HTTP addresses of the metrics of its replicas.
    pub pages: Vec<SocketAddr>,
    /// Address of its simulated cloud, as `http://host:port`, to which the instances of full nodes are added.
    pub cloud: Option<String>,
    /// Process ids of its replicas that run on this machine.
    pub pids: Vec<u32>,
}
