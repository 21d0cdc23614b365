//! Kubelets of machines that exist only in the simulated cloud's book.
//!
//! For every machine that [`Kubelets::boot`] is told of, a task plays its life: it boots, registers a Node as a kubelet that
//! was started for Karpenter does (not ready, with the registration taint), becomes ready and keeps its lease. One task for
//! all machines plays their pods ([`pods`]). A machine that is [lost](Kubelets::lose) falls silent; the Node that it leaves
//! behind is deleted after a while, as a cloud's controller does when the cloud knows the instance no more.

mod node;
mod pods;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use kube::{Api, Client};
use tokio::task::JoinHandle;

use super::machine::Machine;

/// How quick machines and their kubelets are.
#[derive(Debug, Clone, Copy)]
pub struct Pace {
    /// From launch to the Node's appearance; each machine takes between the two.
    pub boot: (Duration, Duration),
    /// From the Node's appearance to Ready.
    pub ready: Duration,
    /// Between renewals of a node's lease (kubelet: 10 s).
    pub heartbeat: Duration,
    /// How long a Node outlives its machine before the cloud's controller deletes it.
    pub forgotten: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            boot: (Duration::from_millis(500), Duration::from_millis(2_500)),
            ready: Duration::from_millis(500),
            heartbeat: Duration::from_secs(10),
            forgotten: Duration::from_secs(15),
        }
    }
}

/// All kubelets of a cluster. They end when this is dropped.
pub struct Kubelets {
    client: Client,
    pace: Pace,
    alive: Alive,
    booted: AtomicU32,
    pods: JoinHandle<()>,
}

/// Machines whose kubelets run, by Node name.
type Alive = Arc<Mutex<BTreeMap<String, Life>>>;

/// A kubelet that runs.
#[derive(Debug)]
struct Life {
    task: JoinHandle<()>,
    /// Of the machine.
    address: String,
}

impl Kubelets {
    /// No machine yet.
    #[must_use]
    pub fn new(client: Client, pace: Pace) -> Self {
        let alive = Alive::default();
        let pods = tokio::spawn(pods::play(client.clone(), Arc::clone(&alive)));
        Self { client, pace, alive, booted: AtomicU32::new(0), pods }
    }

    /// Whether the machine was booted and not lost.
    #[must_use]
    pub fn is_alive(&self, id: &str) -> bool {
        lock(&self.alive).contains_key(id)
    }

    /// A machine was launched. Telling it twice changes nothing.
    pub fn boot(&self, machine: Machine) {
        let mut alive = lock(&self.alive);
        if alive.contains_key(&machine.id) {
            return;
        }
        let number = self.booted.fetch_add(1, Ordering::Relaxed);
        let address = format!("10.0.{}.{}", number / 250, number % 250 + 1);
        let id = machine.id.clone();
        let task = tokio::spawn(node::live(self.client.clone(), machine, self.pace, address.clone()));
        alive.insert(id, Life { task, address });
    }

    /// A machine is gone from the cloud.
    pub fn lose(&self, id: &str) {
        let Some(life) = lock(&self.alive).remove(id) else { return };
        life.task.abort();
        let (nodes, name, after) = (Api::<Node>::all(self.client.clone()), id.to_owned(), self.pace.forgotten);
        tokio::spawn(async move {
            tokio::time::sleep(after).await;
            node::forget(&nodes, &name).await;
        });
    }

    /// Machines whose kubelets run, by Node name.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        lock(&self.alive).keys().cloned().collect()
    }
}

impl Drop for Kubelets {
    fn drop(&mut self) {
        self.pods.abort();
        for life in lock(&self.alive).values() {
            life.task.abort();
        }
    }
}

/// Nobody panics while holding it; what it guards is whole at any time.
fn lock(alive: &Alive) -> std::sync::MutexGuard<'_, BTreeMap<String, Life>> {
    alive.lock().unwrap_or_else(PoisonError::into_inner)
}
