//! The way from the session of a cluster to the control loop of its account and region.

use agent_session::PoolReader;
use tokio::sync::mpsc;

use crate::pools::PublishedCatalogue;
use fleet_api::questions::Delivery;
use server_settings::{ClusterRules, UnassignedCluster};

/// The control loop of an account and region, as sessions use it.
#[derive(Debug, Clone)]
pub(crate) struct LoopRoute {
    /// Takes events; full while the loop is behind, and then the agents of its clusters are not read.
    pub(crate) events: mpsc::Sender<Delivery>,
    /// Reads NodePools with the offerings of the region.
    pub(crate) pool_reader: PoolReader,
    /// The catalogue that `pool_reader` has from the cloud; `None` when it stays as it is.
    pub(crate) catalogue: Option<PublishedCatalogue>,
}

/// The control loops of a server, and which clusters belong to each.
#[derive(Debug)]
pub(crate) struct Routes {
    rules: ClusterRules,
    loops: Vec<LoopRoute>,
}

impl Routes {
    /// `loops` are those of the entries that `rules` number.
    pub(crate) fn new(rules: ClusterRules, loops: Vec<LoopRoute>) -> Self {
        Self { rules, loops }
    }

    /// The control loop that decides for a cluster.
    ///
    /// # Errors
    /// No account and region is configured for the cluster: no loop may decide for it.
    pub(super) fn of(&self, cluster: &str) -> Result<&LoopRoute, UnassignedCluster> {
        let entry = self.rules.entry_of(cluster)?;
        Ok(&self.loops[entry])
    }
}
