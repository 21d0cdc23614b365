//! What a quote answers.

use std::cmp::Ordering;

use model::plan::Reason;
use model::{CapacityType, ClusterName, InstanceTypeName, Labels, MicroUsd, NodeName, PoolName, Text, Timestamp, Zone};
use odds::Odds;

use crate::ReadyTime;

/// What the pods would need in each cluster, best cluster first.
#[derive(Debug, Clone, PartialEq)]
pub struct Quote {
    /// The answers of the clusters, in the order of [`ClusterQuote::cmp_rank`].
    pub clusters: Vec<ClusterQuote>,
    /// When the answers are too old to act on: prices, odds and room change.
    pub expires: Timestamp,
}

#[derive(Debug, Clone, PartialEq)]
pub struct ClusterQuote {
    pub cluster: ClusterName,
    /// Whether all pods have a place there.
    pub answer: Answer,
}

/// Whether all pods of a quote have a place in a cluster.
#[derive(Debug, Clone, PartialEq)]
pub enum Answer {
    /// All pods have a place.
    Fits(Fit),
    /// At least one pod has no place.
    DoesNotFit(Vec<Blocker>),
}

/// Places for all pods, and what they cost.
#[derive(Debug, Clone, PartialEq)]
pub struct Fit {
    /// Pods on nodes that exist or are being launched, by node.
    pub existing: Vec<ExistingNodePods>,
    /// Nodes to launch; equal ones are one entry.
    pub new_nodes: Vec<NewNodes>,
    /// What the new nodes count per hour ([`model::Offering::charged_price`]), surplus credits included: no cluster ranks
    /// first by overlays of its own.
    pub price: MicroUsd,
    /// Lower bound on the price of any new nodes for the pods that are not on existing ones.
    pub lower_bound: MicroUsd,
    /// Probability that all new nodes can be launched. Certain where none is needed.
    pub odds: Odds,
    /// Time until all new nodes are ready; zero where none is needed.
    pub ready: ReadyTime,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodCount {
    pub pod_set: Text,
    pub pods: u32,
}

/// Pods on one node of the cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExistingNodePods {
    /// Name of the Node, or of the NodeClaim while there is no Node.
    pub node: NodeName,
    pub pods: Vec<PodCount>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewNodes {
    pub count: u32,
    pub pool: PoolName,
    pub capacity_type: CapacityType,
    /// Instance types that the launch may use, cheapest first.
    pub instance_types: Vec<InstanceTypeName>,
    /// Zones that the launch may use; the price holds in the first.
    pub zones: Vec<Zone>,
    /// What one node counts per hour, surplus credits included.
    pub price: MicroUsd,
    /// Labels that all of its options have.
    pub labels: Labels,
    pub pods: Vec<PodCount>,
}

/// Why pods have no place, and what would have to give way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Blocker {
    /// The pods; without pods it holds for all.
    pub pods: Option<PodCount>,
    /// The reasons, each with its NodePool where one can give way.
    pub reasons: Vec<Reason>,
    /// The smallest changes that would make the pods fit, as sentences.
    pub fits_if: Vec<String>,
}

impl Fit {
    /// Price divided by the probability: what is better of two answers that are equally fast. It is the mean price where
    /// each failed attempt costs as much as a successful one.
    #[must_use]
    pub fn expected_price(&self) -> MicroUsd {
        if self.price.0 <= 0 {
            return self.price;
        }
        // A probability of zero gives infinity, which saturates.
        MicroUsd((self.price.0 as f64 / self.odds.probability).round() as i64)
    }
}

impl ClusterQuote {
    /// The order of clusters: those where all pods fit first, by expected price, then time to ready (p50, p95), then name;
    /// then the others, by the number of pods without a place, then name.
    #[must_use]
    pub fn cmp_rank(&self, other: &Self) -> Ordering {
        let by_answer = match (&self.answer, &other.answer) {
            (Answer::Fits(own), Answer::Fits(other)) => {
                (own.expected_price(), own.ready).cmp(&(other.expected_price(), other.ready))
            }
            (Answer::Fits(_), Answer::DoesNotFit(_)) => Ordering::Less,
            (Answer::DoesNotFit(_), Answer::Fits(_)) => Ordering::Greater,
            (Answer::DoesNotFit(own), Answer::DoesNotFit(other)) => without_place(own).cmp(&without_place(other)),
        };
        by_answer.then_with(|| self.cluster.cmp(&other.cluster))
    }
}

/// Number of pods without a place; those of a blocker for all pods are more than any number.
fn without_place(blockers: &[Blocker]) -> u64 {
    let all = u64::from(u32::MAX) + 1;
    blockers.iter().map(|blocker| blocker.pods.as_ref().map_or(all, |pods| u64::from(pods.pods))).sum()
}
