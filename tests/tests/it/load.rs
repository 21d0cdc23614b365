//! A short run of `fleetwright-sim simulate load`: after servers are killed, every cluster has an
//! owner, every pod runs, and no instance is launched twice. Durations are not asserted. Skipped
//! without PostgreSQL.

use std::time::Duration;

use e2e::Program;
use e2e::postgres::installed;

use crate::SIMULATOR;

/// A minute's work on an idle machine; a busy machine needs several times that.
const TIMEOUT: Duration = Duration::from_secs(900);

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
fn eight_clusters_whose_only_server_is_killed_lose_no_pod_and_launch_nothing_twice() {
    if installed("eight_clusters_whose_only_server_is_killed_lose_no_pod_and_launch_nothing_twice").is_none() {
        return;
    }
    let all = ["simulate", "load", "-o", "json"];
    let program = Program::new(SIMULATOR, &[&all[..], &SMALL[..]].concat());
    let ended = program.env("PATH", &std::env::var("PATH").unwrap_or_default()).run(TIMEOUT);
    assert_eq!(ended.status, 0, "{}\n{}", ended.stdout, ended.stderr);
    let all_expected = [
        "\"clustersUnowned\": 0",
        "\"burstPodsWaiting\": 0",
        "\"doubled\": []",
        "\"well\": true",
        "killed and started again",
    ];
    for expected in all_expected {
        assert!(ended.stdout.contains(expected), "{expected} is missing in:\n{}", ended.stdout);
    }
    let report: serde_json::Value = serde_json::from_str(&ended.stdout).expect("the report is JSON");
    let plans = report["upsets"][0]["spell"]["consolidationPlans"]["count"].as_u64();
    assert!(plans > Some(0), "the server consolidates meanwhile:\n{}", ended.stdout);
    assert!(ended.stderr.contains("owned again"), "the end of each phase is logged:\n{}", ended.stderr);
}
