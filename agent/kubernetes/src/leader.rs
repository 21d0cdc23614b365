//! Leader election by a Lease, as in Kubernetes' own controllers: one of two replicas is active.
//!
//! Clocks are not compared. A waiting replica acquires the Lease when it has not observed a change
//! for the Lease's duration. The holder stops when it has not renewed for two thirds of the
//! duration, measured on its own clock from the time at which the last successful renewal was sent.
//! So the holder stops before another replica starts.

use std::time::Duration;

use agent::link::backoff::Backoff;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::Instant;
use tracing::{debug, info, warn};

use crate::api::Api;
use crate::error::{ApiError, ErrorKind, ok_if_not_found};
use crate::fields::text_at;
use crate::lease_access;
use crate::resource::LEASE;

/// Longest wait between attempts to acquire a Lease that the API server forbids, in milliseconds:
/// only an operator can change that.
const MAX_FORBIDDEN_WAIT_MS: u64 = 60_000;

/// A replica and the Lease that it competes for.
#[derive(Clone)]
pub struct Candidate {
    pub api: Api,
    pub namespace: String,
    pub name: String,
    /// Unique name of this replica, written as the holder.
    pub identity: String,
    pub duration: Duration,
}

/// What a replica that does not hold the Lease may do.
#[derive(Debug, PartialEq, Eq)]
enum LeaseAction {
    /// Create the Lease: it does not exist.
    Create,
    Acquire,
    /// Wait: another replica holds it.
    Wait,
}

/// Observes the Lease while another replica holds it.
#[derive(Debug, Default)]
struct LeaseObserver {
    /// The last observed version, and when it was first observed.
    seen: Option<(String, Instant)>,
    holder: String,
}

impl LeaseObserver {
    /// The replica that was observed as the holder; empty without one.
    fn holder(&self) -> &str {
        &self.holder
    }

    /// What may be done about `lease` at `now`.
    fn next_action(&mut self, lease: Option<&Value>, identity: &str, duration: Duration, now: Instant) -> LeaseAction {
        let Some(lease) = lease else { return LeaseAction::Create };
        let holder = text_at(lease, "/spec/holderIdentity");
        if holder.is_empty() || holder == identity {
            return LeaseAction::Acquire;
        }
        let version = text_at(lease, "/metadata/resourceVersion");
        let since = match &self.seen {
            Some((seen, since)) if seen == version => *since,
            _ => {
                self.seen = Some((version.to_owned(), now));
                holder.clone_into(&mut self.holder);
                now
            }
        };
        // The holder may have a longer lease duration.
        let theirs = lease.pointer("/spec/leaseDurationSeconds").and_then(Value::as_u64).unwrap_or_default();
        let lasts = duration.max(Duration::from_secs(theirs));
        if now.duration_since(since) >= lasts { LeaseAction::Acquire } else { LeaseAction::Wait }
    }
}

impl Candidate {
    /// Waits until this replica holds the Lease.
    pub async fn acquire_lease(&self) -> Leadership {
        let mut observer = LeaseObserver::default();
        let mut logged = false;
        let mut backoff = Backoff::with_longest(MAX_FORBIDDEN_WAIT_MS, 0);
        loop {
            let sent = Instant::now();
            let mut wait = self.retry_period();
            match self.try_acquire_lease(&mut observer).await {
                Ok(Some(version)) => {
                    let (lease, namespace, identity) = (&self.name, &self.namespace, &self.identity);
                    info!(lease, namespace, identity, "leader lease acquired");
                    let unreachable = watch::Sender::new(false);
                    return Leadership { candidate: self.clone(), version, renewed: sent, unreachable };
                }
                Ok(None) => {
                    backoff.reset();
                    if !std::mem::replace(&mut logged, true) {
                        let (lease, namespace, holder) = (&self.name, &self.namespace, observer.holder());
                        info!(lease, namespace, holder, "waiting for the leader lease");
                    }
                }
                Err(error) => wait = self.wait_after_error(&error, &mut backoff),
            }
            tokio::time::sleep(wait).await;
        }
    }

    /// Logs an error of an attempt; returns the wait before the next one. Other errors than a
    /// missing permission are expected to end by themselves.
    fn wait_after_error(&self, error: &ApiError, backoff: &mut Backoff) -> Duration {
        let longest = if error.kind == ErrorKind::Forbidden { Duration::MAX } else { self.duration };
        let wait = Duration::from_millis(backoff.next_wait_ms()).min(longest).max(self.retry_period());
        let (lease, namespace) = (&self.name, &self.namespace);
        let (remedy, retry_in_ms) = (lease_access::remedy(namespace, lease, error), wait.as_millis());
        warn!(lease, namespace, %error, remedy, retry_in_ms, "cannot acquire the leader lease; retrying");
        wait
    }

