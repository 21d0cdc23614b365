//! Runs calls to the store and the cloud and turns their results into inputs.

use std::sync::Arc;
use std::time::Duration;

use cloud::provider::{
    CloudError, CloudEvent, CloudProvider, Instance, InstanceState, LaunchRequest, Owner, instance_id,
};
use engine::control::guardrails::quarantine::ObjectCounts;
use engine::control::guardrails::restore::RESTORE_WINDOW_MS;
use engine::control::unavailable_offerings::UnavailableOffering;
use engine::control::{DecidedLaunch, Decision, Inspection, LaunchFailure, LaunchOrder};
use executor::{Command, Outcome};
use tracing::warn;

use super::counter_sync::CounterUpdate;
use super::fence::Fence;
use super::lease_renewal::{HeldLeases, LeaseRenewer};
use super::replica::{Call, Input};
use super::{intents, records, region};
use crate::config::LeaseConfig;
use crate::log::DecisionLog;
use crate::store::guardrails::OfferingEntry;
use crate::store::lease::{Identity, Lease, LeaseOutcome, Scope};
use crate::store::listing::ListedInstanceRow;
use crate::store::operations::{AttemptOutcome, RecentAttempt};
use crate::store::{Store, StoreError};

/// Runs the calls of a [`super::replica::Replica`].
pub(crate) struct CallRunner<C> {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) cloud: Arc<C>,
    /// Lease owner name and duration.
    pub(crate) lease: LeaseConfig,
    /// Local expiry of the leases.
    pub(crate) fence: Arc<Fence>,
    /// The leases held, shared with the renewal thread.
    pub(crate) held_leases: Arc<HeldLeases>,
    /// The decision log, from which decisions are replayed.
    pub(crate) log: DecisionLog,
}

