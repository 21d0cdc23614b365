//! `fleetwright simulate load`, small: whatever servers go through, no cluster is left without one, every pod runs in the end,
//! and no machine is bought twice. How long anything takes decides nothing here. Without a PostgreSQL on this machine this test
//! says so and proves nothing.

use std::time::Duration;

use e2e::Program;
use e2e::postgres::installed;

use crate::PROGRAM;

/// A minute's work on an idle machine; a busy machine needs several times that.
const PATIENCE: Duration = Duration::from_secs(900);

const SMALL: [&str; 13] = [
    "--clusters",
    "8",
    "--nodes",
    "5",
    "--pods",
    "20",
    "--burst",
    "3",
    "--period",
    "20s",
    "--for",
    "1s",
    "--only-restart",
];

#[test]
fn eight_clusters_whose_only_server_is_killed_lose_no_pod_and_buy_nothing_twice() {
    if installed("eight_clusters_whose_only_server_is_killed_lose_no_pod_and_buy_nothing_twice").is_none() {
        return;
    }
    let all = ["simulate", "load", "-o", "json"];
    let program = Program::new(PROGRAM, &[&all[..], &SMALL[..]].concat());
    let ended = program.env("PATH", &std::env::var("PATH").unwrap_or_default()).run(PATIENCE);
    assert_eq!(ended.status, 0, "{}\n{}", ended.stdout, ended.stderr);
    let said = [
        "\"clustersUnowned\": 0",
        "\"burstPodsWaiting\": 0",
        "\"doubled\": []",
        "\"well\": true",
        "killed and started again",
    ];
    for said in said {
        assert!(ended.stdout.contains(said), "{said} is missing in:\n{}", ended.stdout);
    }
    assert!(ended.stderr.contains("owned again"), "each phase is told when it ends:\n{}", ended.stderr);
}
