//! What can happen.

use super::guardrails::Freeze;
use super::guardrails::fleet_counters::LocalCounters;
use super::guardrails::quarantine::Extent;
use super::guardrails::restore::RecentLaunch;
use super::unavailable_offerings::UnavailableOffering;
use super::{ClusterId, DecisionId, InstructionId, Listing, OpenLaunch, PlanAnswer};
use crate::cluster::Observation;
use crate::model::{CapacityType, Text, Timestamp};

/// Something that happened.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// An agent told a fact.
    Observed {
        /// Where.
        cluster: ClusterId,
        /// What.
        observation: Observation,
    },
    /// An agent is there; its snapshot follows.
    AgentConnected {
        /// Whose agent.
        cluster: ClusterId,
    },
    /// An agent is gone. What is under way goes on; nothing is decided until it is back.
    AgentDisconnected {
        /// Whose agent.
        cluster: ClusterId,
    },
    /// A plan is there, or refused.
    Planned(Box<PlanAnswer>),
    /// A decision is durable and may be carried out.
    Recorded {
        /// Which.
        decision: DecisionId,
    },
    /// A machine is there.
    Launched(Box<Launched>),
    /// A launch failed for good: no machine exists for this attempt.
    LaunchFailed {
        /// Where.
        cluster: ClusterId,
        /// For which NodeClaim.
        claim: Text,
        /// Which attempt.
        attempt: u32,
        /// Why.
        failure: LaunchFailure,
    },
    /// A machine does not exist (any more): it was terminated by us, by the cloud or by somebody else.
    InstanceGone {
        /// Where.
        cluster: ClusterId,
        /// Its provider id.
        provider_id: Text,
    },
    /// The cloud was asked about one machine by its id.
    Inspected {
        /// Where.
        cluster: ClusterId,
        /// Its provider id.
        provider_id: Text,
        /// What the cloud said.
        found: Inspection,
    },
    /// The cloud will not give a machine back: its tags say that it is not this cluster's.
    TerminateRefused {
        /// Where.
        cluster: ClusterId,
        /// The NodeClaim that it was to be given back for.
        claim: Text,
        /// Its provider id.
        provider_id: Text,
    },
    /// An agent carried an instruction out.
    InstructionAcked {
        /// Where.
        cluster: ClusterId,
        /// Which.
        instruction: InstructionId,
    },
    /// An agent, or its API server, refused an instruction for good.
    InstructionFailed {
        /// Where.
        cluster: ClusterId,
        /// Which.
        instruction: InstructionId,
        /// Why.
        reason: String,
        /// Nothing was begun, since the precondition that the instruction names does not hold.
        unmet: bool,
    },
    /// The cloud takes a machine back soon (spot interruption, scheduled maintenance).
    Interrupted {
        /// Where.
        cluster: ClusterId,
        /// Its provider id.
        provider_id: Text,
        /// In a sentence, for the record.
        reason: Text,
    },
    /// These freezes are in force, and no others.
    FreezesChanged {
        /// All of them.
        freezes: Vec<Freeze>,
    },
    /// Another process that buys in the same place was refused these offerings.
    OfferingsRefused {
        /// Which, and until when they are left alone.
        refusals: Vec<UnavailableOffering>,
    },
    /// What all other processes of the fleet saw come and go lately, in place of what was heard of them before.
    RemoteCounters {
        /// Machines that nobody has decided to remove, in clusters that others decide for.
        machines: usize,
        /// What was seen in each part of time, oldest first.
        parts: Vec<(Timestamp, LocalCounters)>,
    },
    /// A person vouches for what the agent of a quarantined cluster tells.
    QuarantineReleased {
        /// Where.
        cluster: ClusterId,
    },
    /// A person confirms the removals that wait in a cluster at this moment.
    RemovalsConfirmed {
        /// Where.
        cluster: ClusterId,
    },
    /// What was launched in a cluster lately, by whoever decided for it. Comes before it is taken over.
    Recalled {
        /// Where.
        cluster: ClusterId,
        /// LaunchBackoff of the last [`RECALLED_MS`](super::guardrails::restore::RECALLED_MS) milliseconds, and those that are not
        /// closed.
        past: Vec<RecentLaunch>,
    },
    /// How much there was in a cluster, as its former keeper wrote it down. Comes before it is taken over.
    Remembered {
        /// Where.
        cluster: ClusterId,
        /// How much.
        extent: Extent,
    },
    /// The cluster's lease was taken: it is in our care from here on. Comes before its agent is welcome.
    Adopted {
        /// Which.
        cluster: ClusterId,
        /// What makes it this cluster; empty when nobody has said.
        uid: Text,
        /// What its former keeper left under way.
        launches: Vec<OpenLaunch>,
    },
    /// The cluster's lease is lost or given back: everything about it is forgotten.
    Released {
        /// Which.
        cluster: ClusterId,
    },
    /// The cloud has listed the cluster's machines.
    Listed {
        /// Whose.
        cluster: ClusterId,
        /// What.
        listing: Box<Listing>,
    },
    /// Time passed.
    Tick,
}

/// What the cloud says of one machine, asked by its id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Inspection {
    /// It has not ended.
    Runs,
    /// It has ended: the cloud states so.
    Ended,
    /// The cloud knows no such machine.
    Unknown,
    /// It has not ended, and its tags say that it is not this cluster's.
    Foreign,
}

/// A machine that was launched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Launched {
    /// Where.
    pub cluster: ClusterId,
    /// For which NodeClaim.
    pub claim: Text,
    /// Which attempt.
    pub attempt: u32,
    /// `aws:///<zone>/<instance id>` or what the cloud calls it.
    pub provider_id: Text,
    /// Instance type.
    pub instance_type: Text,
    /// Zone.
    pub zone: Text,
    /// How it is paid for.
    pub capacity_type: CapacityType,
    /// (Instance type, zone) of options that were tried before it under the same capacity type and were not to be had.
    pub sold_out: Vec<(Text, Text)>,
}

/// Why a launch failed for good.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LaunchFailure {
    /// None of these (instance type, zone) are to be had under the order's capacity type. All options of the order when
    /// empty.
    NoCapacity {
        /// What was tried and was not to be had.
        sold_out: Vec<(Text, Text)>,
    },
    /// The cloud refused the request.
    Refused {
        /// The cloud's code.
        code: Text,
        /// The cloud's words.
        message: String,
        /// The next attempt for the same NodeClaim, under another token, may succeed.
        retryable: bool,
    },
}