    /// The version of the Lease once it is acquired.
    async fn try_acquire_lease(&self, observer: &mut LeaseObserver) -> Result<Option<String>, ApiError> {
        let lease: Option<Value> = ok_if_not_found(self.api.get(&self.path()).await)?;
        let written = match observer.next_action(lease.as_ref(), &self.identity, self.duration, Instant::now()) {
            LeaseAction::Wait => return Ok(None),
            LeaseAction::Create => self.api.create(&LEASE.within(&self.namespace), &self.new_lease()).await,
            LeaseAction::Acquire => self.api.patch(&self.path(), &self.acquire_patch(lease.as_ref())).await,
        };
        match written {
            Ok(lease) => Ok(Some(text_at(&lease, "/metadata/resourceVersion").to_owned())),
            // Another replica was faster.
            Err(error) if matches!(error.kind, ErrorKind::Conflict | ErrorKind::AlreadyExists) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn new_lease(&self) -> Value {
        json!({
            "apiVersion": LEASE.api_version(), "kind": LEASE.kind,
            "metadata": { "name": self.name, "namespace": self.namespace },
            "spec": self.lease_spec(0),
        })
    }

    fn acquire_patch(&self, lease: Option<&Value>) -> Value {
        let of = |pointer: &str| lease.and_then(|lease| lease.pointer(pointer)).cloned();
        let transitions = of("/spec/leaseTransitions").and_then(|count| count.as_u64()).unwrap_or_default();
        json!({ "metadata": { "resourceVersion": of("/metadata/resourceVersion") }, "spec": self.lease_spec(transitions + 1) })
    }

    fn lease_spec(&self, transitions: u64) -> Value {
        let now = micro_time();
        json!({
            "holderIdentity": self.identity,
            "leaseDurationSeconds": self.duration.as_secs().max(1),
            "acquireTime": now,
            "renewTime": now,
            "leaseTransitions": transitions,
        })
    }

    fn path(&self) -> String {
        LEASE.one(&self.namespace, &self.name)
    }

    /// Time between two attempts, and between two renewals (Kubernetes: 2 s for a Lease of 15 s).
    fn retry_period(&self) -> Duration {
        self.duration * 2 / 15
    }

    /// Timeout of one renewal (Kubernetes: half of the renew deadline), so that a lost response
    /// leaves time for another attempt.
    fn renew_timeout(&self) -> Duration {
        self.renew_deadline() / 2
    }

    /// How long the Lease may remain without a renewal before its holder stops.
    fn renew_deadline(&self) -> Duration {
        self.duration * 2 / 3
    }
}

/// Why a replica does not hold the Lease any more.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LeaseLoss {
    /// Another replica holds it.
    #[error("replica {0:?} holds the lease")]
    HeldBy(String),
    /// It was deleted.
    #[error("the lease was deleted")]
    Gone,
    #[error("the lease could not be renewed for {seconds} s")]
    NotRenewed {
        /// Time since the last renewal that succeeded.
        seconds: u64,
    },
}

/// The Lease, held.
pub struct Leadership {
    candidate: Candidate,
    /// Version of the Lease after this replica's last write.
    version: String,
    /// When the last renewal that succeeded was sent.
    renewed: Instant,
    /// Whether the API server did not answer the last renewal.
    unreachable: watch::Sender<bool>,
}

impl Leadership {
    /// Whether the API server does not answer renewals. The first renewal without an answer precedes the loss of the Lease by
    /// the time of another attempt: long enough for the server to receive it before the agent ends its stream.
    #[must_use]
    pub fn api_server_unreachable(&self) -> watch::Receiver<bool> {
        self.unreachable.subscribe()
    }

    /// Renews the Lease until that fails for too long or another replica holds it; returns the
    /// reason.
    pub async fn hold_lease(&mut self) -> LeaseLoss {
        loop {
            tokio::time::sleep(self.candidate.retry_period()).await;
            let left = self.candidate.renew_deadline().saturating_sub(self.renewed.elapsed());
            let sent = Instant::now();
            let renewed = tokio::time::timeout(left.min(self.candidate.renew_timeout()), self.renew_lease()).await;
            let unanswered = match &renewed {
                Ok(Ok(_)) => false,
                Ok(Err(error)) => matches!(error.kind, ErrorKind::Unreachable | ErrorKind::Server),
                Err(_) => true,
            };
            self.unreachable.send_if_modified(|known| std::mem::replace(known, unanswered) != unanswered);
            match renewed {
                Ok(Ok(version)) => (self.version, self.renewed) = (version, sent),
                Ok(Err(error)) if error.kind == ErrorKind::Conflict => match self.verify_holder().await {
                    Ok(()) => {}
                    Err(why) => return why,
                },
                Ok(Err(error)) => debug!(lease = self.candidate.name, %error, "cannot renew the leader lease"),
                Err(_) => {}
            }
            if self.renewed.elapsed() >= self.candidate.renew_deadline() {
                return LeaseLoss::NotRenewed { seconds: self.renewed.elapsed().as_secs() };
            }
        }
    }

