use crate::guardrails::ObjectCounts;
use crate::guardrails::circuit_breaker::CircuitBreaker;
use crate::guardrails::fleet_counters::MachineTotals;
use crate::guardrails::launch_backoff::{LaunchBackoff, UnboundLaunch};
use crate::guardrails::quarantine::{CountedKind, MissingObjects, detect_loss};
use crate::guardrails::rate_limits::{Population, RateLimitKind, RateLimits};
use crate::guardrails::sliding_window::SlidingWindow;
use crate::guardrails::{Bound, CircuitBreakerRule, LaunchBackoffRule, QuarantineRule, RateLimitRule};
use cluster::testing::text;
use model::{ClaimName, MicroUsd, Millis, PodKey, Timestamp};

const OPEN: Bound = Bound { machines: 0, usd_per_hour: MicroUsd(0), percent: 0, free: 0 };

#[test]
fn a_window_keeps_its_sum_as_entries_arrive_late_and_expire() {
    let mut window = SlidingWindow::<ClaimName>::default();
    window.record(text("b"), MicroUsd(20), Timestamp::from_millis(200));
    window.record(text("a"), MicroUsd(10), Timestamp::from_millis(100));
    window.record(text("c"), MicroUsd(40), Timestamp::from_millis(300));
    window.remove(&text("b"));
    assert_eq!((window.len(), window.cost(), window.oldest()), (2, MicroUsd(50), Some(Timestamp::from_millis(100))));
    window.expire(Millis::from_secs(1), Timestamp::from_millis(1100));
    assert_eq!((window.len(), window.cost()), (1, MicroUsd(40)));
}

#[test]
fn a_percentage_counts_removed_machines_and_never_binds_below_its_lower_bound() {
    let share = Bound { percent: 50, free: 3, ..OPEN };
    let rule = RateLimitRule { window: Millis::from_mins(10), cluster: share, fleet: OPEN };
    let cluster = text("c");
    let mut rate_limits = RateLimits::default();
    let admitted = |rate_limits: &RateLimits, machines: usize| {
        let population = Population { cluster: &cluster, machines, fleet: machines, clusters: 1 };
        rate_limits
            .admit(&rule, RateLimitKind::Removals, population, vec![MicroUsd(1); 20], Timestamp::from_millis(0))
            .0
    };
    // Half of 11 is 5.5, rounded up 6; half of 4 is 2, but 3 are free.
    assert_eq!((admitted(&rate_limits, 11), admitted(&rate_limits, 4)), (6, 3));
    for name in ["m0", "m1", "m2", "m3"] {
        rate_limits.record(&cluster, &text(name), MicroUsd(1), Timestamp::from_millis(0));
    }
    // Four of 11 were removed: 7 remain, 11 were there, 6 may be removed in all, 2 more.
    assert_eq!(admitted(&rate_limits, 7), 2);
    rate_limits.remove(&cluster, &text("m3"));
    assert_eq!((rate_limits.cluster_count(&cluster), rate_limits.fleet_count()), (3, 3));
}

#[test]
fn the_circuit_breaker_engages_and_releases_at_different_percentages() {
    let rule = CircuitBreakerRule { window: Millis::from_mins(10), least: 4, engage_percent: 50, release_percent: 20 };
    let mut breaker = CircuitBreaker::default();
    let at = |millis: i64| Timestamp::from_millis(millis);
    for moment in 0..3 {
        breaker.record_failure(&text(if moment == 0 { "a" } else { "b" }), at(moment));
    }
    assert!(!breaker.evaluate(&rule, at(3)), "three outcomes are too few");
    breaker.record_success(&text("a"), at(4));
    assert!(breaker.evaluate(&rule, at(5)), "three of four failed");
    // Three of 10 is 30 %: less than half, more than a fifth.
    (0..6).for_each(|n| breaker.record_success(&text("a"), at(10 + n)));
    assert!(!breaker.evaluate(&rule, at(20)));
    assert_eq!(breaker.next_change(&rule), Some(at(600_000)));
    // Three of 15 is 20 %.
    (0..5).for_each(|n| breaker.record_success(&text("b"), at(20 + n)));
    assert!(breaker.evaluate(&rule, at(30)));
    assert_eq!(breaker.engaged_since(&text("c")), None);
    // At 30 % again it stays released.
    (0..2).for_each(|n| breaker.record_failure(&text("a"), at(31 + n)));
    assert!(!breaker.evaluate(&rule, at(40)));
}

