//! A node that stays, in a document.

use model::disruption_plan::Block;
use model::removal::RemovalReason;
use serde::Serialize;

#[derive(Debug, Serialize)]
pub(super) struct HeldEntry<'r> {
    node: &'r str,
    reason: String,
    by: Vec<BlockEntry<'r>>,
}

#[derive(Debug, Serialize)]
struct BlockEntry<'r> {
    code: &'static str,
    object: &'r str,
    message: &'r str,
}

impl<'r> HeldEntry<'r> {
    pub(super) fn of(node: &'r str, reason: RemovalReason, by: &'r [Block]) -> Self {
        let entry = |Block { code, object, message }: &'r Block| BlockEntry { code: code.as_str(), object, message };
        Self { node, reason: reason.to_string(), by: by.iter().map(entry).collect() }
    }
}
