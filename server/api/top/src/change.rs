//! What the API sends: lists and watches of the three kinds of rows.

use crate::row::{Cluster, Node, Pod};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    Clusters,
    /// Nodes, and machines on their way.
    Nodes,
    /// Pods that wait for a node.
    Pods,
}

impl Kind {
    pub(crate) const ALL: [Self; 3] = [Self::Clusters, Self::Nodes, Self::Pods];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Clusters => "clusters",
            Self::Nodes => "nodes",
            Self::Pods => "pods",
        }
    }
}

/// Where the rows of a kind come from now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Feed {
    /// A list has begun. Rows that it does not name are removed when [`Feed::Live`] follows.
    Listing,
    /// The list is complete, and a watch follows. Also a watch that goes on after [`Feed::Broken`].
    Live,
    /// Nothing comes, for this reason; the rows stay.
    Broken(String),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delta<R> {
    /// Names of clusters all of whose rows are void, before the others here are added.
    pub reset: Vec<String>,
    pub rows: Vec<R>,
    /// Names of rows that are gone.
    pub deleted: Vec<String>,
}

impl<R> Delta<R> {
    /// Rows that are new or changed.
    #[must_use]
    pub fn of(rows: Vec<R>) -> Self {
        Self { reset: Vec::new(), rows, deleted: Vec::new() }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// Of clusters. Without rows it is a heartbeat, as for the other kinds.
    Clusters(Delta<Cluster>),
    Nodes(Delta<Node>),
    Pods(Delta<Pod>),
    /// Where the rows of a kind come from.
    Feed(Kind, Feed),
    /// Names of the clusters whose rows of a kind the last list does not have.
    Unreachable(Kind, Vec<String>),
    /// What the server depends on and does not work, as sentences, the worst first.
    Notices(Vec<String>),
}
