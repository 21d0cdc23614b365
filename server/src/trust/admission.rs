//! What is read of an agent's stream before its peer is admitted: a Hello, and no more.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::StreamExt;
use http_body_util::{BodyStream, StreamBody};
use tonic::Status;
use tonic::body::Body;

use super::connections::AgentStream;

/// Bytes of a Hello, at most. One with the longest names that are allowed has less than a kilobyte.
pub(crate) const HELLO_MAX: usize = 16 * 1024;
/// The flag and the length before every message.
const HEADER: usize = 5;

/// Whether the peer of a stream is admitted. Cloning it costs a counter.
#[derive(Debug, Clone, Default)]
pub(crate) struct Admission(Arc<State>);

#[derive(Debug, Default)]
struct State {
    admitted: AtomicBool,
    /// The stream's place on its connection.
    stream: Option<AgentStream>,
}

impl Admission {
    /// Of a stream on a connection that has a place for it.
    pub(crate) fn of(stream: Option<AgentStream>) -> Self {
        Self(Arc::new(State { admitted: AtomicBool::new(false), stream }))
    }

    /// The peer may speak: from now on its stream is bounded by what the session takes. Says whether there was a place for it.
    pub(crate) fn admit(&self) -> bool {
        let admitted = self.0.stream.as_ref().is_none_or(AgentStream::admit);
        self.0.admitted.store(admitted, Ordering::Release);
        admitted
    }

    fn is_admitted(&self) -> bool {
        self.0.admitted.load(Ordering::Acquire)
    }

    /// `body`, of which a Hello passes until the peer is admitted, and everything from then on.
    pub(crate) fn guard(&self, body: Body) -> Body {
        let (admission, mut seen) = (self.clone(), Seen::default());
        Body::new(StreamBody::new(BodyStream::new(body).map(move |frame| {
            let frame = frame?;
            if let Some(data) = frame.data_ref().filter(|_| !admission.is_admitted()) {
                seen.take(data)?;
            }
            Ok::<_, Status>(frame)
        })))
    }
}

/// What has come of a stream.
#[derive(Debug, Default)]
struct Seen {
    bytes: usize,
    header: [u8; HEADER],
}

impl Seen {
    fn take(&mut self, data: &[u8]) -> Result<(), Status> {
        for (place, byte) in self.header.iter_mut().skip(self.bytes).zip(data) {
            *place = *byte;
        }
        self.bytes = self.bytes.saturating_add(data.len());
        let [_flag, length @ ..] = self.header;
        let declared = if self.bytes < HEADER { 0 } else { u32::from_be_bytes(length) };
        let most = self.bytes.max(usize::try_from(declared).unwrap_or(usize::MAX));
        if most > HELLO_MAX + HEADER {
            return Err(Status::resource_exhausted(format!(
                "{most} bytes were sent or announced before the server said Welcome; until then it reads a Hello of at most \
                 {HELLO_MAX} bytes"
            )));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(chunks: &[&[u8]]) -> Result<(), Status> {
        let mut seen = Seen::default();
        chunks.iter().try_for_each(|chunk| seen.take(chunk))
    }

    #[test]
    fn a_hello_passes_in_whatever_pieces_it_comes() {
        // A message of 16,384 bytes (0x4000), which is the most.
        let rest = vec![7; HELLO_MAX];
        assert!(said(&[&[0, 0, 0, 0x40, 0], &rest]).is_ok());
        assert!(said(&[&[0, 0], &[0], &[0x40, 0], &rest[..9], &rest[9..]]).is_ok());
    }

    #[test]
    fn more_is_refused_when_it_is_announced_and_when_it_comes() {
        // 4 MiB (0x0040_0000) are announced: nothing of them is waited for.
        let announced = said(&[&[0, 0, 0x40], &[0, 0]]).unwrap_err();
        assert!(announced.message().contains("4194304 bytes"), "{announced}");
        // A short Hello, and then as much as one likes.
        assert!(said(&[&[0, 0, 0, 0, 1, 7], &vec![0; HELLO_MAX]]).is_err());
    }
}
