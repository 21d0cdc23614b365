//! Quotes as messages, and the order of messages from several replicas.

use std::cmp::Ordering;

use fleetwright_proto::v1;
use model::{Millis, Timestamp};
use prost_types::Duration as ProtoDuration;
use quote::{Answer, Blocker, ClusterQuote, ExistingNodePods, Fit, NewNodes, PodCount};

use crate::fleet::encode::reason;
use api_messages::{enum_values, number, resource_names as names, timestamp};

/// A quote as message. The state of the cluster is of `observed`; nothing is known of the cluster without it.
pub(super) fn quote(quote: &ClusterQuote, observed: Option<Timestamp>) -> v1::ClusterQuote {
    let (cluster, observe_time) = (names::cluster(&quote.cluster), observed.map(timestamp));
    match &quote.answer {
        Answer::Fits(fit) => v1::ClusterQuote { cluster, observe_time, ..fitting(fit) },
        Answer::DoesNotFit(blockers) => {
            let blockers = blockers.iter().map(blocker).collect();
            v1::ClusterQuote { cluster, observe_time, blockers, ..Default::default() }
        }
    }
}

fn fitting(fit: &Fit) -> v1::ClusterQuote {
    v1::ClusterQuote {
        cluster: String::new(),
        fits: true,
        existing_nodes: fit.existing.iter().map(existing).collect(),
        new_nodes: fit.new_nodes.iter().map(new_nodes).collect(),
        price_micro_usd_per_hour: fit.price.0,
        lower_bound_micro_usd_per_hour: fit.lower_bound.0,
        odds: Some(v1::Odds {
            probability: fit.odds.probability,
            samples: fit.odds.samples,
            neighbour_samples: fit.odds.neighbour_samples,
        }),
        ready_p50: Some(duration(fit.ready.p50)),
        ready_p95: Some(duration(fit.ready.p95)),
        blockers: Vec::new(),
        observe_time: None,
    }
}

fn existing(node: &ExistingNodePods) -> v1::ExistingNodePods {
    v1::ExistingNodePods { node: node.node.to_string(), pods: node.pods.iter().map(pods).collect() }
}

fn new_nodes(nodes: &NewNodes) -> v1::NewNodes {
    v1::NewNodes {
        count: count(nodes.count),
        pool: nodes.pool.to_string(),
        capacity_type: enum_values::capacity_type(nodes.capacity_type.as_str()).into(),
        instance_types: nodes.instance_types.iter().map(ToString::to_string).collect(),
        zones: nodes.zones.iter().map(ToString::to_string).collect(),
        price_micro_usd_per_hour: nodes.price.0,
        pods: nodes.pods.iter().map(pods).collect(),
    }
}

fn blocker(blocker: &Blocker) -> v1::Blocker {
    v1::Blocker {
        pods: blocker.pods.as_ref().map(pods),
        reasons: blocker.reasons.iter().map(reason).collect(),
        fits_if: blocker.fits_if.clone(),
    }
}

fn pods(pods: &PodCount) -> v1::PodSetCount {
    v1::PodSetCount { pod_set: pods.pod_set.to_string(), pods: count(pods.pods) }
}

fn count(count: u32) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}

fn duration(time: Millis) -> ProtoDuration {
    let nanos = i32::try_from(time.get().rem_euclid(1_000)).unwrap_or_default() * 1_000_000;
    ProtoDuration { seconds: time.get().div_euclid(1_000), nanos }
}

/// The order of [`ClusterQuote::cmp_rank`], of messages.
pub(super) fn compare(one: &v1::ClusterQuote, other: &v1::ClusterQuote) -> Ordering {
    let by_answer = match (one.fits, other.fits) {
        (true, true) => (expected_price(one), ready(one)).cmp(&(expected_price(other), ready(other))),
        (false, false) => without_place(one).cmp(&without_place(other)),
        (one, other) => other.cmp(&one),
    };
    by_answer.then_with(|| one.cluster.cmp(&other.cluster))
}

