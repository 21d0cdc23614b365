//! What is ordered from the cloud, and why an order fails.

use std::sync::Arc;

use crate::{
    CapacityType, ClaimName, ClusterName, InstanceTypeName, LaunchTemplateInput, MicroUsd, PoolName, PriorityLane,
    Text, Zone,
};

/// An instance to launch. A retry with unknown outcome sends the identical order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LaunchOrder {
    /// The cluster of the NodeClaim.
    pub cluster: ClusterName,
    /// UID of that cluster, for the instance's tags; empty when unknown.
    pub cluster_uid: Text,
    /// The NodeClaim of the instance.
    pub claim: ClaimName,
    /// Attempt, from 1; a definitive failure begins the next one.
    pub attempt: u32,
    /// Client token `<claim>-<attempt>`: the cloud launches one instance per token.
    pub token: Text,
    /// NodePool of the NodeClaim.
    pub pool: PoolName,
    /// EC2NodeClass of the NodePool.
    pub node_class: Text,
    /// Capacity type of all options.
    pub capacity_type: CapacityType,
    /// 1 to 60 launch options, best first.
    pub options: Vec<LaunchOption>,
    /// Capacity reservation to use.
    pub reservation: Option<Text>,
    /// Settings that the cloud provider added when the order was recorded (subnets, launch
    /// template, tags), in its own encoding; empty until then, and for providers without any.
    pub terms: Text,
    /// What the instance is configured by; `None` when the cluster has not said it, and for orders of an
    /// earlier process, whose terms say it.
    pub template: Option<Arc<LaunchTemplateInput>>,
    /// How urgent the launch is. It is no part of the cloud's request.
    pub lane: PriorityLane,
    /// An earlier call of this attempt may have succeeded without its answer arriving. A failure of
    /// this call then does not prove that no instance exists.
    pub repeats: bool,
}

/// One launch option of an order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LaunchOption {
    /// Name of the instance type.
    pub instance_type: InstanceTypeName,
    /// Name of the zone.
    pub zone: Zone,
    /// What it counts per hour, for the record: [`Offering::charged_price`](crate::Offering::charged_price).
    pub price: MicroUsd,
}

/// Cause of a definitive launch failure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LaunchFailure {
    /// Insufficient capacity for these (instance type, zone) in the order's capacity type; for all
    /// options of the order when empty.
    InsufficientCapacity {
        /// Options that were tried.
        unavailable: Vec<RefusedOption>,
    },
    /// The cloud rejected the request.
    Refused {
        /// Error code of the cloud.
        code: Text,
        /// Error message of the cloud.
        message: String,
        /// The next attempt for the same NodeClaim, with another token, may succeed.
        retryable: bool,
    },
}

/// An option that the cloud had no instance for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefusedOption {
    /// Name of the instance type.
    pub instance_type: InstanceTypeName,
    /// Name of the zone.
    pub zone: Zone,
    /// Whom the refusal concerns.
    pub cause: RefusalCause,
    /// Error code of the cloud.
    pub code: Text,
    /// What an operator has to do about it, as a clause; `None` when there is nothing to do but to wait.
    pub remedy: Option<Text>,
}

/// Whom the refusal of an option concerns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum RefusalCause {
    /// The zone has no capacity of the instance type, for any account.
    Capacity,
    /// The account may not have more: a quota, the addresses of a subnet, or a missing role.
    Account,
}

impl RefusedOption {
    /// An option without capacity (EC2: `InsufficientInstanceCapacity`).
    #[must_use]
    pub fn without_capacity(instance_type: InstanceTypeName, zone: Zone) -> Self {
        let code = Text::from("InsufficientInstanceCapacity");
        Self { instance_type, zone, cause: RefusalCause::Capacity, code, remedy: None }
    }
}
