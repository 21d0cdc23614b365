//! The keys of one issuer, and when it is asked for them again. Pure: moments are arguments.

use std::sync::Arc;
use std::time::{Duration, Instant};

use jsonwebtoken::jwk::JwkSet;

use super::Refusal;

/// An issuer that answered is not asked again within this time, whatever key a token names.
const ASK_AGAIN: Duration = Duration::from_secs(10);
/// Keys are asked for again after this long even if all are known, so that a withdrawn key is believed no longer.
const BELIEVE: Duration = Duration::from_secs(15 * 60);
/// Keys of an issuer that cannot be asked are believed for so long at most.
const BELIEVE_AT_MOST: Duration = Duration::from_secs(24 * 60 * 60);
/// An issuer that fails is asked again after this long at most.
const BACK_OFF_AT_MOST: Duration = Duration::from_secs(5 * 60);

/// What is known of one issuer.
#[derive(Debug, Default)]
pub(super) struct Keyring {
    keys: Option<(Arc<JwkSet>, Instant)>,
    /// Failures since the last answer, when the last one was, and what it was.
    failed: Option<(u32, Instant, String)>,
}

/// What to do for a token.
#[derive(Debug)]
pub(super) enum Look {
    /// These keys judge it.
    Use(Arc<JwkSet>),
    /// The answer that is under way may have its key.
    Wait,
    /// The issuer is to be asked.
    Ask,
    /// There are no keys, and the issuer is not asked again so soon.
    Refuse(Refusal),
}

impl Keyring {
    /// What to do for a token that names `key_id`.
    pub(super) fn look(&self, key_id: Option<&str>, under_way: bool, now: Instant) -> Look {
        let Some((keys, age)) = self.believed(now) else {
            return match (under_way, self.backs_off(now)) {
                (true, _) => Look::Wait,
                (false, false) => Look::Ask,
                (false, true) => Look::Refuse(self.refusal()),
            };
        };
        let has = key_id.is_none_or(|id| keys.find(id).is_some());
        match (has, under_way) {
            (true, true) => Look::Use(keys),
            (false, true) => Look::Wait,
            (true, false) if age < BELIEVE => Look::Use(keys),
            _ if age < ASK_AGAIN || self.backs_off(now) => Look::Use(keys),
            _ => Look::Ask,
        }
    }

    /// The issuer has answered, or has not.
    pub(super) fn answered(&mut self, answer: Result<JwkSet, String>, now: Instant) {
        match answer {
            Ok(keys) => (self.keys, self.failed) = (Some((Arc::new(keys), now)), None),
            Err(error) => {
                let before = self.failed.take().map_or(0, |(times, ..)| times);
                self.failed = Some((before.saturating_add(1), now, error));
            }
        }
    }

    /// The keys that are believed.
    ///
    /// # Errors
    /// Why there are none.
    pub(super) fn kept(&self, now: Instant) -> Result<Arc<JwkSet>, Refusal> {
        self.believed(now).map(|(keys, _)| keys).ok_or_else(|| self.refusal())
    }

    fn believed(&self, now: Instant) -> Option<(Arc<JwkSet>, Duration)> {
        let (keys, at) = self.keys.as_ref()?;
        let age = now.duration_since(*at);
        (age < BELIEVE_AT_MOST).then(|| (Arc::clone(keys), age))
    }

    /// 10 s after the first failure, twice as long after each further one.
    fn backs_off(&self, now: Instant) -> bool {
        self.failed.as_ref().is_some_and(|(times, at, _)| {
            let wait = ASK_AGAIN * 2_u32.saturating_pow((times - 1).min(10));
            now.duration_since(*at) < wait.min(BACK_OFF_AT_MOST)
        })
    }

    fn refusal(&self) -> Refusal {
        let why = self.failed.as_ref().map_or("it was never asked", |(_, _, error)| error.as_str());
        Refusal(format!("the issuer's keys cannot be had: {why}"))
    }
}
