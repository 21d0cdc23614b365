//! Measures of the drawing.

/// Width of a box with its margin, in pixels.
pub(super) const COLUMN: usize = 296;
/// Margin of the drawing, in pixels.
pub(super) const MARGIN: usize = 16;
/// Number of nodes above which the drawing is wider.
pub(super) const MANY_NODES: usize = 40;
/// Height of a line of text, in pixels.
pub(super) const LINE: usize = 20;
/// Number of pods without a place above which their names are tooltips only.
pub(super) const MANY_PODS: usize = 60;
/// Side of a pod without a place, with its margin, in pixels.
pub(super) const TILE: usize = 16;
