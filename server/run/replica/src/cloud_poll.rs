//! When the cloud is asked for its events: at each tick, and less often while it does not answer.

use model::{Millis, Timestamp};

/// Delay after the first failure; it doubles with each further one.
const FIRST_DELAY: Millis = Millis::from_secs(1);

/// Longest delay: a cloud that answers again is noticed within it.
const LONGEST_DELAY: Millis = Millis::from_secs(10);

#[derive(Debug, Default)]
pub(crate) struct CloudPoll {
    is_in_flight: bool,
    /// The delay of the last failure; zero after a success.
    delay: Millis,
    not_before: Option<Timestamp>,
}

impl CloudPoll {
    /// Begins a poll, unless one is in flight or the cloud is left alone for now.
    pub(crate) fn begin(&mut self, now: Timestamp) -> bool {
        let waits = self.not_before.is_some_and(|not_before| now < not_before);
        !waits && !std::mem::replace(&mut self.is_in_flight, true)
    }

    pub(crate) fn finish(&mut self, is_answered: bool, now: Timestamp) {
        self.is_in_flight = false;
        self.delay = match self.delay {
            _ if is_answered => Millis::ZERO,
            Millis::ZERO => FIRST_DELAY,
            delay => (delay + delay).min(LONGEST_DELAY),
        };
        self.not_before = (!is_answered).then(|| now + self.delay);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Polls within a minute whose answers are immediate, asked four times a second.
    fn polls(is_answered: bool) -> Vec<i64> {
        let mut poll = CloudPoll::default();
        let ticks = (0..60_000).step_by(250).map(Timestamp::from_millis);
        let begun = ticks.filter(|now| {
            let begins = poll.begin(*now);
            if begins {
                poll.finish(is_answered, *now);
            }
            begins
        });
        begun.map(Timestamp::as_millis).collect()
    }

    #[test]
    fn a_cloud_that_does_not_answer_is_asked_less_and_less_often() {
        // After 1, 2, 4, 8 and then each 10 seconds.
        assert_eq!(polls(false), [0, 1_000, 3_000, 7_000, 15_000, 25_000, 35_000, 45_000, 55_000]);
        assert_eq!(polls(true).len(), 240);
    }

    #[test]
    fn a_success_ends_the_delay_and_one_poll_is_in_flight_at_a_time() {
        let mut poll = CloudPoll::default();
        let at = Timestamp::from_millis;
        assert!(poll.begin(at(0)));
        assert!(!poll.begin(at(5_000)));
        poll.finish(false, at(5_000));
        assert!(!poll.begin(at(5_999)));
        assert!(poll.begin(at(6_000)));
        poll.finish(true, at(6_000));
        assert!(poll.begin(at(6_000)));
        poll.finish(false, at(6_000));
        assert!(poll.begin(at(7_000)), "the delay begins anew");
    }
}
