use model::{Millis, PriorityLane, Timestamp};

use super::*;
use PriorityLane::{HighPriorityPending, Interruption, Pending, Voluntary};

const TOKEN: i64 = 1_000_000;

fn at(millis: i64) -> Timestamp {
    Timestamp::from_millis(millis)
}

fn bucket(tokens: i64, limit: Limit) -> Bucket {
    Bucket::from_row(BucketRow { level: tokens * TOKEN, ..*Bucket::new(limit, at(0)).row() })
}

fn one(lane: PriorityLane, tokens: u32) -> [u32; 4] {
    let mut all = [0; 4];
    all[lane.index()] = tokens;
    all
}

/// A replica that asks when it is told to, until nothing waits; when its calls got their tokens.
struct Replica {
    waiting: Waiting,
    asks_at: Option<i64>,
    granted_at: [Vec<i64>; 4],
}

impl Replica {
    fn new(waiting: Waiting, first: i64) -> Self {
        Self { waiting, asks_at: Some(first), granted_at: Default::default() }
    }
}

/// Lets the replicas ask in the order of their times; of those with the same time, the later one in the list goes first.
fn run(bucket: &mut Bucket, limit: Limit, replicas: &mut [Replica]) {
    while let Some((now, next)) = replicas
        .iter()
        .enumerate()
        .rev()
        .filter_map(|(index, replica)| Some((replica.asks_at?, index)))
        .min_by_key(|(at, _)| *at)
    {
        // A replica that asks for the first time is not known before.
        let others = replicas.iter().enumerate().filter(|(index, _)| *index != next).map(|(_, other)| other.waiting);
        let others: Vec<Waiting> = others.collect();
        let replica = &mut replicas[next];
        let grant = bucket.grant(limit, &replica.waiting, &others, at(now));
        for (times, tokens) in replica.granted_at.iter_mut().zip(grant.tokens) {
            times.extend((0..tokens).map(|_| now));
        }
        replica.waiting = replica.waiting.less(&grant.tokens);
        replica.asks_at = grant.ask_again.map(|wait| now + wait.get());
        assert!(grant.ask_again.is_none_or(|wait| wait > Millis::ZERO), "a replica would ask without end");
    }
}

/// Fleet reference, EC2 API budget: 2 tokens per second, none there; 200 voluntary calls wait and 30 replacements arrive.
/// Replacements get 1.8 per second: the last one goes after 30 / 1.8 = 16.667 s. Voluntary calls get 0.2 per second
/// meanwhile, the first at 5, 10 and 15 s, and all 230 are done after 230 / 2 = 115 s.
#[test]
fn a_percentage_of_a_limit_scales_rate_and_burst_and_is_never_nothing() {
    assert_eq!(Limit::new(5_000, 50).percent(400), Limit::new(20_000, 200));
    assert_eq!(Limit::new(5_000, 50).percent(10), Limit::new(500, 5).starting_with(1));
    assert_eq!(Limit::new(5_000, 50).percent(0), Limit::new(50, 1).starting_with(1));
}

#[test]
fn interruption_replacements_go_first_and_voluntary_calls_keep_a_tenth() {
    let limit = Limit::new(2_000, 10);
    let mut bucket = bucket(0, limit);
    let voluntary = Replica::new(Waiting::of(Voluntary, 200, at(0)), 0);
    let interrupted = Replica::new(Waiting::of(Interruption, 30, at(0)), 0);
    let mut replicas = [voluntary, interrupted];
    run(&mut bucket, limit, &mut replicas);
    let [voluntary, interrupted] = replicas;
    let (replacements, others) = (&interrupted.granted_at[0], &voluntary.granted_at[3]);
    assert_eq!((replacements.len(), replacements.last()), (30, Some(&16_667)));
    // 2 tokens per second for 17 s are 34: the 30 replacements, and the fourth voluntary call.
    assert_eq!(&others[..4], &[5_000, 10_000, 15_000, 17_000]);
    assert_eq!((others.len(), others.last()), (200, Some(&115_000)));
}

