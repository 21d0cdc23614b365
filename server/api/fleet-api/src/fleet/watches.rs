//! Watches: the changes since a position, coalesced for each message, of this replica and of the others.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use fleetwright_proto::v1;
use futures::stream::{self, BoxStream};
use futures::{Stream, StreamExt};
use listing::{Filter, Schema};
use model::ClusterName;
use prost_types::Duration as ProtoDuration;
use store::clock;
use tonic::{Code, Status};

use super::access::Access;
use super::api::FleetApi;
use super::change_log::{ChangeLog, Coalesced, TooOld, coalesce};
use super::collections::{Collection, Nodes, Pods, Pools, WatchArguments, WatchMessage};
use super::directory::Directory;
use super::lists::invalid;
use super::positions::Positions;
use super::shared_messages::Contents;
use super::{encode, schemas};
use crate::views::ResourceChanges;
use api_messages::resource::Resource;
use api_messages::{errors, resource_names as names};

/// Least time between two messages.
const MIN_INTERVAL: Duration = Duration::from_millis(100);

/// Length of a tick, in milliseconds: watches that read in one tick read the same changes. No interval is shorter.
const TICK_MS: u64 = 100;

/// Longest time between two messages of a client, and of another replica.
const HEARTBEATS: (Duration, Duration) = (Duration::from_secs(15), Duration::from_secs(1));

pub(super) type Watch<M> = BoxStream<'static, Result<M, Status>>;

/// What one replica says, and its position after that.
type Source<T> = BoxStream<'static, Result<(T, Positions), Status>>;

#[derive(Clone, Copy)]
pub(super) struct Pace {
    interval: Duration,
    heartbeat: Duration,
}

impl Pace {
    /// # Errors
    /// `INVALID_ARGUMENT` if the interval is negative.
    pub(super) fn new(interval: Option<ProtoDuration>, part: bool) -> Result<Self, Status> {
        let interval = interval.unwrap_or_default();
        let interval = Duration::try_from(interval)
            .map_err(|_| errors::invalid_argument("min_interval", "min_interval is negative or too long"))?;
        let heartbeat = if part { HEARTBEATS.1 } else { HEARTBEATS.0 };
        Ok(Self { interval: interval.clamp(MIN_INTERVAL, heartbeat), heartbeat })
    }
}

fn too_old(_: TooOld) -> Status {
    Status::out_of_range("the changes since resume_token are not known any more; list again")
}

/// Milliseconds since 1970.
fn now_ms() -> u64 {
    clock::now().as_millis().unsigned_abs()
}

/// Time until the next moment that is a multiple of `interval`, in which all watches with this interval read.
fn until_next(interval: Duration) -> Duration {
    let interval_ms = u64::try_from(interval.as_millis()).unwrap_or(u64::MAX).max(1);
    Duration::from_millis(interval_ms - now_ms() % interval_ms)
}

/// The changes that `said` says, coalesced: of `only`, and of rows that are selected.
pub(super) fn coalesced<S, M: Resource>(
    read: fn(&S) -> &ChangeLog<M>,
    only: Option<ClusterName>,
    selects: impl Fn(&M) -> bool,
) -> impl Fn(&S, Range<u64>) -> Result<Coalesced<M>, TooOld> {
    move |source, changes| Ok(coalesce(read(source).between(changes, only.as_ref())?, &selects))
}

