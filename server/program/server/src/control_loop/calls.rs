//! Runs calls to the store and the cloud and turns their results into inputs.

mod launch_warnings;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use auth::authorizer::{Authorizer, UidTrust};
use cloud::notice::Notice;
use cloud::provider::{
    CloudError, CloudEvent, CloudProvider, Instance, InstanceState, LaunchOutcome, LaunchRequest, Owner, instance_id,
};
use controller::executor::{Outcome, Retry};
use controller::guardrails::{ObjectCounts, RESTORE_WINDOW};
use controller::holds::{HoldId, HoldStatus};
use controller::unavailable_offerings::{OfferingKey, OfferingUpdate, PROBE_LEASE};
use controller::{ClusterCall, DecidedLaunch, Decision, Event, Inspection, Launched, NoticeAnswer};
use model::interruption::InterruptionKind;
use model::{ClaimName, ClusterName, LaunchFailure, LaunchOrder, Millis, PriorityLane, ProviderId, Text, Timestamp};
use tokio::time::Instant;
use tracing::{info, warn};

pub use launch_warnings::LaunchWarnings;

use super::lease_renewal::{HeldLeases, LeaseRenewer};
use super::records;
use crate::api_budget::{CallContext, within};
use crate::interruptions;
use decision_log::DecisionLog;
use fleet_api::conditions::{Conditions, Dependency};
use fleet_api::views;
use replica::fence::Fence;
use replica::{Call, CounterUpdate, Input, ListingError};
use replica::{holds, intents, offerings, region, replacements};
use server_settings::LeaseConfig;
use store::identity::{UidClaim, check_identity};
use store::interruptions::InterruptionRow;
use store::lease::{Lease, LeaseOutcome, Scope};
use store::listing::ListedInstanceRow;
use store::offerings::OfferingChange;
use store::operations::{AttemptOutcome, RecentAttempt};
use store::{Store, StoreError, clock};

/// Time that a call has for its answer when it was sent: those that wait longer for their rate limit are given up, and made
/// again.
const TIME_FOR_ANSWER: Duration = Duration::from_secs(10);

/// Runs a call within its limit.
pub(super) async fn run_within_limit(runner: Arc<CallRunner>, call: Call, now: Timestamp) -> Input {
    let Some((by, late)) = call.limit() else { return runner.run(call).await };
    let timeout = clock::duration(by.duration_since(now));
    tokio::time::timeout(timeout, runner.run(call)).await.unwrap_or(late)
}

/// Runs the calls of a [`replica::Coordinator`] and its clusters.
pub struct CallRunner {
    /// Store of the calls that record.
    pub store: Arc<dyn Store>,
    /// Cloud of the calls that launch, describe and terminate.
    pub cloud: Arc<dyn CloudProvider>,
    pub lease: LeaseConfig,
    pub fence: Arc<Fence>,
    /// The leases held, shared with the renewal thread.
    pub held_leases: Arc<HeldLeases>,
    /// The decision log, from which decisions are replayed.
    pub log: DecisionLog,
    /// What the trust file says of the names of clusters.
    pub names: TrustedNames,
    /// Whether leases are renewed and instances listed.
    pub conditions: Arc<Conditions>,
    /// Which failed launches the log has warned of.
    pub launch_warnings: LaunchWarnings,
}

/// What the trust file says of the names of clusters and their UIDs; nothing by default.
#[derive(Debug, Clone, Default)]
pub struct TrustedNames(Option<Arc<Authorizer>>);

impl TrustedNames {
    /// By the trust file of `authorizer`.
    pub(crate) fn of(authorizer: &Arc<Authorizer>) -> Self {
        Self(Some(Arc::clone(authorizer)))
    }

    /// What is known of a UID that the agent of `cluster` states. The agents of a file that has changed since are closed.
    fn trust(&self, cluster: &str, uid: &str) -> UidTrust {
        let checked = self.0.as_ref().and_then(|authorizer| authorizer.check_uid(cluster, uid).ok());
        checked.unwrap_or(UidTrust::NotAuthenticated)
    }
}

