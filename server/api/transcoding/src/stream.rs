//! The body of a server stream: one frame for each message, so that each is sent at once.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use field_mask::FieldMask;
use futures::Stream;
use http_body::Frame;
use prost::bytes::Bytes;
use prost_reflect::MessageDescriptor;
use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at};
use tonic::Status;

use crate::error_body::{error_body, http_code};
use crate::json;
use crate::transcoder::Transcoder;

/// Time after which a comment is sent when no message is. Proxies close idle connections after a minute or more.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

pub(crate) enum Format {
    Lines,
    /// Server-sent events, with comments that keep the connection alive.
    Events(Interval),
}

impl Format {
    pub(crate) fn events() -> Self {
        let mut interval = interval_at(Instant::now() + KEEP_ALIVE, KEEP_ALIVE);
        interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Self::Events(interval)
    }

    pub(crate) fn content_type(&self) -> &'static str {
        match self {
            Self::Lines => "application/json",
            Self::Events(_) => "text/event-stream",
        }
    }

    fn message(&mut self, json: &[u8]) -> Bytes {
        match self {
            Self::Lines => [b"{\"result\":", json, b"}\n"].concat().into(),
            Self::Events(interval) => {
                interval.reset();
                // JSON without indentation has no line breaks.
                [b"data: ", json, b"\n\n"].concat().into()
            }
        }
    }

    fn error(&self, json: &[u8]) -> Bytes {
        match self {
            Self::Lines => [json, b"\n"].concat().into(),
            Self::Events(_) => [b"event: error\ndata: ", json, b"\n\n"].concat().into(),
        }
    }

    fn poll_keep_alive(&mut self, context: &mut Context<'_>) -> Poll<Bytes> {
        match self {
            Self::Lines => Poll::Pending,
            Self::Events(interval) => interval.poll_tick(context).map(|_| Bytes::from_static(b": keep-alive\n\n")),
        }
    }
}

/// A body of the encoded messages of a call. When it is dropped, so is the call.
pub(crate) struct StreamBody<M> {
    /// `None` after the last one.
    messages: Option<M>,
    format: Format,
    /// Type of the messages, and which of their fields are wanted.
    descriptor: MessageDescriptor,
    mask: Option<FieldMask>,
    transcoder: Transcoder,
}

impl<M> StreamBody<M> {
    pub(crate) fn new(
        messages: M,
        format: Format,
        (descriptor, mask): (MessageDescriptor, Option<FieldMask>),
        transcoder: Transcoder,
    ) -> Self {
        Self { messages: Some(messages), format, descriptor, mask, transcoder }
    }

    /// The last frame.
    fn end_with(&mut self, status: &Status) -> Bytes {
        self.messages = None;
        let error = error_body(status, http_code(status.code()), self.transcoder.pool());
        self.format.error(&json::bytes(&error))
    }
}

impl<M: Stream<Item = Result<Bytes, Status>> + Unpin> http_body::Body for StreamBody<M> {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let Some(messages) = &mut self.messages else { return Poll::Ready(None) };
        let bytes = match Pin::new(messages).poll_next(context) {
            Poll::Ready(Some(Ok(message))) => {
                match self.transcoder.json().print(&self.descriptor, message, self.mask.as_ref()) {
                    Ok(json) => self.format.message(&json),
                    Err(status) => self.end_with(&status),
                }
            }
            Poll::Ready(Some(Err(status))) => self.end_with(&status),
            Poll::Ready(None) => {
                self.messages = None;
                return Poll::Ready(None);
            }
            Poll::Pending => match self.format.poll_keep_alive(context) {
                Poll::Ready(comment) => comment,
                Poll::Pending => return Poll::Pending,
            },
        };
        Poll::Ready(Some(Ok(Frame::data(bytes))))
    }
}
