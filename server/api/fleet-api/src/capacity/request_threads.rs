//! Threads that read requests for quotes and plans. A request may have some megabytes, whose reading takes a processor for
//! tens of milliseconds: these threads give way to those of the connections, of which each serves many clients.

use std::convert::Infallible;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures::future::BoxFuture;
use http::{Request, Response};
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;
use tonic::body::Body;
use tonic::server::NamedService;
use tower::Service;

use super::deadline::ReceivedAt;
use crate::background_runtime::BackgroundRuntime;
use api_messages::errors::{Reason, status};

/// Requests that are read at one time.
const THREADS: usize = 2;

/// Added to the niceness of the threads: as much as that of the threads that answer quotes.
const NICENESS: i32 = 5;

/// Starts the threads.
///
/// # Errors
/// A thread could not start.
pub(super) fn start() -> std::io::Result<BackgroundRuntime> {
    BackgroundRuntime::start("requests", THREADS, Some(NICENESS))
}

/// A gRPC service whose requests are read and handled on these threads.
#[derive(Debug, Clone)]
pub struct OnRequestThreads<S> {
    inner: S,
    threads: Arc<BackgroundRuntime>,
}

impl<S> OnRequestThreads<S> {
    pub(super) fn new(inner: S, threads: Arc<BackgroundRuntime>) -> Self {
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
        request.extensions_mut().insert(ReceivedAt(Instant::now()));
        let answer = self.inner.call(request);
        // A request whose client is gone ends with its connection's task.
        let task = AbortOnDropHandle::new(self.threads.spawn(answer));
        Box::pin(async move {
            task.await.unwrap_or_else(|_| {
                Ok(status(Reason::Internal, "a request could not be handled; see the server's log").into_http())
            })
        })
    }
}