impl CallRunner {
    /// Runs a call to its end, without a time limit.
    pub async fn run(&self, call: Call) -> Input {
        // A command runs only under a lease that the fence still allows; every other call names its own.
        match call {
            Call::TakeLease { cluster, agent_epoch, uid, moves_within } => {
                let answer = self.take_cluster_lease(&cluster, agent_epoch, &uid).await;
                let (past, moves) = if matches!(answer, Ok(LeaseOutcome::Granted { .. })) {
                    (self.past_attempts(&cluster).await, self.recent_moves(&cluster, moves_within).await)
                } else {
                    (Vec::new(), Vec::new())
                };
                Input::LeaseAnswered { cluster, answer, past, moves }
            }
            Call::RenewLeases(leases) => Input::Renewed(self.renewer().renew(&leases).await),
            Call::ReleaseLeases(leases) => {
                self.release(&leases).await;
                Input::Done
            }
            Call::RequestLease(scope) => {
                if let Err(error) = self.store.request_lease(&scope, &self.lease.owner).await {
                    warn!(%scope, %error, "cannot request lease from its owner");
                }
                Input::Done
            }
            Call::TakeRegionLease(scope) => Input::RegionLeaseAnswered(self.acquire_lease(&scope, 0).await),
            Call::PollCloud => Input::CloudEvents(self.poll_cloud().await),
            Call::ListInstances { asked, lease } => Input::Listed { asked, answer: self.list_instances(&lease).await },
            Call::ReadListing { asked, scope, clusters } => self.read_listing(asked, scope, clusters).await,
            Call::ReadInterruptions { scope, after, within } => {
                Input::InterruptionsRead(self.store.interruptions(&scope, after, clock::duration(within)).await)
            }
            Call::PollInstanceStatus(scope) => Input::InstanceStatusPolled(self.poll_instance_status(&scope).await),
            Call::Audit(entry) => {
                if let Err(error) = self.store.append_audit(&entry).await {
                    warn!(%error, what = entry.what, scope = entry.scope, "cannot write audit entry");
                }
                Input::Done
            }
            Call::PublishOfferings { scope, updates, holder } => {
                self.publish_offerings(&scope, updates, &holder).await;
                Input::Done
            }
            Call::ClaimProbes { cluster, scope, keys, holder, until } => {
                self.claim_probes(cluster, &scope, keys, &holder, until).await
            }
            Call::SyncCounters { generation, update, within } => {
                let acknowledged = match update {
                    Some(update) if self.publish_counters(generation, &update).await => Some(update),
                    _ => None,
                };
                let answer = self.store.remote_counters(&self.process_name(generation), within).await;
                Input::CountersSynced { acknowledged, answer }
            }
            Call::RunCommand { cluster, id, call, answer_by, lease } => {
                let outcome = if self.fence.allows(&lease) {
                    let (store, cloud) = (&*self.store, &*self.cloud);
                    let context = call_context(&call, answer_by, &self.fence, &lease);
                    let (fence, log, warnings) = (&*self.fence, &self.log, &self.launch_warnings);
                    let command_runner = CommandRunner { cluster: &cluster, store, cloud, fence, log, lease, warnings };
                    within(context, command_runner.run(call)).await
                } else {
                    Err(retry("the cluster's lease may have run out"))
                };
                Input::CommandEnded { cluster, id, outcome }
            }
        }
    }

    /// The listing that another replica has stored, as long as that is fresh.
    async fn read_listing(&self, asked: Timestamp, scope: Scope, clusters: Vec<ClusterName>) -> Input {
        let names: Vec<String> = clusters.iter().map(ToString::to_string).collect();
        let answer = self.store.latest_listing(&scope, &names).await;
        if let Ok(Some(listing)) = &answer {
            let listed = asked - clock::millis(listing.age);
            self.conditions.report(&Dependency::Listing(scope), Ok(()), listed);
        }
        Input::ListingRead { asked, clusters, answer }
    }

    /// Polls cloud events; `None` if the cloud does not answer: a later poll returns them. What calls the cloud logs that.
    async fn poll_cloud(&self) -> Option<Vec<CloudEvent>> {
        self.cloud.events().await.map(Option::unwrap_or_default).ok()
    }

    /// Writes outcomes of launches for the other replicas. A failure is logged.
    async fn publish_offerings(&self, scope: &Scope, updates: Vec<OfferingUpdate>, holder: &str) {
        let (region, account) = offerings::region_and_account(scope);
        let encode = |update| offerings::encode_update(update, account, holder);
        let changes: Vec<OfferingChange> = updates.into_iter().map(encode).collect();
        if let Err(error) = self.store.change_offerings(region, &changes).await {
            warn!(%error, offerings = changes.len(), "cannot publish outcomes of offerings to other replicas");
        }
    }

