//! Results of a run.

use std::time::Duration;

#[derive(Debug, Default)]
pub struct Report {
    pub kills: usize,
    pub created: usize,
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
    pub took: Duration,
}

impl Report {
    pub fn is_success(&self) -> bool {
        let violations = [
            &self.lost,
            &self.doubled,
            &self.overdue,
            &self.contradictions,
            &self.without_room,
            &self.left_over,
            &self.leaked,
            &self.launched_twice,
        ];
        violations.iter().all(|found| found.is_empty())
    }
}
