//! Quotes of small clusters, worked out by hand.

mod fixture;
mod random;
mod rank;

use fixture::{READY, add_node, add_pod, cluster, fit, labels, pods, pool, prepared, quote, requests, with_context};
use model::input::PlanningInput;
use model::labels::{HOSTNAME, ZONE};
use model::plan::ReasonCode;
use model::resources::CPU;
use model::{
    CapacityType, DaemonSet, LabelSelector, MicroUsd, PodAffinityTerm, PodShape, Resources, SpreadConstraint, Text,
    Zone,
};
use odds::{CapacityOdds, CapacityPool};
use quote::{
    Answer, Blocker, ClusterQuote, InvalidPodSets, LaunchSettings, PodCount, PreparedCluster, ReadyTime, validate,
};

fn count(pod_set: &str, pods: u32) -> PodCount {
    PodCount { pod_set: pod_set.into(), pods }
}

fn blockers(quote: &ClusterQuote) -> &[Blocker] {
    match &quote.answer {
        Answer::DoesNotFit(blockers) => blockers,
        Answer::Fits(fit) => panic!("fits: {fit:?}"),
    }
}

fn codes(blocker: &Blocker) -> Vec<ReasonCode> {
    blocker.reasons.iter().map(|reason| reason.code).collect()
}

#[test]
fn pods_that_fit_on_existing_nodes_cost_nothing_and_are_certain() {
    let mut input = cluster(pool());
    add_node(&mut input, "n1", &[(5, "web")]);
    add_node(&mut input, "n2", &[(8, "web")]);
    let found = quote(&mut prepared("c", input), &[pods("job", 3, 1)]);
    let found = fit(&found);
    assert_eq!(
        (found.existing.len(), &**found.existing[0].node, &found.existing[0].pods),
        (1, "n1", &vec![count("job", 3)])
    );
    assert_eq!((found.price, found.lower_bound, found.new_nodes.len()), (MicroUsd(0), MicroUsd(0), 0));
    assert_eq!((found.odds.probability, found.ready), (1.0, ReadyTime::default()));
}

#[test]
fn the_other_pods_get_new_nodes_at_the_price_of_the_cheapest_ones() {
    let mut input = cluster(pool());
    add_node(&mut input, "n1", &[(5, "web")]);
    // Three of seven CPUs are free on n1; the other four need one t.4.
    let found = quote(&mut prepared("c", input), &[pods("job", 7, 1)]);
    let found = fit(&found);
    assert_eq!(found.existing[0].pods, [count("job", 3)]);
    let nodes = &found.new_nodes[0];
    assert_eq!((found.new_nodes.len(), nodes.count, &nodes.pods), (1, 1, &vec![count("job", 4)]));
    assert_eq!((&**nodes.pool, &**nodes.instance_types[0], nodes.price), ("default", "t.4", MicroUsd(400_000)));
    // A CPU costs at least $0.75 / 8 = $0.09375: four cost at least $0.375.
    assert!(found.lower_bound <= found.price && found.lower_bound >= MicroUsd(374_999), "{:?}", found.lower_bound);
    assert_eq!(found.price, MicroUsd(400_000));
    // 1.9 / 2 for each of four options in two types and zones, of which any one does.
    assert!((found.odds.probability - (1.0 - 0.05_f64.powi(4))).abs() < 1e-9, "{:?}", found.odds);
    assert!((found.ready.p50.get() - READY.p50.get()).abs() <= 10, "{:?}", found.ready);
}

#[test]
fn a_quote_places_all_pods_or_none() {
    let mut input = cluster(pool());
    add_node(&mut input, "n1", &[]);
    let mut apart = pods("apart", 2, 1);
    apart.shape.node_selector = labels(&[("example.com/rack", "r1")]);
    let found = quote(&mut prepared("c", input), &[pods("job", 3, 1), apart]);
    let [blocker] = blockers(&found) else { panic!("one pod set has no place: {found:?}") };
    assert_eq!((blocker.pods.as_ref(), codes(blocker)), (Some(&count("apart", 2)), vec![ReasonCode::Requirements]));
    assert_eq!(blocker.reasons[0].pool.as_deref().map(|name| &**name), Some("default"));
}

