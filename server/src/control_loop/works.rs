//! Calls that wait for somebody, and what becomes of their answers.

use std::sync::Arc;
use std::time::Duration;

use cloud::provider::{
    CloudError, CloudEvent, CloudProvider, Instance, InstanceState, LaunchRequest, Owner, instance_id,
};
use engine::control::guardrails::quarantine::Extent;
use engine::control::guardrails::restore::RECALLED_MS;
use engine::control::unavailable_offerings::UnavailableOffering;
use engine::control::{DecidedLaunch, Decision, Inspection, LaunchFailure, LaunchOrder};
use executor::{Command, Outcome};
use tracing::warn;

use super::exchange::CounterUpdate;
use super::fence::Fence;
use super::keeper::{Renewer, Roster};
use super::replica::{Call, Input};
use super::{intents, records, region};
use crate::config::LeaseConfig;
use crate::log::DecisionLog;
use crate::store::lease::{Identity, Lease, LeaseAnswer, Scope};
use crate::store::listing::ListedMachine;
use crate::store::rails::OfferingEntry;
use crate::store::undertaking::{PastAttempt, Settlement};
use crate::store::{Store, StoreError};

/// What calls are made with.
pub(crate) struct Hands<C> {
    /// What survives.
    pub(crate) store: Arc<dyn Store>,
    /// Where machines come from.
    pub(crate) cloud: Arc<C>,
    /// Ownership of clusters.
    pub(crate) lease: LeaseConfig,
    /// Whether leases may still be acted on.
    pub(crate) fence: Arc<Fence>,
    /// The leases that are held, for whoever renews them.
    pub(crate) roster: Arc<Roster>,
    /// What decisions are repeated from.
    pub(crate) log: DecisionLog,
}

