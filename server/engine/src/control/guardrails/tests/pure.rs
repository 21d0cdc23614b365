use crate::cluster::PodKey;
use crate::cluster::testing::text;
use crate::control::guardrails::circuit_breaker::CircuitBreaker;
use crate::control::guardrails::fleet_counters::Machines;
use crate::control::guardrails::launch_backoff::LaunchBackoff;
use crate::control::guardrails::quarantine::{Extent, suspicion};
use crate::control::guardrails::rate_limits::{Counted, Population, RateLimits};
use crate::control::guardrails::settings::{
    Bound, CircuitBreakerRule, LaunchBackoffRule, QuarantineRule, RateLimitRule,
};
use crate::control::guardrails::tally::Tally;
use crate::model::{MicroUsd, Timestamp};

const OPEN: Bound = Bound { machines: 0, usd_per_hour: MicroUsd(0), percent: 0, free: 0 };

#[test]
fn a_tally_keeps_its_sum_as_entries_come_late_and_leave() {
    let mut tally = Tally::default();
    tally.note(text("b"), MicroUsd(20), Timestamp(200));
    tally.note(text("a"), MicroUsd(10), Timestamp(100));
    tally.note(text("c"), MicroUsd(40), Timestamp(300));
    tally.forget(&text("b"));
    assert_eq!((tally.len(), tally.cost(), tally.oldest()), (2, MicroUsd(50), Some(Timestamp(100))));
    tally.forget_past(1000, Timestamp(1100));
    assert_eq!((tally.len(), tally.cost()), (1, MicroUsd(40)));
}

#[test]
fn a_share_counts_the_machines_that_went_and_never_binds_below_its_free_ones() {
    let share = Bound { percent: 50, free: 3, ..OPEN };
    let rule = RateLimitRule { window_ms: 600_000, cluster: share, fleet: OPEN };
    let cluster = text("c");
    let mut caps = RateLimits::default();
    let room = |caps: &RateLimits, machines: usize| {
        let crowd = Population { cluster: &cluster, machines, fleet: machines, clusters: 1 };
        caps.room(&rule, Counted::Removals, crowd, vec![MicroUsd(1); 20], Timestamp(0)).0
    };
    // Half of 11 is 5.5, rounded up 6; half of 4 is 2, but 3 are free.
    assert_eq!((room(&caps, 11), room(&caps, 4)), (6, 3));
    for name in ["m0", "m1", "m2", "m3"] {
        caps.note(&cluster, &text(name), MicroUsd(1), Timestamp(0));
    }
    // Four of 11 went: 7 are there, 11 were, 6 may go in all, 2 more.
    assert_eq!(room(&caps, 7), 2);
    caps.forget(&cluster, &text("m3"));
    assert_eq!((caps.in_cluster(&cluster), caps.in_fleet()), (3, 3));
}

#[test]
fn the_brake_engages_at_one_share_and_releases_at_another() {
    let rule = CircuitBreakerRule { window_ms: 600_000, least: 4, engage_percent: 50, release_percent: 20 };
    let mut brake = CircuitBreaker::default();
    let at = |millis: i64| Timestamp(millis);
    for moment in 0..3 {
        brake.failed(&text(if moment == 0 { "a" } else { "b" }), at(moment));
    }
    assert!(!brake.settle(&rule, at(3)), "three outcomes say nothing");
    brake.joined(&text("a"), at(4));
    assert!(brake.settle(&rule, at(5)), "three of four failed");
    // Three of 10 is 30 %: less than half, more than a fifth.
    (0..6).for_each(|n| brake.joined(&text("a"), at(10 + n)));
    assert!(!brake.settle(&rule, at(20)));
    assert_eq!(brake.next_change(&rule), Some(at(600_000)));
    // Three of 15 is 20 %.
    (0..5).for_each(|n| brake.joined(&text("b"), at(20 + n)));
    assert!(brake.settle(&rule, at(30)));
    assert_eq!(brake.engaged_since(&text("c")), None);
    // At 30 % again it stays released.
    (0..2).for_each(|n| brake.failed(&text("a"), at(31 + n)));
    assert!(!brake.settle(&rule, at(40)));
}

