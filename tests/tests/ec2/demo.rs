//! `fleetwright-sim demo --cloud ec2`: the demo's workload through the AWS SDK, with notices through EventBridge and SQS.

use std::time::Duration;

use e2e::Program;

use crate::SIMULATOR;

/// The demo ends by itself after a minute or two; `--for` is its limit on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(400);

/// Of the first three instances, each is interrupted if it is a spot instance; most instances are.
const SEED: &str = "42";

/// The number in front of `words`.
fn number_before(text: &str, words: &str) -> u64 {
    let before = text.split(words).next().filter(|before| before.len() < text.len());
    let word = before.and_then(|before| before.split_whitespace().next_back());
    word.and_then(|word| word.parse().ok()).unwrap_or_else(|| panic!("no number before {words:?} in:\n{text}"))
}

#[test]
fn a_demo_on_ec2_succeeds_and_receives_the_notice_of_every_interruption() {
    let arguments = ["demo", "--cloud", "ec2", "--for", "5m", "--seed", SEED, "--clusters", "2"];
    let ended = Program::new(SIMULATOR, &arguments).run(TIMEOUT);
    assert_eq!(ended.status, 0, "{}\n{}", ended.stdout, ended.stderr);
    assert!(ended.stdout.contains("every pod ran and every empty node was removed"), "{}", ended.stdout);
    let interrupted = number_before(&ended.stdout, " interrupted,");
    assert!(interrupted > 0, "{}", ended.stdout);
    assert_eq!(number_before(&ended.stdout, " of them of spot interruptions;"), interrupted, "{}", ended.stdout);
    assert_eq!(number_before(&ended.stdout, " missing\n"), 0, "{}", ended.stdout);
}