impl<C: CloudProvider + 'static> Hands<C> {
    /// Makes a call, however long it takes.
    pub(crate) async fn make(&self, call: Call) -> Input {
        match call {
            Call::TakeLease { cluster, seen, uid } => {
                let answer = self.take_cluster(&cluster, seen, &uid).await;
                let past = if matches!(answer, Ok(LeaseAnswer::Granted { .. })) {
                    self.past(&cluster).await
                } else {
                    Vec::new()
                };
                Input::Leased { cluster, answer, past }
            }
            Call::Renew(leases) => Input::Renewed(self.renewer().renew(&leases).await),
            Call::Release(leases) => {
                self.release(&leases).await;
                Input::Told
            }
            Call::AskFor(scope) => {
                if let Err(error) = self.store.ask_for(&scope, &self.lease.owner).await {
                    warn!(%scope, %error, "its holder could not be told that it is wanted here");
                }
                Input::Told
            }
            Call::TakeRegion(scope) => Input::RegionTaken(self.take_lease(&scope, 0).await),
            Call::AskCloud => Input::CloudTold(cloud_events(&*self.cloud).await),
            Call::List { asked, lease } => Input::Listed { asked, answer: self.list(&lease).await },
            Call::ReadListing { asked, scope, clusters } => {
                let names: Vec<String> = clusters.iter().map(ToString::to_string).collect();
                Input::Overheard { asked, clusters, answer: self.store.last_listing(&scope, &names).await }
            }
            Call::Audit(entry) => {
                if let Err(error) = self.store.audit(&entry).await {
                    warn!(%error, what = entry.what, scope = entry.scope, "cannot write a line of audit");
                }
                Input::Told
            }
            Call::Remember { region, refusals } => {
                let entries: Vec<OfferingEntry> = refusals.iter().map(offering).collect();
                if let Err(error) = self.store.remember_offerings(&region, &entries).await {
                    warn!(%error, "other replicas are not told of {} offerings that are refused", entries.len());
                }
                Input::Told
            }
            Call::CounterSync { life, telling, within } => {
                let taken = match telling {
                    Some(telling) if self.tell(life, &telling).await => Some(telling),
                    _ => None,
                };
                Input::Exchanged { taken, answer: self.store.shares_elsewhere(&self.process(life), within).await }
            }
            Call::Run { id, command, lease, .. } => {
                let outcome = match lease.filter(|lease| self.fence.allows(lease)) {
                    Some(lease) => {
                        let (store, cloud) = (&*self.store, &*self.cloud);
                        let errand = Errand { store, cloud, fence: &self.fence, log: &self.log, lease };
                        errand.run(command).await
                    }
                    None => again("the cluster's lease is not held, or may have run out"),
                };
                Input::Ran { id, outcome }
            }
        }
    }

    /// Takes the lease of a cluster, unless its name belongs to the cluster of another UID.
    async fn take_cluster(&self, cluster: &str, seen: u64, uid: &str) -> Result<LeaseAnswer, StoreError> {
        let known = self.store.cluster_identity(cluster).await?;
        if let Some(Identity { uid: known, owner }) = known.filter(|known| known.uid != uid) {
            let (cluster, shown) = (cluster.to_owned(), uid.to_owned());
            return Err(StoreError::NameTaken { cluster, known, owner, shown });
        }
        let answer = self.take_lease(&Scope::cluster(cluster), seen).await?;
        if let LeaseAnswer::Granted { lease, .. } = &answer
            && !uid.is_empty()
        {
            self.store.keep_identity(lease, uid).await?;
        }
        Ok(answer)
    }

    async fn take_lease(&self, scope: &Scope, seen: u64) -> Result<LeaseAnswer, StoreError> {
        let (asked, LeaseConfig { owner, duration }) = (self.fence.now(), &self.lease);
        let answer = self.store.take_lease(scope, owner, seen, *duration).await;
        if let Ok(LeaseAnswer::Granted { lease, .. }) = &answer {
            self.fence.extend(lease, asked, *duration);
            self.roster.add(lease);
        }
        answer
    }

    /// Every machine of the region, which is kept for the replicas that decide for other clusters. One that could not be kept
    /// is missed by them alone.
    async fn list(&self, lease: &Lease) -> Result<Vec<Instance>, String> {
        if !self.fence.allows(lease) {
            return Err("the region's lease may have run out".to_owned());
        }
        let asked = self.fence.now();
        let all = self.cloud.list_all().await.map_err(|error| error.to_string())?;
        let rows: Vec<ListedMachine> = all.iter().map(region::row).collect();
        if let Err(error) = self.store.keep_listing(lease, self.fence.since(asked), &rows).await {
            warn!(%error, "the listing of the region's machines could not be kept for other replicas");
        }
        Ok(all)
    }

    /// A life of this process, as others tell it from all others.
    fn process(&self, life: u64) -> String {
        format!("{}/{life:x}", self.lease.owner)
    }

    /// Whether the store took what this process tells the others.
    pub(crate) async fn tell(&self, life: u64, telling: &CounterUpdate) -> bool {
        let told = self.store.tell_shares(&self.process(life), telling.machines, &telling.rows).await;
        if let Err(error) = &told {
            warn!(%error, "other replicas are not told what came and went here; telling it again");
        }
        told.is_ok()
    }

    /// What was launched in the cluster lately. Without an answer the rails begin empty, which is better than nobody's
    /// deciding.
    async fn past(&self, cluster: &str) -> Vec<PastAttempt> {
        let within = Duration::from_millis(RECALLED_MS.unsigned_abs());
        let answer = self.store.past_attempts(&Scope::cluster(cluster), within).await;
        answer.unwrap_or_else(|error| {
            warn!(%cluster, %error, "past launches cannot be read; its caps begin empty");
            Vec::new()
        })
    }

    /// What renews leases.
    pub(crate) fn renewer(&self) -> Renewer {
        let (store, fence, roster) = (Arc::clone(&self.store), Arc::clone(&self.fence), Arc::clone(&self.roster));
        Renewer { store, fence, roster, duration: self.lease.duration }
    }

    /// Gives leases back.
    pub(crate) async fn release(&self, leases: &[Lease]) {
        leases.iter().for_each(|lease| self.roster.remove(lease));
        if let Err(error) = self.store.release_leases(leases).await {
            warn!(%error, "leases could not be given back; they run out by themselves");
        }
    }
}

/// What a command needs.
struct Errand<'h, C> {
    store: &'h dyn Store,
    cloud: &'h C,
    fence: &'h Fence,
    log: &'h DecisionLog,
    /// The lease of the command's cluster.
    lease: Lease,
}

