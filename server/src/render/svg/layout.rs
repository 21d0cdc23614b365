//! Measures of the drawing.

/// Width of a box with its margin, in pixels.
pub(super) const COLUMN: usize = 296;
/// Margin of the drawing, in pixels.
pub(super) const MARGIN: usize = 16;
/// Number of nodes above which the drawing is wider.
pub(super) const MANY_NODES: usize = 40;
/// Side of a pod without a place, with its margin, in pixels.
pub(super) const TILE: usize = 16;
