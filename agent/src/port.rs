//! The interface that the agent requires of a cluster, implemented for the Kubernetes API server
//! and for simulations.

use std::fmt;
use std::future::Future;
use std::sync::Arc;

use fleetwright_proto::v1;
use tokio::sync::{mpsc, watch};

/// A cluster that can be watched and changed.
pub trait Cluster: Send + Sync + 'static {
    /// The cluster's identity, constant while the agent runs.
    fn identity(&self) -> Identity;

    /// What the cluster's nodes need to join it. Called before each connection to the server; a fact that is unknown is
    /// empty. The default is a cluster that reports nothing.
    fn facts(&self) -> impl Future<Output = Option<v1::ClusterFacts>> + Send {
        async { None }
    }

    /// Whether the cluster's API server does not answer, as far as the agent knows; the server receives every change. The
    /// default is a cluster that does not know.
    fn api_server_unreachable(&self) -> Option<watch::Receiver<bool>> {
        None
    }

    /// Lists the cluster and watches it: every record, then every change without a gap. Called once
    /// for each snapshot; the changes of an earlier call are not read any more.
    ///
    /// # Errors
    /// [`ClusterError`] when the cluster cannot be listed; the agent retries after a wait.
    fn list_and_watch(&self) -> impl Future<Output = Result<ListWatch, ClusterError>> + Send;

    /// Executes one instruction and returns its result. A state that already exists is a success.
    /// There is no time limit (a drain takes hours); other instructions are executed concurrently.
    fn execute_instruction(&self, instruction: v1::Instruction) -> impl Future<Output = Done> + Send;

    /// The highest epoch that [`raise_epoch`](Cluster::raise_epoch) stored in this cluster; 0 when
    /// none.
    ///
    /// # Errors
    /// [`ClusterError`] when it cannot be read; the agent executes no instruction until it can.
    fn highest_epoch(&self) -> impl Future<Output = Result<u64, ClusterError>> + Send;

    /// Stores the highest epoch where it outlives the agent, so that a restarted agent rejects
    /// servers that lost the cluster. A value below the stored one changes nothing.
    ///
    /// # Errors
    /// [`ClusterError`] when it cannot be stored; the agent does not accept the epoch then.
    fn raise_epoch(&self, epoch: u64) -> impl Future<Output = Result<(), ClusterError>> + Send;
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Identity {
    /// UID of the `kube-system` namespace, or its equivalent.
    pub uid: String,
    /// Version of the API server; empty when not known.
    pub kubernetes_version: String,
}

/// The listed records of a cluster and the changes that follow them.
#[derive(Debug)]
pub struct ListWatch {
    /// Every record, in any order.
    pub records: Vec<Record>,
    /// Changes since the list, in order. When the channel closes, the cluster is listed again.
    pub changes: mpsc::Receiver<Vec<Record>>,
}

/// One record of the protocol or one removal.
#[derive(Debug, Clone, PartialEq)]
pub enum Record {
    /// A pod. The record's hashes are filled in when it is sent.
    Pod {
        /// The fields that the pod does not share.
        record: Box<v1::PodRecord>,
        /// The JSON of its shape, as [`v1::Definition`] defines it.
        shape: Arc<str>,
        labels: Arc<v1::LabelSet>,
        /// The claims and volumes that it mounts; `None` without any that scheduling uses.
        volume_claims: Option<v1::VolumeClaimSet>,
    },
    /// A DaemonSet. The record's hashes are filled in when it is sent.
    DaemonSet {
        /// The fields that the DaemonSet does not share.
        record: v1::DaemonSetRecord,
        /// The JSON of its template's shape.
        shape: Arc<str>,
        labels: Arc<v1::LabelSet>,
    },
    /// Any other record, or a removal. Never a definition.
    Plain(Box<v1::change::Change>),
}

impl Record {
    /// A record without references, or a removal.
    #[must_use]
    pub fn plain(change: v1::change::Change) -> Self {
        Self::Plain(Box::new(change))
    }

    #[must_use]
    pub fn removed(kind: v1::ObjectKind, namespace: impl Into<String>, name: impl Into<String>) -> Self {
        let removal = v1::Removal { kind: kind.into(), namespace: namespace.into(), name: name.into() };
        Self::plain(v1::change::Change::Removal(removal))
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct Done {
    pub outcome: v1::Outcome,
    /// Explanation for the operator; empty on success.
    pub detail: String,
    /// What happened meanwhile, for the trace.
    pub events: Vec<v1::AgentSpanEvent>,
}

impl Done {
    /// The result of an executed instruction.
    #[must_use]
    pub fn ok() -> Self {
        Self { outcome: v1::Outcome::Done, detail: String::new(), events: Vec::new() }
    }

    /// The result of an instruction that was not executed.
    #[must_use]
    pub fn failed(outcome: v1::Outcome, detail: impl fmt::Display) -> Self {
        Self { outcome, detail: detail.to_string(), events: Vec::new() }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{operation}: {reason}")]
pub struct ClusterError {
    /// The operation that failed, such as `list pods`.
    pub operation: String,
    pub reason: String,
}
