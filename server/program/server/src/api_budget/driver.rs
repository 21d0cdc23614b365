//! Takes the tokens of one bucket for the calls of this process, while any wait.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use api_budget::{Bucket, Limit};
use model::PriorityLane;
use store::api_budget::{ThrottledBucket, TokenGrant, TokenRequest, WaitingCalls};
use store::lease::Scope;
use store::{Store, clock};
use tokio::sync::{Notify, oneshot};
use tokio::time::{Instant, sleep, timeout};
use tracing::warn;

use super::queue::CallQueue;

/// A store that takes longer than this has failed: calls do not wait for it.
const STORE_TIMEOUT: Duration = Duration::from_secs(2);

/// How long tokens come from this process after the store has failed.
const LOCAL_FOR: Duration = Duration::from_secs(5);

/// How long other replicas count the waiting calls of this one, unless it asks again. It asks every second.
const WAITING_EXPIRES: Duration = Duration::from_secs(5);

/// Interval of log lines about one bucket.
const LOG_INTERVAL: Duration = Duration::from_secs(60);

/// What all buckets of a process share.
#[derive(Clone)]
pub(super) struct SharedStore {
    pub(super) store: Arc<dyn Store>,
    pub(super) scope: Scope,
    pub(super) process: String,
}

/// A bucket, and the calls that wait for it here.
#[derive(Debug)]
pub(super) struct BucketDriver {
    name: String,
    limit: Limit,
    state: Mutex<DriverState>,
    /// A call arrived that is more urgent than those that waited.
    urgent: Notify,
}

#[derive(Debug, Default)]
struct DriverState {
    calls: CallQueue,
    is_running: bool,
    /// The bucket while the store fails, and until when it is not asked.
    local: Option<(Bucket, Instant)>,
    /// The learned rate, as the store said last.
    rate: Option<i64>,
    throttle_logged: Option<Instant>,
    failure_logged: Option<Instant>,
}

impl BucketDriver {
    pub(super) fn new(name: &str, limit: Limit) -> Self {
        Self { name: name.to_owned(), limit, state: Mutex::default(), urgent: Notify::new() }
    }

    fn state(&self) -> MutexGuard<'_, DriverState> {
        // Every critical section leaves the state valid, so a poisoned lock holds valid data.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a call; the receiver gets its token. Tokens are taken by one task for all calls that wait.
    pub(super) fn add(self: &Arc<Self>, lane: PriorityLane, shared: &SharedStore) -> oneshot::Receiver<()> {
        let mut state = self.state();
        let (admitted, is_urgent) = state.calls.add(lane, Instant::now());
        let was_running = std::mem::replace(&mut state.is_running, true);
        drop(state);
        if !was_running {
            tokio::spawn(Arc::clone(self).run(shared.clone()));
        } else if is_urgent {
            self.urgent.notify_one();
        }
        admitted
    }

    /// Asks for tokens until no call waits.
    async fn run(self: Arc<Self>, shared: SharedStore) {
        let mut is_counted = false;
        loop {
            let waiting = self.state().calls.waiting(Instant::now());
            let is_idle = waiting.iter().all(|calls| calls.count == 0);
            // Calls that were given up still count at the other replicas.
            if !is_idle || is_counted {
                let grant = self.ask(waiting, &shared).await;
                self.state().calls.admit(grant.tokens);
                is_counted = grant.ask_again.is_some();
                if let Some(wait) = grant.ask_again {
                    tokio::select! {
                        () = sleep(wait) => {}
                        () = self.urgent.notified() => {}
                    }
                }
                continue;
            }
            let mut state = self.state();
            if state.calls.is_empty() {
                state.is_running = false;
                return;
            }
        }
    }

    async fn ask(&self, waiting: [WaitingCalls; PriorityLane::ALL.len()], shared: &SharedStore) -> TokenGrant {
        let request = TokenRequest {
            bucket: self.name.clone(),
            limit: self.limit,
            process: shared.process.clone(),
            waiting,
            expires_in: WAITING_EXPIRES,
        };
        let is_local = self.state().local.as_ref().is_some_and(|(_, until)| Instant::now() < *until);
        if !is_local {
            match timeout(STORE_TIMEOUT, shared.store.take_call_tokens(&shared.scope, &request)).await {
                Ok(Ok(grant)) => {
                    let mut state = self.state();
                    (state.local, state.rate) = (None, Some(grant.rate));
                    return grant;
                }
                Ok(Err(error)) => self.begin_local(&error.to_string()),
                Err(_) => self.begin_local("the store does not answer"),
            }
        }
        let (mut state, now) = (self.state(), clock::now());
        let new = || (Bucket::new(self.limit, now), Instant::now());
        request.take_from(&mut state.local.get_or_insert_with(new).0, &[], now).0
    }

    /// Takes tokens from a bucket of this process at the learned rate, until the store is asked again.
    fn begin_local(&self, error: &str) {
        let mut state = self.state();
        let rate = state.rate.unwrap_or(self.limit.refill());
        let new = || Bucket::new(self.limit, clock::now()).with_rate(rate, self.limit);
        let bucket = state.local.take().map_or_else(new, |(bucket, _)| bucket);
        state.local = Some((bucket, Instant::now() + LOCAL_FOR));
        if is_log_due(&mut state.failure_logged) {
            warn!(bucket = self.name, rate_millis = rate, %error, "API budget not shared; limiting calls of this replica alone");
        }
    }

    /// Records that EC2 throttled a call of `action`.
    pub(super) async fn record_throttle(&self, action: &str, shared: &SharedStore) {
        let written = shared.store.record_throttle(&shared.scope, &self.name, self.limit);
        let written = timeout(STORE_TIMEOUT, written).await;
        let mut state = self.state();
        let local = state.local.as_mut().map(|(bucket, _)| {
            let is_halved = bucket.record_throttle(self.limit, clock::now());
            ThrottledBucket { rate: bucket.row().rate, is_halved }
        });
        let Some(ThrottledBucket { rate, is_halved }) = written.ok().and_then(Result::ok).or(local) else { return };
        state.rate = Some(rate);
        if is_halved && is_log_due(&mut state.throttle_logged) {
            warn!(
                action,
                bucket = self.name,
                calls_in_1000_s = rate,
                remedy = "if this lasts, ask AWS for a higher request rate in this account and region, or look who else calls",
                "EC2 throttled a call; rate halved for all replicas"
            );
        }
    }
}

/// Whether a log line is due; if so, the next one is due after [`LOG_INTERVAL`].
fn is_log_due(last: &mut Option<Instant>) -> bool {
    let now = Instant::now();
    let is_due = last.is_none_or(|last| now.saturating_duration_since(last) >= LOG_INTERVAL);
    if is_due {
        *last = Some(now);
    }
    is_due
}