#[test]
fn what_was_recalled_counts_in_its_cluster_and_what_was_heard_counts_in_the_fleet() {
    let rule = RateLimitRule {
        window_ms: 600_000,
        cluster: Bound { machines: 4, ..OPEN },
        fleet: Bound { machines: 9, ..OPEN },
    };
    let cluster = text("c");
    let crowd = || Population { cluster: &cluster, machines: 100, fleet: 300, clusters: 1 };
    let mut caps = RateLimits::default();
    let room = |caps: &RateLimits, now: i64| {
        let (room, held) = caps.room(&rule, Counted::Removals, crowd(), vec![MicroUsd(1); 20], Timestamp(now));
        (room, held.and_then(|held| held.until).map_or(0, |until| until.0))
    };
    caps.recall(&cluster, &text("m0"), MicroUsd(0), Timestamp(1_000));
    // One of four: 3 more, until 1,000 + 600,000.
    assert_eq!((room(&caps, 5_000), caps.in_fleet()), ((3, 601_000), 0));
    let seven = Machines { count: 7, cost: MicroUsd(70) };
    caps.hear([(Timestamp(2_000), seven), (Timestamp(3_000), Machines::default())].into_iter());
    // Seven of nine: 2 more in the fleet, until 602,000.
    assert_eq!((room(&caps, 5_000), caps.in_fleet()), ((2, 602_000), 7));
    caps.note(&cluster, &text("m1"), MicroUsd(1), Timestamp(5_000));
    assert_eq!((room(&caps, 5_000), caps.in_fleet(), caps.in_cluster(&cluster)), ((1, 602_000), 8, 2));
    caps.forget_past(600_000, Timestamp(601_000));
    assert_eq!((caps.in_fleet(), caps.in_cluster(&cluster)), (8, 1));
    caps.forget_past(600_000, Timestamp(602_000));
    assert_eq!((caps.in_fleet(), caps.in_cluster(&cluster)), (1, 1));
    caps.forget_past(600_000, Timestamp(605_000));
    assert_eq!((caps.in_fleet(), caps.in_cluster(&cluster)), (0, 0));
}

#[test]
fn the_brake_counts_what_others_told_once_however_often_they_tell_it() {
    let rule = CircuitBreakerRule { window_ms: 600_000, least: 5, engage_percent: 50, release_percent: 20 };
    let mut brake = CircuitBreaker::default();
    let at = |millis: i64| Timestamp(millis);
    brake.failed(&text("a"), at(20_000));
    let told = || [(at(10_000), 1, 1), (at(30_000), 0, 0)].into_iter();
    for moment in 30_000..30_005 {
        brake.hear(told());
        assert!(!brake.settle(&rule, at(moment)), "two of three failed, and three say nothing");
    }
    brake.hear([(at(10_000), 1, 1), (at(30_000), 1, 1)].into_iter());
    assert!(brake.settle(&rule, at(31_000)), "three of five failed");
    // The oldest that was heard of is ten minutes old at 610,000.
    assert_eq!(brake.next_change(&rule), Some(at(610_000)));
    assert!(!brake.settle(&rule, at(610_000)), "two of three");
    assert!(!brake.settle(&rule, at(620_000)), "one of two");
    assert!(brake.settle(&rule, at(630_000)), "nothing is known any more");
}

#[test]
fn waits_double_up_to_the_longest_and_end_with_the_pod() {
    let rule = LaunchBackoffRule { launches: 2, first_wait_ms: 60_000, most_wait_ms: 200_000 };
    let key = PodKey { namespace: text("default"), name: text("a") };
    let mut attempts = LaunchBackoff::default();
    let mut waits = Vec::new();
    for _ in 0..5 {
        attempts.note(&rule, &key, &text("uid"), Timestamp(0));
        waits.push(attempts.held(&key, Timestamp(0)).and_then(|held| held.until).map_or(0, |until| until.0));
    }
    assert_eq!(waits, [0, 60_000, 120_000, 200_000, 200_000]);
    attempts.note(&rule, &key, &text("another of that name"), Timestamp(0));
    assert_eq!(attempts.held(&key, Timestamp(0)), None);
    attempts.keep(|_, uid| uid.as_ref() == "uid");
    assert!(attempts.is_empty());
}