    /// Acquires the lease of a cluster. Fails if the cluster name is bound to another UID, or the
    /// UID to another name.
    async fn take_cluster_lease(
        &self,
        cluster: &ClusterName,
        agent_epoch: u64,
        uid: &str,
    ) -> Result<LeaseOutcome, StoreError> {
        if let Err(refusal) = check_identity(cluster, uid, &self.store.cluster_identities(cluster, uid).await?) {
            self.claim_uid(cluster, uid, refusal).await?;
        }
        let answer = self.acquire_lease(&Scope::cluster(cluster), agent_epoch).await?;
        if let LeaseOutcome::Granted { lease, .. } = &answer
            && !uid.is_empty()
        {
            let bound = self.store.bind_cluster_uid(lease, uid).await;
            // Two names of one UID may be checked at the same time.
            if matches!(bound, Err(StoreError::UidTaken { .. })) {
                self.release(std::slice::from_ref(lease)).await;
            }
            bound?;
        }
        Ok(answer)
    }

    /// A name whose agent is authenticated goes before another one that states its UID and that nothing proves.
    async fn claim_uid(&self, cluster: &ClusterName, uid: &str, refusal: StoreError) -> Result<(), StoreError> {
        let trust = self.names.trust(cluster, uid);
        if !matches!(refusal, StoreError::UidTaken { .. }) || trust == UidTrust::NotAuthenticated {
            return Err(refusal);
        }
        match self.store.claim_uid(cluster, uid, trust == UidTrust::Named).await? {
            UidClaim::Free => Ok(()),
            UidClaim::Yielded { from } => {
                warn!(%cluster, uid, from, "two names state one cluster UID; the other one is refused from now on");
                Ok(())
            }
            UidClaim::Proven { known } => {
                warn!(%cluster, uid, known, "two names state one cluster UID; this one is refused");
                Err(refusal)
            }
        }
    }

    async fn acquire_lease(&self, scope: &Scope, agent_epoch: u64) -> Result<LeaseOutcome, StoreError> {
        let (asked, LeaseConfig { owner, duration }) = (self.fence.now(), &self.lease);
        let answer = self.store.acquire_lease(scope, owner, agent_epoch, *duration).await;
        if let Ok(LeaseOutcome::Granted { lease, .. }) = &answer {
            self.fence.extend(lease, asked, *duration);
            self.held_leases.add(lease);
        }
        answer
    }

    /// Lists every instance of the region and stores the list for the replicas that own other
    /// clusters. If storing fails, only those replicas miss this listing.
    async fn list_instances(&self, lease: &Lease) -> Result<Vec<Instance>, ListingError> {
        if !self.fence.allows(lease) {
            return Err(ListingError::LeaseExpired);
        }
        let asked = self.fence.now();
        let all = self.cloud.list_all().await?;
        let rows: Vec<ListedInstanceRow> = all.iter().map(region::to_row).collect();
        if let Err(error) = self.store.put_listing(lease, self.fence.since(asked), &rows).await {
            warn!(%error, "cannot store instance listing for other replicas");
        }
        Ok(all)
    }

    /// Claims probes of offerings. Without an answer of the store the cluster asks again.
    async fn claim_probes(
        &self,
        cluster: ClusterName,
        scope: &Scope,
        keys: Vec<OfferingKey>,
        holder: &str,
        until: Timestamp,
    ) -> Input {
        let (region, account) = offerings::region_and_account(scope);
        let rows: Vec<_> = keys.iter().map(|key| offerings::encode_key(key, account)).collect();
        match self.store.claim_offering_probes(region, &rows, holder, clock::duration(PROBE_LEASE)).await {
            Ok(answers) => Input::ClusterEvent(offerings::answers_event(keys, answers, until).of(cluster)),
            Err(error) => {
                warn!(%cluster, %error, offerings = keys.len(), "cannot claim probes of offerings");
                Input::Done
            }
        }
    }

