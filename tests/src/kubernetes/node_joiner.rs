//! Starts a kubelet for every instance of the simulated cloud, and stops it when the instance ends.

use std::sync::Arc;
use std::time::Duration;

use fleetwright_proto::simulation::v1::{Instance, InstanceState};
use tokio::task::JoinHandle;

use super::kubelets::Kubelets;
use super::ledger::LedgerClient;
use super::machine::Types;

const PERIOD: Duration = Duration::from_millis(300);

/// Polls the ledger; ends when it is dropped.
#[derive(Debug)]
pub struct NodeJoiner(JoinHandle<()>);

impl NodeJoiner {
    /// Starts kubelets for the running instances in the ledger, and stops those of all others.
    #[must_use]
    pub fn start(ledger: LedgerClient, types: Types, kubelets: Arc<Kubelets>) -> Self {
        Self(tokio::spawn(async move {
            loop {
                // A failed request changes nothing.
                if let Ok(ledger) = ledger.read_ledger().await {
                    let instances = ledger.response.entries.iter().filter_map(|entry| entry.instance.as_ref());
                    instances.for_each(|instance| sync_instance(instance, &types, &kubelets));
                }
                tokio::time::sleep(PERIOD).await;
            }
        }))
    }
}

fn sync_instance(instance: &Instance, types: &Types, kubelets: &Kubelets) {
    if !matches!(instance.state(), InstanceState::Pending | InstanceState::Running) {
        kubelets.lose_machine(&instance.id);
    } else if !kubelets.is_alive(&instance.id)
        && let Ok(machine) = types.machine(&instance.id, &instance.instance_type, &instance.zone)
    {
        // An instance of a type that the catalogue does not have never joins, like an instance
        // whose kubelet fails.
        kubelets.boot_machine(machine);
    }
}

impl Drop for NodeJoiner {
    fn drop(&mut self) {
        self.0.abort();
    }
}