impl<C: CloudProvider> Errand<'_, C> {
    async fn run(&self, command: Command) -> Outcome {
        match command {
            Command::Record(decision) => self.record(&decision).await,
            Command::Launch(order) => self.launch(&order).await,
            Command::Relaunch(decided) => self.relaunch(&decided).await,
            Command::Describe { provider_id, .. } => self.describe(&provider_id).await,
            Command::Inspect { cluster, cluster_uid, provider_id, .. } => {
                self.inspect(Owner { cluster: &cluster, uid: &cluster_uid }, &provider_id).await
            }
            Command::Settle { claim, attempt, provider_id, .. } => self.bought(&claim, attempt, &provider_id).await,
            Command::Close { claim, .. } => self.close(&claim).await,
            Command::KeepExtent { extent, .. } => self.keep_extent(extent).await,
            Command::Terminate { cluster, cluster_uid, claim, provider_id } => {
                self.terminate(Owner { cluster: &cluster, uid: &cluster_uid }, &claim, &provider_id).await
            }
            // Instructions go through the sessions, which keep them until they are answered.
            Command::Instruct { .. } => again("an instruction is no errand"),
        }
    }

    async fn record(&self, decision: &Decision) -> Outcome {
        let entry = records::entry(decision, |order| self.cloud.terms(&LaunchRequest::from(order)));
        match self.log.record(self.store, &self.lease, decision, entry).await {
            Ok(()) => Outcome::Done,
            Err(error) => again(error),
        }
    }

    async fn bought(&self, claim: &str, attempt: u32, provider_id: &str) -> Outcome {
        let settlement = Settlement::Launched { provider_id: provider_id.to_owned() };
        match self.store.settle(&self.lease, claim, attempt, &settlement).await {
            Ok(()) => Outcome::Done,
            Err(error) => again(error),
        }
    }

    async fn keep_extent(&self, extent: Extent) -> Outcome {
        match self.store.keep_extent(&self.lease, &intents::observed(extent)).await {
            Ok(()) => Outcome::Done,
            Err(error) => again(error),
        }
    }

    async fn close(&self, claim: &str) -> Outcome {
        match self.store.close_intents(&self.lease, &[claim.to_owned()]).await {
            Ok(()) => Outcome::Done,
            Err(error) => again(error),
        }
    }

    /// Writes the next attempt down, after the end of the one before it, and makes it.
    async fn relaunch(&self, decided: &DecidedLaunch) -> Outcome {
        let order = &decided.machine.launch;
        let ended = Settlement::Failed { why: "another attempt follows".to_owned() };
        let before = order.attempt.saturating_sub(1);
        if let Err(error) = self.store.settle(&self.lease, &order.claim, before, &ended).await {
            return again(error);
        }
        let intent = intents::encode(decided, |order| self.cloud.terms(&LaunchRequest::from(order)));
        if let Err(error) = self.store.begin_attempt(&self.lease, &intent).await {
            return not_begun(error);
        }
        if !self.fence.allows(&self.lease) {
            return again("the cluster's lease may have run out");
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
                sold_out: Vec::new(),
            },
            Ok(_) => Outcome::Done,
            Err(CloudError::NotFound { .. }) => Outcome::Found(Inspection::Unknown),
            Err(error) => later(&error),
        }
    }

    /// What the cloud says of one machine, and whether its tags are `owner`'s.
    async fn inspect(&self, owner: Owner<'_>, provider_id: &str) -> Outcome {
        match self.cloud.describe(instance_id(provider_id)).await {
            Ok(instance) if instance.state == InstanceState::Terminated => Outcome::Found(Inspection::Ended),
            Ok(instance) if instance.owned_by(owner).is_err() => Outcome::Found(Inspection::Foreign),
            Ok(_) => Outcome::Found(Inspection::Runs),
            Err(CloudError::NotFound { .. }) => Outcome::Found(Inspection::Unknown),
            Err(error) => later(&error),
        }
    }

    async fn launch(&self, order: &LaunchOrder) -> Outcome {
        let outcome = match self.cloud.launch(&LaunchRequest::from(order)).await {
            Ok(launched) => Outcome::Launched {
                provider_id: launched.instance.provider_id,
                instance_type: launched.instance.instance_type,
                zone: launched.instance.zone,
                capacity_type: launched.instance.capacity_type,
                sold_out: launched.sold_out.into_iter().map(|option| (option.instance_type, option.zone)).collect(),
            },
            Err(error) => not_launched(&error, order.repeats),
        };
        self.settle(order, &outcome).await;
        outcome
    }

    /// Writes down how a launch ended. A row that is missed stays open and is looked at again after a restart.
    async fn settle(&self, order: &LaunchOrder, outcome: &Outcome) {
        let settlement = match outcome {
            Outcome::Launched { provider_id, .. } => Settlement::Launched { provider_id: provider_id.to_string() },
            Outcome::LaunchFailed(failure) => Settlement::Failed { why: format!("{failure:?}") },
            _ => return,
        };
        if let Err(error) = self.store.settle(&self.lease, &order.claim, order.attempt, &settlement).await {
            warn!(cluster = %order.cluster, claim = %order.claim, %error, "the end of a launch could not be written down");
        }
    }

    async fn terminate(&self, owner: Owner<'_>, claim: &str, provider_id: &str) -> Outcome {
        let cluster = owner.cluster;
        match self.cloud.terminate(instance_id(provider_id), owner).await {
            Ok(()) => Outcome::Begun,
            Err(CloudError::NotFound { .. }) => self.ended(provider_id).await,
            Err(foreign @ CloudError::Foreign { .. }) => {
                warn!(cluster, claim, reason = %foreign, "a NodeClaim names a machine of somebody else");
                Outcome::Refused(foreign.to_string())
            }
            Err(error) => later(&error),
        }
    }

    /// A machine that cannot be terminated because there is none: either the cloud states that it has ended, or it does not know
    /// it, which may also be the answer of another account.
    async fn ended(&self, provider_id: &str) -> Outcome {
        match self.cloud.describe(instance_id(provider_id)).await {
            Ok(instance) if instance.state == InstanceState::Terminated => Outcome::Done,
            Ok(_) => again("the machine is there after all"),
            Err(CloudError::NotFound { .. }) => Outcome::Found(Inspection::Unknown),
            Err(error) => later(&error),
        }
    }
}