/// The launches of the setting know no limits: the verifier refuses them for this cluster, and the planner plans it whole.
#[test]
fn a_limit_of_the_cluster_holds() {
    let limited = |cpus: i64| {
        let mut pool = pool();
        pool.limits = Resources::from_iter([(CPU, cpus * 1_000)]);
        cluster(pool)
    };
    let found = quote(&mut prepared("c", limited(8)), &[pods("job", 9, 1)]);
    let [blocker] = blockers(&found) else { panic!("eight of nine fit: {found:?}") };
    assert_eq!((blocker.pods.as_ref(), codes(blocker)), (Some(&count("job", 1)), vec![ReasonCode::Limits]));
    assert_eq!(fit(&quote(&mut prepared("c", limited(12)), &[pods("job", 9, 1)])).price, MicroUsd(1_150_000));
}

#[test]
fn a_held_cluster_is_quoted_for_its_existing_nodes_only() {
    let mut input = cluster(pool());
    add_node(&mut input, "n1", &[]);
    let hold = Some(Text::from("the cluster is frozen"));
    let mut held = PreparedCluster::new("c".into(), "1".into(), input, hold, &LaunchSettings::default());
    assert_eq!(fit(&quote(&mut held, &[pods("job", 8, 1)])).price, MicroUsd(0));
    let found = quote(&mut held, &[pods("job", 9, 1)]);
    let [blocker] = blockers(&found) else { panic!("{found:?}") };
    assert_eq!((codes(blocker), &*blocker.reasons[0].message), (vec![ReasonCode::HeldBack], "the cluster is frozen"));
}

#[test]
fn a_quote_changes_nothing() {
    let mut input = cluster(pool());
    add_node(&mut input, "n1", &[(5, "web")]);
    let mut cluster = prepared("c", input);
    let before = format!("{cluster:?}");
    let first = quote(&mut cluster, &[pods("job", 7, 1)]);
    drop(quote(&mut cluster, &[pods("other", 70, 3)]));
    assert_eq!(format!("{cluster:?}"), before);
    assert_eq!(quote(&mut cluster, &[pods("job", 7, 1)]), first);
}

/// Without the running pods of `web` in the count, all four could be in one zone.
#[test]
fn a_spread_counts_running_pods() {
    let mut input = cluster(pool());
    add_node(&mut input, "n1", &[(1, "web"), (1, "web")]);
    let mut set = pods("web", 2, 2);
    set.shape.spread.push(SpreadConstraint {
        topology_key: ZONE.into(),
        max_skew: 1,
        min_domains: None,
        hard: true,
        selector: Some(selecting("web")),
        honor_node_affinity: true,
        honor_node_taints: false,
    });
    let found = quote(&mut prepared("c", input), &[set]);
    let found = fit(&found);
    // Zone a has two already, so both are in zone b although n1 has room.
    assert_eq!((found.existing.len(), found.price), (0, MicroUsd(400_000)));
    assert_eq!(found.new_nodes[0].zones.iter().map(|zone| &***zone).collect::<Vec<&str>>(), ["b"]);
}

fn selecting(app: &str) -> LabelSelector {
    LabelSelector::new(vec![model::SelectorTerm {
        key: "app".into(),
        operator: model::SelectorOperator::In,
        values: vec![app.into()],
    }])
}

/// The pod stays as it is among the condensed ones. Without it the verifier would refuse the parts, and the planner plan the whole.
/// A cluster of one node in zone a, whose pod excludes pods of `job` from its `domain`.
fn excluding_jobs(domain: &str) -> PlanningInput {
    let mut input = cluster(pool());
    add_node(&mut input, "n1", &[]);
    let term = PodAffinityTerm {
        topology_key: domain.into(),
        selector: Some(selecting("job")),
        namespaces: Vec::new(),
        namespace_selector: None,
    };
    let shape = PodShape { requests: requests(1), pod_anti_affinity: vec![term], ..PodShape::default() };
    let pod = add_pod(&mut input, "alone", shape, &labels(&[("app", "alone")]));
    input.nodes[0].pods.push(pod);
    input
}