/// What a log says since `position`: at most one message each interval, and an empty one after each heartbeat. `read`
/// returns its source, so that a log lives in any owner, and `say` makes the message of the changes between two positions.
///
/// Watches of one interval read at the same moments and to the same position: those that select the same say the same, and
/// their messages are made once.
pub(super) fn follow<S, M, T>(
    source: Arc<S>,
    read: fn(&S) -> &ChangeLog<M>,
    position: u64,
    pace: Pace,
    say: impl Fn(&S, Range<u64>) -> Result<T, TooOld> + Send + 'static,
) -> impl Stream<Item = Result<(T, u64), Status>> + Send
where
    S: Send + Sync + 'static,
    M: Send + Sync + 'static,
    T: Send + 'static,
{
    let end = read(&source).subscribe();
    let begin = Some((position, end, true));
    stream::unfold((begin, source, say), move |(state, source, say)| async move {
        let (position, mut end, is_first) = state?;
        if !is_first {
            tokio::time::sleep(until_next(pace.interval)).await;
        }
        if *end.borrow_and_update() <= position && !is_first {
            // An elapsed heartbeat is answered with an empty message.
            let _elapsed = tokio::time::timeout(pace.heartbeat.saturating_sub(pace.interval), end.changed()).await;
        }
        let log = read(&source);
        // A watch that is ahead of the others of this tick, or that a change woke, reads to the end.
        let next = Some(log.end_at(now_ms() / TICK_MS)).filter(|end| *end > position).unwrap_or_else(|| log.end());
        match say(&source, position..next) {
            Ok(said) => Some((Ok((said, next)), (Some((next, end, false)), source, say))),
            Err(error) => Some((Err(too_old(error)), (None, source, say))),
        }
    })
}

pub(super) fn filter<M>(text: &str, schema: &Schema<M>) -> Result<Filter<M>, Status> {
    Filter::parse(text, schema).map_err(invalid)
}

impl FleetApi {
    /// Changes of a collection; of this replica alone if `part` is set.
    pub(super) async fn watch_collection<C: Collection>(
        &self,
        request: C::WatchRequest,
        access: &Access,
    ) -> Result<Watch<C::WatchResponse>, Status> {
        let arguments = C::watch_arguments(request);
        let (only, is_below) = C::parent(&arguments.parent)?;
        only.iter().try_for_each(|cluster| access.check(cluster))?;
        let positions = Positions::parse(&arguments.resume_token)?;
        let pace = Pace::new(arguments.min_interval, access.part)?;
        let (selects, shown) = (filter(&arguments.filter, C::schema())?, access.clone());
        let instance = Arc::clone(&self.instance);
        let own = follow(
            Arc::clone(&self.changes),
            C::log,
            positions.get(&instance),
            pace,
            coalesced(C::log, only, move |row: &C::Row| {
                is_below(row.name()) && shown.shows(row.name()) && selects.matches(row)
            }),
        );
        let clusters = access.clusters.clone();
        let own = own.map(move |said| {
            let (mut said, position) = said?;
            said.reset.retain(|cluster| clusters.allows(cluster));
            Ok((message(said), Positions::of(&instance, position)))
        });
        let mut sources = vec![own.boxed()];
        if !access.part {
            sources.extend(self.watches_of_others::<C>(&arguments, &positions, access).await?);
        }
        let membership = self.replicas.membership_changes();
        let merged = stream::select_all(sources).scan(positions, |positions, said| {
            let said = said.map(|(message, moved)| {
                positions.extend(moved);
                let message = WatchMessage { resume_token: positions.token(), ..message };
                C::watch_response(message, api_messages::timestamp(clock::now()))
            });
            futures::future::ready(Some(said))
        });
        Ok(if access.part { merged.boxed() } else { end_with_membership(merged, membership).boxed() })
    }

    /// The cluster that a watch names; `None` for all.
    fn watched(parent: &str, access: &Access) -> Result<Option<ClusterName>, Status> {
        let only = names::parse_parent(parent)?;
        only.iter().try_for_each(|cluster| access.check(cluster))?;
        Ok(only)
    }