impl<C: CloudProvider + 'static> CallRunner<C> {
    /// Runs a call to its end, without a time limit.
    pub(crate) async fn run(&self, call: Call) -> Input {
        // A command runs only under a lease that the fence still allows; every other call names its own.
        match call {
            Call::TakeLease { cluster, agent_epoch, uid } => {
                let answer = self.take_cluster_lease(&cluster, agent_epoch, &uid).await;
                let past_attempts = if matches!(answer, Ok(LeaseOutcome::Granted { .. })) {
                    self.past_attempts(&cluster).await
                } else {
                    Vec::new()
                };
                Input::LeaseAnswered { cluster, answer, past: past_attempts }
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
            Call::PollCloud => Input::CloudEvents(fetch_cloud_events(&*self.cloud).await),
            Call::ListInstances { asked, lease } => Input::Listed { asked, answer: self.list_instances(&lease).await },
            Call::ReadListing { asked, scope, clusters } => {
                let names: Vec<String> = clusters.iter().map(ToString::to_string).collect();
                Input::ListingRead { asked, clusters, answer: self.store.latest_listing(&scope, &names).await }
            }
            Call::Audit(entry) => {
                if let Err(error) = self.store.append_audit(&entry).await {
                    warn!(%error, what = entry.what, scope = entry.scope, "cannot write audit entry");
                }
                Input::Done
            }
            Call::PublishUnavailableOfferings { region, refusals } => {
                let entries: Vec<OfferingEntry> = refusals.iter().map(offering_entry).collect();
                if let Err(error) = self.store.put_unavailable_offerings(&region, &entries).await {
                    warn!(%error, offerings = entries.len(), "cannot publish unavailable offerings to other replicas");
                }
                Input::Done
            }
            Call::SyncCounters { generation, update, within } => {
                let acknowledged = match update {
                    Some(update) if self.publish_counters(generation, &update).await => Some(update),
                    _ => None,
                };
                Input::CountersSynced {
                    acknowledged,
                    answer: self.store.remote_counters(&self.process_name(generation), within).await,
                }
            }
            Call::RunCommand { id, command, lease, .. } => {
                let outcome = match lease.filter(|lease| self.fence.allows(lease)) {
                    Some(lease) => {
                        let (store, cloud) = (&*self.store, &*self.cloud);
                        let command_runner = CommandRunner { store, cloud, fence: &self.fence, log: &self.log, lease };
                        command_runner.run(command).await
                    }
                    None => retry("the cluster's lease is not held, or may have run out"),
                };
                Input::CommandEnded { id, outcome }
            }
        }
    }

    /// Acquires the lease of a cluster. Fails if the cluster name is bound to another UID.
    async fn take_cluster_lease(&self, cluster: &str, agent_epoch: u64, uid: &str) -> Result<LeaseOutcome, StoreError> {
        let known = self.store.cluster_identity(cluster).await?;
        if let Some(Identity { uid: known, owner }) = known.filter(|known| known.uid != uid) {
            let (cluster, shown) = (cluster.to_owned(), uid.to_owned());
            return Err(StoreError::NameTaken { cluster, known, owner, shown });
        }
        let answer = self.acquire_lease(&Scope::cluster(cluster), agent_epoch).await?;
        if let LeaseOutcome::Granted { lease, .. } = &answer
            && !uid.is_empty()
        {
            self.store.bind_cluster_uid(lease, uid).await?;
        }
        Ok(answer)
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
    async fn list_instances(&self, lease: &Lease) -> Result<Vec<Instance>, String> {
        if !self.fence.allows(lease) {
            return Err("the region's lease may have run out".to_owned());
        }
        let asked = self.fence.now();
        let all = self.cloud.list_all().await.map_err(|error| error.to_string())?;
        let rows: Vec<ListedInstanceRow> = all.iter().map(region::to_row).collect();
        if let Err(error) = self.store.put_listing(lease, self.fence.since(asked), &rows).await {
            warn!(%error, "cannot store instance listing for other replicas");
        }
        Ok(all)
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
    async fn past_attempts(&self, cluster: &str) -> Vec<RecentAttempt> {
        let within = Duration::from_millis(RESTORE_WINDOW_MS.unsigned_abs());
        let answer = self.store.recent_attempts(&Scope::cluster(cluster), within).await;
        answer.unwrap_or_else(|error| {
            warn!(%cluster, %error, "cannot read recent launches; rate limits start empty");
            Vec::new()
        })
    }

    pub(crate) fn renewer(&self) -> LeaseRenewer {
        let (store, fence, held_leases) =
            (Arc::clone(&self.store), Arc::clone(&self.fence), Arc::clone(&self.held_leases));
        LeaseRenewer { store, fence, held_leases, duration: self.lease.duration }
    }

    /// Releases leases in the store and stops renewing them.
    pub(crate) async fn release(&self, leases: &[Lease]) {
        leases.iter().for_each(|lease| self.held_leases.remove(lease));
        if let Err(error) = self.store.release_leases(leases).await {
            warn!(%error, leases = leases.len(), "cannot release leases; they expire");
        }
    }
}

/// Runs one command under the lease of its cluster.
struct CommandRunner<'h, C> {
    store: &'h dyn Store,
    cloud: &'h C,
    fence: &'h Fence,
    log: &'h DecisionLog,
    lease: Lease,
}

impl<C: CloudProvider> CommandRunner<'_, C> {
    async fn run(&self, command: Command) -> Outcome {
        match command {
            Command::RecordDecision(decision) => self.record(&decision).await,
            Command::Launch(order) => self.launch(&order).await,
            Command::Relaunch(decided) => self.relaunch(&decided).await,
            Command::Describe { provider_id, .. } => self.describe(&provider_id).await,
            Command::Inspect { cluster, cluster_uid, provider_id, .. } => {
                self.inspect(Owner { cluster: &cluster, uid: &cluster_uid }, &provider_id).await
            }
            Command::RecordLaunched { claim, attempt, provider_id, .. } => {
                self.settle_launched(&claim, attempt, &provider_id).await
            }
            Command::CloseLaunch { claim, .. } => self.close(&claim).await,
            Command::PersistCounts { counts, .. } => self.put_extent(counts).await,
            Command::Terminate { cluster, cluster_uid, claim, provider_id } => {
                self.terminate(Owner { cluster: &cluster, uid: &cluster_uid }, &claim, &provider_id).await
            }
            // Instructions are sent by sessions, which keep them until they are answered.
            Command::Instruct { .. } => retry("instructions are delivered by sessions, not by the call runner"),
        }
    }

    async fn record(&self, decision: &Decision) -> Outcome {
        let entry = records::entry(decision, |order| self.cloud.terms(&LaunchRequest::from(order)));
        match self.log.record(self.store, &self.lease, decision, entry).await {
            Ok(()) => Outcome::Done,
            Err(error) => retry(error),
        }
    }

    async fn settle_launched(&self, claim: &str, attempt: u32, provider_id: &str) -> Outcome {
        let settlement = AttemptOutcome::Launched { provider_id: provider_id.to_owned() };
        match self.store.finish_attempt(&self.lease, claim, attempt, &settlement).await {
            Ok(()) => Outcome::Done,
            Err(error) => retry(error),
        }
    }

    async fn put_extent(&self, extent: ObjectCounts) -> Outcome {
        match self.store.put_extent(&self.lease, &intents::to_observed_extent(extent)).await {
            Ok(()) => Outcome::Done,
            Err(error) => retry(error),
        }
    }

    async fn close(&self, claim: &str) -> Outcome {
        match self.store.close_intents(&self.lease, &[claim.to_owned()]).await {
            Ok(()) => Outcome::Done,
            Err(error) => retry(error),
        }
    }

    /// Ends the attempt before, records the next one, and launches it, in this order: the row of an
    /// attempt exists before its call.
    async fn relaunch(&self, decided: &DecidedLaunch) -> Outcome {
        let order = &decided.machine.launch;
        let ended = AttemptOutcome::Failed { why: "another attempt follows".to_owned() };
        let before = order.attempt.saturating_sub(1);
        if let Err(error) = self.store.finish_attempt(&self.lease, &order.claim, before, &ended).await {
            return retry(error);
        }
        let intent = intents::encode(decided, |order| self.cloud.terms(&LaunchRequest::from(order)));
        if let Err(error) = self.store.begin_attempt(&self.lease, &intent).await {
            return begin_failure_outcome(error);
        }
        if !self.fence.allows(&self.lease) {
            return retry("the cluster's lease may have run out");
        }
        self.launch(order).await
    }

    async fn describe(&self, provider_id: &str) -> Outcome {
        match self.cloud.describe(instance_id(provider_id)).await {
            Ok(instance) if instance.state != InstanceState::Terminated => Outcome::Launched {
                provider_id: instance.provider_id,
                instance_type: instance.instance_type,
                zone: instance.zone,
                capacity_type: instance.capacity_type,
                unavailable: Vec::new(),
            },
            Ok(_) => Outcome::Done,
            Err(CloudError::NotFound { .. }) => Outcome::Found(Inspection::Unknown),
            Err(error) => retry_after(&error),
        }
    }

    /// Describes one instance and checks whether its tags name `owner`.
    async fn inspect(&self, owner: Owner<'_>, provider_id: &str) -> Outcome {
        match self.cloud.describe(instance_id(provider_id)).await {
            Ok(instance) if instance.state == InstanceState::Terminated => Outcome::Found(Inspection::Ended),
            Ok(instance) if instance.owned_by(owner).is_err() => Outcome::Found(Inspection::Foreign),
            Ok(_) => Outcome::Found(Inspection::Runs),
            Err(CloudError::NotFound { .. }) => Outcome::Found(Inspection::Unknown),
            Err(error) => retry_after(&error),
        }
    }

    async fn launch(&self, order: &LaunchOrder) -> Outcome {
        let outcome = match self.cloud.launch(&LaunchRequest::from(order)).await {
            Ok(launched) => Outcome::Launched {
                provider_id: launched.instance.provider_id,
                instance_type: launched.instance.instance_type,
                zone: launched.instance.zone,
                capacity_type: launched.instance.capacity_type,
                unavailable: launched
                    .unavailable
                    .into_iter()
                    .map(|option| (option.instance_type, option.zone))
                    .collect(),
            },
            Err(error) => launch_failure_outcome(&error, order.repeats),
        };
        self.settle_outcome(order, &outcome).await;
        outcome
    }

    /// Records how a launch ended. If that fails, the row stays open and is reconciled after a
    /// restart.
    async fn settle_outcome(&self, order: &LaunchOrder, outcome: &Outcome) {
        let settlement = match outcome {
            Outcome::Launched { provider_id, .. } => AttemptOutcome::Launched { provider_id: provider_id.to_string() },
            Outcome::LaunchFailed(failure) => AttemptOutcome::Failed { why: format!("{failure:?}") },
            _ => return,
        };
        if let Err(error) = self.store.finish_attempt(&self.lease, &order.claim, order.attempt, &settlement).await {
            warn!(cluster = %order.cluster, claim = %order.claim, %error, attempt = order.attempt, "cannot record launch outcome");
        }
    }

    async fn terminate(&self, owner: Owner<'_>, claim: &str, provider_id: &str) -> Outcome {
        let cluster = owner.cluster;
        match self.cloud.terminate(instance_id(provider_id), owner).await {
            Ok(()) => Outcome::Begun,
            Err(CloudError::NotFound { .. }) => self.confirm_terminated(provider_id).await,
            Err(foreign @ CloudError::Foreign { .. }) => {
                warn!(cluster, claim, reason = %foreign, "refusing to terminate instance tagged for another owner");
                Outcome::Refused(foreign.to_string())
            }
            Err(error) => retry_after(&error),
        }
    }

    /// Called when terminating an instance returned NotFound: either the cloud confirms that it has
    /// terminated, or the cloud does not know it, which is also the answer of a wrong account.
    async fn confirm_terminated(&self, provider_id: &str) -> Outcome {
        match self.cloud.describe(instance_id(provider_id)).await {
            Ok(instance) if instance.state == InstanceState::Terminated => Outcome::Done,
            Ok(_) => retry("the cloud reported the instance as missing, but describes it as existing"),
            Err(CloudError::NotFound { .. }) => Outcome::Found(Inspection::Unknown),
            Err(error) => retry_after(&error),
        }
    }
}

