//! What the calls of one command have in common.
//!
//! A command makes several calls of the cloud: a launch creates launch templates first, a termination looks up the
//! instance's owner. Each may wait for its token, and each is checked again when it has one: the lease of the cluster may
//! have ended meanwhile. The context is that of the task, because the port to the cloud knows neither leases nor limits.

use std::fmt;
use std::sync::Arc;

use model::PriorityLane;
use tokio::time::Instant;

tokio::task_local! {
    static CONTEXT: CallContext;
}

/// How urgent calls are, and until when they may be sent.
#[derive(Clone)]
pub struct CallContext {
    lane: PriorityLane,
    give_up_at: Instant,
    may_send: Option<Arc<dyn Fn() -> bool + Send + Sync>>,
}

impl fmt::Debug for CallContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallContext")
            .field("lane", &self.lane)
            .field("give_up_at", &self.give_up_at)
            .finish_non_exhaustive()
    }
}

impl CallContext {
    /// Calls of `lane` that wait for a token until `give_up_at`.
    #[must_use]
    pub fn new(lane: PriorityLane, give_up_at: Instant) -> Self {
        Self { lane, give_up_at, may_send: None }
    }

    /// These calls, each of which is sent only if `may_send` when it has its token.
    #[must_use]
    pub fn only_if(self, may_send: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        Self { may_send: Some(Arc::new(may_send)), ..self }
    }

    #[must_use]
    pub fn lane(&self) -> PriorityLane {
        self.lane
    }

    /// When a call without a token is given up.
    #[must_use]
    pub fn give_up_at(&self) -> Instant {
        self.give_up_at
    }

    /// Whether a call may be sent now.
    #[must_use]
    pub fn may_send(&self) -> bool {
        self.may_send.as_ref().is_none_or(|may_send| may_send())
    }

    /// The context of the current task, if it is in one.
    #[must_use]
    pub fn current() -> Option<Self> {
        CONTEXT.try_with(Clone::clone).ok()
    }
}

/// Runs `calls` in `context`.
pub async fn within<F: Future>(context: CallContext, calls: F) -> F::Output {
    CONTEXT.scope(context, calls).await
}
