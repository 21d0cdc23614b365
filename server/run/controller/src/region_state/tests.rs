use super::*;
use crate::context::Context;
use crate::guardrails::rate_limits::Population;
use crate::guardrails::{Bound, Freeze, GuardrailSettings, RateLimitRule};
use model::{ClaimName, MicroUsd, Millis};

fn at(millis: i64) -> Timestamp {
    Timestamp::from_millis(millis)
}

/// One step of `cluster`, which launches a machine if the fleet limit admits it.
fn launch_machine(region: &RegionState, cluster: &ClusterName, settings: &GuardrailSettings, number: usize) -> bool {
    let locked = Cell::new(false);
    let mut guardrails = region.guardrails(&locked, at(1_000));
    let population = Population { cluster, machines: 100, fleet: 400, clusters: 1 };
    let (admitted, _) = guardrails.admit_launches(settings, population, [MicroUsd(0)], at(1_000));
    if admitted > 0 {
        guardrails.launches.record(cluster, &ClaimName::from(format!("{cluster}-{number}")), MicroUsd(0), at(1_000));
    }
    admitted > 0
}

#[test]
fn clusters_share_a_fleet_limit() {
    let none = Bound { machines: 0, percent: 0, free: 0, usd_per_hour: MicroUsd(0) };
    let rule = RateLimitRule { window: Millis::from_mins(10), cluster: none, fleet: Bound { machines: 40, ..none } };
    let settings = GuardrailSettings { launches: rule, ..GuardrailSettings::default() };
    let region = RegionState::default();
    let clusters = ["a", "b", "c", "d"].map(ClusterName::from);
    let steps = (0..20).flat_map(|number| clusters.iter().map(move |cluster| (cluster, number)));
    let launched = steps.filter(|(cluster, number)| launch_machine(&region, cluster, &settings, *number)).count();
    // 80 steps want a machine each. Below its share of the fleet (40 of 40, for one cluster) nothing
    // is reserved for others.
    assert_eq!(launched, 40);
    assert_eq!(region.counter_snapshot().buckets.values().map(|bucket| bucket.launched.count).sum::<usize>(), 40);
}

#[test]
fn clusters_of_two_accounts_share_a_fleet_limit_and_numbers() {
    let none = Bound { machines: 0, percent: 0, free: 0, usd_per_hour: MicroUsd(0) };
    let rule = RateLimitRule { window: Millis::from_mins(10), cluster: none, fleet: Bound { machines: 10, ..none } };
    let settings = GuardrailSettings { launches: rule, ..GuardrailSettings::default() };
    let fleet = Arc::new(FleetState::new(&Settings { first_number: 7, ..Settings::default() }));
    let regions = [(); 2].map(|()| RegionState::with_fleet(Settings::default(), Arc::clone(&fleet)));
    let clusters = ["a", "b"].map(ClusterName::from);
    let attempts = (0..20).flat_map(|number| regions.iter().zip(&clusters).map(move |both| (both, number)));
    let launched = attempts.filter(|((region, cluster), number)| launch_machine(region, cluster, &settings, *number));
    // 40 attempts in two regions, and 10 machines for both together.
    assert_eq!(launched.count(), 10);
    assert_eq!(regions.each_ref().map(RegionState::next_number), [7, 8], "numbers are not issued twice");
}

#[test]
fn a_step_keeps_the_guardrails_locked_from_the_first_access_until_it_releases_them() {
    let region = RegionState::default();
    let (locked, mut effects) = (Cell::new(false), Vec::new());
    let mut step = Context::new(("c".into(), Text::default()), &region, &locked, &mut effects, at(1_000));
    assert!(!locked.get() && region.fleet.are_guardrails_free(), "nothing was accessed");
    assert_eq!(step.guardrails.launches.cluster_count(&"c".into()), 0);
    assert!(locked.get());
    assert!(!region.fleet.are_guardrails_free(), "no other cluster launches between check and count");
    step.release_guardrails();
    assert!(region.fleet.are_guardrails_free());
    assert!(locked.get(), "the step has to settle what it changed");
}

#[test]
fn a_change_of_the_fleet_limits_changes_the_version_once() {
    let region = RegionState::default();
    let before = region.limits_version();
    let freeze = || {
        let (by, reason, until) = ("op".into(), "test".into(), Some(at(5_000)));
        RegionEvent::FreezesChanged(vec![Freeze {
            id: 1,
            cluster: None,
            pool: None,
            only_disruption: false,
            by,
            reason,
            since: at(1_000),
            until,
        }])
    };
    region.apply(freeze(), at(1_000));
    assert_eq!(region.limits_version(), before + 1);
    region.apply(freeze(), at(2_000));
    assert_eq!(region.limits_version(), before + 1, "the same freezes");
    assert_eq!(region.next_change(), Some(at(5_000)));
    region.advance(at(4_999));
    assert_eq!(region.limits_version(), before + 1);
    region.advance(at(5_000));
    assert_eq!(region.limits_version(), before + 2, "the freeze ended");
}

#[test]
fn the_zone_in_a_provider_id_shows_the_region() {
    let elsewhere = |region: &str, provider_id: &str| {
        RegionState::default().in_region(region.into()).is_elsewhere(&ProviderId::from(provider_id))
    };
    for (region, provider_id, expected) in [
        ("us-east-1", "aws:///us-east-1a/i-1", false),
        ("us-east-1", "aws:///us-east-1-bos-1a/i-1", false),
        ("us-east-1", "aws:///us-east-11a/i-1", true),
        ("us-east-1", "aws:///us-east-2a/i-1", true),
        ("us-east-1", "aws:///eu-west-1a/i-1", true),
        // Nothing is known about other ids.
        ("us-east-1", "kind://docker/a/b", false),
        ("us-east-1", "", false),
    ] {
        assert_eq!(elsewhere(region, provider_id), expected, "{region} {provider_id}");
    }
    let unknown = RegionState::default();
    assert!(!unknown.is_elsewhere(&ProviderId::from("aws:///eu-west-1a/i-1")), "the region has no name");
}

#[test]
fn numbers_follow_each_other() {
    let region = RegionState::new(Settings { first_number: 7, ..Settings::default() });
    let numbers: Vec<u64> = (0..3).map(|_| region.next_number()).collect();
    assert_eq!(numbers, [7, 8, 9]);
    assert_eq!([region.next_plan_number(), region.next_plan_number()], [1, 2].map(PlanNumber));
}
