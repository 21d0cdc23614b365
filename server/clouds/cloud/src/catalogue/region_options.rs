//! The region of a catalogue, and the operator's settings for it.

use std::collections::BTreeMap;

use model::{InstanceTypeName, MicroUsd, Zone};

/// Region, and the operator's settings for all its instance types.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RegionOptions<'a> {
    /// Name of the region, such as `us-east-1`.
    pub region: &'a str,
    /// Zones named by the input; used only where the snapshot has no zones for the region.
    pub extra_zones: &'a [Zone],
    /// Prices of types without another price (a NodeOverlay that prices a preview type).
    pub preview_prices: BTreeMap<InstanceTypeName, MicroUsd>,
    /// Spot price in thousandths of the on-demand price where neither a spot price nor the region's
    /// own share is known.
    pub spot_per_mille: i64,
    /// Whether a pool permits spot; otherwise spot estimates get no note.
    pub spot_wanted: bool,
    /// Network interfaces reserved by custom networking (`RESERVED_ENIS`).
    pub reserved_enis: i64,
    /// Share of memory, in thousandths, reserved by hypervisor and firmware
    /// (`VM_MEMORY_OVERHEAD_PERCENT`).
    pub memory_overhead_per_mille: i64,
}

impl<'a> RegionOptions<'a> {
    /// Options for `region` with Karpenter's defaults, and spot at 0.35 of on-demand where the
    /// catalogue has no share.
    #[must_use]
    pub fn new(region: &'a str) -> Self {
        Self {
            region,
            extra_zones: &[],
            preview_prices: BTreeMap::new(),
            spot_per_mille: 350,
            spot_wanted: true,
            reserved_enis: 0,
            memory_overhead_per_mille: 75,
        }
    }
}