    /// Stores what the status of instances says. The text of a failure is the same while its cause is.
    async fn poll_instance_status(&self, scope: &Scope) -> Result<(), String> {
        let notices = self.cloud.status_notices().await.map_err(|error| error.to_string())?;
        if notices.is_empty() {
            return Ok(());
        }
        let rows: Vec<InterruptionRow> = notices.iter().map(interruptions::row).collect();
        let written = self.store.put_interruptions(scope, &rows).await;
        written.map(drop).map_err(|error| error.to_string())
    }

    /// The name of this process generation in the store.
    fn process_name(&self, generation: u64) -> String {
        format!("{}/{generation:x}", self.lease.owner)
    }

    /// Publishes this process's counters; returns whether the store took them.
    pub(crate) async fn publish_counters(&self, generation: u64, update: &CounterUpdate) -> bool {
        let written = self.store.put_counters(&self.process_name(generation), update.machines, &update.rows).await;
        if let Err(error) = &written {
            warn!(%error, "cannot publish fleet counters; retrying");
        }
        written.is_ok()
    }

    /// Reads the recent launches of the cluster. If the store fails, the rate limits start empty:
    /// making decisions is worth more than exact limits.
    async fn past_attempts(&self, cluster: &ClusterName) -> Vec<RecentAttempt> {
        let within = clock::duration(RESTORE_WINDOW);
        let answer = self.store.recent_attempts(&Scope::cluster(cluster), within).await;
        answer.unwrap_or_else(|error| {
            warn!(%cluster, %error, "cannot read recent launches; rate limits start empty");
            Vec::new()
        })
    }

    /// Reads what consolidation has moved lately in the cluster. If the store fails, pods may be moved again.
    async fn recent_moves(&self, cluster: &ClusterName, within: Millis) -> Vec<String> {
        let answer = self.store.recent_moves(&Scope::cluster(cluster), clock::duration(within)).await;
        answer.unwrap_or_else(|error| {
            warn!(%cluster, %error, "cannot read recent moves; pods may be moved again");
            Vec::new()
        })
    }

    pub(crate) fn renewer(&self) -> LeaseRenewer {
        LeaseRenewer {
            store: Arc::clone(&self.store),
            fence: Arc::clone(&self.fence),
            held_leases: Arc::clone(&self.held_leases),
            duration: self.lease.duration,
            conditions: Arc::clone(&self.conditions),
        }
    }

    /// Stops renewing a lease that was lost or is released; no call begins under it any more.
    pub(super) fn end_lease(&self, lease: &Lease) {
        self.held_leases.remove(lease);
        self.fence.end(lease);
    }

    /// Releases leases in the store and stops renewing them.
    pub async fn release(&self, leases: &[Lease]) {
        leases.iter().for_each(|lease| self.held_leases.remove(lease));
        if let Err(error) = self.store.release_leases(leases).await {
            warn!(%error, leases = leases.len(), "cannot release leases; they expire");
        }
    }
}

/// How urgent the calls of a command are. Calls that change something wait for their rate limit and are sent only if the
/// lease still allows it; a launch is as urgent as its order, and no pod waits for other calls.
fn call_context(call: &ClusterCall, answer_by: Timestamp, fence: &Arc<Fence>, lease: &Lease) -> CallContext {
    let lane = match call {
        ClusterCall::Launch(order) => order.lane,
        ClusterCall::Relaunch(decided) => decided.machine.launch.lane,
        ClusterCall::ConfirmNotices(_) => PriorityLane::Interruption,
        _ => PriorityLane::Pending,
    };
    let left = clock::duration(answer_by.duration_since(clock::now())).saturating_sub(TIME_FOR_ANSWER);
    let context = CallContext::new(lane, Instant::now() + left);
    match call {
        ClusterCall::Launch(_) | ClusterCall::Relaunch(_) | ClusterCall::Terminate { .. } => {
            let (fence, lease) = (Arc::clone(fence), lease.clone());
            context.only_if(move || fence.allows(&lease))
        }
        _ => context,
    }
}

/// Runs one command under the lease of its cluster.
struct CommandRunner<'h> {
    cluster: &'h ClusterName,
    store: &'h dyn Store,
    cloud: &'h dyn CloudProvider,
    fence: &'h Fence,
    log: &'h DecisionLog,
    lease: Lease,
    warnings: &'h LaunchWarnings,
}

