//! Holds of capacity on real servers: none is lost, doubled or alive past its end when servers are killed. Without
//! PostgreSQL these tests are skipped.

use std::time::Duration;

use e2e::postgres::installed;
use e2e::{ExitResult, Program};

use crate::SIMULATOR;

/// Generous, for busy machines.
const TIMEOUT: Duration = Duration::from_secs(600);

fn holds(test: &str, arguments: &[&str]) -> Option<ExitResult> {
    let all = ["simulate", "holds", "-o", "json"];
    let program = Program::new(SIMULATOR, &[&all[..], arguments].concat());
    let _here = installed(test)?;
    Some(program.env("PATH", &std::env::var("PATH").unwrap_or_default()).run(TIMEOUT))
}

#[test]
fn kills_of_two_servers_lose_no_hold_and_double_none() {
    let test = "kills_of_two_servers_lose_no_hold_and_double_none";
    let Some(ended) = holds(test, &["--holds", "40", "--kills", "8", "--clusters", "4"]) else { return };
    assert_eq!(ended.status, 0, "{}\n{}", ended.stdout, ended.stderr);
    for expected in
        ["\"kills\": 8", "\"lost\": []", "\"doubled\": []", "\"overdue\": []", "\"leftOver\": []", "\"leaked\": []"]
    {
        assert!(ended.stdout.contains(expected), "{expected} is missing in:\n{}", ended.stdout);
    }
}

/// The check sees what request ids prevent.
#[test]
fn without_request_ids_repeated_requests_hold_twice() {
    let test = "without_request_ids_repeated_requests_hold_twice";
    let Some(ended) = holds(test, &["--holds", "30", "--kills", "0", "--clusters", "2", "--without-request-ids"])
    else {
        return;
    };
    assert_eq!(ended.status, 1, "{}\n{}", ended.stdout, ended.stderr);
    assert!(!ended.stdout.contains("\"doubled\": []"), "{}", ended.stdout);
}