    async fn watches_of_others<C: Collection>(
        &self,
        arguments: &WatchArguments,
        positions: &Positions,
        access: &Access,
    ) -> Result<Vec<Source<WatchMessage<C::Row>>>, Status> {
        let mut sources = Vec::new();
        for (instance, client) in self.replicas.connect_all(&access.clusters).await? {
            let resume_token = Positions::of(&instance, positions.get(&instance)).token();
            let request = C::watch_request(WatchArguments { resume_token, ..arguments.clone() });
            let watch = C::watch(client, request).await.map_err(|status| of_replica(&instance, &status))?;
            let said = watch.map(move |response| {
                let message = C::watch_message(response.map_err(|status| of_replica(&instance, &status))?);
                let moved = Positions::parse(&message.resume_token)?;
                Ok((message, moved))
            });
            sources.push(said.chain(end_of_replica()).boxed());
        }
        Ok(sources)
    }

    pub(super) async fn watch_pools_now(
        &self,
        request: v1::WatchPoolsRequest,
        access: &Access,
    ) -> Result<Watch<v1::WatchPoolsResponse>, Status> {
        self.watch_collection::<Pools>(request, access).await
    }

    pub(super) async fn watch_nodes_now(
        &self,
        request: v1::WatchNodesRequest,
        access: &Access,
    ) -> Result<Watch<v1::WatchNodesResponse>, Status> {
        self.watch_collection::<Nodes>(request, access).await
    }

    pub(super) async fn watch_pods_now(
        &self,
        request: v1::WatchPodsRequest,
        access: &Access,
    ) -> Result<Watch<v1::WatchPodsResponse>, Status> {
        self.watch_collection::<Pods>(request, access).await
    }

    /// Changes of clusters; of those of this replica if `part` is set.
    pub(super) async fn watch_clusters_now(
        &self,
        request: v1::WatchClustersRequest,
        access: &Access,
    ) -> Result<Watch<v1::WatchClustersResponse>, Status> {
        let v1::WatchClustersRequest { resume_token, filter: text, min_interval } = request;
        let position = Positions::parse(&resume_token)?.get(&self.instance);
        let selects = filter(&text, &schemas::CLUSTERS)?;
        let (owner, part) = (self.owner.clone(), access.part);
        let shown = access.clone();
        let clusters = access.clusters.clone();
        let selects = move |row: &v1::Cluster| {
            (!part || (row.replica == *owner && !row.stale)) && shown.shows(&row.name) && selects.matches(row)
        };
        let (instance, shared) = (Arc::clone(&self.instance), Arc::clone(&self.shared_answers));
        let changes: fn(&Directory) -> &ChangeLog<v1::Cluster> = Directory::changes;
        let say = coalesced(changes, None, selects);
        let said = follow(
            Arc::clone(&self.directory),
            changes,
            position,
            Pace::new(min_interval, part)?,
            move |directory, changes| {
                let contents = Contents { filter: text.clone(), part, clusters: clusters.clone(), changes };
                shared.messages.get_or_make(contents, |changes| {
                    let token = Positions::of(&instance, changes.end).token();
                    Ok(clusters_response(directory, say(directory, changes)?, token, part))
                })
            },
        );
        Ok(said.map(|said| said.map(|(message, _)| v1::WatchClustersResponse::clone(&message))).boxed())
    }

