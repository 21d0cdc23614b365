//! The resources of one cluster, encoded once for all readers. A view that changed encodes what changed; the rest is shared
//! with the view before.

use std::sync::Arc;

use controller::view::{ClusterView, NodeView, PendingPodView};
use fleetwright_proto::v1;
use model::Timestamp;

use super::change_log::Change;
use super::encode;
use api_messages::resource::Resource;

/// Resources of a cluster, in the order of their names.
#[derive(Debug, Default, Clone)]
pub struct ClusterRows {
    pub pools: Vec<Arc<v1::Pool>>,
    pub nodes: Vec<Arc<v1::Node>>,
    pub pods: Vec<Arc<v1::Pod>>,
}

#[derive(Debug, Default)]
pub(crate) struct RowChanges {
    pub pools: Vec<Change<v1::Pool>>,
    pub nodes: Vec<Change<v1::Node>>,
    pub pods: Vec<Change<v1::Pod>>,
}

/// The rows of `view` at `at`, and how they differ from those of the view before.
pub(crate) fn refresh(
    before: Option<(&ClusterView, &ClusterRows)>,
    view: &ClusterView,
    at: Timestamp,
) -> (ClusterRows, RowChanges) {
    let (mut rows, mut changes) = (ClusterRows::default(), RowChanges::default());
    let none = ClusterRows::default();
    let old = before.map_or(&none, |(_, rows)| rows);
    let pools = encode::pools(view).into_iter().map(|pool| Arc::new(since_when(pool, &old.pools, at)));
    let pools: Vec<Arc<v1::Pool>> = pools.collect();
    let pool = |pool: &Arc<v1::Pool>| Arc::clone(pool);
    (rows.pools, changes.pools) = merge((&old.pools, &old.pools), &pools, |one, other| one.name.cmp(&other.name), pool);
    let old_nodes: &[NodeView] = before.map_or(&[], |(view, _)| &view.nodes);
    let node = |node: &NodeView| Arc::new(encode::node(&view.cluster, node));
    (rows.nodes, changes.nodes) =
        merge((old_nodes, &old.nodes), &view.nodes, |one, other| one.id().cmp(other.id()), node);
    let old_pods: &[PendingPodView] = before.map_or(&[], |(view, _)| &view.pending_pods);
    let pod = |pod: &PendingPodView| Arc::new(encode::pod(&view.cluster, pod));
    (rows.pods, changes.pods) =
        merge((old_pods, &old.pods), &view.pending_pods, |one, other| one.pod.cmp(&other.pod), pod);
    (rows, changes)
}

/// The NodePool with the time since when nothing is launched from it: that of the row before, while that said so too.
fn since_when(pool: v1::Pool, before: &[Arc<v1::Pool>], at: Timestamp) -> v1::Pool {
    if pool.not_ready_reason.is_empty() {
        return pool;
    }
    let known =
        before.binary_search_by(|row| row.name.cmp(&pool.name)).ok().and_then(|index| before[index].not_ready_time);
    v1::Pool { not_ready_time: known.or_else(|| Some(api_messages::timestamp(at))), ..pool }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_pool_that_is_not_ready_has_the_time_since_when() {
        let at = |seconds: i64| Timestamp::from_millis(seconds * 1_000);
        let pool = |why: &str| v1::Pool {
            name: "clusters/a/pools/p".to_owned(),
            not_ready_reason: why.to_owned(),
            ..v1::Pool::default()
        };
        let shown = |pool: v1::Pool| pool.not_ready_time.map(|time| time.seconds);
        let first = Arc::new(since_when(pool("its EC2NodeClass is not ready"), &[], at(10)));
        assert_eq!(shown(v1::Pool::clone(&first)), Some(10));
        // Another reason is not another time: nothing was launched in between.
        let later = since_when(pool("frozen by freeze 7"), &[Arc::clone(&first)], at(20));
        assert_eq!(shown(later), Some(10));
        let ready = Arc::new(since_when(pool(""), &[first], at(30)));
        assert_eq!(shown(v1::Pool::clone(&ready)), None);
        assert_eq!(shown(since_when(pool("again"), &[ready], at(40))), Some(40));
    }
}
