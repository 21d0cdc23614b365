//! A block on launches or removals, and its reason.

use std::fmt;

use super::Freeze;
use super::circuit_breaker::EngagedBreaker;
use super::launch_backoff::{LaunchDelay, UnboundLaunches};
use super::rate_limits::{ExceededLimit, LimitBlock};
use model::{MicroUsd, Timestamp};

/// A block on launches or removals.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Block {
    /// The cause; equal as long as the cause is.
    pub reason: BlockReason,
    /// When capacity under the limit returns if no event comes first; `None` when only an event can
    /// end the block.
    pub until: Option<Timestamp>,
    /// Price per hour of the machines whose removal it holds back.
    pub price: MicroUsd,
}

impl Block {
    /// The setting that allows more; empty where there is none.
    #[must_use]
    pub fn setting(&self) -> &'static str {
        match &self.reason {
            BlockReason::RateLimit(limit) => limit.setting(),
            BlockReason::LaunchBackoff(_) => "guardrails.launches-per-pod",
            BlockReason::CircuitBreaker(_) => "guardrails.circuit-breaker-percent",
            BlockReason::Frozen(_) => "",
        }
    }
}

/// Why launches or removals are held; its [`Display`](fmt::Display) is a sentence for operators.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BlockReason {
    RateLimit(ExceededLimit),
    /// The pod is in launch backoff.
    LaunchBackoff(UnboundLaunches),
    /// Launches fail.
    CircuitBreaker(EngagedBreaker),
    Frozen(Freeze),
}

impl From<LimitBlock> for Block {
    fn from(held: LimitBlock) -> Self {
        Self { reason: BlockReason::RateLimit(held.limit), until: Some(held.until), price: MicroUsd(0) }
    }
}

impl From<LaunchDelay> for Block {
    fn from(delay: LaunchDelay) -> Self {
        Self { reason: BlockReason::LaunchBackoff(delay.launches), until: Some(delay.until), price: MicroUsd(0) }
    }
}

impl fmt::Display for BlockReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::RateLimit(limit) => limit.fmt(f),
            Self::LaunchBackoff(launches) => launches.fmt(f),
            Self::CircuitBreaker(breaker) => breaker.fmt(f),
            Self::Frozen(freeze) => freeze.fmt(f),
        }
    }
}
