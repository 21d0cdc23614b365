//! What outcomes are counted about.

use crate::CapacityPool;
use model::{CapacityType, InstanceTypeName, Text};

/// What outcomes are counted about: a capacity pool, or several that are likely to share their shortages.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Scope {
    pub capacity_type: CapacityType,
    /// The account, where outcomes hold for one account only.
    pub account: Option<Text>,
    pub extent: Extent,
}

/// Which capacity pools of a capacity type a scope has.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Extent {
    All,
    /// Those of the zone with this id.
    Zone(Text),
    /// Those of the zone and instance family.
    Family(Text, Text),
    /// The one of the zone and instance type.
    Pool(Text, InstanceTypeName),
}

impl Scope {
    /// The scope of `pool` alone.
    pub(crate) fn of(pool: &CapacityPool) -> Self {
        let extent = Extent::Pool(pool.zone.clone(), pool.instance_type.clone());
        Self { capacity_type: pool.capacity_type, account: pool.account.clone(), extent }
    }

    /// All scopes that `pool` belongs to, the widest first.
    pub(crate) fn all_of(pool: &CapacityPool) -> [Self; 4] {
        let family = Extent::Family(pool.zone.clone(), pool.family().into());
        let wider = |extent| Self { extent, ..Self::of(pool) };
        [wider(Extent::All), wider(Extent::Zone(pool.zone.clone())), wider(family), Self::of(pool)]
    }
}
