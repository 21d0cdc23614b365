use super::*;

/// A quarter of two processors: 9 million steps in a second, 90 million within the window.
fn quarter_of_two() -> SearchSettings {
    SearchSettings::with_share(25, 2)
}

fn at(millis: i64) -> Timestamp {
    Timestamp::from_millis(millis)
}

/// Asks for searches, and numbers them.
struct Searches {
    allowance: SearchAllowance,
    asked: u64,
}

impl Searches {
    fn new(settings: SearchSettings) -> Self {
        Self { allowance: SearchAllowance::new(settings), asked: 0 }
    }

    /// Asks at `now` for a search of `cluster` that may take `millis`.
    fn ask(&mut self, cluster: &str, millis: i64, now: i64) -> Option<(PlanNumber, u64)> {
        self.asked += 1;
        let (cluster, search) = (ClusterName::from(cluster), PlanNumber(self.asked));
        let demand = SearchDemand { cluster: &cluster, search, objects: 0, deadline: Some(at(now + millis)) };
        self.allowance.grant(demand, at(now)).map(|steps| (search, steps))
    }

    /// Asks, and ends the search at once with all steps used. Returns the steps.
    fn search(&mut self, cluster: &str, millis: i64, now: i64) -> u64 {
        let Some((search, steps)) = self.ask(cluster, millis, now) else { return 0 };
        self.allowance.settle(search, 0, steps, steps);
        steps
    }
}

/// Steps of twenty clusters that ask every 40 ms for 60 s, each for a search of 500 ms: when, and
/// how many.
fn steps_of_busy_clusters(settings: SearchSettings) -> Vec<(i64, u64)> {
    let mut searches = Searches::new(settings);
    let times = (0..60_000).step_by(40);
    times
        .flat_map(|now| (0..20).map(move |number| (now, number)))
        .map(|(now, number)| (now, searches.search(&format!("c{number}"), 500, now)))
        .collect()
}

/// The most steps within any window.
fn most_within_a_window(granted: &[(i64, u64)]) -> u64 {
    let ends_at = |from: i64| granted.iter().filter(move |(at, _)| (from..from + WINDOW.get()).contains(at));
    (0..60_000).step_by(40).map(|from| ends_at(from).map(|(_, steps)| steps).sum()).max().unwrap_or(0)
}

#[test]
fn the_share_is_of_all_processors_and_each_search_has_a_thread() {
    let shares = [(25, 2), (25, 16), (100, 4), (0, 64)].map(|(percent, processors)| {
        let settings = SearchSettings::with_share(percent, processors);
        (settings.steps_per_second, settings.concurrency(), settings.is_enabled())
    });
    // 18 million steps in a second of one processor: half of it, that of four processors, and none.
    assert_eq!(shares, [(9_000_000, 1, true), (72_000_000, 4, true), (72_000_000, 4, true), (0, 0, false)]);
}

#[test]
fn the_searches_of_all_clusters_stay_within_the_share_of_any_window() {
    let granted = steps_of_busy_clusters(quarter_of_two());
    let most = most_within_a_window(&granted);
    // Two thirds at least are used: nothing is lost that twenty clusters ask for.
    assert!((60_000_000..=90_000_000).contains(&most), "{most} steps");
}

#[test]
fn sabotage_without_the_limit_the_searches_exceed_the_share() {
    let granted = steps_of_busy_clusters(SearchSettings { steps_per_second: u64::MAX });
    assert!(most_within_a_window(&granted) > 90_000_000);
}

#[test]
fn a_search_takes_the_time_that_is_left_of_the_window_without_its_first_packing() {
    let mut searches = Searches::new(quarter_of_two());
    // 400 ms are 7.2 million steps, and 10 s more than the largest search has.
    assert_eq!(searches.search("a", 400, 0), 7_200_000);
    assert_eq!(searches.search("b", 10_000, 0), MAX_STEPS);
    let cluster = ClusterName::from("c");
    let demand = SearchDemand { cluster: &cluster, search: PlanNumber(9), objects: 1_000, deadline: Some(at(400)) };
    // A pod or node takes 60 microseconds: 1,080 steps.
    assert_eq!(searches.allowance.grant(demand, at(0)), Some(6_120_000));
}

#[test]
fn a_search_of_less_than_fifty_milliseconds_is_skipped() {
    let mut searches = Searches::new(quarter_of_two());
    assert_eq!((searches.search("a", 49, 0), searches.search("a", 50, 0)), (0, 900_000));
    assert_eq!(searches.allowance.totals().skipped_time, 1);
}

#[test]
fn a_busy_cluster_leaves_a_part_for_another_one() {
    let mut searches = Searches::new(quarter_of_two());
    let busy: u64 = (0..9_000).step_by(100).map(|now| searches.search("busy", 500, now)).sum();
    assert_eq!(busy, 45_000_000, "half of the window, as one other cluster may ask");
    assert_eq!(searches.search("other", 500, 9_000), 9_000_000, "500 ms");
    // The busy one has a third of the window now, which it has used already.
    assert_eq!(searches.search("busy", 500, 9_100), 0);
    assert_eq!(searches.allowance.totals().skipped_allowance, 86);
}

#[test]
fn many_clusters_get_small_searches_in_turn() {
    let mut searches = Searches::new(quarter_of_two());
    let mut served = |from: i64| {
        let names = (0..1_000).map(|number| format!("c{number}"));
        names.filter(|name| searches.search(name, 500, from) > 0).count()
    };
    // Ten are served before the others have asked: nine with 9 million steps each, and the tenth
    // with an eleventh of the window, 8.2 million.
    assert_eq!(served(0), 10);
    // All have asked within the next window: 100 searches of 0.9 million steps.
    assert_eq!(served(9_999), 0);
    assert_eq!(served(10_000), 100);
}

#[test]
fn what_a_search_did_not_use_is_given_back() {
    let mut searches = Searches::new(quarter_of_two());
    let (search, steps) = searches.ask("a", 500, 0).expect("the first search is granted");
    searches.allowance.settle(search, 0, steps, 0);
    // A quarter may have been used for the lower bound.
    let totals = searches.allowance.totals();
    assert_eq!((totals.granted_steps, totals.used_steps), (9_000_000, 2_250_000));
    let more: u64 = (0..9).map(|_| searches.search("a", 500, 0)).sum();
    assert_eq!(more, 45_000_000 - 2_250_000);
}

#[test]
fn a_search_never_waits_for_a_thread() {
    let mut searches = Searches::new(quarter_of_two());
    let (search, steps) = searches.ask("a", 500, 0).expect("the first search is granted");
    assert_eq!(searches.ask("b", 500, 100), None, "the only thread is busy");
    searches.allowance.settle(search, 0, steps, steps);
    assert!(searches.ask("b", 500, 200).is_some());
    assert_eq!(searches.allowance.totals().skipped_busy, 1);
}

#[test]
fn a_search_without_an_answer_is_forgotten_after_the_window() {
    let mut searches = Searches::new(quarter_of_two());
    assert!(searches.ask("released", 500, 0).is_some());
    assert_eq!(searches.ask("a", 500, 9_999), None);
    assert!(searches.ask("a", 500, 10_000).is_some());
}

#[test]
fn a_late_answer_settles_its_own_search() {
    let mut searches = Searches::new(SearchSettings::with_share(100, 2));
    let (first, steps) = searches.ask("a", 500, 0).expect("the first search is granted");
    searches.ask("b", 500, 100).expect("there is a second thread");
    searches.allowance.settle(first, 0, steps, 0);
    assert_eq!(searches.ask("b", 500, 200), None, "its search is still in progress");
}
