//! `fleetwright-sim simulate crashes`: servers killed during launches leak no instance and launch none
//! twice. Without PostgreSQL these tests are skipped.

use std::time::Duration;

use e2e::postgres::installed;
use e2e::{ExitResult, Program};

use crate::SIMULATOR;

/// A kill takes some seconds; generous, for busy machines.
const TIMEOUT: Duration = Duration::from_secs(900);

/// Runs `simulate crashes`. It drops every connection of the database, so it uses a separate
/// PostgreSQL and never an existing one.
fn crashes(test: &str, arguments: &[&str]) -> Option<ExitResult> {
    let all = ["simulate", "crashes", "-o", "json"];
    let program = Program::new(SIMULATOR, &[&all[..], arguments].concat());
    let _here = installed(test)?;
    Some(program.env("PATH", &std::env::var("PATH").unwrap_or_default()).run(TIMEOUT))
}

#[test]
fn twenty_kills_leak_no_instance_and_launch_none_twice() {
    let test = "twenty_kills_leak_no_instance_and_launch_none_twice";
    let Some(ended) = crashes(test, &["--times", "20", "--cut-every", "10"]) else { return };
    assert_eq!(ended.status, 0, "{}\n{}", ended.stdout, ended.stderr);
    for expected in
        ["\"kills\": 20", "\"leaked\": []", "\"doubled\": []", "\"databaseCuts\": 2", "\"nodeClaimsRemoved\": 3"]
    {
        assert!(ended.stdout.contains(expected), "{expected} is missing in:\n{}", ended.stdout);
    }
}

/// The servers launch through the AWS SDK, on a simulated EC2 that loses answers.
#[test]
fn kills_of_servers_that_launch_on_ec2_leak_no_instance_and_launch_none_twice() {
    let test = "kills_of_servers_that_launch_on_ec2_leak_no_instance_and_launch_none_twice";
    let Some(ended) = crashes(test, &["--cloud", "ec2", "--times", "8", "--cut-every", "4"]) else { return };
    assert_eq!(ended.status, 0, "{}\n{}", ended.stdout, ended.stderr);
    for expected in ["\"kills\": 8", "\"leaked\": []", "\"doubled\": []", "\"databaseCuts\": 2"] {
        assert!(ended.stdout.contains(expected), "{expected} is missing in:\n{}", ended.stdout);
    }
}

#[test]
fn with_a_cloud_that_ignores_tokens_the_same_kills_launch_instances_twice() {
    let test = "with_a_cloud_that_ignores_tokens_the_same_kills_launch_instances_twice";
    let Some(ended) = crashes(test, &["--times", "6", "--cut-every", "0", "--without-tokens"]) else { return };
    assert_eq!(ended.status, 1, "{}\n{}", ended.stdout, ended.stderr);
    assert!(!ended.stdout.contains("\"doubled\": []"), "{}", ended.stdout);
}

#[test]
fn without_garbage_collection_the_same_kills_leak_instances() {
    let test = "without_garbage_collection_the_same_kills_leak_instances";
    let Some(ended) = crashes(test, &["--times", "1", "--cut-every", "0", "--without-collection"]) else { return };
    assert_eq!(ended.status, 1, "{}\n{}", ended.stdout, ended.stderr);
    assert!(!ended.stdout.contains("\"leaked\": []"), "{}", ended.stdout);
}

/// Every notice passes EventBridge and SQS, a tenth of them twice, and half of them while or after the server is
/// killed.
#[test]
fn interruption_notices_survive_a_kill_of_the_server() {
    let test = "interruption_notices_survive_a_kill_of_the_server";
    let arguments = ["simulate", "interruptions", "--clusters", "10", "--nodes", "4", "--within", "4s", "-o", "json"];
    let program = Program::new(SIMULATOR, &arguments);
    let Some(_here) = installed(test) else { return };
    let ended = program.env("PATH", &std::env::var("PATH").unwrap_or_default()).run(TIMEOUT);
    assert_eq!(ended.status, 0, "{}\n{}", ended.stdout, ended.stderr);
    for expected in ["\"kills\": 1", "\"rows\": 40", "\"tainted\": 40", "\"podsWaiting\": 0", "\"doubled\": []"] {
        assert!(ended.stdout.contains(expected), "{expected} is missing in:\n{}", ended.stdout);
    }
}
