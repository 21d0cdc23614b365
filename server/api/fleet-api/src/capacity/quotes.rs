//! Quotes over the clusters of all replicas. Each replica quotes the clusters that it decides for; the one that is asked asks
//! the others for their parts, and merges them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use fleetwright_proto::v1;
use futures::future::join_all;
use model::{ClusterName, Millis, Timestamp};
use quote::rank::VALIDITY;
use quote::{ClusterQuote, LaunchPlans, PodSet};
use store::clock;
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout_at};
use tonic::{Code, Request, Status};
use tracing::{debug, warn};

use super::deadline;
use super::service::CapacityApi;
use super::worker::{AskedCluster, AskedFacts, Job, QuoteJob};
use super::{encode, pod_sets};
use crate::fleet::Access;
use crate::fleet::replica_clients::CapacityClient;
use api_messages::errors::{self, Reason};
use api_messages::{resource_names as names, timestamp};

/// Answers of a request that states no number.
const DEFAULT_ANSWERS: usize = 10;

const MOST_ANSWERS: usize = 1_000;

/// Part of the time of a request within which the task of a cluster answers.
const FACTS_PART: u32 = 2;

struct Part {
    quotes: Vec<v1::ClusterQuote>,
    unreachable: Vec<String>,
    /// Number of clusters that were asked.
    clusters: usize,
}

impl CapacityApi {
    /// Quotes of all replicas, or of this one alone, in the clusters that the client may see.
    pub(super) async fn quote_now(
        &self,
        request: v1::QuoteClustersRequest,
        access: &Access,
        deadline: Instant,
    ) -> Result<v1::QuoteClustersResponse, Status> {
        let sets: Arc<[PodSet]> = pod_sets::read(&request.pod_sets)?.into();
        let (only, most) = (self.named_clusters(&request.clusters, access).await?, answers(request.max_clusters)?);
        let _place = self.threads.admit()?;
        let part = access.part;
        let own = self.quote_own(only.as_ref(), &sets, (access, deadline));
        let others = async {
            if part { Ok(Vec::new()) } else { self.parts_of_others(&request, only.as_ref(), (access, deadline)).await }
        };
        let (own, others) = futures::try_join!(own, others)?;
        let nobody = if part { Vec::new() } else { self.without_replica(only.as_ref(), access) };
        Ok(merged([own].into_iter().chain(others), nobody, most))
    }

    /// The clusters that a request names; `None` for all. Those of a part exist at the replica that asks.
    async fn named_clusters(
        &self,
        clusters: &[String],
        access: &Access,
    ) -> Result<Option<BTreeSet<ClusterName>>, Status> {
        let mut named = BTreeSet::new();
        for (at, name) in clusters.iter().enumerate() {
            let field = || format!("clusters[{at}]");
            let cluster = names::parse_cluster(name)
                .map_err(|error| errors::invalid_field(field(), error.message().to_owned()))?;
            if access.part {
                access.check(&cluster)?;
            } else {
                self.fleet.source(&cluster, access).await?;
            }
            named.insert(cluster);
        }
        Ok((!clusters.is_empty()).then_some(named))
    }

    /// Names of the clusters for which no replica that answers decides.
    fn without_replica(&self, only: Option<&BTreeSet<ClusterName>>, access: &Access) -> Vec<String> {
        let all = self.fleet.directory.unreachable().into_iter().filter(|name| access.shows(name));
        let is_asked = |name: &String| {
            only.is_none_or(|only| names::parse_cluster(name).is_ok_and(|cluster| only.contains(&cluster)))
        };
        all.filter(is_asked).collect()
    }

