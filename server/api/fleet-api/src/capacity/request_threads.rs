//! Threads that read requests for quotes and plans. A request may have some megabytes, whose reading takes a processor for
//! tens of milliseconds: these threads give way to those of the connections, of which each serves many clients. Requests for
//! plans, the largest, have threads of their own, and their deadline is kept by the thread of the connection, however many
//! wait for these threads. While this replica has no place for a plan, one is refused unread, also if another replica would
//! make it: only the request names its cluster.

use std::convert::Infallible;
use std::future::ready;
use std::task::{Context, Poll};

use futures::future::{BoxFuture, FutureExt as _};
use http::{Request, Response};
use tokio::time::{Instant, timeout_at};
use tokio_util::task::AbortOnDropHandle;
use tonic::body::Body;
use tonic::server::NamedService;
use tower::Service;

use super::deadline::{self, ReceivedAt};
use super::quote_metrics::QUOTES;
use super::threads::CapacityThreads;
use api_messages::errors::{Reason, status};

/// Path of the method whose requests are the largest.
const PLAN_CLUSTER: &str = "/fleetwright.v1.CapacityService/PlanCluster";

/// A gRPC service whose requests are read and handled on these threads.
#[derive(Clone)]
pub struct OnRequestThreads<S> {
    inner: S,
    threads: CapacityThreads,
}

impl<S> OnRequestThreads<S> {
    pub(super) fn new(inner: S, threads: CapacityThreads) -> Self {
        Self { inner, threads }
    }
}

impl<S: NamedService> NamedService for OnRequestThreads<S> {
    const NAME: &'static str = S::NAME;
}

impl<S> Service<Request<Body>> for OnRequestThreads<S>
where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible>,
    S::Future: Send + 'static,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Response<Body>, Infallible>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        let is_plan = request.uri().path() == PLAN_CLUSTER;
        if is_plan && let Err(refused) = self.threads.admit() {
            QUOTES.refused_plans.add(1);
            return Box::pin(ready(Ok(refused.into_http())));
        }
        request.extensions_mut().insert(ReceivedAt(Instant::now()));
        let deadline = is_plan.then(|| deadline::of_headers(request.headers(), request.extensions()));
        let threads = if is_plan { &self.threads.plan_requests } else { &self.threads.requests };
        // A request whose client is gone ends with its connection's task.
        let task = AbortOnDropHandle::new(threads.spawn(self.inner.call(request)));
        let answer = task.map(|ended| {
            ended.unwrap_or_else(|_| {
                Ok(status(Reason::Internal, "a request could not be handled; see the server's log").into_http())
            })
        });
        match deadline {
            Some(deadline) => Box::pin(async move {
                timeout_at(deadline, answer).await.unwrap_or_else(|_| Ok(deadline::late().into_http()))
            }),
            // A hold that is being made is not abandoned.
            None => Box::pin(answer),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use fleetwright_proto::DESCRIPTOR_SET;
    use prost::Message as _;
    use prost_types::FileDescriptorSet;
    use tower::{ServiceExt as _, service_fn};

    use super::*;

    #[test]
    fn the_path_of_plans_is_one_of_the_protocol() {
        let set = FileDescriptorSet::decode(DESCRIPTOR_SET).expect("the protocol is readable");
        let mut paths = set.file.iter().flat_map(|file| {
            let methods = |service: &prost_types::ServiceDescriptorProto| {
                let path = format!("/{}.{}/", file.package(), service.name());
                service.method.iter().map(|method| format!("{path}{}", method.name())).collect::<Vec<_>>()
            };
            file.service.iter().flat_map(methods).collect::<Vec<_>>()
        });
        assert!(paths.any(|path| path == PLAN_CLUSTER));
    }

    #[tokio::test]
    async fn a_plan_without_a_place_is_refused_unread_and_other_methods_are_answered() {
        let (threads, read) =
            (CapacityThreads::start(&Arc::default()).expect("threads start"), Arc::<AtomicUsize>::default());
        let counter = Arc::clone(&read);
        let inner = service_fn(move |_request: Request<Body>| {
            counter.fetch_add(1, Ordering::Relaxed);
            async { Ok(Response::new(Body::empty())) }
        });
        let service = OnRequestThreads::new(inner, threads.clone());
        let call = async |path: &str| {
            let request = Request::builder().uri(path).body(Body::empty()).expect("a request");
            let response = service.clone().oneshot(request).await.expect("no request fails");
            response.headers().get("grpc-status").map(|code| code.to_str().unwrap_or_default().to_owned())
        };
        let places: Vec<_> = std::iter::from_fn(|| threads.admit().ok()).collect();
        assert_eq!(call(PLAN_CLUSTER).await.as_deref(), Some("8"), "RESOURCE_EXHAUSTED");
        assert_eq!(read.load(Ordering::Relaxed), 0);
        let counted = metrics::series(QUOTES.families());
        assert!(counted.contains(&"fleetwright_plans_refused_total 1".to_owned()), "{counted:?}");
        assert_eq!(call("/fleetwright.v1.CapacityService/ReleaseHold").await, None);
        drop(places);
        assert_eq!(call(PLAN_CLUSTER).await, None);
        assert_eq!(read.load(Ordering::Relaxed), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn a_plan_whose_request_is_not_read_in_time_ends_at_its_deadline() {
        let threads = CapacityThreads::start(&Arc::default()).expect("threads start");
        let inner = service_fn(|_request: Request<Body>| pending::<Result<Response<Body>, Infallible>>());
        let request = Request::builder().uri(PLAN_CLUSTER).header("grpc-timeout", "3S").body(Body::empty());
        let begun = Instant::now();
        let answer = OnRequestThreads::new(inner, threads).oneshot(request.expect("a request")).await;
        assert_eq!(answer.expect("no request fails").headers()["grpc-status"], "4", "DEADLINE_EXCEEDED");
        assert_eq!(begun.elapsed().as_secs(), 3);
    }
}