/// What follows from the error of a launch. When an earlier call of the same attempt may have been carried out (`repeats`), a
/// refusal proves nothing: the cloud checks permissions and limits before it looks for the machine that has the token. Such a
/// launch is asked for again, until the cloud answers it or its time is up.
fn not_launched(error: &CloudError, repeats: bool) -> Outcome {
    match error.as_launch_failure() {
        Some(LaunchFailure::Refused { .. }) if repeats => later(error),
        Some(failure) => Outcome::LaunchFailed(failure),
        None => later(error),
    }
}

fn later(error: &CloudError) -> Outcome {
    let after_ms = match error {
        CloudError::RequestLimitExceeded { retry_after_ms } => Some(*retry_after_ms),
        _ => None,
    };
    Outcome::TryAgain { after_ms, why: error.to_string() }
}

fn again(why: impl ToString) -> Outcome {
    Outcome::TryAgain { after_ms: None, why: why.to_string() }
}

/// An attempt that could not be written down. One that never can be has ended: it is the launch's end, or its NodeClaim would
/// wait for a machine for ever.
fn not_begun(error: StoreError) -> Outcome {
    match error {
        StoreError::AttemptRefused { .. } => Outcome::LaunchFailed(LaunchFailure::Refused {
            code: "AttemptRefused".into(),
            message: error.to_string(),
            retryable: false,
        }),
        other => again(other),
    }
}

/// What has happened by itself; nothing when the cloud does not say, which then tells it next time.
async fn cloud_events<C: CloudProvider>(cloud: &C) -> Vec<CloudEvent> {
    cloud.events().await.unwrap_or_else(|error| {
        warn!(%error, "the cloud does not tell what has happened; asking again");
        Vec::new()
    })
}

fn offering(refusal: &UnavailableOffering) -> OfferingEntry {
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
    fn an_attempt_that_can_never_be_written_down_ends_its_launch_and_a_store_that_is_away_does_not() {
        let refused = StoreError::AttemptRefused {
            scope: Scope::cluster("blue"),
            claim: "web-1".to_owned(),
            attempt: 2,
            why: "the attempt before it has not failed".to_owned(),
        };
        let Outcome::LaunchFailed(LaunchFailure::Refused { message, retryable, .. }) = not_begun(refused) else {
            panic!("it is sent again");
        };
        assert!(!retryable && message.contains("web-1"), "{message}");
        let away = StoreError::Server { what: "begin an attempt", why: "cut".to_owned() };
        assert!(matches!(not_begun(away), Outcome::TryAgain { .. }));
    }

    #[test]
    fn a_refusal_ends_a_launch_only_if_no_earlier_call_may_have_bought_the_machine() {
        let refused = CloudError::Refused {
            operation: "CreateFleet".into(),
            code: "UnauthorizedOperation".into(),
            message: "no permission".to_owned(),
        };
        assert!(matches!(not_launched(&refused, false), Outcome::LaunchFailed(LaunchFailure::Refused { .. })));
        assert!(matches!(not_launched(&refused, true), Outcome::TryAgain { .. }));
    }
}
