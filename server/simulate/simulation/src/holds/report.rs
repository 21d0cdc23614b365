//! Results of a run.

use std::time::Duration;

use serde::{Serialize, Serializer};

use crate::measured::{percentile, seconds};

#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    #[serde(rename = "holds")]
    pub created: usize,
    pub kills: usize,
    /// Requests that were sent again with the same id, to either server.
    pub repeated: usize,
    pub committed: usize,
    pub released: usize,
    pub expired: usize,
    pub failed: usize,
    /// Failed holds that had nodes before: what was launched of them has to be removed.
    pub failed_with_nodes: usize,
    /// Holds that are committed at the end.
    pub kept: usize,
    /// Time from a hold's creation until its room was there, in milliseconds.
    #[serde(flatten, serialize_with = "ready")]
    pub ready_ms: Vec<u64>,
    /// Holds that were answered and are not listed.
    pub lost: Vec<String>,
    /// Requests with more than one hold.
    pub doubled: Vec<String>,
    /// Holds that were seen alive after their end.
    pub overdue: Vec<String>,
    /// Answers that contradict what the client was told before.
    pub contradictions: Vec<String>,
    /// Committed holds without their machines at the end.
    pub without_room: Vec<String>,
    /// NodeClaims that no kept hold needs, at the end.
    pub left_over: Vec<String>,
    /// Billed instances without a NodeClaim: provider ids.
    pub leaked: Vec<String>,
    /// NodeClaims with more than one launched instance.
    pub launched_twice: Vec<String>,
    pub launched: usize,
    /// Instances that are billed at the end.
    pub alive: usize,
    #[serde(rename = "seconds", serialize_with = "seconds")]
    pub took: Duration,
}

fn ready<S: Serializer>(times: &[u64], serializer: S) -> Result<S::Ok, S::Error> {
    let figures = [("readyMillisP50", 50), ("readyMillisP99", 99)];
    serializer.collect_map(figures.map(|(name, percent)| (name, percentile(times, percent))))
}

impl Report {
    pub fn is_success(&self) -> bool {
        self.violations().iter().all(|(_, found)| found.is_empty())
    }

    /// What must be empty, by name.
    pub fn violations(&self) -> [(&'static str, &Vec<String>); 8] {
        [
            ("lost", &self.lost),
            ("doubled", &self.doubled),
            ("overdue", &self.overdue),
            ("contradictions", &self.contradictions),
            ("withoutRoom", &self.without_room),
            ("leftOver", &self.left_over),
            ("leaked", &self.leaked),
            ("launchedTwice", &self.launched_twice),
        ]
    }
}