/// The same with one process at which all calls wait.
#[test]
fn the_lanes_of_one_replica_are_those_of_all() {
    let limit = Limit::new(2_000, 10);
    let mut bucket = bucket(0, limit);
    let waiting = Waiting::of(Interruption, 30, at(0)).with(Voluntary, 200, at(0));
    let mut replicas = [Replica::new(waiting, 0)];
    run(&mut bucket, limit, &mut replicas);
    let [replacements, _, _, others] = &replicas[0].granted_at;
    assert_eq!((replacements.len(), replacements.last()), (30, Some(&16_667)));
    assert_eq!(others.iter().filter(|at| **at < 16_667).count(), 3);
    assert_eq!(others.last(), Some(&115_000));
}

/// The guard switched off: in one lane, the replacements wait behind the 200 calls that came before them.
#[test]
fn without_lanes_the_last_replacement_waits_for_all_calls_before_it() {
    let limit = Limit::new(2_000, 10);
    let mut bucket = bucket(0, limit);
    let before = Replica::new(Waiting::of(Pending, 200, at(0)), 0);
    let interrupted = Replica::new(Waiting::of(Pending, 30, at(1)), 1);
    let mut replicas = [before, interrupted];
    run(&mut bucket, limit, &mut replicas);
    assert_eq!(replicas[1].granted_at[2].last(), Some(&115_000));
    assert_eq!(replicas[1].granted_at[2].first(), Some(&100_500));
}

#[test]
fn each_lower_lane_keeps_a_tenth() {
    // 10 tokens per second for 10 s, and four lanes that never end: 70, 10, 10 and 10.
    let limit = Limit::new(10_000, 10);
    let mut bucket = bucket(0, limit);
    let everything = PriorityLane::ALL.into_iter().fold(Waiting::default(), |all, lane| all.with(lane, 1_000, at(0)));
    let mut got = [0; 4];
    for second in 1..=100 {
        let grant = bucket.grant(limit, &everything, &[], at(second * 100));
        got.iter_mut().zip(grant.tokens).for_each(|(all, more)| *all += more);
    }
    assert_eq!(got, [70, 10, 10, 10]);
}

#[test]
fn a_burst_goes_to_the_most_urgent_calls() {
    let limit = Limit::new(1_000, 10);
    let mine = Waiting::of(Interruption, 3, at(0)).with(Pending, 4, at(0)).with(Voluntary, 9, at(0));
    let grant = bucket(10, limit).grant(limit, &mine, &[], at(0));
    assert_eq!(grant.tokens, [3, 0, 4, 3]);
    // One token per second, and voluntary calls wait alone.
    assert_eq!(grant.ask_again, Some(Millis::from_secs(1)));
    let limit = Limit::new(1_000, 20);
    let grant = bucket(16, limit).grant(limit, &mine, &[], at(0));
    assert_eq!((grant.tokens, grant.ask_again), ([3, 0, 4, 9], None));
}

#[test]
fn urgent_calls_of_another_replica_come_before_less_urgent_ones_of_this_one() {
    let limit = Limit::new(1_000, 10);
    let mine = Waiting::of(Voluntary, 9, at(0));
    let other = Waiting::of(Interruption, 8, at(0));
    assert_eq!(bucket(10, limit).grant(limit, &mine, &[other], at(0)).tokens, one(Voluntary, 2));
    assert_eq!(bucket(8, limit).grant(limit, &mine, &[other], at(0)).tokens, [0; 4]);
    assert_eq!(
        bucket(8, limit).grant(limit, &Waiting::of(HighPriorityPending, 1, at(0)), &[other], at(0)).tokens,
        [0; 4]
    );
}

