use super::*;
use crate::faults::{PoolCapacity, Throttle};

const NOW: Timestamp = Timestamp::from_millis(1_000_000);

fn codes(switchboard: &mut Switchboard, action: &str, calls: usize) -> Vec<Option<String>> {
    let code = |_| switchboard.next_call(action, "RequestLimitExceeded", NOW).error.map(|error| error.code);
    (0..calls).map(code).collect()
}

#[test]
fn a_rule_covers_its_action_and_skips_and_counts_calls() {
    let rule = FaultRule { times: Some(2), ..FaultRule::once_after("CreateFleet", 1, Effect::error("InternalError")) };
    let mut switchboard = Switchboard::new(Faults { rules: vec![rule], ..Faults::default() });
    assert_eq!(codes(&mut switchboard, "DescribeInstances", 2), [None, None]);
    let failed = Some("InternalError".to_owned());
    assert_eq!(codes(&mut switchboard, "CreateFleet", 4), [None, failed.clone(), failed, None]);
}

#[test]
fn a_share_of_calls_depends_on_the_seed_only() {
    let rules = vec![FaultRule { percent: 50, ..FaultRule::always("*", Effect::CutAfter) }];
    let cuts = |seed| {
        let mut switchboard = Switchboard::new(Faults { seed, rules: rules.clone(), ..Faults::default() });
        (0..200).map(|_| switchboard.next_call("x", "", NOW).cut_after).collect::<Vec<_>>()
    };
    assert_eq!(cuts(1), cuts(1));
    assert_ne!(cuts(1), cuts(2));
    let share = cuts(1).iter().filter(|cut| **cut).count();
    // 100 of 200 are expected; the standard deviation is 7.
    assert!((65..=135).contains(&share), "{share}");
}

#[test]
fn a_bucket_is_per_action_and_refills() {
    let throttles = [("CreateFleet".to_owned(), Throttle { burst: 1, refill_ms: 500 })].into();
    let mut switchboard = Switchboard::new(Faults { throttles, ..Faults::default() });
    let throttled = Some("RequestLimitExceeded".to_owned());
    assert_eq!(codes(&mut switchboard, "CreateFleet", 2), [None, throttled]);
    assert_eq!(codes(&mut switchboard, "DescribeInstances", 1), [None]);
    let later = Timestamp::from_millis(1_000_501);
    assert_eq!(switchboard.next_call("CreateFleet", "RequestLimitExceeded", later).error, None);
}

#[test]
fn the_first_entry_that_covers_a_pool_counts_and_decreases() {
    let two_spot = PoolCapacity { capacity_type: Some("spot".to_owned()), available: 2, ..PoolCapacity::default() };
    let pools = vec![PoolCapacity::none("m5.large", "eu-west-1a"), two_spot];
    let mut switchboard = Switchboard::new(Faults { pools, ..Faults::default() });
    let pool = |instance_type, capacity_type| Pool { instance_type, zone: "eu-west-1a", capacity_type };
    assert_eq!(switchboard.available(pool("m5.large", "spot")), Some(0));
    assert_eq!(switchboard.available(pool("c5.large", "on-demand")), None);
    assert_eq!(switchboard.available(pool("c5.large", "spot")), Some(2));
    switchboard.take_capacity(pool("c5.large", "spot"));
    assert_eq!(switchboard.available(pool("r5.large", "spot")), Some(1));
}

#[test]
fn an_update_replaces_the_fields_that_it_names() {
    let update = serde_json::json!({
        "seed": 7,
        "rules": [{ "action": "CreateFleet", "times": 1, "effect": { "kind": "error", "code": "InternalError" } }],
        "pools": [{ "instanceType": "m5.large", "available": 0 }],
    });
    let lag = Lag { instances_ms: 3, ..Lag::default() };
    let updated = Faults { lag, ..Faults::default() }.updated(&update).unwrap();
    assert_eq!((updated.seed, updated.lag, updated.pools.len()), (7, lag, 1));
    assert_eq!(updated.rules, [FaultRule::times("CreateFleet", 1, Effect::error("InternalError"))]);
    assert!(Faults::default().updated(&serde_json::json!({ "rule": [] })).is_err());
}

#[test]
fn an_added_rule_leaves_the_counters_of_the_others() {
    let once = FaultRule::times("a", 1, Effect::error("InternalError"));
    let mut switchboard = Switchboard::new(Faults { rules: vec![once.clone()], ..Faults::default() });
    let failed = Some("InternalError".to_owned());
    assert_eq!(codes(&mut switchboard, "a", 1).first(), Some(&failed));
    let other = FaultRule::times("b", 1, Effect::error("InternalError"));
    switchboard.set(Faults { rules: vec![once, other], ..Faults::default() });
    assert_eq!((codes(&mut switchboard, "a", 1), codes(&mut switchboard, "b", 1)), (vec![None], vec![failed]));
}
