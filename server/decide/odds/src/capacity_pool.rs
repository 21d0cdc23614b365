//! What launches compete for.

use model::{CapacityType, InstanceTypeName, Text};

/// Unused instances of one instance type in one zone, as one capacity type: what EC2 calls a capacity pool.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CapacityPool {
    /// Id of the zone, such as `use1-az1`: the name of a zone differs from account to account.
    pub zone: Text,
    /// Instance type, such as `m5.large`.
    pub instance_type: InstanceTypeName,
    pub capacity_type: CapacityType,
    /// The account, where outcomes hold for one account only: reservations, quotas, and zones whose id is not known.
    pub account: Option<Text>,
}

impl CapacityPool {
    /// Family of the instance type: `m5` of `m5.large`.
    #[must_use]
    pub fn family(&self) -> &str {
        self.instance_type.split_once('.').map_or(&**self.instance_type, |(family, _)| family)
    }
}
