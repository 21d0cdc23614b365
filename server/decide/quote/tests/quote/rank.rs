//! The order of clusters.

use std::sync::Arc;

use model::{MicroUsd, Millis};
use odds::Odds;
use quote::{Answer, Blocker, ClusterQuote, Fit, PodCount, ReadyTime, rank};

use crate::fixture::{NOW, cluster, fit, pods, pool, prepared, quote};

fn fits(name: &str, price: i64, probability: f64, seconds: i64) -> ClusterQuote {
    let ready = ReadyTime { p50: Millis::from_secs(seconds), p95: Millis::from_secs(2 * seconds) };
    let odds = Odds { probability, samples: 0.0, neighbour_samples: 0.0 };
    let fit =
        Fit { existing: vec![], new_nodes: vec![], price: MicroUsd(price), lower_bound: MicroUsd(0), odds, ready };
    ClusterQuote { cluster: name.into(), answer: Answer::Fits(fit) }
}

fn lacks(name: &str, pods: u32) -> ClusterQuote {
    let pods = Some(PodCount { pod_set: "job".into(), pods });
    let blocker = Blocker { pods, reasons: vec![], fits_if: vec![] };
    ClusterQuote { cluster: name.into(), answer: Answer::DoesNotFit(vec![blocker]) }
}

#[test]
fn overlays_of_a_cluster_do_not_make_it_rank_first() {
    // Six CPUs need a t.8 at $0.75 everywhere; `cheap` says that all its types are free.
    let cluster_with = |name: &str, is_free: bool| {
        let mut pool = pool();
        let catalogue = Arc::make_mut(&mut pool.catalogue);
        let offerings = catalogue.types.iter_mut().flat_map(|kind| &mut kind.offerings).filter(|_| is_free);
        for offering in offerings {
            offering.catalogue_price = Some(std::mem::replace(&mut offering.price, MicroUsd(0)));
        }
        quote(&mut prepared(name, cluster(pool)), &[pods("job", 1, 6)])
    };
    let ranked = rank(vec![cluster_with("honest", false), cluster_with("sly", true)], NOW);
    let named: Vec<(&str, i64)> = ranked.clusters.iter().map(|one| (&**one.cluster, fit(one).price.0)).collect();
    assert_eq!(named, [("honest", 750_000), ("sly", 750_000)]);
    assert!(ranked.clusters.iter().all(|one| fit(one).new_nodes[0].price == MicroUsd(750_000)));
}

#[test]
fn clusters_are_in_the_order_of_expected_price_then_time_then_name() {
    let quote = rank(
        vec![
            lacks("lacks-2", 2),
            lacks("lacks-1", 1),
            fits("never", 1, 0.0, 1),
            fits("unlikely", 400_000, 0.5, 40),
            fits("slow", 500_000, 1.0, 60),
            fits("quick-b", 500_000, 1.0, 40),
            fits("quick-a", 500_000, 1.0, 40),
            fits("free", 0, 1.0, 0),
        ],
        NOW,
    );
    // .40 at 1/2 is expected to cost .80.
    let names: Vec<&str> = quote.clusters.iter().map(|one| &**one.cluster).collect();
    assert_eq!(names, ["free", "quick-a", "quick-b", "slow", "unlikely", "never", "lacks-1", "lacks-2"]);
    assert_eq!(quote.expires, NOW + Millis::from_mins(1));
}
