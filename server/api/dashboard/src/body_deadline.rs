//! A deadline for request bodies: one that comes byte by byte keeps its connection, and what waits for it, no longer.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use axum::extract::Request;
use http_body::{Frame, SizeHint};
use tokio::time::{Sleep, sleep};

/// From the head of a request to the end of its body: 4 MiB over a line of 1.7 Mbit/s.
const DEADLINE: Duration = Duration::from_secs(20);

/// The request, whose body fails when it is not complete in time.
pub(crate) async fn within_deadline(request: Request) -> Request {
    request.map(|body| Body::new(DeadlineBody { body, end: Box::pin(sleep(DEADLINE)) }))
}

struct DeadlineBody {
    body: Body,
    end: Pin<Box<Sleep>>,
}

impl HttpBody for DeadlineBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        // First, so that a body of which there is always a byte ends too.
        if self.end.as_mut().poll(context).is_pending() {
            return Pin::new(&mut self.body).poll_frame(context);
        }
        let why = format!("the body is not complete {} s after the head of the request", DEADLINE.as_secs());
        Poll::Ready(Some(Err(axum::Error::new(io::Error::new(io::ErrorKind::TimedOut, why)))))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use futures::{StreamExt, stream};
    use http_body_util::BodyExt;

    use super::*;

    async fn collected(body: Body) -> Result<Bytes, String> {
        let request = within_deadline(Request::new(body)).await;
        let whole = request.into_body().collect().await;
        whole.map(|whole| whole.to_bytes()).map_err(|error| error.to_string())
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_does_not_end_fails_at_the_deadline_and_another_one_passes() {
        let begun = tokio::time::Instant::now();
        let part = || stream::iter([Ok::<_, io::Error>(Bytes::from_static(b"{"))]);
        let stalled = Body::from_stream(part().chain(stream::pending()));
        let why = collected(stalled).await.expect_err("it never ends");
        assert_eq!(why, "the body is not complete 20 s after the head of the request");
        // The clock of the test advances by milliseconds.
        let lasted = |times: u32| times * DEADLINE..times * DEADLINE + Duration::from_millis(100);
        assert!(lasted(1).contains(&begun.elapsed()));
        // A byte now and then does not extend it.
        let drip = stream::repeat(()).then(|()| async {
            sleep(Duration::from_secs(3)).await;
            Ok::<_, io::Error>(Bytes::from_static(b" "))
        });
        assert!(collected(Body::from_stream(drip)).await.is_err());
        assert!(lasted(2).contains(&begun.elapsed()));
        assert_eq!(collected(Body::from_stream(part())).await, Ok(Bytes::from_static(b"{")));
        assert_eq!(collected(Body::from("{}")).await, Ok(Bytes::from_static(b"{}")));
    }
}
