//! A runtime with threads of its own, beside those of the connections.

#[cfg(target_os = "linux")]
use thread_priority::{
    NormalThreadSchedulePolicy, ThreadPriority, ThreadSchedulePolicy, set_thread_priority_and_policy, thread_native_id,
};
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
    /// Starts `threads` threads of this name, at a lower priority, if any is given.
    ///
    /// # Errors
    /// A thread could not start.
    pub fn start(name: &str, threads: usize, lower: Option<Priority>) -> std::io::Result<Self> {
        let mut builder = Builder::new_multi_thread();
        builder.worker_threads(threads).thread_name(name).enable_all();
        builder.on_thread_start(move || lower.into_iter().for_each(lower_priority));
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

/// A priority below that of the threads of connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Priority {
    /// The niceness of the thread. The thread shares the processors, and may keep one for some milliseconds.
    Niceness(i32),
    /// The scheduling class idle: any other thread that wakes up takes the processor at once.
    Idle,
}

/// Lowers the priority of the calling thread. Its work is done without it, too.
pub fn lower_priority(to: Priority) {
    #[cfg(target_os = "linux")]
    if let Err(error) = try_to_lower_priority(to) {
        warn!(%error, ?to, "cannot lower priority of thread");
    }
}

#[cfg(target_os = "linux")]
fn try_to_lower_priority(to: Priority) -> std::io::Result<()> {
    match to {
        Priority::Niceness(niceness) => {
            Ok(rustix::process::setpriority_process(Some(rustix::thread::gettid()), niceness)?)
        }
        Priority::Idle => {
            let idle = ThreadSchedulePolicy::Normal(NormalThreadSchedulePolicy::Idle);
            set_thread_priority_and_policy(thread_native_id(), ThreadPriority::Min, idle).map_err(std::io::Error::other)
        }
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn threads_of_a_runtime_have_the_priority_that_is_given() {
        // Fields 19 and 41 of proc_pid_stat(5); class 5 is SCHED_IDLE.
        let niceness_and_class = |priority| {
            let runtime = BackgroundRuntime::start("priority", 1, priority).expect("a thread starts");
            let read = runtime.spawn(async { std::fs::read_to_string("/proc/thread-self/stat") });
            let stat = Handle::block_on(&runtime.handle, read).expect("the task ends").expect("the file is readable");
            let after_name = stat.rsplit_once(") ").map(|(_, rest)| rest.split(' ').collect::<Vec<_>>());
            after_name.map(|fields| (fields[16].to_owned(), fields[38].to_owned()))
        };
        let shown = |niceness: &str, class: &str| Some((niceness.to_owned(), class.to_owned()));
        assert_eq!(niceness_and_class(Some(Priority::Niceness(19))), shown("19", "0"));
        assert_eq!(niceness_and_class(Some(Priority::Idle)).map(|(_, class)| class), Some("5".to_owned()));
    }
}