impl CommandRunner<'_> {
    async fn run(&self, call: ClusterCall) -> Outcome {
        match call {
            ClusterCall::RecordDecision(decision) => self.record(&decision).await,
            ClusterCall::Launch(order) => self.launch(&order).await,
            ClusterCall::Relaunch(decided) => self.relaunch(&decided).await,
            ClusterCall::Describe { claim, attempt, provider_id } => self.describe(claim, attempt, provider_id).await,
            ClusterCall::ResolveNodeClass(query) => {
                let resolved = Box::new(self.cloud.resolve_node_class(&query).await);
                Ok(Some(Event::NodeClassResolved { query, resolved }))
            }
            ClusterCall::Inspect { cluster_uid, provider_id, .. } => {
                let found = self.inspect(Owner { cluster: self.cluster, uid: &cluster_uid }, &provider_id).await?;
                Ok(Some(Event::Inspected { provider_id, found }))
            }
            ClusterCall::ConfirmNotices(asked) => {
                let answer = self.ask_about_notices(&asked).await;
                Ok(Some(Event::NoticesAnswered { asked, answer }))
            }
            ClusterCall::RecordLaunched { claim, attempt, provider_id } => {
                self.settle_launched(&claim, attempt, &provider_id).await
            }
            ClusterCall::CloseLaunch(claim) => self.close(&claim).await,
            ClusterCall::EndReplacements { claims, waits, at } => {
                let end = replacements::encode_end(&claims, waits, at);
                self.store.end_replacements(&self.lease, &end).await.map_err(retry)?;
                Ok(None)
            }
            ClusterCall::WriteHold { hold, status } => {
                let row = holds::encode_status(&hold, &status);
                self.store.write_hold(&self.lease, &row).await.map_err(retry)?;
                log_hold(&hold, &status);
                Ok(None)
            }
            ClusterCall::PersistCounts(counts) => self.put_extent(counts).await,
            ClusterCall::RecordCosts(intervals) => {
                self.store.put_costs(&self.lease, &intervals).await.map_err(retry)?;
                Ok(Some(Event::CostsRecorded))
            }
            ClusterCall::Terminate { cluster_uid, claim, provider_id } => {
                self.terminate(&cluster_uid, claim, provider_id).await
            }
        }
    }

    async fn record(&self, decision: &Decision) -> Outcome {
        let entry = records::entry(decision, |order| self.cloud.terms(&LaunchRequest::from(order)));
        self.log.record(self.store, &self.lease, decision, entry).await.map_err(retry)?;
        log_decision(decision);
        Ok(Some(Event::Recorded(decision.id)))
    }

    async fn settle_launched(&self, claim: &ClaimName, attempt: u32, provider_id: &ProviderId) -> Outcome {
        let settlement = AttemptOutcome::Launched { provider_id: provider_id.to_string() };
        self.store.finish_attempt(&self.lease, claim, attempt, &settlement).await.map_err(retry)?;
        Ok(None)
    }

    async fn put_extent(&self, extent: ObjectCounts) -> Outcome {
        self.store.put_extent(&self.lease, &intents::to_observed_extent(extent)).await.map_err(retry)?;
        Ok(None)
    }

    async fn close(&self, claim: &ClaimName) -> Outcome {
        self.store.close_intents(&self.lease, &[claim.to_string()]).await.map_err(retry)?;
        Ok(None)
    }

    /// Ends the attempt before, records the next one, and launches it, in this order: the row of an
    /// attempt exists before its call.
    async fn relaunch(&self, decided: &DecidedLaunch) -> Outcome {
        let order = &decided.machine.launch;
        let ended = AttemptOutcome::Failed { why: "another attempt follows".to_owned() };
        let before = order.attempt.saturating_sub(1);
        self.store.finish_attempt(&self.lease, &order.claim, before, &ended).await.map_err(retry)?;
        let intent = intents::encode(decided, |order| self.cloud.terms(&LaunchRequest::from(order)));
        if let Err(error) = self.store.begin_attempt(&self.lease, &intent).await {
            return Ok(Some(launch_failed(order, attempt_failure(error)?)));
        }
        if !self.fence.allows(&self.lease) {
            return Err(retry("the cluster's lease may have run out"));
        }
        self.launch(order).await
    }

    async fn describe(&self, claim: ClaimName, attempt: u32, provider_id: ProviderId) -> Outcome {
        Ok(Some(match self.cloud.describe(instance_id(&provider_id)).await {
            Ok(instance) if instance.state != InstanceState::Terminated => {
                let unavailable = Vec::new();
                launched(claim, attempt, LaunchOutcome { instance, unavailable })
            }
            Ok(_) => Event::InstanceGone(provider_id),
            Err(CloudError::NotFound { .. }) => Event::Inspected { provider_id, found: Inspection::Unknown },
            Err(error) => return Err(retry_after(&error)),
        }))
    }

    /// Describes one instance and checks whether its tags name `owner`.
    async fn inspect(&self, owner: Owner<'_>, provider_id: &ProviderId) -> Result<Inspection, Retry> {
        match self.cloud.describe(instance_id(provider_id)).await {
            Ok(instance) if instance.state == InstanceState::Terminated => Ok(Inspection::Ended),
            Ok(instance) if instance.owned_by(owner).is_err() => Ok(Inspection::Foreign),
            Ok(_) => Ok(Inspection::Runs),
            Err(CloudError::NotFound { .. }) => Ok(Inspection::Unknown),
            Err(error) => Err(retry_after(&error)),
        }
    }

    /// What the cloud says itself about instances that notices name. A failure is an answer: what warnings are about ends
    /// soon.
    async fn ask_about_notices(&self, asked: &[(ProviderId, InterruptionKind)]) -> NoticeAnswer {
        let by_id = asked.iter().map(|(id, kind)| (Text::from(instance_id(id)), *kind));
        match self.cloud.shown_notices(&by_id.collect::<Vec<_>>()).await {
            Ok(Some(notices)) => {
                let ids: BTreeMap<&str, &ProviderId> = asked.iter().map(|(id, _)| (instance_id(id), id)).collect();
                let of = |notice: Notice| Some(((*ids.get(&*notice.instance)?).clone(), notice.kind));
                NoticeAnswer::Shown(notices.into_iter().filter_map(of).collect())
            }
            Ok(None) => NoticeAnswer::NotAsked,
            Err(error) => {
                let (cluster, notices) = (self.cluster, asked.len());
                warn!(%cluster, %error, notices, "cannot ask the cloud about interruption notices");
                NoticeAnswer::Failed
            }
        }
    }

    async fn launch(&self, order: &LaunchOrder) -> Outcome {
        match self.cloud.launch(&LaunchRequest::from(order)).await {
            Ok(outcome) => {
                let provider_id = outcome.instance.provider_id.to_string();
                log_launch(order, &outcome);
                self.settle_outcome(order, &AttemptOutcome::Launched { provider_id }).await;
                Ok(Some(launched(order.claim.clone(), order.attempt, outcome)))
            }
            Err(error) => {
                let failure = launch_failure(&error, order.repeats)?;
                self.warnings.log(order, &failure, &error, clock::now());
                self.settle_outcome(order, &AttemptOutcome::Failed { why: format!("{failure:?}") }).await;
                Ok(Some(launch_failed(order, failure)))
            }
        }
    }

    /// Records how a launch ended. If that fails, the row stays open and is reconciled after a
    /// restart.
    async fn settle_outcome(&self, order: &LaunchOrder, outcome: &AttemptOutcome) {
        if let Err(error) = self.store.finish_attempt(&self.lease, &order.claim, order.attempt, outcome).await {
            warn!(cluster = %order.cluster, claim = %order.claim, %error, attempt = order.attempt, "cannot record launch outcome");
        }
    }

    async fn terminate(&self, uid: &str, claim: ClaimName, provider_id: ProviderId) -> Outcome {
        let cluster = self.cluster;
        match self.cloud.terminate(instance_id(&provider_id), Owner { cluster, uid }).await {
            // The termination has begun.
            Ok(()) => {
                info!(%cluster, node_claim = %claim, instance = %provider_id, "instance terminating");
                Ok(None)
            }
            Err(CloudError::NotFound { .. }) => self.confirm_terminated(provider_id).await,
            Err(foreign @ CloudError::Foreign { .. }) => {
                warn!(%cluster, %claim, reason = %foreign, "refusing to terminate instance tagged for another owner");
                Ok(Some(Event::TerminateRefused { claim, provider_id }))
            }
            Err(error) => Err(retry_after(&error)),
        }
    }

    /// Called when terminating an instance returned NotFound: either the cloud confirms that it has
    /// terminated, or the cloud does not know it, which is also the answer of a wrong account.
    async fn confirm_terminated(&self, provider_id: ProviderId) -> Outcome {
        match self.cloud.describe(instance_id(&provider_id)).await {
            Ok(instance) if instance.state == InstanceState::Terminated => Ok(Some(Event::InstanceGone(provider_id))),
            Ok(_) => Err(retry("the cloud reported the instance as missing, but describes it as existing")),
            Err(CloudError::NotFound { .. }) => Ok(Some(Event::Inspected { provider_id, found: Inspection::Unknown })),
            Err(error) => Err(retry_after(&error)),
        }
    }
}

