//! Half of one processor: 500 ms of it in each second, 0.5 ms in each millisecond. A plan counts for 10 ms until one has
//! ended.

use super::*;

struct Clusters {
    allowance: DisruptionAllowance,
    next: u64,
}

impl Clusters {
    fn new(percent: u64) -> Self {
        let mut allowance = DisruptionAllowance::new(DisruptionShare::of(percent, 1));
        // Nothing has accrued at 0 ms.
        allowance.left = 0;
        Self { allowance, next: 0 }
    }

    /// A plan of `cluster` that is due since `since`: its number, or when it asks again.
    fn ask(&mut self, cluster: &str, since: i64, is_promising: bool, now: i64) -> Result<PlanNumber, i64> {
        self.next += 1;
        let (cluster, plan) = (ClusterName::from(cluster), PlanNumber(self.next));
        let demand = DisruptionDemand { cluster: &cluster, plan, since: at(since), is_promising };
        self.allowance.begin(demand, at(now)).map(|()| plan).map_err(Timestamp::as_millis)
    }

    fn end(&mut self, plan: PlanNumber, millis: u64, now: i64) {
        self.allowance.end(plan, Duration::from_millis(millis), at(now));
    }
}

fn at(millis: i64) -> Timestamp {
    Timestamp::from_millis(millis)
}

#[test]
fn a_share_is_a_part_of_all_processors_and_at_least_one_percent() {
    let micros = |percent, processors| DisruptionShare::of(percent, processors).micros_per_second;
    assert_eq!([micros(25, 2), micros(0, 4), micros(200, 1)], [Some(500_000), Some(40_000), Some(1_000_000)]);
    let threads = [(25, 2), (25, 8), (50, 3)].map(|(percent, all)| DisruptionShare::of(percent, all).concurrency());
    assert_eq!(threads, [1, 2, 2]);
}

#[test]
fn plans_wait_until_the_share_has_paid_for_those_before_them() {
    let mut clusters = Clusters::new(50);
    let first = clusters.ask("a", 0, false, 0).expect("nothing is used yet");
    // It took 400 ms of a processor: 300 ms that passed paid 150 of them, and the rest takes 500 ms more.
    clusters.end(first, 400, 300);
    assert_eq!(clusters.ask("b", 300, false, 300), Err(801));
    assert!(clusters.ask("b", 300, false, 799).is_err());
    assert!(clusters.ask("b", 300, false, 801).is_ok());
}

#[test]
fn the_share_that_is_not_used_accrues_for_a_second() {
    let mut clusters = Clusters::new(50);
    let first = clusters.ask("a", 3_600_000, false, 3_600_000).unwrap();
    // A second of half a processor: a plan of 500 ms leaves nothing to pay, one of 700 ms leaves 200.
    clusters.end(first, 500, 3_600_000);
    let second = clusters.ask("b", 3_600_000, false, 3_600_000).expect("all of it was used, and no more");
    clusters.end(second, 200, 3_600_000);
    assert_eq!(clusters.ask("c", 3_600_000, false, 3_600_000), Err(3_600_401));
}

#[test]
fn what_a_dropped_plan_counted_for_is_given_back() {
    let mut clusters = Clusters::new(50);
    let first = clusters.ask("a", 0, false, 0).unwrap();
    assert!(clusters.ask("b", 0, false, 0).is_err(), "the thread is busy");
    clusters.end(first, 0, 0);
    assert!(clusters.ask("b", 0, false, 0).is_ok());
}

/// A plan of 510 ms is over, and nothing is left for 1,000 ms more. Plans count for 41.25 ms: 10 + (510 - 10) / 16.
fn used_up() -> Clusters {
    let mut clusters = Clusters::new(50);
    let first = clusters.ask("x", 0, false, 0).unwrap();
    clusters.end(first, 510, 20);
    clusters
}

#[test]
fn the_cluster_that_waits_longest_is_served_first() {
    let mut clusters = used_up();
    assert_eq!(clusters.ask("late", 15, false, 20), Err(1_021));
    // One plan before it: another 41,250 / 500 = 82.5 ms.
    assert_eq!(clusters.ask("later", 16, false, 20), Err(1_103));
    assert_eq!(clusters.ask("early", 10, false, 20), Err(1_021));
    assert!(clusters.ask("late", 15, false, 1_021).is_err(), "another one is due since earlier");
    assert!(clusters.ask("early", 10, false, 1_021).is_ok());
}