#[test]
fn restored_events_count_in_their_cluster_and_remote_ones_in_the_fleet() {
    let rule = RateLimitRule {
        window: Millis::from_mins(10),
        cluster: Bound { machines: 4, ..OPEN },
        fleet: Bound { machines: 9, ..OPEN },
    };
    let cluster = text("c");
    let population = || Population { cluster: &cluster, machines: 100, fleet: 300, clusters: 1 };
    let mut rate_limits = RateLimits::default();
    let admitted = |rate_limits: &RateLimits, now: i64| {
        let (admitted, held) = rate_limits.admit(
            &rule,
            RateLimitKind::Removals,
            population(),
            vec![MicroUsd(1); 20],
            Timestamp::from_millis(now),
        );
        (admitted, held.map_or(0, |held| held.until.as_millis()))
    };
    rate_limits.restore(&cluster, &text("m0"), MicroUsd(0), Timestamp::from_millis(1_000));
    // One of four: 3 more, until 1,000 + 600,000.
    assert_eq!((admitted(&rate_limits, 5_000), rate_limits.fleet_count()), ((3, 601_000), 0));
    let seven = MachineTotals { count: 7, cost: MicroUsd(70) };
    rate_limits.merge_remote(
        [(Timestamp::from_millis(2_000), seven), (Timestamp::from_millis(3_000), MachineTotals::default())].into_iter(),
    );
    // Seven of nine: 2 more in the fleet, until 602,000.
    assert_eq!((admitted(&rate_limits, 5_000), rate_limits.fleet_count()), ((2, 602_000), 7));
    rate_limits.record(&cluster, &text("m1"), MicroUsd(1), Timestamp::from_millis(5_000));
    assert_eq!(
        (admitted(&rate_limits, 5_000), rate_limits.fleet_count(), rate_limits.cluster_count(&cluster)),
        ((1, 602_000), 8, 2)
    );
    rate_limits.expire(rule.window, Timestamp::from_millis(601_000));
    assert_eq!((rate_limits.fleet_count(), rate_limits.cluster_count(&cluster)), (8, 1));
    rate_limits.expire(rule.window, Timestamp::from_millis(602_000));
    assert_eq!((rate_limits.fleet_count(), rate_limits.cluster_count(&cluster)), (1, 1));
    rate_limits.expire(rule.window, Timestamp::from_millis(605_000));
    assert_eq!((rate_limits.fleet_count(), rate_limits.cluster_count(&cluster)), (0, 0));
}

#[test]
fn the_circuit_breaker_counts_repeated_remote_counters_once() {
    let rule = CircuitBreakerRule { window: Millis::from_mins(10), least: 5, engage_percent: 50, release_percent: 20 };
    let mut breaker = CircuitBreaker::default();
    let at = |millis: i64| Timestamp::from_millis(millis);
    breaker.record_failure(&text("a"), at(20_000));
    let remote = || [(at(10_000), 1, 1), (at(30_000), 0, 0)].into_iter();
    for moment in 30_000..30_005 {
        breaker.merge_remote(remote());
        assert!(!breaker.evaluate(&rule, at(moment)), "two of three failed, and three outcomes are too few");
    }
    breaker.merge_remote([(at(10_000), 1, 1), (at(30_000), 1, 1)].into_iter());
    assert!(breaker.evaluate(&rule, at(31_000)), "three of five failed");
    // The oldest remote counter is ten minutes old at 610,000.
    assert_eq!(breaker.next_change(&rule), Some(at(610_000)));
    assert!(!breaker.evaluate(&rule, at(610_000)), "two of three");
    assert!(!breaker.evaluate(&rule, at(620_000)), "one of two");
    assert!(breaker.evaluate(&rule, at(630_000)), "nothing is known any more");
}

#[test]
fn waits_double_up_to_the_longest_and_end_with_the_pod() {
    let rule = LaunchBackoffRule { launches: 2, first_wait: Millis::from_mins(1), most_wait: Millis::from_secs(200) };
    let key = PodKey { namespace: text("default"), name: text("a") };
    let mut backoff = LaunchBackoff::default();
    let mut waits = Vec::new();
    let (claim, at) = (text("m"), Timestamp::from_millis(0));
    let launch = UnboundLaunch { claim: &claim, at, counts: true };
    for _ in 0..5 {
        backoff.record(&rule, &key, &text("uid"), launch);
        waits.push(backoff.delay(&key, Timestamp::from_millis(0)).map_or(0, |delay| delay.until.as_millis()));
    }
    assert_eq!(waits, [0, 60_000, 120_000, 200_000, 200_000]);
    backoff.record(&rule, &key, &text("another of that name"), launch);
    assert_eq!(backoff.delay(&key, Timestamp::from_millis(0)), None);
    backoff.retain(|_, uid| uid.as_ref() == "uid");
    assert!(backoff.is_empty());
}

#[test]
fn a_machine_that_others_use_is_no_further_launch_for_the_pod() {
    let rule = LaunchBackoffRule { launches: 2, ..LaunchBackoffRule::default() };
    let key = PodKey { namespace: text("default"), name: text("a") };
    let mut backoff = LaunchBackoff::default();
    let mut record = |claim: &str, counts| {
        let (claim, at) = (text(claim), Timestamp::from_millis(0));
        backoff.record(&rule, &key, &text("uid"), UnboundLaunch { claim: &claim, at, counts });
        (backoff.last_launch(&key).map(ToString::to_string), backoff.delay(&key, at).is_some())
    };
    // The first one counts in any case.
    assert_eq!(record("m1", false), (Some("m1".to_owned()), false));
    assert_eq!(record("m2", false), (Some("m2".to_owned()), false));
    assert_eq!(record("m3", true), (Some("m3".to_owned()), true));
}