/// A decision that is durable, with the number that `fleetwright replay` takes.
fn log_decision(decision: &Decision) {
    let Decision { cluster, id, reason, .. } = decision;
    let summary = views::summary(decision);
    match decision.unplaced.first() {
        None => info!(%cluster, decision = id.0, kind = reason.as_str(), summary, "decision recorded"),
        Some(pod) => {
            let why = pod.reasons.first().map(|reason| reason.message.as_str()).unwrap_or_default();
            warn!(
                %cluster, decision = id.0, kind = reason.as_str(), summary, pod = %pod.pod, why,
                "decision recorded; pods unschedulable"
            );
        }
    }
}

fn log_hold(hold: &HoldId, status: &HoldStatus) {
    let HoldStatus { places, ready, message, end } = status;
    let nodes = places.len();
    match end {
        None => info!(%hold, ready, nodes, message = &**message, "hold changed"),
        Some(end) => info!(%hold, end = ?end, message = &**message, "hold ended"),
    }
}

fn log_launch(order: &LaunchOrder, LaunchOutcome { instance, unavailable }: &LaunchOutcome) {
    let LaunchOrder { cluster, claim, attempt, .. } = order;
    info!(
        %cluster, node_claim = %claim, attempt, instance = %instance.provider_id, instance_type = %instance.instance_type,
        zone = %instance.zone, capacity_type = instance.capacity_type.as_str(), unavailable_offerings = unavailable.len(),
        "instance launched"
    );
}