#[test]
fn the_anti_affinity_of_a_running_pod_excludes_quoted_pods() {
    let mut cluster = prepared("c", excluding_jobs(HOSTNAME));
    assert_eq!(fit(&quote(&mut cluster, &[pods("job", 1, 1)])).price, MicroUsd(400_000));
    assert_eq!(fit(&quote(&mut cluster, &[pods("other", 1, 1)])).price, MicroUsd(0));
}

#[test]
fn the_anti_affinity_of_a_running_pod_excludes_quoted_pods_from_new_nodes_of_its_zone() {
    let zones = |input: PlanningInput| {
        let found = quote(&mut prepared("c", input), &[pods("job", 1, 1)]);
        fit(&found).new_nodes.iter().flat_map(|nodes| nodes.zones.clone()).collect::<Vec<_>>()
    };
    // t.4 is offered in both zones at one price.
    assert_eq!(zones(excluding_jobs(HOSTNAME)), [Zone::from("a"), Zone::from("b")]);
    assert_eq!(zones(excluding_jobs(ZONE)), [Zone::from("b")]);
}

/// Three of eight CPUs are free on the node without the pod of the DaemonSet, which takes one, and one is on new nodes too.
#[test]
fn the_pods_of_daemonsets_have_their_room() {
    let mut input = cluster(pool());
    let shape = PodShape { requests: requests(1), ..PodShape::default() };
    let pod = add_pod(&mut input, "unused", shape, &labels(&[("app", "agent")]));
    input.daemons.push(DaemonSet {
        namespace: "kube-system".into(),
        name: "agent".into(),
        shape: pod.shape,
        labels: pod.labels,
    });
    add_node(&mut input, "n1", &[(5, "web")]);
    let mut cluster = prepared("c", input);
    assert_eq!(fit(&quote(&mut cluster, &[pods("job", 2, 1)])).price, MicroUsd(0));
    let found = quote(&mut cluster, &[pods("job", 6, 1)]);
    // Two on n1; four with the DaemonSet pod need a t.8.
    assert_eq!((fit(&found).price, fit(&found).existing[0].pods.clone()), (MicroUsd(750_000), vec![count("job", 2)]));
}

#[test]
fn refused_launches_lower_the_odds_of_later_ones() {
    let mut odds = CapacityOdds::default();
    for zone in ["use1-a", "use1-b"] {
        let pool = |instance_type: &str| CapacityPool {
            zone: zone.into(),
            instance_type: instance_type.into(),
            capacity_type: CapacityType::OnDemand,
            account: None,
        };
        (0..30).for_each(|_| ["t.4", "t.8"].iter().for_each(|name| odds.record(&pool(name), 1, 0, fixture::NOW)));
    }
    let found = with_context(&odds, |context| prepared("c", cluster(pool())).quote(&[pods("job", 1, 1)], context));
    assert!(fit(&found).odds.probability < 0.5 && fit(&found).odds.samples > 100.0, "{:?}", fit(&found).odds);
    assert!(fit(&found).expected_price() > fit(&found).price);
}

#[test]
fn clusters_with_equal_pools_share_what_is_planned_for_launches() {
    let settings = LaunchSettings::default();
    let shared = pool();
    let mut limited = shared.clone();
    limited.limits = Resources::from_iter([(CPU, 8_000)]);
    let mut labelled = shared.clone();
    labelled.labels = labels(&[("team", "a")]);
    let number = |pool| PreparedCluster::new("c".into(), "1".into(), cluster(pool), None, &settings);
    let clusters = [number(shared), number(limited), number(labelled)];
    let numbers = clusters.each_ref().map(PreparedCluster::setting_number);
    assert!(numbers[0] == numbers[1] && numbers[0] != numbers[2] && numbers[0] != 0, "{numbers:?}");
}

#[test]
fn pod_sets_that_cannot_be_quoted_are_refused() {
    assert_eq!(validate(&[pods("job", 1, 1)]), Ok(()));
    assert_eq!(validate(&[pods("job", 0, 1)]), Err(InvalidPodSets::NoPods));
    assert_eq!(validate(&[pods("job", 1, 1), pods("job", 2, 1)]), Err(InvalidPodSets::DuplicateName("job".into())));
    assert_eq!(validate(&[pods("job", 10_001, 1)]), Err(InvalidPodSets::TooManyPods(10_001)));
}
