//! Adds ErrorInfo to every error of a call: also to those of the authorization, of tonic, and of methods that state no
//! reason of their own. An error that ends a stream of messages is in its trailers, and stays as it is.

use std::convert::Infallible;
use std::task::{Context, Poll};

use futures::future::BoxFuture;
use http::{Request, Response};
use tonic::Status;
use tower::{Layer, Service};

use api_messages::errors::{lacks_info, with_info};

/// Tower layer of [`ErrorInfoService`].
#[derive(Debug, Clone, Copy)]
pub struct ErrorInfoLayer;

impl<S> Layer<S> for ErrorInfoLayer {
    type Service = ErrorInfoService<S>;

    fn layer(&self, inner: S) -> ErrorInfoService<S> {
        ErrorInfoService { inner }
    }
}

/// A gRPC service whose errors have details.
#[derive(Debug, Clone)]
pub struct ErrorInfoService<S> {
    inner: S,
}

impl<S, A, B> Service<Request<A>> for ErrorInfoService<S>
where
    S: Service<Request<A>, Response = Response<B>, Error = Infallible>,
    S::Future: Send + 'static,
{
    type Response = Response<B>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Response<B>, Infallible>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<A>) -> Self::Future {
        let answer = self.inner.call(request);
        Box::pin(async move { answer.await.map(detailed) })
    }
}

/// The response with ErrorInfo, if its headers are those of an error without it.
fn detailed<B>(mut response: Response<B>) -> Response<B> {
    if let Some(status) = Status::from_header_map(response.headers()).filter(lacks_info) {
        // A message that was a header is a valid one again; if not, the error stays without details.
        let _added = with_info(status).add_header(response.headers_mut());
    }
    response
}

#[cfg(test)]
mod tests {
    use tonic::Code;
    use tonic_types::StatusExt;
    use tower::{ServiceExt, service_fn};

    use super::*;
    use api_messages::errors::{self, Reason};

    async fn through_the_layer(response: Response<()>) -> Response<()> {
        let inner = service_fn(|_: Request<()>| std::future::ready(Ok(response.clone())));
        ErrorInfoLayer.layer(inner).oneshot(Request::new(())).await.expect("it never fails")
    }

    async fn status(of: Status) -> Status {
        let made = through_the_layer(of.into_http()).await;
        Status::from_header_map(made.headers()).expect("it is an error")
    }

    #[tokio::test]
    async fn an_error_without_details_gets_its_reason_and_another_one_keeps_its_own() {
        let plain = status(Status::permission_denied("no")).await;
        assert_eq!((plain.code(), plain.message()), (Code::PermissionDenied, "no"));
        let info = plain.get_error_details().error_info().cloned().expect("it was added");
        assert_eq!((info.reason.as_str(), info.domain.as_str()), ("PERMISSION_DENIED", "fleetwright.dev"));
        let own = status(errors::status(Reason::ClusterNotFound, "no")).await;
        assert_eq!(
            own.get_error_details().error_info().map(|info| info.reason.clone()),
            Some("CLUSTER_NOT_FOUND".to_owned())
        );
    }

    #[tokio::test]
    async fn what_is_no_error_stays_as_it_is() {
        let answer = through_the_layer(Response::new(())).await;
        assert!(answer.headers().is_empty());
    }
}