/// The event of a launch that produced an instance.
fn launched(claim: ClaimName, attempt: u32, outcome: LaunchOutcome) -> Event {
    let LaunchOutcome { instance, unavailable } = outcome;
    Event::Launched(Box::new(Launched {
        claim,
        attempt,
        provider_id: instance.provider_id,
        instance_type: instance.instance_type,
        zone: instance.zone,
        capacity_type: instance.capacity_type,
        image: instance.details.image,
        unavailable,
    }))
}

fn launch_failed(order: &LaunchOrder, failure: LaunchFailure) -> Event {
    Event::LaunchFailed { claim: order.claim.clone(), attempt: order.attempt, failure }
}

/// The definitive failure that a launch error proves. When an earlier call of the same attempt may
/// have taken effect (`repeats`), a refusal proves nothing: the cloud checks permissions and limits
/// before it looks up the client token. Such a launch is retried until the cloud answers it or its
/// time is up.
fn launch_failure(error: &CloudError, repeats: bool) -> Result<LaunchFailure, Retry> {
    match error.as_launch_failure() {
        Some(LaunchFailure::Refused { .. }) if repeats => Err(retry_after(error)),
        Some(failure) => Ok(failure),
        None => Err(retry_after(error)),
    }
}

fn retry_after(error: &CloudError) -> Retry {
    let after = match error {
        CloudError::RequestLimitExceeded { retry_after_ms } => Some(Millis::new(*retry_after_ms)),
        _ => None,
    };
    Retry { after, why: error.to_string() }
}

fn retry(why: impl ToString) -> Retry {
    Retry { after: None, why: why.to_string() }
}

/// The failure of a launch whose attempt can never be recorded; without it the NodeClaim would wait
/// for an instance forever. Other store errors are retried.
fn attempt_failure(error: StoreError) -> Result<LaunchFailure, Retry> {
    match error {
        StoreError::AttemptRefused { .. } => {
            Ok(LaunchFailure::Refused { code: "AttemptRefused".into(), message: error.to_string(), retryable: false })
        }
        other => Err(retry(other)),
    }
}

#[cfg(test)]
mod tests;
