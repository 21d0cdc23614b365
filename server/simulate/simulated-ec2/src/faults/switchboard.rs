//! Decides what happens to each call.

use std::collections::BTreeMap;

use cloud::simulated::{SeededRng, TokenBucket};
use model::Timestamp;

use super::{Delivery, Effect, FaultRule, Faults, Lag};
use crate::api_error::ApiError;

const THROTTLED: &str = "Request limit exceeded.";

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct CallFaults {
    /// Milliseconds until it is executed.
    pub(crate) before_ms: i64,
    /// Milliseconds from then to the answer.
    pub(crate) after_ms: i64,
    /// The error it answers, without being executed.
    pub(crate) error: Option<ApiError>,
    pub(crate) cut_before: bool,
    pub(crate) cut_after: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Pool<'a> {
    pub(crate) instance_type: &'a str,
    pub(crate) zone: &'a str,
    pub(crate) capacity_type: &'a str,
}

/// Faults, with the counters and buckets that they need.
#[derive(Debug)]
pub(crate) struct Switchboard {
    faults: Faults,
    /// By rule: calls that it covered, and faults that it made.
    counters: Vec<(u64, u64)>,
    buckets: BTreeMap<String, TokenBucket>,
    calls: u64,
    messages: u64,
}

impl Switchboard {
    pub(crate) fn new(faults: Faults) -> Self {
        let mut switchboard =
            Self { faults: Faults::default(), counters: Vec::new(), buckets: BTreeMap::new(), calls: 0, messages: 0 };
        switchboard.set(faults);
        switchboard
    }

    pub(crate) fn faults(&self) -> &Faults {
        &self.faults
    }

    /// Replaces the faults. Counters are kept for the first rules as far as they stay the same, and a bucket if its
    /// rate limit does.
    pub(crate) fn set(&mut self, faults: Faults) {
        let same = self.faults.rules.iter().zip(&faults.rules).take_while(|(old, new)| old == new).count();
        self.counters.truncate(same);
        self.counters.resize(faults.rules.len(), (0, 0));
        let known = &self.faults.throttles;
        self.buckets.retain(|action, _| known.get(action) == faults.throttles.get(action));
        for (action, throttle) in &faults.throttles {
            let bucket = TokenBucket::new(throttle.burst, throttle.refill_ms);
            self.buckets.entry(action.clone()).or_insert(bucket);
        }
        self.faults = faults;
    }

    /// What happens to a call of `action` at `now`; `throttling` is the code with which its service throttles.
    pub(crate) fn next_call(&mut self, action: &str, throttling: &str, now: Timestamp) -> CallFaults {
        self.calls += 1;
        let rng = SeededRng::new(self.faults.seed).child("call").child_number(self.calls);
        let mut found = CallFaults::default();
        for (index, rule) in self.faults.rules.iter().enumerate() {
            if rule.action != action && rule.action != "*" {
                continue;
            }
            if fires(rule, &mut self.counters[index], rng.child_number(index as u64)) {
                apply(&rule.effect, rng.child_number(index as u64), &mut found);
            }
        }
        if !self.takes_tokens(action, now) {
            found.error = Some(ApiError::new(throttling, THROTTLED));
        }
        found
    }

    /// Takes a token of the action's own bucket and of the common one.
    fn takes_tokens(&mut self, action: &str, now: Timestamp) -> bool {
        [action, "*"].iter().all(|name| self.buckets.get_mut(*name).is_none_or(|bucket| bucket.take_token(now).is_ok()))
    }

    pub(crate) fn page_size(&self, action: &str) -> Option<usize> {
        self.faults.page_sizes.get(action).or_else(|| self.faults.page_sizes.get("*")).copied()
    }

    pub(crate) fn lag(&self) -> Lag {
        self.faults.lag
    }

    /// Number of instances that `pool` has capacity for; `None` without a limit.
    pub(crate) fn available(&self, pool: Pool<'_>) -> Option<u32> {
        self.pool_index(pool).map(|index| self.faults.pools[index].available)
    }

    /// Takes the capacity of one instance from `pool`.
    pub(crate) fn take_capacity(&mut self, pool: Pool<'_>) {
        if let Some(index) = self.pool_index(pool) {
            let available = &mut self.faults.pools[index].available;
            *available = available.saturating_sub(1);
        }
    }

    fn pool_index(&self, pool: Pool<'_>) -> Option<usize> {
        let is = |wanted: &Option<String>, value: &str| wanted.as_ref().is_none_or(|wanted| wanted == value);
        self.faults.pools.iter().position(|entry| {
            is(&entry.zone, pool.zone)
                && is(&entry.instance_type, pool.instance_type)
                && is(&entry.capacity_type, pool.capacity_type)
        })
    }

    /// Delays of the next message, in milliseconds: one for each time that it is delivered.
    pub(crate) fn delays_of_next_message(&mut self) -> Vec<i64> {
        self.messages += 1;
        let Delivery { duplicated_percent, delay_ms } = self.faults.delivery;
        let rng = SeededRng::new(self.faults.seed).child("message").child_number(self.messages);
        let copies = if rng.child("duplicated").percent(duplicated_percent) { 2 } else { 1 };
        (0..copies).map(|copy| rng.child("delay").child_number(copy).between(delay_ms)).collect()
    }
}

/// Whether `rule` fires for the next call that it covers.
fn fires(rule: &FaultRule, (covered, made): &mut (u64, u64), rng: SeededRng) -> bool {
    *covered += 1;
    let is_due = *covered > rule.skip && rule.times.is_none_or(|times| *made < times);
    let fires = is_due && rng.child("fires").percent(rule.percent);
    *made += u64::from(fires);
    fires
}

fn apply(effect: &Effect, rng: SeededRng, found: &mut CallFaults) {
    match effect {
        Effect::Error { code, status } => {
            let mut error = ApiError::new(code.clone(), "an injected failure");
            error.status = status.unwrap_or(error.status);
            found.error.get_or_insert(error);
        }
        Effect::CutBefore => found.cut_before = true,
        Effect::CutAfter => found.cut_after = true,
        Effect::Delay { before_ms, after_ms } => {
            found.before_ms += rng.child("before").between(*before_ms);
            found.after_ms += rng.child("after").between(*after_ms);
        }
    }
}

#[cfg(test)]
mod tests;