#[test]
fn what_may_be_missing_from_a_snapshot() {
    let rule = QuarantineRule::default();
    let full = Extent { nodes: 10, claims: 10, pools: 3, pods: 100, pending: 0, machines: 10 };
    let told = |shown: Extent| suspicion(&rule, full, shown).map(|doubt| doubt.what).unwrap_or_default();
    assert_eq!(told(full), "");
    // Half is not more than half.
    assert_eq!(told(Extent { nodes: 5, pods: 50, ..full }), "");
    assert!(told(Extent { nodes: 4, ..full }).contains("lacks 6 of 10 nodes"));
    assert!(told(Extent { pods: 49, ..full }).contains("lacks 51 of 100 bound pods"));
    assert!(told(Extent { pools: 1, ..full }).contains("lacks 2 of 3 NodePools"));
    assert!(told(Extent { machines: 0, ..full }).contains("lacks 10 of 10 machines that run"));
    // A small cluster may lose what a small number of nodes holds, but not everything.
    let small = Extent { nodes: 2, claims: 2, pools: 1, pods: 6, pending: 0, machines: 2 };
    assert_eq!(suspicion(&rule, small, Extent { nodes: 1, claims: 1, pods: 1, machines: 1, ..small }), None);
    assert!(suspicion(&rule, small, Extent { pools: 1, ..Extent::default() }).is_some());
    assert!(suspicion(&rule, small, Extent { pools: 0, ..small }).is_some());
    assert_eq!(suspicion(&rule, Extent::default(), Extent::default()), None);
}

#[test]
fn a_cluster_whose_launches_fail_is_braked_alone_and_several_brake_the_fleet() {
    let rule = CircuitBreakerRule { window_ms: 600_000, least: 4, engage_percent: 50, release_percent: 20 };
    let (noisy, calm) = (text("noisy"), text("calm"));
    let mut brake = CircuitBreaker::default();
    (0..50).for_each(|n| brake.failed(&noisy, Timestamp(n)));
    assert!(brake.settle(&rule, Timestamp(60)));
    assert_eq!((brake.engaged_since(&noisy), brake.engaged_since(&calm)), (Some(Timestamp(60)), None));
    assert!(brake.reason(&rule, &noisy).is_some_and(|why| why.starts_with("launches fail in cluster noisy:")));
    // One failure in another cluster is enough, or one that another replica tells of.
    let mut heard = brake.clone();
    heard.hear([(Timestamp(61), 0, 1)].into_iter());
    assert!(heard.settle(&rule, Timestamp(62)));
    brake.failed(&text("third"), Timestamp(61));
    assert!(brake.settle(&rule, Timestamp(62)));
    for brake in [&heard, &brake] {
        assert_eq!(brake.engaged_since(&calm), Some(Timestamp(62)));
        assert!(brake.reason(&rule, &calm).is_some_and(|why| why.starts_with("launches fail in several clusters")));
    }
    // When the noisy one's are over, the rest is too little.
    assert!(brake.settle(&rule, Timestamp(600_050)));
    assert_eq!((brake.engaged_since(&noisy), brake.engaged_since(&calm)), (None, None));
}

#[test]
fn clusters_at_their_bound_leave_room_in_the_fleet_s_for_others() {
    let rule = RateLimitRule {
        window_ms: 600_000,
        cluster: Bound { machines: 50, ..OPEN },
        fleet: Bound { machines: 100, ..OPEN },
    };
    let mut caps = RateLimits::default();
    let names = ["a", "b", "c", "d", "e"].map(text);
    let room = |caps: &RateLimits, cluster| {
        let crowd = Population { cluster, machines: 1_000, fleet: 5_000, clusters: 5 };
        caps.room(&rule, Counted::Launches, crowd, vec![MicroUsd(1); 60], Timestamp(0)).0
    };
    let taken = names.each_ref().map(|cluster| {
        let taken = room(&caps, cluster);
        (0..taken).for_each(|n| caps.note(cluster, &text(&n.to_string()), MicroUsd(1), Timestamp(0)));
        taken
    });
    // The first takes all of its own bound, the second up to three quarters of the fleet's, the next their fifth.
    assert_eq!(taken, [50, 25, 20, 5, 0]);
}
