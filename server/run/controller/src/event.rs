//! Events that the controller handles.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::guardrails::fleet_counters::LocalCounters;
use super::guardrails::{Freeze, ObjectCounts, RecentLaunch};
use super::holds::CapacityHold;
use super::unavailable_offerings::{OfferingKey, ProbeAnswer, UnavailableOffering};
use super::{DecisionId, InstructionId, Listing, OpenLaunch, PlanAnswer};
use cluster::replacement::ReplacementsRead;
use cluster::{DecidedMoves, Observation};
use cost::CostInterval;
use model::interruption::InterruptionKind;
use model::node_class::{NodeClassQuery, ResolvedNodeClass};
use model::{
    CapacityType, ClaimName, ClusterFacts, ClusterName, InstanceTypeName, LaunchFailure, ProviderId, RefusedOption,
    Text, Timestamp, Zone,
};

/// An event of one cluster, for its [`ClusterController`](super::ClusterController).
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    Observed(Observation),
    /// The agent connected; its snapshot follows.
    AgentConnected,
    /// The agent reported what new nodes need to join the cluster. Precedes `AgentConnected`.
    ClusterFactsReported {
        /// The facts; those that cannot be used are empty.
        facts: Arc<ClusterFacts>,
        /// Why each of those cannot be used.
        refused: Vec<Text>,
    },
    /// The agent disconnected. Operations in progress continue; no decision is made until it
    /// reconnects.
    AgentDisconnected,
    /// A plan was computed or rejected.
    Planned(Box<PlanAnswer>),
    /// A decision is durable and may be executed.
    Recorded(DecisionId),
    Launched(Box<Launched>),
    /// A launch failed definitively: no instance exists for this attempt.
    LaunchFailed {
        claim: ClaimName,
        attempt: u32,
        failure: LaunchFailure,
    },
    /// An instance does not exist (any more), regardless of what terminated it.
    InstanceGone(ProviderId),
    /// The cloud answered a question about one instance.
    Inspected {
        provider_id: ProviderId,
        found: Inspection,
    },
    /// An EC2NodeClass was resolved.
    NodeClassResolved {
        query: Box<NodeClassQuery>,
        resolved: Box<ResolvedNodeClass>,
    },
    /// The cloud refused to terminate an instance: its tags name another cluster.
    TerminateRefused {
        /// The NodeClaim whose instance was to be terminated.
        claim: ClaimName,
        provider_id: ProviderId,
    },
    InstructionAcked(InstructionId),
    /// An agent, or its API server, refused an instruction definitively.
    InstructionFailed {
        instruction: InstructionId,
        /// Error of the agent or the API server.
        reason: String,
        /// The precondition of the instruction does not hold, and execution has not begun.
        unmet: bool,
    },
    /// The cloud announced, or reported, that an instance ends or fails.
    Interrupted {
        provider_id: ProviderId,
        kind: InterruptionKind,
        /// When it ends, as far as the cloud has set a time.
        ends: Option<Timestamp>,
    },
    /// The cloud answered what it says itself about instances that notices name.
    NoticesAnswered {
        /// Provider ids of the instances, and what the notices say.
        asked: Vec<(ProviderId, InterruptionKind)>,
        answer: NoticeAnswer,
    },
    /// The store answered the request for probes.
    ProbesAnswered {
        answers: Vec<(OfferingKey, ProbeAnswer)>,
        /// When granted probes end.
        until: Timestamp,
    },
    /// An operator confirmed the snapshot of the quarantined cluster.
    QuarantineReleased,
    /// An operator confirmed the waiting removals.
    RemovalsConfirmed,
    /// Recent launches by any owner: those of the last [`RESTORE_WINDOW`](super::guardrails::RESTORE_WINDOW), and all that
    /// are not closed. Precedes `LeaseAcquired`.
    LaunchHistoryLoaded(Vec<RecentLaunch>),
    /// What consolidation moved under earlier owners: decided removals, oldest first. Precedes `LeaseAcquired`.
    MovesLoaded(Vec<DecidedMoves>),
    /// Object counts as the previous owner persisted them. Precedes `LeaseAcquired`.
    CountsLoaded(ObjectCounts),
    /// Replacements under way as the previous owner recorded them. Precedes `LeaseAcquired`.
    ReplacementsLoaded(Box<ReplacementsRead>),
    /// What machines have cost is written.
    CostsRecorded,
    /// The last interval of each machine that ran when the previous owner wrote what they cost. Precedes `LeaseAcquired`.
    CostsLoaded(Vec<CostInterval>),
    /// All live holds, as the store has them. Precedes `LeaseAcquired`, and follows a client's command.
    HoldsChanged {
        /// Order of the list among all lists of holds: of two lists the one with the higher number is newer.
        read: u64,
        /// The holds; one that is missing has ended.
        holds: Vec<CapacityHold>,
    },
    /// The lease of the cluster was acquired. Precedes the acceptance of its agent.
    LeaseAcquired {
        /// UID of the cluster; empty when unknown.
        uid: Text,
        /// Unfinished launches of the previous owner.
        launches: Vec<OpenLaunch>,
    },
    /// The cloud listed the instances of the cluster.
    Listed(Box<Listing>),
    /// Time passed.
    Tick,
}

