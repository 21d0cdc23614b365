//! Fake kubelets of machines that exist only in the simulated cloud's ledger.
//!
//! For every machine passed to [`Kubelets::boot_machine`], a task boots it, registers a Node as a
//! kubelet configured for Karpenter does (not ready, with the registration taint), makes it ready
//! and renews its lease. One task runs the pods of all machines ([`pods`]). A
//! [lost](Kubelets::lose_machine) machine stops reporting; its Node is deleted after a delay, as a
//! cloud controller does for a terminated instance.

mod node;
mod pods;
mod running;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use k8s_openapi::api::core::v1::Node;
use kube::{Api, Client};
use tokio::task::JoinHandle;

use super::machine::Machine;
pub use node::KubeletTiming;
use running::{RunningKubelet, RunningKubelets, lock};

/// All kubelets of a cluster. They end when this is dropped.
pub struct Kubelets {
    client: Client,
    timing: KubeletTiming,
    running: RunningKubelets,
    booted: AtomicU32,
    pods: JoinHandle<()>,
}

impl Kubelets {
    #[must_use]
    pub fn new(client: Client, timing: KubeletTiming) -> Self {
        let running = RunningKubelets::default();
        let pods = tokio::spawn(pods::run_pods(client.clone(), Arc::clone(&running)));
        Self { client, timing, running, booted: AtomicU32::new(0), pods }
    }

    /// Whether the machine was booted and not lost.
    #[must_use]
    pub fn is_alive(&self, id: &str) -> bool {
        lock(&self.running).contains_key(id)
    }

    /// Starts the kubelet of a machine. Repeating it changes nothing.
    pub fn boot_machine(&self, machine: Machine) {
        let mut running = lock(&self.running);
        if running.contains_key(&machine.id) {
            return;
        }
        let number = self.booted.fetch_add(1, Ordering::Relaxed);
        let address = format!("10.0.{}.{}", number / 250, number % 250 + 1);
        let id = machine.id.clone();
        let task = tokio::spawn(node::run_kubelet(self.client.clone(), machine, self.timing, address.clone()));
        running.insert(id, RunningKubelet { task, address });
    }

    /// Stops the kubelet of a machine that the cloud has terminated.
    pub fn lose_machine(&self, id: &str) {
        let Some(kubelet) = lock(&self.running).remove(id) else { return };
        kubelet.task.abort();
        let (nodes, name, after) = (Api::<Node>::all(self.client.clone()), id.to_owned(), self.timing.forgotten);
        tokio::spawn(async move {
            tokio::time::sleep(after).await;
            node::delete_node(&nodes, &name).await;
        });
    }

    /// Machines whose kubelets run, by Node name.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        lock(&self.running).keys().cloned().collect()
    }
}

impl Drop for Kubelets {
    fn drop(&mut self) {
        self.pods.abort();
        for kubelet in lock(&self.running).values() {
            kubelet.task.abort();
        }
    }
}
