//! Until when a request must be answered.

use std::time::Duration;

use http::{Extensions, HeaderMap};
use tokio::time::Instant;
use tonic::{Request, Status};

use api_messages::errors::{Reason, status};

/// Deadline of a request that states none.
const DEFAULT: Duration = Duration::from_secs(10);

/// Longest deadline that a request may state.
const LONGEST: Duration = Duration::from_secs(60);

/// When the headers of a request came, as an extension of it: its body may take a while to come and to be read.
#[derive(Debug, Clone, Copy)]
pub(super) struct ReceivedAt(pub(super) Instant);

/// The deadline of a request: its `grpc-timeout`, at most a minute, or ten seconds after it came.
pub fn of<T>(request: &Request<T>) -> Instant {
    of_headers(request.metadata().as_ref(), request.extensions())
}

/// The same before the body of the request is read.
pub(super) fn of_headers(headers: &HeaderMap, extensions: &Extensions) -> Instant {
    let stated = headers.get("grpc-timeout").and_then(|value| parse(value.to_str().ok()?));
    let received = extensions.get().map_or_else(Instant::now, |ReceivedAt(at)| *at);
    received + stated.unwrap_or(DEFAULT).min(LONGEST)
}

pub(super) fn late() -> Status {
    status(
        Reason::DeadlineExceeded,
        "the answer was not there in time: name fewer clusters or pods, or allow more time",
    )
}

/// The time of a `grpc-timeout`: at most eight digits, and a unit.
fn parse(value: &str) -> Option<Duration> {
    let (digits, unit) = value.split_at_checked(value.len().checked_sub(1)?)?;
    if digits.len() > 8 || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let number: u64 = digits.parse().ok()?;
    Some(match unit {
        "H" => Duration::from_secs(number * 3_600),
        "M" => Duration::from_secs(number * 60),
        "S" => Duration::from_secs(number),
        "m" => Duration::from_millis(number),
        "u" => Duration::from_micros(number),
        "n" => Duration::from_nanos(number),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timeouts_of_grpc_are_read() {
        let cases = [
            ("2H", Some(7_200_000)),
            ("3M", Some(180_000)),
            ("4S", Some(4_000)),
            ("250m", Some(250)),
            ("5000u", Some(5)),
            ("1000000n", Some(1)),
            ("123456789S", None),
            ("S", None),
            ("", None),
            ("-1S", None),
            ("1é", None),
            ("7", None),
        ];
        for (text, millis) in cases {
            assert_eq!(parse(text), millis.map(Duration::from_millis), "{text}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_has_ten_seconds_unless_it_states_less_or_up_to_a_minute_more() {
        let left = |timeout: Option<&'static str>| {
            let mut request = Request::new(());
            if let Some(timeout) = timeout {
                request.metadata_mut().insert("grpc-timeout", timeout.parse().expect("it is valid"));
            }
            (of(&request) - Instant::now()).as_secs()
        };
        assert_eq!((left(None), left(Some("3S")), left(Some("2H")), left(Some("x"))), (10, 3, 60, 10));
        let mut request = Request::new(());
        request.extensions_mut().insert(ReceivedAt(Instant::now()));
        tokio::time::advance(Duration::from_secs(4)).await;
        assert_eq!((of(&request) - Instant::now()).as_secs(), 6, "its body took four seconds");
    }
}