#[test]
fn what_may_be_missing_from_a_snapshot() {
    let rule = QuarantineRule::default();
    let full = ObjectCounts { nodes: 10, claims: 10, pools: 3, pods: 100, pending: 0, machines: 10 };
    let loss = |shown: ObjectCounts| detect_loss(&rule, full, shown).map(|loss| loss.what);
    let share = |kind, lost, of| Some(MissingObjects::Share { kind, lost, of });
    assert_eq!(loss(full), None);
    // Half is not more than half.
    assert_eq!(loss(ObjectCounts { nodes: 5, pods: 50, ..full }), None);
    assert_eq!(loss(ObjectCounts { nodes: 4, ..full }), share(CountedKind::Nodes, 6, 10));
    assert_eq!(loss(ObjectCounts { pods: 49, ..full }), share(CountedKind::Pods, 51, 100));
    assert_eq!(loss(ObjectCounts { pools: 1, ..full }), share(CountedKind::Pools, 2, 3));
    assert_eq!(loss(ObjectCounts { machines: 0, ..full }), share(CountedKind::Machines, 10, 10));
    // A small cluster may lose what a small number of nodes holds, but not everything.
    let small = ObjectCounts { nodes: 2, claims: 2, pools: 1, pods: 6, pending: 0, machines: 2 };
    assert_eq!(detect_loss(&rule, small, ObjectCounts { nodes: 1, claims: 1, pods: 1, machines: 1, ..small }), None);
    assert!(detect_loss(&rule, small, ObjectCounts { pools: 1, ..ObjectCounts::default() }).is_some());
    assert!(detect_loss(&rule, small, ObjectCounts { pools: 0, ..small }).is_some());
    assert_eq!(detect_loss(&rule, ObjectCounts::default(), ObjectCounts::default()), None);
}

#[test]
fn one_failing_cluster_stops_its_own_removals_and_several_stop_those_of_the_fleet() {
    let rule = CircuitBreakerRule { window: Millis::from_mins(10), least: 4, engage_percent: 50, release_percent: 20 };
    let (noisy, calm) = (text("noisy"), text("calm"));
    let mut breaker = CircuitBreaker::default();
    (0..50).for_each(|n| breaker.record_failure(&noisy, Timestamp::from_millis(n)));
    assert!(breaker.evaluate(&rule, Timestamp::from_millis(60)));
    assert_eq!((breaker.engaged_since(&noisy), breaker.engaged_since(&calm)), (Some(Timestamp::from_millis(60)), None));
    let why = |breaker: &CircuitBreaker, cluster| breaker.engaged(&rule, cluster).map(|engaged| engaged.to_string());
    assert!(why(&breaker, &noisy).is_some_and(|why| why.starts_with("launches fail in cluster noisy:")));
    // One failure in another cluster suffices, or one in another replica's counters.
    let mut with_remote = breaker.clone();
    with_remote.merge_remote([(Timestamp::from_millis(61), 0, 1)].into_iter());
    assert!(with_remote.evaluate(&rule, Timestamp::from_millis(62)));
    breaker.record_failure(&text("third"), Timestamp::from_millis(61));
    assert!(breaker.evaluate(&rule, Timestamp::from_millis(62)));
    for breaker in [&with_remote, &breaker] {
        assert_eq!(breaker.engaged_since(&calm), Some(Timestamp::from_millis(62)));
        assert!(why(breaker, &calm).is_some_and(|why| why.starts_with("launches fail in several clusters")));
    }
    // When the noisy one's are over, the rest is too little.
    assert!(breaker.evaluate(&rule, Timestamp::from_millis(600_050)));
    assert_eq!((breaker.engaged_since(&noisy), breaker.engaged_since(&calm)), (None, None));
}

#[test]
fn clusters_at_their_limit_leave_a_share_of_the_fleet_limit_to_others() {
    let rule = RateLimitRule {
        window: Millis::from_mins(10),
        cluster: Bound { machines: 50, ..OPEN },
        fleet: Bound { machines: 100, ..OPEN },
    };
    let mut rate_limits = RateLimits::default();
    let names = ["a", "b", "c", "d", "e"].map(text);
    let admitted = |rate_limits: &RateLimits, cluster| {
        let population = Population { cluster, machines: 1_000, fleet: 5_000, clusters: 5 };
        rate_limits
            .admit(&rule, RateLimitKind::Launches, population, vec![MicroUsd(1); 60], Timestamp::from_millis(0))
            .0
    };
    let used = names.each_ref().map(|cluster| {
        let used = admitted(&rate_limits, cluster);
        (0..used)
            .for_each(|n| rate_limits.record(cluster, &text(&n.to_string()), MicroUsd(1), Timestamp::from_millis(0)));
        used
    });
    // The first uses all of its own limit, the second up to three quarters of the fleet's, the next
    // their fair share.
    assert_eq!(used, [50, 25, 20, 5, 0]);
}