    /// The quotes of the clusters that this replica decides for.
    async fn quote_own(
        &self,
        only: Option<&BTreeSet<ClusterName>>,
        sets: &Arc<[PodSet]>,
        (access, deadline): (&Access, Instant),
    ) -> Result<Part, Status> {
        let own = self.fleet.directory.own();
        self.threads.retain(|cluster| own.contains(cluster));
        let is_asked =
            |cluster: &ClusterName| access.clusters.allows(cluster) && only.is_none_or(|only| only.contains(cluster));
        let asked: Vec<ClusterName> = own.into_iter().filter(is_asked).collect();
        let (clusters, now) = (asked.len(), Instant::now());
        let patience = deadline.saturating_duration_since(Instant::now()) / FACTS_PART;
        let facts = join_all(asked.into_iter().map(|cluster| self.facts_of(cluster, now, patience))).await;
        self.keep_prepared();
        let known_after = now.elapsed();
        let (mut unreachable, mut of_threads) = (Vec::new(), BTreeMap::<usize, Vec<AskedCluster>>::new());
        let mut observed = BTreeMap::new();
        let mut changed = 0;
        for found in facts {
            match found {
                Ok(cluster) => {
                    changed += u32::from(matches!(cluster.facts, AskedFacts::Changed(_)));
                    if !matches!(cluster.facts, AskedFacts::NotSynced) {
                        observed.insert(cluster.name.clone(), before(cluster.taken.elapsed()));
                    }
                    of_threads.entry(self.threads.of(&cluster.name)).or_default().push(cluster);
                }
                Err(cluster) => unreachable.push(names::cluster(&cluster)),
            }
        }
        let launch_plans = Arc::<LaunchPlans>::default();
        let job = |clusters, answer| {
            let (sets, launch_plans) = (Arc::clone(sets), Arc::clone(&launch_plans));
            QuoteJob { sets, launch_plans, clusters, deadline, answer }
        };
        let jobs =
            of_threads.into_iter().map(|(thread, clusters)| self.quote_on(thread, |answer| job(clusters, answer)));
        let mut quotes = Vec::with_capacity(clusters);
        for answer in join_all(jobs).await {
            let answer = answer?;
            quotes.extend(answer.iter().map(|quote| encode::quote(quote, observed.get(&quote.cluster).copied())));
        }
        debug!(
            clusters,
            changed,
            facts_ms = known_after.as_millis(),
            all_ms = now.elapsed().as_millis(),
            "clusters quoted"
        );
        Ok(Part { quotes, unreachable, clusters })
    }

    /// What is known of a cluster: what its thread has, if it is recent, otherwise what its task knows. The cluster if that
    /// does not answer.
    async fn facts_of(&self, name: ClusterName, now: Instant, patience: Duration) -> Result<AskedCluster, ClusterName> {
        let known = self.threads.known().quoted(&name, now);
        match known.as_ref().and_then(|known| known.recent(now)) {
            Some(taken) => Ok(self.asked(name, taken, AskedFacts::Prepared)),
            None => self.ask_facts(name, known.as_ref(), patience).await,
        }
    }

    /// What a thread answers to the job that gets the sender of its answer.
    async fn quote_on(
        &self,
        thread: usize,
        job: impl FnOnce(oneshot::Sender<Option<Vec<ClusterQuote>>>) -> QuoteJob,
    ) -> Result<Vec<ClusterQuote>, Status> {
        let (answer, answered) = oneshot::channel();
        let job = job(answer);
        let deadline = job.deadline;
        self.threads.submit(thread, Job::Quote(job));
        match timeout_at(deadline, answered).await {
            Ok(Ok(Some(quotes))) => Ok(quotes),
            Ok(Err(_)) => Err(errors::status(Reason::Internal, "a quote failed; see the server's log")),
            Ok(Ok(None)) | Err(_) => Err(deadline::late()),
        }
    }

    /// What the other replicas answer; those that do not are in `unreachable` with their clusters.
    async fn parts_of_others(
        &self,
        request: &v1::QuoteClustersRequest,
        only: Option<&BTreeSet<ClusterName>>,
        (access, deadline): (&Access, Instant),
    ) -> Result<Vec<Part>, Status> {
        let asked =
            self.fleet.replicas.reachable_capacity(&access.clusters).into_iter().filter_map(|(instance, client)| {
                let clusters = self.fleet.directory.clusters_of(&instance);
                let is_asked = |cluster: &&ClusterName| {
                    access.clusters.allows(cluster) && only.is_none_or(|only| only.contains(*cluster))
                };
                let clusters: BTreeSet<String> =
                    clusters.iter().filter(is_asked).map(|cluster| names::cluster(cluster)).collect();
                (!clusters.is_empty()).then(|| part_of(instance, client, clusters, request.clone(), deadline))
            });
        join_all(asked).await.into_iter().collect()
    }
}

fn before(age: Duration) -> Timestamp {
    clock::now() - Millis::new(i64::try_from(age.as_millis()).unwrap_or(i64::MAX))
}

