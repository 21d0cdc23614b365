//! Options of a demo, and the region of its cloud.

use std::time::Duration;

use crate::cloud_interface::CloudInterface;

pub(crate) const REGION: &str = "us-east-1";

#[derive(Debug)]
pub struct Plan {
    /// The demo ends when the scenario does, at the latest after this; `None` repeats the scenario
    /// until a signal.
    pub at_most: Option<Duration>,
    pub seed: u64,
    pub no_capacity: bool,
    /// How the server reaches the cloud.
    pub cloud: CloudInterface,
    pub clusters: u8,
    /// HTTP port of the dashboard.
    pub port: u16,
    pub log: String,
    /// Replay every decision from the log at the end.
    pub replay: bool,
}
