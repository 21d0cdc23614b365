//! What holds launches or removals, and why.

use std::fmt::Display;

use model::disruption_plan::BlockCode;
use model::{MicroUsd, Text, Timestamp};

/// A block on launches or removals. Each guardrail makes its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Block {
    pub code: BlockCode,
    /// Kind and name of what blocks as long as it exists; `None` of a limit, which the last check met.
    pub object: Option<Text>,
    /// The cause as a sentence for operators; the same as long as the cause is.
    pub reason: Text,
    /// The setting that allows more; empty where there is none.
    pub setting: &'static str,
    /// When capacity under the limit returns if no event comes first; `None` when only an event can
    /// end the block.
    pub until: Option<Timestamp>,
    /// Price per hour of the machines whose removal it holds back.
    pub price: MicroUsd,
}

impl Block {
    /// A block by a cause that no setting changes and time does not end.
    #[must_use]
    pub fn new(code: BlockCode, object: Option<Text>, cause: &dyn Display) -> Self {
        let reason = Text::from(cause.to_string());
        Self { code, object, reason, setting: "", until: None, price: MicroUsd(0) }
    }
}