#[test]
fn a_promising_cluster_goes_before_those_that_wait_up_to_thirty_seconds_longer() {
    let mut clusters = used_up();
    assert!(clusters.ask("plain", 0, false, 20).is_err());
    // 29.999 s later it goes before the other one, 30.001 s later it does not.
    let turn = |clusters: &mut Clusters, since: i64| {
        clusters.allowance.begin(
            DisruptionDemand { cluster: &"good".into(), plan: PlanNumber(99), since: at(since), is_promising: true },
            at(20),
        )
    };
    assert_eq!(turn(&mut clusters, 29_999), Err(at(1_021)));
    assert_eq!(turn(&mut clusters, 30_001), Err(at(1_103)));
}

#[test]
fn a_cluster_that_does_not_ask_again_lets_the_others_pass() {
    let mut clusters = used_up();
    assert_eq!(clusters.ask("gone", 10, false, 20), Err(1_021));
    assert!(clusters.ask("b", 15, false, 20).is_err());
    assert_eq!(clusters.allowance.totals().waiting, 2);
    // 2 s after it should have asked it is forgotten.
    assert!(clusters.ask("b", 15, false, 3_021).is_ok());
    assert_eq!(clusters.allowance.totals().waiting, 0);
}

#[test]
fn a_plan_without_an_answer_occupies_its_thread_for_five_minutes() {
    let mut clusters = Clusters::new(50);
    clusters.ask("a", 0, false, 0).unwrap();
    assert!(clusters.ask("b", 0, false, 299_999).is_err());
    assert!(clusters.ask("b", 0, false, 300_000).is_ok());
}

#[test]
fn a_cluster_that_is_handed_over_occupies_no_thread() {
    let mut clusters = Clusters::new(50);
    clusters.ask("a", 0, false, 0).unwrap();
    assert!(clusters.ask("b", 0, false, 1_000).is_err(), "the thread is busy");
    clusters.allowance.forget(&"a".into());
    assert!(clusters.ask("b", 0, false, 1_000).is_ok());
}

/// A thousand clusters whose plans are due every 15 s and take 20 ms: 20 s of a processor, of which half of one gives
/// 7.5. Each is planned once in 40 s.
#[test]
fn a_thousand_clusters_are_served_in_turn_within_the_share() {
    let mut clusters = Clusters::new(50);
    let names: Vec<String> = (0..1_000).map(|number| format!("c{number}")).collect();
    let mut asks: BTreeMap<(i64, usize), i64> = (0..1_000).map(|at| ((at as i64, at), at as i64)).collect();
    let (mut plans, mut asked, mut longest) = (vec![0; 1_000], 0, 0);
    let mut free_at = 0;
    while let Some(((now, at), since)) = asks.pop_first().filter(|((now, _), _)| *now < 400_000) {
        asked += 1;
        match clusters.ask(&names[at], since, false, now) {
            Ok(plan) => {
                assert!(now >= free_at, "one thread");
                // It is over before anyone asks again.
                free_at = now;
                clusters.end(plan, 20, now);
                if now > 100_000 {
                    longest = longest.max(now - since);
                }
                plans[at] += 1;
                asks.insert((now + 15_000, at), now + 15_000);
            }
            Err(again) => drop(asks.insert((again, at), since)),
        }
    }
    let (all, least, most) = (plans.iter().sum::<i64>(), plans.iter().min().copied(), plans.iter().max().copied());
    // 400 s of half a processor are 10,000 plans of 20 ms, and what accrued at first 25 more.
    assert!((9_800..=10_030).contains(&all), "{all}");
    assert!(least >= Some(9) && most <= Some(11), "{least:?} to {most:?}");
    // Due 15 s after the last plan, begun 40 s after it; at first all are due at once, and the last one waits 40 s.
    assert!((24_000..=27_000).contains(&longest), "{longest}");
    assert!(asked < 5 * all, "{asked} requests for {all} plans");
}
