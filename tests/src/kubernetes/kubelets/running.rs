//! Machines whose kubelets run.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::task::JoinHandle;

/// Machines whose kubelets run, by Node name.
pub(super) type RunningKubelets = Arc<Mutex<BTreeMap<String, RunningKubelet>>>;

#[derive(Debug)]
pub(super) struct RunningKubelet {
    pub(super) task: JoinHandle<()>,
    pub(super) address: String,
}

/// No code panics while it holds the lock, and every change is one step.
pub(super) fn lock(running: &RunningKubelets) -> MutexGuard<'_, BTreeMap<String, RunningKubelet>> {
    running.lock().unwrap_or_else(PoisonError::into_inner)
}
