//! A runtime with threads of its own, beside those of the connections.

use tokio::runtime::{Builder, Handle, Runtime};
use tokio::task::JoinHandle;
#[cfg(target_os = "linux")]
use tracing::warn;

/// A runtime that ends with its value, which a task of another runtime may drop.
#[derive(Debug)]
pub struct BackgroundRuntime {
    handle: Handle,
    runtime: Option<Runtime>,
}

impl BackgroundRuntime {
    /// Starts `threads` threads of this name, which give way by `niceness`, if any.
    ///
    /// # Errors
    /// A thread could not start.
    pub fn start(name: &str, threads: usize, niceness: Option<i32>) -> std::io::Result<Self> {
        let mut builder = Builder::new_multi_thread();
        builder.worker_threads(threads).thread_name(name).enable_all();
        builder.on_thread_start(move || niceness.into_iter().for_each(lower_priority));
        let runtime = builder.build()?;
        Ok(Self { handle: runtime.handle().clone(), runtime: Some(runtime) })
    }

    /// Runs `task` on these threads. Its result is awaited on any thread.
    pub fn spawn<F>(&self, task: F) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        self.handle.spawn(task)
    }
}

impl Drop for BackgroundRuntime {
    /// A runtime must not be awaited by a task of another one.
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// Lowers the priority of the calling thread. Planning works without it.
pub fn lower_priority(niceness: i32) {
    #[cfg(target_os = "linux")]
    if let Err(error) = rustix::process::setpriority_process(Some(rustix::thread::gettid()), niceness) {
        warn!(%error, "cannot lower priority of planning thread");
    }
}