#[test]
fn a_replica_leaves_a_token_for_each_replica_with_an_older_call() {
    let limit = Limit::new(1_000, 10);
    let (mine, older) = (Waiting::of(Pending, 5, at(7)), Waiting::of(Pending, 5, at(6)));
    let younger = Waiting::of(Pending, 5, at(8));
    let of_another_lane = Waiting::of(Voluntary, 5, at(1));
    assert_eq!(bucket(3, limit).grant(limit, &mine, &[younger, of_another_lane], at(9)).tokens, one(Pending, 3));
    assert_eq!(bucket(3, limit).grant(limit, &mine, &[younger, older], at(9)).tokens, one(Pending, 2));
    let last = bucket(1, limit).grant(limit, &mine, &[older], at(9));
    assert_eq!(last.tokens, [0; 4]);
    // Its own token is the next one but the older replica's: there are two of them a second later.
    assert_eq!(last.ask_again, Some(Millis::new(991)));
    // There are enough for all.
    assert_eq!(bucket(10, limit).grant(limit, &mine, &[older], at(9)).tokens, one(Pending, 5));
}

#[test]
fn what_a_lane_has_kept_returns_when_its_calls_are_gone() {
    let limit = Limit::new(2_000, 10);
    let mut bucket = bucket(0, limit);
    let voluntary = Waiting::of(Voluntary, 1, at(0));
    // After 4 s, interruption has got 7 of 7.2 tokens, and voluntary has kept 0.8.
    let waiting = Waiting::of(Interruption, 100, at(0));
    assert_eq!(bucket.grant(limit, &waiting, &[voluntary], at(4_000)).tokens, one(Interruption, 7));
    assert_eq!((bucket.row().level, bucket.row().kept[3]), (200_000, 800_000));
    assert_eq!(bucket.grant(limit, &waiting, &[], at(4_000)).tokens, one(Interruption, 1));
    assert_eq!((bucket.row().level, bucket.row().kept[3]), (0, 0));
}

#[test]
fn a_lane_keeps_five_seconds_of_its_part() {
    // 20 tokens per second: a tenth is 2 per second, so 10 are kept, whatever the replica of the lane does.
    let limit = Limit::new(20_000, 100);
    let mut bucket = bucket(0, limit);
    let waiting = Waiting::of(Interruption, 10_000, at(0));
    let voluntary = Waiting::of(Voluntary, 10_000, at(0));
    for second in 1..=60 {
        bucket.grant(limit, &waiting, &[voluntary], at(second * 1_000));
    }
    assert_eq!(bucket.grant(limit, &voluntary, &[waiting], at(60_000)).tokens, one(Voluntary, 10));
}

#[test]
fn two_replicas_never_get_more_than_the_bucket() {
    // 7 tokens at first and 3.3 per second; asks at irregular times, for lanes that change.
    let limit = Limit::new(3_300, 7);
    let mut bucket = bucket(7, limit);
    let (mut now, mut granted, mut state) = (0, 0, 12_345_u64);
    for _ in 0..20_000 {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let roll = |shift: u32, most: u64| (state >> shift) % most;
        now += i64::try_from(roll(20, 400)).unwrap();
        let lane = |shift| PriorityLane::ALL[usize::try_from(roll(shift, 4)).unwrap()];
        let count = |shift| u32::try_from(roll(shift, 5)).unwrap();
        let mine = Waiting::of(lane(30), count(35), at(now - 5)).with(lane(38), count(42), at(now - 9));
        let other = Waiting::of(lane(45), count(50), at(now - 7));
        let grant = bucket.grant(limit, &mine, &[other], at(now));
        for lane in PriorityLane::ALL {
            assert!(grant.tokens[lane.index()] <= mine.lane(lane).count, "a call gets one token");
        }
        granted += grant.tokens.iter().copied().map(i64::from).sum::<i64>();
        let BucketRow { level, kept, .. } = *bucket.row();
        assert!(level >= 0 && kept.iter().all(|kept| *kept >= 0), "{bucket:?}");
        assert!(level + kept.iter().sum::<i64>() <= 7 * TOKEN, "above the burst: {bucket:?}");
        assert!(granted * TOKEN <= 7 * TOKEN + 3_300 * now, "{granted} tokens in {now} ms");
    }
    // The other replica takes nothing, so this one need not get everything; yet nothing may be lost for good.
    assert!(granted * 1_000 > now, "{granted} tokens in {now} ms");
}

