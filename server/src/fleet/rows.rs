//! The resources of one cluster, encoded once for all readers. A view that changed encodes what changed; the rest is shared
//! with the view before.

use std::sync::Arc;

use controller::view::{ClusterView, NodeView, PendingPodView};
use fleetwright_proto::v1;

use super::change_log::Change;
use super::encode;
use super::resource::Resource;

/// Resources of a cluster, in the order of their names.
#[derive(Debug, Default, Clone)]
pub(crate) struct ClusterRows {
    pub(crate) pools: Vec<Arc<v1::Pool>>,
    pub(crate) nodes: Vec<Arc<v1::Node>>,
    pub(crate) pods: Vec<Arc<v1::Pod>>,
}

/// What a view changed.
#[derive(Debug, Default)]
pub(crate) struct RowChanges {
    pub(crate) pools: Vec<Change<v1::Pool>>,
    pub(crate) nodes: Vec<Change<v1::Node>>,
    pub(crate) pods: Vec<Change<v1::Pod>>,
}

/// The rows of `view`, and how they differ from those of the view before.
pub(crate) fn refresh(before: Option<(&ClusterView, &ClusterRows)>, view: &ClusterView) -> (ClusterRows, RowChanges) {
    let (mut rows, mut changes) = (ClusterRows::default(), RowChanges::default());
    let none = ClusterRows::default();
    let old = before.map_or(&none, |(_, rows)| rows);
    let pools: Vec<Arc<v1::Pool>> = encode::pools(view).into_iter().map(Arc::new).collect();
    let pool = |pool: &Arc<v1::Pool>| Arc::clone(pool);
    (rows.pools, changes.pools) = merge((&old.pools, &old.pools), &pools, |one, other| one.name.cmp(&other.name), pool);
    let old_nodes: &[NodeView] = before.map_or(&[], |(view, _)| &view.nodes);
    let node = |node: &NodeView| Arc::new(encode::node(&view.cluster, node));
    (rows.nodes, changes.nodes) =
        merge((old_nodes, &old.nodes), &view.nodes, |one, other| one.name.cmp(&other.name), node);
    let old_pods: &[PendingPodView] = before.map_or(&[], |(view, _)| &view.pending_pods);
    let pod = |pod: &PendingPodView| Arc::new(encode::pod(&view.cluster, pod));
    (rows.pods, changes.pods) =
        merge((old_pods, &old.pods), &view.pending_pods, |one, other| one.pod.cmp(&other.pod), pod);
    (rows, changes)
}

/// Rows of `now`, of which those that equal an entry of `before` are shared. Both lists are sorted by `order`.
fn merge<T: PartialEq, M: Resource>(
    (before, rows): (&[T], &[Arc<M>]),
    now: &[T],
    order: impl Fn(&T, &T) -> std::cmp::Ordering,
    encode: impl Fn(&T) -> Arc<M>,
) -> (Vec<Arc<M>>, Vec<Change<M>>) {
    let mut merged = Vec::with_capacity(now.len());
    let mut changes = Vec::new();
    let mut old = before.iter().zip(rows).peekable();
    for entry in now {
        while let Some((_, row)) = old.next_if(|(earlier, _)| order(earlier, entry).is_lt()) {
            changes.push(Change::Deleted(Arc::clone(row)));
        }
        let known = old.next_if(|(earlier, _)| order(earlier, entry).is_eq());
        let row = match known {
            Some((earlier, row)) if earlier == entry => Arc::clone(row),
            _ => {
                let row = encode(entry);
                changes.push(Change::Set { row: Arc::clone(&row), before: known.map(|(_, row)| Arc::clone(row)) });
                row
            }
        };
        merged.push(row);
    }
    changes.extend(old.map(|(_, row)| Change::Deleted(Arc::clone(row))));
    (merged, changes)
}