    /// Decisions of clusters once they are made; of those of this replica if `part` is set.
    pub(super) async fn watch_decisions_now(
        &self,
        request: v1::WatchDecisionsRequest,
        access: &Access,
    ) -> Result<Watch<v1::WatchDecisionsResponse>, Status> {
        let only = Self::watched(&request.parent, access)?;
        let positions = Positions::parse(&request.resume_token)?;
        let (part, pace) = (access.part, Pace::new(request.min_interval, access.part)?);
        let (selects, shown) = (filter(&request.filter, &schemas::DECISIONS)?, access.clone());
        let instance = Arc::clone(&self.instance);
        let decisions: fn(&ResourceChanges) -> &ChangeLog<v1::Decision> = |changes| &changes.decisions;
        let own = follow(
            Arc::clone(&self.changes),
            decisions,
            positions.get(&instance),
            pace,
            coalesced(decisions, only, move |row: &v1::Decision| shown.shows(&row.name) && selects.matches(row)),
        );
        let own = own.map(move |said| {
            let (said, position) = said?;
            Ok((said.rows.iter().map(|row| v1::Decision::clone(row)).collect(), Positions::of(&instance, position)))
        });
        let mut sources: Vec<Source<Vec<v1::Decision>>> = vec![own.boxed()];
        if !part {
            for (instance, mut client) in self.replicas.connect_all(&access.clusters).await? {
                let resume_token = Positions::of(&instance, positions.get(&instance)).token();
                let request = v1::WatchDecisionsRequest { resume_token, ..request.clone() };
                let watch = client.watch_decisions(request).await.map_err(|status| of_replica(&instance, &status))?;
                let said = watch.into_inner().map(move |response| {
                    let response = response.map_err(|status| of_replica(&instance, &status))?;
                    Ok((response.decisions, Positions::parse(&response.resume_token)?))
                });
                sources.push(said.chain(end_of_replica()).boxed());
            }
        }
        let membership = self.replicas.membership_changes();
        let merged = stream::select_all(sources).scan(positions, |positions, said| {
            let said = said.map(|(decisions, moved)| {
                positions.extend(moved);
                let observe_time = Some(api_messages::timestamp(clock::now()));
                v1::WatchDecisionsResponse {
                    decisions,
                    deleted: Vec::new(),
                    resume_token: positions.token(),
                    observe_time,
                }
            });
            futures::future::ready(Some(said))
        });
        Ok(if part { merged.boxed() } else { end_with_membership(merged, membership).boxed() })
    }
}

fn clusters_response(
    directory: &Directory,
    said: Coalesced<v1::Cluster>,
    resume_token: String,
    part: bool,
) -> v1::WatchClustersResponse {
    let now = clock::now();
    let shown = |row: v1::Cluster| if part { row } else { encode::in_lists(row) };
    v1::WatchClustersResponse {
        clusters: said.rows.iter().map(|row| shown(directory.present(row, now))).collect(),
        deleted: said.deleted,
        resume_token,
        observe_time: Some(api_messages::timestamp(now)),
    }
}

fn message<M: Resource + Clone>(said: Coalesced<M>) -> WatchMessage<M> {
    WatchMessage {
        rows: said.rows.iter().map(|row| M::clone(row)).collect(),
        deleted: said.deleted,
        resume_token: String::new(),
        reset: said.reset.iter().map(|cluster| names::cluster(cluster)).collect(),
    }
}

/// A replica whose stream ends, ends the watch: what it says later would be missing.
fn end_of_replica<T: Send + 'static>() -> impl Stream<Item = Result<T, Status>> + Send {
    stream::once(async { Err(Status::unavailable("a replica ended its watch; resume")) })
}

/// A client resumes after any error but one of its position.
fn of_replica(instance: &str, status: &Status) -> Status {
    match status.code() {
        Code::OutOfRange => status.clone(),
        _ => Status::unavailable(format!("replica {instance} ended its watch: {}; resume", status.message())),
    }
}

/// Ends a watch when another set of replicas answers than at its beginning: the client resumes, and gets what the new ones
/// say.
fn end_with_membership<M: Send + 'static>(
    watch: impl Stream<Item = Result<M, Status>> + Send + 'static,
    mut membership: tokio::sync::watch::Receiver<u64>,
) -> impl Stream<Item = Result<M, Status>> + Send {
    let changed = async move {
        // The sender lives as long as the server.
        let _ended = membership.changed().await;
    };
    let last = stream::once(async { Err(Status::unavailable("other replicas answer now; resume")) });
    ended_at_error(watch.take_until(changed).chain(last))
}

/// Nothing follows an error.
fn ended_at_error<M: Send + 'static>(
    watch: impl Stream<Item = Result<M, Status>> + Send + 'static,
) -> impl Stream<Item = Result<M, Status>> + Send {
    watch.scan(false, |ended, said| {
        let before = std::mem::replace(ended, said.is_err());
        futures::future::ready((!before).then_some(said))
    })
}
