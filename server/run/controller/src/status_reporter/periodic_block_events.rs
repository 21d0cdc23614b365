//! Which nodes are looked at next for the Events that state what keeps them.

use cluster::{ClusterState, NodeRecord};
use model::{Millis, NodeName, Timestamp};

const INTERVAL: Millis = Millis::from_mins(1);
/// Nodes of one look. Each is judged like a report of a node; a cluster of 10,000 nodes costs no more than one of 20.
const MAX_NODES: usize = 20;

/// The nodes of the cluster, a few at a time.
#[derive(Debug, Default)]
pub(super) struct PeriodicBlockEvents {
    last: Option<Timestamp>,
    /// The last node that was looked at.
    after: NodeName,
}

impl PeriodicBlockEvents {
    /// Begins a look, unless the last one was less than a minute ago.
    pub fn begin_pass(&mut self, now: Timestamp) -> bool {
        let is_due = self.last.is_none_or(|last| last + INTERVAL <= now);
        if is_due {
            self.last = Some(now);
        }
        is_due
    }

    /// The next nodes, by name, and the first ones after the last.
    pub fn next_nodes<'s>(&mut self, state: &'s ClusterState) -> Vec<&'s NodeRecord> {
        let following = state.nodes().filter(|node| node.name > self.after);
        let first = state.nodes().filter(|node| node.name <= self.after);
        let nodes: Vec<&NodeRecord> = following.chain(first).take(MAX_NODES).collect();
        self.after = nodes.last().map(|node| node.name.clone()).unwrap_or_default();
        nodes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cluster::testing::{initialized_cluster, pool};

    #[test]
    fn all_nodes_have_their_turn_and_no_pass_looks_at_more_than_twenty() {
        let names: Vec<String> = (0..30).map(|number| format!("m{number:02}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let (state, mut events) = (initialized_cluster(pool(), &names), PeriodicBlockEvents::default());
        let mut looked_at = || {
            let nodes = events.next_nodes(&state);
            (
                nodes.len(),
                nodes.first().map(|node| node.name.to_string()),
                nodes.last().map(|node| node.name.to_string()),
            )
        };
        let some = |name: &str| Some(name.to_owned());
        assert_eq!(looked_at(), (20, some("n-m00"), some("n-m19")));
        assert_eq!(looked_at(), (20, some("n-m20"), some("n-m09")), "ten are left, and then the first ten");
        assert_eq!(looked_at(), (20, some("n-m10"), some("n-m29")));
    }

    #[test]
    fn a_blocked_node_is_checked_again_after_a_minute() {
        let mut events = PeriodicBlockEvents::default();
        let begun = [0, 59_999, 60_000, 119_999].map(|at| events.begin_pass(Timestamp::from_millis(at)));
        assert_eq!(begun, [true, false, true, false]);
    }
}
