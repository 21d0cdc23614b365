//! The agent's port: what it needs of a cluster, whether a Kubernetes API server or a simulation stands behind it.

use std::fmt;
use std::future::Future;
use std::sync::Arc;

use fleetwright_proto::v1;
use tokio::sync::mpsc;

/// A cluster that can be watched and told what to do.
pub trait Cluster: Send + Sync + 'static {
    /// Who this cluster is. Does not change while the agent runs.
    fn identity(&self) -> Identity;

    /// The whole picture, and every change after it without a gap between the two. Called once for each snapshot; changes of
    /// an earlier call are not read any more.
    ///
    /// # Errors
    /// [`ClusterError`] when the picture cannot be had; the agent tries again after a while.
    fn observe(&self) -> impl Future<Output = Result<Observed, ClusterError>> + Send;

    /// Carries out one instruction and tells what came of it. What is done already counts as done. May take as long as it
    /// needs (a drain); other instructions are carried out meanwhile.
    fn carry_out(&self, instruction: v1::Instruction) -> impl Future<Output = Done> + Send;

    /// The highest epoch that [`raise_epoch`](Cluster::raise_epoch) ever stored in this cluster; 0 when none.
    ///
    /// # Errors
    /// [`ClusterError`] when it cannot be read; the agent obeys nobody until it can.
    fn highest_epoch(&self) -> impl Future<Output = Result<u64, ClusterError>> + Send;

    /// Stores the highest epoch where it outlives the agent, so that a restarted agent refuses servers that lost the cluster.
    /// A lower value than the stored one changes nothing.
    ///
    /// # Errors
    /// [`ClusterError`] when it cannot be stored; the agent does not obey that epoch then.
    fn raise_epoch(&self, epoch: u64) -> impl Future<Output = Result<(), ClusterError>> + Send;
}

/// Who a cluster is.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Identity {
    /// UID of the `kube-system` namespace, or what stands for it.
    pub uid: String,
    /// Version of the API server; empty when not known.
    pub kubernetes_version: String,
}

/// The picture of a cluster and what follows it.
#[derive(Debug)]
pub struct Observed {
    /// Everything there is, in any order.
    pub records: Vec<Seen>,
    /// Changes since, in order. When it ends, the picture is taken again.
    pub changes: mpsc::Receiver<Vec<Seen>>,
}

/// One thing that was seen.
#[derive(Debug, Clone, PartialEq)]
pub enum Seen {
    /// A pod. The record's hashes are filled in when it is sent.
    Pod {
        /// What the pod has for itself.
        record: Box<v1::PodRecord>,
        /// What it may share with others.
        shape: Arc<v1::PodShape>,
        /// Its labels.
        labels: Arc<v1::LabelSet>,
        /// What its volumes name; `None` without volumes that matter.
        volume_claims: Option<v1::VolumeClaimSet>,
    },
    /// A DaemonSet. The record's hashes are filled in when it is sent.
    DaemonSet {
        /// Its name.
        record: v1::DaemonSetRecord,
        /// Shape of its template.
        shape: Arc<v1::PodShape>,
        /// Labels of its template.
        labels: Arc<v1::LabelSet>,
    },
    /// Any other record, or a removal. Definitions have no place here.
    Plain(Box<v1::change::Change>),
}

impl Seen {
    /// A record that refers to nothing, or a removal.
    #[must_use]
    pub fn plain(change: v1::change::Change) -> Self {
        Self::Plain(Box::new(change))
    }

    /// An object that is gone.
    #[must_use]
    pub fn removed(kind: v1::ObjectKind, namespace: impl Into<String>, name: impl Into<String>) -> Self {
        let removal = v1::Removal { kind: kind.into(), namespace: namespace.into(), name: name.into() };
        Self::plain(v1::change::Change::Removal(removal))
    }
}

/// What came of an instruction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Done {
    /// In a word.
    pub outcome: v1::Outcome,
    /// For people; empty when it is done.
    pub detail: String,
}

impl Done {
    /// Carried out.
    #[must_use]
    pub fn well() -> Self {
        Self { outcome: v1::Outcome::Done, detail: String::new() }
    }

    /// Not carried out.
    #[must_use]
    pub fn not(outcome: v1::Outcome, detail: impl fmt::Display) -> Self {
        Self { outcome, detail: detail.to_string() }
    }
}

/// Why a cluster did not answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{tried}: {reason}")]
pub struct ClusterError {
    /// What was tried, such as `list pods`.
    pub tried: String,
    /// Why it failed.
    pub reason: String,
}