impl Event {
    /// This event, of `cluster`.
    #[must_use]
    pub fn of(self, cluster: impl Into<ClusterName>) -> ClusterEvent {
        ClusterEvent { cluster: cluster.into(), event: self }
    }
}

/// An event, and the cluster that it concerns, where those of several clusters travel together.
#[derive(Debug, Clone, PartialEq)]
pub struct ClusterEvent {
    pub cluster: ClusterName,
    pub event: Event,
}

/// An event that concerns all clusters of a region, for [`RegionState::apply`](super::RegionState::apply).
#[derive(Debug, Clone, PartialEq)]
pub enum RegionEvent {
    /// The complete list of active freezes.
    FreezesChanged(Vec<Freeze>),
    /// What the store has of offerings that the cloud refused to any replica of the region, or launched again.
    OfferingsUnavailable(Vec<UnavailableOffering>),
    /// Launch and removal counters of all other replicas, replacing the previous ones.
    RemoteCounters {
        /// Machines in clusters of other replicas, without those whose removal is decided.
        machines: usize,
        /// Counters of each time bucket, oldest first.
        parts: Vec<(Timestamp, LocalCounters)>,
    },
}

/// What the cloud says itself about instances that notices name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NoticeAnswer {
    Shown(BTreeSet<(ProviderId, InterruptionKind)>),
    /// This cloud shows nothing of the kind, and no queue that others may send to has its notices.
    NotAsked,
    /// It could not be asked.
    Failed,
}

impl NoticeAnswer {
    /// Whether a notice of this kind about the instance is followed. One that ends at a time that is near is, if the cloud
    /// does not answer: the pods have no other time.
    #[must_use]
    pub fn confirms(&self, provider_id: &ProviderId, kind: InterruptionKind) -> bool {
        let has_ended = [InterruptionKind::InstanceStopped, InterruptionKind::InstanceTerminated];
        match self {
            Self::Shown(shown) => {
                [kind].iter().chain(&has_ended).any(|kind| shown.contains(&(provider_id.clone(), *kind)))
            }
            Self::NotAsked => true,
            Self::Failed => !has_ended.contains(&kind) && kind != InterruptionKind::ScheduledChange,
        }
    }
}

/// The cloud's answer about one instance, by its id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Inspection {
    /// It has not ended.
    Runs,
    /// It has ended, as the cloud states.
    Ended,
    /// The cloud does not know the id.
    Unknown,
    /// It has not ended, and its tags name another cluster.
    Foreign,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Launched {
    pub claim: ClaimName,
    pub attempt: u32,
    /// Provider id, such as `aws:///<zone>/<instance id>`.
    pub provider_id: ProviderId,
    pub instance_type: InstanceTypeName,
    pub zone: Zone,
    pub capacity_type: CapacityType,
    /// Id of the image; empty when the cloud did not say it.
    pub image: Text,
    /// Options of the same capacity type that were tried first and refused.
    pub unavailable: Vec<RefusedOption>,
}
