//! Bytes that a decision by a plan of disruption adds to the log: 20 pods a node, 40 of which move with each decision.

use disruption::Settings;
use store::{Archive, compression};

use crate::log::{Log, captured};
use crate::objects::{node, pod, pool};

const PODS_A_NODE: usize = 20;

/// `nodes` of 8 CPUs that are half full; the pods of the first `gone` nodes run on the last ones.
fn cluster(nodes: usize, gone: usize) -> String {
    let mut text = pool("default").budgets("{nodes: \"10\"}").text();
    for at in gone..nodes {
        text += &node(&format!("ip-10-0-{at}-7.ec2.internal"), "big").text();
    }
    for number in 0..nodes * PODS_A_NODE {
        // The name of a pod of a ReplicaSet ends with five characters that do not compress.
        let name = format!("web-7d9f8b6c5d-{:05x}", (number as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 44);
        let home = number / PODS_A_NODE;
        let home = if home < gone { nodes - 1 - home } else { home };
        text += &pod(&name, &format!("ip-10-0-{home}-7.ec2.internal"), "200m").text();
    }
    text
}

/// The first event of a segment, the mean of the later ones, and the mean of a later row as the store compresses it.
async fn sizes(nodes: usize) -> [usize; 3] {
    const DECISIONS: usize = 3;
    let log = Log::new().await;
    let mut rows = Vec::new();
    for step in 0..DECISIONS {
        let number = step as u64 + 1;
        let planned = log.decide(number, &captured(&cluster(nodes, 2 * step)), &Settings::default()).await;
        assert!(!planned.commands.is_empty(), "the plan leads to commands");
        let recorded = log.load(number).await;
        assert!(recorded.replay().is_identical());
        rows.push(recorded.stored.decision.replay.expect("replay data"));
    }
    let chunks =
        log.store.log_segment(&log.lease.scope, 1).await.expect("a store in memory").expect("the segment").chunks;
    assert_eq!(chunks.len(), DECISIONS);
    let row = |at: usize| [&rows[at].plan, &chunks[at].bytes, &rows[at].input_digest].map(Vec::as_slice).concat();
    let later = chunks[1..].iter().map(|chunk| chunk.bytes.len()).sum::<usize>() / (DECISIONS - 1);
    let packed = (2..DECISIONS).map(|at| compression::compress(&row(1), &row(at)).len()).sum::<usize>();
    [chunks[0].bytes.len(), later, packed / (DECISIONS - 2)]
}

#[tokio::test]
async fn a_decision_adds_what_has_changed_and_not_the_cluster() {
    for nodes in [100, 1_000] {
        let [first, later, packed] = sizes(nodes).await;
        println!("{nodes} nodes: first event {first} bytes, later ones {later}; {packed} with the plan when packed");
        // The whole cluster: at most 60 bytes for each pod, and the nodes.
        assert!(first < nodes * (PODS_A_NODE * 60 + 200), "{nodes} nodes: {first}");
        // 40 pods moved, of each of which two records are written: not one for each pod of the cluster.
        assert!(later < 40 * 2 * 120, "{nodes} nodes: {later}");
        assert!(packed * 8 < first, "{nodes} nodes: {packed} bytes of {first}");
    }
}