fn expected_price(quote: &v1::ClusterQuote) -> i64 {
    let price = quote.price_micro_usd_per_hour;
    let probability = quote.odds.as_ref().map_or(1.0, |odds| odds.probability);
    if price <= 0 { price } else { (price as f64 / probability).round() as i64 }
}

fn ready(quote: &v1::ClusterQuote) -> [(i64, i32); 2] {
    [&quote.ready_p50, &quote.ready_p95].map(|time| time.as_ref().map_or((0, 0), |time| (time.seconds, time.nanos)))
}

fn without_place(quote: &v1::ClusterQuote) -> u64 {
    let all = u64::from(u32::MAX) + 1;
    let pods =
        |blocker: &v1::Blocker| blocker.pods.as_ref().map_or(all, |pods| u64::try_from(pods.pods).unwrap_or_default());
    quote.blockers.iter().map(pods).sum()
}

/// Number of clusters, for a message.
pub(super) fn cluster_count(clusters: usize) -> i32 {
    number(clusters)
}

#[cfg(test)]
mod tests {
    use model::MicroUsd;
    use odds::Odds;
    use quote::ReadyTime;

    use super::*;

    fn fits(cluster: &str, price: i64, probability: f64, seconds: i64) -> ClusterQuote {
        let fit = Fit {
            existing: Vec::new(),
            new_nodes: Vec::new(),
            price: MicroUsd(price),
            lower_bound: MicroUsd(0),
            odds: Odds { probability, samples: 2.5, neighbour_samples: 7.0 },
            ready: ReadyTime { p50: Millis::new(1_000 * seconds + 250), p95: Millis::from_secs(2 * seconds) },
        };
        ClusterQuote { cluster: cluster.into(), answer: Answer::Fits(fit) }
    }

    fn blocked(cluster: &str, pods: Option<u32>) -> ClusterQuote {
        let pods = pods.map(|pods| PodCount { pod_set: "a".into(), pods });
        let blocker = Blocker { pods, reasons: Vec::new(), fits_if: vec!["x".to_owned()] };
        ClusterQuote { cluster: cluster.into(), answer: Answer::DoesNotFit(vec![blocker]) }
    }

    #[test]
    fn messages_are_ordered_as_quotes_are() {
        let all = [
            fits("free", 0, 0.5, 90),
            fits("sure", 100, 1.0, 40),
            fits("slow", 100, 1.0, 41),
            fits("dear", 200, 1.0, 10),
            // 150 / 0.5 = 300.
            fits("unsure", 150, 0.5, 10),
            fits("never", 1, 0.0, 10),
            blocked("few", Some(1)),
            blocked("many", Some(9)),
            blocked("all", None),
            fits("same-a", 100, 1.0, 40),
        ];
        for one in &all {
            for other in &all {
                assert_eq!(
                    compare(&quote(one, None), &quote(other, None)),
                    one.cmp_rank(other),
                    "{} {}",
                    one.cluster,
                    other.cluster
                );
            }
        }
    }

    #[test]
    fn a_message_says_what_the_quote_does() {
        let message = quote(&fits("prod", 120_000, 0.75, 40), Some(Timestamp::from_millis(1_500)));
        assert_eq!(message.observe_time, Some(prost_types::Timestamp { seconds: 1, nanos: 500_000_000 }));
        assert_eq!(
            (message.cluster.as_str(), message.fits, message.price_micro_usd_per_hour),
            ("clusters/prod", true, 120_000)
        );
        assert_eq!(message.odds, Some(v1::Odds { probability: 0.75, samples: 2.5, neighbour_samples: 7.0 }));
        assert_eq!(message.ready_p50, Some(ProtoDuration { seconds: 40, nanos: 250_000_000 }));
        let message = quote(&blocked("prod", Some(3)), None);
        assert_eq!((message.fits, message.blockers[0].pods.as_ref().map(|pods| pods.pods)), (false, Some(3)));
        assert_eq!(message.blockers[0].fits_if, ["x"]);
    }
}
