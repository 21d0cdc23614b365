//! `fleetwright demo --replay`: what was decided is made again from the decision log alone, bit for bit.

use crate::fleetwright;

#[test]
fn every_decision_of_a_demo_is_replayed_bit_for_bit() {
    let ended = fleetwright(&["demo", "--for", "60s", "--seed", "2", "--clusters", "2", "--replay"]);
    assert_eq!(ended.status, 0, "{}\n{}", ended.stdout, ended.stderr);
    let line = ended.stdout.lines().find(|line| line.contains("0 different, 0 unreadable")).unwrap_or_default();
    let replayed = ended.stdout.lines().filter(|line| line.contains("input identical, plan identical")).count();
    assert!(line.contains(&format!("replayed {replayed} decisions: {replayed} identical")), "{}", ended.stdout);
    assert!(replayed >= 4, "two clusters with a script each decide more than once:\n{}", ended.stdout);
}
