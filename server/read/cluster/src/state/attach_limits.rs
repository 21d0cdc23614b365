//! Attach limits of Nodes, which are those of new nodes of the same instance type too.

use model::attach_limits::AttachLimits;
use model::labels::{INSTANCE_TYPE, NODEPOOL};
use model::offering::SharedCatalogue;
use model::{NodeName, NodePool, Text};

use super::{ClusterState, LaunchCatalogues};
use crate::record::{AttachRecord, NodeRecord};

impl ClusterState {
    /// The catalogue for new nodes of `pool`, which is an observed NodePool.
    pub fn launch_catalogue<'s>(&'s self, pool: &'s NodePool) -> &'s SharedCatalogue {
        self.launch_catalogues.lowered.get(&pool.catalogue)
    }

    /// Makes the catalogues again if a limit or a NodePool has changed.
    pub(super) fn update_launch_catalogues(&mut self) {
        if std::mem::take(&mut self.launch_catalogues.is_stale) {
            let LaunchCatalogues { limits, lowered, .. } = &mut self.launch_catalogues;
            lowered.update(self.pools.values().map(|record| &record.pool.catalogue), limits);
        }
    }

    pub(super) fn insert_attach_limits(&mut self, attach: AttachRecord) {
        let node = attach.node.clone();
        self.count_attach_limits(&node, false);
        self.auxiliary.insert_attach_limits(attach);
        self.count_attach_limits(&node, true);
    }

    pub(super) fn remove_attach_limits(&mut self, node: &NodeName) {
        self.count_attach_limits(node, false);
        self.auxiliary.remove_attach_limits(node);
    }

    pub(super) fn clear_auxiliary_records(&mut self) {
        self.launch_catalogues.limits = AttachLimits::default();
        self.launch_catalogues.mark_stale();
        self.auxiliary.clear_records();
    }

    pub(super) fn insert_node(&mut self, node: NodeRecord) {
        let name = node.name.clone();
        // Most changes of a Node are to its conditions.
        let is_recounted = self.nodes.get(&name).and_then(counted_type) != counted_type(&node);
        if is_recounted {
            self.count_attach_limits(&name, false);
        }
        self.nodes.insert(name.clone(), node);
        if is_recounted {
            self.count_attach_limits(&name, true);
        }
    }

    /// Adds the limits of a Node to those of its instance type, or removes them.
    pub(super) fn count_attach_limits(&mut self, node: &NodeName, is_added: bool) {
        let Some(instance_type) = self.nodes.get(node).and_then(counted_type) else { return };
        let Some(limits) = self.auxiliary.attach_limits(node) else { return };
        let counted = &mut self.launch_catalogues.limits;
        self.launch_catalogues.is_stale |= match is_added {
            true => counted.add(instance_type, limits),
            false => counted.remove(instance_type, limits),
        };
    }
}

/// The instance type of a Node whose CSINode lacks no driver.
fn counted_type(node: &NodeRecord) -> Option<&Text> {
    let is_managed = node.labels.contains_key(NODEPOOL);
    node.labels.get(INSTANCE_TYPE).filter(|_| !is_managed || node.is_initialized())
}

#[cfg(test)]
mod tests {
    use model::Timestamp;
    use model::input::Policy;
    use model::labels::INITIALIZED;

    use super::*;
    use crate::testing::{initialized_cluster, node, observe, pool, text};
    use crate::{ClusterSnapshot, Key, Object, Observation};

    const EBS: &str = "attachable-volumes-ebs.csi.aws.com";

    fn csi_node(machine: &str, volumes: i64) -> Object {
        let limits = vec![(text("ebs.csi.aws.com"), volumes)];
        Object::Attach(AttachRecord { node: NodeName::from(format!("n-{machine}")), limits })
    }

    fn planned(state: &ClusterState) -> SharedCatalogue {
        let input = state.planning_input(&Policy::default(), Timestamp::from_millis(0));
        SharedCatalogue::clone(&input.pools[0].catalogue)
    }

    /// The attach limit of new nodes of type `t.2`; `None` without one.
    fn limit(state: &ClusterState) -> Option<i64> {
        let allocatable = planned(state).types[0].allocatable.clone();
        allocatable.contains(EBS).then(|| allocatable.get(EBS))
    }

    #[test]
    fn new_nodes_attach_as_few_volumes_as_a_csi_node_of_their_type_shows() {
        let mut state = initialized_cluster(pool(), &["m0", "m1"]);
        assert_eq!(limit(&state), None);
        observe(&mut state, 1, [csi_node("m0", 20), csi_node("m1", 15)]);
        assert_eq!(limit(&state), Some(15));
        assert!(!planned(&state).types[1].allocatable.contains(EBS), "no node is a t.4");
        state.apply(Observation::Delete(Key::Node(text("n-m1"))), Timestamp::from_millis(2));
        assert_eq!(limit(&state), Some(20));
        observe(&mut state, 3, [csi_node("m0", 22)]);
        assert_eq!(limit(&state), Some(22));
        state.apply(Observation::Delete(Key::Attach(text("n-m0"))), Timestamp::from_millis(4));
        assert_eq!(limit(&state), None);
    }

    #[test]
    fn a_node_that_is_not_initialized_lowers_no_limit() {
        let mut state = initialized_cluster(pool(), &[]);
        let mut young = node("m0");
        young.labels.remove(INITIALIZED);
        observe(&mut state, 0, [csi_node("m0", 3), Object::Node(young)]);
        assert_eq!(limit(&state), None);
        observe(&mut state, 1, [Object::Node(node("m0"))]);
        assert_eq!(limit(&state), Some(3));
    }

    #[test]
    fn the_catalogue_stays_the_same_one_while_its_limits_do() {
        let mut state = initialized_cluster(pool(), &["m0", "m1"]);
        observe(&mut state, 1, [csi_node("m0", 20)]);
        let first = planned(&state);
        let changed = NodeRecord { ready: false, ..node("m0") };
        observe(&mut state, 2, [csi_node("m1", 20), Object::Node(changed)]);
        assert!(SharedCatalogue::ptr_eq(&planned(&state), &first));
        // A new connection shows the same.
        let again: ClusterSnapshot = state.to_snapshot();
        state.apply(Observation::Snapshot(Box::new(again)), Timestamp::from_millis(3));
        assert!(SharedCatalogue::ptr_eq(&planned(&state), &first));
        // Another catalogue of the NodePool.
        observe(&mut state, 4, [Object::Pool(pool())]);
        assert!(!SharedCatalogue::ptr_eq(&planned(&state), &first));
        assert_eq!(limit(&state), Some(20));
    }
}
