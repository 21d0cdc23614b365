//! One of two replicas works: leader election by a Lease, as Kubernetes' own controllers do it.
//!
//! Nobody compares clocks. A replica that waits takes the Lease over when it has not seen it change for the Lease's duration; the
//! one that holds it stops when it has not managed to renew it for two thirds of that, measured on its own clock from the moment at
//! which the last renewal that succeeded was sent. So the one has stopped before the other begins.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;
use tracing::{debug, info, warn};

use crate::api::Api;
use crate::error::{ApiError, Kind, gone_is_fine};
use crate::fields::text_at;
use crate::resource::LEASE;

/// Who wants which Lease.
#[derive(Clone)]
pub struct Candidate {
    /// The API server.
    pub api: Api,
    /// Namespace of the Lease.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Name of this replica.
    pub identity: String,
    /// How long the Lease lasts.
    pub duration: Duration,
}

/// What a replica that does not hold the Lease may do.
#[derive(Debug, PartialEq, Eq)]
enum Chance {
    /// Make it: there is none.
    Make,
    /// Take it.
    Take,
    /// Leave it: somebody holds it.
    Leave,
}

/// What is known of the Lease while somebody else holds it.
#[derive(Debug, Default)]
struct Waiting {
    /// The version that was seen last, and when it was seen first.
    seen: Option<(String, Instant)>,
}

impl Waiting {
    /// What may be done about `lease` at `now`.
    fn judge(&mut self, lease: Option<&Value>, identity: &str, duration: Duration, now: Instant) -> Chance {
        let Some(lease) = lease else { return Chance::Make };
        let holder = text_at(lease, "/spec/holderIdentity");
        if holder.is_empty() || holder == identity {
            return Chance::Take;
        }
        let version = text_at(lease, "/metadata/resourceVersion");
        let since = match &self.seen {
            Some((seen, since)) if seen == version => *since,
            _ => {
                self.seen = Some((version.to_owned(), now));
                now
            }
        };
        // The holder may go by a longer duration than ours.
        let theirs = lease.pointer("/spec/leaseDurationSeconds").and_then(Value::as_u64).unwrap_or_default();
        let lasts = duration.max(Duration::from_secs(theirs));
        if now.duration_since(since) >= lasts { Chance::Take } else { Chance::Leave }
    }
}

impl Candidate {
    /// Waits until this replica holds the Lease.
    pub async fn acquire(&self) -> Leadership {
        let mut waiting = Waiting::default();
        let mut told = false;
        loop {
            let sent = Instant::now();
            match self.try_acquire(&mut waiting).await {
                Ok(Some(version)) => {
                    info!(lease = self.name, identity = self.identity, "this replica works from here on");
                    return Leadership { candidate: self.clone(), version, renewed: sent };
                }
                Ok(None) if !told => {
                    info!(lease = self.name, identity = self.identity, "another replica works; waiting for its lease");
                    told = true;
                }
                Ok(None) => {}
                Err(error) => warn!(lease = self.name, %error, "cannot see who works"),
            }
            tokio::time::sleep(self.pause()).await;
        }
    }

