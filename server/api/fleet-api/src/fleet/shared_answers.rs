//! Answers that several clients get and that are made once: a dashboard on a wall, and twenty people after an alert.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use auth::cluster_access::ClusterAccess;
use fleetwright_proto::v1;
use prost::Message;
use tokio::sync::Mutex;
use tokio::time::Instant;
use tonic::Status;

use super::shared_messages::SharedMessages;

/// Maximum age of problems that another client has asked for.
const MAX_AGE: Duration = Duration::from_millis(250);

/// Maximum age of sums of costs that another client has asked for. They are written every half hour.
const MAX_AGE_OF_SPEND: Duration = Duration::from_secs(10);

/// Reports that are kept: a view of the dashboard for each.
const REPORTS: usize = 32;

#[derive(Default)]
pub struct SharedAnswers {
    pub(super) messages: SharedMessages,
    pub(super) problems: SharedProblems,
    pub(super) spend: SharedReports<v1::ComputeSpendResponse>,
    pub(super) savings: SharedReports<v1::ComputeSavingsResponse>,
}

/// The latest reports by request. The database sums many rows for each, one report at a time.
#[derive(Default)]
pub(super) struct SharedReports<R>(Mutex<VecDeque<(ReportKey, Instant, R)>>);

/// A request as bytes, and the clusters that its client may see.
type ReportKey = (Vec<u8>, ClusterAccess);

impl<R: Clone> SharedReports<R> {
    /// The report for this request of clients with this access, which `read` reads if it is old.
    ///
    /// # Errors
    /// That of `read`.
    pub(super) async fn get_or_read(
        &self,
        request: &impl Message,
        clusters: &ClusterAccess,
        read: impl Future<Output = Result<R, Status>>,
    ) -> Result<R, Status> {
        let key = (request.encode_to_vec(), clusters.clone());
        let mut kept = self.0.lock().await;
        kept.retain(|(_, read_at, _)| read_at.elapsed() < MAX_AGE_OF_SPEND);
        if let Some((_, _, report)) = kept.iter().find(|(of, _, _)| *of == key) {
            return Ok(report.clone());
        }
        let read_at = Instant::now();
        let report = read.await?;
        kept.push_back((key, read_at, report.clone()));
        if kept.len() > REPORTS {
            kept.pop_front();
        }
        Ok(report)
    }
}

/// Problems, and names of the clusters that are missing.
pub(super) struct FoundProblems {
    pub(super) problems: Vec<v1::Problem>,
    /// With one row for each cause, and for the same problem of several resources.
    pub(super) grouped: Vec<v1::Problem>,
    pub(super) unreachable: Vec<String>,
}

/// The latest problems of the fleet, and when they began to be read.
#[derive(Default)]
pub(super) struct SharedProblems(Mutex<Option<(Instant, Arc<FoundProblems>)>>);

impl SharedProblems {
    /// The latest problems, which `find` finds if they are old. Clients that ask meanwhile wait for the same ones.
    ///
    /// # Errors
    /// That of `find`.
    pub(super) async fn get_or_find(
        &self,
        find: impl Future<Output = Result<FoundProblems, Status>>,
    ) -> Result<Arc<FoundProblems>, Status> {
        let mut latest = self.0.lock().await;
        if let Some((begun, found)) = &*latest
            && begun.elapsed() < MAX_AGE
        {
            return Ok(Arc::clone(found));
        }
        let begun = Instant::now();
        let found = Arc::new(find.await?);
        *latest = Some((begun, Arc::clone(&found)));
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn problems_are_found_once_for_clients_that_ask_at_one_time() {
        let (shared, count) = (SharedProblems::default(), Cell::new(0));
        let ask = || {
            shared.get_or_find(async {
                count.set(count.get() + 1);
                tokio::time::sleep(Duration::from_millis(100)).await;
                Ok(FoundProblems {
                    problems: Vec::new(),
                    grouped: Vec::new(),
                    unreachable: vec![count.get().to_string()],
                })
            })
        };
        let (one, other) = futures::try_join!(ask(), ask()).unwrap();
        assert_eq!((&one.unreachable, count.get()), (&vec!["1".to_owned()], 1));
        assert!(Arc::ptr_eq(&one, &other));
        // A quarter of a second after they began to be read.
        tokio::time::advance(Duration::from_millis(149)).await;
        assert_eq!(ask().await.unwrap().unreachable, ["1"]);
        tokio::time::advance(Duration::from_millis(1)).await;
        assert_eq!(ask().await.unwrap().unreachable, ["2"]);
        let failed = shared.get_or_find(async { Err(Status::unavailable("no store")) });
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(failed.await.err().map(|status| status.code()), Some(tonic::Code::Unavailable));
        assert_eq!(ask().await.unwrap().unreachable, ["3"], "a failure is not kept");
    }
    #[tokio::test(start_paused = true)]
    async fn a_report_is_read_once_for_the_same_request_in_ten_seconds() {
        let (shared, count) = (SharedReports::<u32>::default(), Cell::new(0));
        let ask = |parent: &str| {
            let request = v1::ComputeSpendRequest { parent: parent.to_owned(), ..Default::default() };
            let (shared, count) = (&shared, &count);
            async move {
                let read = async {
                    count.set(count.get() + 1);
                    Ok(count.get())
                };
                shared.get_or_read(&request, &ClusterAccess::all(), read).await.unwrap()
            }
        };
        assert_eq!((ask("").await, ask("").await, ask("clusters/a").await, ask("").await), (1, 1, 2, 1));
        tokio::time::advance(Duration::from_secs(10)).await;
        assert_eq!(ask("").await, 3);
        for number in 0..100 {
            ask(&number.to_string()).await;
        }
        assert_eq!(shared.0.lock().await.len(), REPORTS);
    }
}
