//! What commands share: exit status, input files, output without control characters, durations and
//! completion.

pub mod completion;
pub mod duration;
pub mod escape;
pub mod exit;
pub mod output;
pub mod rows;
pub mod sources;
pub mod wording;
