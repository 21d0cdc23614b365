//! A cluster is read alike from the messages of its agent and from the manifests of its objects: both give one planning
//! input, and one view of what runs.

use e2e::random_cluster::RandomCluster;
use e2e::{agent_state, state_comparison};
use model::Timestamp;

/// 2026-06-01T12:00:00Z, as the objects of [`e2e::random_cluster`] have it.
const NOW: Timestamp = Timestamp::from_millis(1_780_315_200_000);
/// Random clusters of one run; `CAPTURE_CLUSTERS` sets another number.
const CLUSTERS: u64 = 300;

#[test]
fn files_and_agents_give_one_planning_input() {
    let options = state_comparison::options(NOW);
    let clusters = std::env::var("CAPTURE_CLUSTERS").ok().map_or(CLUSTERS, |text| text.parse().expect("a number"));
    for seed in 0..clusters {
        let objects = RandomCluster::of(seed).objects();
        if let Err(found) = state_comparison::compare(&objects, agent_state::records(&objects), &options) {
            panic!("seed {seed}: {found}\n\nobjects:\n{}", serde_json::to_string_pretty(&objects).unwrap_or_default());
        }
    }
}
