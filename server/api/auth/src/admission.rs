//! Limits an agent's stream to a Hello until its peer is admitted.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::StreamExt;
use http_body_util::{BodyStream, StreamBody};
use tonic::Status;
use tonic::body::Body;

use super::connections::AgentStreamSlot;

/// Maximum bytes of a Hello. With the longest permitted names it has less than a kilobyte.
pub(crate) const MAX_HELLO_BYTES: usize = 16 * 1024;
/// Flag and length prefix of every gRPC message.
const HEADER_BYTES: usize = 5;

/// Admission state of a stream's peer. Clones share the state.
#[derive(Debug, Clone, Default)]
pub struct Admission(Arc<State>);

#[derive(Debug, Default)]
struct State {
    admitted: AtomicBool,
    /// Slot of the stream on its connection.
    stream: Option<AgentStreamSlot>,
}

impl Admission {
    /// State of a stream on a connection with a free slot for it.
    pub fn of(stream: Option<AgentStreamSlot>) -> Self {
        Self(Arc::new(State { admitted: AtomicBool::new(false), stream }))
    }

    /// Admits the peer: the session limits its stream from now on. Returns whether a slot was free.
    pub fn admit(&self) -> bool {
        let admitted = self.0.stream.as_ref().is_none_or(AgentStreamSlot::admit);
        self.0.admitted.store(admitted, Ordering::Release);
        admitted
    }

    fn is_admitted(&self) -> bool {
        self.0.admitted.load(Ordering::Acquire)
    }

    /// Wraps `body` so that only a Hello passes before admission, and everything after it.
    pub(crate) fn limit_body(&self, body: Body) -> Body {
        let (admission, mut received) = (self.clone(), ReceivedBytes::default());
        Body::new(StreamBody::new(BodyStream::new(body).map(move |frame| {
            let frame = frame?;
            if let Some(data) = frame.data_ref().filter(|_| !admission.is_admitted()) {
                received.count(data)?;
            }
            Ok::<_, Status>(frame)
        })))
    }
}

/// What was received of a stream before admission.
#[derive(Debug, Default)]
struct ReceivedBytes {
    bytes: usize,
    header: [u8; HEADER_BYTES],
}

impl ReceivedBytes {
    fn count(&mut self, data: &[u8]) -> Result<(), Status> {
        for (slot, byte) in self.header.iter_mut().skip(self.bytes).zip(data) {
            *slot = *byte;
        }
        self.bytes = self.bytes.saturating_add(data.len());
        let [_flag, length @ ..] = self.header;
        let declared = if self.bytes < HEADER_BYTES { 0 } else { u32::from_be_bytes(length) };
        let most = self.bytes.max(usize::try_from(declared).unwrap_or(usize::MAX));
        if most > MAX_HELLO_BYTES + HEADER_BYTES {
            return Err(Status::resource_exhausted(format!(
                "{most} bytes sent or announced before Welcome; until then only a Hello of at most {MAX_HELLO_BYTES} bytes is \
                 accepted"
            )));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn receive(chunks: &[&[u8]]) -> Result<(), Status> {
        let mut received = ReceivedBytes::default();
        chunks.iter().try_for_each(|chunk| received.count(chunk))
    }

    #[test]
    fn a_hello_passes_however_it_is_split() {
        // A message of 16,384 bytes (0x4000), the maximum.
        let rest = vec![7; MAX_HELLO_BYTES];
        assert!(receive(&[&[0, 0, 0, 0x40, 0], &rest]).is_ok());
        assert!(receive(&[&[0, 0], &[0], &[0x40, 0], &rest[..9], &rest[9..]]).is_ok());
    }

    #[test]
    fn more_is_rejected_when_announced_and_when_received() {
        // 4 MiB (0x0040_0000) are announced and rejected at once.
        let announced = receive(&[&[0, 0, 0x40], &[0, 0]]).unwrap_err();
        assert!(announced.message().contains("4194304 bytes"), "{announced}");
        // A short Hello, followed by more data.
        assert!(receive(&[&[0, 0, 0, 0, 1, 7], &vec![0; MAX_HELLO_BYTES]]).is_err());
    }
}