/// Maps a launch error to an outcome. When an earlier call of the same attempt may have taken
/// effect (`repeats`), a refusal proves nothing: the cloud checks permissions and limits before it
/// looks up the client token. Such a launch is retried until the cloud answers it or its time is
/// up.
fn launch_failure_outcome(error: &CloudError, repeats: bool) -> Outcome {
    match error.as_launch_failure() {
        Some(LaunchFailure::Refused { .. }) if repeats => retry_after(error),
        Some(failure) => Outcome::LaunchFailed(failure),
        None => retry_after(error),
    }
}

fn retry_after(error: &CloudError) -> Outcome {
    let after_ms = match error {
        CloudError::RequestLimitExceeded { retry_after_ms } => Some(*retry_after_ms),
        _ => None,
    };
    Outcome::TryAgain { after_ms, why: error.to_string() }
}

fn retry(why: impl ToString) -> Outcome {
    Outcome::TryAgain { after_ms: None, why: why.to_string() }
}

/// Maps a failure to record an attempt. If the attempt can never be recorded, the launch fails;
/// otherwise its NodeClaim would wait for an instance forever.
fn begin_failure_outcome(error: StoreError) -> Outcome {
    match error {
        StoreError::AttemptRefused { .. } => Outcome::LaunchFailed(LaunchFailure::Refused {
            code: "AttemptRefused".into(),
            message: error.to_string(),
            retryable: false,
        }),
        other => retry(other),
    }
}