    /// Releases the Lease, so that another replica need not wait for its expiry.
    pub async fn release_lease(self) {
        let patch = json!({
            "metadata": { "resourceVersion": self.version },
            "spec": { "holderIdentity": "", "leaseDurationSeconds": 1, "renewTime": micro_time() },
        });
        if let Err(error) = self.candidate.api.patch(&self.candidate.path(), &patch).await {
            debug!(lease = self.candidate.name, %error, "cannot release the leader lease; it will expire");
        }
    }

    async fn renew_lease(&self) -> Result<String, ApiError> {
        let patch = json!({
            "metadata": { "resourceVersion": self.version },
            "spec": { "renewTime": micro_time() },
        });
        let lease = self.candidate.api.patch(&self.candidate.path(), &patch).await?;
        Ok(text_at(&lease, "/metadata/resourceVersion").to_owned())
    }

    /// After a conflicting write: whether this replica still holds the Lease.
    async fn verify_holder(&mut self) -> Result<(), LeaseLoss> {
        match self.candidate.api.get::<Value>(&self.candidate.path()).await {
            Ok(lease) if text_at(&lease, "/spec/holderIdentity") == self.candidate.identity => {
                text_at(&lease, "/metadata/resourceVersion").clone_into(&mut self.version);
                Ok(())
            }
            Ok(lease) => Err(LeaseLoss::HeldBy(text_at(&lease, "/spec/holderIdentity").to_owned())),
            Err(error) if error.kind == ErrorKind::NotFound => Err(LeaseLoss::Gone),
            Err(_) => Ok(()),
        }
    }
}

/// The present time in the format of Leases (MicroTime).
fn micro_time() -> String {
    jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    use http::{Method, Request, Response};
    use kube::Client;
    use kube::client::Body;

    const DURATION: Duration = Duration::from_secs(15);

    fn lease(holder: &str, version: &str) -> Value {
        json!({
            "metadata": { "resourceVersion": version },
            "spec": { "holderIdentity": holder, "leaseDurationSeconds": 15 },
        })
    }

    #[test]
    fn a_lease_is_acquired_when_it_has_not_changed_for_its_duration_and_not_before() {
        let (mut observer, begin) = (LeaseObserver::default(), Instant::now());
        let mut at = |milliseconds: u64, version: &str| {
            let now = begin + Duration::from_millis(milliseconds);
            observer.next_action(Some(&lease("other", version)), "me", DURATION, now)
        };
        assert_eq!(at(0, "1"), LeaseAction::Wait);
        assert_eq!(at(14_999, "1"), LeaseAction::Wait);
        // A renewal begins the count again: 14,999 + 15,000 = 29,999.
        assert_eq!(at(14_999, "2"), LeaseAction::Wait);
        assert_eq!(at(29_998, "2"), LeaseAction::Wait);
        assert_eq!(at(29_999, "2"), LeaseAction::Acquire);
    }

    #[test]
    fn a_released_lease_or_our_own_is_acquired_at_once() {
        let now = Instant::now();
        let next_action = |lease: Option<&Value>| LeaseObserver::default().next_action(lease, "me", DURATION, now);
        assert_eq!(next_action(None), LeaseAction::Create);
        assert_eq!(next_action(Some(&lease("", "1"))), LeaseAction::Acquire);
        assert_eq!(next_action(Some(&lease("me", "1"))), LeaseAction::Acquire);
    }

    #[test]
    fn a_holder_with_a_longer_duration_is_awaited_for_it() {
        let mut other = lease("other", "1");
        other["spec"]["leaseDurationSeconds"] = json!(60);
        let (mut observer, begin) = (LeaseObserver::default(), Instant::now());
        let mut at = |seconds| observer.next_action(Some(&other), "me", DURATION, begin + Duration::from_secs(seconds));
        assert_eq!((at(0), at(59), at(60)), (LeaseAction::Wait, LeaseAction::Wait, LeaseAction::Acquire));
    }

    /// A Lease at version 1, held on an API server that does not answer the renewals in `lost`,
    /// counted from 0.
    fn held_lease(lost: &'static [usize]) -> Leadership {
        let renewals = std::sync::atomic::AtomicUsize::new(0);
        let server = tower::service_fn(move |request: Request<Body>| {
            let renewal = request.method() == Method::PATCH;
            let number = renewals.fetch_add(usize::from(renewal), std::sync::atomic::Ordering::Relaxed);
            async move {
                if renewal && lost.contains(&number) {
                    std::future::pending::<()>().await;
                }
                // Another holder acquires it after the third renewal.
                let status = if renewal && number == 3 { 409 } else { 200 };
                let body = if renewal { lease("me", "2") } else { lease("other", "3") };
                Response::builder().status(status).body(Body::from(body.to_string().into_bytes()))
            }
        });
        let api = Api::new(Client::new(server, "default"));
        let (namespace, name) = ("default".to_owned(), "fleetwright-agent".to_owned());
        let candidate = Candidate { api, namespace, name, identity: "me".to_owned(), duration: DURATION };
        Leadership {
            candidate,
            version: "1".to_owned(),
            renewed: Instant::now(),
            unreachable: watch::Sender::new(false),
        }
    }

    /// The number of attempts within ten minutes on an API server that answers all with `status`.
    async fn attempts(status: u16) -> usize {
        let count = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
        let counted = std::sync::Arc::clone(&count);
        let server = tower::service_fn(move |_: Request<Body>| {
            counted.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            async move { Response::builder().status(status).body(Body::from(b"{}".to_vec())) }
        });
        let api = Api::new(Client::new(server, "default"));
        let (namespace, name) = ("default".to_owned(), "fleetwright-agent".to_owned());
        let candidate = Candidate { api, namespace, name, identity: "me".to_owned(), duration: DURATION };
        let acquired = tokio::time::timeout(Duration::from_secs(600), candidate.acquire_lease()).await;
        assert!(acquired.is_err(), "no lease is acquired");
        count.load(std::sync::atomic::Ordering::Relaxed)
    }

    #[tokio::test(start_paused = true)]
    async fn a_forbidden_lease_is_tried_every_minute_at_last_and_a_failing_one_within_its_duration() {
        // Waits before jitter: four of 2 s (0.25 to 2 s, at least the retry period), 4, 8, 16, 32, then
        // 60 s each; jitter halves all but the first four at most. The eight take 38 to 68 s, and the
        // others 30 to 60 s: 8 to 18 fit into the rest of 600 s.
        let forbidden = attempts(403).await;
        assert!((1 + 8 + 8..=1 + 8 + 18).contains(&forbidden), "{forbidden}");
        // No wait exceeds 15 s: at least 600 / 15 attempts; every 2 s there would be 300.
        let failing = attempts(503).await;
        assert!((40..150).contains(&failing), "{failing}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_renewal_whose_answer_is_lost_is_sent_again_before_the_lease_is_given_up() {
        let other = || LeaseLoss::HeldBy("other".to_owned());
        assert_eq!(held_lease(&[]).hold_lease().await, other());
        // The first is sent after 2 s and times out 5 s later; the second is sent 2 s after that,
        // at 9 s of 10.
        assert_eq!(held_lease(&[0]).hold_lease().await, other());
        assert_eq!(held_lease(&[0, 1]).hold_lease().await, LeaseLoss::NotRenewed { seconds: 10 });
    }

    #[tokio::test(start_paused = true)]
    async fn an_api_server_that_does_not_answer_is_noted_before_the_lease_is_lost_and_until_it_answers() {
        let mut lost = held_lease(&[0, 1]);
        let (begin, mut unreachable) = (Instant::now(), lost.api_server_unreachable());
        let noted = tokio::spawn(async move {
            unreachable.changed().await.expect("the lease is held");
            (*unreachable.borrow_and_update(), begin.elapsed().as_secs())
        });
        assert_eq!(lost.hold_lease().await, LeaseLoss::NotRenewed { seconds: 10 });
        // The first renewal is sent after 2 s and times out 5 s later, 3 s before the Lease is lost.
        assert_eq!(noted.await.expect("a status"), (true, 7));
        assert!(*lost.api_server_unreachable().borrow());
        // The second renewal is answered; a conflict is an answer too.
        let mut taken = held_lease(&[0]);
        assert_eq!(taken.hold_lease().await, LeaseLoss::HeldBy("other".to_owned()));
        assert!(!*taken.api_server_unreachable().borrow());
    }
}
