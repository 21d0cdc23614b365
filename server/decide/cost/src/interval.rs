//! What a machine cost in a part of an hour.

use model::{CapacityType, ClaimName, InstanceTypeName, MicroUsd, PoolName, ProviderId, Timestamp, Zone};

use crate::CostParts;

/// A machine and what reports group its cost by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CostedMachine {
    pub claim: ClaimName,
    pub pool: PoolName,
    pub provider_id: ProviderId,
    pub instance_type: InstanceTypeName,
    pub zone: Zone,
    pub capacity_type: CapacityType,
    /// Price per hour.
    pub price: MicroUsd,
    /// Number of the decision that launched it, if it is known.
    pub launched_by: Option<u64>,
    /// The decision that removes it to save its price.
    pub removed_by: Option<SavingDecision>,
    /// Whose moved pods it was launched for, no decision twice. Empty for a machine of a decision that saves.
    pub moved: Vec<MovedShare>,
}

/// The share of a machine that was launched for pods which an earlier decision has moved to save the price of their machines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MovedShare {
    pub decision: u64,
    /// Share of what all pods request that the machine was launched for, in parts per million.
    pub ppm: u32,
}

/// A decision that removes machines to save their price.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SavingDecision {
    pub number: u64,
    /// When it was made.
    pub at: Timestamp,
}

/// What a machine cost from one time to another one in the same hour (UTC). The first of those of a machine begins with its
/// launch, and each other one where the one before ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CostInterval {
    pub machine: CostedMachine,
    /// Since when it costs this price: charges are differences of sums since then.
    pub launched: Timestamp,
    /// When the interval begins.
    pub start: Timestamp,
    pub end: Timestamp,
    /// What it cost, in micro-dollars by cause.
    pub parts: CostParts,
    /// Whether the machine ran on at its end.
    pub is_running: bool,
}