/// Polls cloud events; none if the poll fails, because the next poll returns them.
async fn fetch_cloud_events<C: CloudProvider>(cloud: &C) -> Vec<CloudEvent> {
    cloud.events().await.unwrap_or_else(|error| {
        warn!(%error, "cannot read cloud events; retrying");
        Vec::new()
    })
}

fn offering_entry(refusal: &UnavailableOffering) -> OfferingEntry {
    OfferingEntry {
        instance_type: refusal.instance_type.to_string(),
        zone: refusal.zone.to_string(),
        capacity_type: refusal.capacity_type.as_str().to_owned(),
        until_ms: refusal.until.0,
        reason: "the cloud had no capacity".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_attempt_that_the_store_rejects_ends_its_launch_and_a_store_failure_does_not() {
        let refused = StoreError::AttemptRefused {
            scope: Scope::cluster("blue"),
            claim: "web-1".to_owned(),
            attempt: 2,
            why: "the attempt before it has not failed".to_owned(),
        };
        let Outcome::LaunchFailed(LaunchFailure::Refused { message, retryable, .. }) = begin_failure_outcome(refused)
        else {
            panic!("the launch must fail, not be retried");
        };
        assert!(!retryable && message.contains("web-1"), "{message}");
        let unreachable = StoreError::Server { what: "begin an attempt", why: "cut".to_owned() };
        assert!(matches!(begin_failure_outcome(unreachable), Outcome::TryAgain { .. }));
    }

    #[test]
    fn a_refusal_ends_a_launch_only_if_no_earlier_call_may_have_launched_the_instance() {
        let refused = CloudError::Refused {
            operation: "CreateFleet".into(),
            code: "UnauthorizedOperation".into(),
            message: "no permission".to_owned(),
        };
        assert!(matches!(
            launch_failure_outcome(&refused, false),
            Outcome::LaunchFailed(LaunchFailure::Refused { .. })
        ));
        assert!(matches!(launch_failure_outcome(&refused, true), Outcome::TryAgain { .. }));
    }
}
