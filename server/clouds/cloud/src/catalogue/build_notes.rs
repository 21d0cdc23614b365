//! Notes about a catalogue, collected while it is built.

use std::collections::BTreeSet;

/// Estimates made while a catalogue is built.
#[derive(Debug, Default)]
pub(super) struct BuildNotes {
    pub(super) notes: BTreeSet<String>,
    /// Types with prices of another region.
    pub(super) priced_elsewhere: usize,
    /// Whether a spot price was estimated from the on-demand price.
    pub(super) spot_estimated: bool,
}
