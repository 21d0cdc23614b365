//! Response bodies that end when their client is no longer authorized.

use std::pin::Pin;
use std::task::{Context, Poll};

use futures::future::BoxFuture;
use http_body::{Body, Frame, SizeHint};

use super::ClientDenial;

/// A body that ends once its client is denied. Its end and its size are those of the body within: HTTP/2 ends the headers of an
/// error without a message by END_STREAM, and some clients of gRPC read no error that lacks it.
pub(crate) struct RevocableBody<B: Body> {
    body: B,
    /// `None` after the end.
    denied: Option<BoxFuture<'static, ClientDenial>>,
    /// The frame that tells the client; `None` to tell it nothing.
    last: fn(&ClientDenial) -> Option<Frame<B::Data>>,
}

impl<B: Body> RevocableBody<B> {
    /// The frames of `body` until `denied` completes, and then `last`.
    pub(crate) fn new(
        body: B,
        denied: impl Future<Output = ClientDenial> + Send + 'static,
        last: fn(&ClientDenial) -> Option<Frame<B::Data>>,
    ) -> Self {
        Self { body, denied: Some(Box::pin(denied)), last }
    }
}

impl<B: Body + Unpin> Body for RevocableBody<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        let Some(denied) = &mut self.denied else { return Poll::Ready(None) };
        // First, so that a body that always has a frame ends too.
        if let Poll::Ready(denial) = denied.as_mut().poll(context) {
            self.denied = None;
            return Poll::Ready((self.last)(&denial).map(Ok));
        }
        let frame = std::task::ready!(Pin::new(&mut self.body).poll_frame(context));
        if frame.is_none() {
            self.denied = None;
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.denied.is_none() || self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
