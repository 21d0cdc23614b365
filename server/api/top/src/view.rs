//! A view: which rows of which kind, and where the cursor is.

use crate::change::Kind;
use crate::row::{Node, Pod};

/// A node and its NodeClaim, of which a planned pod names either.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PlannedOn {
    pub(crate) node: String,
    pub(crate) node_claim: String,
}

impl PlannedOn {
    /// The node that a row is.
    pub(crate) fn of(node: &Node) -> Self {
        Self { node: node.shown_name().to_owned(), node_claim: node.node_claim.clone() }
    }

    pub(crate) fn has(&self, pod: &Pod) -> bool {
        let planned = &pod.planned_node;
        !planned.is_empty() && (*planned == self.node || *planned == self.node_claim)
    }
}

/// The selected row, and the first row of the screen.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Cursor {
    /// Name of the selected row; `None` until the selection was moved: the first row, whichever it is.
    pub(crate) selected: Option<String>,
    pub(crate) index: usize,
    pub(crate) offset: usize,
}

impl Cursor {
    /// Follows the selected row to where it is now, on the same line of the screen where that is possible. A row that is gone
    /// is followed by the one that is in its place.
    pub(crate) fn follow(&mut self, position: Option<usize>) {
        match (position, &self.selected) {
            (Some(position), _) => {
                let line = self.index - self.offset;
                self.index = position;
                self.offset = position.saturating_sub(line);
            }
            (None, Some(_)) => {}
            (None, None) => (self.index, self.offset) = (0, 0),
        }
    }

    /// Keeps the selection among `len` rows, and on a screen of `height` rows that is full where there are enough.
    pub(crate) fn fit(&mut self, len: usize, height: usize) {
        self.index = self.index.min(len.saturating_sub(1));
        let least = (self.index + 1).saturating_sub(height);
        let most = self.index.min(len.saturating_sub(height)).max(least);
        self.offset = self.offset.clamp(least, most);
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct View {
    pub(crate) kind: Kind,
    /// Only rows of the cluster with this id.
    pub(crate) cluster: Option<String>,
    /// Only pods that are planned on this node.
    pub(crate) planned_on: Option<PlannedOn>,
    pub(crate) filter: String,
    /// Why that text is no filter.
    pub(crate) filter_error: Option<String>,
    pub(crate) cursor: Cursor,
}

impl View {
    pub(crate) fn of(kind: Kind, cluster: Option<String>) -> Self {
        let cursor = Cursor::default();
        Self { kind, cluster, planned_on: None, filter: String::new(), filter_error: None, cursor }
    }

    /// What the names of its rows begin with.
    pub(crate) fn prefix(&self) -> String {
        self.cluster.as_ref().map_or_else(String::new, |cluster| format!("clusters/{cluster}/"))
    }

    /// Whether both show rows of the same kind and scope.
    pub(crate) fn is_same_list(&self, other: &Self) -> bool {
        (self.kind, &self.cluster, &self.planned_on) == (other.kind, &other.cluster, &other.planned_on)
    }

    /// Where it is: `prod > nodes`.
    pub(crate) fn path(&self) -> String {
        let cluster = self.cluster.as_deref();
        match (self.kind, cluster, &self.planned_on) {
            (Kind::Clusters, ..) => "Clusters".to_owned(),
            (Kind::Nodes, cluster, _) => format!("{} > nodes", cluster.unwrap_or("All clusters")),
            (Kind::Pods, cluster, None) => {
                format!("{} > waiting pods (bound pods are not in the API)", cluster.unwrap_or("All clusters"))
            }
            (Kind::Pods, _, Some(on)) => format!("{} > pods planned here (bound pods are not in the API)", on.node),
        }
    }
}
