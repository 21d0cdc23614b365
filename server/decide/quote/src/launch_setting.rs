//! What the launches of a cluster depend on, shared by all clusters that have the same.

use std::sync::{Arc, Mutex, PoisonError};

use model::input::{PlanningInput, Policy};
use model::{DaemonSet, Labels, NodePool, PodShape, Resources};

/// NodePools without their limits, DaemonSets and the policy.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct LaunchSetting {
    pools: Vec<NodePool>,
    daemons: Vec<(DaemonSet, PodShape, Labels)>,
    policy: Policy,
}

/// The settings of all prepared clusters. Clusters made from one template share a setting, and what a quote launches is
/// planned once for it.
#[derive(Debug, Default)]
pub struct LaunchSettings(Mutex<Vec<Arc<LaunchSetting>>>);

impl LaunchSettings {
    /// The setting of `input`; `None` where launches depend on the nodes of the cluster by more than limits.
    pub(crate) fn of(&self, input: &PlanningInput) -> Option<Arc<LaunchSetting>> {
        if input.pools.iter().any(counts_nodes) {
            return None;
        }
        let setting = LaunchSetting::of(input);
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Settings that no cluster has any more.
        all.retain(|known| Arc::strong_count(known) > 1);
        let known = all.iter().find(|known| ***known == setting).cloned();
        Some(known.unwrap_or_else(|| {
            let new = Arc::new(setting);
            all.push(Arc::clone(&new));
            new
        }))
    }
}

/// Whether a rule of the pool counts its nodes, so that it makes a difference which there are.
fn counts_nodes(pool: &NodePool) -> bool {
    let rules = &pool.rules;
    rules.zone_balance
        || rules.spot_max_percent.is_some()
        || rules.on_demand_min_nodes.is_some()
        || rules.min_nodes.is_some()
        || pool.replicas.is_some()
}

impl LaunchSetting {
    fn of(input: &PlanningInput) -> Self {
        let without_limits = |pool: &NodePool| NodePool { limits: Resources::new(), ..pool.clone() };
        let daemon = |daemon: &DaemonSet| {
            let (shape, labels) = (&input.shapes[daemon.shape as usize], &input.label_sets[daemon.labels as usize]);
            (DaemonSet { shape: 0, labels: 0, ..daemon.clone() }, shape.clone(), labels.clone())
        };
        Self {
            pools: input.pools.iter().map(without_limits).collect(),
            daemons: input.daemons.iter().map(daemon).collect(),
            // Realised costs and searches are no part of a quote.
            policy: Policy { search_steps: 0, nominations: true, ..input.policy.clone() },
        }
    }

    /// The setting as a cluster without nodes.
    pub fn empty_cluster(&self) -> PlanningInput {
        let mut input =
            PlanningInput { pools: self.pools.clone(), policy: self.policy.clone(), ..PlanningInput::default() };
        for (at, (daemon, shape, labels)) in (0..).zip(&self.daemons) {
            input.shapes.push(shape.clone());
            input.label_sets.push(labels.clone());
            input.daemons.push(DaemonSet { shape: at, labels: at, ..daemon.clone() });
        }
        input
    }
}
