//! Machines of the simulated cloud become nodes of the cluster, and cease to be.

use std::sync::Arc;
use std::time::Duration;

use fleetwright_proto::simulation::v1::{Instance, InstanceState};
use tokio::task::JoinHandle;

use super::book::Book;
use super::kubelets::Kubelets;
use super::machine::Types;

/// How often the book is read.
const PERIOD: Duration = Duration::from_millis(300);

/// Reads the book again and again; ends when it is dropped.
#[derive(Debug)]
pub struct Joiner(JoinHandle<()>);

impl Joiner {
    /// Boots what `book` says is up, and loses what it says is not.
    #[must_use]
    pub fn start(book: Book, types: Types, kubelets: Arc<Kubelets>) -> Self {
        Self(tokio::spawn(async move {
            loop {
                // A cloud that does not answer changes nothing about its machines.
                if let Ok(page) = book.read().await {
                    let instances = page.told.sales.iter().filter_map(|sale| sale.instance.as_ref());
                    instances.for_each(|instance| follow(instance, &types, &kubelets));
                }
                tokio::time::sleep(PERIOD).await;
            }
        }))
    }
}

fn follow(instance: &Instance, types: &Types, kubelets: &Kubelets) {
    if !matches!(instance.state(), InstanceState::Pending | InstanceState::Running) {
        kubelets.lose(&instance.id);
    } else if !kubelets.is_alive(&instance.id)
        && let Ok(machine) = types.machine(&instance.id, &instance.instance_type, &instance.zone)
    {
        // A type that the catalogue does not know never joins, as a machine whose kubelet fails.
        kubelets.boot(machine);
    }
}

impl Drop for Joiner {
    fn drop(&mut self) {
        self.0.abort();
    }
}