/// What a replica answers about its `clusters`. One that does not answer is no error; one that has no time is.
async fn part_of(
    instance: Arc<str>,
    mut client: CapacityClient,
    clusters: BTreeSet<String>,
    request: v1::QuoteClustersRequest,
    deadline: Instant,
) -> Result<Part, Status> {
    let mut request =
        Request::new(v1::QuoteClustersRequest { clusters: clusters.iter().cloned().collect(), ..request });
    request.set_timeout(deadline.saturating_duration_since(Instant::now()));
    match client.quote_clusters(request).await.map(tonic::Response::into_inner).map_err(of_replica) {
        Ok(v1::QuoteClustersResponse { quotes, unreachable, cluster_count, .. }) => {
            Ok(Part { quotes, unreachable, clusters: usize::try_from(cluster_count).unwrap_or_default() })
        }
        Err(status) if matches!(status.code(), Code::ResourceExhausted | Code::DeadlineExceeded) => Err(status),
        Err(status) => {
            warn!(replica = %instance, reason = status.message(), "replica did not answer a quote");
            Ok(Part { quotes: Vec::new(), unreachable: clusters.into_iter().collect(), clusters: 0 })
        }
    }
}

/// The best answers of all parts. A cluster that moves from one replica to another is quoted once.
fn merged(parts: impl Iterator<Item = Part>, mut unreachable: Vec<String>, most: usize) -> v1::QuoteClustersResponse {
    let (mut quotes, mut clusters) = (BTreeMap::new(), 0);
    for part in parts {
        clusters += part.clusters;
        unreachable.extend(part.unreachable);
        quotes.extend(part.quotes.into_iter().map(|quote| (quote.cluster.clone(), quote)));
    }
    let mut ranked: Vec<v1::ClusterQuote> = quotes.into_values().collect();
    unreachable.retain(|name| !ranked.iter().any(|quote| quote.cluster == *name));
    unreachable.sort_unstable();
    unreachable.dedup();
    ranked.sort_by(encode::compare);
    ranked.truncate(most);
    v1::QuoteClustersResponse {
        quotes: ranked,
        expire_time: Some(timestamp(clock::now() + VALIDITY)),
        unreachable,
        cluster_count: encode::cluster_count(clusters),
    }
}

/// Number of answers for what a request states.
fn answers(stated: i32) -> Result<usize, Status> {
    match usize::try_from(stated) {
        Ok(0) => Ok(DEFAULT_ANSWERS),
        Ok(number) => Ok(number.min(MOST_ANSWERS)),
        Err(_) => Err(errors::invalid_field("max_clusters", format!("found {stated}, allowed: 0 or more"))),
    }
}

/// The error of another replica. A request whose deadline passes before the answer ends as cancelled.
pub(super) fn of_replica(status: Status) -> Status {
    if matches!(status.code(), Code::Cancelled | Code::DeadlineExceeded) { deadline::late() } else { status }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quote(cluster: &str, price: i64) -> v1::ClusterQuote {
        let odds = Some(v1::Odds { probability: 1.0, ..Default::default() });
        v1::ClusterQuote {
            cluster: cluster.to_owned(),
            fits: true,
            price_micro_usd_per_hour: price,
            odds,
            ..Default::default()
        }
    }

    fn part(quotes: &[(&str, i64)], unreachable: &[&str]) -> Part {
        Part {
            quotes: quotes.iter().map(|(cluster, price)| quote(cluster, *price)).collect(),
            unreachable: unreachable.iter().map(ToString::to_string).collect(),
            clusters: quotes.len(),
        }
    }

    #[test]
    fn parts_are_merged_by_rank_and_a_cluster_that_one_replica_answers_for_is_reached() {
        let parts = [part(&[("a", 30), ("b", 10)], &["d"]), part(&[("c", 20), ("d", 40)], &["e"])];
        let response = merged(parts.into_iter(), vec!["e".to_owned(), "f".to_owned()], 3);
        let names: Vec<&str> = response.quotes.iter().map(|quote| quote.cluster.as_str()).collect();
        assert_eq!(names, ["b", "c", "a"]);
        assert_eq!(response.unreachable, ["e", "f"]);
        assert_eq!(response.cluster_count, 4);
    }

    #[test]
    fn the_number_of_answers_has_a_default_and_a_limit() {
        let number = |stated| answers(stated).map_err(|status| status.code());
        assert_eq!([number(0), number(7), number(5_000)], [Ok(10), Ok(7), Ok(1_000)]);
        assert_eq!(number(-1), Err(Code::InvalidArgument));
    }
}