#[test]
fn a_throttled_call_halves_the_rate_once_and_empties_the_bucket() {
    let limit = Limit::new(5_000, 50);
    let mut bucket = bucket(50, limit);
    assert!(bucket.record_throttle(limit, at(0)));
    assert_eq!((bucket.row().rate, bucket.row().level), (2_500, 0));
    // Answers to calls that were sent before.
    assert!(!bucket.record_throttle(limit, at(999)));
    assert_eq!(bucket.row().rate, 2_500);
    assert!(bucket.record_throttle(limit, at(1_000)));
    assert_eq!(bucket.row().rate, 1_250);
    // 5 / 20 tokens per second is the lowest rate.
    for second in 2..9 {
        bucket.record_throttle(limit, at(second * 1_000));
    }
    assert_eq!(bucket.row().rate, 250);
    // 0.25 per second: a token after four seconds.
    let mine = Waiting::of(Pending, 1, at(8_000));
    assert_eq!(bucket.grant(limit, &mine, &[], at(11_999)).tokens, [0; 4]);
    assert_eq!(bucket.grant(limit, &mine, &[], at(12_000)).tokens, one(Pending, 1));
}

#[test]
fn tokens_that_are_granted_raise_the_rate_up_to_the_ceiling() {
    let limit = Limit::new(5_000, 50);
    let mut bucket = bucket(0, limit);
    bucket.record_throttle(limit, at(0));
    // 5 / 200 tokens per second for each token.
    let mine = Waiting::of(Pending, 1_000, at(0));
    assert_eq!(bucket.grant(limit, &mine, &[], at(4_000)).tokens, one(Pending, 10));
    assert_eq!(bucket.row().rate, 2_750);
    // Time alone says nothing about the limit, and the burst is as much smaller as the rate.
    assert_eq!(bucket.grant(limit, &Waiting::default(), &[], at(3_000_000)).tokens, [0; 4]);
    assert_eq!((bucket.row().rate, bucket.row().level), (2_750, 27_500_000));
    for hour in 1..200 {
        bucket.grant(limit, &mine, &[], at(hour * 3_600_000));
    }
    assert_eq!(bucket.row().rate, 5_000);
}

#[test]
fn a_clock_that_was_set_back_takes_and_gives_nothing() {
    let limit = Limit::new(1_000, 10);
    let mut bucket = bucket(1, limit);
    let mine = Waiting::of(Pending, 9, at(0));
    bucket.grant(limit, &Waiting::default(), &[], at(1_000));
    assert_eq!(bucket.grant(limit, &mine, &[], at(0)).tokens, one(Pending, 2));
    assert_eq!(bucket.grant(limit, &mine, &[], at(1_999)).tokens, [0; 4]);
    assert_eq!(bucket.grant(limit, &mine, &[], at(2_000)).tokens, one(Pending, 1));
}

#[test]
fn actions_take_from_the_buckets_of_the_reference() {
    let figures = |action| {
        let each = buckets_of(action).into_iter();
        each.map(|(name, limit)| (name, limit.refill(), Bucket::full(limit, at(0)).row().level / TOKEN))
            .collect::<Vec<_>>()
    };
    assert_eq!(figures("DescribeImages"), [("DescribeImages", 20_000, 100)]);
    assert_eq!(figures("CreateFleet"), [("LaunchedInstances", 2_000, 1_000), ("CreateFleet", 5_000, 50)]);
    assert_eq!(figures("CreateLaunchTemplate"), [("CreateFleet", 5_000, 50)]);
    assert_eq!(figures("DeleteLaunchTemplate"), [("CreateFleet", 5_000, 50)]);
    assert_eq!(
        figures("TerminateInstances"),
        [("TerminatedInstances", 2_000, 1_000), ("TerminateInstances", 5_000, 100)]
    );
    assert_eq!(figures("CreateTags"), [("CreateTags", 10_000, 100)]);
    // A bucket that nobody has used yet has the tokens of a second, unless nobody else is likely to have used it.
    let first = |action| buckets_of(action).into_iter().map(|(_, limit)| Bucket::new(limit, at(0)).row().level / TOKEN);
    assert_eq!(first("CreateFleet").collect::<Vec<_>>(), [1_000, 5]);
    assert_eq!(first("DescribeImages").collect::<Vec<_>>(), [20]);
}