    /// The version of the Lease once it is ours.
    async fn try_acquire(&self, waiting: &mut Waiting) -> Result<Option<String>, ApiError> {
        let lease: Option<Value> = gone_is_fine(self.api.get(&self.path()).await)?;
        let written = match waiting.judge(lease.as_ref(), &self.identity, self.duration, Instant::now()) {
            Chance::Leave => return Ok(None),
            Chance::Make => self.api.create(&LEASE.within(&self.namespace), &self.first()).await,
            Chance::Take => self.api.patch(&self.path(), &self.taking(lease.as_ref())).await,
        };
        match written {
            Ok(lease) => Ok(Some(text_at(&lease, "/metadata/resourceVersion").to_owned())),
            // Another replica was faster.
            Err(error) if matches!(error.kind, Kind::Conflict | Kind::AlreadyExists) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn first(&self) -> Value {
        json!({
            "apiVersion": LEASE.api_version(), "kind": LEASE.kind,
            "metadata": { "name": self.name, "namespace": self.namespace },
            "spec": self.held(0),
        })
    }

    fn taking(&self, lease: Option<&Value>) -> Value {
        let of = |pointer: &str| lease.and_then(|lease| lease.pointer(pointer)).cloned();
        let transitions = of("/spec/leaseTransitions").and_then(|count| count.as_u64()).unwrap_or_default();
        json!({ "metadata": { "resourceVersion": of("/metadata/resourceVersion") }, "spec": self.held(transitions + 1) })
    }

    fn held(&self, transitions: u64) -> Value {
        let now = moment();
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
    fn pause(&self) -> Duration {
        self.duration * 2 / 15
    }

    /// How long one renewal may take (Kubernetes: half of its patience), so that one whose answer is lost is not the last.
    fn attempt(&self) -> Duration {
        self.patience() / 2
    }

    /// How long the Lease may go without a renewal before its holder stops.
    fn patience(&self) -> Duration {
        self.duration * 2 / 3
    }
}

/// The Lease, held.
pub struct Leadership {
    candidate: Candidate,
    /// Version of the Lease that we wrote last.
    version: String,
    /// When the last renewal that succeeded was sent.
    renewed: Instant,
}

impl Leadership {
    /// Renews the Lease until that fails for too long or somebody else has it; returns why.
    pub async fn keep(&mut self) -> String {
        loop {
            tokio::time::sleep(self.candidate.pause()).await;
            let left = self.candidate.patience().saturating_sub(self.renewed.elapsed());
            let sent = Instant::now();
            match tokio::time::timeout(left.min(self.candidate.attempt()), self.renew()).await {
                Ok(Ok(version)) => (self.version, self.renewed) = (version, sent),
                Ok(Err(error)) if error.kind == Kind::Conflict => match self.look().await {
                    Ok(()) => {}
                    Err(why) => return why,
                },
                Ok(Err(error)) => debug!(lease = self.candidate.name, %error, "cannot renew the lease"),
                Err(_) => {}
            }
            if self.renewed.elapsed() >= self.candidate.patience() {
                return format!("the lease could not be renewed for {} s", self.renewed.elapsed().as_secs());
            }
        }
    }

    /// Gives the Lease back, so that the other replica need not wait for its end.
    pub async fn release(self) {
        let patch = json!({
            "metadata": { "resourceVersion": self.version },
            "spec": { "holderIdentity": "", "leaseDurationSeconds": 1, "renewTime": moment() },
        });
        if let Err(error) = self.candidate.api.patch(&self.candidate.path(), &patch).await {
            debug!(lease = self.candidate.name, %error, "cannot give the lease back; it runs out by itself");
        }
    }

    async fn renew(&self) -> Result<String, ApiError> {
        let patch = json!({
            "metadata": { "resourceVersion": self.version },
            "spec": { "renewTime": moment() },
        });
        let lease = self.candidate.api.patch(&self.candidate.path(), &patch).await?;
        Ok(text_at(&lease, "/metadata/resourceVersion").to_owned())
    }

    /// Somebody wrote the Lease: whether it is still ours.
    async fn look(&mut self) -> Result<(), String> {
        match self.candidate.api.get::<Value>(&self.candidate.path()).await {
            Ok(lease) if text_at(&lease, "/spec/holderIdentity") == self.candidate.identity => {
                text_at(&lease, "/metadata/resourceVersion").clone_into(&mut self.version);
                Ok(())
            }
            Ok(lease) => Err(format!("{:?} holds the lease", text_at(&lease, "/spec/holderIdentity"))),
            Err(error) if error.kind == Kind::NotFound => Err("the lease is gone".to_owned()),
            Err(_) => Ok(()),
        }
    }
}

/// This moment as Leases write it.
fn moment() -> String {
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
    fn a_lease_is_taken_when_it_has_not_changed_for_its_duration_and_not_before() {
        let (mut waiting, begin) = (Waiting::default(), Instant::now());
        let mut at = |milliseconds: u64, version: &str| {
            let now = begin + Duration::from_millis(milliseconds);
            waiting.judge(Some(&lease("other", version)), "me", DURATION, now)
        };
        assert_eq!(at(0, "1"), Chance::Leave);
        assert_eq!(at(14_999, "1"), Chance::Leave);
        // A renewal begins the count again: 14,999 + 15,000 = 29,999.
        assert_eq!(at(14_999, "2"), Chance::Leave);
        assert_eq!(at(29_998, "2"), Chance::Leave);
        assert_eq!(at(29_999, "2"), Chance::Take);
    }

    #[test]
    fn a_lease_that_is_free_or_was_ours_is_taken_at_once() {
        let now = Instant::now();
        let judge = |lease: Option<&Value>| Waiting::default().judge(lease, "me", DURATION, now);
        assert_eq!(judge(None), Chance::Make);
        assert_eq!(judge(Some(&lease("", "1"))), Chance::Take);
        assert_eq!(judge(Some(&lease("me", "1"))), Chance::Take);
    }

    #[test]
    fn a_holder_that_goes_by_a_longer_duration_is_given_it() {
        let mut other = lease("other", "1");
        other["spec"]["leaseDurationSeconds"] = json!(60);
        let (mut waiting, begin) = (Waiting::default(), Instant::now());
        let mut at = |seconds| waiting.judge(Some(&other), "me", DURATION, begin + Duration::from_secs(seconds));
        assert_eq!((at(0), at(59), at(60)), (Chance::Leave, Chance::Leave, Chance::Take));
    }

    /// A Lease at version 1 that is held on an API server which never answers the renewals named in `lost`, counted from 0.
    fn held(lost: &'static [usize]) -> Leadership {
        let renewals = std::sync::atomic::AtomicUsize::new(0);
        let server = tower::service_fn(move |request: Request<Body>| {
            let renewal = request.method() == Method::PATCH;
            let number = renewals.fetch_add(usize::from(renewal), std::sync::atomic::Ordering::Relaxed);
            async move {
                if renewal && lost.contains(&number) {
                    std::future::pending::<()>().await;
                }
                // Somebody else takes it after the third renewal.
                let status = if renewal && number == 3 { 409 } else { 200 };
                let body = if renewal { lease("me", "2") } else { lease("other", "3") };
                Response::builder().status(status).body(Body::from(body.to_string().into_bytes()))
            }
        });
        let api = Api::new(Client::new(server, "default"));
        let (namespace, name) = ("default".to_owned(), "fleetwright-agent".to_owned());
        let candidate = Candidate { api, namespace, name, identity: "me".to_owned(), duration: DURATION };
        Leadership { candidate, version: "1".to_owned(), renewed: Instant::now() }
    }

    #[tokio::test(start_paused = true)]
    async fn a_renewal_whose_answer_is_lost_is_sent_again_before_the_lease_is_given_up() {
        assert_eq!(held(&[]).keep().await, "\"other\" holds the lease");
        // After 2 s the first is sent, and after another 5 s it is given up; the second is sent 2 s later, at 9 s of 10.
        assert_eq!(held(&[0]).keep().await, "\"other\" holds the lease");
        assert_eq!(held(&[0, 1]).keep().await, "the lease could not be renewed for 10 s");
    }
}
