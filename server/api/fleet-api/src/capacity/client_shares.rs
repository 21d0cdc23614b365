//! How many plans and quotes of one client are in progress at one time, so that no client takes the threads and places of all
//! others. Each replica counts for itself, and what another replica passes on was counted there.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use auth::Client;
use tonic::Status;

use super::threads::RETRY_AFTER;
use api_messages::errors::{Reason, retry_after};

/// What a client has a share of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ShareOf {
    /// Plans, each of which takes a thread for seconds.
    Plans,
    /// Quotes, and holds in the cluster of the best quote.
    Quotes,
}

impl ShareOf {
    /// Requests of one client at one time.
    const fn most(self) -> usize {
        match self {
            Self::Plans => 1,
            // Half of all places.
            Self::Quotes => 8,
        }
    }

    const fn noun(self) -> &'static str {
        match self {
            Self::Plans => "plan",
            Self::Quotes => "quotes and holds",
        }
    }
}

/// Requests in progress, by client. Clients of a server without authentication are one.
#[derive(Debug, Clone, Default)]
pub(crate) struct ClientShares {
    in_progress: Arc<Mutex<BTreeMap<(ShareOf, String), usize>>>,
}

/// A request in progress, until it is dropped.
#[derive(Debug)]
pub(crate) struct RequestInProgress {
    of: Option<(ShareOf, String)>,
    shares: ClientShares,
}

impl ClientShares {
    /// Begins a request of `client`.
    ///
    /// # Errors
    /// `RESOURCE_EXHAUSTED` while the client has as many requests in progress as it may have.
    pub(crate) fn enter(&self, of: ShareOf, client: Option<&Client>) -> Result<RequestInProgress, Status> {
        if client.is_some_and(|client| client.is_replica) {
            return Ok(RequestInProgress { of: None, shares: self.clone() });
        }
        let name = client.map(|client| client.name.clone()).unwrap_or_default();
        let mut in_progress = self.lock();
        let count = in_progress.entry((of, name.clone())).or_default();
        if *count >= of.most() {
            let message = format!("{} {} of this client in progress, all that it may have", of.most(), of.noun());
            return Err(retry_after(Reason::TooManyRequests, message, RETRY_AFTER));
        }
        *count += 1;
        drop(in_progress);
        Ok(RequestInProgress { of: Some((of, name)), shares: self.clone() })
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<(ShareOf, String), usize>> {
        self.in_progress.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for RequestInProgress {
    fn drop(&mut self) {
        let Some(key) = self.of.take() else { return };
        let mut in_progress = self.shares.lock();
        let left = in_progress.get(&key).map_or(0, |count| count.saturating_sub(1));
        if left == 0 {
            in_progress.remove(&key);
        } else {
            in_progress.insert(key, left);
        }
    }
}

#[cfg(test)]
mod tests {
    use auth::cluster_access::ClusterAccess;
    use auth::{ClientQuota, Scope};
    use tonic::Code;

    use super::*;

    fn client(name: &str, is_replica: bool) -> Client {
        let (quota, clusters) = (ClientQuota::default(), ClusterAccess::all());
        Client { name: name.to_owned(), scope: Scope::Plan, quota, clusters, is_replica }
    }

    #[test]
    fn a_client_has_one_plan_at_a_time_and_delays_no_other() {
        let shares = ClientShares::default();
        let first = shares.enter(ShareOf::Plans, Some(&client("a", false))).expect("the first one");
        let refused = shares.enter(ShareOf::Plans, Some(&client("a", false))).expect_err("the second one");
        assert_eq!(refused.code(), Code::ResourceExhausted);
        let _other = shares.enter(ShareOf::Plans, Some(&client("b", false))).expect("another client");
        let _quote = shares.enter(ShareOf::Quotes, Some(&client("a", false))).expect("a quote");
        drop(first);
        assert!(shares.enter(ShareOf::Plans, Some(&client("a", false))).is_ok());
        // Those of one replica are of several clients.
        let _passed = shares.enter(ShareOf::Plans, Some(&client("replica", true))).expect("one");
        assert!(shares.enter(ShareOf::Plans, Some(&client("replica", true))).is_ok());
        let _local = shares.enter(ShareOf::Plans, None).expect("without authentication");
        assert!(shares.enter(ShareOf::Plans, None).is_err());
    }
}
