use super::*;
use store::lease::Scope;

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_millis(1_000 * seconds)
}

fn scope() -> Scope {
    Scope::Region { account: "1".to_owned(), region: "eu-west-1".to_owned() }
}

fn failed() -> Result<(), Failure> {
    Err(Failure::no_answer("timed out"))
}

/// What fails at a time, with the second since when.
fn failing(conditions: &Conditions, seconds: i64) -> Vec<(Dependency, i64)> {
    let found = conditions.failing(at(seconds)).into_iter();
    found.map(|condition| (condition.dependency, condition.since.as_millis() / 1_000)).collect()
}

#[test]
fn a_dependency_fails_since_it_worked_last_until_it_works_again() {
    let conditions = Conditions::default();
    assert!(conditions.works(&Dependency::Store, at(0)), "nothing is known against it");
    conditions.report(&Dependency::Store, Ok(()), at(10));
    conditions.report(&Dependency::Store, failed(), at(12));
    conditions.report(&Dependency::Store, Err(Failure::no_answer("another error")), at(14));
    assert_eq!(failing(&conditions, 14), [(Dependency::Store, 10)]);
    assert_eq!(conditions.failing(at(14))[0].failure, Failure::no_answer("timed out"), "the first cause");
    conditions.report(&Dependency::Store, Ok(()), at(20));
    assert_eq!(failing(&conditions, 20), []);
    // It never worked in this process.
    conditions.report(&Dependency::Leases, failed(), at(30));
    conditions.report(&Dependency::Leases, failed(), at(35));
    assert_eq!(failing(&conditions, 40), [(Dependency::Leases, 30)]);
}

#[test]
fn calls_of_the_cloud_that_are_lost_one_by_one_are_no_outage_and_ten_seconds_without_an_answer_are() {
    let (conditions, cloud) = (Conditions::default(), Dependency::Cloud(scope()));
    for second in 0..60 {
        conditions.report(&cloud, if second % 2 == 0 { failed() } else { Ok(()) }, at(second));
        assert_eq!(failing(&conditions, second), []);
    }
    conditions.report(&cloud, failed(), at(61));
    assert!(conditions.works(&cloud, at(70)));
    // Nobody calls it any more, and it does not work for all that.
    assert_eq!(failing(&conditions, 71), [(cloud, 59)]);
}

#[test]
fn the_log_says_once_that_a_dependency_has_ceased_to_work_though_nobody_calls_it() {
    let (conditions, cloud) = (Conditions::default(), Dependency::Cloud(scope()));
    conditions.report(&cloud, failed(), at(0));
    let said = |seconds| conditions.newly_failing(at(seconds)).len();
    assert_eq!([said(9), said(10), said(20)], [0, 1, 0]);
    conditions.report(&cloud, Ok(()), at(21));
    conditions.report(&cloud, failed(), at(22));
    assert_eq!([said(31), said(32)], [0, 1], "ten seconds after the first failure");
}

#[test]
fn what_is_to_succeed_again_and_again_fails_by_its_age() {
    let (conditions, listing) = (Conditions::default(), Dependency::Listing(scope()));
    conditions.expect(listing.clone(), Millis::from_mins(2), at(0));
    assert_eq!(failing(&conditions, 120), []);
    assert_eq!(failing(&conditions, 121), [(listing.clone(), 0)], "since the start");
    conditions.report(&listing, Ok(()), at(130));
    // A listing of another replica that is read late is older than this one.
    conditions.report(&listing, Ok(()), at(100));
    assert_eq!((failing(&conditions, 250), conditions.worked_at(&listing)), (vec![], Some(at(130))));
    assert_eq!(failing(&conditions, 251), [(listing, 130)]);
}

#[test]
fn a_server_is_ready_while_the_store_takes_writes_and_leases_are_renewed_whatever_else_fails() {
    let conditions = Conditions::default();
    conditions.report(&Dependency::Cloud(scope()), failed(), at(0));
    conditions.report(&Dependency::Replica("two/1".into()), failed(), at(0));
    assert!(conditions.is_ready(at(60)));
    conditions.report(&Dependency::Leases, failed(), at(60));
    assert!(!conditions.is_ready(at(60)));
    conditions.report(&Dependency::Leases, Ok(()), at(61));
    conditions.report(&Dependency::Store, failed(), at(62));
    assert!(!conditions.is_ready(at(62)));
}

#[test]
fn a_replica_that_ended_is_no_failure() {
    let (conditions, replica) = (Conditions::default(), Dependency::Replica("two/1".into()));
    conditions.report(&replica, failed(), at(0));
    assert_eq!(failing(&conditions, 1).len(), 1);
    conditions.forget(&replica);
    assert_eq!(failing(&conditions, 1), []);
}

#[test]
fn each_dependency_has_its_gauge() {
    let conditions = Conditions::default();
    let series = |seconds| ::metrics::series(conditions.families(at(seconds)));
    assert_eq!(series(0), ["fleetwright_store_up 1", "fleetwright_replicas_unreachable 0"]);
    conditions.expect(Dependency::Listing(scope()), Millis::from_mins(2), at(0));
    conditions.report(&Dependency::Listing(scope()), Ok(()), at(30));
    conditions.report(&Dependency::Store, failed(), at(30));
    conditions.report(&Dependency::Cloud(scope()), failed(), at(30));
    conditions.report(&Dependency::CloudAction(scope(), CloudAction::Launch), Ok(()), at(30));
    conditions.report(&Dependency::CloudAction(scope(), CloudAction::Terminate), failed(), at(30));
    conditions.report(&Dependency::Queue(scope()), Ok(()), at(30));
    conditions.report(&Dependency::Replica("two/1".into()), failed(), at(30));
    conditions.report(&Dependency::Replica("three/1".into()), Ok(()), at(30));
    let place = "account=\"1\",region=\"eu-west-1\"";
    let expected = [
        "fleetwright_store_up 0".to_owned(),
        format!("fleetwright_cloud_up{{{place}}} 0"),
        format!("fleetwright_cloud_action_allowed{{{place},action=\"launch\"}} 1"),
        format!("fleetwright_cloud_action_allowed{{{place},action=\"terminate\"}} 0"),
        // 90 s after 30 s.
        format!("fleetwright_cloud_listing_age_seconds{{{place}}} 90"),
        format!("fleetwright_interruption_queue_available{{{place}}} 1"),
        "fleetwright_replicas_unreachable 1".to_owned(),
    ];
    assert_eq!(series(120), expected);
}
